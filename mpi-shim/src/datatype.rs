//! Whether a message's bytes lie in memory as they travel, and packing where they do not.

use crate::raw::{Comm, ERR_OTHER, MpiError, check};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// `count` elements of a datatype at an address, as an application passes them to `MPI_Bcast`.
#[derive(Clone, Copy)]
pub struct Elements {
    pub data: *mut c_void,
    pub count: c_int,
    pub datatype: ffi::MPI_Datatype,
}

impl Elements {
    /// The bytes that travel: the only size that all ranks agree on, since each may describe the
    /// message with other datatypes.
    pub fn total_bytes(self) -> Result<u64, MpiError> {
        let mut size: ffi::MPI_Count = 0;
        // SAFETY: writes one count; a datatype that is not one makes MPI report an error.
        check(unsafe { ffi::PMPI_Type_size_x(self.datatype, &mut size) })?;
        let count = u64::try_from(self.count).map_err(|_| ERR_OTHER)?;
        let size = u64::try_from(size).map_err(|_| ERR_OTHER)?;
        count.checked_mul(size).ok_or(ERR_OTHER)
    }

    /// Whether the datatype is one of MPI's own, whose handle always means the same.
    pub fn is_predefined(self) -> bool {
        envelope(self.datatype) == Ok(PREDEFINED)
    }

    /// Whether the elements lie in memory as they travel, without gaps and in order.
    pub fn is_contiguous(self) -> Result<bool, MpiError> {
        is_contiguous(self.datatype)
    }

    /// Copies the elements into bytes as they travel.
    ///
    /// # Safety
    /// The elements must be readable.
    pub unsafe fn pack(self, comm: Comm, bytes: &mut [u8]) -> Result<(), MpiError> {
        let len = c_int::try_from(bytes.len()).map_err(|_| ERR_OTHER)?;
        let mut position = 0;
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: MPI writes at most `len` bytes; the elements are readable by the caller.
        check(unsafe {
            let Elements { data, count, datatype } = self;
            ffi::PMPI_Pack(data, count, datatype, to, len, &mut position, comm.0)
        })
    }

    /// Copies bytes as they travel into the elements.
    ///
    /// # Safety
    /// The elements must be writable.
    pub unsafe fn unpack(self, comm: Comm, bytes: &[u8]) -> Result<(), MpiError> {
        let len = c_int::try_from(bytes.len()).map_err(|_| ERR_OTHER)?;
        let mut position = 0;
        let from = bytes.as_ptr().cast();
        // SAFETY: MPI reads at most `len` bytes; the elements are writable by the caller.
        check(unsafe {
            let Elements { data, count, datatype } = self;
            ffi::PMPI_Unpack(from, len, &mut position, data, count, datatype, comm.0)
        })
    }
}

/// A predefined type, or copies and rows of one, whose extent is its size. Everything else is
/// packed: a type of equal size and extent may still have its parts in another order.
fn is_contiguous(datatype: ffi::MPI_Datatype) -> Result<bool, MpiError> {
    let arguments @ (integers, addresses, datatypes) = envelope(datatype)?;
    // The numbers of arguments tell the constructors apart that matter here: none for a predefined
    // type, one datatype for a duplicate, a count and a datatype for a row.
    match arguments {
        PREDEFINED => extent_is_size(datatype),
        (0, 0, 1) | (1, 0, 1) => {
            let mut count = [0];
            let mut inner = MaybeUninit::uninit();
            // SAFETY: room for as many arguments as the envelope names.
            let mut inner = unsafe {
                let code = ffi::PMPI_Type_get_contents(
                    datatype,
                    integers,
                    addresses,
                    datatypes,
                    count.as_mut_ptr(),
                    std::ptr::null_mut(),
                    inner.as_mut_ptr(),
                );
                check(code)?;
                inner.assume_init()
            };
            let contiguous = is_contiguous(inner);
            free_unless_predefined(&mut inner)?;
            contiguous
        }
        _ => Ok(false),
    }
}

fn extent_is_size(datatype: ffi::MPI_Datatype) -> Result<bool, MpiError> {
    let (mut size, mut lower, mut extent): (c_int, ffi::MPI_Aint, ffi::MPI_Aint) = (0, 0, 0);
    // SAFETY: writes one int and two addresses.
    unsafe {
        check(ffi::PMPI_Type_size(datatype, &mut size))?;
        check(ffi::PMPI_Type_get_extent(datatype, &mut lower, &mut extent))?;
    }
    Ok(lower == 0 && extent as i64 == i64::from(size))
}

/// `MPI_Type_get_contents` hands out derived types as new references, predefined ones as they are.
fn free_unless_predefined(datatype: &mut ffi::MPI_Datatype) -> Result<(), MpiError> {
    if envelope(*datatype)? != PREDEFINED {
        // SAFETY: a derived type that is ours to free, freed once.
        check(unsafe { ffi::PMPI_Type_free(datatype) })?;
    }
    Ok(())
}

/// How many integers, addresses and datatypes a datatype was made of.
type Envelope = (c_int, c_int, c_int);
const PREDEFINED: Envelope = (0, 0, 0);

fn envelope(datatype: ffi::MPI_Datatype) -> Result<Envelope, MpiError> {
    let (mut integers, mut addresses, mut datatypes, mut combiner) = (0, 0, 0, 0);
    // SAFETY: writes four ints.
    check(unsafe {
        ffi::PMPI_Type_get_envelope(
            datatype,
            &mut integers,
            &mut addresses,
            &mut datatypes,
            &mut combiner,
        )
    })?;
    Ok((integers, addresses, datatypes))
}
