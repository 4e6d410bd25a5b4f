//! Labs against answers that can be worked out by hand. Every test brings up a lab of its own and
//! measures; where the machine was too busy for the lab to be believed, the measurement is repeated
//! a few times, and a persistent rejection fails the test with that reason.

mod changes;
mod errors;
mod leftovers;
mod mpi;
mod paths;
mod support;
