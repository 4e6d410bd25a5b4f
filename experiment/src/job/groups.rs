//! The communicators of the groups that the job searches for, and the work of a step on them.

use super::post::Post;
use super::wire::{BroadcastResult, BroadcastWork, StepResult, TransferWork};
use crate::job::station::Station;
use arborcast_shim::engine::{BroadcastError, Buffer, Call, Channel, Engine, Options};
use arborcast_shim::patience::Patience;
use arborcast_shim::raw::{Comm, MpiError, Transfers};
use std::collections::HashMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// How often a broadcast looks whether it should be given up.
const LOOK_EVERY: Duration = Duration::from_micros(500);

/// Memory for messages that a rank keeps between steps; what is above goes back to the system.
pub const KEPT_BYTES: u64 = 64 << 20;

/// One group as this rank sees it; `None` inside where the rank is not a member.
pub struct Groups {
    formed: HashMap<usize, Option<Member>>,
    engine: Engine,
    sequence: u32,
    message: Vec<u8>,
}

struct Member {
    channel: Channel,
    /// Native broadcasts, and link measurements.
    other: Comm,
    own: usize,
    /// The rank in the job of each member.
    job_ranks: Vec<i32>,
}

impl Groups {
    pub fn new() -> Self {
        Groups { formed: HashMap::new(), engine: Engine::default(), sequence: 0, message: vec![] }
    }

    /// Collective over the whole job.
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
        let node_of_rank = by_rank.into_iter().map(|(node, _)| node).collect();
        let channel = Channel::new(traffic, node_of_rank)?;
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

    /// This rank's part of one broadcast.
    pub fn broadcast(
        &mut self,
        work: &BroadcastWork,
        post: &Post,
        station: &Station,
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
        let root_rank = member.channel.leader(work.root);
        let is_root = member.own == work.root;
        if is_root {
            wait(work.start_after_s);
            // What was left over from an earlier broadcast does not concern this one.
            post.is_asked_to_give_up();
        }
        if work.native {
            let broadcast = member.native(buffer, root_rank)?;
            return Ok(StepResult { broadcast, ..StepResult::default() });
        }
        let call = Call { sequence: self.sequence, root_node: work.root, root_rank };
        let (started, mut looked) = (Instant::now(), Instant::now());
        let mut is_time_to_look = move || {
            let now = Instant::now();
            let due = now - looked >= LOOK_EVERY;
            if due {
                looked = now;
            }
            due
        };
        if !is_root {
            let root = member.job_ranks[work.root];
            let mut asked = false;
            let mut watch = || {
                if !asked && is_time_to_look() && !station.may_run() {
                    asked = true;
                    post.ask_to_give_up(root);
                }
            };
            // SAFETY: the message is this value's own and is not touched meanwhile.
            let arrived =
                unsafe { self.engine.receive(&member.channel, call, buffer, &mut watch)? };
            let listened_late = arrived.listened_late;
            return Ok(StepResult { listened_late, ..StepResult::default() });
        }
        let Some(striping) = work.plan.as_ref().and_then(|plan| plan.striping()) else {
            // The coordinator sends the root a plan with trees unless the work is native.
            return Err(MpiError::other().into());
        };
        let mut disturbed = false;
        let mut gave_up_after = None;
        let mut abandon = || {
            if !is_time_to_look() {
                return false;
            }
            disturbed |= !station.may_run() || post.is_asked_to_give_up();
            let seconds = started.elapsed().as_secs_f64();
            let too_long = work.give_up_after_s.is_some_and(|limit| seconds > limit);
            if disturbed || too_long {
                gave_up_after = Some(seconds);
            }
            gave_up_after.is_some()
        };
        let options = Options { leaf_acks: true, abandon: Some(&mut abandon) };
        // SAFETY: as above.
        let sent = unsafe { self.engine.send(&member.channel, call, striping, buffer, options)? };
        let acked = sent.until_acked.map_or(0.0, |time| time.as_secs_f64());
        let seconds = gave_up_after.unwrap_or(acked);
        let result = BroadcastResult { seconds, abandoned: sent.abandoned, disturbed };
        Ok(StepResult { broadcast: Some(result), ..StepResult::default() })
    }

    /// This rank's part of transfers at the same time: number and least seconds of those it starts.
    pub fn transfers(
        &mut self,
        group: usize,
        transfers: &[TransferWork],
        start_after_s: f64,
    ) -> Result<Vec<(usize, f64)>, MpiError> {
        match self.formed.get(&group).and_then(Option::as_ref) {
            Some(member) => member.transfers(transfers, start_after_s),
            None => Ok(Vec::new()),
        }
    }
}

impl Member {
    /// The MPI's own broadcast; every other rank then answers the root with an empty message.
    fn native(
        &self,
        buffer: Buffer,
        root: c_int,
    ) -> Result<Option<BroadcastResult>, BroadcastError> {
        const ANSWER: c_int = 1;
        let started = Instant::now();
        // SAFETY: the buffer has `len` bytes and is not touched meanwhile.
        unsafe { self.other.broadcast_bytes(buffer.data, buffer.len, root)? };
        let mut answers = Transfers::default();
        let is_root = self.channel.leader(self.own) == root;
        // SAFETY: messages without bytes touch no memory.
        unsafe {
            if is_root {
                for _ in 1..self.job_ranks.len() {
                    let nothing = (std::ptr::dangling_mut(), 0);
                    answers.receive(self.other, nothing, (None, ANSWER), ())?;
                }
            } else {
                answers.send(self.other, (std::ptr::dangling(), 0), (root, ANSWER), ())?;
            }
        }
        answers.finish()?;
        let seconds = started.elapsed().as_secs_f64();
        let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
        Ok(is_root.then_some(result))
    }

    fn transfers(
        &self,
        transfers: &[TransferWork],
        start_after_s: f64,
    ) -> Result<Vec<(usize, f64)>, MpiError> {
        let mut pool = Transfers::default();
        let mine = transfers.iter().enumerate().filter(|(_, t)| [t.from, t.to].contains(&self.own));
        let mut ends: Vec<End> = mine
            .map(|(number, transfer)| {
                let sends = transfer.from == self.own;
                let bytes = if sends { u64::from(transfer.segment_bytes) } else { transfer.bytes };
                let partner = if sends { transfer.to } else { transfer.from };
                End {
                    number,
                    transfer: *transfer,
                    sends,
                    partner: self.channel.leader(partner),
                    memory: vec![0; bytes as usize],
                    repetitions_left: transfer.repetitions.max(1),
                    in_flight: 0,
                    started: Instant::now(),
                    least_s: f64::INFINITY,
                }
            })
            .collect();
        let delays_s = ends.iter().filter(|end| end.sends).map(|end| end.transfer.delay_s);
        if let Some(delay_s) = delays_s.reduce(f64::max) {
            wait(start_after_s + delay_s);
        }
        for (index, end) in ends.iter_mut().enumerate() {
            end.start(self.other, &mut pool, index)?;
        }
        let (mut completed, mut patience) = (Vec::new(), Patience::default());
        while !pool.is_empty() {
            pool.test(&mut completed)?;
            patience.after_look(!completed.is_empty());
            for (index, _) in completed.drain(..) {
                let end: &mut End = &mut ends[index];
                end.in_flight -= 1;
                if end.in_flight == 0 {
                    end.finish_repetition(self.other, &mut pool, index)?;
                }
            }
        }
        Ok(ends.iter().filter(|end| end.sends).map(|end| (end.number, end.least_s)).collect())
    }
}

/// One end of a transfer: the sender sends all segments and waits for the empty answer; the receiver
/// waits for all segments and sends it.
struct End {
    number: usize,
    transfer: TransferWork,
    sends: bool,
    partner: c_int,
    memory: Vec<u8>,
    repetitions_left: u32,
    in_flight: usize,
    started: Instant,
    least_s: f64,
}

impl End {
    fn tags(&self) -> (c_int, c_int) {
        let tag = 2 + 2 * self.number as c_int;
        (tag, tag + 1)
    }

    fn start(
        &mut self,
        comm: Comm,
        pool: &mut Transfers<usize>,
        index: usize,
    ) -> Result<(), MpiError> {
        let (forward, back) = self.tags();
        self.started = Instant::now();
        let bytes = self.transfer.bytes as usize;
        let segment_bytes = self.transfer.segment_bytes as usize;
        for segment in 0..bytes.div_ceil(segment_bytes).max(1) {
            let offset = segment * segment_bytes;
            let len = segment_bytes.min(bytes - offset);
            // SAFETY: the sender's memory is only read, the receiver's segments do not overlap;
            // both live until the pool is empty.
            unsafe {
                if self.sends {
                    let from = (self.memory.as_ptr(), len);
                    pool.send(comm, from, (self.partner, forward), index)?;
                } else {
                    let to = (self.memory.as_mut_ptr().add(offset), len);
                    pool.receive(comm, to, (Some(self.partner), forward), index)?;
                }
            }
            self.in_flight += 1;
        }
        if self.sends {
            // SAFETY: a message without bytes touches no memory.
            unsafe {
                let nothing = (std::ptr::dangling_mut(), 0);
                pool.receive(comm, nothing, (Some(self.partner), back), index)?;
            }
            self.in_flight += 1;
        }
        Ok(())
    }

    fn finish_repetition(
        &mut self,
        comm: Comm,
        pool: &mut Transfers<usize>,
        index: usize,
    ) -> Result<(), MpiError> {
        if self.repetitions_left == 0 {
            return Ok(());
        }
        self.repetitions_left -= 1;
        let again = self.repetitions_left > 0;
        if self.sends {
            self.least_s = self.least_s.min(self.started.elapsed().as_secs_f64());
            return if again { self.start(comm, pool, index) } else { Ok(()) };
        }
        // The next segments may come as soon as the answer is out.
        if again {
            self.start(comm, pool, index)?;
        }
        let (_, back) = self.tags();
        // SAFETY: a message without bytes touches no memory.
        unsafe { pool.send(comm, (std::ptr::dangling(), 0), (self.partner, back), index)? };
        self.in_flight += 1;
        Ok(())
    }
}

/// Spends time without giving the processor away for long: what follows is timed.
fn wait(seconds: f64) {
    let until = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 10.0));
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        std::thread::sleep(left.min(Duration::from_millis(1)));
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
