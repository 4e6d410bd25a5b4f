//! Which broadcasts their nodes report on: along trees, and native ones that are announced.
//!
//! A report costs each node a few microseconds after its part is done, and no message of MPI's. The root asks
//! for one at most once in [`LEAST_INTERVAL`], and less often in large groups, since all reports end at one
//! rank of the experiment.

use arborcast_proto::{DeliveryReport, StripeDelivery, Target, monotonic_ns};
use std::time::Duration;

const LEAST_INTERVAL: Duration = Duration::from_millis(200);
const INTERVAL_PER_NODE: Duration = Duration::from_millis(5);

/// The reports of what one agreement serves, as a root asks for them.
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

/// A node that waits for a native broadcast: the root itself may only fill buffers, and go on long before the others have
/// the message.
#[derive(Debug, Clone, Copy)]
pub struct NativeWitness {
    pub target: Target,
    pub bytes: u64,
    pub number: u32,
    /// Of the announcement.
    pub from: u16,
    pub node: u16,
    pub announced_ns: u64,
}

impl NativeWitness {
    /// What it has seen once the message is here.
    pub fn report(self, now_ns: u64) -> DeliveryReport {
        let NativeWitness { target, bytes, number: broadcast, from, node, announced_ns } = self;
        let piece =
            StripeDelivery { stripe: 0, from, bytes, first_ns: announced_ns, last_ns: now_ns };
        DeliveryReport {
            target,
            bytes,
            broadcast,
            is_native: true,
            node,
            listened_late: false,
            acknowledged: false,
            processor_wait_ns: 0,
            stripes: vec![piece],
        }
    }
}
