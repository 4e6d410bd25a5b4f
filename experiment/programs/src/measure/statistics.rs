//! Statistics of repeated measurements. [`Summary`] is what the files of PARUS network_test carry
//! for each cell; [`LeastSample`] is the stopping rule of Gropp's goptest: the minimum of samples,
//! believed once enough later ones lie close to it.

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

/// The least of some samples. Done once [`LeastSample::CLOSE_SAMPLES`] that came after it, and after
/// the first [`LeastSample::UNCOUNTED_SAMPLES`] of all, lie within `threshold` of it; at the latest
/// after the number of samples that was given.
#[derive(Debug, Clone)]
pub struct LeastSample {
    threshold: f64,
    most_samples: usize,
    samples: Vec<f64>,
    least: f64,
    close: usize,
}

impl LeastSample {
    pub const CLOSE_SAMPLES: usize = 3;
    pub const UNCOUNTED_SAMPLES: usize = 4;

    /// `threshold` is a part of the minimum: 0.05 means within 5 %.
    pub fn new(threshold: f64, most_samples: usize) -> Self {
        Self { threshold, most_samples, samples: Vec::new(), least: f64::INFINITY, close: 0 }
    }

    pub fn add(&mut self, sample: f64) {
        if sample < self.least {
            self.least = sample;
            self.close = 0;
        } else if self.samples.len() >= Self::UNCOUNTED_SAMPLES
            && sample <= self.least * (1.0 + self.threshold)
        {
            self.close += 1;
        }
        self.samples.push(sample);
    }

    /// The least sample so far; infinite before the first.
    pub fn least(&self) -> f64 {
        self.least
    }

    /// Of all samples so far; not a number before the first.
    pub fn mean(&self) -> f64 {
        self.samples.iter().sum::<f64>() / self.samples.len() as f64
    }

    /// The greatest sample so far; negative infinity before the first.
    pub fn greatest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    pub fn count(&self) -> usize {
        self.samples.len()
    }

    pub fn is_done(&self) -> bool {
        self.close >= Self::CLOSE_SAMPLES || self.samples.len() >= self.most_samples
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

    /// The samples after which the rule is content, and the rule.
    fn ended(threshold: f64, samples: impl IntoIterator<Item = f64>) -> LeastSample {
        let mut rule = LeastSample::new(threshold, 30);
        for sample in samples {
            assert!(!rule.is_done(), "done before {sample}");
            rule.add(sample);
        }
        rule
    }

    #[test]
    fn three_late_samples_near_the_minimum_end_it() {
        // Those before the fifth do not count, nor does 1.30.
        let rule = ended(0.05, [1.00, 1.04, 1.01, 1.02, 1.30, 1.04, 1.05, 1.00]);
        assert!(rule.is_done());
        assert_eq!((rule.least(), rule.greatest(), rule.count()), (1.0, 1.3, 8));
        assert!((rule.mean() - 1.0575).abs() < 1e-12);
    }

    #[test]
    fn a_new_minimum_begins_anew() {
        let mut rule = ended(0.05, [1.00, 1.00, 1.00, 1.00, 1.00, 1.00, 0.99, 0.99, 0.99]);
        assert!(!rule.is_done());
        rule.add(1.0);
        assert!(rule.is_done());
    }

    #[test]
    fn scattered_samples_end_at_the_limit() {
        let growing = (0..30).map(|index| 1.1_f64.powi(index));
        assert!(ended(0.01, growing).is_done());
    }

    #[test]
    fn times_of_nothing_are_close_to_each_other() {
        assert!(ended(0.05, [0.0; 7]).is_done());
    }
}
