//! What the daemon's clocks say. Read where the outside world is; all that decides is handed it.

use crate::arbiter::Moment;
use std::time::{SystemTime, UNIX_EPOCH};

/// One moment by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// By the clock that clients write into their slots: CLOCK_MONOTONIC.
    pub moment: Moment,
    /// Seconds since 1970.
    pub unix_s: f64,
}

impl Now {
    pub fn read() -> Self {
        Now {
            moment: Moment::from_nanos(arborcast_proto::monotonic_ns()),
            unix_s: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
        }
    }
}
