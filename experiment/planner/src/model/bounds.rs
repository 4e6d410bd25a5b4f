//! What no broadcast can beat: no node has all bytes sooner than if they were sent to it alone, by all ways at
//! once (quickest flow, see [`FlowGraph::quickest_s`]). That is the shortest path's latency for a byte, and comes
//! near bytes over max flow for many.
//!
//! J. Edmonds ("Edge-disjoint branchings", 1973): the best rate of any packing of broadcast trees is the
//! least, over all nodes, of the max flow from the root. Nodes and sites limit what they send and
//! receive, so they are split into arcs with capacities of their own.
//!
//! The ACK of a node is taken to go straight to the root, as a leaf's does. A tree can undercut that
//! where the straight way is slower than a detour: an inner node sends no ACK, so a chain that ends
//! elsewhere relays the news. [`Limits::relayed_s`] is the bound for those too; nothing undercuts it.

pub mod binding;

use crate::measurement::Seconds;
use crate::model::max_flow::FlowGraph;
use crate::model::network::{Network, Node};
use crate::trees::shortest_paths::shortest_paths;
use std::collections::HashSet;

/// Receivers whose quickest flow is looked at: those for which latency, ACK and bytes over max flow take longest,
/// of those alike one. The others' bounds are left out, so that it stays cheap for thousands of nodes.
const RECEIVERS: usize = 8;

/// Bounds for one node as receiver.
#[derive(Debug, Clone, Copy)]
struct NodeLimit {
    node: usize,
    reach_s: Seconds,
    direct_ack_s: Seconds,
    relayed_ack_s: Seconds,
    rate: f64,
}

/// The bounds for all broadcasts from one root, for any number of bytes.
#[derive(Debug, Clone)]
pub struct Limits {
    root: usize,
    /// Of nodes that are alike the first.
    receivers: Vec<NodeLimit>,
    graph: FlowGraph,
}

/// The least time from the root's start until it has all ACKs, with ACKs that go straight to the
/// root, for a broadcast of `bytes`.
///
/// # Panics
/// Where `root` is not a node.
pub fn limit_s(network: &Network, root: usize, bytes: u64) -> Seconds {
    Limits::new(network, root).limit_s(bytes)
}

impl Limits {
    /// # Panics
    /// Where `root` is not a node.
    pub fn new(network: &Network, root: usize) -> Self {
        let there = reach_s(network, root, Direction::From);
        let back = reach_s(network, root, Direction::To);
        let mut graph = flow_graph(network);
        let mut kinds = HashSet::new();
        let is_new = |node: &usize| {
            let Node { site, send_rate, receive_rate, .. } = network.nodes()[*node];
            *node != root && kinds.insert((site, receive_rate.to_bits(), send_rate.to_bits()))
        };
        let limit = |node| NodeLimit {
            node,
            reach_s: there[node],
            direct_ack_s: network.latency_s(node, root),
            relayed_ack_s: back[node],
            rate: graph.max_flow(network.len() + root, node),
        };
        let receivers = (0..network.len()).filter(is_new).map(limit).collect();
        Limits { root: network.len() + root, receivers, graph }
    }

    /// See [`limit_s`].
    pub fn limit_s(&self, bytes: u64) -> Seconds {
        self.longest(bytes, |node| node.direct_ack_s)
    }

    /// As [`Limits::limit_s`], with ACKs that take the shortest way back: a bound for every plan.
    pub fn relayed_s(&self, bytes: u64) -> Seconds {
        self.longest(bytes, |node| node.relayed_ack_s)
    }

    /// The least time until every node has all `bytes`, whether the root knows it or not.
    pub fn delivered_s(&self, bytes: u64) -> Seconds {
        self.longest(bytes, |_| 0.0)
    }

    /// Bytes per second that can reach every node at once.
    pub fn rate(&self) -> f64 {
        self.receivers.iter().map(|node| node.rate).fold(f64::INFINITY, f64::min)
    }

    fn longest(&self, bytes: u64, ack_s: impl Fn(&NodeLimit) -> Seconds) -> Seconds {
        self.last(bytes, ack_s).map_or(0.0, |(_, seconds)| seconds)
    }

    /// Who has everything last, and when the root has its ACK; `None` for a node alone.
    fn last(
        &self,
        bytes: u64,
        ack_s: impl Fn(&NodeLimit) -> Seconds,
    ) -> Option<(&NodeLimit, Seconds)> {
        let bytes = bytes as f64;
        let at_once_s = |node: &NodeLimit| node.reach_s + ack_s(node) + bytes / node.rate;
        let mut receivers: Vec<&NodeLimit> = self.receivers.iter().collect();
        receivers.sort_by(|a, b| at_once_s(b).total_cmp(&at_once_s(a)));
        let mut graph = self.graph.clone();
        let quickest = receivers.into_iter().take(RECEIVERS).map(|node| {
            // As much as no bytes at all gets along the shortest path.
            let delivered_s = if bytes > 0.0 {
                graph.quickest_s(self.root, node.node, bytes)
            } else {
                node.reach_s
            };
            (node, delivered_s + ack_s(node))
        });
        quickest.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    From,
    To,
}

/// Seconds on the shortest path from `root` to each node, or back, over other nodes where that is
/// faster. Nodes of one site are alike for this, so it works on sites.
fn reach_s(network: &Network, root: usize, direction: Direction) -> Vec<Seconds> {
    let sites = network.sites().len();
    let home = network.site_of(root);
    let latency = |from: usize, to: usize| match direction {
        Direction::From => network.site_link(from, to).latency_s,
        Direction::To => network.site_link(to, from).latency_s,
    };
    let reach = shortest_paths(sites, home, latency).lengths;
    // A second node of the root's own site may be nearer by a detour over another site.
    let detours = (0..sites).filter(|&site| site != home);
    let around =
        detours.map(|site| reach[site] + latency(site, home)).fold(f64::INFINITY, f64::min);
    let neighbour = latency(home, home).min(around);
    let to_node = |(node, site): (usize, usize)| match site {
        _ if node == root => 0.0,
        site if site == home => neighbour,
        site => reach[site],
    };
    network.nodes().iter().map(|node| node.site).enumerate().map(to_node).collect()
}

/// The first vertices of the sites in [`flow_graph`].
fn blocks(network: &Network) -> [usize; 4] {
    [0, 1, 2, 3].map(|block| 2 * network.len() + block * network.sites().len())
}

/// Vertices: each node as receiver, then as sender; for each site its nodes' way out and in, then its
/// uplink out and in. What single pairs can reach is summed up per pair of sites; a relaxation, so the
/// flow stays an upper bound.
fn flow_graph(network: &Network) -> FlowGraph {
    let (n, sites) = (network.len(), network.sites().len());
    let [out, into, uplink_out, uplink_in] = blocks(network);
    let mut graph = FlowGraph::new(2 * n + 4 * sites);
    let mut count = vec![0usize; sites];
    for (node, description) in network.nodes().iter().enumerate() {
        count[description.site] += 1;
        graph.arc(into + description.site, node, description.receive_rate);
        graph.arc(node, n + node, f64::INFINITY);
        graph.arc(n + node, out + description.site, description.send_rate);
    }
    let rate = |a: usize, b: usize, pairs: usize| {
        let link = network.site_link(a, b);
        link.shared_rate.min(link.pair_rate * pairs as f64)
    };
    let latency_s = |a: usize, b: usize| network.site_link(a, b).latency_s;
    for a in 0..sites {
        if count[a] > 1 {
            let pairs = count[a] * (count[a] - 1);
            graph.long_arc(out + a, into + a, rate(a, a, pairs), latency_s(a, a));
        }
        graph.arc(out + a, uplink_out + a, network.sites()[a].egress_rate);
        graph.arc(uplink_in + a, into + a, network.sites()[a].ingress_rate);
        for b in (0..sites).filter(|&b| b != a) {
            let rate = rate(a, b, count[a] * count[b]);
            graph.long_arc(uplink_out + a, uplink_in + b, rate, latency_s(a, b));
        }
    }
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;

    #[test]
    fn the_mesh_is_as_worked_out_by_hand() {
        let limits = Limits::new(&grids::four_site_mesh(), 0);
        assert!((limits.rate() - 130e6 / 8.0).abs() < 1.0, "{}", limits.rate());
        // a to d over b in 25 ms; its ACK takes 40 ms straight, 25 ms relayed.
        assert!((limits.limit_s(0) - 0.065).abs() < 1e-9);
        assert!((limits.relayed_s(0) - 0.050).abs() < 1e-9);
        assert!((limits.delivered_s(0) - 0.025).abs() < 1e-9);
        // 60 Mbit/s to c over b in 25 ms, 40 over b and d in 42 ms, 20 over d and 10 straight in 40 ms; the ACK
        // another 40 ms.
        let behind_bits = 60e6 * 25e-3 + 40e6 * 42e-3 + 30e6 * 40e-3;
        for bytes in [8u64 << 20, 32 << 20] {
            let by_hand_s = (8.0 * bytes as f64 + behind_bits) / 130e6 + 40e-3;
            assert!((limits.limit_s(bytes) - by_hand_s).abs() < 1e-6, "{}", limits.limit_s(bytes));
        }
    }

    #[test]
    fn a_lone_node_needs_no_time() {
        let limits = Limits::new(&grids::random(1, 1, 0), 0);
        assert_eq!((limits.limit_s(1 << 30), limits.rate()), (0.0, f64::INFINITY));
    }
}
