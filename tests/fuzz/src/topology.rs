//! Files that describe a grid.

use gridlab::Topology;

/// A file's text; what is no UTF-8 in it is replaced.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Topology::parse(&text) {
        Ok(topology) => makes_sense(&topology),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn makes_sense(topology: &Topology) {
    let sites = topology.sites.len();
    assert!(topology.nodes.iter().all(|node| node.site < sites));
    assert!(topology.nodes.iter().all(|node| node.rate_bytes_per_s > 0.0));
    for from in 0..sites {
        for to in (0..sites).filter(|&to| to != from) {
            let link = topology.link(from, to).expect("a link for each ordered pair of sites");
            assert!(link.rate_bytes_per_s > 0.0 && (0.0..=1.0).contains(&link.loss));
        }
    }
    assert!(topology.events.is_sorted_by_key(|event| event.at));
    for (from, to) in [(0, 0), (0, topology.nodes.len() - 1)] {
        let _ = topology.one_way_latency(from, to);
    }
}
