//! Where the messages of a group's broadcasts travel, their tags, and which ranks pass what to whom.

use crate::pmpi::{Comm, MpiError};
use arborcast_proto::MAX_STRIPES;
use std::cell::RefCell;
use std::ffi::c_int;

pub(super) const TAG_HEADER: u32 = 0;
pub(super) const TAG_ACK: u32 = 1;
pub(super) const TAG_FIRST_STRIPE: u32 = 2;
const TAGS_PER_BROADCAST: u32 = TAG_FIRST_STRIPE + MAX_STRIPES as u32;

/// A header as it came, perhaps while this rank waited for that of an earlier broadcast.
pub(super) struct EarlyHeader {
    pub source: c_int,
    /// How many bytes of the message came.
    pub bytes: usize,
    pub message: Vec<u8>,
}

impl EarlyHeader {
    pub fn bytes(&self) -> &[u8] {
        &self.message[..self.bytes]
    }
}

/// The communicator that our messages travel on, and where its ranks are.
pub struct Channel {
    pub(super) comm: Comm,
    /// Sequence numbers are counted modulo this in tags.
    sequences: u32,
    /// The node of each rank.
    node_of_rank: Vec<u16>,
    /// The rank that takes part in trees for each node, unless it is the root's node.
    leaders: Vec<c_int>,
    own_rank: c_int,
    /// The ranks of this rank's node, in their order.
    node_ranks: Vec<c_int>,
    pub(super) early: RefCell<Vec<EarlyHeader>>,
}

impl Channel {
    /// `comm` must carry nothing but this channel's messages; `node_of_rank` has the group's node of
    /// each of its ranks, every node at least once.
    ///
    /// # Errors
    /// Where MPI does not tell its largest tag.
    pub fn new(comm: Comm, node_of_rank: Vec<u16>) -> Result<Self, MpiError> {
        let largest_tag = comm.tag_upper_bound()?;
        Self::with_tags(comm, node_of_rank, largest_tag)
    }

    /// As [`Channel::new`], where tags above `largest_tag` may not be used.
    ///
    /// # Errors
    /// Where MPI does not tell the own rank.
    pub fn with_tags(
        comm: Comm,
        node_of_rank: Vec<u16>,
        largest_tag: u32,
    ) -> Result<Self, MpiError> {
        let own_rank = comm.rank()?;
        let nodes = node_of_rank.iter().max().map_or(0, |&last| usize::from(last) + 1);
        let mut leaders = vec![-1; nodes];
        for (rank, &node) in node_of_rank.iter().enumerate().rev() {
            leaders[usize::from(node)] = rank as c_int;
        }
        let own_node = node_of_rank.get(own_rank).copied().unwrap_or(0);
        let ranks = node_of_rank.iter().enumerate();
        let node_ranks = ranks.filter(|(_, node)| **node == own_node);
        let node_ranks = node_ranks.map(|(rank, _)| rank as c_int).collect();
        Ok(Channel {
            comm,
            sequences: (largest_tag / TAGS_PER_BROADCAST).max(1),
            node_of_rank,
            leaders,
            own_rank: own_rank as c_int,
            node_ranks,
            early: RefCell::default(),
        })
    }

    pub fn nodes(&self) -> usize {
        self.leaders.len()
    }

    pub fn node_of(&self, rank: usize) -> usize {
        usize::from(self.node_of_rank[rank])
    }

    pub fn own_rank(&self) -> usize {
        self.own_rank as usize
    }

    /// The rank that takes part for a node where another than the root's own is meant.
    pub fn leader(&self, node: usize) -> c_int {
        self.leaders[node]
    }

    pub fn comm(&self) -> Comm {
        self.comm
    }

    pub(super) fn own_node(&self) -> u16 {
        self.node_of_rank[self.own_rank as usize]
    }

    /// Whether this rank takes part in the tree for its node, in a broadcast from this rank.
    pub(super) fn is_in_tree(&self, root_rank: c_int) -> bool {
        self.participant(root_rank) == self.own_rank
    }

    fn participant(&self, root_rank: c_int) -> c_int {
        let is_here = self.node_of_rank[root_rank as usize] == self.own_node();
        if is_here { root_rank } else { self.leaders[usize::from(self.own_node())] }
    }

    /// The ranks of this node to which this one passes the message on: the children in a binary tree
    /// whose first is the rank that takes part for the node. A node's ranks share in this way, and not
    /// by a broadcast of the MPI's on a communicator of the node's, so that a managed communicator
    /// takes one of the MPI's contexts and pieces go on while others come.
    pub(super) fn local_children(&self, root_rank: c_int) -> impl Iterator<Item = c_int> + '_ {
        let participant = self.participant(root_rank);
        let order = self.node_ranks.iter().copied().filter(move |&rank| rank != participant);
        let order = std::iter::once(participant).chain(order);
        let place = order.clone().position(|rank| rank == self.own_rank).unwrap_or(0);
        order.skip(2 * place + 1).take(2)
    }

    pub(super) fn tag(&self, sequence: u32, kind: u32) -> c_int {
        ((sequence % self.sequences) * TAGS_PER_BROADCAST + kind) as c_int
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn channel(own_rank: c_int) -> Channel {
        // Node 0 has ranks 0, 2, 3, 5, 6; node 1 the others.
        let node_of_rank = vec![0, 1, 0, 0, 1, 0, 0];
        let own_node = node_of_rank[own_rank as usize];
        let node_ranks = (0..7).filter(|&rank| node_of_rank[rank as usize] == own_node).collect();
        Channel {
            comm: Comm(0),
            sequences: 4,
            node_of_rank,
            leaders: vec![0, 1],
            own_rank,
            node_ranks,
            early: RefCell::default(),
        }
    }

    #[test]
    fn every_rank_of_a_node_is_the_child_of_one_other() {
        for root in 0..7 {
            let mut reached = vec![0; 7];
            for rank in 0..7 {
                let channel = channel(rank);
                reached[rank as usize] += u32::from(channel.is_in_tree(root));
                channel.local_children(root).for_each(|child| reached[child as usize] += 1);
            }
            assert_eq!(reached, [1; 7], "root {root}");
            assert!(channel(root).is_in_tree(root), "a root takes part itself");
        }
    }

    #[test]
    fn tags_stay_within_what_the_mpi_allows_and_differ() {
        let channel = channel(0);
        let kinds = 0..TAG_FIRST_STRIPE + MAX_STRIPES as u32;
        let tags = |sequence| kinds.clone().map(move |kind| (sequence, kind));
        let tag = |(sequence, kind)| channel.tag(sequence, kind);
        let allowed = 0..4 * TAGS_PER_BROADCAST as c_int;
        assert!((0..100).flat_map(tags).map(tag).all(|tag| allowed.contains(&tag)));
        let different: HashSet<c_int> = (0..4).flat_map(tags).map(tag).collect();
        assert_eq!(different.len(), 4 * kinds.len());
    }
}
