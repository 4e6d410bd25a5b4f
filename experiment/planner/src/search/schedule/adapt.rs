//! What becomes of a change that production shows: the model is corrected, and the plan that is then the best by
//! the model takes the place of the one in use at once where it is expected to be faster by more than the model
//! errs. Trials follow where programs leave room for them.

use super::sighted::Sighted;
use super::suspects::Suspects;
use super::{Running, Schedule};
use crate::change::links::Links;
use crate::change::{Change, Monitor};
use crate::measurement::{Outcome, Request};
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use crate::model::simulate::reports;
use crate::search::Search;
use crate::search::findings::FASTER;
use arborcast_proto::message::{Finding, TrialRecord};
use arborcast_proto::{DeliveryReport, Group, GroupHash, NodeName, Plan, Striping, Target};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::Instant;

/// Reports that wait to be looked at; a job that is busy for long loses the oldest.
const WAITING_REPORTS: usize = 4096;
/// For so many plans of a target the model's word counts in turn, until the links are surveyed anew: one that is wrong in
/// a way that measurements of links don't show would change plans for ever.
const MOST_EXPECTED: u32 = 8;

/// What was done about a change, or about what is known already.
#[derive(Debug)]
pub struct Adaptation {
    /// What has changed, or is known, in words.
    pub what: String,
    /// That of a group as it is now, where that is news.
    pub network: Option<(Group, Network)>,
    /// What came of a trial in programs' broadcasts, where this is that.
    pub trial: Option<TrialRecord>,
    /// To be told to the daemons, in this order.
    pub findings: Vec<Finding>,
}

impl Adaptation {
    /// With nothing but findings.
    pub(super) fn of(what: String, findings: Vec<Finding>) -> Self {
        Adaptation { what, network: None, trial: None, findings }
    }
}

/// What applications say of their broadcasts, and what has followed from it.
#[derive(Debug, Default)]
pub(super) struct Production {
    waiting: Vec<DeliveryReport>,
    watches: HashMap<Target, Watch>,
    links: HashMap<GroupHash, Links>,
    suspects: HashMap<GroupHash, Suspects>,
    /// Whose plans are by what the network was, with what it is now: each takes a core about a second.
    outdated: VecDeque<(Target, Rc<Network>)>,
    pub sighted: Sighted,
    news: Vec<Adaptation>,
}

/// How the broadcasts of one target go along the plan in use.
#[derive(Debug, Default)]
struct Watch {
    monitor: Monitor,
    /// Of which the monitor knows what to expect.
    plan: Option<Plan>,
    /// How many times it was told what to expect.
    expected: u32,
}

impl Watch {
    /// Looks at whether programs have got another plan.
    fn follow(&mut self, running: &Running, network: &Network) {
        let Some(plan) = running.findings.plan().filter(|plan| self.plan.as_ref() != Some(plan))
        else {
            return;
        };
        self.plan = Some(plan.clone());
        if let Some(striping) = plan.striping().filter(|_| self.expected < MOST_EXPECTED) {
            self.expected += 1;
            self.monitor.expect(&running.expected_reports(striping, network));
        }
    }
}

impl Production {
    pub fn tell(&mut self, news: impl IntoIterator<Item = Adaptation>) {
        self.news.extend(news);
    }

    /// What the network is now, where a target's plans are by what it was.
    fn changed_network(&self, target: Target) -> Option<Rc<Network>> {
        let is_it = |(outdated, _): &&(Target, Rc<Network>)| *outdated == target;
        self.outdated.iter().find(is_it).map(|(_, network)| network.clone())
    }

    /// Forgets what is known of other targets.
    pub fn keep(&mut self, targets: &HashSet<Target>) {
        self.watches.retain(|target, _| targets.contains(target));
        self.outdated.retain(|(target, _)| targets.contains(target));
        let is_kept = |group: &GroupHash| targets.iter().any(|target| target.group == *group);
        self.links.retain(|group, _| is_kept(group));
        self.suspects.retain(|group, _| is_kept(group));
        self.sighted.keep(targets);
    }

    /// The group is surveyed anew, or wanted no more.
    pub fn forget(&mut self, group: GroupHash) {
        self.links.remove(&group);
        self.suspects.remove(&group);
        self.sighted.forget(group);
        self.outdated.retain(|(target, _)| target.group != group);
        self.watches.retain(|target, _| target.group != group);
    }
}

impl Schedule {
    /// What applications on a rank's node saw of broadcasts. A node speaks for itself alone.
    pub fn note_deliveries(&mut self, rank: usize, reports: Vec<DeliveryReport>) {
        let is_own = |report: &DeliveryReport| {
            let wanted_group = || self.wanted_of(report.target).map(|wanted| &wanted.group);
            let group = self.group(report.target).or_else(wanted_group);
            let node = group.and_then(|group| group.nodes().get(usize::from(report.node)));
            node == Some(&self.names[rank])
        };
        let own: Vec<_> = reports.into_iter().filter(is_own).collect();
        let (natives, own): (Vec<_>, Vec<_>) = own.into_iter().partition(|report| report.is_native);
        natives.iter().for_each(|report| self.note_native(report));
        own.iter().for_each(|report| self.late_nodes.note(report));
        let waiting = &mut self.production.waiting;
        waiting.extend(own);
        let too_many = waiting.len().saturating_sub(WAITING_REPORTS);
        waiting.drain(..too_many);
    }

    /// Whether [`Schedule::plan`] will take long.
    pub fn has_plans_to_make(&self) -> bool {
        !self.production.outdated.is_empty()
            || self.foresight.is_waiting()
            || self.unforeseen().is_some()
    }

    /// Makes at most one of the plans that targets wait for; returns what follows from it. Not to be called between a
    /// request and its answer; neither is [`Schedule::adapt`].
    pub fn plan(&mut self, now: Instant) -> Vec<Adaptation> {
        if !self.replan_next() {
            match self.unforeseen() {
                Some(wanted) => self.foresee_wanted(&wanted, now),
                None => self.foresee_next(now),
            }
        }
        self.foresee_unmeasured(now);
        std::mem::take(&mut self.production.news)
    }

    /// Looks at what applications have said since this was last called; returns what follows from it. `now_unix_s` is
    /// for the record.
    pub fn adapt(&mut self, now_unix_s: f64, now: Instant) -> Vec<Adaptation> {
        for report in std::mem::take(&mut self.production.waiting) {
            let target = report.target;
            self.note_in_production(&report, now_unix_s, now);
            let Some(running) = self.running.get(&target) else { continue };
            let changed = self.production.changed_network(target);
            let network = running.search.knowledge().network.as_ref();
            let Some(network) = changed.as_deref().or(network) else {
                self.note_sighting(report, now);
                continue;
            };
            let watch = self.production.watches.entry(target).or_default();
            // What is yet to be measured may be why the model is wrong; and of a plan by what was, it expects too much.
            let suspects = self.production.suspects.get(&target.group);
            if changed.is_none() && !suspects.is_some_and(Suspects::have_to_be_seen) {
                watch.follow(running, network);
            }
            let links = self.production.links.entry(target.group).or_default();
            let Some(change) = watch.monitor.note(report, links, network) else { continue };
            let changed = change.apply(network);
            if !running.suffers(network, &changed) {
                continue;
            }
            let was = change.parameter.of(network);
            let suspects = self.production.suspects.entry(target.group).or_default();
            // Interfaces and uplinks hardly ever change, and processors that others use look the same.
            if !change.parameter.is_link_rate() {
                suspects.doubt(change, network, now);
                continue;
            }
            suspects.add(change, network, now);
            let what = self.describe(target, change, was);
            self.correct(target, &changed, what);
        }
        std::mem::take(&mut self.production.news)
    }

    /// What to measure to see whether a change still stands.
    pub(super) fn ask_suspects(&mut self, now: Instant) -> Option<(Target, Request)> {
        for wanted in &self.wanted {
            let target = wanted.target;
            let is_known = self.running.contains_key(&target);
            let suspects = self.production.suspects.get_mut(&target.group).filter(|_| is_known);
            if let Some(transfer) = suspects.and_then(|suspects| suspects.ask(now)) {
                return Some((target, Request::Transfers(vec![transfer])));
            }
        }
        None
    }

    /// Whether the last request was one of [`Schedule::ask_suspects`].
    pub(super) fn has_asked_suspects(&self, target: Target) -> bool {
        self.production.suspects.get(&target.group).is_some_and(Suspects::is_asked)
    }

    /// Whether programs need not wait for the last request.
    pub fn asks_in_passing(&self, target: Target) -> bool {
        let suspects = self.production.suspects.get(&target.group);
        suspects.is_some_and(Suspects::are_asked_in_passing)
    }

    /// Whether the outcome is that of a request of [`Schedule::ask_suspects`]; if so, it is taken in.
    pub(super) fn answer_suspects(
        &mut self,
        target: Target,
        outcome: &Outcome,
        now: Instant,
    ) -> bool {
        let changed = self.production.changed_network(target);
        let suspects = self.production.suspects.get_mut(&target.group);
        let Some(suspects) = suspects.filter(|suspects| suspects.is_asked()) else { return false };
        let running = self.running.get(&target);
        let network = running.and_then(|running| running.search.knowledge().network.as_ref());
        let network = changed.as_deref().or(network);
        let told = network.and_then(|network| {
            let (other, instead) = suspects.answer(outcome, network, now)?;
            Some((other, instead.map(|change| (change, change.parameter.of(network)))))
        });
        if let Some((other, instead)) = told {
            let what = match instead {
                Some((change, was)) => self.describe(target, change, was),
                None => "measured again, and better".into(),
            };
            self.correct(target, &other, what);
        }
        true
    }

    /// A change in words, with what there was before.
    fn describe(&self, target: Target, change: Change, was: f64) -> String {
        let Change { parameter, value, between: (from, to) } = change;
        let nodes = self.group(target).map_or(&[][..], Group::nodes);
        let name = |node: usize| nodes.get(node).map_or("?", NodeName::as_str);
        let (from, to) = (name(from), name(to));
        let place = match parameter {
            Parameter::LinkRate { .. } | Parameter::LinkLatency { .. } => {
                format!("from {from} and those near it to {to} and those near it")
            }
            Parameter::Egress(_) => format!("out of the site of {from}"),
            Parameter::Ingress(_) => format!("into the site of {to}"),
            Parameter::Send(_) => format!("out of {from}"),
            Parameter::Receive(_) => format!("into {to}"),
        };
        match parameter.is_rate() {
            true => format!("{place}: {:.3} MB/s, was {:.3}", value / 1e6, was / 1e6),
            false => format!("{place}: {:.1} ms, was {:.1}", value * 1e3, was * 1e3),
        }
    }

    /// From now on all searches for a target's group go by this network: its own first, those of the roots after it
    /// one after the other.
    fn correct(&mut self, target: Target, network: &Network, what: String) {
        let group = target.group;
        for knowledge in self.known.of_group(group) {
            if knowledge.network.is_some() {
                knowledge.network = Some(network.clone());
                knowledge.native_s.clear();
            }
        }
        let Some(named) = self.running.get(&target).map(|running| running.findings.group.clone())
        else {
            return;
        };
        self.natives.forget(group);
        self.foresight.forget_asked(group);
        let shared = Rc::new(network.clone());
        let production = &mut self.production;
        for (other, running) in self.running.iter().filter(|(other, _)| other.group == group) {
            let changed = production.changed_network(*other);
            let before = changed.as_deref().or(running.search.knowledge().network.as_ref());
            let Some(before) = before else { continue };
            if let Some(watch) = production.watches.get_mut(other) {
                watch.monitor.forget_what_differs(before, network);
            }
            production.outdated.retain(|(outdated, _)| outdated != other);
            production.outdated.push_back((*other, shared.clone()));
        }
        let after = |root: u16| {
            (usize::from(root) + network.len() - usize::from(target.root)) % network.len()
        };
        let turn = |&(other, _): &(Target, Rc<Network>)| {
            (other.group != group, other != target, after(other.root), other.class)
        };
        production.outdated.make_contiguous().sort_by_key(turn);
        let what = format!("the network has changed: {what}");
        let network = Some((named, self.settings.in_this_mpi(network)));
        self.production.tell([Adaptation { network, ..Adaptation::of(what, Vec::new()) }]);
    }

    /// Whether there was a target whose plans are by what the network was: they follow the change now.
    fn replan_next(&mut self) -> bool {
        let Some((target, network)) = self.production.outdated.pop_front() else { return false };
        let Some(running) = self.running.get_mut(&target) else { return true };
        let findings = running.replan(&network);
        if !findings.is_empty() {
            let what = "planned for the network as it has changed".into();
            self.production.tell([Adaptation::of(what, findings)]);
        }
        true
    }
}

impl Running {
    /// Whether its plan takes so much longer on the network as it is now that it matters.
    fn suffers(&self, before: &Network, now: &Network) -> bool {
        let expected_s = |plan, network| self.search.expected_s(plan, network);
        let is_slower = |plan| expected_s(plan, now) > FASTER * expected_s(plan, before);
        self.findings.plan().is_some_and(is_slower)
    }

    /// What the nodes are expected to say of a broadcast along these trees.
    fn expected_reports(&self, striping: &Striping, network: &Network) -> Vec<DeliveryReport> {
        let config = self.search.config();
        let network = config.as_broadcasts_find(network.clone());
        reports(&network, striping, self.findings.target, config.bytes)
    }

    /// Begins the search anew on another network, or goes on with that from before the change where the network is as
    /// it was; gives what is to be told at once.
    fn replan(&mut self, network: &Network) -> Vec<Finding> {
        self.resting_until = None;
        self.is_exhausted = false;
        let is_on = |search: &mut Search| search.knowledge().network.as_ref() == Some(network);
        if let Some(before) = self.before_change.take_if(is_on) {
            self.search = before.after(&self.search);
            return self.findings.on_return(&mut self.search, network);
        }
        let anew = self.search.on(network);
        let left = std::mem::replace(&mut self.search, anew);
        self.before_change.get_or_insert(left);
        self.findings.on_change(&mut self.search, network)
    }
}

#[cfg(test)]
pub(super) mod tests;
