//! Shared memory as one plain structure of atomics: the only module that knows how it comes into an
//! address space.
//!
//! What all clients read is a POSIX segment. `shared_memory` creates and owns it (mode 0600, unlinked when the
//! owner drops it). Readers are handed a descriptor that can only read, since not all of them see the owner's
//! /dev/shm, and map that. What a client writes is a memory file without a name, whose size is sealed: only who was
//! handed its descriptor can map it, and a page that is mapped stays.

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, ftruncate,
    memfd_create,
};
use shared_memory::{Shmem, ShmemConf, ShmemError};
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

/// Why a segment cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("segment {name}: cannot be created: {source}")]
    Create { name: String, source: ShmemError },
    #[error("segment {name}: {source}")]
    Io { name: String, source: io::Error },
    #[error("segment {name} has {found} bytes where {expected} are needed: another version?")]
    Size { name: String, found: u64, expected: usize },
    #[error("segment {name} has another layout; daemon and client must be of one version")]
    Layout { name: String },
    #[error("the memory file of a slot is not sealed against shrinking")]
    NotSealed,
}

/// A structure that may lie in shared memory.
///
/// # Safety
/// The type is `repr(C)` and consists of atomics only, so that any bytes are a valid value and
/// other processes may write to it at any time.
pub(super) unsafe trait Shared {}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/dev/shm").join(name)
}

/// Whether a segment of this name exists. Names are random, so it is the one that was meant.
pub fn is_there(name: &str) -> bool {
    path(name).exists()
}

/// Removes a segment that a dead daemon left behind.
///
/// # Errors
/// Where there is none, or it is somebody else's.
pub fn remove(name: &str) -> io::Result<()> {
    fs::remove_file(path(name))
}

/// A segment that this process created; it disappears with this value.
pub(super) struct Owned<T> {
    shmem: Shmem,
    file: File,
    reader: File,
    content: PhantomData<T>,
}

// SAFETY: the mapping is process-wide and `T: Shared` is made of atomics, so that both the handle
// and references into the segment may be used from any thread.
unsafe impl<T: Shared> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Owned<T> {}

impl<T: Shared> Owned<T> {
    /// Creates the segment with all bytes zero. Where the name is taken, that is an error. It has no
    /// memory yet: see [`Owned::reserve`].
    pub fn create(name: &str) -> Result<Self, SegmentError> {
        let io = |source| SegmentError::Io { name: name.into(), source };
        let shmem = ShmemConf::new()
            .os_id(format!("/{name}"))
            .size(size_of::<T>())
            .create()
            .map_err(|source| SegmentError::Create { name: name.into(), source })?;
        let file = File::options().write(true).open(path(name)).map_err(io)?;
        let reader = File::open(path(name)).map_err(io)?;
        Ok(Owned { shmem, file, reader, content: PhantomData })
    }

    /// The segment as readers are handed it.
    pub fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// Gives a part of the segment its memory, which it then keeps. To be called before the part is
    /// written to: where /dev/shm is full, a write to a page without memory ends the process with SIGBUS.
    ///
    /// # Errors
    /// Where there is not so much memory.
    pub fn reserve(&self, part: &[AtomicU64]) -> io::Result<()> {
        let offset = part.as_ptr().addr() - self.shmem.as_ptr().addr();
        let (offset, bytes) = (offset as u64, size_of_val(part) as u64);
        let all = || fallocate(&self.file, FallocateFlags::empty(), offset, bytes);
        match rustix::io::retry_on_intr(all) {
            // A file system without the call has no limit of its own either.
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    pub fn get(&self) -> &T {
        // SAFETY: the mapping is page-aligned, at least `size_of::<T>()` bytes long and lives as
        // long as `self`; any bytes are a valid `T`.
        unsafe { &*self.shmem.as_ptr().cast::<T>() }
    }
}

/// A memory file of `bytes` zero bytes, of which nobody can ever change the size. `name` is only
/// shown, for instance below /proc/PID/maps.
pub(super) fn sealed_memory(name: &str, bytes: usize) -> Result<OwnedFd, SegmentError> {
    let sealed = || {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            // Linux before 6.3 does not know the flag, and does not ask for it.
            Err(rustix::io::Errno::INVAL) => memfd_create(name, flags)?,
            file => file?,
        };
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(file)
    };
    sealed().map_err(|errno: rustix::io::Errno| io_error(name, errno))
}

fn io_error(name: &str, errno: rustix::io::Errno) -> SegmentError {
    SegmentError::Io { name: name.into(), source: errno.into() }
}

/// A segment of another process, or a memory file.
pub(super) struct Opened<T> {
    address: *mut std::ffi::c_void,
    content: PhantomData<T>,
}

// SAFETY: as for `Owned`.
unsafe impl<T: Shared> Send for Opened<T> {}
// SAFETY: as for `Owned`.
unsafe impl<T: Shared> Sync for Opened<T> {}

impl<T: Shared> Opened<T> {
    /// Maps a segment for reading only. Only loads may be used on what [`get`](Self::get) gives.
    pub fn read_only(name: &str, file: impl AsFd) -> Result<Self, SegmentError> {
        Self::map(name, file, rustix::mm::ProtFlags::READ)
    }

    /// Maps a file of [`sealed_memory`] for reading and writing.
    pub fn sealed(file: &OwnedFd) -> Result<Self, SegmentError> {
        // Another kind of file has no seals at all, which is an error of its own.
        let seals = fcntl_get_seals(file).map_err(|_| SegmentError::NotSealed)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(SegmentError::NotSealed);
        }
        Self::map("slot", file, rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE)
    }

    fn map(
        name: &str,
        file: impl AsFd,
        protection: rustix::mm::ProtFlags,
    ) -> Result<Self, SegmentError> {
        let stat = rustix::fs::fstat(&file).map_err(|errno| io_error(name, errno))?;
        let found = u64::try_from(stat.st_size).unwrap_or(0);
        if found < size_of::<T>() as u64 {
            return Err(SegmentError::Size { name: name.into(), found, expected: size_of::<T>() });
        }
        // SAFETY: a fresh mapping chosen by the kernel aliases nothing of this process.
        let address = unsafe {
            let flags = rustix::mm::MapFlags::SHARED;
            rustix::mm::mmap(std::ptr::null_mut(), size_of::<T>(), protection, flags, &file, 0)
        };
        let address = address.map_err(|errno| io_error(name, errno))?;
        Ok(Opened { address, content: PhantomData })
    }

    pub fn get(&self) -> &T {
        // SAFETY: the mapping is page-aligned, `size_of::<T>()` bytes long and lives as long as
        // `self`; any bytes are a valid `T`.
        unsafe { &*self.address.cast::<T>() }
    }
}

impl<T> Drop for Opened<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no reference outlives `self`.
        // Unmapping what was mapped cannot fail.
        let _ = unsafe { rustix::mm::munmap(self.address, size_of::<T>()) };
    }
}
