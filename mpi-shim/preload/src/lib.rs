//! `libarborcast.so`: the exported MPI symbols, nothing else.
//!
//! `PMPI_Bcast` is exported beside `MPI_Bcast`, since the Fortran layer of Open MPI calls that; the
//! MPI's own is found behind this library with `dlsym(RTLD_NEXT)`. Handles are taken as words of the
//! machine: the two MPI ABIs have handles of different width, and a library of one that finds itself
//! in a process of the other must pass them on whole.

use arborcast_shim::datatype::Elements;
use arborcast_shim::tell;
use mpi::ffi;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// `MPI_Bcast` with handles of either ABI.
type AnyBcast = unsafe extern "C" fn(*mut c_void, c_int, usize, c_int, usize) -> c_int;

/// A handle in a register, as either ABI passes it.
const OPEN_MPI_HANDLES: bool = size_of::<ffi::MPI_Comm>() == size_of::<usize>();

/// # Safety
/// As for `MPI_Bcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Bcast(
    data: *mut c_void,
    count: c_int,
    datatype: usize,
    root: c_int,
    comm: usize,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { interposed(data, count, datatype, root, comm) }
}

/// # Safety
/// As for `MPI_Bcast`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PMPI_Bcast(
    data: *mut c_void,
    count: c_int,
    datatype: usize,
    root: c_int,
    comm: usize,
) -> c_int {
    // SAFETY: by the caller.
    unsafe { interposed(data, count, datatype, root, comm) }
}

thread_local! {
    /// The MPI's own broadcast may call one of our symbols again; that call is its own business.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

unsafe fn interposed(
    data: *mut c_void,
    count: c_int,
    datatype: usize,
    root: c_int,
    comm: usize,
) -> c_int {
    let Real { bcast, is_ours } = *real();
    if !is_ours || INSIDE.replace(true) {
        // SAFETY: the application's arguments, unchanged.
        return unsafe { bcast(data, count, datatype, root, comm) };
    }
    // SAFETY: `is_ours` says that this process uses handles of the type this library was built for.
    let (datatype, comm) = unsafe { (from_word(datatype), from_word(comm)) };
    let elements = Elements { data, count, datatype };
    // SAFETY: by the caller.
    let (code, _) = unsafe { arborcast_shim::broadcast(elements, root, comm, false) };
    INSIDE.set(false);
    code
}

/// The handle in a machine word: all of it, or its lower half.
///
/// # Safety
/// `T` must be the handle type of the MPI that the word comes from.
unsafe fn from_word<T>(word: usize) -> T {
    const { assert!(size_of::<T>() <= size_of::<usize>() && cfg!(target_endian = "little")) };
    // SAFETY: no wider than the word; on a little-endian machine its lower bytes come first.
    unsafe { std::mem::transmute_copy(&word) }
}

struct Real {
    bcast: AnyBcast,
    /// The process runs the MPI ABI that this library was built for.
    is_ours: bool,
}

/// The MPI's own broadcast, and whether it is of our ABI.
fn real() -> &'static Real {
    static REAL: OnceLock<Real> = OnceLock::new();
    REAL.get_or_init(|| {
        let find = |from| {
            // SAFETY: looks up a symbol by name.
            let found = unsafe { libc::dlsym(from, c"PMPI_Bcast".as_ptr()) };
            (!found.is_null() && found != PMPI_Bcast as *mut c_void).then_some(found)
        };
        let Some(bcast) = find(libc::RTLD_NEXT).or_else(|| find(libc::RTLD_DEFAULT)) else {
            tell("no MPI behind this library; link it in front of the MPI library");
            std::process::abort();
        };
        // SAFETY: the symbol of that name is `MPI_Bcast`'s profiling twin.
        let bcast = unsafe { std::mem::transmute::<*mut c_void, AnyBcast>(bcast) };
        let version = library_version();
        let is_ours = version.contains("Open MPI") == OPEN_MPI_HANDLES;
        if is_ours {
            // SAFETY: of our ABI, so handles have the types that this library was built with.
            let native =
                unsafe { std::mem::transmute::<AnyBcast, arborcast_shim::raw::BcastFn>(bcast) };
            arborcast_shim::set_native(native);
        } else {
            let built_for = if OPEN_MPI_HANDLES { "Open MPI" } else { "MPICH and its relatives" };
            let found = version.lines().next().unwrap_or("another MPI");
            tell(&format!(
                "this libarborcast.so is for {built_for}, the program runs {found}: broadcasts are \
                 the MPI's own"
            ));
        }
        Real { bcast, is_ours }
    })
}

/// What the MPI in this process calls itself; may be asked at any time.
fn library_version() -> String {
    // Room for any MPI: MPICH asks for 8192 bytes, Open MPI for 256.
    let mut text: [c_char; 16384] = [0; 16384];
    let mut len = 0;
    // SAFETY: the text has room for more than MPI_MAX_LIBRARY_VERSION_STRING and ends with a zero.
    unsafe {
        if ffi::PMPI_Get_library_version(text.as_mut_ptr(), &mut len) != ffi::MPI_SUCCESS as c_int {
            return String::new();
        }
        CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
    }
}
