//! The broadcast for Rust programs that use the `mpi` crate. Apart from the rest of the library, which is
//! linked with no MPI.

use arborcast_proto::Plan;
use arborcast_shim::datatype::Elements;
use arborcast_shim::pmpi::{Comm, Datatype, MpiError, SUCCESS, word};
use arborcast_shim::{Timing, broadcast, plan_of};
use mpi::datatype::BufferMut;
use mpi::raw::AsRaw;
use mpi::traits::Communicator;

/// Broadcasts `buffer` from `root` over `comm`, along trees where a plan is known. Collective.
///
/// At the root of a broadcast along trees, with `timed`, the result says how long it took until the
/// ACKs of all leaves were in.
///
/// # Errors
/// Those of MPI, where the communicator's error handler returns.
pub fn broadcast_from<B: BufferMut + ?Sized>(
    comm: &impl Communicator,
    root: mpi::Rank,
    buffer: &mut B,
    timed: bool,
) -> Result<Timing, MpiError> {
    let elements = Elements {
        data: buffer.pointer_mut(),
        count: buffer.count().into(),
        datatype: Datatype(word(buffer.as_datatype().as_raw())),
        is_large_call: false,
    };
    // SAFETY: `BufferMut` describes memory that may be written; a communicator of `mpi` is live.
    let (code, timing) = unsafe { broadcast(elements, root, Comm::from_raw(comm.as_raw()), timed) };
    if code == SUCCESS { Ok(timing) } else { Err(MpiError(code)) }
}

/// The plan that a broadcast of `bytes` from this rank would use: `None` where it would be native.
/// Collective when it is asked of a communicator for the first time, local afterwards.
///
/// # Errors
/// Those of MPI, the first time.
pub fn plan_in_use(comm: &impl Communicator, bytes: u64) -> Result<Option<Plan>, MpiError> {
    // SAFETY: a live communicator, borrowed for the duration of the call.
    unsafe { plan_of(Comm::from_raw(comm.as_raw()), bytes) }
}
