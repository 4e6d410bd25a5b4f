//! Plans before anything is measured of their targets: where the network is known from other searches, what the
//! model expects to be far better than native is used at once. Roots that nobody asked for have their plans before they
//! broadcast: at once where a program's root has changed before, else one after the other once there is nothing left to
//! try.

use super::adapt::Adaptation;
use super::demand::Wanted;
use super::{Findings, RECENT_TARGETS, Running, Schedule};
use crate::measurement::Seconds;
use crate::search::Search;
use crate::search::strategy::state::Config;
use arborcast_proto::message::Finding;
use arborcast_proto::{Group, GroupHash, Plan, SizeClass, Target};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// In larger groups plans take too long, and too much room in the plan books, to be made for all roots.
pub(super) const MOST_NODES: usize = 64;
/// What native takes is news where it differs by more than this part, and this time.
const NEWS: f64 = 0.05;
const NEWS_S: Seconds = 1e-3;
/// A plan takes one core about a second: so seldom, who computes beside it does not feel it.
const ANOTHER_ROOT_EVERY: Duration = Duration::from_secs(10);

/// What to foresee when there is time for it.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    waiting: VecDeque<Rc<Wanted>>,
    /// Roots that nobody asked for, in groups whose root has not changed.
    other_roots: VecDeque<Rc<Wanted>>,
    /// All roots that nobody asked for and that have been waiting.
    seen: HashSet<Target>,
    /// When there was time for one of them last.
    last_other: Option<Instant>,
    /// What native was known to take of targets when their plans were last asked for.
    asked: HashMap<Target, Option<Seconds>>,
}

impl Foresight {
    /// Whether the next plan is made at once.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// The network has changed, and what native takes of a group with it: its plans are asked for anew.
    pub fn forget_asked(&mut self, group: GroupHash) {
        self.asked.retain(|target, _| target.group != group);
    }
}

impl Schedule {
    /// The network of a group has become known: what programs wait for now among its nodes comes first.
    pub(super) fn foresee_all(&mut self, group: &Group) {
        let among = self.wanted.iter().filter(|wanted| wanted.group.places_in(group).is_some());
        self.foresight.waiting.extend(among.cloned());
        self.foresight.asked.clear();
    }

    /// Of a target that is worked on.
    pub(super) fn foresee(&mut self, wanted: &Wanted) {
        let Some(Running { search, findings, .. }) = self.running.get_mut(&wanted.target) else {
            return;
        };
        let findings = findings.foresee(search);
        if findings.is_empty() {
            return;
        }
        self.production.tell(foreseen(findings));
        if self.has_changed_root(wanted) {
            self.foresee_other_roots(wanted);
        }
    }

    /// A target whose turn to be measured may not come for long: one that was not worked on yet, or whose programs
    /// broadcast natively though its links are known, where what that takes is news.
    pub(super) fn unforeseen(&self) -> Option<Rc<Wanted>> {
        let is_news = |wanted: &&Rc<Wanted>| {
            let asked = self.foresight.asked.get(&wanted.target);
            let Some(Running { search, findings, .. }) = self.running.get(&wanted.target) else {
                return asked.is_none();
            };
            let plan = findings.plan().filter(|plan| **plan != Plan::Native);
            plan.is_none()
                && search.knowledge().network.is_some()
                && wanted
                    .native_s
                    .is_some_and(|native_s| differs(asked.copied().flatten(), native_s))
        };
        self.wanted.iter().take(RECENT_TARGETS).find(is_news).cloned()
    }

    /// A plan for such a target: at once where it should be far better, and where programs leave no room for its trial, in
    /// their own broadcasts.
    pub(super) fn foresee_wanted(&mut self, wanted: &Wanted, now: Instant) {
        let target = wanted.target;
        self.foresight.asked.insert(target, wanted.native_s);
        if !self.running.contains_key(&target) {
            if self.fresh(&wanted.group, target, now).is_none() {
                return;
            }
            self.begin(wanted, now);
        }
        self.take_over(wanted, now);
        self.foresee(wanted);
        if wanted.native_s.is_some_and(|native_s| !self.has_room_for(native_s, now)) {
            self.try_in_production(target, now);
        }
    }

    /// Whether several roots of its group have broadcast.
    pub(super) fn has_changed_root(&self, wanted: &Wanted) -> bool {
        let of_group = self.running.keys().filter(|target| target.group == wanted.target.group);
        let mut roots = of_group.map(|target| target.root);
        let first = roots.next();
        roots.any(|root| Some(root) != first)
    }

    /// Those that could broadcast the same in the same group, and have not.
    pub(super) fn foresee_other_roots(&mut self, wanted: &Wanted) {
        for other in self.other_roots(wanted) {
            if self.foresight.seen.insert(other.target) {
                self.foresight.other_roots.push_back(other);
            }
        }
        if self.has_changed_root(wanted) {
            let all = std::mem::take(&mut self.foresight.other_roots).into_iter();
            let is_of_group = |other: &Rc<Wanted>| other.target.group == wanted.target.group;
            let (of_group, others): (VecDeque<_>, _) = all.partition(is_of_group);
            self.foresight.waiting.extend(of_group);
            self.foresight.other_roots = others;
        }
    }

    /// All roots of a target's group that have not broadcast the same, those after its own first. None of larger groups.
    pub(super) fn other_roots(&self, wanted: &Wanted) -> Vec<Rc<Wanted>> {
        let nodes = wanted.group.len();
        let after = |by: usize| {
            let root = ((usize::from(wanted.target.root) + by) % nodes) as u16;
            let target = Target { root, ..wanted.target };
            Wanted { target, native_s: None, ..wanted.clone() }
        };
        let most = if nodes <= MOST_NODES { nodes } else { 0 };
        let others = (1..most).map(after);
        others.filter(|other| !self.running.contains_key(&other.target)).map(Rc::new).collect()
    }

    /// One plan of those that are waited for.
    pub(super) fn foresee_next(&mut self, now: Instant) {
        let waiting = self.foresight.waiting.pop_front();
        let Some(wanted) = waiting.or_else(|| self.other_root(now)) else { return };
        let target = wanted.target;
        if self.running.contains_key(&target) {
            self.take_over(&wanted, now);
            self.foresee(&wanted);
            return;
        }
        let Some(known) = self.fresh(&wanted.group, target, now) else { return };
        let native_elsewhere_s = self.native_elsewhere_s(&wanted);
        let config =
            Config { knowledge: known.knowledge, native_elsewhere_s, ..self.config(&wanted) };
        let mut search = Search::new(self.settings.strategy, config, None);
        let mut findings = Findings::new(target, wanted.group.clone(), wanted.bytes);
        self.production.tell(foreseen(findings.foresee(&mut search)));
    }

    /// The next root that nobody asked for, if it is its time.
    fn other_root(&mut self, now: Instant) -> Option<Rc<Wanted>> {
        let is_recent = |last: Instant| now - last < ANOTHER_ROOT_EVERY;
        if self.foresight.last_other.is_some_and(is_recent) {
            return None;
        }
        let next = self.foresight.other_roots.pop_front()?;
        self.foresight.last_other = Some(now);
        Some(next)
    }

    /// What native takes from the roots of a target's group, by what their nodes have waited or else at least, where nodes
    /// have not waited for its own.
    pub(super) fn native_elsewhere_s(&self, wanted: &Wanted) -> Option<Seconds> {
        let Target { group, class, .. } = wanted.target;
        if self.natives.of(wanted.target).is_some() {
            return None;
        }
        let waited_s = self.natives.of_group(group, class);
        let is_alike =
            |other: &&Rc<Wanted>| other.target.group == group && other.target.class == class;
        let alike = self.wanted.iter().filter(is_alike);
        waited_s.or_else(|| alike.filter_map(|other| other.native_s).reduce(f64::min))
    }
}

/// Whether what native takes is news.
fn differs(asked_s: Option<Seconds>, native_s: Seconds) -> bool {
    asked_s.is_none_or(|asked_s| (native_s - asked_s).abs() > NEWS_S.max(NEWS * asked_s))
}

fn foreseen(findings: Vec<Finding>) -> Option<Adaptation> {
    let finding = findings.first()?;
    let (nodes, root, class) =
        (finding.group.nodes(), usize::from(finding.root), SizeClass::of(finding.bytes));
    let what =
        format!("{class} from {} can be foreseen by what is known of the links", nodes[root]);
    Some(Adaptation::of(what, findings))
}
