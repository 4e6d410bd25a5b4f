//! What is known of groups of nodes. What one search has found out of a network serves every root and every
//! group among the same nodes.

use super::demand::Wanted;
use super::{Running, Schedule};
use crate::measurement::Seconds;
use crate::search::strategy::state::Knowledge;
use arborcast_proto::{Group, GroupHash, Target};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

/// What was learnt of a group in broadcasts from one root, and since when.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub group: Group,
    pub knowledge: Knowledge,
    pub since: Instant,
}

impl Known {
    /// What of it holds for another root, and for a group of some of its nodes.
    fn among(&self, group: &Group) -> Option<Known> {
        let network = self.knowledge.network.as_ref()?;
        let nodes = group.places_in(&self.group)?;
        let network = Some(network.subset(&nodes));
        let knowledge =
            Knowledge { network, pacing: self.knowledge.pacing, ..Knowledge::default() };
        Some(Known { group: group.clone(), knowledge, since: self.since })
    }
}

/// By group and root.
#[derive(Debug, Default)]
pub(super) struct Knowns(HashMap<(GroupHash, u16), Known>);

impl Knowns {
    pub fn insert(&mut self, root: u16, known: Known) {
        self.0.insert((known.group.hash(), root), known);
    }

    pub fn get(&self, group: GroupHash, root: u16) -> Option<&Known> {
        self.0.get(&(group, root))
    }

    /// What was last learnt of a group with all these nodes, as far as it is `fresh`.
    pub fn among(&self, group: &Group, fresh: impl Fn(&Known) -> bool) -> Option<Known> {
        let has_nodes = |known: &Known| {
            known.knowledge.network.is_some() && group.places_in(&known.group).is_some()
        };
        let useful = self.0.iter().filter(|(_, known)| fresh(known) && has_nodes(known));
        // Equally old ones in any order, but always in the same.
        let last = useful.max_by_key(|(key, known)| (known.since, Reverse(*key)));
        last.and_then(|(_, known)| known.among(group))
    }

    /// Of one group, whatever the root.
    pub fn of_group(&mut self, group: GroupHash) -> impl Iterator<Item = &mut Knowledge> {
        let of_group = self.0.iter_mut().filter(move |((of, _), _)| *of == group);
        of_group.map(|(_, known)| &mut known.knowledge)
    }

    /// Whether the links of a group were known already from a survey of that time.
    pub fn knows_links(&self, group: GroupHash, since: Instant) -> bool {
        let mut of_group = self.0.iter().filter(|((of, _), _)| *of == group);
        of_group.any(|(_, known)| known.since == since && known.knowledge.network.is_some())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn retain(&mut self, keep: impl Fn(GroupHash, u16) -> bool) {
        self.0.retain(|&(group, root), _| keep(group, root));
    }
}

impl Schedule {
    /// What is known of a group and root and not old yet, or of others with the same nodes.
    pub(super) fn fresh(&self, group: &Group, target: Target, now: Instant) -> Option<Known> {
        let own = self.known.get(target.group, target.root);
        let own = own.filter(|known| self.is_fresh(known, now)).cloned();
        own.or_else(|| self.among(group, now))
    }

    fn among(&self, group: &Group, now: Instant) -> Option<Known> {
        self.known.among(group, |known| self.is_fresh(known, now))
    }

    fn is_fresh(&self, known: &Known, now: Instant) -> bool {
        now - known.since < self.settings.refresh
    }

    /// Tells a search that runs what has become known meanwhile: what native takes, and where it would survey the
    /// links, what others have found.
    pub(super) fn take_over(&mut self, wanted: &Wanted, now: Instant) {
        let target = wanted.target;
        let elsewhere_s = self.native_elsewhere_s(wanted);
        let Some(Running { search, .. }) = self.running.get_mut(&target) else { return };
        let whole = |s: Option<Seconds>| s.filter(|_| search.config().bytes == wanted.bytes);
        let (at_least_s, elsewhere_s) = (whole(wanted.native_s), whole(elsewhere_s));
        search.note_native(at_least_s, elsewhere_s);
        if !search.may_take_over() {
            return;
        }
        let known = self.among(&wanted.group, now);
        if let Some((known, running)) = known.zip(self.running.get_mut(&target)) {
            running.search.take_over(known.knowledge);
            running.since = running.since.min(known.since);
        }
    }

    /// The target whose turn it is: another one where that surveys the same nodes already.
    pub(super) fn surveyor(&mut self, target: Target) -> Target {
        let Some(running) = self.running.get(&target) else { return target };
        if !running.search.awaits_links() {
            return target;
        }
        let (group, is_early_due) = (&running.findings.group, running.search.is_early_due());
        let surveys = self.running.iter().filter(|(_, running)| running.search.is_surveying());
        let covering = surveys.filter_map(|(surveyor, running)| {
            Some((surveyor, running, group.places_in(&running.findings.group)?))
        });
        let first = covering.min_by_key(|(surveyor, running, _)| {
            (running.since, surveyor.group, surveyor.root, surveyor.class)
        });
        let Some((&surveyor, other, nodes)) = first else { return target };
        let assumed = is_early_due.then(|| other.search.assumed_network()).flatten();
        if let Some((assumed, running)) = assumed.zip(self.running.get_mut(&target))
            && running.search.begin_early(assumed.subset(&nodes))
        {
            return target;
        }
        surveyor
    }
}

#[cfg(test)]
mod tests;
