//! Finds out what a network looks like by measuring transfers between nodes: which nodes are close to
//! each other, how far apart such clusters are, and what limits links, interfaces and sites.
//!
//! 1. *Near and far*: empty messages from a landmark to all nodes; the next landmark is the node
//!    farthest from those so far, until every node is near one (the k-centre heuristic of Gonzalez
//!    1985). What is near follows from the widest gap between the round trips. A node that is near no
//!    landmark, once there are [`MAX_LANDMARKS`], joins one that looks the same from all of them.
//! 2. *Links*: transfers between one node of each cluster and one of each other, and around each
//!    cluster; where they were too short to tell a rate, longer ones.
//! 3. *Messages*: many short ones around each cluster, everywhere at once, then the same bytes in longer
//!    ones, for what a message costs a node beside its bytes.
//! 4. *What is shared*: short trains that run at once, out of one cluster, into one, and over the same
//!    link. Where together they reach less than each alone, they share, unless another round shows that
//!    it was packets lost on the way, or a new connection.
//!
//! For n nodes in s clusters that is at most `MAX_LANDMARKS · n` empty messages and transfers for
//! n + s² pairs: the effort grows like n as long as clusters grow with their number. Only round trips
//! can be measured without common clocks, so latencies come out alike in both directions.

mod links;
mod near;
mod sharing;

use crate::measurement::Seconds;
use crate::measurement::Transfer;
use crate::model::network::Network;
use links::Rates;
use near::Clusters;
use std::cmp::Reverse;

/// More landmarks than this don't tell nodes apart any better.
pub const MAX_LANDMARKS: usize = 16;
/// An empty message is sent so often, and the fastest counts: between nodes that may be near more often,
/// since one that met a busy processor may not make a near node look far.
const PINGS: u32 = 3;
const NEAR_PINGS: u32 = 16;
/// A transfer that is made alone is made twice and the faster one counts: the first may open a
/// connection, and TCP learns from it how fast the link is.
const REPETITIONS: u32 = 2;

/// See the module's text. Ask for transfers with [`Survey::ask`], answer with [`Survey::observe`],
/// until [`Survey::network`] is there.
#[derive(Debug)]
pub struct Survey {
    nodes: usize,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Clusters(Clusters),
    Rates(Box<Rates>),
    Done(Network),
}

impl Survey {
    /// Begins at `root`, whose links matter most. A network of one node is known at once.
    pub fn new(nodes: usize, root: usize) -> Self {
        Survey { nodes, phase: Phase::Clusters(Clusters::new(nodes, root)) }
    }

    /// Rounds of transfers to measure next, those of a round at once; `None` once the network is
    /// known.
    pub fn ask(&mut self) -> Option<Vec<Vec<Transfer>>> {
        loop {
            let next = match &mut self.phase {
                Phase::Clusters(clusters) => match clusters.ask() {
                    Some(rounds) => return Some(rounds),
                    None => Phase::Rates(Box::new(Rates::new(clusters))),
                },
                Phase::Rates(rates) => match rates.ask() {
                    Some(rounds) => return Some(rounds),
                    None => Phase::Done(rates.network(self.nodes)),
                },
                Phase::Done(_) => return None,
            };
            self.phase = next;
        }
    }

    /// The seconds of each transfer of the rounds last asked for. An answer of another shape is not
    /// taken; the same rounds are asked for again.
    pub fn observe(&mut self, seconds: &[Vec<Seconds>]) {
        match &mut self.phase {
            Phase::Clusters(clusters) => clusters.observe(seconds),
            Phase::Rates(rates) => rates.observe(seconds),
            Phase::Done(_) => {}
        }
    }

    pub fn network(&self) -> Option<&Network> {
        match &self.phase {
            Phase::Done(network) => Some(network),
            _ => None,
        }
    }
}

/// Distinct pairs in rounds in which no node occurs twice, and at most `at_once` pairs run. Nodes with
/// the most pairs left come first, so that none of them is left to go on alone.
fn rounds_of_pairs(
    pairs: &[(usize, usize)],
    nodes: usize,
    at_once: usize,
) -> Vec<Vec<(usize, usize)>> {
    let mut rounds: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut left: Vec<(usize, usize)> = pairs.to_vec();
    // The round in which a node was last used.
    let mut used = vec![usize::MAX; nodes];
    while !left.is_empty() {
        let round = rounds.len();
        let mut chosen = Vec::new();
        let mut pairs_of = vec![0usize; nodes];
        left.iter().for_each(|&(a, b)| [a, b].into_iter().for_each(|node| pairs_of[node] += 1));
        left.sort_by_key(|&(a, b)| Reverse(pairs_of[a] + pairs_of[b]));
        left.retain(|&(a, b)| {
            if chosen.len() == at_once || used[a] == round || used[b] == round {
                return true;
            }
            (used[a], used[b]) = (round, round);
            chosen.push((a, b));
            false
        });
        rounds.push(chosen);
    }
    rounds
}

/// Whether an answer has a time for each transfer.
fn answers(rounds: &[Vec<Transfer>], seconds: &[Vec<Seconds>]) -> bool {
    rounds.len() == seconds.len() && rounds.iter().zip(seconds).all(|(r, s)| r.len() == s.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::model::simulate::transfers;

    /// Measures `network` and returns what was found and how many transfers it took.
    fn survey(network: &Network, root: usize) -> (Network, usize) {
        let mut survey = Survey::new(network.len(), root);
        let mut count = 0;
        while let Some(rounds) = survey.ask() {
            let seconds: Vec<Vec<f64>> =
                rounds.iter().map(|round| transfers(network, round)).collect();
            count += rounds.iter().map(Vec::len).sum::<usize>();
            survey.observe(&seconds);
        }
        (survey.network().unwrap().clone(), count)
    }

    fn same_sites(found: &Network, network: &Network) -> bool {
        let n = network.len();
        (0..n).all(|a| {
            (0..n).all(|b| {
                (found.site_of(a) == found.site_of(b)) == (network.site_of(a) == network.site_of(b))
            })
        })
    }

    #[test]
    fn the_mesh_is_found_as_it_is() {
        let mesh = grids::four_site_mesh();
        let (found, count) = survey(&mesh, 5);
        println!("{count} transfers");
        assert!(same_sites(&found, &mesh));
        for a in 0..16 {
            for b in (0..16).filter(|&b| b != a) {
                let (latency, rate) = (found.latency_s(a, b), found.rate(a, b));
                let (true_latency, true_rate) = (mesh.latency_s(a, b), mesh.rate(a, b));
                assert!((latency - true_latency).abs() < 20e-6 + 0.02 * true_latency, "{a} {b}");
                assert!((rate / true_rate - 1.0).abs() < 0.05, "{a} {b}: {rate} for {true_rate}");
                let (a, b) = (found.site_of(a), found.site_of(b));
                assert_eq!(
                    found.site_link(a, b).shared_rate.is_finite(),
                    a != b,
                    "links are shared"
                );
            }
        }
    }

    #[test]
    fn shared_uplinks_are_found() {
        for seed in 0..5 {
            let network = grids::random(6, 4, seed);
            let (found, _) = survey(&network, 0);
            assert!(same_sites(&found, &network), "seed {seed}");
            let place = |site: usize| found.site_of(site * 4);
            for site in 0..6 {
                let truth = network.sites()[site].egress_rate;
                let links: f64 = (0..6)
                    .filter(|&b| b != site)
                    .map(|b| network.site_link(site, b).shared_rate)
                    .sum();
                let rate = found.sites()[place(site)].egress_rate;
                if truth < 0.5 * links {
                    assert!((rate / truth - 1.0).abs() < 0.15, "seed {seed}: {rate} for {truth}");
                } else if truth.is_infinite() {
                    assert!(rate > 0.5 * links, "seed {seed}: {rate} where nothing is shared");
                }
            }
        }
    }

    #[test]
    fn nodes_without_neighbours_are_sites_of_their_own() {
        let network = grids::scattered(9, 4);
        let (found, _) = survey(&network, 2);
        assert_eq!(found.sites().len(), 9);
        assert_eq!(survey(&grids::random(1, 1, 0), 0).0.len(), 1);
        assert_eq!(survey(&grids::random(1, 5, 0), 0).0.sites().len(), 1);
    }

    #[test]
    fn the_effort_grows_like_the_number_of_nodes() {
        let mut per_node = Vec::new();
        for sites in [4, 8, 16] {
            let network = grids::random(sites, sites, 3);
            let (found, count) = survey(&network, 0);
            assert!(same_sites(&found, &network), "{sites} sites");
            println!("{} nodes: {count} transfers", network.len());
            per_node.push(count as f64 / network.len() as f64);
        }
        assert!(per_node[2] < per_node[0] * 2.0, "{per_node:?} transfers a node");
    }
}
