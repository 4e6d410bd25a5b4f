//! For how long this process has had no part in a broadcast. Where roots take turns, each of them has been the root long
//! ago, and yet there is no more room between broadcasts than where one is the root of all.

use arborcast_proto::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of shorter ones only the root takes note: a clock costs something next to what they take.
const NOTED_BYTES: u64 = 4 << 10;

/// CLOCK_MONOTONIC nanoseconds; 0 before the first. Goes with nothing else, so no ordering is needed.
static LAST_ENDED_NS: AtomicU64 = AtomicU64::new(0);

/// A broadcast has ended here, or all nodes should have it by then.
pub fn note_end(ended_ns: u64) {
    LAST_ENDED_NS.store(ended_ns, Ordering::Relaxed);
}

/// A broadcast of so many bytes has ended here, and this process was not its root.
pub fn note_received(bytes: u64) {
    if bytes >= NOTED_BYTES {
        note_end(monotonic_ns());
    }
}

/// Since the last one has ended here; `None` before the first.
pub fn seconds_since_last(now_ns: u64) -> Option<f64> {
    let last_ns = LAST_ENDED_NS.load(Ordering::Relaxed);
    (last_ns > 0).then(|| now_ns.saturating_sub(last_ns) as f64 / 1e9)
}
