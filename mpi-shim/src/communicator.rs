//! What is known of a program's communicator: whether its broadcasts are ours to carry, and everything
//! needed for it. Kept as an attribute of the communicator, with which it goes.

use crate::call_cache;
use crate::delivery::Reporting;
use crate::native_runs::NativeRuns;
use crate::plan_cache::PlanCache;
use crate::pmpi::{self, Comm, Group, MpiError, SUCCESS, check, mpi};
use crate::report;
use crate::sampling::Sampling;
use crate::set_up::{self, Budget};
use crate::tree_bcast::{Channel, Engine};
use arborcast_proto::{Group as Nodes, GroupHash};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Setting up takes several collective calls, over a wide area as long as a few short broadcasts. So a
/// communicator is set up only before a broadcast of less than so many bytes that has so many before it, and before any
/// longer one: programs that make a communicator for a single broadcast don't pay for it, unless it takes far longer.
const NATIVE_BEFORE: [(u64, u32); 2] = [(64 << 10, 3), (1 << 20, 1)];

/// A program's communicator.
pub enum Communicator {
    /// Not set up yet, after this number of broadcasts, which were native.
    Pending(u32),
    /// Broadcasts are native, for ever, and why.
    Native(&'static str),
    Managed(Box<Managed>),
}

/// A communicator whose broadcasts may go along trees.
pub struct Managed {
    pub channel: Channel,
    pub group: Nodes,
    pub group_hash: GroupHash,
    /// Counts the broadcasts that carry a header.
    pub sequence: u32,
    pub native_runs: NativeRuns,
    pub plans: PlanCache,
    pub sampling: Sampling,
    pub reporting: Reporting,
    pub engine: Engine,
    /// A message as it travels, where it lies otherwise in the program's memory.
    pub packed: Vec<u8>,
    pub budget: Budget,
}

impl Communicator {
    /// What is known of `comm`. Local.
    ///
    /// # Errors
    /// Where MPI reports one, and has told the communicator's error handler.
    ///
    /// # Safety
    /// No other thread may use the result at the same time; MPI demands the same of two collective
    /// calls on one communicator.
    pub unsafe fn of<'a>(comm: Comm) -> Result<&'a mut Communicator, MpiError> {
        let key = keyval()?;
        let functions = &mpi().functions;
        let mut value: *mut Communicator = std::ptr::null_mut();
        let mut found = 0;
        // SAFETY: under this key only pointers from `Box::into_raw` below are stored; they live
        // until the communicator is freed, which the caller's broadcast on it precludes.
        unsafe {
            check((functions.comm_get_attr)(comm.0, key, (&raw mut value).cast(), &mut found))?;
            if found == 0 {
                let why_native = why_native(comm)?;
                let communicator =
                    why_native.map_or(Communicator::Pending(0), Communicator::Native);
                value = Box::into_raw(Box::new(communicator));
                check((functions.comm_set_attr)(comm.0, key, value.cast()))?;
            }
            Ok(&mut *value)
        }
    }

    /// Sets the communicator up, collectively, if it is time: it is to broadcast `total_bytes`. That
    /// depends only on what is the same on all ranks.
    ///
    /// # Errors
    /// Where MPI reports one; no error handler has been called.
    pub fn prepare(&mut self, comm: Comm, total_bytes: u64) -> Result<(), MpiError> {
        if let Communicator::Pending(before) = self {
            let shorter = NATIVE_BEFORE.iter().find(|(bytes, _)| total_bytes < *bytes);
            if shorter.is_some_and(|(_, enough)| *before < *enough) {
                *before += 1;
            } else {
                // Where it fails, it fails on all ranks, and natively the program may go on.
                *self = Communicator::Native(report::AFTER_ERROR);
                *self = match set_up::set_up(comm)? {
                    Ok(managed) => Communicator::Managed(Box::new(managed)),
                    Err(reason) => Communicator::Native(reason),
                };
            }
        }
        Ok(())
    }
}

/// Why a communicator cannot be managed, as far as a rank can tell for itself.
fn why_native(comm: Comm) -> Result<Option<&'static str>, MpiError> {
    Ok(match () {
        () if comm.size()? < 2 => Some("native: one process"),
        () if comm.is_inter()? => Some("native: an intercommunicator"),
        () if !is_of_job(comm).unwrap_or(false) => Some("native: ranks from outside the job"),
        () => None,
    })
}

/// Whether all ranks were started together. Those that were spawned or connected may lack this library,
/// and would never answer; every rank of the communicator comes to the same result.
fn is_of_job(comm: Comm) -> Result<bool, MpiError> {
    match Group::of_job()? {
        Some(job) => comm.group()?.is_within(&job),
        None => Ok(false),
    }
}

/// A communicator of this process alone, which returns errors.
///
/// # Errors
/// Where MPI has none left, or the world model is not in use.
pub fn own_comm() -> Result<Comm, MpiError> {
    static OWN: OnceLock<Result<Comm, MpiError>> = OnceLock::new();
    if !pmpi::world_is_usable()? {
        return Err(MpiError::other());
    }
    *OWN.get_or_init(|| Comm::itself().returning_errors(|| Comm::itself().duplicate()))
}

/// The attribute key, made at first use.
fn keyval() -> Result<c_int, MpiError> {
    static KEY: OnceLock<Result<c_int, MpiError>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        let mut finalising_key = 0;
        let nothing = std::ptr::null_mut();
        let functions = &mpi().functions;
        // SAFETY: the callbacks have the signatures that MPI asks for and live for ever.
        unsafe {
            let create = functions.comm_create_keyval;
            check(create(Some(do_not_copy), Some(free_attribute), &mut key, nothing))?;
            if pmpi::world_is_usable()? {
                let delete = Some(note_finalising as _);
                check(create(Some(do_not_copy), delete, &mut finalising_key, nothing))?;
                let itself = Comm::itself();
                check((functions.comm_set_attr)(itself.0, finalising_key, nothing))?;
            }
        }
        Ok(key)
    })
}

/// MPI_Finalize has begun: communicators go by themselves, and may not be freed any more.
static FINALISING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn note_finalising(_: usize, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    FINALISING.store(true, Ordering::Relaxed);
    SUCCESS
}

/// A duplicate of a communicator starts anew.
unsafe extern "C" fn do_not_copy(
    _: usize,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes the address of its flag.
    unsafe { *flag = 0 };
    SUCCESS
}

unsafe extern "C" fn free_attribute(
    _: usize,
    _: c_int,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    call_cache::forget_all();
    // SAFETY: stored by `Communicator::of`, and deleted once.
    let communicator = unsafe { Box::from_raw(value.cast::<Communicator>()) };
    if let Communicator::Managed(managed) = *communicator
        && !FINALISING.load(Ordering::Relaxed)
    {
        managed.channel.comm().free();
    }
    SUCCESS
}
