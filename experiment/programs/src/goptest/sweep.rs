//! What to measure next, free of MPI: repetitions for each size, samples until the minimum is
//! believed, sizes between those that do not lie on a line, and at the end the smoothing of the whole.

use super::refinement::{MOST_SIZES, PASSES, Refinement};
use super::sample::Sample;
use crate::measure::smoothing::{self, smooth};
use crate::measure::statistics::LeastSample;

/// A sample must last this many times the clock's resolution.
pub const RESOLUTIONS: f64 = 100.0;

/// How carefully to measure.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Repetitions of the operation in one sample, at least.
    pub repetitions: u64,
    /// Least seconds of one sample; repetitions are doubled until it is reached.
    pub sample_seconds: f64,
    /// Stopping rule of the samples, see [`LeastSample`].
    pub threshold: f64,
    /// At most, of one size.
    pub most_samples: usize,
    /// Sizes to add, where they are chosen automatically.
    pub refinement: Option<Refinement>,
    /// Passes of smoothing; 0 for none.
    pub smoothing_passes: usize,
}

/// Repetitions are not doubled beyond this.
const MOST_REPETITIONS: u64 = 1 << 24;

/// One size and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// In the unit of the operation.
    pub size: usize,
    /// Seconds of one repetition: the least of the samples.
    pub seconds: f64,
    /// Of all samples.
    pub mean_seconds: f64,
    /// Of one repetition, in the slowest of the samples.
    pub greatest_seconds: f64,
    /// What makes up the sample, for each process, where the operation knows that.
    pub per_process: Vec<f64>,
    pub samples: usize,
    pub repetitions: u64,
}

/// A size that was measured again, with seconds before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Remeasured {
    pub size: usize,
    pub before: f64,
    pub after: f64,
}

/// Measures all sizes. `sample` measures one size with a number of repetitions; `report` is called
/// after each size and once after the smoothing with all that is known, by size, and may end the sweep.
pub fn sweep<E>(
    sizes: &[usize],
    policy: &Policy,
    mut sample: impl FnMut(usize, u64) -> Sample,
    mut report: impl FnMut(&[Entry], &[Remeasured]) -> Result<(), E>,
) -> Result<Vec<Entry>, E> {
    let mut entries: Vec<Entry> = Vec::with_capacity(sizes.len());
    for size in sizes {
        entries.push(measure(*size, policy.repetitions, policy, &mut sample));
        report(&entries, &[])?;
    }
    if let Some(refinement) = &policy.refinement {
        for _ in 0..PASSES {
            let times: Vec<(usize, f64)> =
                entries.iter().map(|entry| (entry.size, entry.seconds)).collect();
            for size in refinement.sizes_between(&times) {
                if entries.len() == MOST_SIZES {
                    break;
                }
                let place = entries.partition_point(|entry| entry.size < size);
                let entry = measure(size, policy.repetitions, policy, &mut sample);
                entries.insert(place, entry);
                report(&entries, &[])?;
            }
        }
    }
    let mut times: Vec<(f64, f64)> =
        entries.iter().map(|entry| (entry.size as f64, entry.seconds)).collect();
    let told = smooth(&mut times, policy.smoothing_passes, |position| {
        let old = &entries[position];
        let again = measure(old.size, old.repetitions, policy, &mut sample);
        let seconds = again.seconds;
        if seconds < old.seconds {
            entries[position] = again;
        }
        seconds
    });
    let remeasured: Vec<Remeasured> = told
        .iter()
        .map(|smoothing::Remeasured { position, before, after }| Remeasured {
            size: entries[*position].size,
            before: *before,
            after: *after,
        })
        .collect();
    if !remeasured.is_empty() {
        report(&entries, &remeasured)?;
    }
    Ok(entries)
}

/// One size: repetitions until a sample is long enough, then samples until the rule is content. A
/// sample that turned out too short is thrown away.
fn measure(
    size: usize,
    mut repetitions: u64,
    policy: &Policy,
    sample: &mut impl FnMut(usize, u64) -> Sample,
) -> Entry {
    let mut rule = LeastSample::new(policy.threshold, policy.most_samples);
    let mut best: Option<Sample> = None;
    while !rule.is_done() {
        let found = sample(size, repetitions);
        if found.elapsed_seconds < policy.sample_seconds && repetitions < MOST_REPETITIONS {
            repetitions *= 2;
            rule = LeastSample::new(policy.threshold, policy.most_samples);
            best = None;
            continue;
        }
        rule.add(found.seconds);
        if best.as_ref().is_none_or(|best| found.seconds < best.seconds) {
            best = Some(found);
        }
    }
    let per_process = best.map_or_else(Vec::new, |best| best.per_process);
    Entry {
        size,
        seconds: rule.least(),
        mean_seconds: rule.mean(),
        greatest_seconds: rule.greatest(),
        per_process,
        samples: rule.count(),
        repetitions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::convert::Infallible;

    const POLICY: Policy = Policy {
        repetitions: 1,
        sample_seconds: 0.1,
        threshold: 0.05,
        most_samples: 30,
        refinement: None,
        smoothing_passes: 3,
    };

    /// Samples of a size whose times are all the same.
    const UNDISTURBED: usize = LeastSample::UNCOUNTED_SAMPLES + LeastSample::CLOSE_SAMPLES;

    fn took(seconds: f64, repetitions: u64) -> Sample {
        let elapsed_seconds = seconds * repetitions as f64;
        Sample { seconds, elapsed_seconds, per_process: Vec::new() }
    }

    fn quiet(_: &[Entry], _: &[Remeasured]) -> Result<(), Infallible> {
        Ok(())
    }

    fn line(size: usize) -> f64 {
        0.01 + size as f64 * 1e-5
    }

    #[test]
    fn repetitions_double_until_a_sample_is_long_enough() {
        let Ok(entries) = sweep(&[0], &POLICY, |size, n| took(line(size), n), quiet);
        assert_eq!(entries[0].repetitions, 16);
        assert_eq!(entries[0].samples, UNDISTURBED);
        assert_eq!(entries[0].seconds, 0.01);
    }

    #[test]
    fn undisturbed_sizes_are_measured_once() {
        let calls = Cell::new(0);
        let count = |size, n| {
            calls.set(calls.get() + 1);
            took(line(size), n)
        };
        let policy = Policy { repetitions: 64, ..POLICY };
        let Ok(entries) = sweep(&[0, 100, 200, 300, 400], &policy, count, quiet);
        assert_eq!(calls.get(), entries.len() * UNDISTURBED);
    }

    #[test]
    fn a_disturbed_size_is_measured_again_and_told() {
        let calls = Cell::new(0);
        // All samples of the third size's first turn are disturbed.
        let disturbed = |size, n| {
            if size == 200 {
                calls.set(calls.get() + 1);
            }
            took(line(size) * if size == 200 && calls.get() <= UNDISTURBED { 1.5 } else { 1.0 }, n)
        };
        let told = std::cell::RefCell::new(Vec::new());
        let policy = Policy { repetitions: 64, ..POLICY };
        let Ok(entries) = sweep(&[0, 100, 200, 300, 400], &policy, disturbed, |_, remeasured| {
            told.borrow_mut().extend_from_slice(remeasured);
            Ok::<(), Infallible>(())
        });
        assert_eq!(entries[2].seconds, line(200));
        let found = told.borrow().iter().any(|r| r.size == 200 && r.before > 1.4 * r.after);
        assert!(found, "{told:?}");
    }

    #[test]
    fn mean_and_greatest_are_of_all_samples() {
        let calls = Cell::new(0);
        let once_slow = |size, n| {
            calls.set(calls.get() + 1);
            took(line(size) * if calls.get() == 2 { 4.0 } else { 1.0 }, n)
        };
        let policy = Policy { repetitions: 64, ..POLICY };
        let Ok(entries) = sweep(&[0], &policy, once_slow, quiet);
        let entry = &entries[0];
        assert_eq!((entry.seconds, entry.greatest_seconds), (0.01, 0.04));
        assert!((entry.mean_seconds - (0.01 + 0.03 / entry.samples as f64)).abs() < 1e-12);
    }

    #[test]
    fn sizes_are_added_where_times_leave_the_line() {
        // A jump between 500 and 501.
        let jump = |size: usize, n| took(if size > 500 { 0.04 } else { 0.02 }, n);
        let refinement = Some(Refinement { least_step: 4, tolerance: 0.02 });
        let policy = Policy { repetitions: 64, refinement, smoothing_passes: 0, ..POLICY };
        let Ok(entries) = sweep(&[0, 250, 500, 750, 1000], &policy, jump, quiet);
        let sizes: Vec<usize> = entries.iter().map(|entry| entry.size).collect();
        assert!(sizes.is_sorted() && sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
        let nearest = sizes.iter().filter(|size| **size > 500).min().unwrap();
        assert!((501..=508).contains(nearest), "{sizes:?}");
    }

    #[test]
    fn reports_come_after_every_size_and_may_end_it() {
        let mut seen = 0;
        let ended = sweep(
            &[0, 1, 2],
            &Policy { repetitions: 64, ..POLICY },
            |size, n| took(line(size), n),
            |entries, _| {
                seen = entries.len();
                if seen == 2 { Err("full") } else { Ok(()) }
            },
        );
        assert_eq!((ended.unwrap_err(), seen), ("full", 2));
    }
}
