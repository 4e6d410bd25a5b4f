//! The experiment job, as a library.

pub mod job;
