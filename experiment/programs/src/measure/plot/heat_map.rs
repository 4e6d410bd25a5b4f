//! A square matrix as coloured cells, rows and columns named, with a colour bar. The scale is
//! logarithmic, since the links of a grid differ by orders of magnitude.

use super::axis::with_prefix;
use super::canvas::{Anchor, BLACK, Canvas, Colour, GREY, text_width};

/// What to draw.
pub struct HeatMap<'a> {
    pub title: &'a str,
    pub row_title: &'a str,
    pub column_title: &'a str,
    /// Names of the rows, which are those of the columns.
    pub names: &'a [String],
    /// Row after row; values that are not positive are drawn grey and set no end of the scale.
    pub values: &'a [f64],
    /// Of the values, for the colour bar.
    pub unit: &'a str,
}

/// Anchors of a scale that rises evenly in lightness, also for the colour-blind (after viridis).
const SCALE: [Colour; 6] =
    [[68, 1, 84], [65, 68, 135], [42, 120, 142], [34, 168, 132], [122, 209, 81], [253, 231, 37]];

/// Colour of `part`, 0 to 1.
fn colour_of(part: f64) -> Colour {
    let place = part.clamp(0.0, 1.0) * (SCALE.len() - 1) as f64;
    let below = (place as usize).min(SCALE.len() - 2);
    let rest = place - below as f64;
    std::array::from_fn(|i| {
        let (a, b) = (f64::from(SCALE[below][i]), f64::from(SCALE[below + 1][i]));
        (a + (b - a) * rest).round() as u8
    })
}

/// Least and greatest positive value.
fn range_of(values: &[f64]) -> Option<(f64, f64)> {
    let positive = values.iter().copied().filter(|value| *value > 0.0 && value.is_finite());
    positive.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

/// Place of `value` on the logarithmic scale of `range`, 0 to 1.
fn part_of(value: f64, (low, high): (f64, f64)) -> f64 {
    if high > low { (value / low).ln() / (high / low).ln() } else { 0.5 }
}

pub fn heat_map(map: &HeatMap) -> Canvas {
    let count = map.names.len();
    let cell = (600.0 / count.max(1) as f64).clamp(4.0, 48.0);
    // Names are left out where rows lie closer than a line of text.
    let every = (12.0 / cell).ceil() as usize;
    let longest = map.names.iter().map(|name| text_width(name)).fold(40.0, f64::max);
    let (left, top, side) = (longest + 20.0, 70.0, cell * count as f64);
    let bar = left + side + 30.0;
    let footer = top + side + 16.0 * (count.div_ceil(every).min(count) as f64).min(40.0) + 30.0;
    let title_width = text_width(map.title).max(text_width(map.row_title)) + 30.0;
    let mut canvas = Canvas::new((bar + 140.0).max(title_width), footer.max(top + 220.0));
    canvas.text(10.0, 16.0, Anchor::Start, map.title);
    canvas.text(10.0, 36.0, Anchor::Start, format!("rows: {}", map.row_title));
    canvas.text(10.0, 52.0, Anchor::Start, format!("columns: {}", map.column_title));
    let range = range_of(map.values);
    for (index, value) in map.values.iter().enumerate() {
        let (row, column) = (index / count, index % count);
        let fill = match range {
            Some(range) if *value > 0.0 => colour_of(part_of(*value, range)),
            _ => GREY,
        };
        let (x, y) = (left + column as f64 * cell, top + row as f64 * cell);
        canvas.rectangle(x, y, cell, cell, fill);
    }
    for (index, name) in map.names.iter().enumerate().step_by(every) {
        let middle = (index as f64 + 0.5) * cell;
        canvas.text(left - 8.0, top + middle, Anchor::End, name.as_str());
        // Column names stand on stairs, so that long ones do not run into each other.
        let stair = top + side + 14.0 + 14.0 * (index / every % 40) as f64;
        canvas.line(vec![(left + middle, top + side), (left + middle, stair - 6.0)], GREY);
        canvas.text(left + middle, stair, Anchor::Start, name.as_str());
    }
    if let Some(range) = range {
        colour_bar(&mut canvas, bar, top, side.max(150.0), range, map.unit);
    }
    canvas
}

fn colour_bar(canvas: &mut Canvas, x: f64, top: f64, height: f64, range: (f64, f64), unit: &str) {
    const STEPS: usize = 60;
    let step = height / STEPS as f64;
    for index in 0..STEPS {
        let part = 1.0 - (index as f64 + 0.5) / STEPS as f64;
        canvas.rectangle(x, top + index as f64 * step, 18.0, step + 0.5, colour_of(part));
    }
    const MARKS: usize = 5;
    for mark in 0..MARKS {
        let part = mark as f64 / (MARKS - 1) as f64;
        let value = range.0 * (range.1 / range.0).powf(part);
        let y = top + height * (1.0 - part);
        canvas.line(vec![(x + 18.0, y), (x + 23.0, y)], BLACK);
        canvas.text(x + 27.0, y, Anchor::Start, with_prefix(value, unit));
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::Shape;
    use super::*;

    #[test]
    fn ends_of_the_scale_are_the_extremes_and_the_diagonal_is_grey() {
        let names = vec!["n0".to_owned(), "n1".to_owned()];
        let canvas = heat_map(&HeatMap {
            title: "t",
            row_title: "receiver",
            column_title: "sender",
            names: &names,
            values: &[0.0, 0.001, 0.1, 0.0],
            unit: "s",
        });
        let fills: Vec<Colour> = canvas.shapes[3..7]
            .iter()
            .map(|shape| match shape {
                Shape::Rectangle { fill, .. } => *fill,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(fills, [GREY, SCALE[0], SCALE[5], GREY]);
        let has = |wanted: &str| {
            canvas.shapes.iter().any(|s| matches!(s, Shape::Text { text, .. } if text == wanted))
        };
        assert!(has("n0") && has("n1") && has("1 ms") && has("100 ms") && has("10 ms"));
    }
}
