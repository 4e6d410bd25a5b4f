//! What every rank of the job does: takes part in steps, says whether it is ready for the next, and
//! keeps its daemon's word.

use crate::daemon_link::DaemonLink;
use crate::groups::Groups;
use crate::link_transfers;
use crate::mailbox::Mailbox;
use arborcast_planner::job::binding::{Binding, Look};
use arborcast_planner::job::wire::{News, Order, StepResult, Work};
use arborcast_proto::message::{Ask, Refusal};
use arborcast_shim::pmpi::Comm;

/// A rank of the job.
pub struct Worker {
    pub daemon: DaemonLink,
    groups: Groups,
    world: Comm,
    binding: Binding,
}

impl Worker {
    pub fn new(daemon: DaemonLink, world: Comm) -> Self {
        Worker { daemon, groups: Groups::new(), world, binding: Binding::default() }
    }

    /// Whether a step may come at any moment.
    pub fn is_bound(&self) -> bool {
        self.binding.is_bound()
    }

    /// Carries out an order; returns what the coordinator is to be told, if anything.
    pub fn obey(&mut self, order: Order, mailbox: &Mailbox) -> Option<News> {
        match order {
            Order::Prepare { step } => Some(self.answer(step, StepResult::default())),
            Order::Go { step, work } => match self.carry_out(&work, mailbox) {
                Ok(result) => Some(self.answer(step + 1, result)),
                Err(error) => Some(News::Failed(error)),
            },
            Order::Release => {
                self.binding.release();
                self.groups.release();
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
            Order::Links(group, links) => {
                self.daemon.submit(&Ask::Links(group, *links));
                None
            }
            Order::End => None,
        }
    }

    fn answer(&mut self, step: u64, result: StepResult) -> News {
        self.binding.answer(self.daemon.experiment().phase, step, result)
    }

    /// Looks at the daemon's word between orders; returns what the coordinator is to be told.
    ///
    /// # Errors
    /// Where the daemon refuses this job.
    pub fn poll(&mut self) -> Result<Vec<News>, Refusal> {
        let mut news = Vec::new();
        news.extend(self.daemon.poll()?);
        match self.binding.look(self.daemon.experiment().phase) {
            Look::Nothing => {}
            Look::Tell(of_binding) => news.push(of_binding),
            Look::ConfirmStop => self.daemon.confirm_stop(),
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
                let outcome = self.groups.broadcast(work, mailbox, &self.daemon);
                result = outcome.map_err(|error| error.to_string())?;
            }
            Work::Transfers { group, transfers, start_after_s } => {
                if let Some(member) = self.groups.member(*group) {
                    let outcome = link_transfers::carry_out(member, transfers, *start_after_s);
                    let part = outcome.map_err(|error| error.to_string())?;
                    (result.transfers, result.arrivals) = (part.seconds, part.arrivals);
                }
                result.disturbed = !self.daemon.may_run();
            }
        }
        Ok(result)
    }
}
