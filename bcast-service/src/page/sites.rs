//! A group's links and trees by site, so that a thousand nodes stay something to look at.
//!
//! The daemon knows the site of its own node only: nodes that are near by latency are taken for a site, as
//! `arborcast plan` does.

use arborcast_planner::model::assumed_sites;
use arborcast_proto::{Group, LinkMatrix, Plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The largest ones are shown; a browser draws as many squared.
const MAX_SITES: usize = 64;
/// Members of a site that are named.
const MAX_NAMES: usize = 64;

/// The sites of a group.
#[derive(Debug)]
pub struct Sites {
    /// Of each node.
    pub site_of: Vec<usize>,
    members: Vec<Vec<usize>>,
    names: Vec<String>,
    /// Where the site stands among those that are shown.
    place: Vec<Option<usize>>,
}

impl Sites {
    pub fn of_links(group: &Group, links: &LinkMatrix) -> Self {
        Self::new(group, assumed_sites::sites(links))
    }

    /// Where no links are known, each node for itself.
    pub fn of_nodes(group: &Group) -> Self {
        Self::new(group, (0..group.len()).collect())
    }

    fn new(group: &Group, site_of: Vec<usize>) -> Self {
        let count = site_of.iter().max().map_or(0, |last| last + 1);
        let mut members = vec![Vec::new(); count];
        site_of.iter().enumerate().for_each(|(node, &site)| members[site].push(node));
        let node = |node: usize| &group.nodes()[node];
        let name = |members: &Vec<usize>| match members[..] {
            [] => String::new(),
            [one] => node(one).to_string(),
            [first, .., last] => format!("{}…{}", node(first), node(last)),
        };
        let names = members.iter().map(name).collect();
        let mut largest: Vec<usize> = (0..count).collect();
        largest.sort_by_key(|&site| std::cmp::Reverse(members[site].len()));
        largest.truncate(MAX_SITES);
        largest.sort_unstable();
        let place = (0..count).map(|site| largest.binary_search(&site).ok()).collect();
        Sites { site_of, members, names, place }
    }

    fn shown(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.members.len()).filter(|&site| self.place[site].is_some())
    }

    pub fn place_of(&self, node: usize) -> Option<usize> {
        self.place[self.site_of[node]]
    }

    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// `sites` in the order of their places, and how many of them, with how many nodes, are left out.
    pub fn json(&self, group: &Group) -> Value {
        let site = |site: usize| {
            let names: Vec<_> = self.members[site]
                .iter()
                .take(MAX_NAMES)
                .map(|&node| &group.nodes()[node])
                .collect();
            json!({
                "name": self.names[site], "nodes": self.members[site].len(), "members": names,
            })
        };
        let shown: usize = self.shown().map(|site| self.members[site].len()).sum();
        json!({
            "sites": self.shown().map(site).collect::<Vec<_>>(),
            "left_out_sites": self.count() - self.shown().count(),
            "left_out_nodes": self.site_of.len() - shown,
        })
    }

    /// The pairs of nodes from one site to another one, or of one site; `None` where there is no such pair.
    pub fn pairs(&self, links: &LinkMatrix, a: usize, b: usize) -> Option<Pairs> {
        let to = |&from: &usize| self.members[b].iter().map(move |&to| (from, to));
        let pairs = self.members[a].iter().flat_map(to).filter(|(from, to)| from != to);
        let mut all: Option<Pairs> = None;
        let (mut sum_s, mut count) = (0.0, 0.0);
        for (from, to) in pairs {
            let (rate, latency_s) = (links.rate(from, to), links.latency_s(from, to));
            sum_s += latency_s;
            count += 1.0;
            let first = || Pairs::of_one((from, to), rate, latency_s);
            all.get_or_insert_with(first).add((from, to), rate, latency_s);
        }
        all.map(|all| Pairs { latency_s: sum_s / count, ..all })
    }

    /// The sites that are shown, in the order of their places.
    pub fn shown_sites(&self) -> Vec<usize> {
        self.shown().collect()
    }

    /// From each shown site to each: `[fastest, slowest pair in B/s, mean, least, greatest latency in s, the
    /// nodes of the slowest pair]`. A rate that nothing limits is null, and so is what has no pair.
    pub fn cells(&self, group: &Group, links: &LinkMatrix) -> Value {
        let cell = |a: usize, b: usize| {
            let Pairs { fastest, slowest, slowest_pair, latency_s, least_s, greatest_s } =
                self.pairs(links, a, b)?;
            let (from, to) = slowest_pair;
            let name = |node: usize| &group.nodes()[node];
            Some(json!([
                short(fastest),
                short(slowest),
                short(latency_s),
                short(least_s),
                short(greatest_s),
                name(from),
                name(to),
            ]))
        };
        let row = |a: usize| self.shown().map(|b| cell(a, b)).collect::<Vec<_>>();
        self.shown().map(row).collect::<Vec<_>>().into()
    }

    /// What the trees of a plan send from site to site.
    pub fn flows(&self, plan: &Plan, links: Option<&LinkMatrix>) -> Value {
        let Some(striping) = plan.striping() else { return json!([]) };
        let shares: f64 = striping.stripes().iter().map(|stripe| f64::from(stripe.share)).sum();
        let mut flows: BTreeMap<(usize, usize), Flow> = BTreeMap::new();
        for (number, stripe) in striping.stripes().iter().enumerate() {
            for (node, parent) in stripe.tree.parents().into_iter().enumerate() {
                let Some(parent) = parent else { continue };
                let sites = (self.site_of[parent], self.site_of[node]);
                let (from, to) = (self.place[sites.0], self.place[sites.1]);
                let (Some(from), Some(to)) = (from, to) else { continue };
                if from == to {
                    continue;
                }
                let flow = flows.entry((from, to)).or_default();
                flow.share += f64::from(stripe.share) / shares;
                flow.edges += 1;
                if flow.trees.last() != Some(&number) {
                    flow.trees.push(number);
                }
                match stripe.bytes_per_s {
                    Some(rate) => flow.bytes_per_s += rate.get() as f64,
                    None => flow.is_unpaced = true,
                }
                let rate = links.map(|links| links.rate(parent, node));
                flow.capacity = flow.capacity.max(rate.unwrap_or(0.0));
            }
        }
        let flow = |((from, to), flow): (&(usize, usize), &Flow)| {
            let paced = (!flow.is_unpaced).then_some(flow.bytes_per_s);
            let known = flow.capacity > 0.0 && flow.capacity.is_finite();
            let part = paced.filter(|_| known).map(|rate| short(rate / flow.capacity));
            json!({
                "from": from, "to": to, "share": short(flow.share), "edges": flow.edges,
                "trees": flow.trees, "bytes_per_s": paced, "part": part,
            })
        };
        flows.iter().map(flow).collect()
    }
}

/// What all pairs of nodes of two sites have together, in one direction. Rates in bytes per second.
#[derive(Debug, Clone, Copy)]
pub struct Pairs {
    pub fastest: f64,
    pub slowest: f64,
    pub slowest_pair: (usize, usize),
    /// One way, the mean.
    pub latency_s: f64,
    pub least_s: f64,
    pub greatest_s: f64,
}

impl Pairs {
    fn of_one(pair: (usize, usize), rate: f64, latency_s: f64) -> Self {
        Pairs {
            fastest: rate,
            slowest: rate,
            slowest_pair: pair,
            latency_s,
            least_s: latency_s,
            greatest_s: latency_s,
        }
    }

    fn add(&mut self, pair: (usize, usize), rate: f64, latency_s: f64) {
        if rate < self.slowest {
            (self.slowest, self.slowest_pair) = (rate, pair);
        }
        self.fastest = self.fastest.max(rate);
        self.least_s = self.least_s.min(latency_s);
        self.greatest_s = self.greatest_s.max(latency_s);
    }
}

/// What goes from one site to another one.
#[derive(Default)]
struct Flow {
    /// Of the message; more than 1 where it goes there several times.
    share: f64,
    edges: usize,
    /// By their numbers, in order.
    trees: Vec<usize>,
    bytes_per_s: f64,
    is_unpaced: bool,
    /// The fastest of the pairs that are used.
    capacity: f64,
}

/// To four digits: more are noise, and a browser has to take them all. Not finite: null.
pub fn short(value: f64) -> Value {
    // Divisions would leave more digits than they take.
    let rounded = format!("{value:.3e}").parse::<f64>().ok();
    rounded.filter(|value| value.is_finite()).map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_planner::model::grids;
    use arborcast_proto::{NodeName, Stripe, Striping, Tree};

    fn group(n: usize) -> Group {
        let name = |node: usize| NodeName::new(format!("n{node:04}")).unwrap();
        Group::new((0..n).map(name).collect()).unwrap()
    }

    #[test]
    fn the_mesh_is_four_sites_with_its_rates() {
        let links = grids::four_site_mesh().to_links();
        let group = group(16);
        let sites = Sites::of_links(&group, &links);
        let shown = sites.json(&group);
        assert_eq!(shown["sites"][1]["name"], "n0004…n0007");
        assert_eq!(
            (shown["sites"].as_array().unwrap().len(), &shown["left_out_nodes"]),
            (4, &json!(0))
        );
        let cells = sites.cells(&group, &links);
        assert_eq!(cells[0][1][0], 12.5e6, "100 Mbit/s");
        assert_eq!(cells[3][0][0], 1.25e6, "10 Mbit/s");
        assert_eq!(cells[0][1][2], 0.01, "10 ms");
    }

    #[test]
    fn trees_are_summed_up_from_site_to_site() {
        let links = grids::four_site_mesh().to_links();
        let sites = Sites::of_links(&group(16), &links);
        // Along the chain 0, 1, …, 15, and from 0 to all.
        let chain =
            Tree::from_parents(&(0..16usize).map(|node| node.checked_sub(1)).collect::<Vec<_>>())
                .unwrap();
        let mut paced = Stripe::new(chain, 3);
        paced.bytes_per_s = std::num::NonZeroU64::new(1_250_000);
        let plan = Plan::Trees(Striping::new(vec![paced], 4096).unwrap());
        let flows = sites.flows(&plan, Some(&links));
        let ends: Vec<_> =
            flows.as_array().unwrap().iter().map(|f| (&f["from"], &f["to"])).collect();
        assert_eq!(ends, [(&json!(0), &json!(1)), (&json!(1), &json!(2)), (&json!(2), &json!(3))]);
        assert_eq!((&flows[0]["share"], &flows[0]["part"]), (&json!(1.0), &json!(0.1)));
        let flat = Plan::single(Tree::flat(16, 0).unwrap(), 4096).unwrap();
        let flows = sites.flows(&flat, Some(&links));
        assert_eq!((&flows[0]["edges"], &flows[0]["share"]), (&json!(4), &json!(4.0)));
        assert_eq!(flows[0]["part"], Value::Null, "not paced");
    }

    #[test]
    fn of_many_sites_the_largest_are_shown() {
        // 100 nodes alone, far from one another, and 3 together.
        let n = 103;
        let latency = |a: usize, b: usize| if a.min(b) >= 100 { 1e-4 } else { 0.05 };
        let latencies = (0..n * n).map(|cell| latency(cell / n, cell % n)).collect();
        let links = LinkMatrix::new(n, latencies, vec![1e6; n * n]).unwrap();
        let sites = Sites::of_links(&group(n), &links);
        assert_eq!(sites.count(), 101);
        let shown = sites.json(&group(n));
        assert_eq!(shown["sites"].as_array().unwrap().len(), MAX_SITES);
        assert_eq!((&shown["left_out_sites"], &shown["left_out_nodes"]), (&json!(37), &json!(37)));
        assert_eq!(shown["sites"][MAX_SITES - 1]["nodes"], 3);
        assert_eq!(sites.place_of(102), Some(MAX_SITES - 1));
        assert_eq!(sites.place_of(99), None);
    }

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(short(0.012_345_678), 0.01235);
        assert_eq!(short(123_456_789.0), 123_500_000.0);
        assert_eq!(short(0.0), 0.0);
        assert_eq!(short(f64::INFINITY), Value::Null);
    }
}
