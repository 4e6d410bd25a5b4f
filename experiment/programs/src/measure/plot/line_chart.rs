//! Lines over a common axis, both axes linear from zero or the least x.

use super::axis::{ticks, with_prefix};
use super::canvas::{Anchor, BLACK, Canvas, Colour, GREY, text_width};

/// One line; its points need no order.
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// What to draw.
pub struct LineChart<'a> {
    pub title: &'a str,
    pub x_title: &'a str,
    pub y_title: &'a str,
    pub x_unit: &'a str,
    pub y_unit: &'a str,
    pub series: &'a [Series],
}

/// Colours that the colour-blind can tell apart (Okabe and Ito).
const COLOURS: [Colour; 7] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [60, 60, 60],
];

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 100.0;
const TOP: f64 = 60.0;

pub fn line_chart(chart: &LineChart) -> Canvas {
    let points = || chart.series.iter().flat_map(|series| series.points.iter());
    let extreme = |pick: fn(&(f64, f64)) -> f64, choose: fn(f64, f64) -> f64, start: f64| {
        points().map(pick).fold(start, choose)
    };
    let x_low = extreme(|p| p.0, f64::min, f64::INFINITY);
    let x_high = extreme(|p| p.0, f64::max, f64::NEG_INFINITY);
    let y_low = extreme(|p| p.1, f64::min, 0.0);
    let y_high = extreme(|p| p.1, f64::max, 0.0);
    let place = |value: f64, low: f64, high: f64| {
        if high > low { (value - low) / (high - low) } else { 0.5 }
    };
    let x_of = |x: f64| LEFT + WIDTH * place(x, x_low, x_high);
    let y_of = |y: f64| TOP + HEIGHT * (1.0 - place(y, y_low, y_high));

    let legend = chart.series.iter().map(|s| text_width(&s.name)).fold(0.0, f64::max) + 60.0;
    let mut canvas = Canvas::new(LEFT + WIDTH + legend + 20.0, TOP + HEIGHT + 60.0);
    canvas.text(10.0, 16.0, Anchor::Start, chart.title);
    canvas.text(10.0, 40.0, Anchor::Start, chart.y_title);
    canvas.text(LEFT + WIDTH / 2.0, TOP + HEIGHT + 44.0, Anchor::Middle, chart.x_title);
    if points().next().is_none() {
        canvas.text(LEFT + WIDTH / 2.0, TOP + HEIGHT / 2.0, Anchor::Middle, "no measurements");
        return canvas;
    }
    for y in ticks(y_low, y_high, 6) {
        canvas.line(vec![(LEFT, y_of(y)), (LEFT + WIDTH, y_of(y))], GREY);
        canvas.text(LEFT - 8.0, y_of(y), Anchor::End, with_prefix(y, chart.y_unit));
    }
    for x in ticks(x_low, x_high, 5) {
        canvas.line(vec![(x_of(x), TOP + HEIGHT), (x_of(x), TOP + HEIGHT + 6.0)], BLACK);
        canvas.text(x_of(x), TOP + HEIGHT + 20.0, Anchor::Middle, with_prefix(x, chart.x_unit));
    }
    let corner = (LEFT, TOP + HEIGHT);
    canvas.line(vec![(LEFT, TOP), corner, (LEFT + WIDTH, TOP + HEIGHT)], BLACK);
    for (index, series) in chart.series.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let mut line: Vec<(f64, f64)> =
            series.points.iter().map(|(x, y)| (x_of(*x), y_of(*y))).collect();
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (x, y) in &line {
            canvas.rectangle(x - 2.0, y - 2.0, 4.0, 4.0, colour);
        }
        canvas.line(line, colour);
        let (x, y) = (LEFT + WIDTH + 20.0, TOP + 10.0 + 18.0 * index as f64);
        canvas.line(vec![(x, y), (x + 24.0, y)], colour);
        canvas.text(x + 32.0, y, Anchor::Start, series.name.as_str());
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::super::canvas::Shape;
    use super::*;

    #[test]
    fn the_greatest_point_is_at_the_top_right_and_empty_charts_say_so() {
        let series = [Series { name: "a".to_owned(), points: vec![(100.0, 2.0), (0.0, 1.0)] }];
        let mut chart = LineChart {
            title: "t",
            x_title: "x",
            y_title: "y",
            x_unit: "B",
            y_unit: "s",
            series: &series,
        };
        let canvas = line_chart(&chart);
        let lines: Vec<_> = canvas
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { points, colour } if *colour == COLOURS[0] => Some(points.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(lines[0][1], (LEFT + WIDTH, TOP));
        chart.series = &[];
        assert!(format!("{:?}", line_chart(&chart).shapes).contains("no measurements"));
    }
}
