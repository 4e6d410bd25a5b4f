//! The two shared-memory segments of a daemon.
//!
//! | segment | mode | written by | holds |
//! |---|---|---|---|
//! | board | 0644 | the daemon | node, site, limits, the experiment word, the plan book |
//! | desk | 0660 | one slot a client, each by its client | holds, the last broadcasts |
//!
//! Every word has one writer. Both segments are zero when created, which is a valid value of every
//! word; `magic` is written last, so that a reader who sees it sees all the rest. Nothing read from
//! a segment is believed: names and plans are decoded with checks, numbers are range-checked.

mod board;
mod book;
mod desk;
mod mapping;

pub use board::{Board, BoardView, Identity};
pub use book::{BookEntry, BookFull};
pub use desk::{BROADCASTS_KEPT, Broadcast, Desk, HoldState, SLOTS, Slot};
pub use mapping::SegmentError;

/// Changes whenever the layout of a segment changes; a process that finds another one steps aside.
pub const LAYOUT_VERSION: u32 = 2;

const MAGIC: u64 = 0x4152_424f_0000_0000 | LAYOUT_VERSION as u64;
