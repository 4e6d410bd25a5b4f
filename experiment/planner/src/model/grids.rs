//! Networks to plan for without having them: a grid whose best answers are known by hand, and grids
//! of any size drawn from a seed.

use crate::model::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// A bit per second is an eighth of a byte.
const MBIT: f64 = 1e6 / 8.0;

/// Four sites of four nodes, 1 Gbit/s each, joined by links of 10 to 100 Mbit/s and 10 to 40 ms, some
/// of which are slower than the detour. From node 0 every site can receive at most 130 Mbit/s, which
/// takes three trees.
pub fn four_site_mesh() -> Network {
    let between = [
        (0, 1, 10e-3, 100.0),
        (0, 2, 20e-3, 20.0),
        (0, 3, 40e-3, 10.0),
        (1, 2, 12e-3, 50.0),
        (1, 3, 15e-3, 60.0),
        (2, 3, 20e-3, 80.0),
    ];
    alike(4, node(0, 1000.0 * MBIT), 100e-6, &[Site::UNLIMITED; 4], &between)
}

/// Five regions of three nodes of 500 Mbit/s, each behind an uplink of 100 Mbit/s that it shares, 15 to 142 ms
/// apart, links of 20 to 80 Mbit/s.
pub fn five_regions() -> Network {
    let between = [
        (0, 1, 15.5e-3, 80.0),
        (0, 2, 61.5e-3, 40.0),
        (0, 3, 71.5e-3, 60.0),
        (0, 4, 73e-3, 40.0),
        (1, 2, 45.5e-3, 80.0),
        (1, 3, 82e-3, 40.0),
        (1, 4, 59e-3, 60.0),
        (2, 3, 116.5e-3, 20.0),
        (2, 4, 99e-3, 30.0),
        (3, 4, 142e-3, 20.0),
    ];
    let uplink = Site { egress_rate: 100.0 * MBIT, ingress_rate: 100.0 * MBIT };
    alike(3, node(0, 500.0 * MBIT), 50e-6, &[uplink; 5], &between)
}

/// The same network, where links between sites carry this part of what they did.
#[cfg(test)]
pub(crate) fn with_links_at(network: &Network, part: f64) -> Network {
    let count = network.sites().len();
    let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
    let link = |(a, b)| {
        let link = *network.site_link(a, b);
        if a == b { link } else { Link { shared_rate: part * link.shared_rate, ..link } }
    };
    let (nodes, sites) = (network.nodes().to_vec(), network.sites().to_vec());
    Network::new(nodes, sites, pairs.map(link).collect()).expect("a part of what was in range")
}

/// Sites with the same number of nodes, all alike, and links that all share who use them: two sites, seconds
/// one way, Mbit/s each way.
fn alike(
    nodes_per_site: usize,
    node: Node,
    latency_inside_s: f64,
    sites: &[Site],
    between: &[(usize, usize, f64, f64)],
) -> Network {
    let count = sites.len();
    let mut links = vec![Link { latency_s: latency_inside_s, ..Link::LOCAL }; count * count];
    for &(a, b, latency_s, mbit) in between {
        let link = Link { latency_s, pair_rate: f64::INFINITY, shared_rate: mbit * MBIT };
        links[a * count + b] = link;
        links[b * count + a] = link;
    }
    let of_site = |i: usize| Node { site: i / nodes_per_site, ..node };
    let nodes = (0..count * nodes_per_site).map(of_site).collect();
    Network::new(nodes, sites.to_vec(), links).expect("a valid description")
}

/// `sites` sites of `nodes_per_site` nodes, drawn from `seed`: node interfaces of 1 or 10 Gbit/s;
/// sites at random places of a square 60 ms wide, so that latencies are those of a map, with detours
/// of up to 2.5 × on each link; links of 20 Mbit/s to 1 Gbit/s; every third site behind a shared
/// uplink.
///
/// # Panics
/// Where there is no site, no node in a site, or more nodes than a tree can span.
pub fn random(sites: usize, nodes_per_site: usize, seed: u64) -> Network {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let places: Vec<(f64, f64)> = (0..sites)
        .map(|_| (random.random_range(0.0..60e-3), random.random_range(0.0..60e-3)))
        .collect();
    let node_rates: Vec<f64> = (0..sites)
        .map(|_| if random.random_bool(0.5) { 1000.0 } else { 10_000.0 } * MBIT)
        .collect();
    let mut links = vec![Link::LOCAL; sites * sites];
    for a in 0..sites {
        let latency_s = random.random_range(20e-6..200e-6);
        links[a * sites + a] = Link { latency_s, ..Link::LOCAL };
        for b in 0..a {
            let distance = (places[a].0 - places[b].0).hypot(places[a].1 - places[b].1);
            let latency_s = (1e-3 + distance) * random.random_range(1.0..2.5);
            let mbit = 20.0 * 50f64.powf(random.random_range(0.0..1.0));
            let link = Link { latency_s, pair_rate: f64::INFINITY, shared_rate: mbit * MBIT };
            links[a * sites + b] = link;
            links[b * sites + a] = link;
        }
    }
    let uplinks = (0..sites).map(|site| {
        if site % 3 != 2 {
            return Site::UNLIMITED;
        }
        let rate = random.random_range(100.0..1000.0) * MBIT;
        Site { egress_rate: rate, ingress_rate: rate }
    });
    let uplinks = uplinks.collect();
    let nodes = (0..sites * nodes_per_site)
        .map(|i| node(i / nodes_per_site, node_rates[i / nodes_per_site]));
    Network::new(nodes.collect(), uplinks, links).expect("a valid description")
}

/// `nodes` single nodes whose links are all different: 1 to 60 ms, 10 Mbit/s to 1 Gbit/s.
///
/// # Panics
/// Where there is no node, or more than a tree can span.
pub fn scattered(nodes: usize, seed: u64) -> Network {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut links = Vec::with_capacity(nodes * nodes);
    for _ in 0..nodes * nodes {
        let latency_s = random.random_range(1e-3..60e-3);
        let pair_rate = 10.0 * 100f64.powf(random.random_range(0.0..1.0)) * MBIT;
        links.push(Link { latency_s, pair_rate, shared_rate: f64::INFINITY });
    }
    let all = (0..nodes).map(|site| node(site, 1000.0 * MBIT)).collect();
    Network::new(all, vec![Site::UNLIMITED; nodes], links).expect("a valid description")
}

fn node(site: usize, rate: f64) -> Node {
    Node { site, send_rate: rate, receive_rate: rate, overhead_s: DEFAULT_OVERHEAD_S }
}
