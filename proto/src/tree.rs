//! A broadcast tree over the nodes `0..n` of a group.
//!
//! A tree is kept in preorder together with the size of every subtree. So the subtree of any node
//! is a contiguous slice: a parent forwards to a child exactly the slice that the child needs, and
//! nothing is computed on the way. The order of a node's children is the order it sends in.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The largest group a tree can span: nodes are numbered in 16 bits.
pub const MAX_NODES: usize = u16::MAX as usize;

/// Why a description is not a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTree {
    #[error("a tree spans 1 to {MAX_NODES} nodes, not {0}")]
    Size(usize),
    #[error("node {0} is not below the number of nodes, {1}")]
    OutOfRange(usize, usize),
    #[error("node {0} does not hang below the root exactly once")]
    NotSpanning(usize),
    #[error("the subtree sizes contradict each other at position {0}")]
    Sizes(usize),
}

/// A spanning tree of the nodes `0..len()`; every node occurs exactly once.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Tree {
    /// Nodes in preorder, the root first.
    nodes: Vec<u16>,
    /// `sizes[i]` is the number of nodes in the subtree of `nodes[i]`, itself included.
    sizes: Vec<u16>,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    nodes: Vec<u16>,
    sizes: Vec<u16>,
}

impl TryFrom<Parts> for Tree {
    type Error = InvalidTree;

    fn try_from(parts: Parts) -> Result<Self, InvalidTree> {
        let Parts { nodes, sizes } = parts;
        check_shape(&nodes, &sizes)?;
        let mut seen = vec![false; nodes.len()];
        for &node in &nodes {
            let node = node as usize;
            let mark = seen.get_mut(node).ok_or(InvalidTree::OutOfRange(node, nodes.len()))?;
            if std::mem::replace(mark, true) {
                return Err(InvalidTree::NotSpanning(node));
            }
        }
        Ok(Tree { nodes, sizes })
    }
}

impl From<Tree> for Parts {
    fn from(tree: Tree) -> Self {
        Parts { nodes: tree.nodes, sizes: tree.sizes }
    }
}

/// Checks that `sizes` describes one properly nested tree in preorder.
fn check_shape(nodes: &[u16], sizes: &[u16]) -> Result<(), InvalidTree> {
    if nodes.is_empty() || nodes.len() > MAX_NODES || nodes.len() != sizes.len() {
        return Err(InvalidTree::Size(nodes.len()));
    }
    // The ends of the subtrees that are open at the current position, innermost last. A leaf's ends where
    // it begins, so that a message to a leaf takes no memory.
    let mut open: Vec<usize> = Vec::new();
    for (position, &size) in sizes.iter().enumerate() {
        while open.last() == Some(&position) {
            open.pop();
        }
        let end = position + size as usize;
        let limit = match open.last() {
            Some(&limit) => limit,
            None if position == 0 => nodes.len(),
            None => return Err(InvalidTree::Sizes(position)),
        };
        let spans_all = position > 0 || end == nodes.len();
        if size == 0 || end > limit || !spans_all {
            return Err(InvalidTree::Sizes(position));
        }
        if size > 1 {
            open.push(end);
        }
    }
    Ok(())
}

/// A binomial tree over `order`, whose first is its root: the farthest subtree, the largest, first.
pub fn binomial_over(order: &[usize], children: &mut [Vec<usize>]) {
    let len = order.len();
    for place in 0..len {
        let low_bit =
            if place == 0 { len.next_power_of_two() } else { place & place.wrapping_neg() };
        let mut step = low_bit / 2;
        while step > 0 {
            if place + step < len {
                children[order[place]].push(order[place + step]);
            }
            step /= 2;
        }
    }
}

impl Tree {
    /// The root sends to every other node itself, in increasing order.
    ///
    /// # Errors
    /// `Size` for a group without nodes or above [`MAX_NODES`], `OutOfRange` for the root.
    pub fn flat(len: usize, root: usize) -> Result<Self, InvalidTree> {
        let mut parents = vec![Some(root); len];
        *parents.get_mut(root).ok_or(InvalidTree::OutOfRange(root, len))? = None;
        Self::from_parents(&parents)
    }

    /// Each node joins a tree in which the count of informed nodes doubles each round, in the order of
    /// their indices from the root: the usual choice of MPIs for short messages.
    ///
    /// # Errors
    /// As [`Tree::flat`].
    pub fn binomial(len: usize, root: usize) -> Result<Self, InvalidTree> {
        if root >= len {
            return Err(InvalidTree::OutOfRange(root, len));
        }
        let order: Vec<usize> = (0..len).map(|i| (root + i) % len).collect();
        let mut children = vec![Vec::new(); len];
        binomial_over(&order, &mut children);
        Self::from_children(root, &children)
    }

    /// From the parent of each node, `None` for the root alone. Children are sent to in increasing
    /// order.
    ///
    /// # Errors
    /// Where the parents are not one tree.
    pub fn from_parents(parents: &[Option<usize>]) -> Result<Self, InvalidTree> {
        let len = parents.len();
        let mut children = vec![Vec::new(); len];
        let mut root = None;
        for (node, parent) in parents.iter().enumerate() {
            match *parent {
                Some(parent) if parent >= len => {
                    return Err(InvalidTree::OutOfRange(parent, len));
                }
                Some(parent) => children[parent].push(node),
                None if root.is_some() => return Err(InvalidTree::NotSpanning(node)),
                None => root = Some(node),
            }
        }
        Self::from_children(root.ok_or(InvalidTree::NotSpanning(0))?, &children)
    }

    /// From the children of each node in the order they are sent to.
    ///
    /// # Errors
    /// Where the lists are not one tree below `root`.
    pub fn from_children(root: usize, children: &[Vec<usize>]) -> Result<Self, InvalidTree> {
        let len = children.len();
        if len == 0 || len > MAX_NODES {
            return Err(InvalidTree::Size(len));
        }
        if root >= len {
            return Err(InvalidTree::OutOfRange(root, len));
        }
        let mut nodes: Vec<u16> = Vec::with_capacity(len);
        let mut sizes = vec![1u16; len];
        // Positions of the ancestors of the node to come, with how many of its children are done.
        let mut path: Vec<(usize, usize)> = vec![(0, 0)];
        let mut seen = vec![false; len];
        seen[root] = true;
        nodes.push(root as u16);
        while let Some((position, done)) = path.last_mut() {
            let (position, next) = (*position, children[nodes[*position] as usize].get(*done));
            *done += 1;
            match next {
                Some(&child) if child >= len => return Err(InvalidTree::OutOfRange(child, len)),
                Some(&child) if std::mem::replace(&mut seen[child], true) => {
                    return Err(InvalidTree::NotSpanning(child));
                }
                Some(&child) => {
                    path.push((nodes.len(), 0));
                    nodes.push(child as u16);
                }
                None => {
                    path.pop();
                    sizes[position] = (nodes.len() - position) as u16;
                }
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(node) => Err(InvalidTree::NotSpanning(node)),
            None => Ok(Tree { nodes, sizes }),
        }
    }

    /// The number of nodes.
    #[allow(clippy::len_without_is_empty)] // a tree is never empty
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn root(&self) -> usize {
        self.nodes[0] as usize
    }

    /// The whole tree as a subtree, for walking it.
    pub fn as_subtree(&self) -> Subtree<'_> {
        Subtree { nodes: &self.nodes, sizes: &self.sizes }
    }

    /// The parent of each node; `None` for the root.
    pub fn parents(&self) -> Vec<Option<usize>> {
        let mut parents = vec![None; self.len()];
        self.for_each_edge(|parent, child| parents[child] = Some(parent));
        parents
    }

    /// The children of each node in the order they are sent to.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.len()];
        self.for_each_edge(|parent, child| children[parent].push(child));
        children
    }

    /// Calls `edge(parent, child)` for every edge in preorder.
    pub fn for_each_edge(&self, mut edge: impl FnMut(usize, usize)) {
        let mut path: Vec<usize> = Vec::new();
        for position in 0..self.len() {
            while path.last().is_some_and(|&p| p + self.sizes[p] as usize <= position) {
                path.pop();
            }
            if let Some(&parent) = path.last() {
                edge(self.nodes[parent] as usize, self.nodes[position] as usize);
            }
            path.push(position);
        }
    }

    /// The nodes without children, in preorder.
    pub fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().zip(&self.sizes).filter(|(_, size)| **size == 1).map(|(n, _)| *n as usize)
    }

    /// The greatest number of edges between the root and a node.
    pub fn depth(&self) -> usize {
        let mut depths = vec![0usize; self.len()];
        self.for_each_edge(|parent, child| depths[child] = depths[parent] + 1);
        depths.into_iter().max().unwrap_or(0)
    }

    /// The nodes in preorder, the root first.
    pub fn preorder(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().map(|&node| node as usize)
    }
}

/// `0(1(2 3) 4)`: a node, then its children in brackets.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ends: Vec<usize> = Vec::new();
        for position in 0..self.len() {
            if position > 0 {
                let mut first_child = true;
                while ends.last() == Some(&position) {
                    ends.pop();
                    first_child = false;
                    f.write_str(")")?;
                }
                let previous_was_leaf = self.sizes[position - 1] == 1;
                if !first_child || previous_was_leaf {
                    f.write_str(" ")?;
                }
            }
            write!(f, "{}", self.nodes[position])?;
            if self.sizes[position] > 1 {
                f.write_str("(")?;
                ends.push(position + self.sizes[position] as usize);
            }
        }
        f.write_str(&")".repeat(ends.len()))
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tree({self})")
    }
}

/// A node with everything below it, borrowed from a [`Tree`] or from a received header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree<'a> {
    nodes: &'a [u16],
    sizes: &'a [u16],
}

impl<'a> Subtree<'a> {
    /// From preorder and subtree sizes as they came off the wire. Whether the nodes are those of
    /// the group is for the caller to check.
    ///
    /// # Errors
    /// Where the sizes are not one properly nested tree.
    pub fn new(nodes: &'a [u16], sizes: &'a [u16]) -> Result<Self, InvalidTree> {
        check_shape(nodes, sizes)?;
        Ok(Subtree { nodes, sizes })
    }

    pub fn root(&self) -> usize {
        self.nodes[0] as usize
    }

    /// The number of nodes, the subtree's root included.
    #[allow(clippy::len_without_is_empty)] // a subtree is never empty
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The subtrees of the root's children, in the order they are sent to.
    pub fn children(&self) -> impl Iterator<Item = Subtree<'a>> + use<'a> {
        let Subtree { nodes, sizes } = *self;
        let mut position = 1;
        std::iter::from_fn(move || {
            let size = *sizes.get(position)? as usize;
            let range = position..position + size;
            position += size;
            Some(Subtree { nodes: &nodes[range.clone()], sizes: &sizes[range] })
        })
    }

    /// The nodes without children.
    pub fn leaf_count(&self) -> usize {
        self.sizes.iter().filter(|&&size| size == 1).count()
    }

    /// Preorder and subtree sizes, as [`Subtree::new`] takes them.
    pub fn parts(&self) -> (&'a [u16], &'a [u16]) {
        (self.nodes, self.sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Any tree: node `i` hangs below an earlier one, then the nodes are renamed.
    fn any_tree() -> impl Strategy<Value = Tree> {
        (1usize..40)
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

    proptest! {
        #[test]
        fn parents_and_children_describe_the_same_tree(tree in any_tree()) {
            prop_assert_eq!(&Tree::from_parents(&tree.parents()).unwrap().parents(), &tree.parents());
            prop_assert_eq!(&Tree::from_children(tree.root(), &tree.children()).unwrap(), &tree);
            prop_assert_eq!(tree.leaves().count(), tree.as_subtree().leaf_count());
        }

        #[test]
        fn a_subtree_walk_visits_every_node_once(tree in any_tree()) {
            let mut order = Vec::new();
            let mut stack = vec![tree.as_subtree()];
            while let Some(subtree) = stack.pop() {
                order.push(subtree.root());
                prop_assert_eq!(1 + subtree.children().map(|c| c.len()).sum::<usize>(), subtree.len());
                let children: Vec<_> = subtree.children().collect();
                stack.extend(children.into_iter().rev());
            }
            prop_assert_eq!(order, tree.preorder().collect::<Vec<_>>());
        }

        #[test]
        fn any_parents_give_a_tree_or_an_error(
            parents in proptest::collection::vec(proptest::option::of(0usize..12), 0..12)
        ) {
            if let Ok(tree) = Tree::from_parents(&parents) {
                prop_assert_eq!(tree.parents(), parents);
            }
        }

        #[test]
        fn any_parts_give_a_tree_or_an_error(
            nodes in proptest::collection::vec(0u16..8, 0..8),
            sizes in proptest::collection::vec(0u16..9, 0..8),
        ) {
            if let Ok(tree) = Tree::try_from(Parts { nodes, sizes }) {
                prop_assert_eq!(Tree::from_parents(&tree.parents()).unwrap().len(), tree.len());
            }
        }
    }

    #[test]
    fn reads_as_nested_brackets() {
        let tree = Tree::from_children(0, &[vec![1, 4], vec![2, 3], vec![], vec![], vec![]]);
        assert_eq!(tree.unwrap().to_string(), "0(1(2 3) 4)");
        assert_eq!(Tree::flat(4, 2).unwrap().to_string(), "2(0 1 3)");
        assert_eq!(Tree::flat(1, 0).unwrap().to_string(), "0");
    }

    #[test]
    fn a_cycle_is_refused() {
        let parents = [None, Some(2), Some(1)];
        assert!(matches!(Tree::from_parents(&parents), Err(InvalidTree::NotSpanning(_))));
    }
}
