//! How long broadcasts took, as far as a daemon knows: of those along trees a sample, whose root waited for
//! the ACKs of all leaves (at most one in 64, and none while that would cost 1 % of the time), and of native
//! ones what the root was busy, where it told. Of a burst, a slot shows the last 64.

use super::{Exposition, Kind};
use crate::metrics::exposition::number;
use arborcast_proto::segment::Broadcast;

/// Upper ends, in seconds: from a rack to a large message over a slow link.
const BUCKETS_S: [f64; 15] =
    [1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 100.0];
/// Upper ends of the ranges of sizes that are told apart; the last is open above.
const SIZES: [u64; 4] = [1 << 10, 64 << 10, 1 << 20, 16 << 20];

#[derive(Debug, Clone, Copy, Default)]
struct Histogram {
    /// Not cumulative; the last is what is longer than all ends.
    counts: [u64; BUCKETS_S.len() + 1],
    sum_s: f64,
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        self.counts[BUCKETS_S.partition_point(|&end| end < seconds)] += 1;
        self.sum_s += seconds;
    }

    fn tell(&self, out: &mut Exposition, size: (&str, &str)) {
        let mut cumulative = 0;
        for (count, end) in self.counts.iter().zip(BUCKETS_S.iter().chain([&f64::INFINITY])) {
            cumulative += count;
            out.sample_of("_bucket", &[size, ("le", &number(*end))], cumulative as f64);
        }
        out.sample_of("_sum", &[size], self.sum_s);
        out.sample_of("_count", &[size], cumulative as f64);
    }
}

/// Histograms by range of sizes.
#[derive(Debug, Default)]
pub struct Durations {
    along_trees: [Histogram; SIZES.len() + 1],
    native: [Histogram; SIZES.len() + 1],
}

impl Durations {
    pub fn note(&mut self, broadcast: &Broadcast) {
        let size = SIZES.partition_point(|&end| end < broadcast.bytes);
        if let Some(seconds) = broadcast.seconds {
            self.along_trees[size].observe(seconds);
        }
        if let Some(seconds) = broadcast.native_s {
            self.native[size].observe(seconds);
        }
    }

    pub fn tell(&self, out: &mut Exposition) {
        let families = [
            (
                "arborcast_sampled_broadcast_duration_seconds",
                "Sampled broadcasts along trees, until the root has the ACKs of all leaves.",
                &self.along_trees,
            ),
            (
                "arborcast_sampled_native_root_duration_seconds",
                "What roots spent in native broadcasts; the whole of such a broadcast takes no less.",
                &self.native,
            ),
        ];
        for (name, help, histograms) in families {
            out.family(name, Kind::Histogram, help);
            let ends = SIZES.iter().map(|&end| end as f64).chain([f64::INFINITY]);
            for (histogram, end) in histograms.iter().zip(ends) {
                if histogram.counts.iter().any(|&count| count > 0) {
                    histogram.tell(out, ("max_bytes", &number(end)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{GroupHash, SizeClass, Target};

    #[test]
    fn buckets_hold_what_is_no_longer_than_their_end() {
        let mut durations = Durations::default();
        let bytes = 64 << 10;
        let target = Target { group: GroupHash(1), root: 0, class: SizeClass::of(bytes) };
        for seconds in [0.01, 0.010_001, 1e9] {
            let (seconds, pause_s, native_s) = (Some(seconds), None, None);
            durations.note(&Broadcast { target, bytes, seconds, pause_s, quiet_s: None, native_s });
        }
        let mut out = Exposition::default();
        durations.tell(&mut out);
        let text = out.finish();
        let name = "arborcast_sampled_broadcast_duration_seconds";
        for line in [
            "_bucket{max_bytes=\"65536\",le=\"0.005\"} 0",
            "_bucket{max_bytes=\"65536\",le=\"0.01\"} 1",
            "_bucket{max_bytes=\"65536\",le=\"0.025\"} 2",
            "_bucket{max_bytes=\"65536\",le=\"100\"} 2",
            "_bucket{max_bytes=\"65536\",le=\"+Inf\"} 3",
            "_count{max_bytes=\"65536\"} 3",
        ] {
            assert!(text.lines().any(|found| found == format!("{name}{line}")), "{line}: {text}");
        }
        assert_eq!(text.matches("# TYPE").count(), 1, "nothing native was noted");
    }
}
