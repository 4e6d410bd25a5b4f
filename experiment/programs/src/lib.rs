//! Three classical MPI measurement programs, and what they share ([`measure`]). Options and file
//! formats are those of the originals; `docs/man` has a page for each.

pub mod collective_benchmark;
pub mod goptest;
pub mod measure;
pub mod network_test;
