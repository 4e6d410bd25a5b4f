//! Where the messages of a group's broadcasts travel, and their tags.

use crate::raw::{Comm, MpiError};
use std::ffi::c_int;

pub(super) const TAG_HEADER: u32 = 0;
pub(super) const TAG_ACK: u32 = 1;
pub(super) const TAG_FIRST_STRIPE: u32 = 2;
const TAGS_PER_BROADCAST: u32 = 8;

/// The communicator that our messages travel on, and which of its ranks stands for each node.
pub struct Channel {
    pub(super) comm: Comm,
    /// Sequence numbers are counted modulo this in tags.
    sequences: u32,
    /// The rank that takes part for each node, unless it is the root's node.
    pub(super) leaders: Vec<c_int>,
}

impl Channel {
    /// `comm` must carry nothing but this channel's messages; `leaders` has a rank for each node of
    /// the group.
    ///
    /// # Errors
    /// Where MPI does not tell its largest tag.
    pub fn new(comm: Comm, leaders: Vec<c_int>) -> Result<Self, MpiError> {
        let sequences = (comm.tag_upper_bound()? + 1) / TAGS_PER_BROADCAST;
        Ok(Channel { comm, sequences, leaders })
    }

    pub fn nodes(&self) -> usize {
        self.leaders.len()
    }

    /// The rank that takes part for a node where another than the root's own is meant.
    pub fn leader(&self, node: usize) -> c_int {
        self.leaders[node]
    }

    pub fn comm(&self) -> Comm {
        self.comm
    }

    pub(super) fn tag(&self, sequence: u32, kind: u32) -> c_int {
        ((sequence % self.sequences) * TAGS_PER_BROADCAST + kind) as c_int
    }
}
