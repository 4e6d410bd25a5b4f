//! The plans that this process has read from its daemon's board, by size class.
//!
//! The board counts every change of a plan. While the count stands, what was read stands, and a
//! look costs one atomic load.
//!
//! Of a plan that nobody has measured the first broadcasts are its trial: their root waits for the ACKs of all leaves.

use arborcast_proto::segment::{BoardView, BookEntry};
use arborcast_proto::{Plan, SizeClass, Target};
use std::cell::Cell;

/// Broadcasts along a plan that is only expected to be fast which tell what it takes.
const TRIAL_BROADCASTS: u32 = 6;

/// The plans for one group and root.
#[derive(Default)]
pub struct PlanCache {
    entries: [Option<Cached>; SizeClass::COUNT],
}

struct Cached {
    generation: u64,
    entry: Option<BookEntry>,
    trial_left: Cell<u32>,
}

impl Cached {
    fn plan(&self) -> Option<&Plan> {
        self.entry.as_ref().map(|entry| &entry.plan)
    }
}

impl PlanCache {
    /// Reads the plan for `target`, whose group and root must be this cache's, if any plan has
    /// changed since it was last read.
    pub fn refresh(&mut self, board: &BoardView, target: Target) {
        let generation = board.generation();
        let cached = &mut self.entries[target.class.index()];
        if cached.as_ref().is_none_or(|cached| cached.generation != generation) {
            let entry = board.plan(target);
            let before = cached.take();
            let same = before.filter(|before| before.plan() == entry.as_ref().map(|new| &new.plan));
            let is_measured = entry.as_ref().is_none_or(|entry| entry.is_measured);
            let left = same.map_or(TRIAL_BROADCASTS, |before| before.trial_left.get());
            let trial_left = Cell::new(if is_measured { 0 } else { left });
            *cached = Some(Cached { generation, entry, trial_left });
        }
    }

    /// Whether the broadcast that starts now along the class's plan is part of a trial of it.
    pub fn take_trial(&self, class: SizeClass) -> bool {
        let Some(Cached { trial_left, .. }) = &self.entries[class.index()] else { return false };
        let left = trial_left.get();
        trial_left.set(left.saturating_sub(1));
        left > 0
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

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::segment::{Board, Identity};
    use arborcast_proto::{GroupHash, NodeName, Tree};
    use std::time::Duration;

    #[test]
    fn the_first_broadcasts_along_a_plan_that_nobody_has_measured_are_its_trial() {
        let name = |name: &str| NodeName::new(name).unwrap();
        let hold_wait_max = Duration::from_millis(250);
        let identity = Identity { node: name("n0"), site: name("a"), hold_wait_max };
        let segment = format!("arborcast-test-trial-{}", std::process::id());
        let board = Board::create(&segment, &identity).unwrap();
        let view = BoardView::open(board.file().unwrap()).unwrap();
        let class = SizeClass::of(1 << 20);
        let target = Target { group: GroupHash(1), root: 0, class };
        let mut cache = PlanCache::default();
        let mut trials_of = |segment_bytes, is_measured| {
            let plan = Plan::single(Tree::flat(3, 0).unwrap(), segment_bytes).unwrap();
            let entry = BookEntry { plan, median_s: 0.1, is_measured, native_s: None };
            board.publish([(target, &entry)]).unwrap();
            cache.refresh(&view, target);
            (0..20).filter(|_| cache.take_trial(class)).count() as u32
        };
        assert_eq!(trials_of(1024, false), TRIAL_BROADCASTS);
        assert_eq!(trials_of(1024, false), 0, "once for each plan");
        assert_eq!(trials_of(2048, false), TRIAL_BROADCASTS);
        assert_eq!(trials_of(2048, true), 0);
        assert_eq!(trials_of(4096, true), 0, "somebody has measured it");
        assert!(!PlanCache::default().take_trial(class), "there is no plan");
    }
}
