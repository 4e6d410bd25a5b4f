//! What MPICH on UCX (Debian's `mpich`) needs to run many ranks on few processors; `gridlab mpirun`
//! preloads it for that MPI alone. Open MPI has settings for the first, and no need of the second.
//!
//! - A rank that waits polls without ever giving its processor away, so on a machine with fewer
//!   processors than ranks each waits for the others' time slices. Here it yields when a poll has
//!   found nothing.
//! - `MPI_Finalize` disconnects from every rank, for which UCX 1.13 first *connects* to those never
//!   spoken to; ranks that have finished already wait in the process manager's barrier, answer no
//!   more, and the program hangs. Hosts of a lab vanish together, so nothing is disconnected here.
//!   What a rank still has to send at that moment would stay unsent: programs whose last act is a
//!   large unacknowledged send should end with a barrier.

use std::ffi::{c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Progress = unsafe extern "C" fn(*mut c_void) -> c_uint;

static REAL_PROGRESS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Polls, and yields the processor where the poll found nothing.
///
/// # Safety
/// To be called as UCX's `ucp_worker_progress`, by programs that are linked with UCX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
    let mut real = REAL_PROGRESS.load(Ordering::Relaxed);
    if real.is_null() {
        // SAFETY: the name is a C string; the next definition of this function is UCX's own.
        real = unsafe { libc::dlsym(libc::RTLD_NEXT, c"ucp_worker_progress".as_ptr()) };
        REAL_PROGRESS.store(real, Ordering::Relaxed);
    }
    if real.is_null() {
        return 0;
    }
    // SAFETY: the symbol found is UCX's function of this very signature; the argument is passed on.
    let found = unsafe { std::mem::transmute::<*mut c_void, Progress>(real)(worker) };
    if found == 0 {
        // SAFETY: takes no argument and cannot fail on Linux.
        unsafe { libc::sched_yield() };
    }
    found
}

/// Says that the connection is gone already (a null request means success).
#[unsafe(no_mangle)]
pub extern "C" fn ucp_disconnect_nb(_endpoint: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}
