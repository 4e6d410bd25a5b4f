//! `trans(a, b)`, the single step by which a search moves from one tree to the next one.
//!
//! R. Gupta and S. Vadhiyar ("MPI collective communications for grids") draw it and don't define it. The
//! reading taken here: `b`,
//! with its subtree, becomes the last child of `a`. Where `a` lies below `b`, `a` is first lifted,
//! with its own subtree, to take a place below `b`'s parent, directly behind `b`, so that no cycle
//! can arise. The root never moves. `trans(parent of b, b)` leaves the parents as they are and makes
//! `b` the last to be sent to; so every tree in every order of sending can be reached.

use arborcast_proto::Tree;

/// `None` where `b` is the root, `a` is `b`, or nothing would change.
///
/// # Panics
/// Where `a` or `b` is not a node of the tree.
pub fn transform(tree: &Tree, a: usize, b: usize) -> Option<Tree> {
    let parents = tree.parents();
    let parent_of_b = parents[b]?;
    let mut children = tree.children();
    if a == b || (parent_of_b == a && children[a].last() == Some(&b)) {
        return None;
    }
    let mut above = parents[a];
    while let Some(node) = above {
        if node == b {
            break;
        }
        above = parents[node];
    }
    if above == Some(b) {
        let parent_of_a = parents[a]?;
        children[parent_of_a].retain(|&child| child != a);
        let place = children[parent_of_b].iter().position(|&child| child == b)?;
        children[parent_of_b].insert(place + 1, a);
    }
    children[parent_of_b].retain(|&child| child != b);
    children[a].push(b);
    let moved = Tree::from_children(tree.root(), &children);
    Some(moved.expect("moving a subtree below a node outside it keeps a tree"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trees::samples::any_tree;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_transformed_tree_is_valid_and_hangs_b_below_a(
            tree in any_tree(30), a in 0usize..30, b in 0usize..30
        ) {
            let (a, b) = (a % tree.len(), b % tree.len());
            if let Some(moved) = transform(&tree, a, b) {
                prop_assert_eq!(moved.root(), tree.root());
                prop_assert_eq!(moved.parents()[b], Some(a));
                prop_assert_eq!(moved.children()[a].last().copied(), Some(b));
                prop_assert_ne!(&moved, &tree);
                prop_assert!(Tree::from_children(moved.root(), &moved.children()).is_ok());
            } else {
                let last = tree.children()[a].last() == Some(&b);
                prop_assert!(b == tree.root() || a == b || last);
            }
        }
    }

    #[test]
    fn the_authors_picture() {
        let tree = Tree::from_children(0, &[vec![1], vec![2, 4], vec![3], vec![], vec![]]).unwrap();
        assert_eq!(tree.to_string(), "0(1(2(3) 4))");
        assert_eq!(transform(&tree, 2, 4).unwrap().to_string(), "0(1(2(3 4)))");
        // 3 lies below 1: it is lifted to 0, then takes 1 with what is left below it.
        assert_eq!(transform(&tree, 3, 1).unwrap().to_string(), "0(3(1(2 4)))");
        assert_eq!(transform(&tree, 1, 2).unwrap().to_string(), "0(1(4 2(3)))");
        assert_eq!(transform(&tree, 1, 0), None);
        assert_eq!(transform(&tree, 1, 4), None);
    }
}
