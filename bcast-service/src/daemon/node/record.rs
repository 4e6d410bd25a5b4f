//! What is noted for the page as it happens; nothing where no page is served.

use super::{ConnectionId, Node};
use crate::daemon::clock::Now;
use crate::demand::Usage;
use crate::page::record::{Process, Seen};
use arborcast_proto::segment::{Broadcast, HoldState};
use arborcast_proto::{DeliveryReport, Group, Lateness, LinkMatrix, Target};

/// A look at an application's slot.
pub(super) struct Look {
    pub client: ConnectionId,
    pub state: HoldState,
    /// Those that make sense.
    pub shown: Vec<Broadcast>,
    pub total: u64,
}

impl Node {
    pub fn keeps_record(&self) -> bool {
        self.record.is_some()
    }

    /// What the system says of the process behind an application's connection.
    pub fn name_program(&mut self, connection: ConnectionId, process: Process) {
        if let Some(record) = &mut self.record {
            record.programs.named(connection, process);
        }
    }

    pub(super) fn record_plan(&mut self, target: Target, now: Now) {
        let finding = self.knowledge.shared_finding(target);
        if let Some(record) = &mut self.record {
            record.plans.note(target, finding, Some(now.unix_s));
        }
    }

    /// All plans; `None` for those that were there before the daemon was started.
    pub(super) fn record_plans(&mut self, now: Option<Now>) {
        let Some(record) = &mut self.record else { return };
        for target in self.knowledge.targets() {
            let finding = self.knowledge.shared_finding(target);
            record.plans.note(target, finding, now.map(|now| now.unix_s));
        }
    }

    pub(super) fn record_links(&mut self, group: &Group, links: &LinkMatrix, now: Now) {
        if let Some(record) = &mut self.record {
            record.links.note(group, links, now.unix_s);
        }
    }

    pub(super) fn record_look(&mut self, look: &Look, now: Now) {
        let Some(record) = &mut self.record else { return };
        let (knowledge, demand) = (&self.knowledge, &self.demand);
        // As in a program's own report; where a native broadcast takes long the experiment leaves it out, and
        // programs have shown what it takes at least.
        let gain_s = |target: Target| {
            let finding = knowledge.finding(target)?;
            let plan_s = finding.plan.striping().and(finding.measured())?.median_s;
            let in_programs = || demand.get(target).and_then(Usage::native_s);
            let native_s = finding.native.map(|native| native.median_s).or_else(in_programs)?;
            Some(native_s - plan_s)
        };
        let seen = Seen { state: &look.state, shown: &look.shown, total: look.total };
        record.programs.saw(look.client, &seen, gain_s, now.unix_s);
    }

    pub(super) fn record_lateness(&mut self, late: Vec<Lateness>) {
        if let Some(record) = &mut self.record {
            late.into_iter().for_each(|late| record.lateness.note(late));
        }
    }

    pub(super) fn record_delivery(&mut self, connection: ConnectionId, report: &DeliveryReport) {
        if let Some(record) = self.record.as_mut().filter(|_| !report.is_native) {
            record.deliveries.note(report);
            if report.node != report.target.root {
                record.programs.reported(connection);
            }
        }
    }
}
