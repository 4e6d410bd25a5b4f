//! What the coordinator and the ranks of an experiment job say to each other.
//!
//! A step is one broadcast or one round of link measurements. A rank that has said `Ready` for a step
//! is bound to take part in it, and must not tell its daemon that it has stopped until the step is
//! over or the coordinator has released it. So no broadcast of ours starts after a rank has told an
//! application to go ahead.
//!
//! ```text
//! coordinator   Prepare(n)        Go(n)              Go(n+1)             Release
//!                  │  ▲             │    ▲              │    ▲              │
//! rank             ▼  │ Ready(n)    ▼    │ Ready(n+1)   ▼    │ Held(n+2)    ▼ ...  Available
//!                                  step n              step n+1
//! ```

use crate::measurement::{Arrival, BroadcastResult, Transfer};
use crate::model::network::Network;
use crate::search::InUse;
use arborcast_proto::message::{Demand, Finding, TrialRecord};
use arborcast_proto::{DeliveryReport, Group, Lateness, Plan, Spending, Target};
use serde::{Deserialize, Serialize};

/// From the coordinator to a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Order {
    /// Say whether you are ready for this step.
    Prepare {
        step: u64,
    },
    /// Carry the step out, then say whether you are ready for the next.
    Go {
        step: u64,
        work: Work,
    },
    /// You are bound to nothing.
    Release,
    Publish(Box<Finding>),
    Record(Box<TrialRecord>),
    Network(Group, Box<Network>),
    Lateness(Vec<Lateness>),
    Spending(Spending),
    /// The job is over.
    End,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Work {
    /// All ranks together make a communicator of these, in this order, to be known by this number.
    Form {
        group: usize,
        members: Vec<i32>,
    },
    /// All ranks together give a communicator back.
    Free {
        group: usize,
    },
    /// Each rank has memory for messages of this size from now on, or says that it cannot. Much of it is its
    /// own only until it is released.
    Reserve {
        bytes: u64,
    },
    Broadcast(BroadcastWork),
    /// Transfers at the same time, between nodes of a group.
    Transfers {
        group: usize,
        transfers: Vec<Transfer>,
        start_after_s: f64,
        /// No rank holds the network meanwhile, nor is ready for the next step thereafter: programs do not wait.
        in_passing: bool,
    },
}

impl Work {
    /// See [`Work::Transfers`].
    pub fn is_in_passing(&self) -> bool {
        matches!(self, Work::Transfers { in_passing: true, .. })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BroadcastWork {
    pub group: usize,
    /// The root's index in the group.
    pub root: usize,
    pub bytes: u64,
    /// `None` for every rank but the root, which alone decides; native is known to all.
    pub plan: Option<Plan>,
    pub native: bool,
    /// The root waits this long before it starts its clock, until all others listen.
    pub start_after_s: f64,
    pub give_up_after_s: Option<f64>,
}

/// From a rank to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum News {
    /// Bound to this step; with the result of the one before.
    Ready { step: u64, result: StepResult },
    /// An application or an operator wants quiet; not bound, and not before `Available`.
    Held { step: u64, result: StepResult },
    /// Not bound to this step, after one in passing; with the result of that.
    Unbound { step: u64, result: StepResult },
    /// Ready for this step no more, if it has not begun: please release.
    Withdraw { step: u64 },
    /// The daemon lets experiments run again: told after `Held` or `Withdraw`, and by nodes whose programs
    /// broadcast after every hold.
    Available,
    /// What this node's applications have asked for since this was last told, and what they no longer
    /// ask for.
    Demand { news: Vec<Demand>, gone: Vec<Target> },
    /// The plans in use of targets whose root this node is, told before its demand for them.
    InUse(Vec<(Target, InUse)>),
    /// What this node's applications saw of broadcasts along trees.
    Deliveries(Vec<DeliveryReport>),
    /// This rank cannot go on; the job must end.
    Failed(String),
}

/// What a rank measured in a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepResult {
    pub broadcast: Option<BroadcastResult>,
    /// The broadcast had come before this rank listened.
    pub listened_late: bool,
    /// Number of the transfer in its step and its seconds, for those that start here.
    pub transfers: Vec<(usize, f64)>,
    /// Of those that start here: see [`crate::measurement::TransferResult::lost`].
    pub lost: f64,
    /// Number of the transfer in its step and what came when, for those that end here.
    pub arrivals: Vec<(usize, Vec<Arrival>)>,
    /// An application asked for the network before the transfers were over.
    pub disturbed: bool,
    /// Since when this rank has known at its end that one asks, in seconds.
    pub waited_s: f64,
    /// This rank has no memory for messages of the size that was asked for.
    pub has_no_room: bool,
}
