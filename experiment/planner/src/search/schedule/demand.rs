//! What is wanted: by programs, as their nodes' daemons tell it, or by the command line.

use super::pauses::Pauses;
use super::settings::Settings;
use super::{Running, Schedule, TARGETS};
use crate::measurement::Seconds;
use crate::search::findings::{Findings, InUse};
use arborcast_proto::message::Demand;
use arborcast_proto::{Group, NodeName, Plan, SizeClass, Target};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A program that has not broadcast for so long is at work on something else, or has ended.
const RECENT: Duration = Duration::from_secs(60);

/// A target that applications or the command line want a plan for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub target: Target,
    pub group: Group,
    pub bytes: u64,
    /// What applications pause before it, where they have shown it.
    pub pause_s: Option<Seconds>,
    /// Since its root took part in the broadcast before, in each of the last ones.
    pub quiets_s: Vec<Seconds>,
    /// What native broadcasts of applications have taken at least, where known.
    pub native_s: Option<Seconds>,
}

impl Wanted {
    /// Where it makes sense, in a job of these nodes.
    fn of(demand: Demand, ranks: &HashMap<NodeName, usize>) -> Option<Self> {
        let Demand { group, target, bytes, pause_s, quiets_s, native_s, .. } = demand;
        // A group with nodes outside the job is another job's.
        let is_ours = group.nodes().iter().all(|node| ranks.contains_key(node));
        let has_root = usize::from(target.root) < group.len() && group.len() > 1;
        let is_named_right = target.group == group.hash() && target.class == SizeClass::of(bytes);
        let wanted = Wanted { target, group, bytes, pause_s, quiets_s, native_s };
        (is_ours && has_root && is_named_right).then_some(wanted)
    }
}

/// When a target was last used; `None`: before anything that is known.
pub(super) type Used = Option<Instant>;

impl Schedule {
    /// What a rank's applications ask for anew, and what they no longer ask for. What makes no sense is
    /// passed over.
    pub fn note_demand(&mut self, rank: usize, news: Vec<Demand>, gone: &[Target], now: Instant) {
        for target in gone {
            self.demand[rank].remove(target);
            self.in_use[rank].remove(target);
        }
        for news in news {
            let target = news.target;
            let used = now.checked_sub(news.age);
            if let Some(mut wanted) = Wanted::of(news, &self.ranks) {
                let arrives_after_s = self.arrives_after_s(&wanted);
                wanted.native_s = self.natives.corrected(&wanted);
                self.courtesy.note_native(wanted.native_s.unwrap_or(0.0));
                used.iter().for_each(|ended| self.courtesy.note_broadcast(*ended, arrives_after_s));
                self.demand[rank].insert(target, (used, Rc::new(wanted)));
            }
        }
        self.want_most_recent();
    }

    /// For how long nodes wait for a broadcast whose root goes on: natively it may only fill buffers.
    fn arrives_after_s(&self, wanted: &Wanted) -> Seconds {
        let Wanted { target, native_s, .. } = *wanted;
        let running = self.running.get(&target);
        let plan = running.and_then(|running| running.findings.plan());
        if plan.is_some_and(|plan| *plan != Plan::Native) {
            return 0.0;
        }
        let waited_s = self.natives.of(target);
        let waited_s = waited_s.or_else(|| self.natives.of_group(target.group, target.class));
        waited_s.zip(native_s).map_or(0.0, |(waited_s, root_s)| (waited_s - root_s).max(0.0))
    }

    /// After a change of the demand. The command line goes before the applications.
    pub(super) fn want_most_recent(&mut self) {
        if self.settings.fixed.is_none() {
            self.wanted = most_recent(&self.demand);
            self.forget();
        }
    }

    /// What a rank's daemon has in use for targets whose root it is: jobs before this one or operators have left it, or
    /// the daemon has made it. To be called before their demand is noted.
    pub fn note_in_use(&mut self, rank: usize, plans: Vec<(Target, InUse)>) {
        for (target, in_use) in plans {
            // Of the target that all links were surveyed for, nothing has been found yet.
            let is_roots = |of: &Findings| of.is_of_root(&self.names[rank]);
            let running = self.running.get_mut(&target).map(|running| &mut running.findings);
            match running.filter(|of| of.plan().is_none() && is_roots(of)) {
                Some(of) if in_use.fits(target, &of.group) => of.note_in_use(in_use),
                _ => drop(self.in_use[rank].insert(target, in_use)),
            }
        }
    }

    /// What programs have for a target of which `before`, if there was such a search, has measured nothing: what that
    /// expected to be good, or what the root's daemon had already.
    pub(super) fn take_in_use(
        &mut self,
        wanted: &Wanted,
        before: Option<&Running>,
    ) -> Option<InUse> {
        let expected = before.and_then(|before| before.findings.plan());
        if let Some(plan) = expected.filter(|plan| **plan != Plan::Native) {
            return Some(InUse { plan: plan.clone(), is_measured: false });
        }
        let Wanted { target, ref group, .. } = *wanted;
        let rank = self.rank_of(&group.nodes()[usize::from(target.root)]);
        self.in_use[rank].remove(&target).filter(|in_use| in_use.fits(target, group))
    }

    pub(super) fn wanted_of(&self, target: Target) -> Option<&Rc<Wanted>> {
        self.wanted.iter().find(|wanted| wanted.target == target)
    }

    /// Of programs that have broadcast of late, if there are any.
    pub(super) fn pauses(&self, now: Instant) -> Option<Pauses> {
        Pauses::of(self.recent(now).flat_map(|wanted| &wanted.quiets_s).copied())
    }

    /// What programs have broadcast of late.
    pub(super) fn recent(&self, now: Instant) -> impl Iterator<Item = &Wanted> {
        let is_recent = move |used: &Used| used.is_some_and(|used| now - used < RECENT);
        let all = self.demand.iter().flat_map(HashMap::values);
        all.filter(move |(used, _)| is_recent(used)).map(|(_, wanted)| &**wanted)
    }
}

/// Those of the settings' targets, over all nodes of the job, whose root a node is.
pub fn fixed_targets(settings: &Settings, names: &[NodeName], own: &NodeName) -> Vec<Target> {
    let is_own =
        |wanted: &Rc<Wanted>| wanted.group.nodes()[usize::from(wanted.target.root)] == *own;
    let wanted = wanted_by(settings, names).into_iter();
    wanted.filter(is_own).map(|wanted| wanted.target).collect()
}

/// What the settings ask for, over all nodes of the job.
pub(super) fn wanted_by(settings: &Settings, names: &[NodeName]) -> Vec<Rc<Wanted>> {
    let Some((root, sizes)) = &settings.fixed else { return Vec::new() };
    let Ok(group) = Group::new(names.to_vec()) else { return Vec::new() };
    let root = group.nodes().iter().position(|name| name.as_str() == root);
    let (hash, root) = (group.hash(), root.unwrap_or(0) as u16);
    let wanted = |&bytes| {
        let target = Target { group: hash, root, class: SizeClass::of(bytes) };
        let (group, quiets_s) = (group.clone(), Vec::new());
        Rc::new(Wanted { target, group, bytes, pause_s: None, quiets_s, native_s: None })
    };
    sizes.iter().map(wanted).collect()
}

/// The most recent targets of all ranks.
fn most_recent(demand: &[HashMap<Target, (Used, Rc<Wanted>)>]) -> Vec<Rc<Wanted>> {
    let mut all: Vec<_> = demand.iter().flatten().collect();
    // Equally recent ones in any order, but always in the same.
    let place = |target: &Target| (target.group.0, target.root, target.class);
    all.sort_by_key(|(target, (used, _))| (std::cmp::Reverse(*used), place(target)));
    let mut seen = HashSet::new();
    all.retain(|(target, _)| seen.insert(**target));
    all.truncate(TARGETS);
    all.into_iter().map(|(_, (_, wanted))| wanted.clone()).collect()
}
