//! A network of sites from a matrix that only knows pairs of nodes.
//!
//! Nodes that are near by latency are taken for a site, and what the fastest pair of two sites reaches for
//! what all their pairs share: so no plan sends a byte over a long link more often than it must. Where the
//! pairs don't share, [`Network::from_links`] is the better picture.

use crate::model::clusters::{LATENCIES_S, clusters};
use crate::model::network::{DEFAULT_OVERHEAD_S, Link, Network, Node, Site};
use arborcast_proto::LinkMatrix;

/// The site of each node.
pub fn sites(matrix: &LinkMatrix) -> Vec<usize> {
    let distance = |a: usize, b: usize| matrix.latency_s(a, b).max(matrix.latency_s(b, a));
    clusters(matrix.nodes(), LATENCIES_S, distance)
}

/// A network in which `site_of` has the site of each node, numbered from 0 without gaps.
///
/// # Panics
/// Where `site_of` is not as long as the matrix, or leaves out a number.
pub fn network(matrix: &LinkMatrix, site_of: &[usize]) -> Network {
    let n = matrix.nodes();
    let count = site_of.iter().max().map_or(0, |last| last + 1);
    let others = |node: usize| (0..n).filter(move |&other| other != node);
    // A node alone has nobody to send to.
    let fastest =
        |rates: &mut dyn Iterator<Item = f64>| rates.reduce(f64::max).unwrap_or(f64::INFINITY);
    let nodes = (0..n).map(|node| Node {
        site: site_of[node],
        send_rate: fastest(&mut others(node).map(|to| matrix.rate(node, to))),
        receive_rate: fastest(&mut others(node).map(|from| matrix.rate(from, node))),
        overhead_s: DEFAULT_OVERHEAD_S,
    });
    let mut members = vec![Vec::new(); count];
    (0..n).for_each(|node| members[site_of[node]].push(node));
    let link = |a: usize, b: usize| {
        let to_others = |&from: &usize| members[b].iter().map(move |&to| (from, to));
        let pairs = members[a].iter().flat_map(to_others).filter(|(from, to)| from != to);
        let pairs: Vec<(usize, usize)> = pairs.collect();
        if pairs.is_empty() {
            return Link::LOCAL;
        }
        let latency_s = pairs.iter().map(|&(from, to)| matrix.latency_s(from, to)).sum::<f64>()
            / pairs.len() as f64;
        let rate = fastest(&mut pairs.iter().map(|&(from, to)| matrix.rate(from, to)));
        match a == b {
            true => Link { latency_s, pair_rate: rate, shared_rate: f64::INFINITY },
            false => Link { latency_s, pair_rate: f64::INFINITY, shared_rate: rate },
        }
    };
    let links = (0..count * count).map(|cell| link(cell / count, cell % count)).collect();
    Network::new(nodes.collect(), vec![Site::UNLIMITED; count], links)
        .expect("a matrix's numbers are those of a network")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::bounds::limit_s;
    use crate::model::grids;

    #[test]
    fn the_mesh_is_found_again_from_its_pairs() {
        let mesh = grids::four_site_mesh();
        let matrix = mesh.to_links();
        let site_of = sites(&matrix);
        let again = network(&matrix, &site_of);
        assert_eq!(site_of, (0..16).map(|node| node / 4).collect::<Vec<_>>());
        for bytes in [0, 1 << 20, 32 << 20] {
            let (was_s, is_s) = (limit_s(&mesh, 0, bytes), limit_s(&again, 0, bytes));
            assert!((is_s / was_s - 1.0).abs() < 1e-9, "{bytes}: {was_s} and {is_s}");
        }
        let unshared = Network::from_links(&matrix);
        assert!(limit_s(&unshared, 0, 32 << 20) < 0.5 * limit_s(&mesh, 0, 32 << 20));
    }

    #[test]
    fn a_node_alone_is_a_network() {
        let matrix = LinkMatrix::new(1, vec![0.0], vec![1.0]).unwrap();
        assert_eq!(network(&matrix, &sites(&matrix)).len(), 1);
    }
}
