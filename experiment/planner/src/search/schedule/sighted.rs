//! Plans by what programs' own broadcasts show of links that the survey has not come to: where programs leave no room
//! for it, that is all there is. The first plan is one by links as they were hours ago, by latencies, or where there
//! was not even room to measure these, by the configured sites. Of links that nobody has seen the best is assumed, so
//! that they are tried where they could be of use; a plan takes the place of the one in use as after a change of the
//! network.

mod seen;

use super::adapt::Adaptation;
use super::demand::Wanted;
use super::foresee::MOST_NODES;
use super::{LONGEST_REST, RECENT_TARGETS, Running, Schedule};
use crate::change::sightings::Sightings;
use crate::measurement::Seconds;
use crate::model::network::Network;
use arborcast_proto::{DeliveryReport, Group, GroupHash, NodeName, Plan, Target};
use seen::{Places, Seen, Sites, differ};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Programs try at most so many plans for a target in this way, some of which will turn out slower.
const MOST_PLANS: u32 = 12;
/// After so many that were slower than the best, what is seen makes no more plans: where TCP's start counts more than
/// links, say.
const MOST_SLOWER: u32 = 4;
/// Times that differ by less don't tell.
const NOISE: f64 = 1.05;

/// In shorter pauses TCP keeps at least a part of its windows.
const LONG_PAUSE_S: Seconds = 1.0;

/// A program whose nodes' latencies could not be measured for so long leaves no room.
const NO_ROOM: Duration = Duration::from_secs(4);
/// Programs that have fallen back to native have trees again after this time, and after twice as long each time that they
/// fall back once more: the network may have been disturbed.
const FALLEN: Duration = Duration::from_secs(60);
/// A plan is looked for again once native takes so many times as long: the first messages go into empty buffers.
const LONGER: f64 = 1.25;

/// What has been seen of links that are not surveyed, and by what broadcasts.
#[derive(Debug, Default)]
pub(super) struct Sighted {
    links: HashMap<Sites, Seen>,
    targets: HashMap<Target, Sight>,
    /// How many times links were seen.
    times: u64,
    /// Roots that have not broadcast yet, in groups whose root changes.
    other_roots: VecDeque<Rc<Wanted>>,
}

/// What broadcasts of one target have shown, and its plans by that.
#[derive(Debug, Default)]
struct Sight {
    sightings: Sightings,
    plans: u32,
    /// The plan that took least until its ACKs were in, and what that was.
    best: Option<(Plan, Seconds)>,
    /// How many have taken longer since.
    slower: u32,
    /// What native seemed to take when a first plan was looked for.
    native_s: Option<Seconds>,
    /// The network by which the last plan was looked for.
    by: Option<Network>,
    /// How many times links had been seen when it was last looked at.
    times: u64,
    fallen: Option<Fallen>,
}

/// Programs have fallen back to native: until then, and for so long.
#[derive(Debug, Clone, Copy)]
struct Fallen {
    until: Instant,
    rest: Duration,
}

impl Sight {
    fn note_fallen(&mut self, now: Instant) {
        let rest = self.fallen.map_or(FALLEN, |before| (2 * before.rest).min(LONGEST_REST));
        self.fallen = Some(Fallen { until: now + rest, rest });
    }
}

impl Sighted {
    /// Forgets what is known of other targets.
    pub fn keep(&mut self, targets: &HashSet<Target>) {
        self.targets.retain(|target, _| targets.contains(target));
        let is_wanted = |group: GroupHash| targets.iter().any(|target| target.group == group);
        self.links.retain(|sites, _| match sites {
            Sites::Configured => true,
            Sites::Found(group, _) => is_wanted(*group),
        });
    }

    /// What was known of the group's links is old, and so are those that all groups share.
    pub fn forget(&mut self, group: GroupHash) {
        self.links.retain(|sites, _| matches!(sites, Sites::Found(of, _) if *of != group));
        self.targets.retain(|target, _| target.group != group);
    }
}

impl Schedule {
    /// Takes in what a node saw of a broadcast where the links are not known.
    pub(super) fn note_sighting(&mut self, report: DeliveryReport, now: Instant) {
        let target = report.target;
        let Some(running) = self.running.get(&target).filter(|_| self.tells_of_links(target, now))
        else {
            return;
        };
        let Some(plan) = running.findings.plan().and_then(Plan::striping) else { return };
        let native_s = running.search.config().native_in_use_s();
        let sight = self.production.sighted.targets.entry(target).or_default();
        let least_s = (native_s, running.findings.expected_s());
        let Some(along) = sight.sightings.note(report, plan, least_s, now) else { return };
        let Some(assumed) = self.assumed_network(target) else { return };
        let links = along.links(&assumed, plan);
        let Places { sites, of_site } = self.places(target, &assumed);
        let sighted = &mut self.production.sighted;
        sighted.links.entry(sites).or_default().add(&links, &of_site);
        sighted.times += 1;
        let took_s = along.acknowledged_s();
        let slower_s = took_s.filter(|&took_s| self.is_slower_than_best(target, took_s));
        if self.replan_by_sight(target, now) {
            return;
        }
        if let Some(took_s) = slower_s {
            self.return_to_best(target, took_s);
            return;
        }
        // What the plan in use should take is no news; of native, what its root alone has seen may be far too little.
        let Target { group, class, .. } = target;
        if self.natives.of_group(group, class).is_none() {
            return;
        }
        if let Some(wanted) = self.wanted_of(target).cloned() {
            self.take_over(&wanted, now);
        }
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else { return };
        let fallen = along.took_s().and_then(|took_s| findings.on_production(search, took_s));
        if fallen.is_some() {
            self.production.sighted.targets.entry(target).or_default().note_fallen(now);
        }
        let what = "programs' broadcasts have fallen behind native ones".to_owned();
        self.production.tell(fallen.map(|finding| Adaptation::of(what, vec![finding])));
    }

    /// Takes in what broadcasts along a target's plan took; gives whether the best one is faster.
    fn is_slower_than_best(&mut self, target: Target, took_s: Seconds) -> bool {
        let plan = self.running.get(&target).and_then(|running| running.findings.plan());
        let Some(plan) = plan else { return false };
        let sight = self.production.sighted.targets.entry(target).or_default();
        let is_slower = match &mut sight.best {
            Some((best, best_s)) if best == plan => {
                *best_s = took_s;
                false
            }
            Some((_, best_s)) if took_s > *best_s => took_s > NOISE * *best_s,
            _ => {
                (sight.best, sight.slower) = (Some((plan.clone(), took_s)), 0);
                false
            }
        };
        sight.slower += u32::from(is_slower);
        is_slower
    }

    /// Programs get the plan back that was faster than the one in use, which takes so long.
    fn return_to_best(&mut self, target: Target, took_s: Seconds) {
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else { return };
        let sight = self.production.sighted.targets.get(&target);
        let best = sight.and_then(|sight| sight.best.clone());
        let Some((plan, best)) = findings.plan().cloned().zip(best) else { return };
        let what = "programs' broadcasts were faster before".to_owned();
        let findings = findings.instead(search, (plan, took_s), best);
        self.production.tell([Adaptation::of(what, findings)]);
    }

    /// Whether broadcasts of a target tell of links: connections that begin anew tell of TCP more, and where programs mostly
    /// pause for so long there is room for a survey.
    fn tells_of_links(&self, target: Target, now: Instant) -> bool {
        let Some(running) = self.running.get(&target) else { return false };
        let config = running.search.config();
        let pause_s = self.pauses(now).map_or(config.pause_s, |pauses| pauses.lasts_s(0.0, 0.5));
        pause_s < LONG_PAUSE_S && config.nodes <= MOST_NODES
    }

    /// A plan for a target that has one already, where links look otherwise than when that was looked for. Whether there is
    /// one.
    fn replan_by_sight(&mut self, target: Target, now: Instant) -> bool {
        let sighted = &mut self.production.sighted;
        let sight = sighted.targets.entry(target).or_default();
        let is_over = sight.plans >= MOST_PLANS || sight.slower >= MOST_SLOWER;
        let (before, times) = (sight.times, sighted.times);
        // Last, since it takes longest to tell.
        if is_over || before == times || !self.tells_of_links(target, now) {
            return false;
        }
        self.production.sighted.targets.entry(target).or_default().times = times;
        let Some(assumed) = self.assumed_network(target) else { return false };
        let Some(network) = self.seen_network(target, &assumed) else { return false };
        let Some(sight) = self.production.sighted.targets.get_mut(&target) else { return false };
        if !differ(sight.by.as_ref().unwrap_or(&assumed), &network) {
            return false;
        }
        sight.by = Some(network.clone());
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else {
            return false;
        };
        let findings = findings.on_sight(search.on(&network), &network);
        if findings.len() < 2 {
            return false;
        }
        sight.plans += 1;
        let what = "links have been seen in programs' broadcasts".to_owned();
        self.production.tell([Adaptation::of(what, findings)]);
        true
    }

    /// At most one plan of those that can be made before the links are measured.
    pub(super) fn foresee_unmeasured(&mut self, now: Instant) {
        for place in 0..self.wanted.len().min(RECENT_TARGETS) {
            let wanted = self.wanted[place].clone();
            let Some(running) = self.running.get(&wanted.target) else { continue };
            if running.search.knowledge().network.is_some() {
                continue;
            }
            let is_made = match running.findings.plan() {
                None => self.plan_unmeasured(&wanted, now),
                Some(Plan::Native) => self.begin_again(&wanted, now),
                Some(_) => self.replan_by_sight(wanted.target, now),
            };
            if is_made {
                return;
            }
        }
        if let Some(other) = self.production.sighted.other_roots.pop_front()
            && !self.running.contains_key(&other.target)
        {
            self.begin(&other, now);
            self.plan_unmeasured(&other, now);
        }
    }

    /// A first plan for a target: by the links as they were when that was last known, by what broadcasts of others have
    /// shown of them, or where a program has left no room, by latencies alone or the configured sites. Whether there is
    /// one.
    fn plan_unmeasured(&mut self, wanted: &Wanted, now: Instant) -> bool {
        let target = wanted.target;
        let Some(Running { search, .. }) = self.running.get(&target) else { return false };
        let known_s = search.config().native_in_use_s();
        let told = [known_s, wanted.native_s, self.native_elsewhere_s(wanted)];
        let Some(native_s) = told.into_iter().flatten().reduce(f64::max) else { return false };
        let sighted = &mut self.production.sighted;
        let sight = sighted.targets.entry(target).or_default();
        let is_news = std::mem::replace(&mut sight.times, sighted.times) != sighted.times;
        let is_tried = sight.native_s.is_some_and(|before_s| native_s <= LONGER * before_s);
        if is_tried && !is_news {
            return false;
        }
        let old = self.known.among(&wanted.group, |_| true).and_then(|old| old.knowledge.network);
        let has_no_room = self.has_no_room(target.group, now);
        if old.is_none() && !is_news && !has_no_room {
            return false;
        }
        let Some(assumed) = self.assumed_network(target) else { return false };
        let seen = self.seen_network(target, &assumed);
        if old.is_none() && seen.is_none() && !has_no_room {
            return false;
        }
        if let Some(sight) = self.production.sighted.targets.get_mut(&target) {
            (sight.native_s, sight.by) = (Some(native_s), seen.clone());
        }
        let by = match (&old, &seen) {
            (_, Some(_)) => "what programs' broadcasts have shown of the links",
            (Some(_), None) => "the links as they were",
            (None, None) if self.surveyed_network(target.group).is_some() => "latencies alone",
            (None, None) => "the configured sites",
        };
        self.take_over(wanted, now);
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else {
            return false;
        };
        if has_no_room && wanted.pause_s.is_none() {
            // One as long as is usual would have had room.
            search.change_pause(0.0);
        }
        let Some(finding) = findings.unmeasured(search, seen.or(old).as_ref(), &assumed) else {
            return false;
        };
        let what = format!("nothing has been measured yet: a plan by {by}");
        self.production.tell([Adaptation::of(what, vec![finding])]);
        if self.has_changed_root(wanted) && self.production.sighted.other_roots.is_empty() {
            self.production.sighted.other_roots = self.other_roots(wanted).into();
        }
        true
    }

    /// A plan for a target that has fallen back to native some time ago, as if nothing had been seen. Whether there is one.
    fn begin_again(&mut self, wanted: &Wanted, now: Instant) -> bool {
        let target = wanted.target;
        let sights = &mut self.production.sighted.targets;
        let is_over = |sight: &&mut Sight| sight.fallen.is_some_and(|fallen| now >= fallen.until);
        let Some(sight) = sights.get_mut(&target).filter(is_over) else { return false };
        *sight = Sight { fallen: sight.fallen, ..Sight::default() };
        if let Some(assumed) = self.assumed_network(target) {
            let Places { sites, .. } = self.places(target, &assumed);
            self.production.sighted.links.remove(&sites);
        }
        if let Some(running) = self.running.get_mut(&target) {
            running.findings.begin_again();
        }
        self.plan_unmeasured(wanted, now)
    }

    /// Whether programs have left no room for a trial of an early plan, or to measure even latencies among a group's nodes.
    fn has_no_room(&self, group: GroupHash, now: Instant) -> bool {
        let is_long = |of: &Running| now.saturating_duration_since(of.since) >= NO_ROOM;
        let has_dropped = |of: &Running| of.search.has_dropped_early();
        self.of_group(group).any(has_dropped)
            || self.of_group(group).any(is_long) && self.surveyed_network(group).is_none()
    }

    /// As far as a survey of a group's links has come.
    fn surveyed_network(&self, group: GroupHash) -> Option<Network> {
        self.of_group(group).find_map(|of| of.search.assumed_network())
    }

    fn of_group(&self, group: GroupHash) -> impl Iterator<Item = &Running> {
        let of_group = self.running.iter().filter(move |(target, _)| target.group == group);
        of_group.map(|(_, running)| running)
    }

    /// Of a target's group, while its links are not known: as they were, as far as the survey has come, or by sites.
    fn assumed_network(&self, target: Target) -> Option<Network> {
        let Running { search, findings, .. } = self.running.get(&target)?;
        let old = self.known.among(&findings.group, |_| true);
        old.and_then(|known| known.knowledge.network)
            .or_else(|| search.assumed_network())
            .or_else(|| self.surveyed_network(target.group))
            .or_else(|| search.network_of_sites())
    }

    /// The network of a target's group with what was seen of it, if anything was.
    fn seen_network(&self, target: Target, assumed: &Network) -> Option<Network> {
        let Places { sites, of_site } = self.places(target, assumed);
        self.production.sighted.links.get(&sites)?.correct(assumed, &of_site)
    }

    /// Those of a network of a target's group.
    fn places(&self, target: Target, network: &Network) -> Places {
        let group = self.group(target).map(Group::nodes).unwrap_or_default();
        let site = |name: &NodeName| &self.sites[self.rank_of(name)];
        let first_rank = |name| self.sites.iter().position(|other| other == site(name));
        let found: Vec<usize> = network.nodes().iter().map(|node| node.site).collect();
        let configured: Vec<usize> = group.iter().filter_map(first_rank).collect();
        let pairs: BTreeSet<(usize, usize)> =
            found.iter().copied().zip(configured.iter().copied()).collect();
        let (of_site, places): (Vec<usize>, HashSet<usize>) = pairs.iter().copied().unzip();
        let count = network.sites().len();
        if of_site.len() == count && places.len() == count {
            let of_site = pairs.into_iter().map(|(_, place)| place).collect();
            return Places { sites: Sites::Configured, of_site };
        }
        Places { sites: Sites::Found(target.group, found), of_site: (0..count).collect() }
    }
}

#[cfg(test)]
mod tests;
