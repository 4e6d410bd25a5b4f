//! The communicators of the groups that the job searches for, and the memory for their messages.

use crate::broadcast::Broadcast;
use crate::daemon_link::DaemonLink;
use crate::mailbox::Mailbox;
use crate::member::Member;
use arborcast_planner::job::KEPT_BYTES;
use arborcast_planner::job::wire::{BroadcastWork, StepResult};
use arborcast_shim::pmpi::{Comm, MpiError};
use arborcast_shim::tree_bcast::{BroadcastError, Buffer, Carrier, Engine};
use std::collections::HashMap;

/// The groups that are formed, each under its number.
pub struct Groups {
    /// `None` inside where this rank is not a member.
    formed: HashMap<usize, Option<Member>>,
    engine: Engine,
    sequence: u64,
    message: Vec<u8>,
}

impl Groups {
    pub fn new() -> Self {
        Groups { formed: HashMap::new(), engine: Engine::default(), sequence: 0, message: vec![] }
    }

    /// Collective over the whole job.
    ///
    /// # Errors
    /// Where the MPI has one.
    pub fn form(&mut self, group: usize, world: Comm, members: &[i32]) -> Result<(), MpiError> {
        let rank = world.rank()? as i32;
        let own = members.iter().position(|&member| member == rank);
        let colour = usize::from(own.is_none());
        // `split` keeps the order of ranks, so a member's rank is its place among the sorted.
        let (traffic, other) = (world.split(colour)?, world.split(colour)?);
        let Some(own) = own else {
            traffic.free();
            other.free();
            self.formed.insert(group, None);
            return Ok(());
        };
        // The node of each rank: the place that its member has in the group.
        let mut by_rank: Vec<_> = (0u16..).zip(members).collect();
        by_rank.sort_by_key(|(_, member)| **member);
        let node_of_rank: Vec<u16> = by_rank.into_iter().map(|(node, _)| node).collect();
        let channel = Carrier::new(traffic, node_of_rank.len())?.channel(&node_of_rank)?;
        let member = Member { channel, other, own, job_ranks: members.to_vec() };
        self.formed.insert(group, Some(member));
        Ok(())
    }

    /// Gives a group's communicators back. Collective over its members.
    pub fn free(&mut self, group: usize) {
        if let Some(Some(Member { channel, other, .. })) = self.formed.remove(&group) {
            channel.comm().free();
            other.free();
        }
    }

    /// Makes sure that there is memory for messages of this size; false where there is none.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        if bytes <= KEPT_BYTES {
            self.release();
        }
        // Never empty: the address of an empty vector means MPI_IN_PLACE to some MPIs.
        let Ok(len) = usize::try_from(bytes.max(1)) else { return false };
        let missing = len.saturating_sub(self.message.len());
        let has_room = self.message.try_reserve_exact(missing).is_ok();
        if has_room && missing > 0 {
            self.message.resize(len, 0x5a);
        }
        has_room
    }

    /// Gives memory above [`KEPT_BYTES`] back.
    pub fn release(&mut self) {
        if self.message.len() as u64 > KEPT_BYTES {
            self.message = Vec::new();
        }
    }

    /// The group as this rank sees it, where it is a member.
    pub fn member(&self, group: usize) -> Option<&Member> {
        self.formed.get(&group)?.as_ref()
    }

    /// This rank's part of one broadcast.
    ///
    /// # Errors
    /// Where the MPI has one, or the order makes no sense.
    pub fn broadcast(
        &mut self,
        work: &BroadcastWork,
        mailbox: &Mailbox,
        daemon: &DaemonLink,
    ) -> Result<StepResult, BroadcastError> {
        // Every rank counts, so that all agree on the tags.
        self.sequence = self.sequence.wrapping_add(1);
        let Some(member) = self.formed.get(&work.group).and_then(Option::as_ref) else {
            return Ok(StepResult::default());
        };
        // The coordinator has had the memory reserved.
        let len = usize::try_from(work.bytes).ok().filter(|&len| len <= self.message.len());
        let len = len.ok_or_else(MpiError::other)?;
        let buffer = Buffer { data: self.message.as_mut_ptr(), len };
        let broadcast =
            Broadcast { work, member, buffer, sequence: self.sequence, mailbox, daemon };
        broadcast.carry_out(&mut self.engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_refused_and_much_of_it_given_back() {
        let mut groups = Groups::new();
        assert!(groups.reserve(0) && !groups.message.is_empty());
        assert!(!groups.reserve(1 << 60) && groups.reserve(1000));
        assert!(groups.reserve(KEPT_BYTES + 1) && groups.message.len() as u64 > KEPT_BYTES);
        groups.release();
        assert_eq!(groups.message.capacity(), 0);
        assert!(groups.reserve(KEPT_BYTES));
        groups.release();
        assert_eq!(groups.message.len() as u64, KEPT_BYTES, "is kept");
    }
}
