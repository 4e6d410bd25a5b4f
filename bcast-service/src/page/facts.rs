//! What the daemon knows at one moment, as far as the page tells it.

use crate::events::Event;
use arborcast_proto::message::{Finding, Status, Times, TrialRecord};
use arborcast_proto::{Group, LinkMatrix, Target};
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
}
