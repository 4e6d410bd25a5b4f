//! The board: what a daemon tells every process of its node.

use super::MAGIC;
use super::book::{Book, BookEntry, BookFull};
use super::mapping::{Opened, Owned, SegmentError, Shared};
use super::planned_roots::PlannedRoots;
use crate::hold::Experiment;
use crate::{NodeName, Target};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const NAME_WORDS: usize = (NodeName::MAX_BYTES + 1) / 8;

#[repr(C)]
struct BoardWords {
    /// Written last when the board is made.
    magic: AtomicU64,
    node: [AtomicU64; NAME_WORDS],
    site: [AtomicU64; NAME_WORDS],
    hold_wait_max_us: AtomicU64,
    /// The experiment word of [`crate::hold`]; waited on with a futex.
    experiment: AtomicU32,
    _reserved: AtomicU32,
    book: Book,
}

// SAFETY: `repr(C)`, atomics only.
unsafe impl Shared for BoardWords {}

/// What a board says once and for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub node: NodeName,
    pub site: NodeName,
    /// The longest an application waits for an experiment to stop.
    pub hold_wait_max: Duration,
}

/// The daemon's side of its board.
pub struct Board {
    words: Owned<BoardWords>,
}

impl Board {
    /// Creates the board, which others can only read, and only those that are handed [`Board::file`].
    ///
    /// # Errors
    /// Where the segment cannot be created, for instance because the name is taken or /dev/shm is full.
    pub fn create(segment: &str, identity: &Identity) -> Result<Self, SegmentError> {
        let words = Owned::<BoardWords>::create(segment)?;
        let board = words.get();
        // All words before the plans are on the page of `magic`.
        let [first, second] = board.book.least_parts();
        for part in [std::slice::from_ref(&board.magic), first, second] {
            let io = |source| SegmentError::Io { name: segment.into(), source };
            words.reserve(part).map_err(io)?;
        }
        store_name(&board.node, &identity.node);
        store_name(&board.site, &identity.site);
        let wait_us = u64::try_from(identity.hold_wait_max.as_micros()).unwrap_or(u64::MAX);
        board.hold_wait_max_us.store(wait_us, Ordering::Relaxed);
        board.book.start_counting_at(crate::monotonic_ns());
        // Release pairs with the Acquire in `BoardView::open`.
        board.magic.store(MAGIC, Ordering::Release);
        Ok(Board { words })
    }

    /// What a client is handed to open its view of the board.
    ///
    /// # Errors
    /// Where this process may have no more descriptors.
    pub fn file(&self) -> std::io::Result<OwnedFd> {
        self.words.reader().try_clone_to_owned()
    }

    /// The daemon's word of [`crate::hold`].
    pub fn experiment(&self) -> &AtomicU32 {
        &self.words.get().experiment
    }

    /// Wakes every process that waits for the experiment word to change.
    pub fn wake_all(&self) {
        use rustix::thread::futex;
        // Fails only for a bad address, which a mapping of ours is not.
        let _ = futex::wake(self.experiment(), futex::Flags::empty(), u32::MAX >> 1);
    }

    /// Replaces all plans on the board. Only one thread may do so.
    ///
    /// # Errors
    /// Where they do not fit; the old ones then stand.
    pub fn publish<'a>(
        &self,
        plans: impl IntoIterator<Item = (Target, &'a BookEntry)>,
    ) -> Result<(), BookFull> {
        self.words.get().book.replace(plans, |part| self.words.reserve(part))
    }
}

/// Any process's view of the board, read-only.
pub struct BoardView {
    words: Opened<BoardWords>,
    identity: Identity,
}

impl BoardView {
    /// The board that a daemon has handed over. The mapping needs the descriptor no longer.
    ///
    /// # Errors
    /// Where it is no board, or has another layout.
    pub fn open(file: impl AsFd) -> Result<Self, SegmentError> {
        const NAME: &str = "board";
        let words = Opened::<BoardWords>::read_only(NAME, file)?;
        let board = words.get();
        let layout = || SegmentError::Layout { name: NAME.into() };
        // Acquire pairs with the Release in `Board::create`.
        if board.magic.load(Ordering::Acquire) != MAGIC {
            return Err(layout());
        }
        let identity = Identity {
            node: load_name(&board.node).ok_or_else(layout)?,
            site: load_name(&board.site).ok_or_else(layout)?,
            hold_wait_max: Duration::from_micros(board.hold_wait_max_us.load(Ordering::Relaxed)),
        };
        Ok(BoardView { words, identity })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The daemon's word of [`crate::hold`].
    pub fn experiment(&self) -> &AtomicU32 {
        &self.words.get().experiment
    }

    /// Waits until the experiment word is no longer `seen`, or for `limit`.
    pub fn wait_for_change(&self, seen: Experiment, limit: Duration) {
        use rustix::thread::futex;
        let limit = rustix::time::Timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Whether it was woken, timed out or interrupted: the caller looks at the word again.
        let _ = futex::wait(self.experiment(), futex::Flags::empty(), seen.encode(), Some(&limit));
    }

    /// Increases with every change of any plan: while it is unchanged, so is every plan.
    pub fn generation(&self) -> u64 {
        self.words.get().book.generation()
    }

    /// The plan for `target`, if the daemon knows one.
    pub fn plan(&self, target: Target) -> Option<BookEntry> {
        self.words.get().book.read(target)
    }

    /// The roots of which the daemon may know a plan.
    pub fn planned_roots(&self) -> PlannedRoots {
        self.words.get().book.planned_roots()
    }
}

fn store_name(words: &[AtomicU64; NAME_WORDS], name: &NodeName) {
    let mut bytes = [0; 8 * NAME_WORDS];
    bytes[..name.as_str().len()].copy_from_slice(name.as_str().as_bytes());
    for (word, chunk) in words.iter().zip(bytes.chunks_exact(8)) {
        word.store(u64::from_le_bytes(chunk.try_into().unwrap_or_default()), Ordering::Relaxed);
    }
}

fn load_name(words: &[AtomicU64; NAME_WORDS]) -> Option<NodeName> {
    let bytes: Vec<u8> = words
        .iter()
        .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
        .take_while(|&byte| byte != 0)
        .collect();
    NodeName::new(String::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold;
    use crate::{GroupHash, Plan, SizeClass, Tree};

    fn identity() -> Identity {
        Identity {
            node: NodeName::new("n0").unwrap(),
            site: NodeName::new("a").unwrap(),
            hold_wait_max: Duration::from_millis(250),
        }
    }

    #[test]
    fn what_a_board_says_has_its_memory_before_it_is_written() {
        use std::os::unix::fs::MetadataExt;
        let name = format!("arborcast-test-board-memory-{}", std::process::id());
        let board = Board::create(&name, &identity()).unwrap();
        let bytes = || 512 * std::fs::metadata(format!("/dev/shm/{name}")).unwrap().blocks();
        let few = bytes();
        let reserved = std::cell::Cell::new(0);
        let plan = Plan::single(Tree::flat(60_000, 0).unwrap(), 4096).unwrap();
        let entry = BookEntry { plan, median_s: 0.1, is_measured: true, native_s: None };
        let target = Target { group: GroupHash(1), root: 0, class: SizeClass::of(1) };
        let book = &board.words.get().book;
        let reserve = |part: &[AtomicU64]| {
            board.words.reserve(part)?;
            reserved.set(bytes());
            Ok(())
        };
        book.replace([(target, &entry)], reserve).unwrap();
        assert!(few < reserved.get(), "{few} bytes, then {}", reserved.get());
        assert_eq!(bytes(), reserved.get(), "the plan took more than what was reserved for it");
    }

    #[test]
    fn a_view_shows_what_the_daemon_wrote() {
        let name = format!("arborcast-test-board-{}", std::process::id());
        let board = Board::create(&name, &identity()).unwrap();
        let file = board.file().unwrap();
        let view = BoardView::open(&file).unwrap();
        assert_eq!(view.identity(), &identity());
        let target = Target { group: GroupHash(1), root: 0, class: SizeClass::of(1) };
        let plan = Plan::single(Tree::flat(3, 0).unwrap(), 4096).unwrap();
        let entry = BookEntry { plan, median_s: 0.1, is_measured: true, native_s: None };
        let before = view.generation();
        board.publish([(target, &entry)]).unwrap();
        assert_eq!(view.plan(target), Some(entry));
        assert_eq!(view.generation(), before + 1);
        assert!(super::super::is_there(&name));
        drop(board);
        assert!(!super::super::is_there(&name), "the segment went with the daemon");
        assert!(view.plan(target).is_some(), "a mapping outlives its segment");
        assert!(rustix::io::write(&file, b"forged").is_err(), "who is handed it can only read");
    }

    #[test]
    fn a_waiter_on_the_read_only_board_is_woken() {
        let name = format!("arborcast-test-wake-{}", std::process::id());
        let board = Board::create(&name, &identity()).unwrap();
        let view = BoardView::open(board.file().unwrap()).unwrap();
        assert!(hold::start(board.experiment(), || false));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut waits = 0;
                loop {
                    let seen = Experiment::load(view.experiment());
                    if seen.phase == hold::Phase::Quiet {
                        return waits;
                    }
                    view.wait_for_change(seen, Duration::from_secs(600));
                    waits += 1;
                }
            });
            hold::stop(board.experiment());
            board.wake_all();
            hold::quiet(board.experiment());
            board.wake_all();
            assert!(waiter.join().unwrap() <= 3);
        });
    }
}
