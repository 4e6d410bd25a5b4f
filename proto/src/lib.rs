//! The words every Arborcast process shares.
//!
//! Pure types first: [`Tree`], [`Plan`], [`Group`], [`Target`], [`LinkMatrix`], each valid by
//! construction. Then what crosses a process boundary: the shared-memory segments ([`segment`]),
//! the socket's messages ([`message`]) and the file a daemon keeps ([`wisdom`]). No MPI, no async.

#[cfg(not(loom))]
pub mod client;
pub mod codec;
pub mod hold;
#[cfg(not(loom))]
pub mod message;
pub mod replace;
#[cfg(not(loom))]
pub mod segment;
#[cfg(not(loom))]
pub mod wisdom;

mod delivery;
mod group;
mod link_matrix;
mod plan;
mod size_class;
mod spending;
mod target;
mod tree;

pub use delivery::{DeliveryReport, Lateness, NodeLateness, StripeDelivery};
pub use group::{Group, GroupHash, InvalidGroup, NodeName};
pub use link_matrix::{InvalidMatrix, LinkMatrix};
pub use plan::{
    BURST_BYTES, InvalidPlan, MAX_SEGMENT_BYTES, MAX_STRIPES, MIN_BYTES_PER_S, MIN_SEGMENT_BYTES,
    Plan, Stripe, Striping, pacing_delay,
};
pub use size_class::SizeClass;
pub use spending::{Spending, Spent};
pub use target::Target;
pub use tree::{InvalidTree, MAX_NODES, Subtree, Tree, binomial_over};

/// Bytes of a broadcast's header without the receiver's subtree; `mpi-shim/src/header.rs` lays it out.
pub const HEADER_BYTES: usize = 52;
/// What it spends on each node of the subtree: its number and the size of its own subtree.
pub const HEADER_BYTES_PER_NODE: usize = 4;

/// CLOCK_MONOTONIC in nanoseconds: the clock of every time in the segments, the same for all
/// processes of a node.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
