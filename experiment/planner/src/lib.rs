//! Decides how to broadcast, without I/O, without a clock and without MPI.
//!
//! [`Network`] is what is known of the nodes and links; [`simulate`] says how long a plan takes on it
//! and [`limit_s`] how long the best one could. A [`Strategy`] searches for it by asking for
//! measurements; [`converge`](fn@converge) runs one against the simulator.

mod arborescence;
pub mod baseline;
mod bounds;
pub mod cluster;
mod converge;
pub mod grids;
mod linear_program;
mod max_flow;
mod network;
pub mod packing;
mod propose;
mod simulate;
pub mod site_plan;
mod strategy;
mod survey;
mod transform;

pub use bounds::{Limits, limit_s};
pub use converge::{Experiment, Record, Step, converge};
pub use network::{DEFAULT_OVERHEAD_S, InvalidNetwork, Link, Network, Node, Site};
pub use propose::{Proposal, propose};
pub use simulate::{Finish, Flow, Seconds, finish, finish_flows, simulate};
pub use strategy::RandomTransformOptions;
pub use strategy::{
    Annealing, Config, Description, Fixed, Guided, Knowledge, Measured, Outcome, RandomTransform,
    Request, STRATEGIES, Strategy, TRIAL_S, Transfer, Trial, UnknownStrategy, strategy,
};
pub use survey::Survey;
pub use transform::transform;

#[cfg(test)]
mod tests;
