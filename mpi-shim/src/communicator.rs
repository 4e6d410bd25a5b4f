//! What is known of a program's communicator: whether its broadcasts are ours to carry, and everything
//! needed for it. Kept as an attribute of the communicator, with which it goes.

use crate::agreement::{self, Agreement, Ranks};
use crate::call_cache;
use crate::pmpi::{self, Comm, Group, MpiError, SUCCESS, check, mpi};
use crate::report;
use crate::set_up::set_up;
use crate::tree_bcast::Engine;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

/// Setting up takes several collective calls, over a wide area as long as a few short broadcasts. So where it is not known
/// what the ranks agree, it is done only before a broadcast of less than so many bytes that has so many before it, and
/// before any longer one: programs that make a communicator for a single broadcast don't pay for it, unless that takes
/// far longer.
const NATIVE_BEFORE: [(u64, u32); 2] = [(64 << 10, 3), (1 << 20, 1)];

/// A program's communicator.
pub enum Communicator {
    /// Not set up yet, after this number of broadcasts, which were native.
    Pending(Ranks, u32),
    /// Broadcasts are native, for ever, and why.
    Native(&'static str),
    Managed(Box<Managed>),
}

/// A communicator whose broadcasts may go along trees.
pub struct Managed {
    pub agreed: Arc<Agreement>,
    pub engine: Engine,
    /// A message as it travels, where it lies otherwise in the program's memory.
    pub packed: Vec<u8>,
}

impl Managed {
    fn new(agreed: Arc<Agreement>) -> Self {
        Managed { agreed, engine: Engine::default(), packed: Vec::new() }
    }

    fn has_own_carrier(&self) -> bool {
        self.agreed.budget.is_some()
    }
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
                    Ok(ranks) => Communicator::Pending(ranks, 0),
                    Err(why_native) => Communicator::Native(why_native),
                };
                value = Box::into_raw(Box::new(communicator));
                check((functions.comm_set_attr)(comm.0, key, value.cast()))?;
            }
            let communicator = &mut *value;
            // One of a session may outlive the world.
            if let Communicator::Managed(managed) = communicator
                && agreement::job_has_ended()
                && !managed.has_own_carrier()
            {
                *communicator = Communicator::Native("native: the world has ended");
            }
            Ok(communicator)
        }
    }

    /// Sets the communicator up if it is known what its ranks agree, or else, collectively, if it is time: it is to
    /// broadcast `total_bytes`. That depends only on what is the same on all ranks.
    ///
    /// # Errors
    /// Where MPI reports one; no error handler has been called.
    pub fn prepare(&mut self, comm: Comm, total_bytes: u64) -> Result<(), MpiError> {
        let Communicator::Pending(ranks, before) = self else { return Ok(()) };
        let shorter = NATIVE_BEFORE.iter().find(|(bytes, _)| total_bytes < *bytes);
        let is_young = shorter.is_some_and(|(_, enough)| *before < *enough);
        if is_young && !agreement::is_known(*ranks) {
            *before += 1;
            return Ok(());
        }
        self.set_up(comm)
    }

    /// Sets the communicator up, collectively, unless that has been done.
    ///
    /// # Errors
    /// As of [`prepare`](Self::prepare).
    pub fn set_up(&mut self, comm: Comm) -> Result<(), MpiError> {
        if let Communicator::Pending(ranks, _) = *self {
            // Where it fails, it fails on all ranks, and natively the program may go on.
            *self = Communicator::Native(report::AFTER_ERROR);
            *self = match set_up(comm, ranks)? {
                Ok(agreed) => Communicator::Managed(Box::new(Managed::new(agreed))),
                Err(reason) => Communicator::Native(reason),
            };
        }
        Ok(())
    }
}

/// The ranks of a communicator, or why it cannot be managed, as far as a rank can tell for itself.
fn ranks_of(comm: Comm) -> Result<Result<Ranks, &'static str>, MpiError> {
    let size = comm.size()?;
    if size < 2 {
        return Ok(Err("native: one process"));
    }
    if comm.is_inter()? {
        return Ok(Err("native: an intercommunicator"));
    }
    Ok(match ranks_in_job(comm).ok().flatten() {
        // MPICH 5.0 tells of a Cartesian communicator the group of its parent, which may have more ranks.
        Some(ranks) if ranks.len() != size => Err("native: a group with other ranks"),
        Some(ranks) => Ok(Ranks::new(&ranks)),
        None => Err("native: ranks from outside the job"),
    })
}

/// Where all ranks were started together. Those that were spawned or connected may lack this library,
/// and would never answer; every rank of the communicator comes to the same result.
pub fn ranks_in_job(comm: Comm) -> Result<Option<Vec<c_int>>, MpiError> {
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

unsafe extern "C" fn note_finalising(_: usize, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    agreement::end_job();
    call_cache::forget_all();
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
    // Where MPI_Finalize has begun, communicators go by themselves, and may not be freed any more.
    if let Communicator::Managed(managed) = *communicator
        && managed.has_own_carrier()
        && !agreement::job_has_ended()
    {
        managed.agreed.channel.comm().free();
    }
    SUCCESS
}
