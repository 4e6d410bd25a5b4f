//! Whether a processor was there when it was wanted: where a node does something else too, a message may
//! wait for the scheduler, and its time says nothing of the network.

use std::time::{Duration, Instant};

/// So long a thread waits for a processor in passing, and this part of a time is lost among the rest.
const IN_PASSING: Duration = Duration::from_micros(500);
const NEGLIGIBLE: f64 = 0.05;

/// A stretch of this thread's time.
pub struct Stretch {
    began: Instant,
    waited: Option<Duration>,
}

impl Stretch {
    pub fn begin() -> Self {
        Stretch { began: Instant::now(), waited: waited() }
    }

    /// Whether the thread was ready to run for a while since then but had no processor; no, where the
    /// system does not count that.
    pub fn lacked_a_processor(&self) -> bool {
        let Some((before, now)) = self.waited.zip(waited()) else { return false };
        now.saturating_sub(before) > IN_PASSING + self.began.elapsed().mul_f64(NEGLIGIBLE)
    }
}

/// How long this thread has been ready to run without running, in all.
fn waited() -> Option<Duration> {
    // Nanoseconds on a processor, nanoseconds waiting for one, and how often (Linux, proc(5)).
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}
