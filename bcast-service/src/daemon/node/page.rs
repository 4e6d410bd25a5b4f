//! What the daemon tells the page of its node. Plans, trials and links are shared, not copied: this runs on
//! the thread that serves clients.

use super::Node;
use crate::daemon::clock::Now;
use crate::demand::Usage;
use crate::page::{Detail, Facts, LinkFacts, TargetFacts};
use arborcast_proto::{NodeName, Target};
use std::sync::Arc;

/// As many as the daemon keeps account of the use of.
const MAX_TARGETS: usize = 256;

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
        }
    }

    /// `None` where there is no such target.
    pub fn detail(&self, target: Target, now: Now) -> Option<Detail> {
        let facts = self.target_facts(target, now)?;
        let group = self.knowledge.group(target.group)?.clone();
        Some(Detail { facts, group, trials: self.knowledge.trials(target).to_vec() })
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
