//! Which plans were in use for a target, and since when.

use super::push_newest;
use crate::knowledge;
use arborcast_proto::message::Finding;
use arborcast_proto::{GroupHash, Target};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Of one target.
const MAX_PLANS: usize = 50;
/// The one whose plan has stood for the longest time goes first.
const MAX_TARGETS: usize = 256;
/// Of all plans; the target with most of them loses its oldest.
const MAX_BYTES: usize = 8 << 20;

/// A plan that is or was in use.
#[derive(Debug, Clone)]
pub struct PlanInUse {
    /// Counted from 1 for each target.
    pub number: u32,
    /// Seconds since 1970; `None` where that was before the daemon's start.
    pub since_unix_s: Option<f64>,
    /// What was known of it last; `None` since an operator has had it forgotten.
    pub finding: Option<Arc<Finding>>,
    /// What it takes up, about.
    bytes: usize,
}

/// Of each target, oldest first; none of them without an entry.
#[derive(Debug, Default)]
pub struct PlanHistory {
    targets: BTreeMap<Target, VecDeque<PlanInUse>>,
}

fn bytes(plans: &VecDeque<PlanInUse>) -> usize {
    plans.iter().map(|plan| plan.bytes).sum()
}

impl PlanInUse {
    /// What was there at the daemon's start comes first.
    fn since_s(&self) -> f64 {
        self.since_unix_s.unwrap_or(0.0)
    }
}

fn is_same_plan(a: &Option<Arc<Finding>>, b: &Option<Arc<Finding>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.plan == b.plan,
        (None, None) => true,
        _ => false,
    }
}

impl PlanHistory {
    /// What is in use for a target now. News of the plan that was in use before are no other plan.
    pub fn note(&mut self, target: Target, finding: Option<Arc<Finding>>, unix_s: Option<f64>) {
        let bytes_of = |finding: &Arc<Finding>| knowledge::encoded_bytes(finding);
        let bytes = 64 + finding.as_ref().map_or(0, bytes_of);
        if finding.is_none() && !self.targets.contains_key(&target) {
            return;
        }
        let plans = self.targets.entry(target).or_default();
        let last = plans.back_mut();
        if let Some(last) = last.filter(|last| is_same_plan(&last.finding, &finding)) {
            (last.finding, last.bytes) = (finding, bytes);
            return;
        }
        let number = plans.back().map_or(0, |last| last.number) + 1;
        let plan = PlanInUse { number, since_unix_s: unix_s, finding, bytes };
        push_newest(plans, plan, MAX_PLANS);
        self.make_room(target);
    }

    fn make_room(&mut self, newest: Target) {
        let since_s = |plans: &VecDeque<PlanInUse>| plans.back().map_or(0.0, PlanInUse::since_s);
        if self.targets.len() > MAX_TARGETS {
            let others = self.targets.iter().filter(|(other, _)| **other != newest);
            let oldest = others.min_by(|a, b| since_s(a.1).total_cmp(&since_s(b.1)));
            if let Some(oldest) = oldest.map(|(oldest, _)| *oldest) {
                self.targets.remove(&oldest);
            }
        }
        while self.targets.values().map(bytes).sum::<usize>() > MAX_BYTES {
            // Of equal ones that whose plan has stood for the longest time.
            let key = |plans: &VecDeque<PlanInUse>| (bytes(plans), -since_s(plans));
            let others = self.targets.iter().filter(|(other, _)| **other != newest);
            let largest = others.map(|(target, plans)| (key(plans), *target));
            let largest = largest.max_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let largest = largest.map_or(newest, |(_, target)| target);
            let Some(plans) = self.targets.get_mut(&largest) else { return };
            plans.pop_front();
            if plans.is_empty() {
                self.targets.remove(&largest);
            }
        }
    }

    /// Oldest first; the last is in use.
    pub fn of(&self, target: Target) -> Vec<PlanInUse> {
        self.targets.get(&target).into_iter().flatten().cloned().collect()
    }

    /// The changes since the daemon's start of a group's targets, oldest first.
    pub fn changes(&self, group: GroupHash) -> Vec<(Target, PlanInUse)> {
        let of_group = self.targets.iter().filter(|(target, _)| target.group == group);
        let changes = of_group.flat_map(|(target, plans)| plans.iter().map(|plan| (*target, plan)));
        let mut changes: Vec<_> = changes
            .filter(|(_, plan)| plan.since_unix_s.is_some())
            .map(|(target, plan)| (target, plan.clone()))
            .collect();
        changes.sort_by(|a, b| a.1.since_s().total_cmp(&b.1.since_s()));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::message::Times;
    use arborcast_proto::{Group, NodeName, Plan, Tree};

    fn finding(nodes: usize, root: u16, segment_bytes: u32, median_s: f64) -> Arc<Finding> {
        let name = |node: usize| NodeName::new(format!("n{node:05}")).unwrap();
        let tree = Tree::flat(nodes, root.into()).unwrap();
        Arc::new(Finding {
            group: Group::new((0..nodes).map(name).collect()).unwrap(),
            root,
            bytes: 1,
            plan: Plan::single(tree, segment_bytes).unwrap(),
            times: Times::predicted(median_s),
            native: None,
            limit_s: None,
            strategy: "test".into(),
            trials: 1,
            search_s: 1.0,
            reason: None,
        })
    }

    fn note(history: &mut PlanHistory, finding: &Arc<Finding>, unix_s: f64) {
        history.note(finding.target(), Some(finding.clone()), Some(unix_s));
    }

    #[test]
    fn a_plan_stands_until_there_is_another_one() {
        let mut history = PlanHistory::default();
        let (first, news) = (finding(4, 0, 1024, 2.0), finding(4, 0, 1024, 1.0));
        let target = first.target();
        history.note(target, Some(first), None);
        note(&mut history, &news, 10.0);
        note(&mut history, &finding(4, 0, 2048, 0.5), 20.0);
        history.note(target, None, Some(30.0));
        let plans = history.of(target);
        let told: Vec<_> = plans.iter().map(|plan| (plan.number, plan.since_unix_s)).collect();
        assert_eq!(told, [(1, None), (2, Some(20.0)), (3, Some(30.0))]);
        let medians: Vec<_> =
            plans.iter().map(|p| p.finding.as_ref().map(|f| f.times.median_s)).collect();
        assert_eq!(medians, [Some(1.0), Some(0.5), None], "the last news of each");
        assert_eq!(history.changes(target.group).len(), 2, "the first was there before");
    }

    #[test]
    fn plans_and_targets_are_bounded() {
        let mut history = PlanHistory::default();
        for number in 0..1000 {
            note(&mut history, &finding(4, 0, 1024 + number, 1.0), number.into());
        }
        let plans = history.of(finding(4, 0, 1024, 1.0).target());
        assert_eq!((plans.len(), plans[MAX_PLANS - 1].number), (MAX_PLANS, 1000));
        for root in 0..300 {
            for number in 0..2 {
                let unix_s = f64::from(root) * 2.0 + f64::from(number);
                note(&mut history, &finding(2000, root, 1024 + number, 1.0), unix_s);
            }
        }
        assert!(history.targets.len() <= MAX_TARGETS, "{}", history.targets.len());
        let all: usize = history.targets.values().map(bytes).sum();
        assert!(all <= MAX_BYTES, "{all}");
        assert!(!history.of(finding(2000, 299, 1024, 1.0).target()).is_empty());
    }
}
