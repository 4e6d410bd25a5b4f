//! What the nodes of a broadcast saw of it: along trees, when its pieces came. From this alone the rates of the links in
//! use are known while a program runs, without a message more than the broadcast itself has. And native ones, of which
//! roots may only have filled buffers when they go on, show what they take.

use crate::{MAX_STRIPES, Target};
use serde::{Deserialize, Serialize};

/// A broadcast or a wait that is said to have taken longer is not believed.
const MAX_NS: u64 = 86_400_000_000_000;
/// Nor is a larger message; all that nodes say together can be added up.
const MAX_BYTES: u64 = 1 << 48;

/// One node's part of one broadcast. Its times are those of its own CLOCK_MONOTONIC, which the clocks of other
/// nodes differ from by what hardly changes: two broadcasts compare, two nodes don't.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryReport {
    pub target: Target,
    pub bytes: u64,
    /// Tells the broadcast from others of the target; the root draws it, and all nodes say the same.
    pub broadcast: u32,
    /// The MPI carried it: its one piece took from when it was announced here until all of it had come.
    pub is_native: bool,
    /// This node, in the group.
    pub node: u16,
    /// The message was there before this node's program listened.
    pub listened_late: bool,
    /// At the root: it waited for the ACKs of all leaves, and its times are until then.
    pub acknowledged: bool,
    /// For how long the node's processor had other work since the first piece, as far as the system says.
    pub processor_wait_ns: u64,
    /// At the root one for all trees, from itself.
    pub stripes: Vec<StripeDelivery>,
}

/// One tree's share of the message, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StripeDelivery {
    pub stripe: u8,
    /// The node that it came from.
    pub from: u16,
    pub bytes: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// How a target's broadcasts along trees came to its nodes of late, as the nodes' reports tell the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    pub target: Target,
    /// Nodes that have reported.
    pub nodes: u16,
    /// From the first piece that came to a node to the last, in seconds: the median of all these nodes.
    pub median_s: f64,
    /// Where that takes longest, the latest first.
    pub latest: Vec<NodeLateness>,
}

/// One node's last reports on a target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodeLateness {
    /// In the group.
    pub node: u16,
    pub reports: u16,
    /// The number of them in which the message was there before the node's program listened.
    pub listened_late: u16,
    /// From the first piece to the last, in seconds; the median.
    pub took_s: f64,
    /// For how long the node's processor had other work meanwhile, in seconds; the median.
    pub processor_wait_s: f64,
}

impl Lateness {
    /// Nodes that are named of a target.
    pub const MAX_LATEST: usize = 16;
    /// Targets that are told of at once.
    pub const MAX_TARGETS: usize = 8;

    /// Whether an experiment can have found this.
    pub fn makes_sense(&self) -> bool {
        let is_time = |seconds: f64| seconds >= 0.0 && seconds.is_finite();
        let is_right = |node: &NodeLateness| {
            is_time(node.took_s)
                && is_time(node.processor_wait_s)
                && node.listened_late <= node.reports
        };
        is_time(self.median_s)
            && self.latest.len() <= Self::MAX_LATEST.min(self.nodes.into())
            && self.latest.iter().all(is_right)
    }
}

impl DeliveryReport {
    /// From the first piece to the last, of all trees, in seconds.
    pub fn seconds(&self) -> f64 {
        let first_ns = self.stripes.iter().map(|stripe| stripe.first_ns).min().unwrap_or(0);
        let last_ns = self.stripes.iter().map(|stripe| stripe.last_ns).max().unwrap_or(0);
        last_ns.saturating_sub(first_ns) as f64 / 1e9
    }

    /// Whether a client can have seen this.
    pub fn makes_sense(&self) -> bool {
        let possible = |stripe: &StripeDelivery| {
            let is_ordered = stripe.first_ns <= stripe.last_ns;
            let is_short = is_ordered && stripe.last_ns - stripe.first_ns <= MAX_NS;
            is_short && stripe.bytes <= self.bytes
        };
        self.bytes <= MAX_BYTES
            && (1..=MAX_STRIPES).contains(&self.stripes.len())
            && self.stripes.iter().all(possible)
            && self.processor_wait_ns <= MAX_NS
    }
}

impl StripeDelivery {
    /// From the first piece to the last.
    pub fn seconds(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }
}
