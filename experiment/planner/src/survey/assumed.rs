//! Networks of which little is known: what has not been measured is taken to be as it is with most.

use crate::measurement::Seconds;
use crate::model::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};

/// 1 Gbit/s and 100 Mbit/s.
const NODE_RATE: f64 = 125e6;
pub(super) const SITE_RATE: f64 = 12.5e6;
/// One way inside a site and between two, where nobody has measured it.
const NEAR_S: Seconds = 100e-6;
const FAR_S: Seconds = 10e-3;

/// By the site of each node and what is known between two sites, or inside one. What a site shares towards all others
/// is slower than its nodes and no faster than its links, as with most, so that no plan sends more over it than it
/// must.
pub(super) fn network(
    site_of: &[usize],
    latency_s: impl Fn(usize, usize) -> Seconds,
    rate: impl Fn(usize, usize) -> f64,
) -> Option<Network> {
    let overhead_s = DEFAULT_OVERHEAD_S;
    let node = |&site| Node { site, send_rate: NODE_RATE, receive_rate: NODE_RATE, overhead_s };
    let count = site_of.iter().max()? + 1;
    let others = |site: usize| (0..count).filter(move |&other| other != site);
    let site = |site: usize| Site {
        egress_rate: others(site).map(|to| rate(site, to)).fold(SITE_RATE, f64::max),
        ingress_rate: others(site).map(|from| rate(from, site)).fold(SITE_RATE, f64::max),
    };
    let link = |cell: usize| {
        let (a, b) = (cell / count, cell % count);
        let shared_rate = if a == b { f64::INFINITY } else { rate(a, b) };
        Link { latency_s: latency_s(a, b), pair_rate: f64::INFINITY, shared_rate }
    };
    let nodes = site_of.iter().map(node).collect();
    Network::new(nodes, (0..count).map(site).collect(), (0..count * count).map(link).collect()).ok()
}

/// By nothing but the site of each node, of which there are several.
pub fn of_sites(site_of: &[usize]) -> Option<Network> {
    let is_several = site_of.iter().any(|&site| site > 0);
    let latency_s = |a: usize, b: usize| if a == b { NEAR_S } else { FAR_S };
    network(site_of, latency_s, |_, _| SITE_RATE).filter(|_| is_several)
}
