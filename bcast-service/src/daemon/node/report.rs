//! What the daemon says of itself, of demand and of targets.

use super::{Node, now};
use crate::arbiter::Moment;
use crate::demand::Usage;
use arborcast_proto::Target;
use arborcast_proto::message::{Demand, Status, TargetStatus};

impl Node {
    pub(super) fn demand_of(&self, usage: &Usage, now: Moment) -> Option<Demand> {
        let group = self.knowledge.group(usage.target.group)?;
        // The root's number came from the desk.
        (usize::from(usage.target.root) < group.len()).then(|| Demand {
            target: usage.target,
            group: group.clone(),
            bytes: usage.bytes,
            age: now.saturating_sub(usage.last),
            broadcasts: usage.broadcasts,
        })
    }

    pub(super) fn targets(&self) -> Vec<TargetStatus> {
        let now = now();
        let demanded = self.demand.iter().map(|usage| usage.target);
        let known = self.knowledge.targets();
        let others = known.into_iter().filter(|target| self.demand.get(*target).is_none());
        let status = |target: Target| {
            let usage = self.demand.get(target);
            Some(TargetStatus {
                target,
                group: self.knowledge.group(target.group)?.clone(),
                demand: usage.and_then(|usage| self.demand_of(usage, now)),
                finding: self.knowledge.finding(target).cloned(),
                in_use: usage.and_then(Usage::in_use),
            })
        };
        demanded.chain(others).filter_map(status).collect()
    }

    pub(super) fn status(&self) -> Status {
        let now = now();
        let waiting: u64 = self.clients.values().map(|client| client.waits_given_up).sum();
        Status {
            node: self.name.clone(),
            site: self.site.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            daemon_pid: std::process::id(),
            uptime: now - self.started,
            experiment: self.arbiter.state(),
            epoch: self.arbiter.epoch(),
            applications: self.arbiter.applications() as u32,
            holds: self.arbiter.holds(now) as u32,
            broadcasts: self.broadcasts,
            waits_given_up: self.waits_given_up.saturating_add(waiting),
            plans: self.knowledge.plan_count() as u32,
            trials: self.knowledge.trial_count(),
        }
    }
}
