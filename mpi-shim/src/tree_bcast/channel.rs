//! Where the messages of a group's broadcasts travel, their tags, and which ranks pass what to whom.

use crate::header::{self, sequence_of};
use crate::pmpi::{Comm, MpiError};
use arborcast_proto::MAX_STRIPES;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// A communicator that carries nothing but the messages of channels. Copies are of the same.
#[derive(Clone)]
pub struct Carrier {
    comm: Comm,
    /// Numbers of broadcasts are counted modulo this in tags.
    numbers: u64,
    /// Of any channel's header.
    most_header_bytes: usize,
    /// Whatever channel they belong to: which one it is shows when a rank receives on it.
    early: Arc<Mutex<Vec<EarlyHeader>>>,
}

impl Carrier {
    /// For channels of groups of up to `most_nodes`. `comm` must carry nothing else.
    ///
    /// # Errors
    /// Where MPI does not tell its largest tag.
    pub fn new(comm: Comm, most_nodes: usize) -> Result<Self, MpiError> {
        Ok(Self::with_tags(comm, most_nodes, comm.tag_upper_bound()?))
    }

    /// As [`Carrier::new`], where tags above `largest_tag` may not be used.
    pub fn with_tags(comm: Comm, most_nodes: usize, largest_tag: u32) -> Self {
        Carrier {
            comm,
            numbers: u64::from(largest_tag / TAGS_PER_BROADCAST).max(1),
            most_header_bytes: header::max_bytes(most_nodes),
            early: Arc::default(),
        }
    }

    /// Of all ranks of the communicator; `node_of_rank` has the group's node of each, every node at least once.
    ///
    /// # Errors
    /// Where MPI does not tell the own rank.
    pub fn channel(self, node_of_rank: &[u16]) -> Result<Channel, MpiError> {
        let members: Vec<c_int> = (0..node_of_rank.len() as c_int).collect();
        self.channel_of(members, node_of_rank)
    }

    /// Of `members`, in the order in which a program numbers them; `node_of_member` has the group's node of each,
    /// every node at least once.
    ///
    /// # Errors
    /// Where MPI does not tell the own rank.
    pub fn channel_of(
        self,
        members: Vec<c_int>,
        node_of_member: &[u16],
    ) -> Result<Channel, MpiError> {
        let own_rank = self.comm.rank()? as c_int;
        Ok(Channel::new(self, own_rank, members, node_of_member))
    }
}

/// What carries the messages of a group's broadcasts, and where its ranks are. Ranks are those of the carrier,
/// unless a program's are spoken of.
pub struct Channel {
    carrier: Carrier,
    /// The carrier's rank of each of the program's.
    members: Vec<c_int>,
    /// The node of each rank; of ranks that are no members any.
    node_of_rank: Vec<u16>,
    /// The rank that takes part in trees for each node, unless it is the root's node.
    leaders: Vec<c_int>,
    own_rank: c_int,
    /// The ranks of this rank's node, in their order.
    node_ranks: Vec<c_int>,
}

impl Channel {
    fn new(carrier: Carrier, own_rank: c_int, members: Vec<c_int>, node_of_member: &[u16]) -> Self {
        let nodes = node_of_member.iter().max().map_or(0, |&last| usize::from(last) + 1);
        let ranks = members.iter().max().map_or(0, |&last| last as usize + 1);
        let (mut leaders, mut node_of_rank) = (vec![-1; nodes], vec![0; ranks]);
        for (&rank, &node) in members.iter().zip(node_of_member).rev() {
            leaders[usize::from(node)] = rank;
            node_of_rank[rank as usize] = node;
        }
        let own_node = node_of_rank.get(own_rank as usize).copied().unwrap_or(0);
        let is_here = |rank: &c_int| node_of_rank[*rank as usize] == own_node;
        let node_ranks = members.iter().copied().filter(is_here).collect();
        Channel { carrier, members, node_of_rank, leaders, own_rank, node_ranks }
    }

    pub fn nodes(&self) -> usize {
        self.leaders.len()
    }

    /// The rank that the program knows under `number`.
    pub fn member(&self, number: usize) -> c_int {
        self.members[number]
    }

    pub fn node_of(&self, rank: c_int) -> usize {
        usize::from(self.node_of_rank[rank as usize])
    }

    pub fn own_rank(&self) -> c_int {
        self.own_rank
    }

    /// The rank that takes part for a node where another than the root's own is meant.
    pub fn leader(&self, node: usize) -> c_int {
        self.leaders[node]
    }

    pub fn comm(&self) -> Comm {
        self.carrier.comm
    }

    /// Room for any header that may come in answer to a receive for one.
    pub(super) fn most_header_bytes(&self) -> usize {
        self.carrier.most_header_bytes
    }

    pub(super) fn keep_early(&self, header: EarlyHeader) {
        self.early().push(header);
    }

    /// A header of this broadcast that came early.
    pub(super) fn take_early(&self, sequence: u64) -> Option<EarlyHeader> {
        let mut early = self.early();
        let is_due = |header: &EarlyHeader| sequence_of(header.bytes()) == Ok(sequence);
        let place = early.iter().position(is_due)?;
        Some(early.remove(place))
    }

    fn early(&self) -> MutexGuard<'_, Vec<EarlyHeader>> {
        self.carrier.early.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub(super) fn tag(&self, sequence: u64, kind: u32) -> c_int {
        let first = (sequence % self.carrier.numbers) as c_int * TAGS_PER_BROADCAST as c_int;
        first + kind as c_int
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Of a carrier that has tags for four broadcasts.
    fn channel_of(own_rank: c_int, members: &[c_int], node_of_member: &[u16]) -> Channel {
        let carrier = Carrier::with_tags(Comm(0), 9, 4 * TAGS_PER_BROADCAST);
        Channel::new(carrier, own_rank, members.to_vec(), node_of_member)
    }

    fn channel(own_rank: c_int) -> Channel {
        // Node 0 has ranks 0, 2, 3, 5, 6; node 1 the others.
        channel_of(own_rank, &[0, 1, 2, 3, 4, 5, 6], &[0, 1, 0, 0, 1, 0, 0])
    }

    #[test]
    fn a_program_numbers_the_members_of_a_part_as_it_likes() {
        let channel = channel_of(8, &[8, 3, 6, 1], &[1, 0, 1, 0]);
        let members = [0, 1, 2, 3].map(|number| channel.member(number));
        assert_eq!(
            members.map(|rank| (rank, channel.node_of(rank))),
            [(8, 1), (3, 0), (6, 1), (1, 0)]
        );
        assert_eq!((channel.leader(0), channel.leader(1), channel.own_node()), (3, 8, 1));
        assert!(channel.is_in_tree(8) && channel.is_in_tree(1) && !channel.is_in_tree(6));
        assert_eq!(channel.local_children(3).collect::<Vec<_>>(), [6]);
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
