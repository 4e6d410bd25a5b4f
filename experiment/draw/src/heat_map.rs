//! A table of numbers as coloured cells, with the scale beside it: dark is much. Colours follow the
//! logarithm, since links differ by orders of magnitude.

use super::svg::{Anchor, Svg, text_width};

/// A square table: `value(row, column)` for `names.len()` rows and columns; `None` stays empty.
pub struct HeatMap<'a> {
    pub title: &'a str,
    pub names: Vec<String>,
    /// What stands between a row's and a column's name: `→` where rows send, `←` where they receive.
    pub arrow: char,
    pub value: &'a dyn Fn(usize, usize) -> Option<f64>,
    /// How a value reads.
    pub format: &'a dyn Fn(f64) -> String,
}

const FONT: f64 = 11.0;
const MARGIN: f64 = 12.0;
/// Of the scale beside the table.
const BAR_WIDTH: f64 = 18.0;
const BAR_HEIGHT: f64 = 120.0;

impl HeatMap<'_> {
    /// The table as an SVG of its own.
    pub fn svg(&self) -> String {
        let count = self.names.len();
        let names_width =
            self.names.iter().map(|name| text_width(name, FONT)).fold(0.0, f64::max) + 8.0;
        let cell = (560.0 / count.max(1) as f64).clamp(6.0, 36.0);
        let (left, top) = (MARGIN + names_width, MARGIN + 26.0 + names_width);
        let side = cell * count as f64;
        let range = self.range();
        let marks = self.marks(range);
        let marks_width = marks.iter().map(|(_, text)| text_width(text, FONT)).fold(0.0, f64::max);
        let (bar_left, bar_height) = (left + side + 2.0 * MARGIN, side.max(BAR_HEIGHT));
        let (right, bottom) = match marks.is_empty() {
            true => (left + side, top + side),
            false => (bar_left + BAR_WIDTH + 6.0 + marks_width, top + bar_height),
        };
        let title_width = text_width(self.title, FONT + 2.0);
        let mut svg = Svg::new(right.max(MARGIN + title_width) + MARGIN, bottom + MARGIN);
        svg.text((MARGIN, MARGIN + FONT), Anchor::Start, FONT + 2.0, self.title);
        for row in 0..count {
            let middle = (row as f64 + 0.5) * cell;
            let at = (left - 4.0, top + middle + FONT / 3.0);
            svg.text(at, Anchor::End, FONT.min(cell), &self.names[row]);
            let at = (left + middle + FONT / 3.0, top - 4.0);
            svg.turned_text(at, Anchor::Start, FONT.min(cell), &self.names[row], -90.0);
            for column in 0..count {
                let Some(value) = (self.value)(row, column) else { continue };
                let fill = colour(fraction(value, range));
                let corner = (left + column as f64 * cell, top + row as f64 * cell);
                let (name, other, text) =
                    (&self.names[row], &self.names[column], (self.format)(value));
                let title = format!("{name} {} {other}: {text}", self.arrow);
                svg.rect(corner, (cell, cell), &fill, "white", &title);
            }
        }
        if !marks.is_empty() {
            draw_scale(&mut svg, (bar_left, top), bar_height, &marks);
        }
        svg.finish()
    }

    /// Places on the scale, 0…1, and how the values there read; none where all values are one.
    fn marks(&self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        let place = |mark: u8| f64::from(mark) / 4.0;
        let marks = (0..=4u8).filter(|_| high > low).map(place);
        marks.map(|part| (part, (self.format)((low + part * (high - low)).exp()))).collect()
    }

    /// Least and greatest logarithm of the values.
    fn range(&self) -> (f64, f64) {
        let count = self.names.len();
        let values = (0..count * count).filter_map(|i| (self.value)(i / count, i % count));
        let logs = values.map(f64::ln).filter(|log| log.is_finite());
        logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), log| (l.min(log), h.max(log)))
    }
}

/// The colours from the greatest value at the top to the least.
fn draw_scale(svg: &mut Svg, (left, top): (f64, f64), height: f64, marks: &[(f64, String)]) {
    const STEPS: usize = 40;
    let step = height / STEPS as f64;
    for index in 0..STEPS {
        let fill = colour(1.0 - (index as f64 + 0.5) / STEPS as f64);
        let corner = (left, top + index as f64 * step);
        svg.rect(corner, (BAR_WIDTH, step), &fill, &fill, "");
    }
    for (part, text) in marks {
        let y = top + height * (1.0 - part) + FONT / 3.0;
        svg.text((left + BAR_WIDTH + 6.0, y), Anchor::Start, FONT, text);
    }
}

/// 0…1 between the least and the greatest logarithm.
fn fraction(value: f64, (low, high): (f64, f64)) -> f64 {
    let log = value.ln();
    match () {
        () if log == f64::INFINITY => 1.0,
        () if !log.is_finite() || high <= low => 0.0,
        () => (log - low) / (high - low),
    }
}

/// From nearly white to dark blue.
fn colour(fraction: f64) -> String {
    let mix = |from: f64, to: f64| (from + (to - from) * fraction.clamp(0.0, 1.0)).round();
    format!("rgb({},{},{})", mix(240.0, 8.0), mix(246.0, 48.0), mix(252.0, 107.0))
}

#[cfg(test)]
mod tests {
    use super::super::svg::assert_well_formed;
    use super::*;

    fn map(count: usize, value: &dyn Fn(usize, usize) -> Option<f64>) -> String {
        let names = (0..count).map(|i| format!("n{i}")).collect();
        let format = |value: f64| format!("{value:.0}");
        HeatMap { title: "rates", names, arrow: '→', value, format: &format }.svg()
    }

    #[test]
    fn a_cell_for_every_known_link() {
        let svg = map(4, &|row, column| (row != column).then(|| 10f64.powi(row as i32)));
        assert_well_formed(&svg);
        assert_eq!(svg.matches("<title>").count(), 12);
        assert!(svg.contains("n3 → n0: 1000"));
        assert!(svg.contains("rgb(240,246,252)") && svg.contains("rgb(8,48,107)"));
        let marks = [">1<", ">6<", ">32<", ">178<", ">1000<"];
        assert!(marks.iter().all(|mark| svg.contains(mark)), "{svg}");
    }

    #[test]
    fn odd_values_give_a_picture() {
        for value in [0.0, f64::INFINITY, 1.0] {
            let svg = map(2, &move |_, _| Some(value));
            assert_eq!(svg.matches("<title>").count(), 4);
            assert_well_formed(&svg.replace("inf", ""));
        }
        assert_well_formed(&map(0, &|_, _| None));
    }
}
