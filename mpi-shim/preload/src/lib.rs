//! `libarborcast.so`: the exported MPI symbols, and one setting of an MPI's.
//!
//! `PMPI_Bcast` is exported beside `MPI_Bcast`, since the Fortran layer of Open MPI calls that, and both
//! with counts of 64 bits. A PMPI tool sees a program's broadcasts wherever it stands: one in front of
//! this library calls the profiling name; one behind it is called by its `MPI_Bcast`, and comes back by
//! the profiling name too.

use arborcast_shim::abi::Word;
use arborcast_shim::datatype::Elements;
use arborcast_shim::library::{BcastFn, BcastLargeFn, Mpi};
use arborcast_shim::pmpi::{Comm, Datatype};
use arborcast_shim::tell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// Runs when the library is loaded: before `main`, and before the MPI has read its settings.
///
/// Where 64 messages came on a connection before they were asked for, libfabric's provider for TCP reads no
/// further until one of them is. What a rank waits for may be behind them: with trees of several threads Intel
/// MPI 2021.18 (libfabric 2.4) hung in every other run. Other MPIs keep whatever comes.
#[used]
// SAFETY: a function of the type that the loader calls there.
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = keep_whatever_comes;

extern "C" fn keep_whatever_comes() {
    // SAFETY: two strings that end. The program has no other thread yet. What its user has set stays.
    unsafe { libc::setenv(c"FI_TCP_MAX_SAVED".as_ptr(), c"1000000000".as_ptr(), 0) };
}

/// The MPI of this process. Without one there is nobody to hand the call to.
fn mpi() -> &'static Mpi {
    Mpi::get().unwrap_or_else(|error| {
        tell(&format!("{error}: a broadcast cannot be made; start the program without Arborcast"));
        std::process::abort()
    })
}

/// # Safety
/// As for `MPI_Bcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPI_Bcast(
    data: *mut c_void,
    count: c_int,
    datatype: Word,
    root: c_int,
    comm: Word,
) -> c_int {
    static TOOL: OnceLock<Option<BcastFn>> = OnceLock::new();
    let tool = TOOL.get_or_init(|| {
        // SAFETY: the symbol of that name is a function of this type.
        mpi().tool(c"MPI_Bcast").map(|tool| unsafe { std::mem::transmute(tool) })
    });
    // SAFETY: the program's arguments, unchanged.
    unsafe {
        match tool {
            Some(tool) => tool(data, count, datatype, root, comm),
            None => broadcast(data, count.into(), datatype, root, comm, false),
        }
    }
}

/// # Safety
/// As for `MPI_Bcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn PMPI_Bcast(
    data: *mut c_void,
    count: c_int,
    datatype: Word,
    root: c_int,
    comm: Word,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { broadcast(data, count.into(), datatype, root, comm, false) }
}

/// # Safety
/// As for `MPI_Bcast_c`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn MPI_Bcast_c(
    data: *mut c_void,
    count: i64,
    datatype: Word,
    root: c_int,
    comm: Word,
) -> c_int {
    static TOOL: OnceLock<Option<BcastLargeFn>> = OnceLock::new();
    let tool = TOOL.get_or_init(|| {
        // SAFETY: the symbol of that name is a function of this type.
        mpi().tool(c"MPI_Bcast_c").map(|tool| unsafe { std::mem::transmute(tool) })
    });
    // SAFETY: the program's arguments, unchanged.
    unsafe {
        match tool {
            Some(tool) => tool(data, count, datatype, root, comm),
            None => broadcast(data, count, datatype, root, comm, true),
        }
    }
}

/// # Safety
/// As for `MPI_Bcast_c`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn PMPI_Bcast_c(
    data: *mut c_void,
    count: i64,
    datatype: Word,
    root: c_int,
    comm: Word,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { broadcast(data, count, datatype, root, comm, true) }
}

unsafe fn broadcast(
    data: *mut c_void,
    count: i64,
    datatype: Word,
    root: c_int,
    comm: Word,
    is_large_call: bool,
) -> c_int {
    let abi = &mpi().abi;
    let (datatype, comm) = (Datatype(abi.handle(datatype)), Comm(abi.handle(comm)));
    let elements = Elements { data, count, datatype, is_large_call };
    // SAFETY: by the caller.
    let (code, _) = unsafe { arborcast_shim::broadcast(elements, root, comm, false) };
    code
}
