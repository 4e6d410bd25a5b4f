//! Memory for messages. A length that cannot be had is an error the user can act on, where a plain
//! `Vec` would abort one rank and leave the others waiting.

use super::failure::{Failure, agree};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// MPI counts elements in a C `int`.
pub const MOST_ELEMENTS: usize = i32::MAX as usize;

/// `count` zeroed elements, every page touched, so that the first transfer does not pay for it. Also
/// an empty message has a real address: that of an empty `Vec<u8>` is 1, which is `MPI_IN_PLACE` to
/// Open MPI.
pub fn message<T: Copy + Default>(count: usize) -> Result<Vec<T>, Failure> {
    let bytes = count.saturating_mul(size_of::<T>());
    let mut elements = Vec::new();
    if count > MOST_ELEMENTS || elements.try_reserve_exact(count.max(1)).is_err() {
        return Err(Failure::NoMemory { bytes });
    }
    elements.resize(count, T::default());
    Ok(elements)
}

/// An error on all ranks unless each of them can have `bytes`, together with the others of its host.
/// Linux promises more memory than there is and ends processes when they come to use it, so that
/// asking for the memory is no test of its being there.
pub fn check_room(comm: &SimpleCommunicator, bytes: usize) -> Result<(), Failure> {
    let neighbours = comm.split_shared(comm.rank()).size() as usize;
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let room = match available {
        Some(available) if bytes.saturating_mul(neighbours) > available => {
            Err(Failure::NoMemory { bytes })
        }
        _ => Ok(()),
    };
    agree(comm, room)
}

/// Bytes that `/proc/meminfo` says can be had without swapping.
fn available(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: usize = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal:       24100000 kB\nMemAvailable:   23 kB\n";
        assert_eq!(available(text), Some(23 * 1024));
        assert_eq!(available("nothing"), None);
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        assert_eq!(message::<u8>(3).unwrap(), [0, 0, 0]);
        assert!(message::<u8>(MOST_ELEMENTS + 1).is_err());
        assert!(message::<[u64; 32]>(MOST_ELEMENTS).is_err());
    }
}
