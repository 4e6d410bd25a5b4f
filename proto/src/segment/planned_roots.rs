//! Which roots a book may have plans for, in as few bytes as fit into what the ranks of a program tell
//! each other.

use crate::GroupHash;
use crate::codec::checksum;

const WORDS: usize = 4;
/// For the 50 roots that a busy node may know plans of, one in ten others is taken for one of them.
const BITS_SET: u32 = 2;

/// A Bloom filter of groups and roots (B. H. Bloom, "Space/time trade-offs in hash coding with allowable
/// errors", CACM 13(7), 1970): a root that it does not contain has no plan; one that it contains may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlannedRoots([u64; WORDS]);

impl PlannedRoots {
    pub const BYTES: usize = 8 * WORDS;
    /// Contains every root.
    pub const ALL: Self = PlannedRoots([u64::MAX; WORDS]);

    pub fn insert(&mut self, group: GroupHash, root: u16) {
        for (word, bit) in places(group, root) {
            self.0[word] |= bit;
        }
    }

    pub fn may_contain(&self, group: GroupHash, root: u16) -> bool {
        places(group, root).all(|(word, bit)| self.0[word] & bit != 0)
    }

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        PlannedRoots(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }
}

/// Words, and a bit of each.
fn places(group: GroupHash, root: u16) -> impl Iterator<Item = (usize, u64)> {
    let hash = checksum(group.0.to_le_bytes().into_iter().chain(root.to_le_bytes()));
    (0..BITS_SET).map(move |i| {
        let bit = (hash >> (8 * i)) as usize % (64 * WORDS);
        (bit / 64, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_there_and_little_else() {
        let mut roots = PlannedRoots::default();
        let group = |i: u64| GroupHash(i.wrapping_mul(0x0123_4567_89ab_cdef));
        (0..50).for_each(|i| roots.insert(group(i), i as u16 % 7));
        assert!((0..50).all(|i| roots.may_contain(group(i), i as u16 % 7)));
        let others = (0..1000).filter(|&i| roots.may_contain(group(i), 7 + i as u16)).count();
        assert!(others < 200, "{others} of 1000 are taken for others");
        assert_eq!(PlannedRoots::from_bytes(roots.to_bytes()), roots);
        assert!(PlannedRoots::ALL.may_contain(group(51), 3));
        assert!(!PlannedRoots::default().may_contain(group(1), 1));
    }
}
