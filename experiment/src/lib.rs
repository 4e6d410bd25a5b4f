//! The experiment job and the classical measurement programs, as a library: the job measures links
//! with the very code that `network_test` and `goptest` use.

pub mod collective_benchmark;
pub mod goptest;
pub mod job;
pub mod measure;
pub mod network_test;
