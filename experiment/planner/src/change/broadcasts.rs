//! Puts together what the nodes of a broadcast say of it, each by itself and at its own time.

use arborcast_proto::DeliveryReport;
use std::collections::{HashMap, VecDeque};

/// A broadcast of which some nodes have not spoken counts without them once this number of later ones have begun.
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
        let (_, first) = self.0.front()?;
        let is_due = first.len() == nodes || self.0.len() > LATER;
        if is_due { self.0.pop_front().map(|(_, reports)| reports) } else { None }
    }
}
