//! What binds: the node that no broadcast reaches sooner, and what all its bytes have to pass. Where one of
//! these were better, the bound would be lower.

use super::{Limits, NodeLimit, blocks, flow_graph};
use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::trees::shortest_paths::shortest_paths;

/// A part of a network that a minimal cut passes, by the numbers of its node or sites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// What a node sends.
    Sender(usize),
    /// What a node receives.
    Receiver(usize),
    /// What a site sends to all others.
    Egress(usize),
    /// What a site receives from all others.
    Ingress(usize),
    /// From one site to another one, or inside one.
    Link(usize, usize),
}

/// What makes up the bound of a broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Binding {
    /// The node that has everything, and has said so, last.
    pub node: usize,
    /// The sites on the shortest way to it, the root's first.
    pub way: Vec<usize>,
    pub reach_s: Seconds,
    /// Of its ACK, straight to the root.
    pub ack_s: Seconds,
    /// The most that can flow to it, in bytes per second.
    pub rate: f64,
    /// What the bytes take beside: not all ways that make up the rate are as short as the shortest.
    pub detours_s: Seconds,
    /// What all that flows to it passes, with their rates; nothing where nothing limits it.
    pub cut: Vec<(Bottleneck, f64)>,
}

/// What binds a broadcast of `bytes` from `root`; `None` for a node alone.
///
/// # Panics
/// Where `root` is not a node.
pub fn binding(network: &Network, root: usize, bytes: u64) -> Option<Binding> {
    let limits = Limits::new(network, root);
    let (&limit, limit_s) = limits.last(bytes, |node| node.direct_ack_s)?;
    let NodeLimit { node, reach_s, direct_ack_s: ack_s, rate, .. } = limit;
    let detours_s = (limit_s - reach_s - ack_s - bytes as f64 / rate).max(0.0);
    let arcs = flow_graph(network).min_cut(network.len() + root, node);
    let cut =
        arcs.into_iter().map(|(from, to, rate)| (bottleneck(network, from, to), rate)).collect();
    Some(Binding { node, way: way(network, root, node), reach_s, ack_s, rate, detours_s, cut })
}

fn way(network: &Network, root: usize, node: usize) -> Vec<usize> {
    let home = network.site_of(root);
    let latency = |from: usize, to: usize| network.site_link(from, to).latency_s;
    let parents = shortest_paths(network.sites().len(), home, latency).parents;
    let mut way: Vec<usize> =
        std::iter::successors(Some(network.site_of(node)), |&site| parents[site]).collect();
    way.reverse();
    way
}

/// What an arc of [`flow_graph`] with a limit stands for.
fn bottleneck(network: &Network, from: usize, to: usize) -> Bottleneck {
    let (n, sites) = (network.len(), network.sites().len());
    let [_, into, uplink_out, uplink_in] = blocks(network);
    let site = |vertex: usize| (vertex - 2 * n) % sites;
    if to < n {
        Bottleneck::Receiver(to)
    } else if from < 2 * n {
        Bottleneck::Sender(from - n)
    } else if from >= uplink_in {
        Bottleneck::Ingress(site(from))
    } else if from < into && to >= uplink_out {
        Bottleneck::Egress(site(from))
    } else {
        Bottleneck::Link(site(from), site(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;

    #[test]
    fn the_mesh_is_bound_by_the_links_from_the_root_s_site() {
        let mesh = grids::four_site_mesh();
        let long = binding(&mesh, 0, 32 << 20).unwrap();
        let mut cut: Vec<Bottleneck> = long.cut.iter().map(|(part, _)| *part).collect();
        cut.sort_by_key(|part| format!("{part:?}"));
        assert_eq!(cut, [1, 2, 3].map(|site| Bottleneck::Link(0, site)));
        let rates: f64 = long.cut.iter().map(|(_, rate)| rate).sum();
        assert!((rates - 130e6 / 8.0).abs() < 1.0 && (long.rate - rates).abs() < 1.0, "{rates}");
        let short = binding(&mesh, 0, 0).unwrap();
        assert_eq!((short.way, mesh.site_of(short.node)), (vec![0, 1, 3], 3));
        assert!((short.reach_s - 0.025).abs() < 1e-9 && (short.ack_s - 0.040).abs() < 1e-9);
    }

    #[test]
    fn what_binds_adds_up_to_the_bound_and_a_better_part_raises_it() {
        for seed in 0..20 {
            let network = grids::random(4, 3, seed);
            for bytes in [0, 1 << 20, 32 << 20] {
                let Binding { reach_s, ack_s, rate, detours_s, cut, .. } =
                    binding(&network, 0, bytes).unwrap();
                let limit_s = Limits::new(&network, 0).limit_s(bytes);
                assert!(
                    (reach_s + ack_s + bytes as f64 / rate + detours_s - limit_s).abs() < 1e-9,
                    "seed {seed}"
                );
                let through: f64 = cut.iter().map(|(_, rate)| rate).sum();
                assert!((through / rate - 1.0).abs() < 1e-6, "seed {seed}: {through} and {rate}");
            }
        }
    }

    #[test]
    fn uplinks_and_interfaces_bind_too() {
        let regions = grids::five_regions();
        let parts: Vec<Bottleneck> =
            binding(&regions, 0, 1 << 30).unwrap().cut.iter().map(|(part, _)| *part).collect();
        let uplinks = [Bottleneck::Egress(0), Bottleneck::Ingress(4)];
        assert!(
            parts
                .iter()
                .any(|part| uplinks.contains(part) || matches!(part, Bottleneck::Ingress(_))),
            "{parts:?}"
        );
        let one_site = grids::random(1, 3, 1);
        let parts = binding(&one_site, 0, 1 << 30).unwrap().cut;
        assert!(matches!(parts[0].0, Bottleneck::Sender(0) | Bottleneck::Receiver(_)), "{parts:?}");
        assert_eq!(binding(&grids::random(1, 1, 0), 0, 1), None);
    }
}
