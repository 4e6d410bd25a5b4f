//! A plan as trees over sites: which site gets the message from which one, and how it spreads inside.
//!
//! Nodes of one site are alike for the wide-area part of a plan, so searching over sites is searching
//! a far smaller space. In each tree another node of a site is the first to receive, so that no single
//! interface carries all trees.

use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::propose::closed_form::{Arrival, ClosedForm, Shares};
use crate::propose::packing::{RatedTree, latency_s};
use crate::trees::shapes::build;
use arborcast_proto::{
    BURST_BYTES, MAX_SEGMENT_BYTES, MAX_STRIPES, MIN_BYTES_PER_S, MIN_SEGMENT_BYTES, Plan, Stripe,
    Striping, Tree,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU64;

/// Several connections from site to site are of use where TCP makes one wait: the number for each of `trees`, no
/// more than the two largest sites have pairs of nodes.
pub(super) fn most_lanes(network: &Network, trees: usize) -> usize {
    if network.pause_s() <= 0.0 {
        return 1;
    }
    let mut sizes: Vec<usize> = network.members().iter().map(Vec::len).collect();
    sizes.sort_unstable_by_key(|&size| Reverse(size));
    let pairs: usize = sizes.iter().take(2).product();
    (MAX_STRIPES / trees).clamp(1, pairs.max(1))
}

/// How the nodes of a site get the message from the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Inside {
    /// This number of chains of equal length: one is best for the rate, many for the latency.
    Chains(usize),
    /// Every node that has the message goes on sending it to others: the optimal tree of the postal model
    /// (A. Bar-Noy, S. Kipnis, "Designing broadcasting algorithms in the postal model", 1992), with the
    /// overheads of LogP (D. Culler et al., 1993).
    Postal,
}

impl Inside {
    /// From the first node of a site of `len` to its last, and how often the first one sends inside, about.
    pub(super) fn hops_and_fan(self, len: usize) -> (usize, usize) {
        let others = len - 1;
        match self {
            Inside::Chains(count) => (others.div_ceil(count.max(1)), count.min(others)),
            Inside::Postal => {
                let rounds = len.next_power_of_two().ilog2() as usize;
                (rounds, rounds)
            }
        }
    }

    /// How often each node of a site of `len`, in order, sends inside it; of a postal tree the first node's is known.
    fn sends(self, len: usize) -> Vec<f64> {
        match self {
            Inside::Chains(count) => {
                let mut children = vec![Vec::new(); len];
                chains(&(0..len).collect::<Vec<_>>(), count, &mut children);
                children.iter().map(|children| children.len() as f64).collect()
            }
            Inside::Postal => {
                let mut sends = vec![1.0; len];
                sends[0] = f64::from(len.ilog2());
                sends
            }
        }
    }
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq)]
pub struct SitePlan {
    pub stripes: Vec<RatedTree>,
    /// How many times each tree is realised, each time over other pairs of nodes between the same sites: as
    /// many connections, whose windows leave at once. No more stripes in all than [`MAX_STRIPES`].
    pub lanes: usize,
    /// Of the message, one for each stripe; their sum is 1.
    pub shares: Vec<f64>,
    pub inside: Inside,
    pub segment_bytes: u32,
    /// The root's pacing rate as a part of the trees' rates, beside what the queues on the way take;
    /// `None`: not paced, as fast as its connections take it.
    pub pacing: Option<f64>,
}

/// A little less than the rates of the trees: one that was measured too high costs far more, once packets
/// are lost, than one that was measured too low.
pub const USUAL_PACING: f64 = 0.96;
/// So that a rate that is just what an interface carries is not taken for more.
const ROUNDING: f64 = 1e-6;
/// What passes in this time the queues on the way take in addition.
const QUEUE_S: Seconds = 0.02;

/// A node that sends at less than this part of its site's median is slow.
const SLOW: f64 = 0.5;

/// The nodes of a network by site: the root first in its own, and slow ones last.
pub struct Members {
    by_site: Vec<Vec<usize>>,
    /// How many of each site are slow, other than the root.
    slow: Vec<usize>,
}

impl Members {
    pub fn new(network: &Network, root: usize) -> Self {
        let mut by_site = network.members();
        let send_rate = |node: usize| network.nodes()[node].send_rate;
        let mut slow = Vec::new();
        for members in &mut by_site {
            let mut rates: Vec<f64> = members.iter().map(|&node| send_rate(node)).collect();
            rates.sort_by(f64::total_cmp);
            let least = SLOW * rates[rates.len() / 2];
            let is_slow = |node: usize| node != root && send_rate(node) < least;
            members.sort_by_key(|&node| (is_slow(node), node != root));
            slow.push(members.iter().filter(|&&node| is_slow(node)).count());
        }
        Members { by_site, slow }
    }

    /// The nodes of `site` that a tree may enter by: all but the root and slow ones.
    fn entries(&self, site: usize, root: usize) -> usize {
        let members = &self.by_site[site];
        members.len() - self.slow[site] - usize::from(members[0] == root)
    }

    /// The nodes of `site` in the order of a stripe: another one first each time, save the root. Slow ones pass on
    /// nothing where that can be: what they send holds up the ACKs of what they receive.
    fn ordered(&self, site: usize, stripe: usize, root: usize) -> Vec<usize> {
        let mut order = self.by_site[site].clone();
        let kept = usize::from(order[0] == root);
        let fast = order.len() - self.slow[site];
        let rest = &mut order[kept..fast];
        if !rest.is_empty() {
            let by = stripe % rest.len();
            rest.rotate_left(by);
        }
        order
    }
}

impl SitePlan {
    /// Shares in which all stripes of a message of `bytes` end at the same time.
    pub fn balanced(
        network: &Network,
        mut stripes: Vec<RatedTree>,
        bytes: u64,
        inside: Inside,
        segment_bytes: u32,
    ) -> Self {
        stripes.truncate(MAX_STRIPES);
        let shares = loop {
            if stripes.len() == 1 {
                break vec![1.0];
            }
            let waits: Vec<Seconds> =
                stripes.iter().map(|tree| latency_s(network, &tree.sites)).collect();
            let end = balanced_end_s(&stripes, &waits, bytes);
            match waits.iter().position(|&wait| wait >= end) {
                Some(too_late) => stripes.remove(too_late),
                None => {
                    let bytes = (bytes as f64).max(1.0);
                    let carried = stripes.iter().zip(&waits);
                    break carried.map(|(tree, wait)| tree.rate * (end - wait) / bytes).collect();
                }
            };
        };
        SitePlan { stripes, lanes: 1, shares, inside, segment_bytes, pacing: Some(USUAL_PACING) }
    }

    /// The trees over nodes.
    pub fn realise(&self, network: &Network, members: &Members, root: usize, bytes: u64) -> Plan {
        let segment_bytes = self.segment_bytes.clamp(MIN_SEGMENT_BYTES, MAX_SEGMENT_BYTES);
        let waits: Vec<Seconds> =
            self.stripes.iter().map(|tree| latency_s(network, &tree.sites)).collect();
        let end = balanced_end_s(&self.stripes, &waits, bytes);
        let lanes = self.lanes.clamp(1, MAX_STRIPES / self.stripes.len());
        let message_bytes = f64::from(segment_bytes).min(bytes as f64);
        let rates = self.arrival_rates(network, root, bytes);
        let mut realise = Realise::new(network, members, root, rates, message_bytes);
        let stripes = (0..self.stripes.len() * lanes).map(|number| {
            let i = number / lanes;
            let (stripe, share) = (&self.stripes[i], self.shares[i] / lanes as f64);
            let carried = bytes as f64 * share;
            realise.message_bytes = carried.min(f64::from(segment_bytes));
            let tree = realise.tree(&stripe.sites, number, lanes, self.inside);
            let sending_s = end - waits[i];
            let pacing_rate =
                self.pacing.map(|part| (part + QUEUE_S / sending_s) * carried / sending_s);
            let allowed = MIN_BYTES_PER_S as f64..u64::MAX as f64;
            let pacing_rate =
                pacing_rate.filter(|rate| carried > BURST_BYTES as f64 && allowed.contains(rate));
            Stripe {
                tree,
                share: (share * 10_000.0).round().clamp(1.0, 65_535.0) as u16,
                bytes_per_s: pacing_rate.and_then(|rate| NonZeroU64::new(rate as u64)),
            }
        });
        let striping = Striping::new(stripes.collect(), segment_bytes);
        let striping = striping.expect("stripes over the same nodes, in range");
        Plan::Trees(if network.loses_bursts(bytes) { striping.tcp_paced() } else { striping })
    }

    /// What the closed form wants to know beside the trees.
    pub(super) fn shape(&self) -> (Inside, u32, usize) {
        (self.inside, self.segment_bytes, self.lanes)
    }

    /// Of each stripe, at each site, in bytes per second.
    fn arrival_rates(&self, network: &Network, root: usize, bytes: u64) -> Vec<Vec<f64>> {
        let model = ClosedForm::new(network, root, bytes, self.shape());
        let mut rates: Vec<Vec<f64>> =
            self.stripes.iter().map(|stripe| vec![stripe.rate; model.sites()]).collect();
        let plan = Shares::new(&self.stripes, &self.shares);
        model.arrivals(&plan, &mut model.scratch(), |arrival| {
            let Arrival { tree, site, slowest_s, .. } = arrival;
            let rate = &mut rates[tree][site];
            *rate = rate.min(bytes as f64 * self.shares[tree] / slowest_s);
        });
        rates
    }
}

/// When stripes of a message of `bytes` end that all end at once, each `waits` late.
fn balanced_end_s(stripes: &[RatedTree], waits: &[Seconds], bytes: u64) -> Seconds {
    let rate: f64 = stripes.iter().map(|tree| tree.rate).sum();
    let late: f64 = stripes.iter().zip(waits).map(|(tree, wait)| tree.rate * wait).sum();
    (bytes as f64 + late) / rate
}

/// Makes trees over nodes of trees over sites, one after the other.
struct Realise<'a> {
    network: &'a Network,
    members: &'a Members,
    root: usize,
    message_bytes: f64,
    /// Of each stripe, at each site.
    rates: Vec<Vec<f64>>,
    /// What each node may send beside one copy of every tree.
    free_rates: Vec<f64>,
}

impl<'a> Realise<'a> {
    fn new(
        network: &'a Network,
        members: &'a Members,
        root: usize,
        rates: Vec<Vec<f64>>,
        message_bytes: f64,
    ) -> Self {
        let of_all = |site: usize| rates.iter().map(|stripe| stripe[site]).sum::<f64>();
        let free_rate = |node: usize| {
            message_bytes / network.send_s(node, message_bytes) - of_all(network.site_of(node))
        };
        let free_rates = (0..network.len()).map(free_rate).collect();
        Realise { network, members, root, message_bytes, rates, free_rates }
    }

    /// The tree of stripe `number`, where each is realised `lanes` times.
    fn tree(&mut self, sites: &Tree, number: usize, lanes: usize, inside: Inside) -> Tree {
        let orders: Vec<Vec<usize>> =
            (0..sites.len()).map(|site| self.members.ordered(site, number, self.root)).collect();
        let rate = |realise: &Self, site: usize| realise.rates[number / lanes][site] / lanes as f64;
        let remote = self.critical_first(sites);
        let mut children = vec![Vec::new(); self.network.len()];
        for (site, order) in orders.iter().enumerate() {
            // Trees that enter a site by a node that another one has entered by come from another node.
            let rounds =
                remote[site].iter().map(|&next| number / self.members.entries(next, self.root));
            let skipped = rounds.min().unwrap_or(0) % order.len();
            for (&node, sends) in order.iter().zip(inside.sends(order.len())) {
                self.free_rates[node] += rate(self, site) * (1.0 - sends);
            }
            for &next in &remote[site] {
                let rate = rate(self, next);
                let sender = self.next_sender(order, skipped, rate);
                self.free_rates[sender] -= rate;
                children[sender].push(orders[next][0]);
            }
            match inside {
                Inside::Chains(count) => chains(order, count, &mut children),
                Inside::Postal => self.postal(site, order, &mut children),
            }
        }
        build(self.root, &children)
    }

    /// Who of a site sends to one more site: the first from `skipped` on whose interface has room, or who lacks
    /// the least.
    fn next_sender(&self, order: &[usize], skipped: usize, rate: f64) -> usize {
        let free = |node: &usize| self.free_rates[*node];
        let has_room = |node: &&usize| free(node) >= rate * (1.0 - ROUNDING);
        // The first of equals.
        let most_free = || order.iter().rev().max_by(|a, b| free(a).total_cmp(&free(b)));
        *order[skipped..].iter().find(has_room).or_else(most_free).unwrap_or(&self.root)
    }

    /// The children of each site, those first from which the last ACK comes latest.
    fn critical_first(&self, sites: &Tree) -> Vec<Vec<usize>> {
        let latency = |a: usize, b: usize| self.network.site_link(a, b).latency_s;
        let mut children = sites.children();
        let mut last_ack = vec![0.0f64; sites.len()];
        let order: Vec<usize> = sites.preorder().collect();
        for &site in order.iter().rev() {
            let mut below: Vec<(f64, usize)> = children[site]
                .iter()
                .map(|&next| (latency(site, next) + last_ack[next], next))
                .collect();
            below.sort_by(|a, b| b.0.total_cmp(&a.0));
            let straight = latency(site, sites.root());
            last_ack[site] = below.first().map_or(straight, |first| first.0.max(straight));
            children[site] = below.into_iter().map(|(_, next)| next).collect();
        }
        children
    }

    fn postal(&self, site: usize, order: &[usize], children: &mut [Vec<usize>]) {
        let latency_s = self.network.site_link(site, site).latency_s;
        let gap = |node: usize| self.network.send_s(node, self.message_bytes);
        let bits = |seconds: f64| seconds.to_bits(); // sorts as the time does
        let mut ready = BinaryHeap::new();
        let first = order[0];
        ready.push(Reverse((bits(gap(first) * (1 + children[first].len()) as f64), first)));
        for &next in &order[1..] {
            let Some(Reverse((time, sender))) = ready.pop() else { break };
            let time = f64::from_bits(time);
            children[sender].push(next);
            ready.push(Reverse((bits(time + gap(sender)), sender)));
            let reached = time + latency_s + self.network.message_s(next);
            ready.push(Reverse((
                bits(reached + gap(next) * (1 + children[next].len()) as f64),
                next,
            )));
        }
    }
}

fn chains(order: &[usize], count: usize, children: &mut [Vec<usize>]) {
    let rest = &order[1..];
    if rest.is_empty() {
        return;
    }
    let length = rest.len().div_ceil(count.clamp(1, rest.len()));
    for chain in rest.chunks(length) {
        children[order[0]].push(chain[0]);
        for pair in chain.windows(2) {
            children[pair[0]].push(pair[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::model::parameter::Parameter;
    use crate::propose::packing::packings;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn wide_area_children_come_first_and_each_tree_enters_elsewhere() {
        let mesh = grids::four_site_mesh();
        let members = Members::new(&mesh, 0);
        let packing = packings(&mesh, 0, 8 << 20).pop().unwrap();
        let plan = SitePlan::balanced(&mesh, packing, 8 << 20, Inside::Chains(1), 32 << 10);
        let plan = plan.realise(&mesh, &members, 0, 8 << 20);
        let stripes = plan.striping().unwrap().stripes();
        assert!(stripes.len() >= 3);
        for (i, stripe) in stripes.iter().enumerate() {
            let parents = stripe.tree.parents();
            for site in 1..4 {
                let entered = (site * 4..site * 4 + 4)
                    .filter(|&node| parents[node].is_some_and(|parent| parent / 4 != site));
                assert_eq!(entered.collect::<Vec<_>>(), [site * 4 + i]);
            }
        }
    }

    #[test]
    fn lanes_go_over_other_pairs_of_nodes_each() {
        let mesh = grids::four_site_mesh();
        let tree = packings(&mesh, 0, 64 << 10)[0].clone();
        let plan = SitePlan::balanced(&mesh, tree, 64 << 10, Inside::Postal, 64 << 10);
        assert_eq!(plan.stripes.len(), 1);
        let pairs_of_two_sites = 4 * 4;
        let plan = SitePlan { lanes: pairs_of_two_sites, ..plan };
        let plan = plan.realise(&mesh, &Members::new(&mesh, 0), 0, 64 << 10);
        let mut pairs = HashSet::new();
        let mut crossings = 0;
        for stripe in plan.striping().unwrap().stripes() {
            stripe.tree.for_each_edge(|from, to| {
                if from / 4 != to / 4 {
                    pairs.insert((from, to));
                    crossings += 1;
                }
            });
        }
        assert_eq!((pairs.len(), crossings), (3 * pairs_of_two_sites, 3 * pairs_of_two_sites));
    }

    #[test]
    fn a_slow_node_passes_on_nothing() {
        let mesh = grids::four_site_mesh();
        let (slow, fast) = (Parameter::Send(5), Parameter::Send(6).of(&mesh));
        let network = slow.set(&mesh, fast / 10.0);
        let tree = packings(&network, 0, 1 << 20)[0].clone();
        for inside in [Inside::Chains(1), Inside::Chains(2)] {
            let plan = SitePlan::balanced(&network, tree.clone(), 1 << 20, inside, 4 << 10);
            let plan = SitePlan { lanes: 8, ..plan };
            let plan = plan.realise(&network, &Members::new(&network, 0), 0, 1 << 20);
            for stripe in plan.striping().unwrap().stripes() {
                stripe.tree.for_each_edge(|from, _| assert_ne!(from, 5));
            }
        }
    }

    proptest! {
        #[test]
        fn every_site_plan_becomes_a_plan(
            sites in 1usize..6, nodes in 1usize..6, seed in 0u64..300, root in 0usize..36,
            chains in 0usize..5, bytes in 0u64..(1 << 26), scattered: bool, lanes in 1usize..20,
        ) {
            let network = if scattered {
                grids::scattered(sites * nodes, seed)
            } else {
                grids::random(sites, nodes, seed)
            };
            let root = root % network.len();
            let members = Members::new(&network, root);
            let inside = if chains == 0 { Inside::Postal } else { Inside::Chains(chains) };
            for packing in packings(&network, root, bytes) {
                let plan = SitePlan::balanced(&network, packing, bytes, inside, 16 << 10);
                let plan = SitePlan { lanes, ..plan };
                prop_assert!((plan.shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
                let plan = plan.realise(&network, &members, root, bytes);
                let striping = plan.striping().unwrap();
                prop_assert_eq!((striping.len(), striping.root()), (network.len(), root));
            }
        }
    }
}
