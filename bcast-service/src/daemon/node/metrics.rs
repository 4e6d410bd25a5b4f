//! What the daemon tells Prometheus of its node.

use super::{Node, now};
use crate::metrics::{self, Snapshot};
use arborcast_proto::message::Role;
use std::time::{SystemTime, UNIX_EPOCH};

impl Node {
    /// The metrics as they are now, with the times of at most `targets` targets.
    pub fn metrics(&mut self, targets: usize, unsaved_changes: u64) -> String {
        self.look();
        let now = now();
        let status = self.status();
        let is_experiment = |role: &Role| matches!(role, Role::Experiment { .. });
        let known = self.known_targets();
        let told: Vec<_> =
            known.iter().take(targets).filter_map(|t| self.target_status(*t)).collect();
        metrics::text(&Snapshot {
            experiments: self.clients.values().filter(|client| is_experiment(&client.role)).count(),
            forgotten_holds: self.arbiter.forgotten_holds(now),
            overdue_stops: self.arbiter.overdue_stops(),
            durations: &self.durations,
            targets: &told,
            target_count: known.len(),
            started_unix_s: self.started_unix_s,
            newest_plan_unix_s: self.newest_plan_unix_s,
            unsaved_changes,
            status,
        })
    }
}

/// Seconds since 1970.
pub(super) fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
