//! Creating, opening and mapping a POSIX shared-memory segment as one plain structure of atomics.
//!
//! The only module that knows how a segment comes into an address space. `shared_memory` creates
//! and owns it (mode 0600, unlinked when the owner drops it); the mode is widened afterwards.
//! Readers of the board map it read-only, which `shared_memory` cannot do.

use shared_memory::{Shmem, ShmemConf, ShmemError};
use std::fs::{self, File, Permissions};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

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

/// A segment that this process created; it disappears with this value.
pub(super) struct Owned<T> {
    shmem: Shmem,
    content: PhantomData<T>,
}

// SAFETY: the mapping is process-wide and `T: Shared` is made of atomics, so that both the handle
// and references into the segment may be used from any thread.
unsafe impl<T: Shared> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Shared> Sync for Owned<T> {}

impl<T: Shared> Owned<T> {
    /// Creates the segment with all bytes zero; one of the same name that a dead daemon left
    /// behind is removed first. `gid` is the group that the segment is handed to.
    pub fn create(name: &str, mode: u32, gid: Option<u32>) -> Result<Self, SegmentError> {
        let io = |source| SegmentError::Io { name: name.into(), source };
        match fs::remove_file(path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        let shmem = ShmemConf::new()
            .os_id(format!("/{name}"))
            .size(size_of::<T>())
            .create()
            .map_err(|source| SegmentError::Create { name: name.into(), source })?;
        if let Some(gid) = gid {
            std::os::unix::fs::chown(path(name), None, Some(gid)).map_err(io)?;
        }
        fs::set_permissions(path(name), Permissions::from_mode(mode)).map_err(io)?;
        Ok(Owned { shmem, content: PhantomData })
    }

    pub fn get(&self) -> &T {
        // SAFETY: the mapping is page-aligned, at least `size_of::<T>()` bytes long and lives as
        // long as `self`; any bytes are a valid `T`.
        unsafe { &*self.shmem.as_ptr().cast::<T>() }
    }
}

/// A segment of another process.
pub(super) struct Opened<T> {
    address: *mut std::ffi::c_void,
    content: PhantomData<T>,
}

// SAFETY: as for `Owned`.
unsafe impl<T: Shared> Send for Opened<T> {}
// SAFETY: as for `Owned`.
unsafe impl<T: Shared> Sync for Opened<T> {}

impl<T: Shared> Opened<T> {
    /// Maps the segment for reading only. Only loads may be used on what [`get`](Self::get) gives.
    pub fn read_only(name: &str) -> Result<Self, SegmentError> {
        Self::open(name, File::open(path(name)), rustix::mm::ProtFlags::READ)
    }

    pub fn writable(name: &str) -> Result<Self, SegmentError> {
        let file = File::options().read(true).write(true).open(path(name));
        Self::open(name, file, rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE)
    }

    fn open(
        name: &str,
        file: io::Result<File>,
        protection: rustix::mm::ProtFlags,
    ) -> Result<Self, SegmentError> {
        let io = |source| SegmentError::Io { name: name.into(), source };
        let file = file.map_err(io)?;
        let found = file.metadata().map_err(io)?.size();
        if found < size_of::<T>() as u64 {
            return Err(SegmentError::Size { name: name.into(), found, expected: size_of::<T>() });
        }
        // SAFETY: a fresh mapping chosen by the kernel aliases nothing of this process.
        let address = unsafe {
            let flags = rustix::mm::MapFlags::SHARED;
            rustix::mm::mmap(std::ptr::null_mut(), size_of::<T>(), protection, flags, &file, 0)
        };
        let address = address.map_err(|errno| io(errno.into()))?;
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
        // SAFETY: mapped by `open` with this length, and no reference outlives `self`.
        // Unmapping what was mapped cannot fail.
        let _ = unsafe { rustix::mm::munmap(self.address, size_of::<T>()) };
    }
}
