//! Which nodes are close to each other: single-linkage clusters, cut where the gap is widest.
//!
//! MagPIe (T. Kielmann et al., 1999) takes the clusters as configured; here they come from what was
//! measured, as in R. Gupta and S. S. Vadhiyar, "Application-oriented adaptive MPI_Bcast for grids", 2006,
//! whose clusters change with the network.

use std::ops::Range;

/// Two groups of nodes are kept apart where the next merge takes a distance at least this many times
/// that of the last one; smaller steps are the scatter of one kind of link.
const MIN_GAP: f64 = 4.0;
/// For one-way latencies, in seconds: below the first they don't differ for a planner, above the second
/// they are not those of one site.
pub const LATENCIES_S: Range<f64> = 20e-6..1e-3;

/// The cluster of each of `len` nodes, numbered in the order of their first nodes. `distance` is
/// symmetric and non-negative. Clusters are what is left when the widest gap between the distances
/// of a minimum spanning tree (in ratio) is not crossed; where no gap is wide, all nodes are one
/// cluster if they are nearer than the end of `range`, or else each is its own. Distances below its start
/// count as that.
pub fn clusters(
    len: usize,
    range: Range<f64>,
    distance: impl Fn(usize, usize) -> f64,
) -> Vec<usize> {
    let edges = minimum_spanning_tree(len, &distance);
    let mut lengths: Vec<f64> = edges.iter().map(|edge| edge.2.max(range.start)).collect();
    lengths.sort_by(f64::total_cmp);
    let gap = |i: usize| lengths[i + 1] / lengths[i];
    let widest = (0..lengths.len().saturating_sub(1))
        .filter(|&i| gap(i) >= MIN_GAP)
        .max_by(|&a, &b| gap(a).total_cmp(&gap(b)));
    let cut = match widest {
        Some(i) => (lengths[i] * lengths[i + 1]).sqrt(),
        None => range.end,
    };
    components(len, edges.iter().filter(|edge| edge.2 < cut).map(|edge| (edge.0, edge.1)))
}

/// Clusters inside clusters: for each gap in the distances one level, the coarsest first. Every level
/// divides the clusters of the one before.
pub fn levels(
    len: usize,
    range: Range<f64>,
    distance: impl Fn(usize, usize) -> f64,
) -> Vec<Vec<usize>> {
    let edges = minimum_spanning_tree(len, &distance);
    let mut lengths: Vec<f64> = edges.iter().map(|edge| edge.2.max(range.start)).collect();
    lengths.sort_by(f64::total_cmp);
    let gaps = lengths.windows(2).rev().filter(|pair| pair[1] / pair[0] >= MIN_GAP);
    gaps.map(|pair| {
        let cut = (pair[0] * pair[1]).sqrt();
        components(len, edges.iter().filter(|edge| edge.2 < cut).map(|edge| (edge.0, edge.1)))
    })
    .collect()
}

/// Prim's algorithm on a complete graph: `len − 1` edges.
fn minimum_spanning_tree(
    len: usize,
    distance: &impl Fn(usize, usize) -> f64,
) -> Vec<(usize, usize, f64)> {
    let mut nearest: Vec<(f64, usize)> = vec![(f64::INFINITY, 0); len];
    let mut open: Vec<usize> = (1..len).collect();
    let mut edges = Vec::with_capacity(len.saturating_sub(1));
    let mut last = 0;
    while !open.is_empty() {
        for &node in &open {
            let d = distance(last, node);
            if d < nearest[node].0 {
                nearest[node] = (d, last);
            }
        }
        let next = (0..open.len())
            .min_by(|&a, &b| nearest[open[a]].0.total_cmp(&nearest[open[b]].0))
            .unwrap_or(0);
        last = open.swap_remove(next);
        edges.push((nearest[last].1, last, nearest[last].0));
    }
    edges
}

/// Numbers the connected components of `0..len` in the order of their first nodes.
fn components(len: usize, edges: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut leader: Vec<usize> = (0..len).collect();
    fn find(leader: &mut [usize], mut node: usize) -> usize {
        while leader[node] != node {
            leader[node] = leader[leader[node]];
            node = leader[node];
        }
        node
    }
    for (a, b) in edges {
        let (a, b) = (find(&mut leader, a), find(&mut leader, b));
        leader[a.max(b)] = a.min(b);
    }
    let mut number = vec![usize::MAX; len];
    let mut count = 0;
    (0..len)
        .map(|node| {
            let leader = find(&mut leader, node);
            if number[leader] == usize::MAX {
                number[leader] = count;
                count += 1;
            }
            number[leader]
        })
        .collect()
}

/// The number of each label, in the order in which different ones first come, and these.
pub fn numbered<T: PartialEq>(labels: impl IntoIterator<Item = T>) -> (Vec<usize>, Vec<T>) {
    let mut seen: Vec<T> = Vec::new();
    let mut number = |label: T| {
        seen.iter().position(|known| *known == label).unwrap_or_else(|| {
            seen.push(label);
            seen.len() - 1
        })
    };
    let numbers = labels.into_iter().map(&mut number).collect();
    (numbers, seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;

    #[test]
    fn the_sites_of_the_mesh_are_found_by_latency() {
        let mesh = grids::four_site_mesh();
        let found = clusters(16, LATENCIES_S, |a, b| mesh.latency_s(a, b));
        assert_eq!(found, (0..16).map(|node| node / 4).collect::<Vec<_>>());
        assert_eq!(levels(16, LATENCIES_S, |a, b| mesh.latency_s(a, b)), vec![found]);
    }

    #[test]
    fn without_a_gap_nodes_are_together_or_apart() {
        assert_eq!(clusters(3, LATENCIES_S, |_, _| 1e-4), vec![0, 0, 0]);
        assert_eq!(clusters(3, LATENCIES_S, |_, _| 1e-2), vec![0, 1, 2]);
        assert_eq!(clusters(1, LATENCIES_S, |_, _| 0.0), vec![0]);
        assert_eq!(clusters(2, LATENCIES_S, |_, _| 1e-4), vec![0, 0]);
    }
}
