//! What several modules' tests draw on.

use arborcast_proto::Tree;
use proptest::prelude::*;

/// Any tree of at most `max` nodes: node `i` hangs below an earlier one, then the nodes are renamed.
pub fn any_tree(max: usize) -> impl Strategy<Value = Tree> {
    (1..=max)
        .prop_flat_map(|n| {
            let parents: Vec<_> = (0..n).map(|i| 0..i.max(1)).collect();
            (parents, Just((0..n).collect::<Vec<usize>>()).prop_shuffle())
        })
        .prop_map(|(parents, names)| {
            let mut named = vec![None; names.len()];
            for i in 1..names.len() {
                named[names[i]] = Some(names[parents[i]]);
            }
            Tree::from_parents(&named).unwrap()
        })
}

/// Visits the sites in order along a chain from first node to first node; inside each site its nodes
/// hang below each other, behind the next site in the order of sending.
pub fn chains_between_sites(sites: &[usize], nodes_per_site: usize) -> Tree {
    let mut children = vec![Vec::new(); sites.len() * nodes_per_site];
    for (i, &site) in sites.iter().enumerate() {
        let first = site * nodes_per_site;
        if let Some(next) = sites.get(i + 1) {
            children[first].push(next * nodes_per_site);
        }
        for node in first + 1..first + nodes_per_site {
            children[node - 1].push(node);
        }
    }
    Tree::from_children(sites[0] * nodes_per_site, &children).unwrap()
}
