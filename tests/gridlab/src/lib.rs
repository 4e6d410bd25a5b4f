//! An emulated grid of hosts on one machine: sites whose nodes are network, UTS and mount namespaces
//! with a TUN interface each, and one forwarding process that gives every packet the latency, rate,
//! queueing and loss of a [`Topology`]. Real programs, real TCP and real MPI run on it.
//!
//! The command `gridlab` and this library do the same things; [`Lab`] is where to begin.

mod awake;
pub mod congestion;
pub mod control;
pub mod enter;
pub mod forwarder;
pub mod frame;
pub mod histogram;
pub mod host;
pub mod lab;
pub mod mpi;
pub mod network;
pub mod probe;
pub mod quality;
mod scheduling;
pub mod state;
mod sys;
pub mod topology;
pub mod ucx;
pub mod units;

pub use control::Status;
pub use lab::{Lab, LabError, Options};
pub use mpi::Mpi;
pub use quality::{Limits, Mark, Quality, Verdict};
pub use sys::{Signals, die_with_parent, end_quietly_on_closed_pipe};
pub use topology::{CrossTraffic, Hosts, LinkChange, Topology, TopologyError};
