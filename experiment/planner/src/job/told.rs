//! What a rank tells the coordinator of its node's applications: only what has changed.

use super::wire::News;
use crate::search::InUse;
use arborcast_proto::Target;
use arborcast_proto::message::Demand;
use std::collections::HashMap;

/// Of a node's targets, the most recent ones are told.
pub const TOLD_TARGETS: usize = 256;

/// The number of broadcasts of each target, as it was last told.
#[derive(Debug, Default)]
pub struct Told(HashMap<Target, u64>);

impl Told {
    /// Whether programs broadcast from this node.
    pub fn has_demand(&self) -> bool {
        !self.0.is_empty()
    }

    /// What is new, if anything, in a node's whole demand, after the plans that `in_use` says its daemon has for
    /// targets that are.
    pub fn news(
        &mut self,
        mut demand: Vec<Demand>,
        in_use: impl Fn(Target) -> Option<InUse>,
    ) -> Vec<News> {
        demand.sort_by_key(|demand| demand.age);
        demand.truncate(TOLD_TARGETS);
        let now: HashMap<_, _> = demand.iter().map(|d| (d.target, d.broadcasts)).collect();
        let before = std::mem::replace(&mut self.0, now);
        demand.retain(|d| before.get(&d.target) != Some(&d.broadcasts));
        let gone: Vec<_> =
            before.keys().filter(|target| !self.0.contains_key(target)).copied().collect();
        let new = demand.iter().map(|d| d.target).filter(|target| !before.contains_key(target));
        let plans: Vec<_> = new.filter_map(|target| Some((target, in_use(target)?))).collect();
        let plans = (!plans.is_empty()).then_some(News::InUse(plans));
        let is_old = demand.is_empty() && gone.is_empty();
        let demand = (!is_old).then_some(News::Demand { news: demand, gone });
        plans.into_iter().chain(demand).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{Group, NodeName, Plan, SizeClass, Tree};
    use std::time::Duration;

    fn demand(root: u16, broadcasts: u64) -> Demand {
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let target = Target { group: group.hash(), root, class: SizeClass::of(1) };
        let age = Duration::from_secs(root.into());
        Demand {
            target,
            group,
            bytes: 1,
            age,
            broadcasts,
            pause_s: None,
            quiets_s: Vec::new(),
            native_s: None,
        }
    }

    #[test]
    fn only_what_has_changed_is_told() {
        let mut told = Told::default();
        assert!(!told.has_demand());
        let (first, second) = (demand(1, 5), demand(2, 6));
        let both = News::Demand { news: vec![first.clone(), second.clone()], gone: vec![] };
        let none = |_| None;
        assert_eq!(told.news(vec![second.clone(), first.clone()], none), [both]);
        assert_eq!(told.news(vec![first.clone(), second.clone()], none), []);
        let used = demand(2, 7);
        let changed = News::Demand { news: vec![used.clone()], gone: vec![] };
        assert_eq!(told.news(vec![first.clone(), used.clone()], none), [changed]);
        let gone = News::Demand { news: vec![], gone: vec![first.target] };
        assert_eq!(told.news(vec![used], none), [gone]);
        assert!(told.has_demand());
    }

    #[test]
    fn plans_in_use_are_told_once_and_before_the_demand() {
        let mut told = Told::default();
        let plan = Plan::single(Tree::flat(2, 1).unwrap(), 1024).unwrap();
        let plan = InUse { plan, is_measured: true };
        let (planned, other) = (demand(1, 5), demand(0, 5));
        let in_use = |target| (target == planned.target).then(|| plan.clone());
        let plans = News::InUse(vec![(planned.target, plan.clone())]);
        let both = News::Demand { news: vec![other.clone(), planned.clone()], gone: vec![] };
        assert_eq!(told.news(vec![other.clone(), planned.clone()], in_use), [plans, both]);
        let used = demand(1, 6);
        let changed = News::Demand { news: vec![used.clone()], gone: vec![] };
        assert_eq!(told.news(vec![other, used], in_use), [changed]);
    }

    #[test]
    fn the_most_recent_are_told() {
        let mut told = Told::default();
        let all: Vec<_> = (0..1000).rev().map(|root| demand(root, 1)).collect();
        let none = |_| None;
        let told_now = told.news(all.clone(), none);
        let [News::Demand { news, .. }] = &told_now[..] else { panic!("{told_now:?}") };
        assert_eq!(news.len(), TOLD_TARGETS);
        assert!(news.iter().all(|d| usize::from(d.target.root) < TOLD_TARGETS));
        assert_eq!(told.news(all, none), []);
    }
}
