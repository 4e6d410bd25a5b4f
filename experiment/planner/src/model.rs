//! What is known of a network, what a plan would take on it, and what no plan can beat.

pub(crate) mod annealing;
pub mod assumed_sites;
pub mod bounds;
pub mod clusters;
pub mod grids;
pub mod linear_program;
pub mod max_flow;
pub mod network;
pub mod parameter;
pub mod simulate;
