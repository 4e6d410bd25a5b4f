//! What has happened on a node of late, for operators: plans that changed and why, links that were measured
//! again, experiments that came and went. The newest `MAX_EVENTS` are kept, in memory only.

use arborcast_proto::{Group, LinkMatrix, Target};
use std::collections::VecDeque;
use std::sync::Arc;

const MAX_EVENTS: usize = 200;
/// A rate is another one where it is this many times what it was, or that part of it; less is the scatter of
/// measurements.
const OTHER_RATE: f64 = 1.5;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Daemon,
    Experiment,
    Plan,
    Links,
    /// An application waited in vain, or was waited for in vain.
    Hold,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counted from 1.
    pub number: u64,
    /// Seconds since 1970.
    pub unix_s: f64,
    pub kind: Kind,
    pub target: Option<Target>,
    /// For people.
    pub text: String,
}

/// The newest events.
#[derive(Debug, Default)]
pub struct Events {
    newest_last: VecDeque<Arc<Event>>,
    count: u64,
}

impl Events {
    pub fn add(&mut self, unix_s: f64, kind: Kind, target: Option<Target>, text: String) {
        if self.newest_last.len() >= MAX_EVENTS {
            self.newest_last.pop_front();
        }
        self.count += 1;
        let event = Event { number: self.count, unix_s, kind, target, text };
        self.newest_last.push_back(Arc::new(event));
    }

    pub fn newest_first(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.newest_last.iter().rev()
    }
}

/// What a new measurement of a group's links says beside the one before.
pub fn links_measured(group: &Group, before: Option<&LinkMatrix>, now: &LinkMatrix) -> String {
    let n = group.len();
    let head = format!("the links of {n} nodes are measured");
    let Some(before) = before.filter(|before| before.nodes() == n) else { return head };
    let pairs = (0..n * n).map(|cell| (cell / n, cell % n)).filter(|(from, to)| from != to);
    let changes = pairs.filter_map(|(from, to)| {
        let (was, is) = (before.rate(from, to), now.rate(from, to));
        let factor = if was == is { 1.0 } else { is / was };
        (!(1.0 / OTHER_RATE..OTHER_RATE).contains(&factor)).then_some((from, to, factor.ln().abs()))
    });
    let changes: Vec<_> = changes.collect();
    let Some((from, to, _)) = changes.iter().max_by(|a, b| a.2.total_cmp(&b.2)) else {
        return format!("{head} again; no rate is another one");
    };
    let rate = |links: &LinkMatrix| arborcast_draw::units::rate(links.rate(*from, *to));
    let name = |node: usize| &group.nodes()[node];
    let others = match changes.len() - 1 {
        0 => String::new(),
        others => format!(", and {others} other pairs changed"),
    };
    format!(
        "{head} again: {} → {} from {} to {}{others}",
        name(*from),
        name(*to),
        rate(before),
        rate(now)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::NodeName;

    #[test]
    fn the_newest_are_kept() {
        let mut events = Events::default();
        for number in 1..=1000 {
            events.add(f64::from(number), Kind::Daemon, None, number.to_string());
        }
        let numbers: Vec<u64> = events.newest_first().map(|event| event.number).collect();
        assert_eq!(numbers, (801..=1000).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn the_link_that_changed_most_is_named() {
        let group = Group::new(["a", "b"].map(|n| NodeName::new(n).unwrap()).to_vec()).unwrap();
        let links =
            |ab: f64, ba: f64| LinkMatrix::new(2, vec![0.01; 4], vec![1.0, ab, ba, 1.0]).unwrap();
        let before = links(1e6, f64::INFINITY);
        let told = |now: &LinkMatrix| links_measured(&group, Some(&before), now);
        assert!(!links_measured(&group, None, &before).contains("again"));
        assert!(told(&before).ends_with("no rate is another one"));
        assert!(told(&links(1.2e6, f64::INFINITY)).ends_with("no rate is another one"));
        let fallen = told(&links(0.5e6, f64::INFINITY));
        assert!(fallen.ends_with("a → b from 8.00 Mbit/s to 4.00 Mbit/s"), "{fallen}");
        let both = told(&links(0.5e6, 1e6));
        assert!(both.contains("b → a from unlimited"), "{both}");
        assert!(both.ends_with("and 1 other pairs changed"), "{both}");
    }
}
