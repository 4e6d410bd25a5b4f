//! Plots of measurements: a canvas of rectangles, lines and text, drawn as SVG or PNG, and two
//! charts upon it. Own code because the plotting crates need a font of the machine, or a browser,
//! to put a host's name into a PNG.

mod axis;
mod canvas;
mod heat_map;
mod line_chart;
mod raster;
mod svg;

pub use canvas::Canvas;
pub use heat_map::{HeatMap, heat_map};
pub use line_chart::{LineChart, Series, line_chart};

use super::failure::Failure;
use std::path::Path;

/// How a plot is stored, told by the file's extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Svg,
    Png,
}

fn kind_of(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()? {
        "svg" => Some(Kind::Svg),
        "png" => Some(Kind::Png),
        _ => None,
    }
}

/// An error naming `option` unless the file's extension is one that can be drawn.
pub fn check_path(option: &str, path: &Path) -> Result<(), Failure> {
    match kind_of(path) {
        Some(_) => Ok(()),
        None => Err(Failure::BadOption(format!(
            "{option}: {} ends in neither .svg nor .png",
            path.display()
        ))),
    }
}

/// Draws `canvas` into a file, SVG or PNG by its extension.
pub fn save(canvas: &Canvas, path: &Path) -> Result<(), Failure> {
    let bytes = match kind_of(path) {
        Some(Kind::Png) => raster::png_of(canvas).map_err(|e| Failure::File {
            path: path.display().to_string(),
            reason: e.to_string(),
        })?,
        _ => svg::svg_of(canvas).into_bytes(),
    };
    std::fs::write(path, bytes).map_err(|error| Failure::file(path, &error))
}
