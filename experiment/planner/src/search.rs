//! Searches for the best plan of a target: what to measure next, and what follows from it.

pub mod converge;
pub mod strategy;
