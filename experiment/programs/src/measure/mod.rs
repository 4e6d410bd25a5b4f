//! What the three measurement programs share: the clock, statistics, smoothing,
//! kernels that time a link or a broadcast, agreement on failures across ranks, and report formats.
//! Everything that decides is free of MPI, so that it can be tested without it.

pub mod broadcast;
pub mod buffer;
pub mod clock;
pub mod command_line;
pub mod failure;
pub mod link;
pub mod netcdf;
pub mod plot;
pub mod program;
pub mod progress;
pub mod report;
pub mod smoothing;
pub mod statistics;
pub mod window;
pub mod window_sync;
