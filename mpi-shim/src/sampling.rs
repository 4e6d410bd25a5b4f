//! Which of an application's broadcasts the root times with leaf ACKs.
//!
//! Waiting for the ACKs takes about as long as the broadcast itself, so a sample is taken at most
//! once in 64 broadcasts, and only when a hundred times as long has passed since the last one: the
//! samples then cost the root at most 1 % of its time.

use std::time::{Duration, Instant};

const BROADCASTS_PER_SAMPLE: u32 = 64;
const TIME_PER_SAMPLE: u32 = 100;

/// The samples of what one agreement serves.
#[derive(Debug, Default)]
pub struct Sampling {
    since_last: u32,
    last: Option<Instant>,
}

impl Sampling {
    /// Whether to time the broadcast that starts now and is expected to take `expected`. The clock is
    /// read only where it matters.
    pub fn is_due(&mut self, now: impl FnOnce() -> Instant, expected: Duration) -> bool {
        self.since_last = self.since_last.saturating_add(1);
        if self.last.is_some() && self.since_last < BROADCASTS_PER_SAMPLE {
            return false;
        }
        let now = now();
        let last = *self.last.get_or_insert(now);
        let long_ago = now.duration_since(last) >= expected.saturating_mul(TIME_PER_SAMPLE);
        let due = self.since_last >= BROADCASTS_PER_SAMPLE && long_ago;
        if due {
            *self = Sampling { since_last: 0, last: Some(now) };
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cost_at_most_one_percent() {
        let mut sampling = Sampling::default();
        let (mut now, cost) = (Instant::now(), Duration::from_millis(10));
        let start = now;
        let mut samples = 0u32;
        for _ in 0..10_000 {
            now += Duration::from_millis(1);
            samples += u32::from(sampling.is_due(|| now, cost));
        }
        assert!(samples > 0);
        assert!(cost * samples <= (now - start) / 100);
        let mut rare = Sampling::default();
        let due =
            (0..640).filter(|i| rare.is_due(|| start + Duration::from_secs(100 * i), cost)).count();
        assert_eq!(due, 10);
    }
}
