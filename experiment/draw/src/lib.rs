//! Trees as text, DOT and SVG; curves and tables of numbers as SVG. Pure functions from values to
//! strings: an SVG carries everything it needs and can stand alone or inside an HTML page.

pub mod chart;
pub mod heat_map;
pub mod svg;
pub mod tree;
pub mod units;
