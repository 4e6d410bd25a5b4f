//! Trees over the sites of a network that together carry as much as they can: a fractional packing of
//! broadcast trees, pruned to the few that a plan may have.
//!
//! J. Edmonds ("Edge-disjoint branchings", 1973) has the limit, N. Garg and J. Könemann ("Faster and
//! simpler algorithms for multicommodity flow and other fractional packing problems", 1998) the idea of
//! pricing what is scarce and asking for the cheapest tree at these prices. Here the prices are exact, the duals of a linear
//! program over the trees found so far, so that a handful of trees is enough.

mod short;

use crate::measurement::Seconds;
use crate::model::linear_program::{Solution, maximise};
use crate::model::network::Network;
use crate::trees::arborescence;
use crate::trees::shortest_paths::shortest_paths;
use arborcast_proto::Tree;
use std::collections::HashMap;

/// A tree over sites and the bytes per second it may carry beside the others.
#[derive(Debug, Clone, PartialEq)]
pub struct RatedTree {
    pub sites: Tree,
    pub rate: f64,
}

/// Trees are asked for until the next one would add less than this fraction, at most this many times.
const WORTH_ADDING: f64 = 1e-3;
const MAX_ROUNDS: usize = 60;
/// Weight of a tree's latency among trees that the prices leave equal.
const LATENCY_WEIGHT: f64 = 1e-3;
/// A further tree has its price in requests: it must save this fraction of the time.
const WORTH_A_STRIPE: f64 = 0.005;
/// A packing of more trees than this carries hardly more.
pub const MAX_TREES: usize = 4;
/// How many of the trees that carry most pruning chooses from.
const POOL: usize = 16;

/// What trees share, named so that two trees that use the same meet in the same row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Resource {
    Link(usize, usize),
    Egress(usize),
    Ingress(usize),
    /// What the interfaces of a site's nodes send together.
    Send(usize),
    /// What every node of a site receives.
    Receive(usize),
    RootSend,
    /// What one pair of nodes can carry limits a tree by itself.
    Pair(usize),
}

/// Packings of one tree, of two and so on, up to `MAX_TREES` or as many as help a message of about
/// `bytes`, some with shorter ways, some with more rate. Never empty; a packing's rates never exceed
/// any capacity.
pub fn packings(network: &Network, root: usize, bytes: u64) -> Vec<Vec<RatedTree>> {
    let mut packer = Packer::new(network, root);
    packer.generate();
    packer.generate_short();
    let mut all: Vec<Vec<RatedTree>> = Vec::new();
    for bytes in [bytes / 4, bytes, bytes.saturating_mul(4)] {
        for packing in packer.prune(bytes) {
            if !all.contains(&packing) {
                all.push(packing);
            }
        }
    }
    all
}

/// What a tree over sites can carry alone.
pub fn alone(network: &Network, root: usize, sites: Tree) -> RatedTree {
    let mut packer = Packer::new(network, root);
    packer.add(sites.clone());
    let unlimited = packer.columns[0].is_empty();
    let rate = if unlimited { f64::INFINITY } else { packer.solve(&[0]).value };
    RatedTree { sites, rate }
}

/// The longest way down a tree over sites and straight back.
pub fn latency_s(network: &Network, sites: &Tree) -> Seconds {
    let mut reach = vec![0.0; sites.len()];
    let mut longest = 0.0;
    sites.for_each_edge(|a, b| {
        reach[b] = reach[a] + network.site_link(a, b).latency_s;
        let back_s = network.site_link(b, sites.root()).latency_s;
        longest = f64::max(longest, reach[b] + back_s);
    });
    longest
}

struct Packer<'a> {
    network: &'a Network,
    root: usize,
    home: usize,
    /// Nodes of each site.
    count: Vec<usize>,
    send_rate: Vec<f64>,
    receive_rate: Vec<f64>,
    longest_latency_s: Seconds,
    trees: Vec<Tree>,
    /// Trees from here on were made for their short ways.
    first_short: usize,
    columns: Vec<Vec<(usize, f64)>>,
    rows: HashMap<Resource, usize>,
    limits: Vec<f64>,
}

impl<'a> Packer<'a> {
    fn new(network: &'a Network, root: usize) -> Self {
        let sites = network.sites().len();
        let mut count = vec![0; sites];
        let mut send_rate = vec![0.0; sites];
        let mut receive_rate = vec![f64::INFINITY; sites];
        for (index, node) in network.nodes().iter().enumerate() {
            count[node.site] += 1;
            send_rate[node.site] += node.send_rate;
            if index != root {
                receive_rate[node.site] = receive_rate[node.site].min(node.receive_rate);
            }
        }
        let mut longest_latency_s = 1e-9;
        for from in 0..sites {
            for to in 0..sites {
                longest_latency_s =
                    f64::max(longest_latency_s, network.site_link(from, to).latency_s);
            }
        }
        Packer {
            network,
            root,
            home: network.site_of(root),
            count,
            send_rate,
            receive_rate,
            longest_latency_s,
            trees: Vec::new(),
            first_short: 0,
            columns: Vec::new(),
            rows: HashMap::new(),
            limits: Vec::new(),
        }
    }

    fn capacity(&self, resource: Resource) -> f64 {
        match resource {
            Resource::Link(a, b) => {
                let link = self.network.site_link(a, b);
                let pairs = (self.count[a] * self.count[b]).min(MAX_TREES);
                link.shared_rate.min(link.pair_rate * pairs as f64)
            }
            Resource::Egress(site) => self.network.sites()[site].egress_rate,
            Resource::Ingress(site) => self.network.sites()[site].ingress_rate,
            Resource::Send(site) => self.send_rate[site],
            Resource::Receive(site) => self.receive_rate[site],
            Resource::RootSend => self.network.nodes()[self.root].send_rate,
            Resource::Pair(tree) => {
                let mut least = f64::INFINITY;
                self.trees[tree].for_each_edge(|a, b| {
                    least = least.min(self.network.site_link(a, b).pair_rate);
                });
                least
            }
        }
    }

    /// How much of each resource a tree takes per byte.
    fn usage(&self, index: usize) -> Vec<(Resource, f64)> {
        let tree = &self.trees[index];
        let mut usage = vec![(Resource::RootSend, 1.0), (Resource::Pair(index), 1.0)];
        for (site, &count) in self.count.iter().enumerate() {
            usage.push((Resource::Receive(site), 1.0));
            usage.push((Resource::Send(site), (count - 1) as f64));
        }
        tree.for_each_edge(|a, b| {
            usage.push((Resource::Link(a, b), 1.0));
            usage.push((Resource::Egress(a), 1.0));
            usage.push((Resource::Ingress(b), 1.0));
            usage.push((Resource::Send(a), 1.0));
        });
        usage.retain(|(_, amount)| *amount > 0.0);
        usage
    }

    /// False where the tree is known already.
    fn add(&mut self, tree: Tree) -> bool {
        if self.trees.contains(&tree) {
            return false;
        }
        self.trees.push(tree);
        let mut column = Vec::new();
        for (resource, amount) in self.usage(self.trees.len() - 1) {
            let capacity = self.capacity(resource);
            if capacity.is_finite() {
                let next = self.limits.len();
                let row = *self.rows.entry(resource).or_insert(next);
                if row == next {
                    self.limits.push(capacity);
                }
                column.push((row, amount));
            }
        }
        self.columns.push(column);
        true
    }

    /// Adds trees until no other one would carry more at the prices of what is scarce.
    fn generate(&mut self) {
        let sites = self.count.len();
        let network = self.network;
        let latency = |a: usize, b: usize| network.site_link(a, b).latency_s;
        let first = arborescence::cheapest(sites, self.home, latency);
        self.add(parents_to_tree(&first));
        self.add(parents_to_tree(&shortest_paths(sites, self.home, latency).parents));
        let slowness = |a: usize, b: usize| 1.0 / self.pair_limit(a, b);
        let widest = parents_to_tree(&arborescence::cheapest(sites, self.home, slowness));
        self.add(widest);
        for _ in 0..MAX_ROUNDS {
            if self.columns.iter().any(Vec::is_empty) {
                return; // nothing limits a tree
            }
            let solution = maximise(&self.columns, &self.limits);
            let next = self.cheapest_tree(&solution);
            if !self.add(next) {
                return;
            }
            // Rows that came with the new tree have no price yet.
            let price = |row: usize| solution.prices.get(row).copied().unwrap_or(0.0);
            let column = &self.columns[self.columns.len() - 1];
            let cost: f64 = column.iter().map(|&(row, amount)| amount * price(row)).sum();
            if cost > 1.0 - WORTH_ADDING {
                return;
            }
        }
    }

    /// What a tree could carry over an edge if it were alone.
    fn pair_limit(&self, a: usize, b: usize) -> f64 {
        let link = self.network.site_link(a, b);
        let uplinks = self.network.sites()[a].egress_rate.min(self.network.sites()[b].ingress_rate);
        link.pair_rate.min(link.shared_rate).min(uplinks).min(1e15)
    }

    fn cheapest_tree(&self, solution: &Solution) -> Tree {
        let price = |resource| self.rows.get(&resource).map_or(0.0, |&r| solution.prices[r]);
        let per_latency = LATENCY_WEIGHT / self.longest_latency_s / self.count.len() as f64;
        let parents = arborescence::cheapest(self.count.len(), self.home, |a, b| {
            price(Resource::Link(a, b))
                + price(Resource::Egress(a))
                + price(Resource::Ingress(b))
                + price(Resource::Send(a))
                + per_latency * self.network.site_link(a, b).latency_s
        });
        parents_to_tree(&parents)
    }

    /// Chooses one tree, then the one that helps it most, and so on.
    fn prune(&self, bytes: u64) -> Vec<Vec<RatedTree>> {
        if self.columns.iter().any(Vec::is_empty) {
            let rated = |sites: &Tree| RatedTree { sites: sites.clone(), rate: f64::INFINITY };
            return vec![vec![rated(&self.trees[0])]];
        }
        let full = maximise(&self.columns, &self.limits);
        let mut pool: Vec<usize> = (0..self.trees.len()).collect();
        pool.sort_by(|&a, &b| full.x[b].total_cmp(&full.x[a]));
        let mut rest = pool.split_off(POOL.min(pool.len()));
        rest.retain(|&tree| tree >= self.first_short);
        pool.extend(rest);
        let reach: Vec<Seconds> =
            self.trees.iter().map(|tree| latency_s(self.network, tree)).collect();
        let mut chosen: Vec<usize> = Vec::new();
        let mut packings: Vec<Vec<RatedTree>> = Vec::new();
        let mut least_s = f64::INFINITY;
        while chosen.len() < MAX_TREES.min(pool.len()) {
            chosen.push(usize::MAX);
            // The new place first, then whether another tree would do better in an earlier one.
            let mut seconds = f64::INFINITY;
            for place in (0..chosen.len()).rev().cycle().take(2 * chosen.len()) {
                for &tree in &pool {
                    let before = std::mem::replace(&mut chosen[place], tree);
                    let others = chosen.iter().filter(|&&other| other == tree).count();
                    let estimate = if others > 1 {
                        f64::INFINITY
                    } else {
                        self.estimate_s(&chosen, &reach, bytes)
                    };
                    if estimate < seconds {
                        seconds = estimate;
                    } else {
                        chosen[place] = before;
                    }
                }
            }
            if chosen.contains(&usize::MAX) {
                break;
            }
            if seconds < least_s * (1.0 - WORTH_A_STRIPE) {
                least_s = seconds;
                let rates = self.solve(&chosen).x;
                let carrying = chosen.iter().zip(rates).filter(|(_, rate)| *rate > 0.0);
                let rated = |(&tree, rate): (&usize, f64)| RatedTree {
                    sites: self.trees[tree].clone(),
                    rate,
                };
                packings.push(carrying.map(rated).collect());
            }
        }
        packings
    }

    /// When trees that all end together would have carried `bytes`.
    fn estimate_s(&self, trees: &[usize], reach: &[Seconds], bytes: u64) -> Seconds {
        let solution = self.solve(trees);
        let late: f64 = trees.iter().zip(&solution.x).map(|(&tree, rate)| reach[tree] * rate).sum();
        (bytes as f64 + late) / solution.value
    }

    fn solve(&self, trees: &[usize]) -> Solution {
        // Only rows that these trees use, so that small programs stay small.
        let mut used: Vec<usize> =
            trees.iter().flat_map(|&tree| self.columns[tree].iter().map(|entry| entry.0)).collect();
        used.sort_unstable();
        used.dedup();
        let place = |row: usize| used.binary_search(&row).unwrap_or(0);
        let columns: Vec<Vec<(usize, f64)>> = trees
            .iter()
            .map(|&tree| self.columns[tree].iter().map(|&(row, a)| (place(row), a)).collect())
            .collect();
        let limits: Vec<f64> = used.iter().map(|&row| self.limits[row]).collect();
        maximise(&columns, &limits)
    }
}

fn parents_to_tree(parents: &[Option<usize>]) -> Tree {
    Tree::from_parents(parents).expect("an arborescence is a tree")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::bounds::Limits;
    use crate::model::grids;
    use proptest::prelude::*;

    fn total(packing: &[RatedTree]) -> f64 {
        packing.iter().map(|tree| tree.rate).sum()
    }

    #[test]
    fn three_trees_carry_all_that_the_mesh_lets_out_of_its_first_site() {
        let mesh = grids::four_site_mesh();
        let packings = packings(&mesh, 0, 32 << 20);
        let rates: Vec<f64> = packings.iter().map(|p| total(p) * 8e-6).collect();
        let single = packings.iter().zip(&rates).filter(|(packing, _)| packing.len() == 1);
        assert!(single.map(|(_, rate)| *rate).fold(0.0, f64::max) > 59.0, "{rates:?}");
        let most = rates.iter().copied().fold(0.0, f64::max);
        assert!((most - 130.0).abs() < 0.01, "{rates:?}");
    }

    proptest! {
        #[test]
        fn a_packing_exceeds_no_capacity_and_no_limit(
            sites in 1usize..7, per_site in 1usize..4, seed in 0u64..500, scattered: bool
        ) {
            let network = if scattered {
                grids::scattered(sites, seed)
            } else {
                grids::random(sites, per_site, seed)
            };
            let limit = Limits::new(&network, 0).rate();
            let members = network.members();
            for packing in packings(&network, 0, 1 << 30) {
                prop_assert!(!packing.is_empty() && packing.len() <= MAX_TREES);
                if packing.iter().any(|tree| tree.rate.is_infinite()) {
                    prop_assert_eq!(sites, 1);
                    continue;
                }
                prop_assert!(total(&packing) <= limit * (1.0 + 1e-6));
                let within = |used: f64, capacity: f64| used <= capacity * (1.0 + 1e-6);
                for (a, nodes) in members.iter().enumerate() {
                    let (mut out, mut into) = (0.0, 0.0);
                    for b in (0..sites).filter(|&b| b != a) {
                        let over = |from: usize, to: usize| -> f64 {
                            let uses = |t: &&RatedTree| t.sites.parents()[to] == Some(from);
                            packing.iter().filter(uses).map(|t| t.rate).sum()
                        };
                        let link = network.site_link(a, b);
                        prop_assert!(within(over(a, b), link.shared_rate));
                        for tree in packing.iter().filter(|t| t.sites.parents()[b] == Some(a)) {
                            prop_assert!(within(tree.rate, link.pair_rate));
                        }
                        out += over(a, b);
                        into += over(b, a);
                    }
                    prop_assert!(within(out, network.sites()[a].egress_rate));
                    prop_assert!(within(into, network.sites()[a].ingress_rate));
                    let send: f64 = nodes.iter().map(|&n| network.nodes()[n].send_rate).sum();
                    let inside = total(&packing) * (nodes.len() - 1) as f64;
                    prop_assert!(within(out + inside, send));
                }
            }
        }
    }
}
