//! The first message of a stripe: what the root decided, and the receiver's own subtree.
//!
//! All numbers little-endian. A part of fixed size, then the subtree as nodes in preorder and subtree sizes
//! (u16 each), then the stripe's first segment, where that is short.

use arborcast_proto::{HEADER_BYTES, HEADER_BYTES_PER_NODE, InvalidTree, Subtree};

/// Changes with the layout or the meaning of a header; ranks of different versions never form a
/// managed communicator.
pub const VERSION: u8 = 13;
/// A first segment up to this length travels inside its stripe's header: one message instead of two, for one copy
/// of at most this size.
pub const INLINE_MAX_BYTES: usize = 16 << 10;

/// Flags, of the second byte.
const LEAF_ACKS: u8 = 1;
const TCP_PACED: u8 = 2;
const PACED: u8 = 4;

/// What the root decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The message comes along the trees.
    Trees,
    /// This broadcast and the ones that follow in its size class, `broadcasts` in all and at least one, are native.
    Native { broadcasts: u32 },
}

/// The part of a header that all receivers of a stripe share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub decision: Decision,
    /// Every leaf sends an empty message to the root once it has its stripe.
    pub leaf_acks: bool,
    /// See [`arborcast_proto::Striping::is_tcp_paced`].
    pub is_tcp_paced: bool,
    /// The root sends at a rate that every connection of the trees is to carry.
    pub is_paced: bool,
    /// Where it is not 0, every node of the tree tells its daemon what it saw of this broadcast, under this
    /// number.
    pub report: u32,
    pub stripe: u8,
    /// How many stripes, and so headers, each node gets.
    pub stripes: u8,
    pub root: u16,
    pub sequence: u64,
    pub segment_bytes: u32,
    pub total_bytes: u64,
    /// Where the stripe starts in the message.
    pub start: u64,
    pub len: u64,
}

/// Bytes that are no header of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeader {
    #[error("a header of {0} bytes is too short")]
    Short(usize),
    #[error("a header of version {0}, not {VERSION}")]
    Version(u8),
    #[error("a header whose numbers contradict each other")]
    Numbers,
    #[error("a header with an unusable subtree: {0}")]
    Subtree(#[from] InvalidTree),
}

impl Header {
    /// How many of the stripe's bytes follow the header in the same message: those of its first segment, or none.
    pub fn inline_bytes(&self) -> usize {
        let first = self.len.min(u64::from(self.segment_bytes)) as usize;
        if self.decision == Decision::Trees && first <= INLINE_MAX_BYTES { first } else { 0 }
    }

    /// The messages after the header that carry the rest of the stripe.
    pub fn segments(&self) -> usize {
        let rest = self.len - self.inline_bytes() as u64;
        match self.decision {
            Decision::Trees => rest.div_ceil(u64::from(self.segment_bytes)) as usize,
            Decision::Native { .. } => 0,
        }
    }

    /// Appends the header for one receiver.
    pub fn write(&self, subtree: Subtree<'_>, out: &mut Vec<u8>) {
        let native_broadcasts = match self.decision {
            Decision::Trees => 0,
            Decision::Native { broadcasts } => broadcasts,
        };
        let (nodes, sizes) = subtree.parts();
        let flags = (u8::from(self.leaf_acks) * LEAF_ACKS)
            | (u8::from(self.is_tcp_paced) * TCP_PACED)
            | (u8::from(self.is_paced) * PACED);
        out.extend_from_slice(&[VERSION, flags, self.stripe, self.stripes]);
        out.extend_from_slice(&self.root.to_le_bytes());
        // A tree has at most `MAX_NODES` nodes.
        out.extend_from_slice(&(nodes.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&self.segment_bytes.to_le_bytes());
        out.extend_from_slice(&self.total_bytes.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&native_broadcasts.to_le_bytes());
        out.extend_from_slice(&self.report.to_le_bytes());
        for number in nodes.iter().chain(sizes) {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Reads a header; `nodes` gets the receiver's subtree as nodes and sizes, one after the other.
    /// Also returns where the stripe's bytes start.
    ///
    /// # Errors
    /// Where the bytes are no header; never panics.
    pub fn read(bytes: &[u8], subtree: &mut Vec<u16>) -> Result<(Self, usize), InvalidHeader> {
        let fixed: &[u8; HEADER_BYTES] =
            bytes.first_chunk().ok_or(InvalidHeader::Short(bytes.len()))?;
        let sequence = sequence_of(bytes)?;
        let u16_at = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| fixed[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| fixed[at + i]));
        let header = Header {
            decision: match u32_at(44) {
                0 => Decision::Trees,
                broadcasts => Decision::Native { broadcasts },
            },
            leaf_acks: fixed[1] & LEAF_ACKS != 0,
            is_tcp_paced: fixed[1] & TCP_PACED != 0,
            is_paced: fixed[1] & PACED != 0,
            report: u32_at(48),
            stripe: fixed[2],
            stripes: fixed[3],
            root: u16_at(4),
            sequence,
            segment_bytes: u32_at(16),
            total_bytes: u64_at(20),
            start: u64_at(28),
            len: u64_at(36),
        };
        let ends_inside =
            header.start.checked_add(header.len).is_some_and(|end| end <= header.total_bytes);
        if header.segment_bytes == 0 || header.stripe >= header.stripes || !ends_inside {
            return Err(InvalidHeader::Numbers);
        }
        let nodes = usize::from(u16_at(6));
        let data_start =
            nodes.checked_mul(HEADER_BYTES_PER_NODE).and_then(|len| len.checked_add(HEADER_BYTES));
        let data_start = data_start.filter(|&start| start <= bytes.len());
        let data_start = data_start.ok_or(InvalidHeader::Short(bytes.len()))?;
        subtree.clear();
        let numbers = bytes[HEADER_BYTES..data_start].chunks_exact(2);
        subtree.extend(numbers.map(|pair| u16::from_le_bytes([pair[0], pair[1]])));
        let (node_list, sizes) = subtree.split_at(nodes);
        Subtree::new(node_list, sizes)?;
        if bytes.len() != data_start + header.inline_bytes() {
            return Err(InvalidHeader::Short(bytes.len()));
        }
        Ok((header, data_start))
    }
}

/// Which broadcast a header belongs to.
///
/// # Errors
/// Where the bytes are no header of this version.
pub fn sequence_of(bytes: &[u8]) -> Result<u64, InvalidHeader> {
    let fixed: &[u8; HEADER_BYTES] =
        bytes.first_chunk().ok_or(InvalidHeader::Short(bytes.len()))?;
    if fixed[0] != VERSION {
        return Err(InvalidHeader::Version(fixed[0]));
    }
    Ok(u64::from_le_bytes(std::array::from_fn(|i| fixed[8 + i])))
}

/// The longest header for a group of `nodes`.
pub fn max_bytes(nodes: usize) -> usize {
    HEADER_BYTES + HEADER_BYTES_PER_NODE * nodes + INLINE_MAX_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::Tree;
    use proptest::prelude::*;

    fn header() -> Header {
        Header {
            decision: Decision::Trees,
            leaf_acks: true,
            is_tcp_paced: true,
            is_paced: true,
            report: 7,
            stripe: 1,
            stripes: 2,
            root: 0,
            sequence: u64::MAX - 77,
            segment_bytes: 4096,
            total_bytes: 10,
            start: 5,
            len: 5,
        }
    }

    #[test]
    fn a_child_reads_its_own_subtree() {
        let tree = Tree::from_parents(&[None, Some(0), Some(1), Some(1), Some(0)]).unwrap();
        let child = tree.as_subtree().children().next().unwrap();
        let mut bytes = Vec::new();
        header().write(child, &mut bytes);
        assert_eq!(bytes.len(), HEADER_BYTES + HEADER_BYTES_PER_NODE * 3);
        bytes.extend_from_slice(b"hello");
        let mut numbers = Vec::new();
        let (read, data_start) = Header::read(&bytes, &mut numbers).unwrap();
        assert_eq!(read, header());
        assert_eq!(&bytes[data_start..], b"hello");
        let (nodes, sizes) = numbers.split_at(3);
        assert_eq!(Subtree::new(nodes, sizes).unwrap(), child);
    }

    #[test]
    fn only_a_short_first_segment_travels_inside() {
        let messages = |len, segment_bytes| {
            let header = Header { len, segment_bytes, ..header() };
            (header.inline_bytes(), header.segments())
        };
        assert_eq!(messages(0, 4096), (0, 0));
        assert_eq!(messages(5, 4096), (5, 0));
        assert_eq!(messages(10_000, 4096), (4096, 2));
        assert_eq!(messages(10_000, 32 << 10), (10_000, 0));
        assert_eq!(messages(40_000, 32 << 10), (0, 2));
    }

    #[test]
    fn native_for_the_next_few_survives() {
        let native = Header {
            decision: Decision::Native { broadcasts: 16 },
            stripe: 0,
            stripes: 1,
            ..header()
        };
        let (tree, mut bytes, mut numbers) = (Tree::flat(1, 0).unwrap(), vec![], vec![]);
        native.write(tree.as_subtree(), &mut bytes);
        assert_eq!(Header::read(&bytes, &mut numbers).unwrap().0, native);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_header_or_an_error(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
            plausible in any::<bool>(),
        ) {
            if plausible && bytes.len() >= HEADER_BYTES {
                bytes[0] = VERSION;
                bytes[7] = 0;
            }
            let _ = Header::read(&bytes, &mut Vec::new());
        }
    }
}
