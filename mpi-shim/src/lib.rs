//! Runs a broadcast plan over an MPI communicator.
//!
//! Applications and experiments use the same [`tree_bcast`], so what is measured is what is used. An
//! application gets it through [`broadcast()`], the C functions of `arborcast.h`, or without knowing,
//! through the preloaded library; an experiment drives a [`tree_bcast::Engine`] itself.
//!
//! The rules that keep the ranks of an application together:
//!
//! 1. Whether a broadcast carries a header depends only on what MPI guarantees equal on all ranks:
//!    what they have agreed together ([`set_up`], [`agreement`]), the root, and the total bytes. When
//!    they do depends on broadcasts alone ([`communicator`]).
//! 2. The root alone reads a plan, and says in the header what it decided ([`header`]).
//! 3. A header says which broadcast it belongs to ([`tree_bcast`]).
//! 4. Where the root decides for native, its header covers the next few broadcasts from its node too,
//!    which all ranks count ([`native_runs`]).
//! 5. One rank a node takes part in the tree; a node's ranks pass the message on among themselves.
//!
//! Nothing here is linked with an MPI: it is found at run time ([`library`]), of whichever ABI ([`abi`]).
//!
//! No threads, no signals, and no output but one line where what the user asked for cannot be had.

pub mod abi;
pub mod agreement;
pub mod backoff;
pub mod broadcast;
mod c_api;
pub mod call_cache;
pub mod communicator;
pub mod daemon;
pub mod datatype;
mod delivery;
mod device;
pub mod header;
pub mod host_tcp;
pub mod library;
pub mod native_runs;
mod pauses;
pub mod plan_cache;
pub mod pmpi;
pub mod rank_info;
pub mod report;
mod sampling;
pub mod set_up;
mod settings;
pub mod tree_bcast;

pub use broadcast::{Timing, broadcast};
pub use settings::{DISABLE_VARIABLE, VERBOSE_VARIABLE, tell};

use arborcast_proto::Plan;
use communicator::Communicator;
use pmpi::{Comm, MpiError};

/// The plan that a broadcast of `bytes` from this rank would use: `None` where the communicator is
/// not managed or the daemon knows none, in which cases it is native. Collective when it is asked of a
/// communicator for the first time, local afterwards.
///
/// # Errors
/// Those of MPI, the first time.
///
/// # Safety
/// `comm` must be a live communicator that no other thread uses meanwhile.
pub unsafe fn plan_of(comm: Comm, bytes: u64) -> Result<Option<Plan>, MpiError> {
    // SAFETY: by the caller.
    let communicator = unsafe { Communicator::of(comm)? };
    communicator.set_up(comm)?;
    let Communicator::Managed(managed) = communicator else {
        return Ok(None);
    };
    Ok(managed.plan(bytes))
}
