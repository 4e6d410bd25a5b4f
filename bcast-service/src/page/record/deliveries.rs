//! How the pieces of broadcasts along trees came to this node, as the programs here reported it.
//!
//! The reports of other nodes are with their own daemons and with the experiment, which tells of the latest ones
//! ([`super::GridLateness`]). Clocks of two nodes do not compare, so what is told of a node's parents is told from
//! the first piece that came here, of whatever tree.

use super::push_newest;
use arborcast_proto::message::Times;
use arborcast_proto::{DeliveryReport, Target};
use std::collections::{BTreeMap, VecDeque};

/// The one that was reported on least lately goes first.
const MAX_TARGETS: usize = 32;
/// Reports of one target that figures are made of.
const MAX_REPORTS: usize = 64;

/// The reports of the targets that were reported on last, most recent first.
#[derive(Debug, Default)]
pub struct Deliveries {
    targets: VecDeque<(Target, VecDeque<DeliveryReport>)>,
}

/// What this node received of a target's broadcasts, of the last reports. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceivedFacts {
    pub target: Target,
    pub reports: usize,
    /// The number of them in which the message was there before the program listened.
    pub listened_late: usize,
    /// For how long the processor had other work meanwhile: the median and the most.
    pub processor_wait_s: f64,
    pub most_processor_wait_s: f64,
    /// From the first piece to the last, of all trees.
    pub took_s: f64,
    /// Latest first.
    pub parents: Vec<ParentFacts>,
}

/// What came from one node.
#[derive(Debug, Clone, PartialEq)]
pub struct ParentFacts {
    /// In the group.
    pub node: u16,
    /// Of the target's reports, those in which something came from it.
    pub reports: usize,
    /// The number of them in which its last piece was the last of all, and others came too.
    pub last: usize,
    /// From the first piece of all to its last one, the median.
    pub done_s: f64,
    /// Its last piece after the last of all others, where it was the last: the median.
    pub behind_s: Option<f64>,
    /// From its first piece to its last; the median. `None` where pieces came at once.
    pub bytes_per_s: Option<f64>,
}

impl Deliveries {
    /// A report that makes sense. The root's own, to whom nothing comes, is left out.
    pub fn note(&mut self, report: &DeliveryReport) {
        let target = report.target;
        if report.node == target.root {
            return;
        }
        let place = self.targets.iter().position(|(known, _)| *known == target);
        let known = place.and_then(|place| self.targets.remove(place));
        let (_, mut reports) = known.unwrap_or((target, VecDeque::new()));
        push_newest(&mut reports, report.clone(), MAX_REPORTS);
        self.targets.push_front((target, reports));
        self.targets.truncate(MAX_TARGETS);
    }

    /// Most recent first.
    pub fn facts(&self) -> Vec<ReceivedFacts> {
        self.targets.iter().map(|(target, reports)| received(*target, reports)).collect()
    }
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

/// What one report says of a parent.
struct Came {
    done_s: f64,
    /// Negative where another one came later; `None` where nothing came from others.
    behind_s: Option<f64>,
    bytes_per_s: Option<f64>,
}

fn received(target: Target, reports: &VecDeque<DeliveryReport>) -> ReceivedFacts {
    let mut parents: BTreeMap<u16, Vec<Came>> = BTreeMap::new();
    let mut took_s = Vec::new();
    for report in reports {
        let stripes = &report.stripes;
        let first_ns = stripes.iter().map(|stripe| stripe.first_ns).min().unwrap_or(0);
        took_s.push(report.seconds());
        // A node may be the parent in several trees.
        let mut of_parents = BTreeMap::<u16, Vec<_>>::new();
        stripes.iter().for_each(|stripe| of_parents.entry(stripe.from).or_default().push(stripe));
        for (&from, its) in &of_parents {
            let done_ns = its.iter().map(|stripe| stripe.last_ns).max().unwrap_or(0);
            let begun_ns = its.iter().map(|stripe| stripe.first_ns).min().unwrap_or(0);
            let bytes: u64 = its.iter().map(|stripe| stripe.bytes).sum();
            let others = stripes.iter().filter(|stripe| stripe.from != from);
            let of_others = others.map(|stripe| stripe.last_ns).max();
            let took_s = seconds(begun_ns, done_ns);
            parents.entry(from).or_default().push(Came {
                done_s: seconds(first_ns, done_ns),
                behind_s: of_others
                    .map(|last_ns| seconds(last_ns, done_ns) - seconds(done_ns, last_ns)),
                bytes_per_s: (took_s > 0.0).then(|| bytes as f64 / took_s),
            });
        }
    }
    let parent = |(&node, came): (&u16, &Vec<Came>)| {
        let behind =
            || came.iter().filter_map(|came| came.behind_s).filter(|behind_s| *behind_s > 0.0);
        ParentFacts {
            node,
            reports: came.len(),
            last: behind().count(),
            done_s: Times::median_of(came.iter().map(|came| came.done_s)).unwrap_or(0.0),
            behind_s: Times::median_of(behind()),
            bytes_per_s: Times::median_of(came.iter().filter_map(|came| came.bytes_per_s)),
        }
    };
    let mut parents: Vec<ParentFacts> = parents.iter().map(parent).collect();
    parents.sort_by(|a, b| b.done_s.total_cmp(&a.done_s));
    let waits_s = || reports.iter().map(|report| seconds(0, report.processor_wait_ns));
    ReceivedFacts {
        target,
        reports: reports.len(),
        listened_late: reports.iter().filter(|report| report.listened_late).count(),
        processor_wait_s: Times::median_of(waits_s()).unwrap_or(0.0),
        most_processor_wait_s: waits_s().fold(0.0, f64::max),
        took_s: Times::median_of(took_s).unwrap_or(0.0),
        parents,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{GroupHash, SizeClass, StripeDelivery};

    const MS: u64 = 1_000_000;

    fn report(root: u16, node: u16, late_by_ms: u64, listened_late: bool) -> DeliveryReport {
        let stripe = |stripe: u8, from, last_ms: u64| StripeDelivery {
            stripe,
            from,
            bytes: 1 << 20,
            first_ns: 1000 * MS,
            last_ns: (1000 + last_ms) * MS,
        };
        DeliveryReport {
            target: Target { group: GroupHash(1), root, class: SizeClass::of(2 << 20) },
            bytes: 2 << 20,
            broadcast: 1,
            is_native: false,
            node,
            listened_late,
            acknowledged: false,
            processor_wait_ns: MS,
            stripes: vec![stripe(0, 1, 100), stripe(1, 2, 100 + late_by_ms)],
        }
    }

    #[test]
    fn the_parent_whose_pieces_come_late_is_named() {
        let mut deliveries = Deliveries::default();
        for late in [true, false, false] {
            deliveries.note(&report(0, 3, 50, late));
        }
        deliveries.note(&report(0, 0, 900, true));
        let facts = deliveries.facts();
        let [received] = &facts[..] else { panic!("{facts:?}") };
        assert_eq!((received.reports, received.listened_late), (3, 1), "nothing comes to a root");
        assert_eq!((received.took_s, received.processor_wait_s), (0.15, 0.001));
        let late = ParentFacts {
            node: 2,
            reports: 3,
            last: 3,
            done_s: 0.15,
            behind_s: Some(0.05),
            bytes_per_s: Some((1 << 20) as f64 / 0.15),
        };
        assert_eq!(received.parents[0], late);
        assert_eq!((received.parents[1].last, received.parents[1].behind_s), (0, None));
    }

    #[test]
    fn of_many_targets_the_last_are_kept() {
        let mut deliveries = Deliveries::default();
        for root in 0..100 {
            (0..100).for_each(|_| deliveries.note(&report(root, 200, 0, false)));
        }
        let facts = deliveries.facts();
        assert_eq!((facts.len(), facts[0].target.root), (MAX_TARGETS, 99));
        assert_eq!(facts[0].reports, MAX_REPORTS);
        assert_eq!(facts[0].parents[0].last, 0, "both at once");
    }
}
