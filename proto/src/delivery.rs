//! What the nodes of a broadcast along trees saw of it: when its pieces came. From this alone the rates of the
//! links in use are known while a program runs, without a message more than the broadcast itself has.

use crate::{MAX_STRIPES, Target};
use serde::{Deserialize, Serialize};

/// A broadcast or a wait that is said to have taken longer is not believed.
const MAX_NS: u64 = 86_400_000_000_000;

/// One node's part of one broadcast. Its times are those of its own CLOCK_MONOTONIC, which the clocks of other
/// nodes differ from by what hardly changes: two broadcasts compare, two nodes don't.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryReport {
    pub target: Target,
    pub bytes: u64,
    /// Tells the broadcast from others of the target; the root draws it, and all nodes say the same.
    pub broadcast: u32,
    /// This node, in the group.
    pub node: u16,
    /// The message was there before this node's program listened.
    pub listened_late: bool,
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

impl DeliveryReport {
    /// Whether a client can have seen this.
    pub fn makes_sense(&self) -> bool {
        let ordered = |stripe: &StripeDelivery| {
            stripe.first_ns <= stripe.last_ns && stripe.last_ns - stripe.first_ns <= MAX_NS
        };
        (1..=MAX_STRIPES).contains(&self.stripes.len())
            && self.stripes.iter().all(ordered)
            && self.processor_wait_ns <= MAX_NS
    }
}

impl StripeDelivery {
    /// From the first piece to the last.
    pub fn seconds(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }
}
