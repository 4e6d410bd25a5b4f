//! A rank's part of one broadcast: as the root, which measures it, as one of the others, or of a native
//! broadcast.

use crate::daemon_link::DaemonLink;
use crate::mailbox::Mailbox;
use crate::member::{Member, looks, seconds_since, wait};
use arborcast_planner::job::wire::{BroadcastWork, StepResult};
use arborcast_planner::measurement::BroadcastResult;
use arborcast_proto::Striping;
use arborcast_shim::pmpi::{MpiError, Transfers};
use arborcast_shim::tree_bcast::{BroadcastError, Buffer, Call, Engine, Options};
use std::ffi::c_int;
use std::time::Instant;

/// One broadcast as this rank sees it.
#[derive(Clone, Copy)]
pub struct Broadcast<'a> {
    pub work: &'a BroadcastWork,
    pub member: &'a Member,
    /// The message: this rank's own, and not touched meanwhile.
    pub buffer: Buffer,
    pub sequence: u64,
    pub mailbox: &'a Mailbox,
    pub daemon: &'a DaemonLink,
}

impl Broadcast<'_> {
    fn is_root(&self) -> bool {
        self.member.own == self.work.root
    }

    fn root_rank(&self) -> c_int {
        self.member.channel.leader(self.work.root)
    }

    fn call(&self) -> Call {
        let (root_node, root_rank) = (self.work.root, self.root_rank());
        Call { sequence: self.sequence, root_node, root_rank }
    }

    /// # Errors
    /// Where the MPI has one, or the root was given no plan.
    pub fn carry_out(&self, engine: &mut Engine) -> Result<StepResult, BroadcastError> {
        if self.is_root() {
            wait(self.work.start_after_s);
            // What was left over from an earlier broadcast does not concern this one.
            self.mailbox.is_asked_to_give_up();
        }
        match self.work.plan.as_ref().and_then(|plan| plan.striping()) {
            _ if self.work.native => self.native(),
            _ if !self.is_root() => self.receive(engine),
            Some(striping) => self.send(engine, striping),
            // The coordinator sends the root a plan with trees unless the work is native.
            None => Err(MpiError::other().into()),
        }
    }

    /// Every rank but the root: takes part, and asks the root to give up where its daemon wants quiet.
    fn receive(&self, engine: &mut Engine) -> Result<StepResult, BroadcastError> {
        let root = self.member.job_ranks[self.work.root];
        let (mut is_due, mut has_asked) = (looks(), false);
        let mut watch = || {
            if !has_asked && is_due() && !self.daemon.may_run() {
                has_asked = true;
                self.mailbox.ask_to_give_up(&[root]);
            }
        };
        // SAFETY: the buffer is this rank's own and is not touched meanwhile.
        let arrived =
            unsafe { engine.receive(&self.member.channel, self.call(), self.buffer, &mut watch)? };
        Ok(StepResult { listened_late: arrived.listened_late, ..StepResult::default() })
    }

    /// The root: sends along the trees and takes the time, until somebody wants quiet or it takes too
    /// long.
    fn send(&self, engine: &mut Engine, striping: &Striping) -> Result<StepResult, BroadcastError> {
        let (started, mut is_due) = (Instant::now(), looks());
        let mut disturbed = None;
        let mut gave_up_after = None;
        let mut abandon = || {
            if !is_due() {
                return false;
            }
            if !self.daemon.may_run() || self.mailbox.is_asked_to_give_up() {
                disturbed.get_or_insert_with(Instant::now);
            }
            let seconds = started.elapsed().as_secs_f64();
            let too_long = self.work.give_up_after_s.is_some_and(|limit| seconds > limit);
            if disturbed.is_some() || too_long {
                gave_up_after = Some(seconds);
            }
            gave_up_after.is_some()
        };
        let options = Options { leaf_acks: true, report: 0, abandon: Some(&mut abandon) };
        let channel = &self.member.channel;
        // SAFETY: as in `receive`.
        let sent = unsafe { engine.send(channel, self.call(), striping, self.buffer, options)? };
        let acked = sent.until_acked.map_or(0.0, |time| time.as_secs_f64());
        let seconds = gave_up_after.unwrap_or(acked);
        let result =
            BroadcastResult { seconds, abandoned: sent.abandoned, disturbed: disturbed.is_some() };
        let waited_s = seconds_since(disturbed);
        Ok(StepResult { broadcast: Some(result), waited_s, ..StepResult::default() })
    }

    /// A native broadcast, after which every other rank answers the root with an empty message.
    fn native(&self) -> Result<StepResult, BroadcastError> {
        const ANSWER: c_int = 1;
        let Broadcast { member: Member { other, job_ranks, .. }, buffer, .. } = *self;
        let root = self.root_rank();
        let started = Instant::now();
        // SAFETY: the buffer has `len` bytes and is not touched meanwhile.
        unsafe { other.broadcast_bytes(buffer.data, buffer.len, root)? };
        let mut answers = Transfers::default();
        let is_root = self.is_root();
        // SAFETY: messages without bytes touch no memory.
        unsafe {
            if is_root {
                for _ in 1..job_ranks.len() {
                    let nothing = (std::ptr::dangling_mut(), 0);
                    answers.receive(*other, nothing, (None, ANSWER), ())?;
                }
            } else {
                answers.send(*other, (std::ptr::dangling(), 0), (root, ANSWER), ())?;
            }
        }
        answers.finish()?;
        let seconds = started.elapsed().as_secs_f64();
        let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
        Ok(StepResult { broadcast: is_root.then_some(result), ..StepResult::default() })
    }
}
