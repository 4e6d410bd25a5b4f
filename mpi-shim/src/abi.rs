//! The three binary interfaces that MPI libraries have, and what of them the broadcast needs to know.
//!
//! | ABI | libraries | handles |
//! |---|---|---|
//! | Open MPI | Open MPI 4 and 5 (`libmpi.so.40`) | addresses of objects in the library |
//! | MPICH | MPICH, Intel MPI, Cray MPICH, MVAPICH (`libmpi.so.12`) | `int` |
//! | standard | MPI 5.0, chapter 20: `libmpi_abi.so.1` of any MPI | small numbers in a pointer's place |
//!
//! This library is built without any MPI and serves all of them: a handle is a machine word here
//! ([`Word`]), whose lower half is the handle where handles are `int`. Which ABI a process has is told
//! by data symbols that are part of the ABI itself, never by a version string or a handle's width.

use std::ffi::{CStr, c_int};

/// An MPI handle in a register or a variable of either width.
pub type Word = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    OpenMpi,
    Mpich,
    Standard,
}

/// The constants and layouts of one ABI.
#[derive(Debug, Clone, Copy)]
pub struct Abi {
    pub interface: Interface,
    pub comm_null: Word,
    pub comm_world: Word,
    pub comm_self: Word,
    pub datatype_null: Word,
    pub byte: Word,
    pub info_null: Word,
    pub any_source: c_int,
    pub undefined: c_int,
    pub thread_multiple: c_int,
    pub tag_ub: c_int,
    pub err_count: c_int,
    pub err_other: c_int,
    pub err_truncate: c_int,
    pub err_no_mem: c_int,
    pub status_bytes: usize,
    /// Where `MPI_SOURCE` lies in a status.
    pub status_source_at: usize,
    /// 4 or 8: the distance of handles in an array.
    pub handle_bytes: usize,
}

// A handle's lower half comes first in memory and in a register.
const _: () = assert!(cfg!(target_endian = "little") && size_of::<Word>() == 8);

impl Abi {
    /// The ABI of a library; `None` where it is none of the three. `has` says whether the library
    /// defines a name, `address` where its object of that name is.
    pub fn of(has: &dyn Fn(&CStr) -> bool, address: &dyn Fn(&CStr) -> Word) -> Option<Self> {
        if has(c"ompi_mpi_comm_world") {
            return Some(Abi {
                interface: Interface::OpenMpi,
                comm_null: address(c"ompi_mpi_comm_null"),
                comm_world: address(c"ompi_mpi_comm_world"),
                comm_self: address(c"ompi_mpi_comm_self"),
                datatype_null: address(c"ompi_mpi_datatype_null"),
                byte: address(c"ompi_mpi_byte"),
                info_null: address(c"ompi_mpi_info_null"),
                any_source: -1,
                undefined: -32766,
                thread_multiple: 3,
                tag_ub: 0,
                err_count: 2,
                err_other: 16,
                err_truncate: 15,
                err_no_mem: 39,
                status_bytes: 24,
                status_source_at: 0,
                handle_bytes: 8,
            });
        }
        // Programs of MPICH's ABI refer to this variable; in the standard ABI it is a number.
        if has(c"MPI_UNWEIGHTED") {
            return Some(Abi {
                interface: Interface::Mpich,
                comm_null: 0x0400_0000,
                comm_world: 0x4400_0000,
                comm_self: 0x4400_0001,
                datatype_null: 0x0c00_0000,
                byte: 0x4c00_010d,
                info_null: 0x1c00_0000,
                any_source: -2,
                undefined: -32766,
                thread_multiple: 3,
                tag_ub: 0x6440_0001,
                err_count: 2,
                err_other: 15,
                err_truncate: 14,
                err_no_mem: 34,
                status_bytes: 20,
                status_source_at: 8,
                handle_bytes: 4,
            });
        }
        has(c"PMPI_Abi_get_version").then_some(Abi {
            interface: Interface::Standard,
            comm_null: 0x100,
            comm_world: 0x101,
            comm_self: 0x102,
            datatype_null: 0x200,
            byte: 0x247,
            info_null: 0x130,
            any_source: -1,
            undefined: -32766,
            thread_multiple: 4096,
            tag_ub: 501,
            err_count: 2,
            err_other: 16,
            err_truncate: 15,
            err_no_mem: 39,
            status_bytes: 32,
            status_source_at: 0,
            handle_bytes: 8,
        })
    }

    /// A handle as a program passed it: what stands in the other half of a register is anything.
    pub fn handle(&self, word: Word) -> Word {
        if self.handle_bytes == 4 { word & 0xffff_ffff } else { word }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(symbols: &[&CStr]) -> Option<Interface> {
        Abi::of(&|name| symbols.contains(&name), &|_| 8).map(|abi| abi.interface)
    }

    #[test]
    fn the_loaded_symbols_tell_the_interface() {
        let both = [c"PMPI_Abi_get_version", c"MPI_UNWEIGHTED"];
        assert_eq!(interface(&both), Some(Interface::Mpich), "MPICH 5 knows the standard ABI too");
        assert_eq!(interface(&[c"MPI_UNWEIGHTED"]), Some(Interface::Mpich));
        assert_eq!(interface(&[c"PMPI_Abi_get_version"]), Some(Interface::Standard));
        assert_eq!(interface(&[c"ompi_mpi_comm_world"]), Some(Interface::OpenMpi));
        assert_eq!(interface(&[c"MPI_Bcast"]), None);
    }

    #[test]
    fn the_other_half_of_a_register_does_not_count() {
        let abi = Abi::of(&|name| name == c"MPI_UNWEIGHTED", &|_| 8);
        assert_eq!(abi.unwrap().handle(0xdead_beef_4400_0000), 0x4400_0000);
    }
}
