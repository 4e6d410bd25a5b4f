//! The shared memory of a daemon and its clients.
//!
//! | | made as | who can open it | written by | holds |
//! |---|---|---|---|---|
//! | board | POSIX segment of a random name, mode 0644 | everyone on the node, read-only | the daemon | node, site, limits, the experiment word, the plan book |
//! | slot, one a client | memory file without a name, sealed against shrinking and growing | the client that the daemon handed it to over the socket | that client | its hold, its last broadcasts |
//!
//! Every word has one writer. All memory is zero when made, which is a valid value of every word;
//! `magic` is written last, so that a reader who sees it sees all the rest. Nothing read from shared
//! memory is believed: names and plans are decoded with checks, numbers are range-checked. Nothing
//! that a client can do takes pages away under the daemon or under another client.

mod board;
mod book;
mod mapping;
mod planned_roots;
mod slot;

pub use board::{Board, BoardView, Identity};
pub use book::{BookEntry, BookFull};
pub use mapping::{SegmentError, is_there, remove};
pub use planned_roots::PlannedRoots;
pub use slot::{BROADCASTS_KEPT, Broadcast, HoldState, MOST_UNDER_WAY, Slot, SlotView};

/// Changes whenever the layout of a segment changes; a process that finds another one steps aside.
pub const LAYOUT_VERSION: u32 = 6;

const MAGIC: u64 = 0x4152_424f_0000_0000 | LAYOUT_VERSION as u64;
