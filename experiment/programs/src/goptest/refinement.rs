//! Message sizes chosen automatically, as mpptest of Gropp's perftest does with `-auto`: wherever a time
//! lies off the straight line between its neighbours, the intervals on both sides are halved.

/// Passes over the list; each halves intervals.
pub const PASSES: usize = 6;

/// No size is added beyond this number.
pub const MOST_SIZES: usize = 1024;

/// Intervals that sizes are chosen into at first.
const FIRST_INTERVALS: usize = 32;

/// A difference of times that is never a reason, in seconds.
const NEGLIGIBLE_SECONDS: f64 = 1e-10;

/// What sizes are added.
#[derive(Debug, Clone, PartialEq)]
pub struct Refinement {
    /// Least difference of two sizes; added ones are a multiple of it above the one before.
    pub least_step: usize,
    /// Part of the time on the line beyond which a time is off it.
    pub tolerance: f64,
}

/// The sizes to begin with, from `start` to at most `end`.
pub fn first_sizes(start: usize, end: usize) -> Vec<usize> {
    (start..=end).step_by(((end - start) / FIRST_INTERVALS).max(1)).collect()
}

impl Refinement {
    /// Sizes to add to `entries`, each (size, seconds), sorted by size.
    pub fn sizes_between(&self, entries: &[(usize, f64)]) -> Vec<usize> {
        let mut added: Vec<usize> = (0..entries.len())
            .filter(|position| self.is_off(entries, *position))
            .flat_map(|position| [position.checked_sub(1), Some(position)])
            .flatten()
            .filter_map(|interval| match entries.get(interval..interval + 2)? {
                [before, after] => self.between(before.0, after.0),
                _ => None,
            })
            .collect();
        added.sort_unstable();
        added.dedup();
        added
    }

    /// An entry without a neighbour has, `least_step` further on, one with its own time.
    fn is_off(&self, entries: &[(usize, f64)], position: usize) -> bool {
        let (size, seconds) = entries[position];
        let ends = (self.least_step as f64, seconds);
        let before = position.checked_sub(1).map_or(ends, |before| {
            let (other, seconds) = entries[before];
            ((size - other) as f64, seconds)
        });
        let after = entries
            .get(position + 1)
            .map_or(ends, |(other, seconds)| ((other - size) as f64, *seconds));
        let on_line = before.1 + before.0 / (before.0 + after.0) * (after.1 - before.1);
        (seconds - on_line).abs() > self.tolerance * on_line + NEGLIGIBLE_SECONDS
    }

    fn between(&self, before: usize, after: usize) -> Option<usize> {
        let half = (after - before) / 2;
        let step = half / self.least_step * self.least_step;
        (step > 0 && half > self.least_step).then_some(before + step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFINEMENT: Refinement = Refinement { least_step: 4, tolerance: 0.02 };

    #[test]
    fn first_sizes_are_32_intervals() {
        assert_eq!(first_sizes(0, 1024).len(), 33);
        assert_eq!(first_sizes(0, 1024)[..2], [0, 32]);
        assert_eq!(first_sizes(5, 7), [5, 6, 7]);
        assert_eq!(first_sizes(9, 9), [9]);
    }

    #[test]
    fn a_line_gets_no_more_sizes_and_a_jump_does() {
        let line: Vec<(usize, f64)> = (0..9).map(|i| (i * 100, 1e-3 + i as f64 * 1e-6)).collect();
        assert!(REFINEMENT.sizes_between(&line).is_empty());
        let mut jump = line;
        jump[4..].iter_mut().for_each(|entry| entry.1 *= 2.0);
        // Off the line are the entries on both sides of the jump.
        assert_eq!(REFINEMENT.sizes_between(&jump), [248, 348, 448]);
    }

    #[test]
    fn sizes_keep_their_distance() {
        assert_eq!(REFINEMENT.sizes_between(&[(0, 1.0), (9, 2.0), (19, 4.0)]), [13]);
        assert!(REFINEMENT.sizes_between(&[(0, 1.0), (8, 2.0)]).is_empty());
    }
}
