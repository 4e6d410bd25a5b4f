//! The smoothing of goptest: an entry far off the straight line between its neighbours in message
//! size is measured again, since a disturbance hits one size and a property of the network more.
//! At a real jump (a change of protocol) the line is no good guess; hence the bound on passes, and
//! the smaller of the old and the new time is kept, as with the samples of one entry.

/// Part of the estimate beyond which an entry is measured again.
pub const TOLERANCE: f64 = 0.10;

/// Time at `at` on the straight line through two neighbours, each (size, time).
fn on_line(before: (f64, f64), after: (f64, f64), at: f64) -> f64 {
    (after.1 - before.1) / (after.0 - before.0) * (at - before.0) + before.1
}

/// Positions of the entries more than [`TOLERANCE`] off the line between their neighbours. The
/// entries are (size, time), sorted by size; the first and last have one neighbour and are never
/// among the answers, nor are entries that share a neighbour's size.
pub fn off_the_line(entries: &[(f64, f64)]) -> Vec<usize> {
    (1..entries.len().saturating_sub(1))
        .filter(|&i| {
            let (before, entry, after) = (entries[i - 1], entries[i], entries[i + 1]);
            if before.0 >= entry.0 || entry.0 >= after.0 {
                return false;
            }
            let estimate = on_line(before, after, entry.0);
            (entry.1 - estimate).abs() > TOLERANCE * estimate.abs()
        })
        .collect()
}

/// Measures entries off the line again, at most `passes` times over the list; `remeasure` gets a
/// position and gives its new time. Stops early when a pass changes nothing by more than the
/// tolerance. Returns each re-measured position with its time before and after.
pub fn smooth(
    entries: &mut [(f64, f64)],
    passes: usize,
    mut remeasure: impl FnMut(usize) -> f64,
) -> Vec<Remeasured> {
    let mut told = Vec::new();
    for _ in 0..passes {
        let mut changed = false;
        for position in off_the_line(entries) {
            let before = entries[position].1;
            let after = remeasure(position).min(before);
            changed |= before - after > TOLERANCE * before.abs();
            entries[position].1 = after;
            told.push(Remeasured { position, before, after });
        }
        if !changed {
            break;
        }
    }
    told
}

/// One entry that was measured again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remeasured {
    pub position: usize,
    /// The time that stood there, in seconds.
    pub before: f64,
    /// The time that stands there now, in seconds.
    pub after: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 µs and 1 ns a byte.
    fn straight(sizes: &[f64]) -> Vec<(f64, f64)> {
        sizes.iter().map(|size| (*size, 1e-5 + 1e-9 * size)).collect()
    }

    const SIZES: [f64; 7] = [0.0, 100.0, 1000.0, 4000.0, 5000.0, 9000.0, 10000.0];

    #[test]
    fn a_straight_line_is_left_alone() {
        let mut entries = straight(&SIZES);
        let told = smooth(&mut entries, 3, |position| panic!("re-measured {position}"));
        assert!(told.is_empty());
    }

    #[test]
    fn a_disturbed_entry_is_found_and_mended() {
        let truth = straight(&SIZES);
        let mut entries = truth.clone();
        entries[3].1 *= 1.5;
        let told = smooth(&mut entries, 3, |position| truth[position].1);
        assert!(told.iter().any(|entry| entry.position == 3 && entry.before > entry.after));
        assert_eq!(entries, truth);
    }

    #[test]
    fn a_real_jump_is_asked_about_a_bounded_number_of_times() {
        let mut entries = straight(&SIZES);
        for entry in &mut entries[4..] {
            entry.1 *= 2.0;
        }
        let truth = entries.clone();
        let told = smooth(&mut entries, 3, |position| truth[position].1);
        assert_eq!(entries, truth);
        assert!((1..=3 * SIZES.len()).contains(&told.len()), "{told:?}");
    }

    #[test]
    fn a_worse_second_time_does_not_replace_the_first() {
        let mut entries = straight(&SIZES);
        entries[2].1 *= 1.3;
        let before = entries[2].1;
        smooth(&mut entries, 2, |_| 1.0);
        assert_eq!(entries[2].1, before);
    }

    #[test]
    fn equal_sizes_have_no_line_between_them() {
        assert!(off_the_line(&[(1.0, 1.0), (1.0, 9.0), (1.0, 1.0)]).is_empty());
    }
}
