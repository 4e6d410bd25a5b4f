//! Runs a broadcast plan over an MPI communicator.
//!
//! Applications and experiments use the same [`engine`], so what is measured is what is used. An
//! application gets it through [`broadcast()`], the C functions of `arborcast.h`, or without knowing,
//! through the preloaded library; an experiment drives an [`engine::Engine`] itself.
//!
//! The rules that keep the ranks of an application together:
//!
//! 1. Whether a broadcast carries a header depends only on what MPI guarantees equal on all ranks:
//!    the record that they made of the communicator together ([`communicator`]), and the total bytes.
//! 2. The root alone reads a plan, and says in the header what it decided ([`header`]).
//! 3. Tags carry the broadcast's number ([`engine`]).
//! 4. Where the root decides for the MPI's own broadcast, its header covers the next few broadcasts
//!    too, which all ranks count ([`agreement`]).
//! 5. One rank a node takes part in the tree; a node's ranks share by the MPI's own broadcast.
//!
//! No threads, no signals, and no output but one line where what the user asked for cannot be had.

pub mod agreement;
pub mod broadcast;
mod c_api;
pub mod communicator;
pub mod daemon;
pub mod datatype;
mod device;
pub mod engine;
pub mod header;
pub mod patience;
pub mod plan_cache;
pub mod raw;
mod sampling;
mod settings;
mod shortcut;

pub use broadcast::{Timing, broadcast, set_native};
pub use settings::{DISABLE_VARIABLE, VERBOSE_VARIABLE, tell};

use arborcast_proto::{Plan, SizeClass, Target};
use communicator::Communicator;
use mpi::datatype::BufferMut;
use mpi::raw::AsRaw;
use raw::{Comm, MpiError};

/// Broadcasts `buffer` from `root` over `comm`, along trees where a plan is known. Collective.
///
/// At the root of a broadcast along trees, with `timed`, the result says how long it took until the
/// ACKs of all leaves were in.
///
/// # Errors
/// MPI's own, where the communicator's error handler returns.
pub fn broadcast_from<B: BufferMut + ?Sized>(
    comm: &impl mpi::traits::Communicator,
    root: mpi::Rank,
    buffer: &mut B,
    timed: bool,
) -> Result<Timing, MpiError> {
    let elements = datatype::Elements {
        data: buffer.pointer_mut(),
        count: buffer.count(),
        datatype: buffer.as_datatype().as_raw(),
    };
    // SAFETY: `BufferMut` describes memory that may be written; a communicator of `mpi` is live.
    let (code, timing) = unsafe { broadcast(elements, root, comm.as_raw(), timed) };
    raw::check(code)?;
    Ok(timing)
}

/// The plan that a broadcast of `bytes` from this rank would use: `None` where the communicator is
/// not managed or the daemon knows none, in which cases it is the MPI's own. Collective when it is asked
/// of a communicator for the first time, local afterwards.
///
/// # Errors
/// MPI's own, the first time.
pub fn plan_in_use(
    comm: &impl mpi::traits::Communicator,
    bytes: u64,
) -> Result<Option<Plan>, MpiError> {
    // SAFETY: a live communicator, borrowed for the duration of the call.
    unsafe { plan_of(Comm(comm.as_raw()), bytes) }
}

/// # Safety
/// `comm` must be a live communicator that no other thread uses meanwhile.
unsafe fn plan_of(comm: Comm, bytes: u64) -> Result<Option<Plan>, MpiError> {
    // As for a long message: who asks wants the communicator set up.
    // SAFETY: by the caller.
    let Communicator::Managed(managed) = (unsafe { Communicator::of(comm, u64::MAX)? }) else {
        return Ok(None);
    };
    let root = managed.node_of_rank[managed.own_rank];
    let target = Target { group: managed.group_hash, root, class: SizeClass::of(bytes) };
    Ok(managed.plan(target))
}
