//! Finds out what a network looks like by measuring transfers between nodes: which nodes are close to
//! each other, how far apart such clusters are, and what limits links, interfaces and sites. One module a
//! phase, each with its own state and reading the one before: [`near`], [`links`], [`overhead`],
//! [`sharing`].
//!
//! For n nodes in s clusters that is at most `MAX_LANDMARKS · n` empty messages and transfers for
//! n + s² pairs: the effort grows like n as long as clusters grow with their number. Only round trips
//! can be measured without common clocks, so latencies come out alike in both directions.

mod arrivals;
mod assumed;
mod fans;
mod links;
mod near;
mod overhead;
mod rounds;
mod sharing;
mod together;

use crate::measurement::{Seconds, Transfer, TransferResult};
use crate::model::network::Network;
pub use assumed::of_sites;
use links::Links;
use near::Near;
use overhead::Overhead;
pub use rounds::Rounds;
use sharing::Sharing;

/// A survey of one network. Ask for transfers with [`Survey::ask`], answer with [`Survey::observe`],
/// until [`Survey::network`] is there.
#[derive(Debug)]
pub struct Survey {
    phase: Phase,
    /// What the last answer has not come to.
    asked: Rounds,
}

#[derive(Debug)]
enum Phase {
    Near(Near),
    Links(Links),
    Overhead(Links, Overhead),
    Sharing(Sharing, Seconds),
    Done(Network),
}

impl Phase {
    fn ask(&mut self) -> Rounds {
        match self {
            Phase::Near(near) => near.ask(),
            Phase::Links(links) => links.ask(),
            Phase::Overhead(links, overhead) => overhead.ask(links),
            Phase::Sharing(sharing, _) => sharing.ask(),
            Phase::Done(_) => Vec::new(),
        }
    }

    fn loses_bursts(&self) -> bool {
        match self {
            Phase::Near(_) | Phase::Done(_) => false,
            Phase::Links(links) | Phase::Overhead(links, _) => links.lost_burst_bytes().is_some(),
            Phase::Sharing(sharing, _) => sharing.links.lost_burst_bytes().is_some(),
        }
    }

    fn next(self) -> Self {
        match self {
            Phase::Near(near) => Phase::Links(Links::new(&near)),
            Phase::Links(links) => Phase::Overhead(links, Overhead::new()),
            Phase::Overhead(links, overhead) => {
                Phase::Sharing(Sharing::new(links), overhead.overhead_s)
            }
            Phase::Sharing(sharing, overhead_s) => Phase::Done(sharing.network(overhead_s)),
            Phase::Done(network) => Phase::Done(network),
        }
    }
}

/// The rate of a link in bytes per second, by one transfer over it, which may be too short to tell all of it.
pub fn rate(transfer: &Transfer, result: &TransferResult) -> f64 {
    let by_arrivals = arrivals::steady(&result.arrivals).map_or(0.0, |steady| steady.rate);
    by_arrivals.max(transfer.bytes as f64 / result.seconds)
}

impl Survey {
    /// Begins at `root`, whose links matter most. A network of one node is known at once.
    pub fn new(nodes: usize, root: usize) -> Self {
        let mut survey = Survey { phase: Phase::Near(Near::new(nodes, root)), asked: Vec::new() };
        survey.go_on();
        survey
    }

    /// Asks the phase, and those behind it, for what is to be measured next.
    fn go_on(&mut self) {
        self.asked = self.phase.ask();
        while self.asked.is_empty() && self.network().is_none() {
            let blank = Phase::Near(Near::new(0, 0));
            self.phase = std::mem::replace(&mut self.phase, blank).next();
            self.asked = self.phase.ask();
        }
        let is_tcp_paced = self.phase.loses_bursts();
        self.asked.iter_mut().flatten().for_each(|transfer| transfer.is_tcp_paced = is_tcp_paced);
    }

    /// Rounds of transfers to measure next; `None` once the network is known.
    pub fn ask(&self) -> Option<&Rounds> {
        self.network().is_none().then_some(&self.asked)
    }

    /// Whether transfers of a round that is asked for tell nothing of each other, so that some may be made in another one.
    pub fn are_told_alone(&self) -> bool {
        matches!(self.phase, Phase::Links(_))
    }

    /// What came of each transfer of the rounds last asked for, of which some may have been shorter, or made in rounds
    /// of their own where they are told alone. An answer of another shape is not taken; the same rounds are asked for
    /// again.
    pub fn observe(&mut self, rounds: &[Vec<Transfer>], results: &[Vec<TransferResult>]) {
        let lengths = |rounds: &[Vec<Transfer>]| rounds.iter().map(Vec::len).collect::<Vec<_>>();
        let of_results: Vec<_> = results.iter().map(Vec::len).collect();
        let count = |rounds: &[Vec<Transfer>]| rounds.iter().flatten().count();
        let is_asked = match self.are_told_alone() {
            true => count(&self.asked) == count(rounds),
            false => lengths(&self.asked) == lengths(rounds),
        };
        if !is_asked || lengths(rounds) != of_results {
            return;
        }
        match &mut self.phase {
            Phase::Near(near) => near.observe(rounds, results),
            Phase::Links(links) => links.observe(rounds, results),
            Phase::Overhead(_, overhead) => overhead.observe(results),
            Phase::Sharing(sharing, _) => sharing.observe(rounds, results),
            Phase::Done(_) => {}
        }
        self.go_on();
    }

    /// As soon as latencies are known and until all is: with rates as they might be where none was measured.
    pub fn assumed_network(&self) -> Option<Network> {
        match &self.phase {
            Phase::Links(links) | Phase::Overhead(links, _) => links.assumed_network(),
            Phase::Sharing(sharing, _) => sharing.links.assumed_network(),
            Phase::Near(_) | Phase::Done(_) => None,
        }
    }

    pub fn network(&self) -> Option<&Network> {
        match &self.phase {
            Phase::Done(network) => Some(network),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::model::network::{Link, Node, Site};
    use crate::model::simulate::transfers;
    use crate::propose::propose_at_once;
    use arborcast_proto::Plan;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use std::collections::HashSet;

    /// Measures `network` and returns what was found and how many transfers it took.
    fn survey(network: &Network, root: usize) -> (Network, usize) {
        let mut survey = Survey::new(network.len(), root);
        let mut count = 0;
        while let Some(rounds) = survey.ask() {
            let results: Vec<Vec<TransferResult>> =
                rounds.iter().map(|round| transfers(network, round)).collect();
            count += rounds.iter().map(Vec::len).sum::<usize>();
            let rounds = rounds.clone();
            survey.observe(&rounds, &results);
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
        assert_found(&grids::four_site_mesh());
    }

    #[test]
    fn the_mesh_is_found_through_the_start_of_tcp() {
        let mesh = grids::four_site_mesh();
        assert_found(&mesh.after_pause(f64::INFINITY));
    }

    #[test]
    fn tcp_paces_from_when_bursts_were_lost() {
        let mesh = grids::four_site_mesh();
        for (lost, loses_bursts) in [(0.0, false), (0.005, false), (0.15, true)] {
            let after_loss =
                if loses_bursts { grids::with_links_at(&mesh, 0.25) } else { mesh.clone() };
            let mut survey = Survey::new(mesh.len(), 0);
            let (mut paced, mut unpaced_after) = (0, 0);
            let mut have_lost = HashSet::new();
            while let Some(rounds) = survey.ask() {
                let rounds = rounds.clone();
                let mut of_round = |round: &Vec<Transfer>| -> Vec<TransferResult> {
                    let (whole, slow) = (transfers(&mesh, round), transfers(&after_loss, round));
                    let results = whole.into_iter().zip(slow).zip(round);
                    results
                        .map(|((whole, slow), transfer)| {
                            let (from, to) = (transfer.from, transfer.to);
                            let is_far = mesh.site_of(from) != mesh.site_of(to);
                            if is_far && !transfer.is_tcp_paced && transfer.bytes > 0 {
                                have_lost.insert((from, to));
                                return TransferResult { lost, ..slow };
                            }
                            if have_lost.contains(&(from, to)) { slow } else { whole }
                        })
                        .collect()
                };
                let results: Vec<_> = rounds.iter().map(&mut of_round).collect();
                let all = rounds.iter().flatten();
                let now = all.clone().filter(|transfer| transfer.is_tcp_paced).count();
                unpaced_after += if paced > 0 { all.count() - now } else { 0 };
                paced += now;
                survey.observe(&rounds, &results);
            }
            assert_eq!((paced > 0, unpaced_after), (loses_bursts, 0), "{lost}");
            let network = survey.network().unwrap();
            // What the first connections lost does not stand for their links.
            assert_alike(network, &mesh);
            // What it is planned with is what it was found with, but for messages that are shorter than all that lost.
            for (bytes, is_long) in [(64 << 10, false), (1 << 20, true)] {
                let plans = propose_at_once(network, 0, bytes, &mut ChaCha8Rng::seed_from_u64(1));
                let Plan::Trees(trees) = &plans[0].plan else { panic!("a plan of trees") };
                assert_eq!(trees.is_tcp_paced(), loses_bursts && is_long, "{bytes}, {lost}");
            }
        }
    }

    #[test]
    fn fast_links_over_long_ways_are_found_through_the_start_of_tcp() {
        // A first transfer is over before its bursts last as long as a clock tells apart.
        for (latency_s, rate) in [(75e-3, 120e6), (20e-3, 120e6), (66e-3, 31e6)] {
            let between = Link { latency_s, pair_rate: f64::INFINITY, shared_rate: rate };
            let node = Node { site: 0, send_rate: 1.25e9, receive_rate: 1.25e9, overhead_s: 10e-6 };
            let nodes = [0, 0, 1, 1].map(|site| Node { site, ..node }).to_vec();
            let links = vec![Link::LOCAL, between, between, Link::LOCAL];
            let network = Network::new(nodes, vec![Site::UNLIMITED; 2], links).unwrap();
            let (found, _) = survey(&network.after_pause(f64::INFINITY), 0);
            for (a, b) in [(0, 2), (3, 1)] {
                let found = found.rate(a, b);
                assert!((found / rate - 1.0).abs() < 0.05, "{latency_s} s: {found} for {rate} B/s");
            }
        }
    }

    #[test]
    fn a_receiver_that_finds_all_at_once_does_not_tell_its_rate() {
        let mesh = grids::four_site_mesh();
        let mut survey = Survey::new(mesh.len(), 0);
        while let Some(rounds) = survey.ask().cloned() {
            let mut results: Vec<Vec<TransferResult>> =
                rounds.iter().map(|round| transfers(&mesh, round)).collect();
            for (transfer, result) in rounds.iter().flatten().zip(results.iter_mut().flatten()) {
                let is_inside = mesh.site_of(transfer.from) == mesh.site_of(transfer.to);
                if is_inside && transfer.bytes > 0 {
                    // Other processes had its processor for 40 ms.
                    result.seconds = result.seconds.max(0.04);
                    for arrival in &mut result.arrivals {
                        arrival.seconds = arrival.seconds.max(0.04);
                    }
                }
            }
            survey.observe(&rounds, &results);
        }
        let found = survey.network().unwrap();
        for (a, b) in
            (0..4).flat_map(|site| [(4 * site + 1, 4 * site + 2), (4 * site, 4 * site + 1)])
        {
            let (rate, truth) = (found.rate(a, b), mesh.rate(a, b));
            assert!(rate > 0.7 * truth, "{a} {b}: {rate} for {truth}");
        }
    }

    #[test]
    fn nodes_that_busy_processors_slow_down_a_little_are_as_fast_as_the_others_of_their_site() {
        let mesh = grids::four_site_mesh();
        let mut nodes = mesh.nodes().to_vec();
        (nodes[6].send_rate, nodes[6].receive_rate) = (50e6, 50e6);
        let links = (0..16).map(|pair| *mesh.site_link(pair / 4, pair % 4)).collect();
        let mesh = Network::new(nodes, mesh.sites().to_vec(), links).unwrap();
        let mut survey = Survey::new(mesh.len(), 0);
        while let Some(rounds) = survey.ask().cloned() {
            let mut results: Vec<Vec<TransferResult>> =
                rounds.iter().map(|round| transfers(&mesh, round)).collect();
            for (transfer, result) in rounds.iter().flatten().zip(results.iter_mut().flatten()) {
                let slower = [1.0, 1.08, 1.02, 1.05][transfer.from % 4];
                result.seconds *= slower;
                result.arrivals.iter_mut().for_each(|arrival| arrival.seconds *= slower);
            }
            survey.observe(&rounds, &results);
        }
        let found = survey.network().unwrap().nodes();
        for site in 0..4 {
            let members = (4 * site..4 * site + 4).filter(|&node| node != 6 && node != 5);
            let rates: Vec<f64> = members.map(|node| found[node].send_rate).collect();
            assert!(rates.iter().all(|rate| *rate == rates[0]), "{rates:?}");
            assert!((rates[0] / 125e6 - 1.0).abs() < 0.1, "{rates:?}");
        }
        assert!((found[6].send_rate / 50e6 - 1.0).abs() < 0.1, "{}", found[6].send_rate);
    }

    fn assert_found(mesh: &Network) {
        let (found, count) = survey(mesh, 5);
        println!("{count} transfers");
        assert_alike(&found, mesh);
    }

    fn assert_alike(found: &Network, mesh: &Network) {
        assert!(same_sites(found, mesh));
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
            assert_uplinks_found(&grids::random(6, 4, seed).after_pause(f64::INFINITY));
        }
    }

    #[test]
    fn uplinks_of_many_large_sites_are_found() {
        // So many transfers at once that some are stopped before anything of them has come.
        assert_uplinks_found(&grids::random(32, 8, 3).after_pause(f64::INFINITY));
    }

    #[test]
    fn nodes_that_are_only_nearer_than_all_others_are_no_site() {
        // Two of four nodes are 12 ms apart, all others 60 and more, and each has links of its own.
        let far = [(0, 1, 81), (0, 2, 71), (0, 3, 47), (1, 2, 6), (1, 3, 58), (2, 3, 56)];
        let mut links = vec![Link::LOCAL; 16];
        for (a, b, ms) in far {
            let latency_s = f64::from(ms) * 1e-3;
            let rate = 1e6 * f64::from(ms);
            let link = Link { latency_s, pair_rate: f64::INFINITY, shared_rate: rate };
            (links[4 * a + b], links[4 * b + a]) = (link, link);
        }
        let node = |site| Node { site, send_rate: 1e9, receive_rate: 1e9, overhead_s: 10e-6 };
        let nodes = (0..4).map(node).collect();
        let network = Network::new(nodes, vec![Site::UNLIMITED; 4], links).unwrap();
        let (found, _) = survey(&network, 0);
        assert!(same_sites(&found, &network));
        assert!((found.rate(0, 2) / network.rate(0, 2) - 1.0).abs() < 0.1, "{}", found.rate(0, 2));
    }

    #[test]
    fn near_sites_are_told_apart_where_others_are_much_farther() {
        // The gap below 50 ms is the widest, whether sites have several nodes or one.
        let link =
            |latency_s, rate| Link { latency_s, pair_rate: f64::INFINITY, shared_rate: rate };
        let (near, far) = (link(1.3e-3, 3e6), link(25e-3, 50e6));
        let inside = Link { latency_s: 100e-6, ..Link::LOCAL };
        let links = vec![inside, near, far, near, inside, far, far, far, inside];
        for nodes_per_site in [1, 3] {
            let node = |i: usize| Node {
                site: i / nodes_per_site,
                send_rate: 1e9,
                receive_rate: 1e9,
                overhead_s: 10e-6,
            };
            let count = 3 * nodes_per_site;
            let nodes = (0..count).map(node).collect();
            let network = Network::new(nodes, vec![Site::UNLIMITED; 3], links.clone()).unwrap();
            for root in [0, count - 1] {
                let (found, _) = survey(&network, root);
                assert!(same_sites(&found, &network), "root {root} of {count}");
                let rate = found.rate(0, nodes_per_site);
                assert!((rate / 3e6 - 1.0).abs() < 0.05, "{rate}");
            }
        }
    }

    #[test]
    fn shared_uplinks_are_found_through_the_start_of_tcp() {
        assert_uplinks_found(&grids::five_regions().after_pause(f64::INFINITY));
    }

    fn assert_uplinks_found(network: &Network) {
        let (found, count) = survey(network, 0);
        println!("{count} transfers");
        assert!(same_sites(&found, network));
        let sites = network.sites().len();
        let place = |site: usize| found.site_of(site * network.len() / sites);
        for site in 0..sites {
            let truth = network.sites()[site].egress_rate;
            let links: f64 = (0..sites)
                .filter(|&b| b != site)
                .map(|b| network.site_link(site, b).shared_rate)
                .sum();
            let rate = found.sites()[place(site)].egress_rate;
            if truth < 0.5 * links {
                assert!((rate / truth - 1.0).abs() < 0.15, "site {site}: {rate} for {truth}");
            } else if truth.is_infinite() {
                assert!(rate > 0.5 * links, "site {site}: {rate} where nothing is shared");
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
