//! Whether a message's bytes lie in memory as they travel, and packing where they do not.

use crate::pmpi::{Comm, Datatype, MpiError, byte_type, check, handles, mpi};
use std::ffi::{c_int, c_void};

/// `count` elements of a datatype at an address, as a program passes them to `MPI_Bcast`.
#[derive(Clone, Copy)]
pub struct Elements {
    pub data: *mut c_void,
    pub count: i64,
    pub datatype: Datatype,
    /// They were passed to `MPI_Bcast_c`.
    pub is_large_call: bool,
}

/// What MPI tells of a datatype.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The bytes of an element that travel.
    pub size: u64,
    /// The datatype is one of MPI's own, whose handle always means the same.
    pub is_predefined: bool,
}

/// What a broadcast carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    pub bytes: u64,
    /// Known to lie in memory as it travels: elements of a predefined type without gaps.
    pub is_plain: bool,
}

impl Datatype {
    /// Asks MPI about a datatype; `None` where no message may be described with it. Never calls an error
    /// handler of the program: `own` must be a communicator of ours, which returns errors.
    pub fn layout(self, own: Comm) -> Option<Layout> {
        let mpi = mpi();
        if self.0 == mpi.abi.datatype_null {
            return None;
        }
        let (mut nothing, mut position, mut size) = (0u64, 0, 0i64);
        // MPI_Pack tells its errors to a communicator, unlike the functions that ask about datatypes,
        // and wants a datatype that is committed. So it goes first.
        // SAFETY: packs no elements; writes one int and one count.
        unsafe {
            let at = (&raw mut nothing).cast::<c_void>();
            let room = size_of_val(&nothing) as c_int;
            check((mpi.functions.pack)(at, 0, self.0, at, room, &mut position, own.0)).ok()?;
            check((mpi.functions.type_size_x)(self.0, &mut size)).ok()?;
        }
        let is_predefined = Envelope::of(self).ok()?.is_predefined();
        Some(Layout { size: u64::try_from(size).ok()?, is_predefined })
    }

    /// Whether elements lie in memory as they travel, without gaps and in order: those of a predefined
    /// type, or of copies and rows of one, whose extent is its size. Everything else is packed: a
    /// type of equal size and extent may still have its parts in another order.
    fn is_contiguous(self) -> Result<bool, MpiError> {
        let envelope = Envelope::of(self)?;
        if envelope.is_predefined() {
            return self.extent_is_size();
        }
        // A duplicate is made of one datatype, a row of a count and a datatype.
        if envelope.datatypes != 1
            || envelope.addresses != 0
            || envelope.integers + envelope.large_counts > 1
        {
            return Ok(false);
        }
        let inner = envelope.only_datatype(self)?;
        let contiguous = inner.is_contiguous();
        inner.free_unless_predefined()?;
        contiguous
    }

    /// Whether an element has no gaps in it or behind it, if it has none in its order.
    pub fn extent_is_size(self) -> Result<bool, MpiError> {
        let (mut size, mut lower, mut extent) = (0i64, 0isize, 0isize);
        // SAFETY: writes one count and two addresses.
        unsafe {
            check((mpi().functions.type_size_x)(self.0, &mut size))?;
            check((mpi().functions.type_get_extent)(self.0, &mut lower, &mut extent))?;
        }
        Ok(lower == 0 && extent as i64 == size)
    }

    /// MPI hands out the parts of a datatype as new references, predefined ones as they are.
    fn free_unless_predefined(mut self) -> Result<(), MpiError> {
        if Envelope::of(self)?.is_predefined() {
            return Ok(());
        }
        // SAFETY: a derived type that is ours to free, freed once.
        check(unsafe { (mpi().functions.type_free)(&mut self.0) })
    }
}

/// How many arguments of each kind a datatype was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Envelope {
    integers: i64,
    addresses: i64,
    large_counts: i64,
    datatypes: i64,
}

impl Envelope {
    fn of(datatype: Datatype) -> Result<Self, MpiError> {
        let functions = &mpi().functions;
        let (mut envelope, mut combiner) = (Envelope::default(), 0);
        let Envelope { integers, addresses, large_counts, datatypes } = &mut envelope;
        // The older function is an error for datatypes with large counts.
        if let Some(ask) = functions.type_get_envelope_large {
            // SAFETY: writes four counts and an int.
            let code = unsafe {
                ask(datatype.0, integers, addresses, large_counts, datatypes, &mut combiner)
            };
            return check(code).map(|()| envelope);
        }
        let mut counts = [0; 3];
        let [integers, addresses, datatypes] = &mut counts;
        // SAFETY: writes four ints.
        check(unsafe {
            let ask = functions.type_get_envelope;
            ask(datatype.0, integers, addresses, datatypes, &mut combiner)
        })?;
        let [integers, addresses, datatypes] = counts.map(i64::from);
        Ok(Envelope { integers, addresses, large_counts: 0, datatypes })
    }

    fn is_predefined(self) -> bool {
        self == Envelope::default()
    }

    /// The datatype that a datatype of this envelope was made of, with at most one number beside it.
    fn only_datatype(self, datatype: Datatype) -> Result<Datatype, MpiError> {
        let functions = &mpi().functions;
        let (mut integer, mut address, mut large_count, mut inner) = (0, 0, 0, 0);
        let Envelope { integers, addresses, large_counts, datatypes } = self;
        // SAFETY: room for one argument of each kind, and the envelope names no more.
        check(unsafe {
            match functions.type_get_contents_large {
                Some(ask) => ask(
                    datatype.0,
                    integers,
                    addresses,
                    large_counts,
                    datatypes,
                    &mut integer,
                    &mut address,
                    &mut large_count,
                    &mut inner,
                ),
                None => (functions.type_get_contents)(
                    datatype.0,
                    integers as c_int,
                    addresses as c_int,
                    datatypes as c_int,
                    &mut integer,
                    &mut address,
                    &mut inner,
                ),
            }
        })?;
        Ok(Datatype(inner))
    }
}

impl Elements {
    /// Whether the elements lie in memory as they travel, without gaps and in order.
    pub fn are_contiguous(self) -> Result<bool, MpiError> {
        self.datatype.is_contiguous()
    }

    /// Copies the elements into bytes as they travel.
    ///
    /// # Safety
    /// The elements must be readable.
    pub unsafe fn pack(self, own: Comm, bytes: &mut [u8]) -> Result<(), MpiError> {
        let to = bytes.as_mut_ptr().cast();
        let Elements { data, count, datatype, .. } = self;
        let functions = &mpi().functions;
        if let (false, Ok(len), Ok(count)) =
            (data.is_null(), c_int::try_from(bytes.len()), c_int::try_from(count))
        {
            let mut position = 0;
            // SAFETY: MPI writes at most `len` bytes; the elements are readable by the caller.
            return check(unsafe {
                (functions.pack)(data, count, datatype.0, to, len, &mut position, own.0)
            });
        }
        match functions.pack_large {
            Some(pack) if !data.is_null() => {
                let (len, mut position) = (bytes.len() as i64, 0);
                // SAFETY: as above.
                check(unsafe { pack(data, count, datatype.0, to, len, &mut position, own.0) })
            }
            _ => {
                let whole = WholeBuffer::of(bytes.len())?;
                // SAFETY: the elements are readable by the caller, the bytes are ours.
                unsafe { own.copy_to_itself((data, count, datatype), (to, 1, whole.datatype)) }
            }
        }
    }

    /// Copies bytes as they travel into the elements.
    ///
    /// # Safety
    /// The elements must be writable.
    pub unsafe fn unpack(self, own: Comm, bytes: &[u8]) -> Result<(), MpiError> {
        let from = bytes.as_ptr().cast_mut().cast();
        let Elements { data, count, datatype, .. } = self;
        let functions = &mpi().functions;
        if let (false, Ok(len), Ok(count)) =
            (data.is_null(), c_int::try_from(bytes.len()), c_int::try_from(count))
        {
            let mut position = 0;
            // SAFETY: MPI reads at most `len` bytes; the elements are writable by the caller.
            return check(unsafe {
                (functions.unpack)(from, len, &mut position, data, count, datatype.0, own.0)
            });
        }
        match functions.unpack_large {
            Some(unpack) if !data.is_null() => {
                let (len, mut position) = (bytes.len() as i64, 0);
                // SAFETY: as above.
                check(unsafe { unpack(from, len, &mut position, data, count, datatype.0, own.0) })
            }
            _ => {
                let whole = WholeBuffer::of(bytes.len())?;
                // SAFETY: the bytes are only read; the elements are writable by the caller.
                unsafe { own.copy_to_itself((from, 1, whole.datatype), (data, count, datatype)) }
            }
        }
    }
}

/// Some number of bytes as one element, for MPIs whose packing counts bytes in an int, and for types of
/// absolute addresses at `MPI_BOTTOM`, which MPICH 4 sends but does not pack.
struct WholeBuffer {
    datatype: Datatype,
}

impl WholeBuffer {
    /// `MPI_Type_contiguous` counts in an int too: rows of a mebibyte, and what is left over.
    fn of(bytes: usize) -> Result<Self, MpiError> {
        const ROW_BYTES: usize = 1 << 20;
        let int = |value: usize| c_int::try_from(value).map_err(|_| MpiError::other());
        let counts = [int(bytes / ROW_BYTES)?, int(bytes % ROW_BYTES)?];
        let places = [0, (bytes - bytes % ROW_BYTES) as isize];
        let functions = &mpi().functions;
        let (mut row, mut whole) = (0, 0);
        // SAFETY: writes one handle each; the arrays have two elements. The row is freed once, and the
        // whole keeps what it needs of it.
        unsafe {
            check((functions.type_contiguous)(ROW_BYTES as c_int, byte_type().0, &mut row))?;
            let parts = handles([row, byte_type().0]);
            let (counts, places) = (counts.as_ptr(), places.as_ptr());
            let parts = parts.as_ptr().cast();
            let made = check((functions.type_create_struct)(2, counts, places, parts, &mut whole));
            check((functions.type_free)(&mut row))?;
            made?;
            check((functions.type_commit)(&mut whole))?;
        }
        Ok(WholeBuffer { datatype: Datatype(whole) })
    }
}

impl Drop for WholeBuffer {
    fn drop(&mut self) {
        // SAFETY: made by `of`, freed once. An error leaves nothing to be done.
        let _ = unsafe { (mpi().functions.type_free)(&mut self.datatype.0) };
    }
}
