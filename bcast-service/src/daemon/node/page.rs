//! What the daemon tells the page of its node. Plans, trials and links are shared, not copied: this runs on
//! the thread that serves clients.

use super::Node;
use crate::daemon::clock::Now;
use crate::demand::Usage;
use crate::page::record::{PlanInUse, ReceivedFacts};
use crate::page::{Detail, Facts, LinkFacts, LinkPast, TargetFacts};
use arborcast_proto::{Group, GroupHash, Lateness, NodeName, Target};
use std::collections::BTreeSet;
use std::sync::Arc;

/// As many as the daemon keeps account of the use of.
const MAX_TARGETS: usize = 256;
/// Plan changes that are told beside a link's history, the newest.
const MAX_MARKS: usize = 100;

impl Node {
    pub fn facts(&mut self, now: Now) -> Facts {
        self.look(now);
        let known = self.known_targets();
        let targets = known.iter().take(MAX_TARGETS).filter_map(|t| self.target_facts(*t, now));
        let links = self.knowledge.matrices().map(|links| LinkFacts {
            group: links.group.clone(),
            links: links.matrix.clone(),
            measured_unix_s: self.links_unix_s.get(&links.group.hash()).copied(),
        });
        let programs = self.record.as_ref().map(|record| record.programs.facts());
        let (programs, left_out_programs) = programs.unwrap_or_default();
        Facts {
            status: self.status(now.moment),
            started_unix_s: self.started_unix_s,
            experiments: self.experiments(),
            forgotten_holds: self.arbiter.forgotten_holds(now.moment),
            overdue_stops: self.arbiter.overdue_stops(),
            targets: targets.collect(),
            target_count: known.len(),
            links: links.collect(),
            events: self.events.newest_first().cloned().collect(),
            programs,
            left_out_programs,
            received: self.received(),
            late: self.late(),
            unmeasured: self.unmeasured(),
        }
    }

    /// `None` where there is no such target.
    pub fn detail(&self, target: Target, now: Now) -> Option<Detail> {
        let facts = self.target_facts(target, now)?;
        let group = self.knowledge.group(target.group)?.clone();
        let plans = self.record.as_ref().map(|record| record.plans.of(target));
        let trials = self.knowledge.trials(target).to_vec();
        Some(Detail { facts, group, trials, plans: plans.unwrap_or_default() })
    }

    /// How the link between the sites of two nodes of a group was.
    pub fn link_past(&self, group: GroupHash, from: usize, to: usize) -> Option<LinkPast> {
        let record = self.record.as_ref()?;
        let nodes = self.knowledge.group(group)?.nodes();
        let named = |(target, plan): (Target, PlanInUse)| {
            let root = nodes.get(usize::from(target.root)).map_or("", |name| name.as_str());
            (format!("{root} {}", target.class), plan)
        };
        let mut plans = record.plans.changes(group);
        plans.drain(..plans.len().saturating_sub(MAX_MARKS));
        Some(LinkPast {
            samples: record.links.of(group, from, to),
            plans: plans.into_iter().map(named).collect(),
        })
    }

    fn received(&self) -> Vec<(ReceivedFacts, Vec<String>)> {
        let Some(record) = &self.record else { return Vec::new() };
        let named = |received: ReceivedFacts| {
            let parents = received.parents.iter().map(|parent| parent.node);
            let names = self.names(received.target.group, parents)?;
            Some((received, names))
        };
        record.deliveries.facts().into_iter().filter_map(named).collect()
    }

    fn late(&self) -> Vec<(Lateness, Vec<String>)> {
        let Some(record) = &self.record else { return Vec::new() };
        let named = |late: &Lateness| {
            let names = self.names(late.target.group, late.latest.iter().map(|node| node.node))?;
            Some((late.clone(), names))
        };
        record.lateness.iter().filter_map(named).collect()
    }

    /// The names of nodes of a group; `None` where it is not known or has no such node.
    fn names(&self, group: GroupHash, nodes: impl Iterator<Item = u16>) -> Option<Vec<String>> {
        let known = self.knowledge.group(group)?.nodes();
        nodes.map(|node| known.get(usize::from(node)).map(NodeName::to_string)).collect()
    }

    /// Nodes of groups that programs use, where no group with them has been measured.
    fn unmeasured(&self) -> Vec<NodeName> {
        let used: BTreeSet<GroupHash> =
            self.demand.iter().map(|usage| usage.target.group).collect();
        let used: Vec<&Group> = used
            .into_iter()
            .filter(|group| self.knowledge.links(*group).is_none())
            .filter_map(|group| self.knowledge.group(group))
            .collect();
        if used.is_empty() {
            return Vec::new();
        }
        let measured: BTreeSet<&NodeName> =
            self.knowledge.matrices().flat_map(|links| links.group.nodes()).collect();
        let nodes: BTreeSet<&NodeName> = used.iter().flat_map(|group| group.nodes()).collect();
        nodes.difference(&measured).copied().cloned().collect()
    }

    fn target_facts(&self, target: Target, now: Now) -> Option<TargetFacts> {
        let group = self.knowledge.group(target.group)?;
        let usage = self.demand.get(target);
        let age = |usage: &Usage| now.moment.saturating_sub(usage.last).as_secs_f64();
        let trials = self.knowledge.trials(target);
        Some(TargetFacts {
            target,
            nodes: group.len(),
            root: group.nodes().get(usize::from(target.root)).map(NodeName::to_string)?,
            bytes: usage.map(|usage| usage.bytes),
            broadcasts: usage.map_or(0, |usage| usage.broadcasts),
            // To the second: the same use has the same time whenever it is told.
            used_unix_s: usage.map(|usage| (now.unix_s - age(usage)).round()),
            native_at_least_s: usage.and_then(Usage::native_s),
            in_use: usage.and_then(Usage::in_use),
            finding: self.knowledge.shared_finding(target),
            newest_trial: trials.last().map(Arc::clone),
        })
    }
}
