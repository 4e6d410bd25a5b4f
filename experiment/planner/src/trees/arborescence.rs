//! The cheapest tree of directed edges from a root to all vertices of a complete graph (Y. J. Chu, T. H.
//! Liu, "On the shortest arborescence of a directed graph", 1965; J. Edmonds, "Optimum branchings", 1967).

/// The parent of each vertex of the cheapest arborescence, `None` for `root`. `cost(from, to)` is
/// finite and not negative.
pub fn cheapest(len: usize, root: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<Option<usize>> {
    let costs: Vec<f64> = (0..len * len).map(|i| cost(i / len, i % len)).collect();
    // The original edge that each cell stands for; cycles are contracted below.
    let edges: Vec<(u32, u32)> =
        (0..len * len).map(|i| ((i / len) as u32, (i % len) as u32)).collect();
    let mut parents = vec![None; len];
    for (from, to) in contract(len, root, costs, edges) {
        parents[to as usize] = Some(from as usize);
    }
    parents
}

/// The original edges of the cheapest arborescence of a dense graph.
fn contract(len: usize, root: usize, costs: Vec<f64>, edges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    let cheapest_into: Vec<usize> = (0..len)
        .map(|to| {
            let from = (0..len).filter(|&from| from != to);
            from.min_by(|&a, &b| costs[a * len + to].total_cmp(&costs[b * len + to])).unwrap_or(to)
        })
        .collect();
    let Some(cycle) = find_cycle(len, root, &cheapest_into) else {
        let others = (0..len).filter(|&to| to != root);
        return others.map(|to| edges[cheapest_into[to] * len + to]).collect();
    };
    let mut in_cycle = vec![false; len];
    cycle.iter().for_each(|&vertex| in_cycle[vertex] = true);
    // The vertices outside keep their order; the cycle becomes the last vertex.
    let outside: Vec<usize> = (0..len).filter(|&vertex| !in_cycle[vertex]).collect();
    let small = outside.len() + 1;
    let merged = small - 1;
    let mut small_costs = vec![f64::INFINITY; small * small];
    let mut small_edges = vec![(0, 0); small * small];
    // Where a contracted edge enters the cycle.
    let mut entry = vec![usize::MAX; small];
    for (i, &from) in outside.iter().enumerate() {
        for (j, &to) in outside.iter().enumerate() {
            small_costs[i * small + j] = costs[from * len + to];
            small_edges[i * small + j] = edges[from * len + to];
        }
        for &vertex in &cycle {
            let saved = costs[cheapest_into[vertex] * len + vertex];
            let entering = costs[from * len + vertex] - saved;
            if entering < small_costs[i * small + merged] {
                small_costs[i * small + merged] = entering;
                small_edges[i * small + merged] = edges[from * len + vertex];
                entry[i] = vertex;
            }
            if costs[vertex * len + from] < small_costs[merged * small + i] {
                small_costs[merged * small + i] = costs[vertex * len + from];
                small_edges[merged * small + i] = edges[vertex * len + from];
            }
        }
    }
    let small_root = outside.iter().position(|&vertex| vertex == root).unwrap_or(merged);
    let into_cycle: Vec<(u32, u32)> =
        (0..merged).map(|i| small_edges[i * small + merged]).collect();
    let mut chosen = contract(small, small_root, small_costs, small_edges);
    let entered = (0..merged).find(|&i| chosen.contains(&into_cycle[i]));
    let broken = entered.map(|i| entry[i]);
    let kept = cycle.iter().filter(|&&vertex| Some(vertex) != broken);
    chosen.extend(kept.map(|&vertex| edges[cheapest_into[vertex] * len + vertex]));
    chosen
}

/// A cycle of the cheapest edges, if there is one.
fn find_cycle(len: usize, root: usize, cheapest_into: &[usize]) -> Option<Vec<usize>> {
    // The walk on which a vertex was first seen.
    let mut walk = vec![usize::MAX; len];
    walk[root] = usize::MAX - 1;
    for start in 0..len {
        let mut vertex = start;
        while walk[vertex] == usize::MAX {
            walk[vertex] = start;
            vertex = cheapest_into[vertex];
        }
        if walk[vertex] == start && vertex != root {
            let mut cycle = vec![vertex];
            let mut next = cheapest_into[vertex];
            while next != vertex {
                cycle.push(next);
                next = cheapest_into[next];
            }
            return Some(cycle);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::Tree;
    use proptest::prelude::*;

    fn total(parents: &[Option<usize>], costs: &[f64]) -> f64 {
        let len = parents.len();
        parents.iter().enumerate().filter_map(|(to, from)| Some(costs[(*from)? * len + to])).sum()
    }

    proptest! {
        #[test]
        fn no_tree_is_cheaper(
            len in 2usize..6, root in 0usize..6, costs in proptest::collection::vec(0u8..20, 36)
        ) {
            let root = root % len;
            let costs: Vec<f64> = costs.into_iter().map(f64::from).collect();
            let found = cheapest(len, root, |from, to| costs[from * len + to]);
            prop_assert_eq!(Tree::from_parents(&found).map(|tree| tree.root()), Ok(root));
            let mut least = f64::INFINITY;
            for code in 0..len.pow(len as u32 - 1) {
                let mut code = code;
                let mut parents = vec![None; len];
                for to in (0..len).filter(|&to| to != root) {
                    parents[to] = Some(code % len);
                    code /= len;
                }
                if Tree::from_parents(&parents).is_ok() {
                    least = least.min(total(&parents, &costs));
                }
            }
            prop_assert_eq!(total(&found, &costs), least);
        }
    }
}
