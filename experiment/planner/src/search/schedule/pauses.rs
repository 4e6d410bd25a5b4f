//! How long programs leave the network to others. Many broadcast in bursts, a few bytes after a long message, say: of
//! their pauses some are of no use and others are long, and one that has lasted a while is none of the former.

use crate::measurement::Seconds;

/// One of so many pauses is worth waiting for.
const RARE: usize = 16;

/// Those of the last broadcasts, the shortest first. There is one at least.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pauses(Vec<Seconds>);

impl Pauses {
    /// `None` of none.
    pub fn of(pauses_s: impl IntoIterator<Item = Seconds>) -> Option<Self> {
        let mut pauses_s: Vec<Seconds> = pauses_s.into_iter().collect();
        pauses_s.sort_by(f64::total_cmp);
        (!pauses_s.is_empty()).then_some(Pauses(pauses_s))
    }

    /// How long one lasts in all that has lasted for `so_far_s`: so long that this part of the longer ones was shorter;
    /// where none was longer, as long as the longest.
    pub fn lasts_s(&self, so_far_s: Seconds, shorter: f64) -> Seconds {
        let Pauses(all) = self;
        let longer = &all[all.partition_point(|pause_s| *pause_s <= so_far_s)..];
        let place = (shorter * longer.len() as f64) as usize;
        longer.get(place).copied().unwrap_or(all[all.len() - 1])
    }

    /// A long one that comes again soon.
    pub fn long_s(&self) -> Seconds {
        let Pauses(all) = self;
        all[all.len() - 1 - all.len() / RARE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_lasted_longer_than_others_is_a_longer_one() {
        assert_eq!(Pauses::of([]), None);
        let bursts = Pauses::of([0.5, 0.004, 0.6, 0.004, 0.5, 0.5, 0.003, 0.005]).unwrap();
        let lasts_s = |so_far_s| bursts.lasts_s(so_far_s, 0.25);
        let expected_s = [0.004, 0.5, 0.5, 0.5, 0.6, 0.6];
        assert_eq!([0.0, 0.0045, 0.005, 0.1, 0.5, 0.7].map(lasts_s), expected_s);
        assert_eq!(bursts.lasts_s(0.0, 0.0), 0.003);
    }

    #[test]
    fn a_long_one_counts_where_it_is_not_rare() {
        let of_sixteen = |long: usize| {
            let pauses = (0..16).map(|pause| if pause < long { 2.0 } else { 0.01 });
            Pauses::of(pauses).unwrap().long_s()
        };
        assert_eq!([0, 1, 2, 16].map(of_sixteen), [0.01, 0.01, 2.0, 2.0]);
        assert_eq!(Pauses::of([2.0, 0.01]).unwrap().long_s(), 2.0);
    }
}
