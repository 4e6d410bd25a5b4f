//! Searches for the best plan of a target: what to measure next, and what follows from what was measured.
//! No MPI and no clock: outcomes, seconds and instants are handed in. The experiment job drives a
//! [`schedule::Schedule`] of searches against MPI, [`converge`](fn@converge) a single one against the
//! simulator.

mod converge;
mod findings;
pub mod incumbent;
pub mod on_demand;
pub mod schedule;
#[allow(clippy::module_inception)] // the room is named for what is in its middle
mod search;
pub mod strategy;

pub use converge::{Experiment, Record, Step, converge};
pub use findings::{InUse, Report};
pub use search::Search;
