//! A grid with Arborcast on it: an emulated grid, a daemon on every node, experiment jobs and
//! applications, for end-to-end tests and for the demo.
//!
//! Everything that is started here is a child of this process and ends with the value that stands for
//! it.

mod build;
mod child;
pub mod conformance;
mod grid;
pub mod limit;
mod random_plan;

pub use build::{compile_c, compile_library, compile_standard_abi, grid_file, program, shim};
pub use child::Background;
pub use grid::{Grid, GridError, Run};
pub use random_plan::random_striping;
