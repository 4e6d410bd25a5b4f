//! Decides how to broadcast, without I/O, without a clock and without MPI.
//!
//! The modules build on one another in this order: [`trees`] as such; the [`model`] of a network and
//! what plans take on it; [`propose`], plans that should be good, and [`survey`], what a network looks
//! like; [`change`], how it changes under broadcasts; [`search`], which measures, chooses and says what to do
//! next; [`job`], how the ranks of an experiment do it together. [`measurement`] has the words in which all of
//! them ask.

pub mod change;
pub mod job;
pub mod measurement;
pub mod model;
pub mod propose;
pub mod search;
pub mod survey;
pub mod trees;

pub use measurement::Seconds;
pub use model::bounds::{Limits, limit_s};
pub use model::grids;
pub use model::network::{Link, Network, Node, Site};
pub use model::simulate::simulate;
pub use search::strategy::state::{Config, Knowledge};
pub use search::strategy::{STRATEGIES, strategy};
pub use search::{Experiment, Record, Search, Step, converge};
pub use trees::transform::transform;
