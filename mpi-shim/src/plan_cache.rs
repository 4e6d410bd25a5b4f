//! The plans that this process has read from its daemon's board, by size class.
//!
//! The board counts every change of a plan. While the count stands, what was read stands, and a
//! look costs one atomic load.

use arborcast_proto::segment::{BoardView, BookEntry};
use arborcast_proto::{SizeClass, Target};

/// The plans for one group and root.
#[derive(Default)]
pub struct PlanCache {
    entries: [Option<Cached>; SizeClass::COUNT],
}

struct Cached {
    generation: u64,
    entry: Option<BookEntry>,
}

impl PlanCache {
    /// Reads the plan for `target`, whose group and root must be this cache's, if any plan has
    /// changed since it was last read.
    pub fn refresh(&mut self, board: &BoardView, target: Target) {
        let generation = board.generation();
        let cached = &mut self.entries[target.class.index()];
        if cached.as_ref().is_none_or(|cached| cached.generation != generation) {
            *cached = Some(Cached { generation, entry: board.plan(target) });
        }
    }

    /// What was last read for the class; `None` where the daemon knew no plan.
    pub fn get(&self, class: SizeClass) -> Option<&BookEntry> {
        self.entries[class.index()].as_ref()?.entry.as_ref()
    }

    /// Forgets everything: the daemon is gone, and another may count from the start.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
