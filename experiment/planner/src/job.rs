//! How the ranks of an experiment job work together: what they say to each other ([`wire`]), how rank 0 leads
//! them through the steps of a schedule ([`coordinator`]), what each rank is bound to ([`binding`]), what it
//! tells of its node's applications ([`told`]), and what its daemon was told ([`kept`]). Where messages go, and what a step does, is for who drives it:
//! the job with MPI, the simulation without.

pub mod binding;
pub mod coordinator;
pub mod kept;
pub mod told;
pub mod wire;

use std::time::Duration;

/// Between two looks at the mailbox while a search goes on, and at most when nothing happens. The daemon
/// wakes a rank earlier.
pub const SHORT_NAP: Duration = Duration::from_millis(1);
pub const IDLE_NAP: Duration = Duration::from_millis(50);

/// Memory for messages that a rank keeps between steps; what is above goes back to the system.
pub const KEPT_BYTES: u64 = 64 << 20;
