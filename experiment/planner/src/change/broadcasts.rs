//! Puts together what the nodes of a broadcast say of it, each by itself and at its own time.

use crate::measurement::Seconds;
use arborcast_proto::{DeliveryReport, StripeDelivery, Striping};
use std::collections::{HashMap, VecDeque};

/// Nodes speak of broadcasts in their order. One of which some nodes have not spoken counts without them once they have
/// spoken of a later one, or once this number of later ones have begun: some may never speak.
const LATER: usize = 3;

/// By node.
pub(super) type Reports = HashMap<usize, DeliveryReport>;

/// The broadcasts of one target of which nodes have spoken, in the order of their first reports.
#[derive(Debug, Default)]
pub(super) struct Broadcasts(VecDeque<(u32, Reports)>);

impl Broadcasts {
    /// Takes in what one of `nodes` saw. What names others is passed over.
    pub fn note(&mut self, report: DeliveryReport, nodes: usize) {
        let is_node = |node: u16| usize::from(node) < nodes;
        if !is_node(report.node) || !report.stripes.iter().all(|stripe| is_node(stripe.from)) {
            return;
        }
        let number = report.broadcast;
        let place = self.0.iter().position(|(known, _)| *known == number);
        let place = place.unwrap_or_else(|| {
            self.0.push_back((number, Reports::new()));
            self.0.len() - 1
        });
        self.0[place].1.insert(report.node.into(), report);
    }

    /// The next broadcast of which all `nodes` have spoken, or that counts without some.
    pub fn next(&mut self, nodes: usize) -> Option<Reports> {
        let has_spoken = |node| self.0.iter().any(|(_, reports)| reports.contains_key(&node));
        let is_due = self.0.len() > LATER || (0..nodes).all(has_spoken);
        if is_due { self.0.pop_front().map(|(_, reports)| reports) } else { None }
    }
}

/// Whether all nodes have spoken, of broadcasts along these trees.
pub(super) fn is_along(plan: &Striping, reports: &Reports) -> bool {
    let parents: Vec<_> = plan.stripes().iter().map(|stripe| stripe.tree.parents()).collect();
    let is_edge = |to: usize, stripe: &StripeDelivery| {
        let parents = parents.get(usize::from(stripe.stripe));
        parents.is_some_and(|parents| parents[to].unwrap_or(to) == usize::from(stripe.from))
    };
    reports.len() == plan.len()
        && reports.iter().all(|(&to, report)| {
            !report.stripes.is_empty() && report.stripes.iter().all(|stripe| is_edge(to, stripe))
        })
}

/// The broadcasts of one target along one plan.
#[derive(Debug)]
pub struct AlongPlan {
    plan: Striping,
    broadcasts: Broadcasts,
}

impl AlongPlan {
    pub fn new(plan: Striping) -> Self {
        AlongPlan { plan, broadcasts: Broadcasts::default() }
    }

    /// Takes in what a node saw; gives what broadcasts along the plan took of which now all nodes have spoken, where their
    /// root waited for the ACKs and no program came late.
    pub fn note(&mut self, report: DeliveryReport) -> Vec<Seconds> {
        self.broadcasts.note(report, self.plan.len());
        let whole = std::iter::from_fn(|| self.broadcasts.next(self.plan.len()));
        let timed = |reports: Reports| {
            let is_told = is_along(&self.plan, &reports)
                && reports.values().all(|report| !report.listened_late);
            let root = reports.get(&self.plan.root()).filter(|root| is_told && root.acknowledged);
            root.map(DeliveryReport::seconds)
        };
        whole.filter_map(timed).collect()
    }
}
