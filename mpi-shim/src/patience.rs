//! How many broadcasts of a communicator are native before it is set up.
//!
//! Setting up takes several collective calls, over a wide area as long as a few short broadcasts. So a program that
//! makes a communicator for a broadcast or two does not pay for it, unless they take far longer. One that makes
//! communicators of the same ranks again and again would pay for each: while those that are set up have hardly a
//! broadcast along trees, twice as many broadcasts as before go natively, on all of them together, until the
//! next is set up.
//!
//! All ranks count alike. On communicators of the same ranks MPI demands the same order of broadcasts everywhere,
//! save of programs with several threads in MPI, of whose communicators each is by itself.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What holds for broadcasts of a length.
struct Length {
    below_bytes: u64,
    /// A communicator is set up before one that has so many before it.
    enough: u32,
    /// So many are enough however often setting up was in vain: a set-up costs some percent of what they do.
    most: u32,
    /// So many along trees gain what it costs.
    paid_by: u32,
}

const LENGTHS: [Length; 3] = [
    Length { below_bytes: 64 << 10, enough: 3, most: 256, paid_by: 8 },
    Length { below_bytes: 1 << 20, enough: 1, most: 64, paid_by: 3 },
    Length { below_bytes: u64::MAX, enough: 0, most: 4, paid_by: 1 },
];

/// What is to be gained by broadcasts along trees, so that each length's part is whole.
const COST: u32 = 24;

impl Length {
    fn of(bytes: u64) -> &'static Self {
        LENGTHS.iter().find(|length| bytes < length.below_bytes).unwrap_or(&LENGTHS[2])
    }

    fn enough_after(&self, in_vain: u32) -> u32 {
        ((self.enough + 1) << in_vain.min(16)).min(self.most)
    }
}

/// The communicators of the same ranks that have been set up before a broadcast of the same length, since one that
/// has gained what it cost.
#[derive(Debug, Default, Clone, Copy)]
struct Earlier {
    in_vain: u32,
    /// Native broadcasts of this length since the last of them, of communicators that were not set up.
    natively: u32,
}

/// By the ranks, and [`Length::below_bytes`].
type Known = BTreeMap<(Ranks, u64), Earlier>;

static EARLIER: Mutex<Known> = Mutex::new(BTreeMap::new());

fn earlier() -> MutexGuard<'static, Known> {
    EARLIER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ranks of a communicator, in its order, by a hash of their numbers in the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranks(u64);

impl Ranks {
    pub fn new(in_job: &[c_int]) -> Self {
        let mut hasher = DefaultHasher::new();
        in_job.hash(&mut hasher);
        Ranks(hasher.finish())
    }
}

/// Of a communicator that is not set up.
#[derive(Debug)]
pub struct Patience {
    ranks: Ranks,
    /// Its broadcasts so far.
    before: u32,
}

impl Patience {
    pub fn new(ranks: Ranks) -> Self {
        Patience { ranks, before: 0 }
    }

    pub fn ranks(&self) -> Ranks {
        self.ranks
    }

    /// Whether the communicator is to be set up before this broadcast; else counts it.
    pub fn is_over(&mut self, bytes: u64) -> bool {
        let length = Length::of(bytes);
        let mut earlier = earlier();
        let earlier = earlier.get_mut(&(self.ranks, length.below_bytes));
        let is_over = match earlier.as_deref() {
            None => self.before >= length.enough,
            // Soon after it was made, so that most of its broadcasts may gain something, or not before it has as many itself.
            Some(earlier) => {
                let enough = length.enough_after(earlier.in_vain);
                let is_new = self.before >= length.enough && self.before <= LENGTHS[0].enough;
                (is_new && earlier.natively >= enough) || self.before >= enough
            }
        };
        if !is_over {
            self.before = self.before.saturating_add(1);
            if let Some(earlier) = earlier {
                earlier.natively = earlier.natively.saturating_add(1);
            }
        }
        is_over
    }
}

/// What setting up a communicator has not gained yet.
#[derive(Debug)]
pub struct Debt {
    /// Whose ranks, and the length of the broadcast before which it was taken: see [`Known`].
    of: (Ranks, u64),
    left: u32,
}

impl Debt {
    /// A communicator is being set up before a broadcast of `bytes`, whatever comes of it. `in_order`: all of its ranks
    /// make the same broadcasts in the same order, on other communicators too.
    pub fn take(ranks: Ranks, bytes: u64, in_order: bool) -> Self {
        let of = (ranks, Length::of(bytes).below_bytes);
        if in_order {
            let mut earlier = earlier();
            let earlier = earlier.entry(of).or_default();
            *earlier = Earlier { in_vain: earlier.in_vain.saturating_add(1), natively: 0 };
        }
        Debt { of, left: COST }
    }

    /// A broadcast of `bytes` went along trees.
    pub fn pay(&mut self, bytes: u64) {
        if self.left == 0 {
            return;
        }
        self.left = self.left.saturating_sub(COST / Length::of(bytes).paid_by);
        if self.left == 0 {
            earlier().remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: u64 = 8 << 10;

    /// Broadcasts on a new communicator, of which those after its set-up go along trees where there is a plan. Whether it
    /// was set up.
    fn communicator(ranks: Ranks, broadcasts: u32, bytes: u64, has_plan: bool) -> bool {
        let mut patience = Patience::new(ranks);
        let mut debt = None;
        for _ in 0..broadcasts {
            if debt.is_none() && patience.is_over(bytes) {
                debt = Some(Debt::take(ranks, bytes, true));
            }
            if let Some(debt) = debt.as_mut().filter(|_| has_plan) {
                debt.pay(bytes);
            }
        }
        debt.is_some()
    }

    fn set_ups(ranks: Ranks, communicators: u32, broadcasts: u32, bytes: u64, plan: bool) -> usize {
        (0..communicators).filter(|_| communicator(ranks, broadcasts, bytes, plan)).count()
    }

    #[test]
    fn the_first_is_set_up_after_few_broadcasts_and_before_a_long_one() {
        for (bytes, native) in [(1, 3), (SHORT, 3), (64 << 10, 1), (1 << 20, 0), (1 << 30, 0)] {
            let mut patience = Patience::new(Ranks::new(&[1, bytes as c_int]));
            for _ in 0..native {
                assert!(!patience.is_over(bytes), "{bytes}");
            }
            assert!(patience.is_over(bytes), "{bytes}");
        }
    }

    #[test]
    fn communicators_that_gain_nothing_are_set_up_ever_more_rarely() {
        for (bytes, broadcasts) in [(SHORT, 6), (64 << 10, 3), (4 << 20, 1)] {
            let ranks = Ranks::new(&[2, bytes as c_int]);
            set_ups(ranks, 1000, broadcasts, bytes, false);
            let later = set_ups(ranks, 1000, broadcasts, bytes, false);
            let most = Length::of(bytes).most;
            let each = 1000 * broadcasts / later as u32;
            assert!((most..=most + 3 * broadcasts).contains(&each), "{bytes}: one in {each}");
            // Other ranks have nothing to do with it.
            assert_eq!(set_ups(Ranks::new(&[3, bytes as c_int]), 1, 6, bytes, false), 1);
            // Nor have longer broadcasts.
            assert_eq!(set_ups(ranks, 1, 1, 1 << 30, false), usize::from(bytes < 1 << 20));
        }
    }

    #[test]
    fn once_there_is_a_plan_each_is_set_up_again() {
        let ranks = Ranks::new(&[4]);
        set_ups(ranks, 1000, 20, SHORT, false);
        let until_tried = 2 + Length::of(SHORT).most / 20;
        assert!(set_ups(ranks, until_tried, 20, SHORT, true) > 0);
        assert_eq!(set_ups(ranks, 100, 20, SHORT, true), 100);
        // Two of five broadcasts don't gain what it costs.
        assert!(set_ups(ranks, 1000, 5, SHORT, true) < 30);
        // One that lives long needs no other.
        assert!(communicator(ranks, Length::of(SHORT).most + 1, SHORT, false));
    }

    #[test]
    fn a_length_before_each_long_message_changes_nothing() {
        let ranks = Ranks::new(&[6]);
        let mut set_ups = 0;
        for _ in 0..100 {
            let mut patience = Patience::new(ranks);
            assert!(!patience.is_over(4));
            if patience.is_over(1 << 20) {
                Debt::take(ranks, 1 << 20, true);
                set_ups += 1;
            }
        }
        assert!((20..60).contains(&set_ups), "{set_ups}");
    }

    #[test]
    fn with_several_threads_each_communicator_is_by_itself() {
        let ranks = Ranks::new(&[5]);
        for _ in 0..100 {
            let mut patience = Patience::new(ranks);
            assert!(patience.is_over(1 << 20));
            Debt::take(ranks, 1 << 20, false);
        }
    }
}
