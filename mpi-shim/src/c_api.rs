//! The functions of `arborcast.h`.

use crate::abi::Word;
use crate::datatype::Elements;
use crate::pmpi::{Comm, Datatype, MpiError, mpi};
use crate::{Timing, broadcast, plan_of};
use std::ffi::{c_char, c_int, c_void};

/// `arborcast_timing` of `arborcast.h`.
#[repr(C)]
pub struct CTiming {
    seconds: f64,
    along_trees: c_int,
}

/// See `arborcast.h`.
///
/// # Safety
/// As for `MPI_Bcast`; `timing` must be null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn arborcast_bcast(
    data: *mut c_void,
    count: c_int,
    datatype: Word,
    root: c_int,
    comm: Word,
    timing: *mut CTiming,
) -> c_int {
    let abi = &mpi().abi;
    let (datatype, comm) = (Datatype(abi.handle(datatype)), Comm(abi.handle(comm)));
    let elements = Elements { data, count: count.into(), datatype, is_large_call: false };
    // SAFETY: by the caller.
    let (code, result) = unsafe { broadcast(elements, root, comm, !timing.is_null()) };
    if !timing.is_null() {
        let Timing { along_trees, until_acked } = result;
        let seconds = until_acked.map_or(-1.0, |time| time.as_secs_f64());
        // SAFETY: not null, and writable by the caller.
        unsafe { *timing = CTiming { seconds, along_trees: c_int::from(along_trees) } };
    }
    code
}

/// See `arborcast.h`.
///
/// # Safety
/// `comm` must be a communicator; `text` must be null or have room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn arborcast_plan(
    comm: Word,
    bytes: u64,
    text: *mut c_char,
    len: usize,
) -> c_int {
    let comm = Comm(mpi().abi.handle(comm));
    // SAFETY: by the caller.
    match unsafe { plan_of(comm, bytes) } {
        Err(MpiError(code)) => -code.abs(),
        Ok(plan) => {
            let words = plan.map_or_else(|| "native".to_owned(), |plan| plan.to_string());
            if !text.is_null() && len > 0 {
                let kept = words.len().min(len - 1);
                // SAFETY: `kept + 1` bytes are within the caller's `len`.
                unsafe {
                    std::ptr::copy_nonoverlapping(words.as_ptr(), text.cast(), kept);
                    *text.add(kept) = 0;
                }
            }
            c_int::try_from(words.len()).unwrap_or(c_int::MAX)
        }
    }
}
