//! Safe names for the MPI calls that the broadcast is made of.

use crate::abi::{Interface, Word};
use crate::backoff::Backoff;
use crate::library::Mpi;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An MPI error code other than `MPI_SUCCESS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("MPI error {0}")]
pub struct MpiError(pub c_int);

impl MpiError {
    /// For errors that are none of MPI's own classes.
    pub fn other() -> Self {
        MpiError(mpi().abi.err_other)
    }

    /// Memory for a message cannot be had.
    pub fn no_memory() -> Self {
        MpiError(mpi().abi.err_no_mem)
    }
}

/// `MPI_SUCCESS`, in every ABI.
pub const SUCCESS: c_int = 0;

/// What a call of MPI returned, or what our error handler was told during it.
pub(crate) fn check(code: c_int) -> Result<(), MpiError> {
    // Relaxed: what this thread has noted itself, it sees.
    if code == SUCCESS && !HAS_NOTED.load(Ordering::Relaxed) {
        return Ok(());
    }
    match (code, NOTED.replace(SUCCESS)) {
        (SUCCESS, SUCCESS) => Ok(()),
        (SUCCESS, noted) => Err(MpiError(noted)),
        (code, _) => Err(MpiError(code)),
    }
}

thread_local! {
    /// The error that the call under way has told our handler of.
    static NOTED: Cell<c_int> = const { Cell::new(SUCCESS) };
}

/// Some thread has noted an error: before that, none need look for its own.
static HAS_NOTED: AtomicBool = AtomicBool::new(false);

/// The MPI of this process. Whoever holds a handle of it has found it before.
///
/// # Panics
/// Where there is none.
#[inline]
pub fn mpi() -> &'static Mpi {
    Mpi::get().unwrap_or_else(|error| panic!("{error}"))
}

/// A handle that another binding of MPI has, as a machine word.
pub fn word<T: Copy>(handle: T) -> Word {
    const { assert!(size_of::<T>() <= size_of::<Word>()) };
    let mut word: Word = 0;
    // SAFETY: no more bytes than the word has; on a little-endian machine they are its lower ones.
    unsafe {
        let from = (&raw const handle).cast::<u8>();
        std::ptr::copy_nonoverlapping(from, (&raw mut word).cast(), size_of::<T>());
    }
    word
}

/// Two handles side by side, as MPI wants them in an array.
pub fn handles([first, second]: [Word; 2]) -> [Word; 2] {
    match mpi().abi.handle_bytes {
        4 => [first & 0xffff_ffff | second << 32, 0],
        _ => [first, second],
    }
}

/// A datatype's handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datatype(pub Word);

pub fn byte_type() -> Datatype {
    Datatype(mpi().abi.byte)
}

/// A communicator's handle. Copies name the same communicator; freeing is up to the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Comm(pub Word);

impl Comm {
    /// The communicator of a handle as the program's own binding of MPI has it.
    pub fn from_raw<T: Copy>(handle: T) -> Self {
        Comm(word(handle))
    }

    pub fn world() -> Self {
        Comm(mpi().abi.comm_world)
    }

    pub fn itself() -> Self {
        Comm(mpi().abi.comm_self)
    }

    /// Whether the handle can be one of a communicator at all. Asking MPI about any other calls an
    /// error handler, and that is for the program's own call to do.
    pub fn is_plausible(self) -> bool {
        let abi = &mpi().abi;
        let kind = abi.interface != Interface::Mpich || (self.0 >> 26) & 0xf == 1;
        kind && self.0 != abi.comm_null && self.0 != 0
    }

    pub fn rank(self) -> Result<usize, MpiError> {
        let mut rank = 0;
        // SAFETY: writes one int.
        check(unsafe { (mpi().functions.comm_rank)(self.0, &mut rank) })?;
        usize::try_from(rank).map_err(|_| MpiError::other())
    }

    pub fn size(self) -> Result<usize, MpiError> {
        let mut size = 0;
        // SAFETY: writes one int.
        check(unsafe { (mpi().functions.comm_size)(self.0, &mut size) })?;
        usize::try_from(size).map_err(|_| MpiError::other())
    }

    pub fn is_inter(self) -> Result<bool, MpiError> {
        let mut inter = 0;
        // SAFETY: writes one int.
        check(unsafe { (mpi().functions.comm_test_inter)(self.0, &mut inter) })?;
        Ok(inter != 0)
    }

    pub fn group(self) -> Result<Group, MpiError> {
        let mut group = 0;
        // SAFETY: writes one handle.
        check(unsafe { (mpi().functions.comm_group)(self.0, &mut group) })?;
        Ok(Group(group))
    }

    /// Does something on this communicator whose errors are to be returned, whatever handler the
    /// program has set.
    pub fn returning_errors<T>(
        self,
        act: impl FnOnce() -> Result<T, MpiError>,
    ) -> Result<T, MpiError> {
        let functions = &mpi().functions;
        let mut handler = 0;
        // SAFETY: the program's handler is put back before anything else can use the communicator; MPI
        // hands out a reference that is ours to free.
        unsafe {
            check((functions.comm_get_errhandler)(self.0, &mut handler))?;
            check((functions.comm_set_errhandler)(self.0, error_handler()?))?;
            let result = act();
            let restored = check((functions.comm_set_errhandler)(self.0, handler));
            check((functions.errhandler_free)(&mut handler))?;
            restored.and(result)
        }
    }

    /// A communicator of the same ranks, whose errors are returned. Collective.
    ///
    /// Unlike `MPI_Comm_dup` a split does not run the callbacks of the program's attributes. It is not
    /// `MPI_Comm_create`, which takes no exchange of colours, since with that MPICH 5.0.2 mixes up the
    /// messages of communicators that come after one with a distributed graph.
    /// Nor `MPI_Comm_create_group`, which takes two thirds of the time: Open MPI agrees on its context with messages on the
    /// program's communicator under the caller's tag, which a receive of the program's for any tag would take.
    pub fn duplicate(self) -> Result<Comm, MpiError> {
        self.split(0)
    }

    /// A communicator of the ranks with the same colour, in the order of their ranks here. Its errors are
    /// returned. Collective.
    pub fn split(self, colour: usize) -> Result<Comm, MpiError> {
        let rank = self.rank()? as c_int;
        let colour = c_int::try_from(colour).map_err(|_| MpiError::other())?;
        let mut split = 0;
        // SAFETY: writes one handle.
        check(unsafe { (mpi().functions.comm_split)(self.0, colour, rank, &mut split) })?;
        Comm(split).set_errors_return()
    }

    fn set_errors_return(self) -> Result<Comm, MpiError> {
        // SAFETY: a handler of ours, and a communicator that was just made.
        check(unsafe { (mpi().functions.comm_set_errhandler)(self.0, error_handler()?) })?;
        Ok(self)
    }

    /// Frees the communicator behind this and every copy of the handle. Collective.
    pub fn free(mut self) {
        // SAFETY: a live communicator that we made; the caller gives up every copy. An error leaves
        // nothing to be done.
        let _ = unsafe { (mpi().functions.comm_free)(&mut self.0) };
    }

    /// Gathers one block of equal length from each rank, in the order of ranks. Collective.
    pub fn all_gather(self, own: &[u8]) -> Result<Vec<u8>, MpiError> {
        let len = c_int::try_from(own.len()).map_err(|_| MpiError::other())?;
        let (byte, mut all) = (byte_type().0, vec![0; own.len() * self.size()?]);
        // SAFETY: both buffers have the length that the counts say.
        check(unsafe {
            let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
            (mpi().functions.allgather)(from, len, byte, to, len, byte, self.0)
        })?;
        Ok(all)
    }

    /// Copies elements of one description to those of another, as a message of this process to itself,
    /// of which this must be a communicator.
    ///
    /// # Safety
    /// The first must be readable, the second writable.
    pub unsafe fn copy_to_itself(
        self,
        (from, from_count, from_type): (*mut c_void, i64, Datatype),
        (to, to_count, to_type): (*mut c_void, i64, Datatype),
    ) -> Result<(), MpiError> {
        let int = |count| c_int::try_from(count).map_err(|_| MpiError::other());
        let (from_count, to_count) = (int(from_count)?, int(to_count)?);
        let functions = &mpi().functions;
        let (mut sent, mut received) = (0, 0);
        let mut transfers = Transfers::default();
        // SAFETY: by the caller; both have completed when this returns.
        unsafe {
            let (itself, tag) = (0, 0);
            let receive = functions.irecv;
            check(receive(to, to_count, to_type.0, itself, tag, self.0, &mut received))?;
            transfers.add(received, ());
            let send = functions.isend;
            check(send(from, from_count, from_type.0, itself, tag, self.0, &mut sent))?;
            transfers.add(sent, ());
        }
        transfers.finish()
    }

    /// Native broadcast of bytes.
    ///
    /// # Safety
    /// `len` bytes at `data` must be readable, and writable except at the root.
    pub unsafe fn broadcast_bytes(
        self,
        data: *mut u8,
        len: usize,
        root: c_int,
    ) -> Result<(), MpiError> {
        let len = c_int::try_from(len).map_err(|_| MpiError::other())?;
        // SAFETY: by the caller.
        check(unsafe { (mpi().bcast)(data.cast(), len, byte_type().0, root, self.0) })
    }

    /// The largest tag that may be used.
    ///
    /// The standard attaches it to the world, and in the sessions model to the communicators made from
    /// groups; some MPIs to every communicator.
    pub fn tag_upper_bound(self) -> Result<u32, MpiError> {
        /// The least that the standard allows.
        const LEAST: c_int = 32767;
        let places = [Some(self), world_is_usable()?.then(Comm::world)];
        for place in places.into_iter().flatten() {
            let mut value: *mut c_int = std::ptr::null_mut();
            let mut found = 0;
            // SAFETY: for this key MPI stores a pointer to an int of its own.
            unsafe {
                let key = mpi().abi.tag_ub;
                let get = mpi().functions.comm_get_attr;
                check(get(place.0, key, (&raw mut value).cast(), &mut found))?;
                if found != 0 && !value.is_null() {
                    return Ok((*value).max(LEAST) as u32);
                }
            }
        }
        Ok(LEAST as u32)
    }
}

/// The error handler of our communicators, which lets errors be returned.
///
/// `MPI_ERRORS_RETURN` would, but its number is not the same in all libraries of the standard ABI (MPICH
/// 5.0.2 has 0x143 where Intel MPI 2021.19 has 0x142). After a handler has returned, MPICH 5 returns
/// success; so the handler notes the error, for [`check`].
fn error_handler() -> Result<Word, MpiError> {
    static HANDLER: OnceLock<Result<Word, MpiError>> = OnceLock::new();
    *HANDLER.get_or_init(|| {
        let create = mpi().functions.comm_create_errhandler;
        let mut handler = 0;
        // SAFETY: writes one handle; the function lives for ever.
        check(unsafe { create(Some(note_error), &mut handler) })?;
        Ok(handler)
    })
}

unsafe extern "C" fn note_error(_: *mut Word, code: *mut c_int) {
    HAS_NOTED.store(true, Ordering::Relaxed);
    // SAFETY: MPI passes the address of the code.
    NOTED.set(unsafe { *code });
}

/// The world model has begun and not ended.
pub fn world_is_usable() -> Result<bool, MpiError> {
    let (mut begun, mut ended) = (0, 0);
    // SAFETY: writes one int each; both may be called at any time.
    unsafe {
        check((mpi().functions.initialized)(&mut begun))?;
        check((mpi().functions.finalized)(&mut ended))?;
    }
    Ok(begun != 0 && ended == 0)
}

/// Whether several threads of this process may be in MPI at once, as far as the world model tells.
pub fn has_threads() -> Result<bool, MpiError> {
    if !world_is_usable()? {
        return Ok(true);
    }
    let mut level = 0;
    // SAFETY: writes one int.
    check(unsafe { (mpi().functions.query_thread)(&mut level) })?;
    Ok(level >= mpi().abi.thread_multiple)
}

/// A group of processes; freed with this value.
pub struct Group(Word);

impl Group {
    /// The processes that this process was started with: of the world, or of the session
    /// `mpi://WORLD` where the world model was not begun. `None` where MPI does not say.
    pub fn of_job() -> Result<Option<Group>, MpiError> {
        if world_is_usable()? {
            return Comm::world().group().map(Some);
        }
        let functions = &mpi().functions;
        let (Some(handler_of), Some(begin), Some(end), Some(group_of)) = (
            functions.session_create_errhandler,
            functions.session_init,
            functions.session_finalize,
            functions.group_from_session_pset,
        ) else {
            return Ok(None);
        };
        let (mut handler, mut session, mut group) = (0, 0, 0);
        // SAFETY: writes one handle each; a session may be begun at any time, and this one ends with
        // nothing made from it but the group, which outlives it.
        unsafe {
            check(handler_of(Some(note_error), &mut handler))?;
            let begun = check(begin(mpi().abi.info_null, handler, &mut session));
            check((functions.errhandler_free)(&mut handler))?;
            begun?;
            let found = check(group_of(session, c"mpi://WORLD".as_ptr(), &mut group));
            check(end(&mut session))?;
            found?;
        }
        Ok(Some(Group(group)))
    }

    /// The ranks that this group's processes have in `other`; `None` where one has none.
    pub fn ranks_in(&self, other: &Group) -> Result<Option<Vec<c_int>>, MpiError> {
        let functions = &mpi().functions;
        let mut size = 0;
        // SAFETY: writes one int.
        check(unsafe { (functions.group_size)(self.0, &mut size) })?;
        let ranks: Vec<c_int> = (0..size).collect();
        let mut there = vec![0; ranks.len()];
        // SAFETY: both arrays have `size` elements.
        check(unsafe {
            let translate = functions.group_translate_ranks;
            translate(self.0, size, ranks.as_ptr(), other.0, there.as_mut_ptr())
        })?;
        Ok((!there.contains(&mpi().abi.undefined)).then_some(there))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: a group that MPI made for us, freed once. An error leaves nothing to be done.
        let _ = unsafe { (mpi().functions.group_free)(&mut self.0) };
    }
}

/// What a completed receive tells.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    pub source: c_int,
    pub bytes: usize,
}

/// Requests in an array as MPI wants it: of words or of ints.
#[derive(Default)]
struct Requests {
    /// Two of them hold a handle of eight bytes.
    halves: Vec<u32>,
    halves_per_handle: usize,
}

impl Requests {
    fn push(&mut self, request: Word) {
        if self.halves_per_handle == 0 {
            self.halves_per_handle = mpi().abi.handle_bytes / 4;
        }
        let halves = [request as u32, (request >> 32) as u32];
        self.halves.extend_from_slice(&halves[..self.halves_per_handle]);
    }

    fn swap_remove(&mut self, index: usize) {
        // From the upper half down, so that each half takes the place of its like.
        for half in (0..self.halves_per_handle).rev() {
            self.halves.swap_remove(index * self.halves_per_handle + half);
        }
    }

    fn drain(&mut self) -> Vec<Word> {
        let half = |half: &u32| Word::try_from(*half).unwrap_or(0);
        let handles = self.halves.chunks(self.halves_per_handle.max(1));
        let words =
            handles.map(|halves| halves.iter().rev().fold(0, |word, h| word << 32 | half(h)));
        let words = words.collect();
        self.halves.clear();
        words
    }
}

/// Requests in flight, each with what it stands for. Storage is kept from one use to the next.
pub struct Transfers<T> {
    requests: Requests,
    kinds: Vec<T>,
    indices: Vec<c_int>,
    /// Statuses as MPI lays them out.
    statuses: Vec<u64>,
    finished: Vec<(usize, Received)>,
}

impl<T> Default for Transfers<T> {
    fn default() -> Self {
        let (requests, kinds, indices, statuses, finished) = Default::default();
        Transfers { requests, kinds, indices, statuses, finished }
    }
}

impl<T> Transfers<T> {
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    fn add(&mut self, request: Word, kind: T) {
        self.requests.push(request);
        self.kinds.push(kind);
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
        kind: T,
    ) -> Result<(), MpiError> {
        let len = c_int::try_from(len).map_err(|_| MpiError::other())?;
        let (byte, mut request) = (byte_type().0, 0);
        // SAFETY: by the caller.
        check(unsafe {
            (mpi().functions.isend)(data.cast(), len, byte, to, tag, comm.0, &mut request)
        })?;
        self.add(request, kind);
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
        kind: T,
    ) -> Result<(), MpiError> {
        let len = c_int::try_from(len).map_err(|_| MpiError::other())?;
        let (byte, mut request) = (byte_type().0, 0);
        let from = from.unwrap_or(mpi().abi.any_source);
        // SAFETY: by the caller.
        check(unsafe {
            (mpi().functions.irecv)(data.cast(), len, byte, from, tag, comm.0, &mut request)
        })?;
        self.add(request, kind);
        Ok(())
    }

    /// Moves what has completed since the last call into `completed`; does not wait.
    pub fn test(&mut self, completed: &mut Vec<(T, Received)>) -> Result<(), MpiError> {
        let count = self.kinds.len();
        if count == 0 {
            return Ok(());
        }
        let abi = &mpi().abi;
        self.indices.resize(count, 0);
        self.statuses.resize((count * abi.status_bytes).div_ceil(8), 0);
        let statuses = self.statuses.as_mut_ptr().cast::<u8>();
        let mut done = 0;
        // SAFETY: the arrays have room for `count` elements each.
        check(unsafe {
            (mpi().functions.testsome)(
                count as c_int,
                self.requests.halves.as_mut_ptr().cast(),
                &mut done,
                self.indices.as_mut_ptr(),
                statuses.cast(),
            )
        })?;
        // MPI_UNDEFINED, which is negative, says that no request is active.
        let done = usize::try_from(done).unwrap_or(0);
        self.finished.clear();
        for (number, &index) in self.indices[..done].iter().enumerate() {
            let (mut source, mut bytes) = (0, 0);
            // SAFETY: MPI has filled in the first `done` statuses, which are plain data. For sends what
            // they say means nothing.
            check(unsafe {
                let status = statuses.add(number * abi.status_bytes);
                let from = status.add(abi.status_source_at);
                std::ptr::copy_nonoverlapping(from, (&raw mut source).cast(), 4);
                (mpi().functions.get_count)(status.cast(), abi.byte, &mut bytes)
            })?;
            let bytes = usize::try_from(bytes).unwrap_or(0);
            self.finished.push((index as usize, Received { source, bytes }));
        }
        // From the back, so that the places of those still to be removed stay what they are.
        self.finished.sort_unstable_by_key(|&(index, _)| std::cmp::Reverse(index));
        let first = completed.len();
        for (index, received) in self.finished.drain(..) {
            self.requests.swap_remove(index);
            completed.push((self.kinds.swap_remove(index), received));
        }
        completed[first..].reverse();
        Ok(())
    }

    /// Waits until everything has completed.
    pub fn finish(&mut self) -> Result<(), MpiError> {
        let (mut completed, mut backoff) = (Vec::new(), Backoff::default());
        while !self.is_empty() {
            self.test(&mut completed)?;
            backoff.after_poll(!completed.is_empty());
            completed.clear();
        }
        Ok(())
    }

    /// Gives up everything in flight, after an error: receives are cancelled, so that MPI writes to no
    /// buffer any more. Buffers of sends must stay.
    pub fn give_up(&mut self) {
        for mut request in self.requests.drain() {
            // SAFETY: requests of ours; an error leaves nothing to be done, and a send that cannot be
            // cancelled completes by itself.
            unsafe {
                (mpi().functions.cancel)(&mut request);
                (mpi().functions.request_free)(&mut request);
            }
        }
        self.kinds.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_either_width_lie_side_by_side() {
        for halves_per_handle in [1, 2] {
            let mut requests = Requests { halves: Vec::new(), halves_per_handle };
            let handle = |i: usize| if halves_per_handle == 2 { i << 32 | (i + 7) } else { i };
            (1..=4).for_each(|i| requests.push(handle(i)));
            assert_eq!(requests.halves.len(), 4 * halves_per_handle);
            requests.swap_remove(1);
            requests.swap_remove(2);
            assert_eq!(requests.drain(), [handle(1), handle(4)]);
            assert!(requests.halves.is_empty());
        }
    }

    #[test]
    fn a_handle_of_four_bytes_fills_the_lower_half() {
        assert_eq!(word(-1i32), 0xffff_ffff);
        assert_eq!(word(std::ptr::without_provenance::<u8>(0x1_0000_0001)), 0x1_0000_0001);
    }
}
