//! Plots of measurements as SVG files.

use super::failure::Failure;
use arborcast_draw::chart::{Axis, Chart, Join, Scale, Series};
use arborcast_draw::units;
use std::path::Path;

/// A named curve: points of any order, seconds upwards.
#[derive(Debug, Clone)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Times against a count of something.
pub struct TimeChart<'a> {
    pub title: &'a str,
    pub x_title: &'a str,
    /// Of the counts, such as `B`; may be empty.
    pub x_unit: &'a str,
    pub y_title: &'a str,
    pub curves: &'a [Curve],
}

impl TimeChart<'_> {
    /// The chart as an SVG; both axes are linear.
    pub fn svg(&self) -> String {
        let count = |value: f64| units::count(value, self.x_unit);
        let series = self.curves.iter().map(|Curve { name, points }| {
            let mut points = points.clone();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series { name, points, join: Join::Line }
        });
        Chart {
            title: self.title,
            x: Axis { label: self.x_title, scale: Scale::Linear, format: &count },
            y: Axis { label: self.y_title, scale: Scale::Linear, format: &units::seconds },
            series: series.collect(),
            references: Vec::new(),
        }
        .svg()
    }
}

/// An error naming `option` unless the file's name ends as that of an SVG.
pub fn check_path(option: &str, path: &Path) -> Result<(), Failure> {
    if path.extension().is_some_and(|extension| extension == "svg") {
        return Ok(());
    }
    Err(Failure::BadOption(format!("{option}: {} does not end in .svg", path.display())))
}

/// Writes a drawing.
pub fn save(svg: &str, path: &Path) -> Result<(), Failure> {
    std::fs::write(path, svg).map_err(|error| Failure::file(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn_from_left_to_right_in_units() {
        let curve = |name: &str, points| Curve { name: name.to_owned(), points };
        let curves = [curve("a", vec![(2000.0, 0.02), (0.0, 0.01)]), curve("b", Vec::new())];
        let chart =
            TimeChart { title: "t", x_title: "x", x_unit: "B", y_title: "y", curves: &curves };
        let svg = chart.svg();
        let line = svg.lines().find(|line| line.starts_with("<polyline")).unwrap();
        let points: Vec<f64> = line.split([' ', '"', ',']).filter_map(|n| n.parse().ok()).collect();
        assert!(points[0] < points[2] && points[1] > points[3], "{line}");
        assert!(["1 kB", "10.0 ms", ">b<"].iter().all(|text| svg.contains(text)), "{svg}");
    }

    #[test]
    fn only_svg_is_drawn() {
        assert!(check_path("--plot", Path::new("a.svg")).is_ok());
        let failure = check_path("--plot", Path::new("a.png")).unwrap_err();
        assert!(failure.to_string().starts_with("--plot: a.png"));
    }
}
