//! What a rank tells the coordinator of its node's applications: only what has changed.

use super::wire::News;
use arborcast_proto::Target;
use arborcast_proto::message::Demand;
use std::collections::HashMap;

/// Of a node's targets, the most recent ones are told.
pub const TOLD_TARGETS: usize = 256;

/// The number of broadcasts of each target, as it was last told.
#[derive(Debug, Default)]
pub struct Told(HashMap<Target, u64>);

impl Told {
    /// What is new, if anything, in a node's whole demand.
    pub fn news(&mut self, mut demand: Vec<Demand>) -> Option<News> {
        demand.sort_by_key(|demand| demand.age);
        demand.truncate(TOLD_TARGETS);
        let now: HashMap<_, _> = demand.iter().map(|d| (d.target, d.broadcasts)).collect();
        let before = std::mem::replace(&mut self.0, now);
        demand.retain(|d| before.get(&d.target) != Some(&d.broadcasts));
        let gone: Vec<_> =
            before.into_keys().filter(|target| !self.0.contains_key(target)).collect();
        let is_old = demand.is_empty() && gone.is_empty();
        (!is_old).then_some(News::Demand { news: demand, gone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{Group, NodeName, SizeClass};
    use std::time::Duration;

    fn demand(root: u16, broadcasts: u64) -> Demand {
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let target = Target { group: group.hash(), root, class: SizeClass::of(1) };
        let age = Duration::from_secs(root.into());
        Demand { target, group, bytes: 1, age, broadcasts, pause_s: None, native_s: None }
    }

    #[test]
    fn only_what_has_changed_is_told() {
        let mut told = Told::default();
        let (first, second) = (demand(1, 5), demand(2, 6));
        let both = News::Demand { news: vec![first.clone(), second.clone()], gone: vec![] };
        assert_eq!(told.news(vec![second.clone(), first.clone()]), Some(both));
        assert_eq!(told.news(vec![first.clone(), second.clone()]), None);
        let used = demand(2, 7);
        let changed = News::Demand { news: vec![used.clone()], gone: vec![] };
        assert_eq!(told.news(vec![first.clone(), used.clone()]), Some(changed));
        let gone = News::Demand { news: vec![], gone: vec![first.target] };
        assert_eq!(told.news(vec![used]), Some(gone));
    }

    #[test]
    fn the_most_recent_are_told() {
        let mut told = Told::default();
        let all: Vec<_> = (0..1000).rev().map(|root| demand(root, 1)).collect();
        let Some(News::Demand { news, .. }) = told.news(all.clone()) else { panic!("news") };
        assert_eq!(news.len(), TOLD_TARGETS);
        assert!(news.iter().all(|d| usize::from(d.target.root) < TOLD_TARGETS));
        assert_eq!(told.news(all), None);
    }
}
