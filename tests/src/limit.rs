//! What an emulated grid allows at best, by its own description.

use arborcast_planner::{Link, Network, Node, Site, limit_s};
use gridlab::Topology;

/// The topology as the planner sees networks. A host's own work costs nothing: the limit is the
/// network's.
///
/// # Panics
/// Where the topology has sites without nodes, which the planner has no word for.
pub fn network(topology: &Topology) -> Network {
    let nodes = topology.nodes.iter().map(|node| Node {
        site: node.site,
        send_rate: node.rate_bytes_per_s,
        receive_rate: node.rate_bytes_per_s,
        overhead_s: 0.0,
    });
    let sites = topology.sites.iter().map(|site| {
        let rate = site.uplink_bytes_per_s.unwrap_or(f64::INFINITY);
        Site { egress_rate: rate, ingress_rate: rate }
    });
    let count = topology.sites.len();
    let cells = (0..count * count).map(|cell| (cell / count, cell % count));
    let links = cells.map(|(from, to)| {
        let link = topology.links.iter().find(|link| (link.from, link.to) == (from, to));
        let (latency, rate) = match link {
            Some(link) => (link.latency, link.rate_bytes_per_s),
            None => (topology.sites[from].latency, f64::INFINITY),
        };
        Link { latency_s: latency.as_secs_f64(), pair_rate: rate, shared_rate: rate }
    });
    Network::new(nodes.collect(), sites.collect(), links.collect()).expect("sites have nodes")
}

/// Seconds that a broadcast of `bytes` from `root` takes at least, until the root has the ACKs of all.
pub fn limit(topology: &Topology, root: usize, bytes: u64) -> f64 {
    limit_s(&network(topology), root, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid_file;

    #[test]
    fn the_mesh_has_the_limits_worked_out_by_hand() {
        let mesh = Topology::load(grid_file("mesh")).unwrap();
        // One byte: 25 ms to the farthest site by its detour, 40 ms for the direct ACK, and twice
        // 100 µs or less inside sites.
        let small = limit(&mesh, 0, 1);
        assert!((0.065..0.0655).contains(&small), "{small}");
        // 8 MiB at the 130 Mbit/s that leave the first site, on ways of 25 to 42 ms, and the ACK.
        let large = limit(&mesh, 0, 8 << 20);
        let transfer = 8.0 * f64::from(8 << 20) / 130e6;
        assert!(
            (transfer + 0.065..transfer + 0.082).contains(&large),
            "{large} against {transfer}"
        );
    }
}
