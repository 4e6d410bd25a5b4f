//! The MPI of this process, found at run time.
//!
//! A program may be linked with its MPI, or load it with `dlopen` (Python, Julia, plugins) where the
//! dynamic linker's global scope does not have it. So nothing here is linked with an MPI: the library
//! that defines the `PMPI_*` functions is looked up among those that are loaded.

use crate::abi::{Abi, Word};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

type Copy =
    unsafe extern "C" fn(Word, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(Word, c_int, *mut c_void, *mut c_void) -> c_int;
/// An error handler without the arguments that differ from MPI to MPI.
type Handler = unsafe extern "C" fn(*mut Word, *mut c_int);
pub type BcastFn = unsafe extern "C-unwind" fn(*mut c_void, c_int, Word, c_int, Word) -> c_int;
pub type BcastLargeFn = unsafe extern "C-unwind" fn(*mut c_void, i64, Word, c_int, Word) -> c_int;

/// Declares [`Functions`]: the functions every MPI has, and those that only newer ones have.
///
/// All of them may call an error handler of the program, which may throw: `C-unwind`.
macro_rules! functions {
    (
        every { $( $name:ident: $symbol:literal ($($argument:ty),*); )* }
        newer { $( $option:ident: $option_symbol:literal ($($option_argument:ty),*); )* }
    ) => {
        /// The MPI functions that are used, by their profiling names: the `MPI_*` names would lead
        /// back into this library, and a tool that counts a program's calls must not count ours.
        pub struct Functions {
            $( pub $name: unsafe extern "C-unwind" fn($($argument),*) -> c_int, )*
            $( pub $option: Option<unsafe extern "C-unwind" fn($($option_argument),*) -> c_int>, )*
        }

        impl Functions {
            /// # Errors
            /// The name of a function that is missing.
            fn load(symbol: &dyn Fn(&CStr) -> *mut c_void) -> Result<Self, &'static CStr> {
                // SAFETY: `Option` of a function pointer is null or the address; a symbol of that name
                // is a function of that type, with handles as words ([`crate::abi`]).
                unsafe {
                    Ok(Functions {
                        $( $name: std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C-unwind" fn($($argument),*) -> c_int>,
                        >(symbol($symbol)).ok_or($symbol)?, )*
                        $( $option: std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C-unwind" fn($($option_argument),*) -> c_int>,
                        >(symbol($option_symbol)), )*
                    })
                }
            }
        }
    };
}

functions! {
    every {
    comm_rank: c"PMPI_Comm_rank" (Word, *mut c_int);
    comm_size: c"PMPI_Comm_size" (Word, *mut c_int);
    comm_test_inter: c"PMPI_Comm_test_inter" (Word, *mut c_int);
    comm_group: c"PMPI_Comm_group" (Word, *mut Word);
    comm_split: c"PMPI_Comm_split" (Word, c_int, c_int, *mut Word);
    comm_free: c"PMPI_Comm_free" (*mut Word);
    comm_get_errhandler: c"PMPI_Comm_get_errhandler" (Word, *mut Word);
    comm_set_errhandler: c"PMPI_Comm_set_errhandler" (Word, Word);
    comm_call_errhandler: c"PMPI_Comm_call_errhandler" (Word, c_int);
    comm_create_errhandler: c"PMPI_Comm_create_errhandler" (Option<Handler>, *mut Word);
    errhandler_free: c"PMPI_Errhandler_free" (*mut Word);
    comm_create_keyval: c"PMPI_Comm_create_keyval"
        (Option<Copy>, Option<Delete>, *mut c_int, *mut c_void);
    comm_get_attr: c"PMPI_Comm_get_attr" (Word, c_int, *mut c_void, *mut c_int);
    comm_set_attr: c"PMPI_Comm_set_attr" (Word, c_int, *mut c_void);
    group_size: c"PMPI_Group_size" (Word, *mut c_int);
    group_translate_ranks: c"PMPI_Group_translate_ranks"
        (Word, c_int, *const c_int, Word, *mut c_int);
    group_free: c"PMPI_Group_free" (*mut Word);
    allgather: c"PMPI_Allgather"
        (*const c_void, c_int, Word, *mut c_void, c_int, Word, Word);
    isend: c"PMPI_Isend" (*const c_void, c_int, Word, c_int, c_int, Word, *mut Word);
    irecv: c"PMPI_Irecv" (*mut c_void, c_int, Word, c_int, c_int, Word, *mut Word);
    testsome: c"PMPI_Testsome" (c_int, *mut c_void, *mut c_int, *mut c_int, *mut c_void);
    get_count: c"PMPI_Get_count" (*const c_void, Word, *mut c_int);
    cancel: c"PMPI_Cancel" (*mut Word);
    request_free: c"PMPI_Request_free" (*mut Word);
    pack: c"PMPI_Pack" (*const c_void, c_int, Word, *mut c_void, c_int, *mut c_int, Word);
    unpack: c"PMPI_Unpack" (*const c_void, c_int, *mut c_int, *mut c_void, c_int, Word, Word);
    type_size_x: c"PMPI_Type_size_x" (Word, *mut i64);
    type_get_extent: c"PMPI_Type_get_extent" (Word, *mut isize, *mut isize);
    type_get_envelope: c"PMPI_Type_get_envelope"
        (Word, *mut c_int, *mut c_int, *mut c_int, *mut c_int);
    type_get_contents: c"PMPI_Type_get_contents"
        (Word, c_int, c_int, c_int, *mut c_int, *mut isize, *mut Word);
    type_contiguous: c"PMPI_Type_contiguous" (c_int, Word, *mut Word);
    type_create_struct: c"PMPI_Type_create_struct"
        (c_int, *const c_int, *const isize, *const c_void, *mut Word);
    type_commit: c"PMPI_Type_commit" (*mut Word);
    type_free: c"PMPI_Type_free" (*mut Word);
    initialized: c"PMPI_Initialized" (*mut c_int);
    finalized: c"PMPI_Finalized" (*mut c_int);
    query_thread: c"PMPI_Query_thread" (*mut c_int);
    }
    newer {
    pack_large: c"PMPI_Pack_c" (*const c_void, i64, Word, *mut c_void, i64, *mut i64, Word);
    unpack_large: c"PMPI_Unpack_c" (*const c_void, i64, *mut i64, *mut c_void, i64, Word, Word);
    type_get_envelope_large: c"PMPI_Type_get_envelope_c"
        (Word, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int);
    type_get_contents_large: c"PMPI_Type_get_contents_c"
        (Word, i64, i64, i64, i64, *mut c_int, *mut isize, *mut i64, *mut Word);
    session_create_errhandler: c"PMPI_Session_create_errhandler" (Option<Handler>, *mut Word);
    session_init: c"PMPI_Session_init" (Word, Word, *mut Word);
    session_finalize: c"PMPI_Session_finalize" (*mut Word);
    group_from_session_pset: c"PMPI_Group_from_session_pset" (Word, *const c_char, *mut Word);
    }
}

/// The MPI of this process.
pub struct Mpi {
    pub abi: Abi,
    pub functions: Functions,
    /// Native: the next `PMPI_Bcast` behind this library.
    pub bcast: BcastFn,
    /// The same with a count of 64 bits; `None` before MPI 4.
    pub bcast_large: Option<BcastLargeFn>,
    /// Where the library that defines the functions lies in memory.
    base: *mut c_void,
}

// SAFETY: an address that is only compared.
unsafe impl Send for Mpi {}
// SAFETY: as above.
unsafe impl Sync for Mpi {}

/// Why a process has no MPI that this library can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoMpi {
    #[error("no MPI library is loaded")]
    NotLoaded,
    #[error("the MPI library is of an unknown ABI")]
    UnknownAbi,
    #[error("the MPI library has no {}", .0.to_string_lossy())]
    Missing(&'static CStr),
}

impl Mpi {
    /// The MPI of this process; looked up at the first call that finds one.
    ///
    /// # Errors
    /// Where there is none that this library can serve.
    #[inline]
    pub fn get() -> Result<&'static Self, NoMpi> {
        static MPI: OnceLock<Mpi> = OnceLock::new();
        match MPI.get() {
            Some(mpi) => Ok(mpi),
            None => Mpi::find().map(|found| MPI.get_or_init(|| found)),
        }
    }

    #[cold]
    fn find() -> Result<Self, NoMpi> {
        let library = find_library().ok_or(NoMpi::NotLoaded)?;
        // The same name in a library that it depends on would be another ABI's.
        let has = |name: &CStr| base_of(library.symbol(name)) == library.base;
        let abi = Abi::of(&has, &|name| library.object(name)).ok_or(NoMpi::UnknownAbi)?;
        let symbol = |name: &CStr| library.symbol(name);
        let functions = Functions::load(&symbol).map_err(NoMpi::Missing)?;
        // A tool may stand between this library and the MPI.
        let behind = |name| Some(next(name)).filter(|found| !found.is_null());
        let bcast = behind(c"PMPI_Bcast").unwrap_or_else(|| symbol(c"PMPI_Bcast"));
        let large = behind(c"PMPI_Bcast_c").unwrap_or_else(|| symbol(c"PMPI_Bcast_c"));
        // SAFETY: as in `Functions::load`.
        unsafe {
            let bcast = std::mem::transmute::<*mut c_void, Option<BcastFn>>(bcast);
            Ok(Mpi {
                abi,
                functions,
                bcast: bcast.ok_or(NoMpi::Missing(c"PMPI_Bcast"))?,
                bcast_large: std::mem::transmute::<*mut c_void, Option<BcastLargeFn>>(large),
                base: library.base,
            })
        }
    }

    /// A function of this name that a PMPI tool behind this library exports: one that is not the MPI's
    /// own.
    pub fn tool(&self, name: &CStr) -> Option<*mut c_void> {
        let found = next(name);
        (!found.is_null() && base_of(found) != self.base).then_some(found)
    }
}

/// The next definition of a name behind this library in the global scope; null where there is none.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: looks up a symbol by name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    // Where this code is part of a library that was opened twice, the next may be its own.
    if base_of(found) == own_base() { std::ptr::null_mut() } else { found }
}

/// A library that is loaded.
struct Library {
    handle: *mut c_void,
    base: *mut c_void,
}

impl Library {
    fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a handle that stays open.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }

    /// Where an object of the library's is as the library itself sees it. A program that is linked with
    /// it may have a copy of the object (a copy relocation), which stands for it in the global scope.
    fn object(&self, name: &CStr) -> Word {
        // SAFETY: looks up symbols by name.
        let (global_mark, global) = unsafe {
            let find = |name: &CStr| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            (find(MARK), find(name))
        };
        let is_global = base_of(global_mark) == self.base && !global.is_null();
        (if is_global { global } else { self.symbol(name) }) as Word
    }
}

/// A function that MPIs have and neither tools nor this library export.
const MARK: &CStr = c"PMPI_Type_get_envelope";

/// The library of the MPI that this process has started, or else of the first one that is loaded.
fn find_library() -> Option<Library> {
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: looks up a symbol by name; the first in the global scope is what a linked program gets.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, MARK.as_ptr()) };
    names.extend(file_of(global));
    names.extend(loaded_files());
    let mut first = None;
    for name in names {
        // SAFETY: RTLD_NOLOAD runs no initialiser; the handle is never closed, as the MPI stays.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            continue;
        }
        let found = Library { handle, base: std::ptr::null_mut() }.symbol(MARK);
        if found.is_null() {
            continue;
        }
        // A library that depends on an MPI finds the symbol too: the file that defines it counts.
        if file_of(found).is_none_or(|file| file != name) {
            continue;
        }
        let library = Library { handle, base: base_of(found) };
        if is_started(&library) {
            return Some(library);
        }
        first.get_or_insert(library);
    }
    first
}

fn is_started(library: &Library) -> bool {
    type Initialized = unsafe extern "C-unwind" fn(*mut c_int) -> c_int;
    let mut flag = 0;
    // SAFETY: the symbol is a function of this type, which may be called at any time.
    unsafe {
        let address = library.symbol(c"PMPI_Initialized");
        if let Some(initialized) = std::mem::transmute::<*mut c_void, Option<Initialized>>(address)
        {
            initialized(&mut flag);
        }
    }
    flag != 0
}

/// The files of all libraries that are loaded, by the names they were loaded under.
pub fn loaded_files() -> Vec<CString> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: usize,
        names: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker passes a valid record; `names` is the vector below.
        unsafe {
            let name = CStr::from_ptr((*info).dlpi_name);
            if !name.is_empty() {
                (*names.cast::<Vec<CString>>()).push(name.to_owned());
            }
        }
        0
    }
    let mut names: Vec<CString> = Vec::new();
    // SAFETY: the callback only adds to the vector.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut names).cast()) };
    names
}

/// How many libraries this process has ever loaded: unchanged while none is added.
pub fn loads() -> u64 {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, adds: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid record; `adds` is the number below.
        unsafe { *adds.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut adds = 0u64;
    // SAFETY: the callback only writes the number.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut adds).cast()) };
    adds
}

fn information(address: *mut c_void) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; the record is filled in where the result is not 0, and zero
    // is a valid value of it.
    unsafe {
        let found = !address.is_null() && libc::dladdr(address, info.as_mut_ptr()) != 0;
        found.then(|| info.assume_init())
    }
}

/// Where the library that an address belongs to lies in memory; null where it belongs to none.
fn base_of(address: *mut c_void) -> *mut c_void {
    information(address).map_or(std::ptr::null_mut(), |info| info.dli_fbase)
}

fn file_of(address: *mut c_void) -> Option<CString> {
    let info = information(address)?;
    // SAFETY: a string of the linker's that stays while the library does.
    (!info.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(info.dli_fname).to_owned() })
}

fn own_base() -> *mut c_void {
    base_of(own_base as *mut c_void)
}
