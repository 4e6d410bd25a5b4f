//! Which nodes get programs' broadcasts late, by what all nodes report: nothing is decided by it, it is for who
//! watches the grid.

use super::{Schedule, TELL_EVERY};
use arborcast_proto::message::Times;
use arborcast_proto::{DeliveryReport, Lateness, NodeLateness, Target};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// A node's reports on a target that figures are made of.
const MAX_REPORTS: usize = 15;

/// What one report says.
#[derive(Debug, Clone, Copy)]
struct Delivered {
    took_s: f64,
    processor_wait_s: f64,
    listened_late: bool,
}

/// The targets that were reported on last, most recent first.
#[derive(Debug, Default)]
pub(super) struct LateNodes {
    targets: VecDeque<(Target, BTreeMap<u16, VecDeque<Delivered>>)>,
    /// As many of the first ones have been reported on since this was last told.
    news: usize,
    told: Option<Instant>,
}

impl LateNodes {
    /// The root's own reports, to whom nothing comes, are passed over.
    pub fn note(&mut self, report: &DeliveryReport) {
        let target = report.target;
        if report.node == target.root {
            return;
        }
        let place = self.targets.iter().position(|(known, _)| *known == target);
        let mut nodes = match place {
            Some(place) => self.targets.remove(place).map(|(_, nodes)| nodes).unwrap_or_default(),
            None => BTreeMap::new(),
        };
        let reports = nodes.entry(report.node).or_default();
        if reports.len() >= MAX_REPORTS {
            reports.pop_front();
        }
        reports.push_back(Delivered {
            took_s: report.seconds(),
            processor_wait_s: report.processor_wait_ns as f64 / 1e9,
            listened_late: report.listened_late,
        });
        self.targets.push_front((target, nodes));
        self.targets.truncate(Lateness::MAX_TARGETS);
        let is_told = place.is_none_or(|place| place >= self.news);
        self.news = (self.news + usize::from(is_told)).min(self.targets.len());
    }

    /// What is to be told now: nothing where nothing is new, or something was told a moment ago.
    fn tell(&mut self, now: Instant) -> Vec<Lateness> {
        let is_early = self.told.is_some_and(|told| now - told < TELL_EVERY);
        if is_early || self.news == 0 {
            return Vec::new();
        }
        self.told = Some(now);
        let news = self.targets.iter().take(std::mem::take(&mut self.news));
        news.map(|(target, nodes)| lateness(*target, nodes)).collect()
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    Times::median_of(values).unwrap_or(0.0)
}

fn lateness(target: Target, nodes: &BTreeMap<u16, VecDeque<Delivered>>) -> Lateness {
    let of_node = |(&node, reports): (&u16, &VecDeque<Delivered>)| NodeLateness {
        node,
        reports: reports.len() as u16,
        listened_late: reports.iter().filter(|report| report.listened_late).count() as u16,
        took_s: median(reports.iter().map(|report| report.took_s)),
        processor_wait_s: median(reports.iter().map(|report| report.processor_wait_s)),
    };
    let mut latest: Vec<NodeLateness> = nodes.iter().map(of_node).collect();
    let median_s = median(latest.iter().map(|node| node.took_s));
    latest.sort_by(|a, b| b.took_s.total_cmp(&a.took_s));
    latest.truncate(Lateness::MAX_LATEST);
    Lateness { target, nodes: nodes.len() as u16, median_s, latest }
}

impl Schedule {
    /// Which nodes get programs' broadcasts late, where that is to be told to the daemons now.
    pub fn late_nodes(&mut self, now: Instant) -> Vec<Lateness> {
        self.late_nodes.tell(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{GroupHash, SizeClass, StripeDelivery};

    fn report(root: u16, node: u16, took_ms: u64) -> DeliveryReport {
        let stripe = |stripe, last_ms: u64| StripeDelivery {
            stripe,
            from: root,
            bytes: 1 << 20,
            first_ns: 1_000_000,
            last_ns: (1 + last_ms) * 1_000_000,
        };
        DeliveryReport {
            target: Target { group: GroupHash(1), root, class: SizeClass::of(2 << 20) },
            bytes: 2 << 20,
            broadcast: 1,
            is_native: false,
            node,
            listened_late: took_ms > 100,
            acknowledged: false,
            processor_wait_ns: 2_000_000,
            stripes: vec![stripe(0, took_ms / 2), stripe(1, took_ms)],
        }
    }

    #[test]
    fn the_latest_nodes_are_told_once_in_a_while() {
        let (mut late, start) = (LateNodes::default(), Instant::now());
        assert!(late.tell(start).is_empty());
        for node in 0..100 {
            for took_ms in [1000, 50, 50 + u64::from(node)] {
                late.note(&report(0, node, took_ms));
            }
        }
        let told = late.tell(start);
        let [of_target] = &told[..] else { panic!("{told:?}") };
        assert!(of_target.makes_sense());
        assert_eq!((of_target.nodes, of_target.latest.len()), (99, Lateness::MAX_LATEST));
        assert!((of_target.median_s - 0.1).abs() < 1e-9, "nothing comes to the root");
        let first = NodeLateness {
            node: 99,
            reports: 3,
            listened_late: 2,
            took_s: 0.149,
            processor_wait_s: 0.002,
        };
        assert_eq!(of_target.latest[0], first);

        assert!(late.tell(start + TELL_EVERY).is_empty(), "nothing is new");
        late.note(&report(7, 1, 10));
        late.note(&report(7, 2, 10));
        assert!(late.tell(start + TELL_EVERY / 2).is_empty());
        let told = late.tell(start + TELL_EVERY);
        assert_eq!(told.iter().map(|told| told.target.root).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut late = LateNodes::default();
        for root in 0..100 {
            (0..100).for_each(|_| late.note(&report(root, 200, 1)));
        }
        let told = late.tell(Instant::now());
        assert_eq!(told.len(), Lateness::MAX_TARGETS);
        assert_eq!((told[0].target.root, told[0].latest[0].reports), (99, MAX_REPORTS as u16));
    }
}
