//! Which broadcasts along trees their nodes report on, and how a node tells its daemon.
//!
//! A report costs each node a few microseconds after its part is done, and no message of MPI's. The root asks
//! for one at most once in [`LEAST_INTERVAL`], and less often in large groups, since all reports end at one
//! rank of the experiment.

use arborcast_proto::monotonic_ns;
use std::time::Duration;

const LEAST_INTERVAL: Duration = Duration::from_millis(200);
const INTERVAL_PER_NODE: Duration = Duration::from_millis(5);

/// The reports of one communicator, as its roots ask for them.
#[derive(Debug, Default)]
pub struct Reporting {
    last_ns: Option<u64>,
}

impl Reporting {
    /// The number under which the broadcast that starts now is to be reported on; 0: not at all.
    pub fn number(&mut self, nodes: usize) -> u32 {
        let now_ns = monotonic_ns();
        let interval = LEAST_INTERVAL.max(INTERVAL_PER_NODE * nodes as u32);
        if self.last_ns.is_some_and(|last_ns| u128::from(now_ns - last_ns) < interval.as_nanos()) {
            return 0;
        }
        self.last_ns = Some(now_ns);
        // Steps of a microsecond; never 0.
        (now_ns >> 10) as u32 | 1
    }
}

/// For how long this thread was ready to run while its processor had other work, since it began; 0 where the
/// system does not say.
pub fn processor_wait_ns() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split(' ').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}
