//! The classical trees that a search is compared with, and may start from.

use arborcast_proto::{Tree, binomial_over};

/// [`Tree::binomial`].
///
/// # Panics
/// Where `root` is not below `len`, or `len` is more than a tree can span.
pub fn binomial(len: usize, root: usize) -> Tree {
    Tree::binomial(len, root).expect("the root is a node")
}

/// The root sends to its successor, that to the next one, and so on.
///
/// # Panics
/// As [`binomial`].
pub fn chain(len: usize, root: usize) -> Tree {
    let mut children = vec![Vec::new(); len];
    for i in 1..len {
        children[(root + i - 1) % len].push((root + i) % len);
    }
    build(root, &children)
}

/// The root sends to every node itself.
///
/// # Panics
/// As [`binomial`].
pub fn flat(len: usize, root: usize) -> Tree {
    Tree::flat(len, root).expect("the root is a node")
}

/// MagPIe's wide-area tree (T. Kielmann et al., "MagPIe: MPI's collective communication operations for
/// clustered wide area systems", PPoPP 1999): the root sends to one coordinator a site,
/// each of which broadcasts inside its site along a binomial tree. `site_of` names the site of each
/// node.
///
/// # Panics
/// As [`binomial`].
pub fn magpie(site_of: &[usize], root: usize) -> Tree {
    multilevel(&[site_of.to_vec()], root)
}

/// The multilevel trees of MPICH-G2 (N. Karonis et al., "Exploiting hierarchy in parallel computer networks
/// to optimize collective operation performance", IPDPS 2000): flat between the clusters of the
/// coarsest level, where latency rules; binomial below. `levels` has, coarsest first, the cluster of
/// each node; each level divides the clusters of the one before. Slow links come first in the order
/// of sending.
///
/// # Panics
/// As [`binomial`], and where `levels` is empty.
pub fn multilevel(levels: &[Vec<usize>], root: usize) -> Tree {
    let len = levels[0].len();
    let mut children = vec![Vec::new(); len];
    let mut everyone: Vec<usize> = (0..len).collect();
    everyone.swap(0, root);
    descend(&everyone, levels, true, &mut children);
    build(root, &children)
}

/// Connects `nodes`, whose first is informed: its coordinators first, then each cluster's inside.
fn descend(nodes: &[usize], levels: &[Vec<usize>], coarsest: bool, children: &mut [Vec<usize>]) {
    let Some((level, finer)) = levels.split_first() else {
        return binomial_over(nodes, children);
    };
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &node in nodes {
        match groups.iter_mut().find(|group| level[group[0]] == level[node]) {
            Some(group) => group.push(node),
            None => groups.push(vec![node]),
        }
    }
    let coordinators: Vec<usize> = groups.iter().map(|group| group[0]).collect();
    if coarsest {
        children[coordinators[0]].extend(&coordinators[1..]);
    } else {
        binomial_over(&coordinators, children);
    }
    for group in groups {
        descend(&group, finer, false, children);
    }
}

pub(crate) fn build(root: usize, children: &[Vec<usize>]) -> Tree {
    Tree::from_children(root, children).expect("every node was given one parent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn trees_as_drawn_in_textbooks() {
        assert_eq!(binomial(8, 0).to_string(), "0(4(6(7) 5) 2(3) 1)");
        assert_eq!(chain(3, 1).to_string(), "1(2(0))");
        assert_eq!(magpie(&[0, 0, 1, 1, 2, 2], 1).to_string(), "1(2(3) 4(5) 0)");
        let coarse = vec![0, 0, 0, 0, 1, 1];
        let fine = vec![0, 0, 1, 1, 2, 2];
        assert_eq!(multilevel(&[coarse, fine], 0).to_string(), "0(4(5) 2(3) 1)");
    }

    proptest! {
        #[test]
        fn every_baseline_spans_every_group(
            sites in proptest::collection::vec(0usize..5, 1..60), root in 0usize..60
        ) {
            let (len, root) = (sites.len(), root % sites.len());
            for tree in [flat(len, root), binomial(len, root), chain(len, root), magpie(&sites, root)] {
                prop_assert_eq!((tree.len(), tree.root()), (len, root));
            }
            // A binomial tree of 2^k nodes has k rounds.
            prop_assert!(binomial(len, root).depth() <= len.ilog2() as usize + 1);
        }

        #[test]
        fn magpie_enters_each_site_once(
            sites in proptest::collection::vec(0usize..5, 1..60), root in 0usize..60
        ) {
            let root = root % sites.len();
            let mut entered = [0; 5];
            magpie(&sites, root).for_each_edge(|from, to| {
                if sites[from] != sites[to] {
                    entered[sites[to]] += 1;
                    assert_eq!(from, root);
                }
            });
            for (site, entered) in entered.into_iter().enumerate() {
                let expected = usize::from(sites.contains(&site) && sites[root] != site);
                prop_assert_eq!(entered, expected);
            }
        }
    }
}
