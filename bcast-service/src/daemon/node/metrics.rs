//! What the daemon tells Prometheus of its node.

use super::Node;
use crate::daemon::clock::Now;
use crate::metrics::{self, Snapshot};

impl Node {
    /// The metrics as they are now, with the times of at most `targets` targets.
    pub fn metrics(&mut self, targets: usize, unsaved_changes: u64, now: Now) -> String {
        self.look(now);
        let now = now.moment;
        let status = self.status(now);
        let known = self.known_targets();
        let told: Vec<_> =
            known.iter().take(targets).filter_map(|t| self.target_status(*t, now)).collect();
        metrics::text(&Snapshot {
            experiments: self.experiments(),
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
