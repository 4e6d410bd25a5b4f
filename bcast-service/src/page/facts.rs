//! What the daemon knows at one moment, as far as the page tells it.

use super::record::{LinkSample, PlanInUse, ProgramFacts, ReceivedFacts};
use crate::events::Event;
use arborcast_proto::message::{Finding, Status, Times, TrialRecord};
use arborcast_proto::{Group, Lateness, LinkMatrix, NodeName, Target};
use std::sync::Arc;

#[derive(Debug)]
pub struct Facts {
    pub status: Status,
    pub started_unix_s: f64,
    /// Clients that are ranks of an experiment job.
    pub experiments: usize,
    pub forgotten_holds: usize,
    pub overdue_stops: u64,
    /// The most recent ones.
    pub targets: Vec<TargetFacts>,
    /// All that are known.
    pub target_count: usize,
    pub links: Vec<LinkFacts>,
    /// Newest first.
    pub events: Vec<Arc<Event>>,
    /// Programs of this node, the last to connect first.
    pub programs: Vec<ProgramFacts>,
    /// How many more there were.
    pub left_out_programs: u64,
    /// The most recent first, each with the names of its parents.
    pub received: Vec<(ReceivedFacts, Vec<String>)>,
    /// The last told of first, each with the names of its latest nodes.
    pub late: Vec<(Lateness, Vec<String>)>,
    /// Nodes that programs use and that no experiment has measured.
    pub unmeasured: Vec<NodeName>,
}

#[derive(Debug)]
pub struct LinkFacts {
    pub group: Group,
    pub links: Arc<LinkMatrix>,
    /// `None` where that was before the daemon's start.
    pub measured_unix_s: Option<f64>,
}

#[derive(Debug)]
pub struct TargetFacts {
    pub target: Target,
    pub nodes: usize,
    pub root: String,
    /// Of the last message.
    pub bytes: Option<u64>,
    pub broadcasts: u64,
    pub used_unix_s: Option<f64>,
    /// What native broadcasts of applications have taken at least.
    pub native_at_least_s: Option<f64>,
    pub in_use: Option<Times>,
    pub finding: Option<Arc<Finding>>,
    pub newest_trial: Option<Arc<TrialRecord>>,
}

/// One target with its trials.
#[derive(Debug)]
pub struct Detail {
    pub facts: TargetFacts,
    pub group: Group,
    pub trials: Vec<Arc<TrialRecord>>,
    /// Oldest first; the last is in use.
    pub plans: Vec<PlanInUse>,
}

/// How a link between two sites was, and which plans of the group's targets came into use meanwhile.
#[derive(Debug)]
pub struct LinkPast {
    /// Oldest first.
    pub samples: Vec<LinkSample>,
    /// Oldest first, with the names of their targets.
    pub plans: Vec<(String, PlanInUse)>,
}
