//! Which nodes of the grid get broadcasts late, as the experiment has told it.

use arborcast_proto::Lateness;
use std::collections::VecDeque;

/// The one that was told of least lately goes first.
const MAX_TARGETS: usize = 32;

/// What was told of each target last, most recent first.
#[derive(Debug, Default)]
pub struct GridLateness(VecDeque<Lateness>);

impl GridLateness {
    /// What makes no sense is passed over.
    pub fn note(&mut self, late: Lateness) {
        if late.makes_sense() {
            self.0.retain(|known| known.target != late.target);
            self.0.push_front(late);
            self.0.truncate(MAX_TARGETS);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lateness> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{GroupHash, SizeClass, Target};

    fn late(root: u16, median_s: f64) -> Lateness {
        let target = Target { group: GroupHash(1), root, class: SizeClass::of(1) };
        Lateness { target, nodes: 3, median_s, latest: Vec::new() }
    }

    #[test]
    fn the_last_word_on_each_target_is_kept_and_not_too_many() {
        let mut lateness = GridLateness::default();
        for root in 0..100 {
            lateness.note(late(root, 1.0));
        }
        lateness.note(late(98, 2.0));
        lateness.note(late(98, f64::NAN));
        let first = lateness.iter().next().unwrap();
        assert_eq!((first.target.root, first.median_s), (98, 2.0));
        assert_eq!(lateness.iter().count(), MAX_TARGETS);
    }
}
