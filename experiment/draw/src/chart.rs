//! Curves over axes that may be logarithmic, with horizontal lines to compare them to.

use super::svg::{Anchor, Svg, text_width};

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Values that are not positive are left out.
    Log,
}

/// One axis of a chart.
pub struct Axis<'a> {
    pub label: &'a str,
    pub scale: Scale,
    /// How a value reads at a tick.
    pub format: &'a dyn Fn(f64) -> String,
}

/// How the points of a series are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// By straight lines.
    Line,
    /// Each value stands until the next: for "the best so far".
    Step,
    /// Not at all.
    Points,
}

/// A named curve.
pub struct Series<'a> {
    pub name: &'a str,
    pub points: Vec<(f64, f64)>,
    pub join: Join,
}

/// A horizontal line, such as a limit.
pub struct Reference<'a> {
    pub name: &'a str,
    pub value: f64,
}

/// A chart; [`Chart::svg`] draws it.
pub struct Chart<'a> {
    pub title: &'a str,
    pub x: Axis<'a>,
    pub y: Axis<'a>,
    pub series: Vec<Series<'a>>,
    pub references: Vec<Reference<'a>>,
}

/// Colours that colour-blind readers can tell apart (M. Okabe, K. Ito, "Color Universal Design",
/// 2008).
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
const SIZE: (f64, f64) = (760.0, 420.0);
const LEFT: f64 = 92.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
const FONT: f64 = 12.0;
/// A chart with more points shows every k-th.
const MAX_POINTS: usize = 4000;

/// Maps values of an axis to 0…1.
struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Scale {
    fn place(self, value: f64) -> Option<f64> {
        match self {
            Scale::Linear => Some(value).filter(|value| value.is_finite()),
            Scale::Log => Some(value.log10()).filter(|log| log.is_finite()),
        }
    }
}

impl Span {
    /// Around all values, with some room at both ends; a linear one does not go below 0 for values
    /// that do not, and with `from_zero` starts there.
    fn around(scale: Scale, from_zero: bool, values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in values.filter_map(|value| scale.place(value)) {
            (low, high) = (low.min(place), high.max(place));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let room = match scale {
            Scale::Linear if high == low => low.abs().max(1.0) / 2.0,
            Scale::Log if high - low < 0.2 => 0.2,
            _ => 0.05 * (high - low),
        };
        let low = match scale {
            Scale::Linear if low >= 0.0 && from_zero => 0.0,
            Scale::Linear if low >= 0.0 => (low - room).max(0.0),
            _ => low - room,
        };
        Span { scale, low, high: high + room }
    }

    fn fraction(&self, value: f64) -> Option<f64> {
        let place = self.scale.place(value)?;
        Some((place - self.low) / (self.high - self.low))
    }

    /// About six round values.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = (self.low, self.high);
        if self.scale == Scale::Log {
            for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
                let decades = low.floor() as i32..=high.ceil() as i32;
                let ticks: Vec<f64> = decades
                    .flat_map(|decade| steps.iter().map(move |s| s * 10f64.powi(decade)))
                    .filter(|tick| (low..=high).contains(&tick.log10()))
                    .collect();
                if (2..=10).contains(&ticks.len()) {
                    return ticks;
                }
            }
            // A very narrow or a very wide range.
            return (0..=5).map(|i| 10f64.powf(low + (high - low) * f64::from(i) / 5.0)).collect();
        }
        let rough = (high - low) / 6.0;
        let unit = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * unit).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(10.0 * unit);
        let first = (low / step).ceil() as i64;
        (first..first + 12).map(|i| i as f64 * step).filter(|tick| *tick <= high).collect()
    }
}

impl Chart<'_> {
    /// The chart as an SVG of its own.
    pub fn svg(&self) -> String {
        let all = || self.series.iter().flat_map(|series| series.points.iter());
        let x = Span::around(self.x.scale, false, all().map(|point| point.0));
        let ys = all().map(|point| point.1).chain(self.references.iter().map(|r| r.value));
        let y = Span::around(self.y.scale, true, ys);
        let mut svg = Svg::new(SIZE.0, SIZE.1 + 20.0 * self.legend_rows());
        svg.text((SIZE.0 / 2.0, 24.0), Anchor::Middle, FONT + 3.0, self.title);
        self.draw_axes(&mut svg, &x, &y);
        let at = |(px, py): (f64, f64)| Some((x_pixel(x.fraction(px)?), y_pixel(y.fraction(py)?)));
        for (number, series) in self.series.iter().enumerate() {
            draw_series(&mut svg, series, COLOURS[number % COLOURS.len()], at);
        }
        for reference in &self.references {
            let Some(fraction) = y.fraction(reference.value) else { continue };
            let height = y_pixel(fraction);
            svg.line((LEFT, height), (SIZE.0 - RIGHT, height), "#666", 1.2, true);
            let text = format!("{}: {}", reference.name, (self.y.format)(reference.value));
            svg.text((SIZE.0 - RIGHT - 4.0, height - 4.0), Anchor::End, FONT - 1.0, &text);
        }
        self.draw_legend(&mut svg);
        svg.finish()
    }

    fn draw_axes(&self, svg: &mut Svg, x: &Span, y: &Span) {
        let (right, bottom) = (SIZE.0 - RIGHT, SIZE.1 - BOTTOM);
        for tick in y.ticks() {
            let Some(fraction) = y.fraction(tick) else { continue };
            let height = y_pixel(fraction);
            svg.line((LEFT, height), (right, height), "#e4e4e4", 1.0, false);
            let text = (self.y.format)(tick);
            svg.text((LEFT - 6.0, height + 4.0), Anchor::End, FONT - 1.0, &text);
        }
        for tick in x.ticks() {
            let Some(fraction) = x.fraction(tick) else { continue };
            let place = x_pixel(fraction);
            svg.line((place, bottom), (place, bottom + 5.0), "#444", 1.0, false);
            let text = (self.x.format)(tick);
            svg.text((place, bottom + 18.0), Anchor::Middle, FONT - 1.0, &text);
        }
        svg.line((LEFT, bottom), (right, bottom), "#444", 1.0, false);
        svg.line((LEFT, TOP), (LEFT, bottom), "#444", 1.0, false);
        let middle = (f64::midpoint(LEFT, right), SIZE.1 - 14.0);
        svg.text(middle, Anchor::Middle, FONT, self.x.label);
        let middle = (18.0, f64::midpoint(TOP, bottom));
        svg.turned_text(middle, Anchor::Middle, FONT, self.y.label, -90.0);
    }

    fn legend_places(&self) -> Vec<(f64, f64)> {
        let (mut x, mut row) = (LEFT, 0.0);
        let mut places = Vec::new();
        for series in &self.series {
            let width = text_width(series.name, FONT) + 44.0;
            if x + width > SIZE.0 && x > LEFT {
                (x, row) = (LEFT, row + 1.0);
            }
            places.push((x, row));
            x += width;
        }
        places
    }

    fn legend_rows(&self) -> f64 {
        self.legend_places().last().map_or(0.0, |(_, row)| row + 1.0)
    }

    fn draw_legend(&self, svg: &mut Svg) {
        for (number, (series, (x, row))) in self.series.iter().zip(self.legend_places()).enumerate()
        {
            let y = SIZE.1 + 8.0 + 20.0 * row;
            let colour = COLOURS[number % COLOURS.len()];
            svg.line((x, y - 4.0), (x + 20.0, y - 4.0), colour, 3.0, false);
            svg.text((x + 26.0, y), Anchor::Start, FONT, series.name);
        }
    }
}

fn x_pixel(fraction: f64) -> f64 {
    LEFT + fraction * (SIZE.0 - LEFT - RIGHT)
}

fn y_pixel(fraction: f64) -> f64 {
    SIZE.1 - BOTTOM - fraction * (SIZE.1 - TOP - BOTTOM)
}

fn draw_series(
    svg: &mut Svg,
    series: &Series<'_>,
    colour: &str,
    at: impl Fn((f64, f64)) -> Option<(f64, f64)>,
) {
    let every = series.points.len().div_ceil(MAX_POINTS).max(1);
    let last = series.points.len().saturating_sub(1);
    let thinned = series.points.iter().enumerate().filter(|(i, _)| i % every == 0 || *i == last);
    let points: Vec<(f64, f64)> = thinned.filter_map(|(_, &point)| at(point)).collect();
    match series.join {
        Join::Line => svg.polyline(&points, colour),
        Join::Step => {
            let corners = points.windows(2).map(|pair| (pair[1].0, pair[0].1));
            let mut joined: Vec<(f64, f64)> =
                points.iter().copied().zip(corners).flat_map(|(a, b)| [a, b]).collect();
            joined.extend(points.last());
            svg.polyline(&joined, colour);
        }
        Join::Points => {}
    }
    if series.join == Join::Points || points.len() <= 60 {
        points.iter().for_each(|&point| svg.circle(point, 2.6, colour));
    }
}

#[cfg(test)]
mod tests {
    use super::super::svg::assert_well_formed;
    use super::*;

    fn plain(value: f64) -> String {
        format!("{value:.3}")
    }

    fn chart(scale: Scale, points: Vec<(f64, f64)>, join: Join) -> String {
        let axis = |label| Axis { label, scale, format: &plain };
        Chart {
            title: "time & <run>",
            x: axis("x"),
            y: axis("y"),
            series: vec![Series { name: "curve", points, join }],
            references: vec![Reference { name: "limit", value: 0.5 }],
        }
        .svg()
    }

    #[test]
    fn every_shape_of_data_gives_a_picture() {
        let steep = (0..10_000).map(|i| (f64::from(i), 1e3 / f64::from(i + 1))).collect();
        let odd = vec![(0.0, -1.0), (f64::NAN, 2.0), (3.0, f64::INFINITY), (1.0, 0.0)];
        for points in [vec![], vec![(1.0, 1.0)], vec![(2.0, 3.0), (2.0, 3.0)], steep, odd] {
            for scale in [Scale::Linear, Scale::Log] {
                for join in [Join::Line, Join::Step, Join::Points] {
                    assert_well_formed(&chart(scale, points.clone(), join));
                }
            }
        }
    }

    #[test]
    fn a_step_keeps_its_height_until_the_next_point() {
        let svg = chart(Scale::Linear, vec![(0.0, 1.0), (10.0, 0.5)], Join::Step);
        let line = svg.lines().find(|line| line.starts_with("<polyline")).unwrap();
        let points: Vec<&str> = line.split('"').nth(1).unwrap().split(' ').collect();
        let height = |point: &str| point.split(',').nth(1).unwrap().to_owned();
        assert_eq!(points.len(), 3);
        assert_eq!(height(points[0]), height(points[1]));
        assert_ne!(height(points[1]), height(points[2]));
    }

    #[test]
    fn ticks_are_round_and_within_the_axis() {
        let span = Span::around(Scale::Log, true, [0.08, 4.2].into_iter());
        let ticks = span.ticks();
        assert!(ticks.contains(&0.1) && ticks.contains(&1.0), "{ticks:?}");
        for (scale, values) in
            [(Scale::Log, [1e-9, 1e12]), (Scale::Log, [1.0, 1.0]), (Scale::Linear, [3.0, 97.0])]
        {
            let span = Span::around(scale, true, values.into_iter());
            let ticks = span.ticks();
            assert!((2..=12).contains(&ticks.len()), "{ticks:?}");
            let inside = |tick: &f64| (-1e-9..=1.0 + 1e-9).contains(&span.fraction(*tick).unwrap());
            assert!(ticks.iter().all(inside));
        }
    }
}
