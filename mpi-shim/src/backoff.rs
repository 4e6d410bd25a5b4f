//! Waiting for messages: at first the processor is only offered to others, so that what comes soon is
//! seen at once; whoever waits for long naps.
//!
//! Where ranks outnumber cores, ranks that wait by yielding keep the one that has the next message
//! from running: schedulers grant whole time slices. A nap of a hundredth of the time waited so far
//! costs a message at most that much.

use std::time::{Duration, Instant};

const YIELD_FOR: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_micros(100);

/// How long a rank has been waiting.
#[derive(Debug, Default)]
pub struct Backoff {
    since: Option<Instant>,
}

impl Backoff {
    /// After polling for what has completed: where something had come, the next wait is a new one;
    /// else lets others run for a moment.
    pub fn after_poll(&mut self, something_came: bool) {
        if something_came {
            self.since = None;
            return;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited < YIELD_FOR {
            std::thread::yield_now();
        } else {
            std::thread::sleep((waited / 100).min(NAP_MAX));
        }
    }
}
