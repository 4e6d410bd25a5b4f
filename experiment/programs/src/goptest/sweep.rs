//! What to measure next, free of MPI: repetitions for each size, samples until the minimum is
//! believed, and at the end the smoothing of the whole.

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
    /// Passes of smoothing; 0 for none.
    pub smoothing_passes: usize,
}

/// Of one size.
const MOST_SAMPLES: usize = 30;

/// Repetitions are not doubled beyond this.
const MOST_REPETITIONS: u64 = 1 << 24;

/// One size and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// In the unit of the operation.
    pub size: usize,
    /// Seconds of one repetition: the least of the samples.
    pub seconds: f64,
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
/// after each size and once after the smoothing with all that is known, and may end the sweep.
pub fn sweep<E>(
    sizes: &[usize],
    policy: &Policy,
    mut sample: impl FnMut(usize, u64) -> Sample,
    mut report: impl FnMut(&[Entry], &[Remeasured]) -> Result<(), E>,
) -> Result<Vec<Entry>, E> {
    let mut entries: Vec<Entry> = Vec::with_capacity(sizes.len());
    let mut repetitions = policy.repetitions;
    for size in sizes {
        let entry = measure(*size, repetitions, policy, &mut sample);
        // Without -autoreps every size begins with what the user asked for.
        repetitions = policy.repetitions;
        entries.push(entry);
        report(&entries, &[])?;
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
    let mut rule = LeastSample::new(policy.threshold, MOST_SAMPLES);
    let mut best: Option<Sample> = None;
    while !rule.is_done() {
        let found = sample(size, repetitions);
        if found.elapsed_seconds < policy.sample_seconds && repetitions < MOST_REPETITIONS {
            repetitions *= 2;
            rule = LeastSample::new(policy.threshold, MOST_SAMPLES);
            best = None;
            continue;
        }
        rule.add(found.seconds);
        if best.as_ref().is_none_or(|best| found.seconds < best.seconds) {
            best = Some(found);
        }
    }
    let per_process = best.map_or_else(Vec::new, |best| best.per_process);
    let (seconds, samples) = (rule.least(), rule.count());
    Entry { size, seconds, per_process, samples, repetitions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::convert::Infallible;

    const POLICY: Policy =
        Policy { repetitions: 1, sample_seconds: 0.1, threshold: 0.05, smoothing_passes: 3 };

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
