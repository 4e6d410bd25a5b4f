//! A group as one of its members sees it, for broadcasts and link transfers alike.

use arborcast_shim::pmpi::Comm;
use arborcast_shim::tree_bcast::Channel;
use std::time::{Duration, Instant};

/// A member's end of a group's communicators.
pub struct Member {
    pub channel: Channel,
    /// Native broadcasts, and link measurements.
    pub other: Comm,
    /// This rank's place in the group.
    pub own: usize,
    /// The rank in the job of each member.
    pub job_ranks: Vec<i32>,
}

/// Between two looks whether what is under way should end.
pub const LOOK_EVERY: Duration = Duration::from_micros(500);

/// True where it is time to look again whether what is under way should end.
pub fn looks() -> impl FnMut() -> bool {
    let mut last = Instant::now();
    move || {
        let now = Instant::now();
        let is_due = now - last >= LOOK_EVERY;
        if is_due {
            last = now;
        }
        is_due
    }
}

/// Nothing where it has not been yet.
pub fn seconds_since(then: Option<Instant>) -> f64 {
    then.map_or(0.0, |then| then.elapsed().as_secs_f64())
}

/// Spends time without giving the processor away for long: what follows is timed.
pub fn wait(seconds: f64) {
    let until = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 10.0));
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left.min(Duration::from_millis(1)));
    }
}
