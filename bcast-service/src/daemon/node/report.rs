//! What the daemon says of itself, of demand and of targets. Lists that would be too long for a message
//! are cut to what is most recent.

use super::Node;
use crate::arbiter::Moment;
use crate::demand::Usage;
use crate::knowledge;
use arborcast_proto::Target;
use arborcast_proto::message::{Demand, MAX_BODY_BYTES, Status, TargetStatus};
use tracing::warn;

/// About what a list may take up; the rest of a message is for what is not counted exactly.
const MAX_LIST_BYTES: usize = MAX_BODY_BYTES / 8 * 7;

/// The first of `items` that fit into a message, and how many do not.
fn cut<T>(items: Vec<T>, bytes: impl Fn(&T) -> usize) -> (Vec<T>, usize) {
    let mut sum = 0;
    let fits = |item: &&T| {
        sum += bytes(item);
        sum <= MAX_LIST_BYTES
    };
    let count = items.iter().take_while(fits).count();
    let left_out = items.len() - count;
    let mut items = items;
    items.truncate(count);
    (items, left_out)
}

fn demand_bytes(demand: &Demand) -> usize {
    64 + 8 * demand.quiets_s.len() + knowledge::group_bytes(&demand.group)
}

impl Node {
    /// The most recent demand, as much of it as a message holds.
    pub(super) fn recent_demand(&mut self, now: Moment) -> Vec<Demand> {
        let demand = self.demand.iter().filter_map(|usage| self.demand_of(usage, now));
        let (demand, left_out) = cut(demand.collect(), demand_bytes);
        // The experiment asks four times a second: only news is worth a line.
        if left_out > 0 && left_out != self.demand_left_out {
            let told = demand.len();
            warn!(
                "the experiment is told of the {told} most recent targets; {left_out} do not fit into a message"
            );
        }
        self.demand_left_out = left_out;
        demand
    }

    pub(super) fn demand_of(&self, usage: &Usage, now: Moment) -> Option<Demand> {
        let group = self.knowledge.group(usage.target.group)?;
        // The group may have become another one since.
        (usize::from(usage.target.root) < group.len()).then(|| Demand {
            target: usage.target,
            group: group.clone(),
            bytes: usage.bytes,
            age: now.saturating_sub(usage.last),
            broadcasts: usage.broadcasts,
            pause_s: usage.pause_s(),
            quiets_s: usage.quiets_s(),
            native_s: usage.native_s(),
        })
    }

    /// Every target that was used or searched for, most recent use first.
    pub(super) fn known_targets(&self) -> Vec<Target> {
        let demanded = self.demand.iter().map(|usage| usage.target);
        let known = self.knowledge.targets();
        let others = known.into_iter().filter(|target| self.demand.get(*target).is_none());
        demanded.chain(others).collect()
    }

    /// `None` where the group's nodes are not known.
    pub(super) fn target_status(&self, target: Target, now: Moment) -> Option<TargetStatus> {
        let usage = self.demand.get(target);
        Some(TargetStatus {
            target,
            group: self.knowledge.group(target.group)?.clone(),
            demand: usage.and_then(|usage| self.demand_of(usage, now)),
            finding: self.knowledge.finding(target).cloned(),
            in_use: usage.and_then(Usage::in_use),
        })
    }

    pub(super) fn targets(&self, now: Moment) -> Vec<TargetStatus> {
        let bytes = |status: &TargetStatus| {
            let finding = status.finding.as_ref().map_or(0, knowledge::encoded_bytes);
            let demand = status.demand.as_ref().map_or(0, demand_bytes);
            128 + knowledge::group_bytes(&status.group) + finding + demand
        };
        let known = self.known_targets().into_iter();
        let all = known.filter_map(|target| self.target_status(target, now));
        let (targets, left_out) = cut(all.collect(), bytes);
        if left_out > 0 {
            warn!("{left_out} targets do not fit into a message and are not shown");
        }
        targets
    }

    pub(super) fn status(&self, now: Moment) -> Status {
        let waiting: u64 = self.clients.values().map(|client| client.hold_timeouts).sum();
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
            hold_timeouts: self.hold_timeouts.saturating_add(waiting),
            plans: self.knowledge.plan_count() as u32,
            trials: self.knowledge.trial_count(),
            spending: self.spending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_a_message_is_cut_from_the_end() {
        let items: Vec<usize> = vec![MAX_LIST_BYTES / 4; 10];
        assert_eq!(cut(items, |bytes| *bytes), (vec![MAX_LIST_BYTES / 4; 4], 6));
        assert_eq!(cut(vec![1, 2, 3], |bytes| *bytes), (vec![1, 2, 3], 0));
        assert_eq!(cut(Vec::<usize>::new(), |bytes| *bytes), (vec![], 0));
    }
}
