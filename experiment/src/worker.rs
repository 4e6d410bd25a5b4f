//! What every rank of the job does: takes part in steps, says whether it is ready for the next, and
//! keeps its daemon's word.

use crate::daemon_link::DaemonLink;
use crate::groups::Groups;
use crate::link_transfers;
use crate::mailbox::Mailbox;
use crate::member::{Member, looks, seconds_since};
use arborcast_planner::job::binding::Binding;
use arborcast_planner::job::kept::of_network;
use arborcast_planner::job::wire::{News, Order, StepResult, Work};
use arborcast_planner::measurement::Transfer;
use arborcast_proto::Target;
use arborcast_proto::message::{Ask, Refusal};
use arborcast_shim::pmpi::Comm;
use std::time::Instant;

/// A rank of the job.
pub struct Worker {
    pub daemon: DaemonLink,
    groups: Groups,
    world: Comm,
    binding: Binding,
    /// What the coordinator is to be told first.
    untold: Option<News>,
    /// The ranks of the job that measure in the last step, as far as they must be told to give up.
    measuring: Vec<i32>,
}

impl Worker {
    /// `targets`: those of the command line whose root this node is.
    pub fn new(daemon: DaemonLink, world: Comm, targets: &[Target]) -> Self {
        let in_use = |target: &Target| Some((*target, daemon.in_use(*target)?));
        let in_use: Vec<_> = targets.iter().filter_map(in_use).collect();
        let untold = (!in_use.is_empty()).then_some(News::InUse(in_use));
        Worker {
            daemon,
            groups: Groups::new(),
            world,
            binding: Binding::default(),
            untold,
            measuring: Vec::new(),
        }
    }

    /// Whether a step may come at any moment.
    pub fn is_bound(&self) -> bool {
        self.binding.is_bound()
    }

    /// Carries out an order; returns what the coordinator is to be told, if anything.
    pub fn obey(&mut self, order: Order, mailbox: &Mailbox) -> Option<News> {
        match order {
            Order::Prepare { step } => Some(self.answer(step, StepResult::default())),
            Order::Go { step, work } => {
                if work.is_in_passing() {
                    self.release();
                }
                match self.carry_out(&work, mailbox) {
                    Ok(result) if self.is_bound() => Some(self.answer(step + 1, result)),
                    Ok(result) => Some(News::Unbound { step: step + 1, result }),
                    Err(error) => Some(News::Failed(error)),
                }
            }
            Order::Release => {
                self.release();
                None
            }
            Order::Publish(finding) => {
                self.daemon.submit(&Ask::Publish(finding));
                None
            }
            Order::Record(record) => {
                self.daemon.submit(&Ask::Trial(record));
                None
            }
            Order::Network(group, network) => {
                for ask in of_network(&group, &network) {
                    self.daemon.submit(&ask);
                }
                None
            }
            Order::Lateness(late) => {
                self.daemon.submit(&Ask::Lateness(late));
                None
            }
            Order::Spending(spending) => {
                self.daemon.submit(&Ask::Spending(spending));
                None
            }
            Order::End => None,
        }
    }

    /// Bound to nothing any more.
    fn release(&mut self) {
        self.measuring.clear();
        self.binding.release();
        self.daemon.leave();
        self.groups.release();
    }

    fn answer(&mut self, step: u64, result: StepResult) -> News {
        self.binding.answer(self.daemon.enter(), step, result)
    }

    /// Looks at the daemon's word between orders; returns what the coordinator is to be told. Where a program
    /// wants quiet and others are still at this rank's last step, they are asked to give up.
    ///
    /// # Errors
    /// Where the daemon refuses this job.
    pub fn poll(&mut self, mailbox: &Mailbox) -> Result<Vec<News>, Refusal> {
        let mut news: Vec<_> = self.untold.take().into_iter().collect();
        news.extend(self.daemon.poll()?);
        let phase = self.daemon.experiment().phase;
        if let Some(of_binding) = self.binding.look(phase, self.daemon.has_demand()) {
            if !self.daemon.may_run() {
                mailbox.ask_to_give_up(&std::mem::take(&mut self.measuring));
            }
            news.push(of_binding);
        }
        Ok(news)
    }

    fn carry_out(&mut self, work: &Work, mailbox: &Mailbox) -> Result<StepResult, String> {
        let mut result = StepResult::default();
        match work {
            Work::Form { group, members } => {
                let formed = self.groups.form(*group, self.world, members);
                formed.map_err(|error| error.to_string())?;
            }
            Work::Free { group } => self.groups.free(*group),
            Work::Reserve { bytes } => result.has_no_room = !self.groups.reserve(*bytes),
            Work::Broadcast(work) => {
                let root = self.groups.member(work.group).filter(|member| member.own != work.root);
                self.measuring =
                    root.map(|member| member.job_ranks[work.root]).into_iter().collect();
                let outcome = self.groups.broadcast(work, mailbox, &self.daemon);
                result = outcome.map_err(|error| error.to_string())?;
            }
            Work::Transfers { group, transfers, start_after_s, in_passing } => {
                if let Some(member) = self.groups.member(*group) {
                    self.measuring = job_ranks_of(member, transfers);
                    let (mut is_due, mut disturbed) = (looks(), None);
                    // What was left over from an earlier step does not concern this one.
                    mailbox.is_asked_to_give_up();
                    let is_over = || {
                        if *in_passing || !is_due() {
                            return false;
                        }
                        if mailbox.is_asked_to_give_up() {
                            disturbed.get_or_insert_with(Instant::now);
                        }
                        if !self.daemon.may_run() {
                            mailbox.ask_to_give_up(&std::mem::take(&mut self.measuring));
                            disturbed.get_or_insert_with(Instant::now);
                        }
                        disturbed.is_some()
                    };
                    let outcome =
                        link_transfers::carry_out(member, transfers, *start_after_s, is_over);
                    let part = outcome.map_err(|error| error.to_string())?;
                    let link_transfers::Part { seconds, arrivals, lost } = part;
                    (result.transfers, result.arrivals, result.lost) = (seconds, arrivals, lost);
                    result.disturbed = disturbed.is_some();
                    result.waited_s = seconds_since(disturbed);
                }
                result.disturbed |= !in_passing && !self.daemon.may_run();
            }
        }
        Ok(result)
    }
}

/// Those that take part in these transfers, other than this member.
fn job_ranks_of(member: &Member, transfers: &[Transfer]) -> Vec<i32> {
    let mut nodes: Vec<usize> = transfers.iter().flat_map(|t| [t.from, t.to]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let others = nodes.into_iter().filter(|&node| node != member.own);
    others.filter_map(|node| member.job_ranks.get(node).copied()).collect()
}
