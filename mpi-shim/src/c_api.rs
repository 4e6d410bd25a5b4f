//! The functions of `arborcast.h`.

use crate::abi::Word;
use crate::datatype::Elements;
use crate::pmpi::{Comm, Datatype, MpiError, mpi};
use crate::{Timing, broadcast, header, plan_of};
use arborcast_proto::{message, segment};
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

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

/// See `arborcast.h`.
#[unsafe(no_mangle)]
pub extern "C" fn arborcast_versions() -> *const c_char {
    static VERSIONS: OnceLock<CString> = OnceLock::new();
    let text = || {
        let text = format!(
            "arborcast {} header {} layout {} protocol {}",
            env!("CARGO_PKG_VERSION"),
            header::VERSION,
            segment::LAYOUT_VERSION,
            message::PROTOCOL_VERSION
        );
        CString::new(text).unwrap_or_default()
    };
    VERSIONS.get_or_init(text).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn the_versions_are_those_that_are_spoken() {
        // SAFETY: a string that stays.
        let text = unsafe { CStr::from_ptr(arborcast_versions()) }.to_str().unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        let pairs: Vec<(&str, &str)> =
            words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let numbers =
            [u32::from(header::VERSION), segment::LAYOUT_VERSION, message::PROTOCOL_VERSION.into()];
        let [header, layout, protocol] = numbers.map(|number| number.to_string());
        let own = ("arborcast", env!("CARGO_PKG_VERSION"));
        assert_eq!(pairs, [own, ("header", &header), ("layout", &layout), ("protocol", &protocol)]);
    }
}
