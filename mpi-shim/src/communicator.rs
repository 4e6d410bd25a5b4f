//! What is known of a program's communicator: whether its broadcasts are ours to carry, and everything
//! needed for it. Kept as an attribute of the communicator, with which it goes.

use crate::call_cache;
use crate::delivery::Reporting;
use crate::native_runs::NativeRuns;
use crate::patience::{Debt, Patience, Ranks};
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

/// A program's communicator.
pub enum Communicator {
    /// Not set up yet: its broadcasts were native.
    Pending(Patience),
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
    pub debt: Debt,
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
                let communicator = match ranks_of(comm)? {
                    Ok(ranks) => Communicator::Pending(Patience::new(ranks)),
                    Err(why_native) => Communicator::Native(why_native),
                };
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
        let Communicator::Pending(patience) = self else { return Ok(()) };
        if patience.is_over(total_bytes) { self.set_up(comm, total_bytes) } else { Ok(()) }
    }

    /// Sets the communicator up, collectively, unless that has been done: it is to broadcast `total_bytes`.
    ///
    /// # Errors
    /// As of [`prepare`](Self::prepare).
    pub fn set_up(&mut self, comm: Comm, total_bytes: u64) -> Result<(), MpiError> {
        if let Communicator::Pending(patience) = self {
            let ranks = patience.ranks();
            // Where it fails, it fails on all ranks, and natively the program may go on.
            *self = Communicator::Native(report::AFTER_ERROR);
            *self = match set_up::set_up(comm, ranks, total_bytes)? {
                Ok(managed) => Communicator::Managed(Box::new(managed)),
                Err(reason) => Communicator::Native(reason),
            };
        }
        Ok(())
    }
}

/// The ranks of a communicator, or why it cannot be managed, as far as a rank can tell for itself.
fn ranks_of(comm: Comm) -> Result<Result<Ranks, &'static str>, MpiError> {
    if comm.size()? < 2 {
        return Ok(Err("native: one process"));
    }
    if comm.is_inter()? {
        return Ok(Err("native: an intercommunicator"));
    }
    let in_job = ranks_in_job(comm).ok().flatten();
    Ok(in_job.map(|ranks| Ranks::new(&ranks)).ok_or("native: ranks from outside the job"))
}

/// Where all ranks were started together. Those that were spawned or connected may lack this library,
/// and would never answer; every rank of the communicator comes to the same result.
fn ranks_in_job(comm: Comm) -> Result<Option<Vec<c_int>>, MpiError> {
    match Group::of_job()? {
        Some(job) => comm.group()?.ranks_in(&job),
        None => Ok(None),
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
