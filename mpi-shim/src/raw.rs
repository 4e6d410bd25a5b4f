//! The few MPI calls that the broadcast is made of, by their profiling names (`PMPI_*`).
//!
//! Inside a program whose `MPI_*` symbols are interposed, the `MPI_*` names would lead back into this
//! library; and a tool that counts an application's calls must not count ours.

use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// An MPI error code other than `MPI_SUCCESS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("MPI error {0}")]
pub struct MpiError(pub c_int);

/// The code MPI reports for errors that are none of its own classes.
pub const ERR_OTHER: MpiError = MpiError(ffi::MPI_ERR_OTHER as c_int);

pub(crate) fn check(code: c_int) -> Result<(), MpiError> {
    if code == ffi::MPI_SUCCESS as c_int { Ok(()) } else { Err(MpiError(code)) }
}

/// The signature of `MPI_Bcast`.
pub type BcastFn =
    unsafe extern "C" fn(*mut c_void, c_int, ffi::MPI_Datatype, c_int, ffi::MPI_Comm) -> c_int;

pub fn byte_type() -> ffi::MPI_Datatype {
    // SAFETY: a constant that the C part of `mpi-sys` initialises statically.
    unsafe { ffi::RSMPI_UINT8_T }
}

/// An intracommunicator. Copies name the same communicator; freeing is up to the owner.
#[derive(Clone, Copy)]
pub struct Comm(pub ffi::MPI_Comm);

// SAFETY: a handle, not the communicator; which threads may use that is MPI's thread level.
unsafe impl Send for Comm {}
// SAFETY: as above.
unsafe impl Sync for Comm {}

impl Comm {
    pub fn rank(self) -> Result<usize, MpiError> {
        let mut rank = 0;
        // SAFETY: writes one int.
        check(unsafe { ffi::PMPI_Comm_rank(self.0, &mut rank) })?;
        usize::try_from(rank).map_err(|_| ERR_OTHER)
    }

    pub fn size(self) -> Result<usize, MpiError> {
        let mut size = 0;
        // SAFETY: writes one int.
        check(unsafe { ffi::PMPI_Comm_size(self.0, &mut size) })?;
        usize::try_from(size).map_err(|_| ERR_OTHER)
    }

    /// A communicator of the same ranks. Unlike `MPI_Comm_dup` it does not run the callbacks of the
    /// application's attributes, and unlike a split it takes no exchange of colours. Its errors are
    /// returned. Collective.
    pub fn duplicate(self) -> Result<Comm, MpiError> {
        let mut group = MaybeUninit::uninit();
        let mut duplicate = MaybeUninit::uninit();
        // SAFETY: each call writes one handle, which is read only after its success; the group is not
        // used after it was freed.
        unsafe {
            check(ffi::PMPI_Comm_group(self.0, group.as_mut_ptr()))?;
            let mut group = group.assume_init();
            let created = check(ffi::PMPI_Comm_create(self.0, group, duplicate.as_mut_ptr()));
            check(ffi::PMPI_Group_free(&mut group))?;
            created?;
            Comm(duplicate.assume_init()).returning_errors()
        }
    }

    /// A communicator of the ranks with the same colour, in the order of their ranks here. Its errors are
    /// returned. Collective.
    pub fn split(self, colour: usize) -> Result<Comm, MpiError> {
        let rank = self.rank()? as c_int;
        let colour = c_int::try_from(colour).map_err(|_| ERR_OTHER)?;
        let mut split = MaybeUninit::uninit();
        // SAFETY: writes one handle, which is read only after success.
        unsafe {
            check(ffi::PMPI_Comm_split(self.0, colour, rank, split.as_mut_ptr()))?;
            Comm(split.assume_init()).returning_errors()
        }
    }

    /// # Safety
    /// A communicator that we made ourselves.
    unsafe fn returning_errors(self) -> Result<Comm, MpiError> {
        // SAFETY: a predefined handler; by the caller the communicator is live.
        check(unsafe { ffi::PMPI_Comm_set_errhandler(self.0, ffi::RSMPI_ERRORS_RETURN) })?;
        Ok(self)
    }

    /// Frees the communicator behind this and every copy of the handle. Collective.
    pub fn free(mut self) {
        // SAFETY: a live communicator that we made; the caller gives up every copy. An error leaves
        // nothing to be done.
        let _ = unsafe { ffi::PMPI_Comm_free(&mut self.0) };
    }

    /// Gathers one block of equal length from each rank, in the order of ranks. Collective.
    pub fn all_gather(self, own: &[u8]) -> Result<Vec<u8>, MpiError> {
        let len = c_int::try_from(own.len()).map_err(|_| ERR_OTHER)?;
        let mut all = vec![0; own.len() * self.size()?];
        // SAFETY: both buffers have the length that the counts say.
        check(unsafe {
            let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
            ffi::PMPI_Allgather(from, len, byte_type(), to, len, byte_type(), self.0)
        })?;
        Ok(all)
    }

    /// The largest tag that may be used.
    pub fn tag_upper_bound(self) -> Result<u32, MpiError> {
        let mut value: *mut c_int = std::ptr::null_mut();
        let mut found = 0;
        // SAFETY: for this key MPI stores a pointer to an int of its own.
        unsafe {
            let key = ffi::MPI_TAG_UB as c_int;
            check(ffi::PMPI_Comm_get_attr(self.0, key, (&raw mut value).cast(), &mut found))?;
            // The least that the standard allows.
            Ok(if found != 0 && !value.is_null() { (*value).max(32767) as u32 } else { 32767 })
        }
    }
}

/// What a completed receive tells.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    pub source: c_int,
    pub bytes: usize,
}

/// Requests in flight, each with what it stands for. Storage is kept from one use to the next.
pub struct Transfers<T> {
    requests: Vec<ffi::MPI_Request>,
    meanings: Vec<T>,
    indices: Vec<c_int>,
    statuses: Vec<MaybeUninit<ffi::MPI_Status>>,
    finished: Vec<(usize, Received)>,
}

impl<T> Default for Transfers<T> {
    fn default() -> Self {
        let (requests, meanings, indices, statuses, finished) = Default::default();
        Transfers { requests, meanings, indices, statuses, finished }
    }
}

impl<T> Transfers<T> {
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Starts a send.
    ///
    /// # Safety
    /// The `len` bytes at `data` must stay valid and unchanged until the transfer has completed.
    pub unsafe fn send(
        &mut self,
        comm: Comm,
        (data, len): (*const u8, usize),
        (to, tag): (c_int, c_int),
        meaning: T,
    ) -> Result<(), MpiError> {
        let len = c_int::try_from(len).map_err(|_| ERR_OTHER)?;
        let mut request = MaybeUninit::uninit();
        // SAFETY: by the caller; the request is read only after success.
        let request = unsafe {
            let code = ffi::PMPI_Isend(
                data.cast(),
                len,
                byte_type(),
                to,
                tag,
                comm.0,
                request.as_mut_ptr(),
            );
            check(code)?;
            request.assume_init()
        };
        self.requests.push(request);
        self.meanings.push(meaning);
        Ok(())
    }

    /// Starts a receive; `from` is a rank, or `None` for any.
    ///
    /// # Safety
    /// The `len` bytes at `data` must stay valid and untouched until the transfer has completed.
    pub unsafe fn receive(
        &mut self,
        comm: Comm,
        (data, len): (*mut u8, usize),
        (from, tag): (Option<c_int>, c_int),
        meaning: T,
    ) -> Result<(), MpiError> {
        let len = c_int::try_from(len).map_err(|_| ERR_OTHER)?;
        let mut request = MaybeUninit::uninit();
        // SAFETY: by the caller; the request is read only after success.
        let request = unsafe {
            let from = from.unwrap_or(ffi::RSMPI_ANY_SOURCE);
            let code = ffi::PMPI_Irecv(
                data.cast(),
                len,
                byte_type(),
                from,
                tag,
                comm.0,
                request.as_mut_ptr(),
            );
            check(code)?;
            request.assume_init()
        };
        self.requests.push(request);
        self.meanings.push(meaning);
        Ok(())
    }

    /// Moves what has completed since the last call into `completed`; does not wait.
    pub fn test(&mut self, completed: &mut Vec<(T, Received)>) -> Result<(), MpiError> {
        let count = self.requests.len();
        self.indices.resize(count, 0);
        self.statuses.resize_with(count, MaybeUninit::zeroed);
        let mut done = 0;
        // SAFETY: the arrays hold `count` elements each; `MPI_Status` is plain data.
        check(unsafe {
            ffi::PMPI_Testsome(
                count as c_int,
                self.requests.as_mut_ptr(),
                &mut done,
                self.indices.as_mut_ptr(),
                self.statuses.as_mut_ptr().cast(),
            )
        })?;
        // MPI_UNDEFINED, which is negative, says that no request is active.
        let done = usize::try_from(done).unwrap_or(0);
        self.finished.clear();
        for (&index, status) in self.indices[..done].iter().zip(&self.statuses) {
            // SAFETY: zero-initialised, and filled in by MPI for the first `done` entries.
            let status = unsafe { status.assume_init_ref() };
            let mut bytes = 0;
            // SAFETY: a status that MPI has just filled in. For sends the count means nothing.
            check(unsafe { ffi::PMPI_Get_count(status, byte_type(), &mut bytes) })?;
            let bytes = usize::try_from(bytes).unwrap_or(0);
            self.finished.push((index as usize, Received { source: status.MPI_SOURCE, bytes }));
        }
        // From the back, so that the places of those still to be removed stay what they are.
        self.finished.sort_unstable_by_key(|&(index, _)| std::cmp::Reverse(index));
        let first = completed.len();
        for (index, received) in self.finished.drain(..) {
            self.requests.swap_remove(index);
            completed.push((self.meanings.swap_remove(index), received));
        }
        completed[first..].reverse();
        Ok(())
    }
}
