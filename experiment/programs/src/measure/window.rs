//! One-sided transfers, which the `mpi` crate lacks: a window of bytes on every rank, and timed
//! `MPI_Put` and `MPI_Get`. The memory belongs to MPI and Rust never sees it, so what other ranks
//! write there cannot alias anything.

use super::buffer::MOST_ELEMENTS;
use super::clock::{MpiClock, seconds_of};
use super::failure::{Failure, agree};
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// A window of equal size on every rank of a communicator, freed collectively when dropped.
pub struct Window {
    raw: ffi::MPI_Win,
    bytes: usize,
}

impl Window {
    /// Collective. `bytes` must be the same on all ranks.
    pub fn allocate(comm: &SimpleCommunicator, bytes: usize) -> Result<Self, Failure> {
        let fits = if bytes <= MOST_ELEMENTS { Ok(()) } else { Err(Failure::NoMemory { bytes }) };
        agree(comm, fits)?;
        let mut base: *mut u8 = std::ptr::null_mut();
        // SAFETY: the MPI's null handle, to be overwritten below.
        let mut raw = unsafe { ffi::RSMPI_WIN_NULL };
        // SAFETY: all ranks call this with the same size; `base` and `raw` outlive the call, and
        // the former is passed by address as the C binding of MPI_Win_allocate asks.
        unsafe {
            ffi::MPI_Win_allocate(
                bytes as ffi::MPI_Aint,
                1,
                ffi::RSMPI_INFO_NULL,
                comm.as_raw(),
                (&raw mut base).cast(),
                &mut raw,
            );
        }
        Ok(Self { raw, bytes })
    }

    /// Seconds that `MPI_Put` of `message` to `target` takes until it has arrived there
    /// (`MPI_Win_flush`). The target should be inside MPI meanwhile.
    pub fn timed_put(&self, target: i32, message: &[u8]) -> f64 {
        assert!(message.len() <= self.bytes);
        let count = message.len() as i32;
        self.locked(target, || {
            seconds_of(&MpiClock, || {
                // SAFETY: `message` lives until the flush, which completes the transfer; it fits
                // into the window, and the window is locked at `target`.
                unsafe {
                    let byte = ffi::RSMPI_UINT8_T;
                    let from = message.as_ptr().cast();
                    ffi::MPI_Put(from, count, byte, target, 0, count, byte, self.raw);
                    ffi::MPI_Win_flush(target, self.raw);
                }
            })
        })
    }

    /// Seconds that `MPI_Get` from `target` into `message` takes until it is here.
    pub fn timed_get(&self, target: i32, message: &mut [u8]) -> f64 {
        assert!(message.len() <= self.bytes);
        let count = message.len() as i32;
        self.locked(target, || {
            seconds_of(&MpiClock, || {
                // SAFETY: `message` is borrowed mutably until the flush, which completes the
                // transfer; its length is within the window, which is locked at `target`.
                unsafe {
                    let byte = ffi::RSMPI_UINT8_T;
                    let to = message.as_mut_ptr().cast();
                    ffi::MPI_Get(to, count, byte, target, 0, count, byte, self.raw);
                    ffi::MPI_Win_flush(target, self.raw);
                }
            })
        })
    }

    /// Runs `transfer` inside a passive epoch at `target`. MPICH has the lock when `MPI_Win_lock`
    /// returns; Open MPI 4.1 waits for it in the first flush.
    fn locked(&self, target: i32, transfer: impl FnOnce() -> f64) -> f64 {
        // SAFETY: the window is alive; lock and unlock come in pairs here and nowhere else.
        unsafe { ffi::MPI_Win_lock(ffi::MPI_LOCK_SHARED as i32, target, 0, self.raw) };
        let seconds = transfer();
        // SAFETY: locked above, and `transfer` has flushed.
        unsafe { ffi::MPI_Win_unlock(target, self.raw) };
        seconds
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made by `allocate`, freed once, with no epoch open; collective like the type.
        unsafe { ffi::MPI_Win_free(&mut self.raw) };
    }
}
