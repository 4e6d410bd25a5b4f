//! Labs against answers that can be worked out by hand. Every test brings up a lab of its own and
//! measures; `Lab::believed` says when a measurement that is off is wrong and when it is rejected.

mod changes;
mod errors;
mod hosts;
mod leftovers;
mod mpi;
mod paths;
mod support;
