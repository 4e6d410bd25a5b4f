//! The nodes a communicator spans, under a name that every process computes alike.

use crate::MAX_NODES;
use crate::codec::checksum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A node's name: 1 to 63 bytes of printable ASCII without blanks, as host names are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(String);

/// Why names are not a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGroup {
    #[error("a node name has 1 to 63 printable characters without blanks: {0:?}")]
    Name(String),
    #[error("node {0} is named twice")]
    Twice(String),
    #[error("a group has 1 to {MAX_NODES} nodes, not {0}")]
    Size(usize),
}

impl NodeName {
    pub const MAX_BYTES: usize = 63;

    /// # Errors
    /// `Name` where it is empty, too long or not printable.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidGroup> {
        let name = name.into();
        let fits = (1..=Self::MAX_BYTES).contains(&name.len());
        if fits && name.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(NodeName(name))
        } else {
            Err(InvalidGroup::Name(name))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NodeName {
    type Error = InvalidGroup;

    fn try_from(name: String) -> Result<Self, InvalidGroup> {
        NodeName::new(name)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Names a group in the segments and on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupHash(pub u64);

impl fmt::Display for GroupHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A set of nodes in the order of their names, so that two communicators over the same nodes share
/// their plans however their ranks are ordered. A node's index is its place in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<NodeName>", into = "Vec<NodeName>")]
pub struct Group {
    nodes: Vec<NodeName>,
}

impl Group {
    /// # Errors
    /// `Twice` where a name occurs again, `Size` where there are none or too many.
    pub fn new(mut nodes: Vec<NodeName>) -> Result<Self, InvalidGroup> {
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            return Err(InvalidGroup::Size(nodes.len()));
        }
        nodes.sort();
        match nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(InvalidGroup::Twice(pair[0].to_string())),
            None => Ok(Group { nodes }),
        }
    }

    pub fn nodes(&self) -> &[NodeName] {
        &self.nodes
    }

    #[allow(clippy::len_without_is_empty)] // a group is never empty
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn index_of(&self, name: &NodeName) -> Option<usize> {
        self.nodes.binary_search(name).ok()
    }

    /// The place of each of its nodes in another group; `None` where that has not all of them.
    pub fn places_in(&self, other: &Group) -> Option<Vec<usize>> {
        self.nodes.iter().map(|node| other.index_of(node)).collect()
    }

    /// The checksum of the names, each ended by a zero byte.
    pub fn hash(&self) -> GroupHash {
        GroupHash(checksum(self.nodes.iter().flat_map(|name| name.0.bytes().chain([0]))))
    }
}

impl TryFrom<Vec<NodeName>> for Group {
    type Error = InvalidGroup;

    fn try_from(nodes: Vec<NodeName>) -> Result<Self, InvalidGroup> {
        Group::new(nodes)
    }
}

impl From<Group> for Vec<NodeName> {
    fn from(group: Group) -> Self {
        group.nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(names: &[&str]) -> Result<Group, InvalidGroup> {
        Group::new(names.iter().map(|&n| NodeName::new(n)).collect::<Result<_, _>>()?)
    }

    #[test]
    fn the_order_of_ranks_does_not_matter() {
        let (a, b) = (group(&["n1", "n0"]).unwrap(), group(&["n0", "n1"]).unwrap());
        assert_eq!(a.hash(), b.hash());
        assert_eq!(a.index_of(&NodeName::new("n1").unwrap()), Some(1));
        assert_ne!(a.hash(), group(&["n0", "n1", "n2"]).unwrap().hash());
    }

    #[test]
    fn unusable_names_are_refused() {
        assert!(matches!(group(&["a b"]), Err(InvalidGroup::Name(_))));
        assert!(matches!(group(&[""]), Err(InvalidGroup::Name(_))));
        assert!(matches!(group(&["a", "a"]), Err(InvalidGroup::Twice(_))));
        assert!(matches!(group(&[]), Err(InvalidGroup::Size(0))));
    }
}
