//! Statistics of repeated measurements. [`Summary`] is what the files of PARUS network_test carry
//! for each cell; [`LeastSample`] is the stopping rule of Gropp's perftest: the minimum of samples,
//! believed once enough of them lie close to it.

/// Average, median, deviation and minimum of one cell, in the unit of its samples, each as PARUS
/// computes it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    pub average: f64,
    /// Of an even count the upper of the two in the middle.
    pub median: f64,
    /// Root of the mean square distance from the average: divided by the number of samples.
    pub deviation: f64,
    pub min: f64,
}

impl Summary {
    /// No samples give zeros, which is what the diagonal of a matrix holds.
    pub fn of(samples: &[f64]) -> Self {
        if samples.is_empty() {
            return Self::default();
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = samples.len() as f64;
        let average = samples.iter().sum::<f64>() / count;
        let squares: f64 = samples.iter().map(|sample| (sample - average).powi(2)).sum();
        let deviation = (squares / count).sqrt();
        Self { average, median: sorted[sorted.len() / 2], deviation, min: sorted[0] }
    }
}

/// The least of at most [`LeastSample::MOST_SAMPLES`] samples; done once
/// [`LeastSample::CLOSE_SAMPLES`] of them, the least among them, lie within `threshold` of it.
#[derive(Debug, Clone)]
pub struct LeastSample {
    threshold: f64,
    samples: Vec<f64>,
}

impl LeastSample {
    pub const MOST_SAMPLES: usize = 30;
    pub const CLOSE_SAMPLES: usize = 3;

    /// `threshold` is a part of the minimum: 0.05 means within 5 %.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, samples: Vec::with_capacity(Self::MOST_SAMPLES) }
    }

    pub fn add(&mut self, sample: f64) {
        self.samples.push(sample);
    }

    /// The least sample so far; infinite before the first.
    pub fn least(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn count(&self) -> usize {
        self.samples.len()
    }

    pub fn is_done(&self) -> bool {
        // Relative to the size of the minimum: a difference of two times may come out negative.
        let limit = self.least() + self.threshold * self.least().abs();
        let close = self.samples.iter().filter(|sample| **sample <= limit).count();
        close >= Self::CLOSE_SAMPLES || self.samples.len() >= Self::MOST_SAMPLES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_known_samples() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 8.0]);
        assert_eq!((summary.average, summary.median, summary.min), (4.0, 4.0, 1.0));
        assert!((summary.deviation - (26.0_f64 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(Summary::of(&[3.0, 9.0, 4.0]).median, 4.0);
    }

    #[test]
    fn one_sample_has_no_deviation_and_none_give_zeros() {
        assert_eq!(Summary::of(&[2.0]).deviation, 0.0);
        assert_eq!(Summary::of(&[]), Summary::default());
    }

    #[test]
    fn three_samples_near_the_minimum_end_it() {
        let mut rule = LeastSample::new(0.05);
        for sample in [1.00, 1.04, 1.30, 1.20] {
            rule.add(sample);
            assert!(!rule.is_done(), "after {sample}");
        }
        rule.add(1.05);
        assert!(rule.is_done());
        assert_eq!(rule.least(), 1.0);
    }

    #[test]
    fn a_new_minimum_may_undo_closeness() {
        let mut rule = LeastSample::new(0.05);
        for sample in [1.00, 1.01, 0.80] {
            rule.add(sample);
        }
        assert!(!rule.is_done());
    }

    #[test]
    fn scattered_samples_end_at_the_limit() {
        let mut rule = LeastSample::new(0.01);
        let mut sample = 1.0;
        while !rule.is_done() {
            rule.add(sample);
            sample *= 1.1;
        }
        assert_eq!(rule.count(), LeastSample::MOST_SAMPLES);
    }
}
