//! The plan book on the board: two copies and a generation counter.
//!
//! The daemon writes the copy that is not in use and then raises the generation, whose lowest bit
//! names the copy in use. A reader copies out what it needs and looks at the generation again: a
//! copy is only overwritten after a newer one has been announced, so an unchanged generation means
//! that what was read is whole. An entry's checksum guards against everything else.
//!
//! A copy, in 64-bit words: the number of entries; five words an entry, sorted by target
//! (group, root and size class, offset of the entry in words, its bytes, its checksum); the entries.

use super::planned_roots::PlannedRoots;
use crate::codec::{checksum, decode, encode};
use crate::{GroupHash, Plan, Target};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// 8 MiB a copy: about 200 plans of a single tree over 10,000 nodes. Pages that are never written
/// take no memory.
const COPY_WORDS: usize = 1 << 20;
const INDEX_WORDS: usize = 5;
/// A reader that is overtaken this often by new plans goes without one.
const READ_ATTEMPTS: usize = 4;

/// What the book says about a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BookEntry {
    pub plan: Plan,
    /// Median time of the plan until the ACKs of all leaves, in seconds.
    pub median_s: f64,
    /// That was measured; else it is what a model expects.
    pub is_measured: bool,
    /// Median time of native in the same experiment, where it was measured.
    pub native_s: Option<f64>,
}

/// The plans do not fit into the book.
#[derive(Debug, thiserror::Error)]
pub enum BookFull {
    #[error("the plan book is full: {needed_bytes} bytes of plans, room for {}", 8 * COPY_WORDS)]
    Room { needed_bytes: usize },
    #[error("no memory in /dev/shm for {needed_bytes} bytes of plans: {source}")]
    Memory { needed_bytes: usize, source: io::Error },
}

#[repr(C)]
pub(super) struct Book {
    generation: AtomicU64,
    copies: [[AtomicU64; COPY_WORDS]; 2],
}

fn key(target: Target) -> [u64; 2] {
    [target.group.0, u64::from(target.root) << 8 | target.class.index() as u64]
}

fn root_of([group, root_class]: [u64; 2]) -> (GroupHash, u16) {
    (GroupHash(group), (root_class >> 8) as u16)
}

impl Book {
    /// Increases with every change of any plan.
    pub fn generation(&self) -> u64 {
        // Acquire pairs with the Release in `replace`.
        self.generation.load(Ordering::Acquire)
    }

    /// Starts the count at `generation`, so that a reader cannot take the book of a daemon that was
    /// started again for the one it knew. Called once, before anybody reads.
    pub fn start_counting_at(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// What a book without plans needs of each copy.
    pub fn least_parts(&self) -> [&[AtomicU64]; 2] {
        self.copies.each_ref().map(|copy| &copy[..1])
    }

    /// Replaces all plans. Only the daemon calls this, from one thread. `reserve` gets memory for the
    /// words that are about to be written.
    pub fn replace<'a>(
        &self,
        plans: impl IntoIterator<Item = (Target, &'a BookEntry)>,
        reserve: impl FnOnce(&[AtomicU64]) -> io::Result<()>,
    ) -> Result<(), BookFull> {
        let mut entries: Vec<([u64; 2], Vec<u8>)> = plans
            .into_iter()
            .filter_map(|(target, entry)| Some((key(target), encode(entry).ok()?)))
            .collect();
        entries.sort();
        let index_words = 1 + INDEX_WORDS * entries.len();
        let needed =
            index_words + entries.iter().map(|(_, bytes)| bytes.len().div_ceil(8)).sum::<usize>();
        let needed_bytes = 8 * needed;
        let generation = self.generation.load(Ordering::Relaxed) + 1;
        let copy = &self.copies[(generation & 1) as usize];
        let part = copy.get(..needed).ok_or(BookFull::Room { needed_bytes })?;
        reserve(part).map_err(|source| BookFull::Memory { needed_bytes, source })?;
        // Pairs with the fence in `read`: who reads one of the words below sees, when it looks at
        // the generation again, at least the one that announced the other copy.
        fence(Ordering::Release);
        let write = |at: usize, word: u64| copy[at].store(word, Ordering::Relaxed);
        write(0, entries.len() as u64);
        let mut offset = index_words;
        for (i, ([group, root_class], bytes)) in entries.iter().enumerate() {
            let sum = checksum(bytes.iter().copied());
            let index = [*group, *root_class, offset as u64, bytes.len() as u64, sum];
            for (j, word) in index.into_iter().enumerate() {
                write(1 + INDEX_WORDS * i + j, word);
            }
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                write(offset, u64::from_le_bytes(word));
                offset += 1;
            }
        }
        self.generation.store(generation, Ordering::Release);
        Ok(())
    }

    /// The entry for `target`, if there is one.
    pub fn read(&self, target: Target) -> Option<BookEntry> {
        let (bytes, sum) = self.look(|copy| read_copy(copy, key(target)))??;
        (checksum(bytes.iter().copied()) == sum).then(|| decode(&bytes).ok())?
    }

    /// The roots that have an entry; all of them where new plans come faster than they can be read.
    pub fn planned_roots(&self) -> PlannedRoots {
        self.look(planned_roots).unwrap_or(PlannedRoots::ALL)
    }

    /// What `read` finds in the copy in use; `None` where new plans overtake it too often.
    fn look<T>(&self, read: impl Fn(&[AtomicU64; COPY_WORDS]) -> T) -> Option<T> {
        for _ in 0..READ_ATTEMPTS {
            let generation = self.generation();
            let found = read(&self.copies[(generation & 1) as usize]);
            // Pairs with the fence in `replace`.
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return Some(found);
            }
        }
        None
    }
}

/// Any content is survived.
fn planned_roots(copy: &[AtomicU64; COPY_WORDS]) -> PlannedRoots {
    let word = |at: usize| copy[at].load(Ordering::Relaxed);
    let entries = (word(0) as usize).min((COPY_WORDS - 1) / INDEX_WORDS);
    let mut roots = PlannedRoots::default();
    for at in (0..entries).map(|i| 1 + INDEX_WORDS * i) {
        let (group, root) = root_of([word(at), word(at + 1)]);
        roots.insert(group, root);
    }
    roots
}

/// The bytes of an entry and the checksum they should have. Any content is survived.
fn read_copy(copy: &[AtomicU64; COPY_WORDS], key: [u64; 2]) -> Option<(Vec<u8>, u64)> {
    let word = |at: usize| copy.get(at).map(|word| word.load(Ordering::Relaxed));
    let entry_key = |i: usize| Some([word(1 + INDEX_WORDS * i)?, word(2 + INDEX_WORDS * i)?]);
    let (mut low, mut high) = (0, (word(0)? as usize).min(COPY_WORDS / INDEX_WORDS));
    while low < high {
        let middle = low.midpoint(high);
        if entry_key(middle)? < key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if entry_key(low)? != key || low >= word(0)? as usize {
        return None;
    }
    let index = |j: usize| word(1 + INDEX_WORDS * low + j);
    let (offset, len, sum) = (index(2)? as usize, index(3)? as usize, index(4)?);
    let end = offset.checked_add(len.div_ceil(8)).filter(|&end| end <= COPY_WORDS)?;
    let mut bytes: Vec<u8> =
        copy[offset..end].iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(len);
    Some((bytes, sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GroupHash, SizeClass, Tree};

    fn zeroed_book() -> Box<Book> {
        // SAFETY: `Book` is made of atomics, for which zero bytes are a valid value.
        unsafe { Box::<Book>::new_zeroed().assume_init() }
    }

    /// With as much memory as it takes.
    fn replace<'a>(
        book: &Book,
        plans: impl IntoIterator<Item = (Target, &'a BookEntry)>,
    ) -> Result<(), BookFull> {
        book.replace(plans, |_| Ok(()))
    }

    fn target(group: u64, root: u16, bytes: u64) -> Target {
        Target { group: GroupHash(group), root, class: SizeClass::of(bytes) }
    }

    fn entry(len: usize) -> BookEntry {
        let plan = Plan::single(Tree::flat(len, 0).unwrap(), 4096).unwrap();
        BookEntry { plan, median_s: len as f64, is_measured: true, native_s: Some(1.0) }
    }

    #[test]
    fn every_plan_is_found_and_nothing_else() {
        let book = zeroed_book();
        assert_eq!(book.read(target(1, 0, 1)), None);
        let plans: Vec<_> = (1..50)
            .map(|i| (target(u64::MAX / i, (i % 3) as u16, 1 << i), entry(i as usize)))
            .collect();
        replace(&book, plans.iter().map(|(t, e)| (*t, e))).unwrap();
        for (target, entry) in &plans {
            assert_eq!(book.read(*target).as_ref(), Some(entry));
        }
        let roots = book.planned_roots();
        assert!(plans.iter().all(|(target, _)| roots.may_contain(target.group, target.root)));
        assert_eq!(book.read(target(7, 0, 1)), None);
        assert_eq!(book.generation(), 1);
        replace(&book, []).unwrap();
        assert_eq!(book.read(plans[0].0), None);
        assert_eq!(book.planned_roots(), PlannedRoots::default());
    }

    #[test]
    fn a_book_that_is_full_keeps_the_old_plans() {
        let book = zeroed_book();
        let small = entry(3);
        replace(&book, [(target(1, 0, 1), &small)]).unwrap();
        let large = entry(60_000);
        let many = (0..100).map(|root| (target(1, root, 1), &large));
        assert!(matches!(replace(&book, many), Err(BookFull::Room { .. })));
        let refuse = |_: &[AtomicU64]| Err(io::ErrorKind::StorageFull.into());
        let memory = book.replace([(target(1, 0, 1), &entry(4))], refuse);
        assert!(matches!(memory, Err(BookFull::Memory { .. })));
        assert_eq!(book.read(target(1, 0, 1)), Some(small));
    }

    #[test]
    fn damage_is_noticed() {
        let book = zeroed_book();
        let plan = entry(5);
        replace(&book, [(target(1, 0, 1), &plan)]).unwrap();
        for at in 0..40 {
            let word = &book.copies[1][at];
            let good = word.load(Ordering::Relaxed);
            for bad in [!good, u64::MAX, good ^ 1] {
                word.store(bad, Ordering::Relaxed);
                let read = book.read(target(1, 0, 1));
                assert!(read.is_none() || read.as_ref() == Some(&plan), "word {at}");
            }
            word.store(good, Ordering::Relaxed);
        }
    }

    #[test]
    fn readers_never_see_a_torn_plan() {
        let book: &Book = Box::leak(zeroed_book());
        let done = &std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut seen = 0u32;
                while !done.load(Ordering::Relaxed) {
                    if let Some(entry) = book.read(target(1, 0, 1)) {
                        let len = entry.plan.striping().map(|s| s.len() as f64);
                        assert_eq!(len, Some(entry.median_s));
                        seen += 1;
                    }
                }
                seen
            });
            for i in 1..400 {
                let plan = entry(1 + i % 300);
                replace(book, [(target(1, 0, 1), &plan)]).unwrap();
                std::thread::yield_now();
            }
            while book.read(target(1, 0, 1)).is_none() {}
            done.store(true, Ordering::Relaxed);
            assert!(reader.join().unwrap() > 0);
        });
    }
}
