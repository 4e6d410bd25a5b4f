//! How late packets were: counts in buckets that grow with the value (sixteen to a power of two, so
//! a quantile is off by at most 6 %), as in HdrHistogram (Gil Tene). Two snapshots can be subtracted,
//! which tells about the time between them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets per power of two.
const SUB: u64 = 16;
const BUCKETS: usize = (SUB as usize) * 40;

/// Durations counted in buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let exponent = u64::from(ns.ilog2()) - 4;
    let index = (exponent + 1) * SUB + ((ns >> exponent) - SUB);
    (index as usize).min(BUCKETS - 1)
}

/// The largest value a bucket holds.
fn upper_ns(bucket: usize) -> u64 {
    let (exponent, sub) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if exponent == 0 { sub } else { ((SUB + sub + 1) << (exponent - 1)) - 1 }
}

impl Histogram {
    pub fn record(&mut self, time_ns: u64) {
        self.counts[bucket(time_ns)] += 1;
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value that a share of `quantile` (0 to 1) of all records doesn't exceed, rounded up to
    /// its bucket's end; zero where nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Duration {
        let wanted = (self.count() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(upper_ns(index));
            }
        }
        Duration::ZERO
    }

    pub fn max(&self) -> Duration {
        self.counts
            .iter()
            .rposition(|&c| c > 0)
            .map_or(Duration::ZERO, |i| Duration::from_nanos(upper_ns(i)))
    }

    /// What was recorded since `earlier`, a snapshot of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        Self { counts: pairs.map(|(now, then)| now.saturating_sub(*then)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_tight() {
        let mut last = 0;
        for ns in (0..100_000u64).chain((1..600).map(|i| i * 7_919_113)) {
            let b = bucket(ns);
            assert!(b >= last || ns < 100_000);
            assert!(upper_ns(b) >= ns, "{ns}");
            assert!(upper_ns(b) as f64 <= ns as f64 * 1.0626 + 1.0, "{ns}");
            last = b;
        }
    }

    #[test]
    fn quantiles_and_differences() {
        let mut h = Histogram::default();
        (1..=100).for_each(|i| h.record(i * 1000));
        assert!((49_000..54_000).contains(&(h.quantile(0.5).as_nanos() as u64)));
        assert!((98_000..106_000).contains(&(h.quantile(0.99).as_nanos() as u64)));
        let before = h.clone();
        h.record(5_000_000);
        let d = h.since(&before);
        assert_eq!(d.count(), 1);
        assert!(d.max() >= Duration::from_millis(5) && d.max() < Duration::from_micros(5400));
        assert_eq!(Histogram::default().quantile(0.99), Duration::ZERO);
    }
}
