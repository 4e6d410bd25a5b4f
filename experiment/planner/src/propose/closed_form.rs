//! The time of a plan as trees over sites, in a closed form that takes microseconds where the simulator takes
//! milliseconds.
//!
//! A site has its part of a tree once the first segment has come (each hop takes it in whole), the most
//! loaded resource on the way there has carried all that passes it, whichever tree it belongs to, the site's
//! nodes have passed it on among themselves, and the ACK is back. Every site goes at the rate of its own way:
//! a slow one does not hold up the others.

use super::packing::RatedTree;
use super::site_plan::Inside;
use crate::measurement::Seconds;
use crate::model::network::Network;

/// Trees by the parents of their sites (the root's site is its own), and the part of the message that each
/// carries.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shares {
    pub parents: Vec<Vec<usize>>,
    pub shares: Vec<f64>,
}

impl Shares {
    pub fn new(stripes: &[RatedTree], shares: &[f64]) -> Self {
        let parents_of = |tree: &RatedTree| {
            let parents = tree.sites.parents();
            parents.iter().enumerate().map(|(site, parent)| parent.unwrap_or(site)).collect()
        };
        Shares { parents: stripes.iter().map(parents_of).collect(), shares: shares.to_vec() }
    }
}

/// What the closed form needs of a network, as seconds for the whole message.
pub(super) struct ClosedForm<'a> {
    network: &'a Network,
    bytes: f64,
    sites: usize,
    home: usize,
    /// The node that stands for each site.
    first: Vec<usize>,
    /// For each pair of sites: the connections over which each tree is realised.
    connections: Vec<f64>,
    /// For each pair of sites: until the first segment is there whole, and what all bytes take.
    hop_s: Vec<Seconds>,
    link_s: Vec<Seconds>,
    /// What all bytes take over a single pair of nodes.
    pair_s: Vec<Seconds>,
    egress_s: Vec<Seconds>,
    ingress_s: Vec<Seconds>,
    /// One copy out of a site's interfaces, all of its nodes taken together.
    send_s: Vec<Seconds>,
    /// Copies sent inside each site.
    inside: Vec<f64>,
    /// What the nodes of a site take by themselves: one copy in, and out of the first as often as the site's shape
    /// asks.
    own_s: Vec<Seconds>,
    root_send_s: Seconds,
    /// One copy out of one node of a site.
    node_s: Vec<Seconds>,
    /// From a site's first node to the root's ACK of its last.
    end_s: Vec<Seconds>,
}

/// Where evaluations write, so that they need no memory of their own.
pub(super) struct Scratch {
    link: Vec<f64>,
    egress: Vec<f64>,
    ingress: Vec<f64>,
    send: Vec<f64>,
    first_child: Vec<usize>,
    next_sibling: Vec<usize>,
    stack: Vec<usize>,
    reach_s: Vec<Seconds>,
    slowest_s: Vec<Seconds>,
}

const NONE: usize = usize::MAX;
/// One copy of all trees, and what rounding makes of it.
const ONE_COPY: f64 = 1.0 + 1e-6;

/// One site in one tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub tree: usize,
    pub site: usize,
    /// What the most loaded resource on the way to its first node takes.
    pub slowest_s: Seconds,
    /// The root has the ACK of all of its nodes.
    pub end_s: Seconds,
}

impl<'a> ClosedForm<'a> {
    /// Of trees that are realised `lanes` times.
    pub fn new(
        network: &'a Network,
        root: usize,
        bytes: u64,
        (inside, segment_bytes, lanes): (Inside, u32, usize),
    ) -> Self {
        let home = network.site_of(root);
        let nodes = network.nodes();
        let members = network.members();
        let sites = members.len();
        let segment = f64::from(segment_bytes).min(bytes as f64);
        let bytes = bytes as f64;
        let pairs = || (0..sites).flat_map(|a| (0..sites).map(move |b| (a, b)));
        let first = |site: usize| members[site][0];
        let hop_s = |(a, b): (usize, usize)| {
            let (from, to) = (first(a), first(b));
            let overhead_s = network.message_s(from) + network.message_s(to);
            network.site_link(a, b).latency_s + overhead_s + segment / network.rate(from, to)
        };
        let segments = if bytes > segment { bytes / segment } else { 1.0 };
        let copy_s = |node: usize| segments * network.send_s(node, segment);
        let all_send_s =
            |site: usize| 1.0 / members[site].iter().map(|&node| 1.0 / copy_s(node)).sum::<f64>();
        let own_s = |site: usize| {
            let others = members[site].iter().filter(|&&node| node != root);
            let receive_s = others.map(|&node| bytes / nodes[node].receive_rate);
            let (_, fan) = inside.hops_and_fan(members[site].len());
            let send_s = fan as f64 * copy_s(first(site));
            receive_s.fold(send_s, f64::max)
        };
        let end_s = |site: usize| {
            let node = first(site);
            let (hops, _) = inside.hops_and_fan(members[site].len());
            let latency_s = network.site_link(site, site).latency_s;
            let hop_s = latency_s + network.send_s(node, segment) + network.message_s(node);
            hops as f64 * hop_s + network.site_link(site, home).latency_s
        };
        let connections =
            |(a, b): (usize, usize)| lanes.min(members[a].len() * members[b].len()) as f64;
        ClosedForm {
            network,
            bytes,
            sites,
            home,
            first: (0..sites).map(first).collect(),
            connections: pairs().map(connections).collect(),
            hop_s: pairs().map(hop_s).collect(),
            link_s: pairs().map(|(a, b)| bytes / network.site_link(a, b).shared_rate).collect(),
            pair_s: pairs().map(|(a, b)| bytes / network.site_link(a, b).pair_rate).collect(),
            egress_s: network.sites().iter().map(|site| bytes / site.egress_rate).collect(),
            ingress_s: network.sites().iter().map(|site| bytes / site.ingress_rate).collect(),
            send_s: (0..sites).map(all_send_s).collect(),
            inside: members.iter().map(|members| (members.len() - 1) as f64).collect(),
            own_s: (0..sites).map(own_s).collect(),
            root_send_s: copy_s(root),
            node_s: (0..sites).map(|site| copy_s(first(site))).collect(),
            end_s: (0..sites).map(end_s).collect(),
        }
    }

    pub fn sites(&self) -> usize {
        self.sites
    }

    pub fn home(&self) -> usize {
        self.home
    }

    pub fn scratch(&self) -> Scratch {
        let sites = self.sites;
        Scratch {
            link: vec![0.0; sites * sites],
            egress: vec![0.0; sites],
            ingress: vec![0.0; sites],
            send: vec![0.0; sites],
            first_child: vec![NONE; sites],
            next_sibling: vec![NONE; sites],
            stack: Vec::with_capacity(sites),
            reach_s: vec![0.0; sites],
            slowest_s: vec![0.0; sites],
        }
    }

    /// When the root has all ACKs.
    pub fn time_s(&self, plan: &Shares, scratch: &mut Scratch) -> Seconds {
        let mut last_s = 0.0;
        self.arrivals(plan, scratch, |arrival| last_s = f64::max(last_s, arrival.end_s));
        last_s
    }

    /// Calls `visit` for every site in every tree, parents before their children.
    pub fn arrivals(&self, plan: &Shares, scratch: &mut Scratch, mut visit: impl FnMut(Arrival)) {
        self.load(plan, scratch);
        for (tree, (parents, &share)) in plan.parents.iter().zip(&plan.shares).enumerate() {
            self.walk((tree, parents, share), scratch, &mut visit);
        }
    }

    /// Adds up the parts of the message that pass each resource.
    fn load(&self, plan: &Shares, scratch: &mut Scratch) {
        let sites = self.sites;
        for parents in &plan.parents {
            for (site, &parent) in parents.iter().enumerate() {
                scratch.link[parent * sites + site] = 0.0;
            }
        }
        scratch.egress.fill(0.0);
        scratch.ingress.fill(0.0);
        scratch.send.copy_from_slice(&self.inside);
        for (parents, &share) in plan.parents.iter().zip(&plan.shares) {
            let edges = parents.iter().enumerate().filter(|(site, parent)| site != *parent);
            for (site, &parent) in edges {
                scratch.link[parent * sites + site] += share;
                scratch.egress[parent] += share;
                scratch.ingress[site] += share;
                scratch.send[parent] += share;
            }
        }
    }

    /// What a part of the message takes between two sites that needs `seconds` where connections don't begin anew:
    /// windows that are doubled in each round trip, until they are as wide as that asks for (slow start,
    /// RFC 5681).
    fn with_start_s(&self, (from, to): (usize, usize), share: f64, seconds: Seconds) -> Seconds {
        if self.network.pause_s() <= 0.0 {
            return seconds;
        }
        let (a, b) = (self.first[from], self.first[to]);
        let bytes = share * self.bytes / self.connections[from * self.sites + to];
        let window_bytes = self.network.window_bytes(a, b, bytes);
        let round_trip_s = self.network.latency_s(a, b) + self.network.latency_s(b, a);
        let wide_enough = (bytes * round_trip_s / (seconds * window_bytes)).log2().ceil();
        let all_sent = (bytes / window_bytes + 1.0).log2().ceil() - 1.0;
        let round_trips = wide_enough.min(all_sent).max(0.0);
        let sent = window_bytes * (round_trips.exp2() - 1.0);
        round_trips * round_trip_s + (bytes - sent) / bytes * seconds
    }

    /// Goes down one tree with the first segment and the most loaded resource so far.
    fn walk(
        &self,
        (tree, parents, share): (usize, &[usize], f64),
        scratch: &mut Scratch,
        visit: &mut impl FnMut(Arrival),
    ) {
        scratch.first_child.fill(NONE);
        for (site, &parent) in parents.iter().enumerate().filter(|(site, parent)| site != *parent) {
            scratch.next_sibling[site] = scratch.first_child[parent];
            scratch.first_child[parent] = site;
        }
        scratch.stack.push(self.home);
        scratch.reach_s[self.home] = 0.0;
        scratch.slowest_s[self.home] = self.root_send_s;
        while let Some(site) = scratch.stack.pop() {
            let (reach_s, slowest_s) = (scratch.reach_s[site], scratch.slowest_s[site]);
            let sent_s = scratch.send[site] * self.send_s[site];
            let here_s = slowest_s.max(sent_s).max(self.own_s[site]);
            visit(Arrival { tree, site, slowest_s, end_s: reach_s + here_s + self.end_s[site] });
            let mut out_s = slowest_s.max(sent_s).max(scratch.egress[site] * self.egress_s[site]);
            // One copy to other sites finds a node that sends none inside; who sends a further one sends both.
            let to_others = scratch.send[site] - self.inside[site];
            if self.inside[site] > 0.0 && to_others > ONE_COPY {
                out_s = out_s.max((1.0 + share) * self.node_s[site]);
            }
            let mut child = scratch.first_child[site];
            while child != NONE {
                let pair = site * self.sites + child;
                let link_s = scratch.link[pair] * self.link_s[pair];
                let in_s = scratch.ingress[child] * self.ingress_s[child];
                let pair_s = share * self.pair_s[pair] / self.connections[pair];
                scratch.slowest_s[child] = self.with_start_s(
                    (site, child),
                    share,
                    out_s.max(link_s).max(pair_s).max(in_s),
                );
                scratch.reach_s[child] = reach_s + self.hop_s[pair];
                scratch.stack.push(child);
                child = scratch.next_sibling[child];
            }
        }
    }
}
