//! Waiting for messages: at first the processor is only offered to others, so that what comes soon is
//! seen at once; whoever waits for long naps.
//!
//! Where ranks outnumber cores, ranks that wait by yielding keep the one that has the next message
//! from running: schedulers grant whole time slices. A nap of a hundredth of the time waited so far
//! costs a message at most that much.
//!
//! Where a node's ranks outnumber its processors, naps get longer: who wakes goes before who yields, so that
//! ranks that look again and again leave nothing to those that the MPI lets wait by yielding.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

const YIELD_FOR: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_micros(100);
const NAP_MAX_CROWDED: Duration = Duration::from_millis(2);

/// How long a rank has been waiting.
#[derive(Debug, Default)]
pub struct Backoff {
    since: Option<Instant>,
    is_crowded: bool,
}

impl Backoff {
    /// For one of this number of ranks on its node.
    pub fn among(ranks: usize) -> Self {
        Backoff { since: None, is_crowded: ranks > processors() }
    }

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
            let most = if self.is_crowded { NAP_MAX_CROWDED } else { NAP_MAX };
            std::thread::sleep((waited / 100).min(most));
        }
    }
}

/// Of the node, whatever part of them the launcher has bound this rank to.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    // SAFETY: takes a number and returns one.
    let online = || unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    *PROCESSORS.get_or_init(|| usize::try_from(online()).unwrap_or(1).max(1))
}
