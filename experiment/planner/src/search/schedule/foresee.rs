//! Plans before anything is measured of their targets: where the network is known from other searches, what the
//! model expects to be far better than native is used at once. A program whose root has changed once is taken to
//! broadcast from all its nodes in time, so their plans are there before it does.

use super::adapt::Adaptation;
use super::known::places;
use super::{Findings, Running, Schedule, Wanted};
use crate::measurement::Seconds;
use crate::search::Search;
use crate::search::strategy::state::Config;
use arborcast_proto::message::Finding;
use arborcast_proto::{Group, SizeClass, Target};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::time::Instant;

/// In larger groups plans take too long, and too much room in the plan books, to be made for all roots.
const MOST_NODES: usize = 64;

/// What to foresee when there is time for it.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    waiting: VecDeque<Rc<Wanted>>,
    /// Roots that nobody asked for and that have been waiting before.
    seen: HashSet<Target>,
}

impl Foresight {
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Schedule {
    /// The network of a group has become known: what programs wait for now among its nodes comes first.
    pub(super) fn foresee_all(&mut self, group: &Group) {
        let among = self.wanted.iter().filter(|wanted| places(&wanted.group, group).is_some());
        self.foresight.waiting.extend(among.cloned());
    }

    /// Of a target that is worked on: its own plan now, and those of roots that nobody asked for yet later.
    pub(super) fn foresee(&mut self, wanted: &Wanted) {
        let target = wanted.target;
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else { return };
        let Some(finding) = findings.foresee(search) else { return };
        self.production.tell([foreseen(finding)]);
        let is_other_root =
            |other: &Target| other.group == target.group && other.root != target.root;
        let nodes = wanted.group.len();
        if nodes > MOST_NODES || !self.running.keys().any(is_other_root) {
            return;
        }
        for root in 0..nodes as u16 {
            let target = Target { root, ..wanted.target };
            let other = Wanted { target, group: wanted.group.clone(), native_s: None, ..*wanted };
            if !self.running.contains_key(&target) && self.foresight.seen.insert(target) {
                self.foresight.waiting.push_back(Rc::new(other));
            }
        }
    }

    /// One plan of those that are waited for.
    pub(super) fn foresee_next(&mut self, now: Instant) {
        let Some(wanted) = self.foresight.waiting.pop_front() else { return };
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
        self.production.tell(findings.foresee(&mut search).map(foreseen));
    }

    /// The least that native has taken from the roots of a target's group.
    pub(super) fn native_elsewhere_s(&self, wanted: &Wanted) -> Option<Seconds> {
        let Target { group, class, .. } = wanted.target;
        let is_alike =
            |other: &&Rc<Wanted>| other.target.group == group && other.target.class == class;
        let alike = self.wanted.iter().filter(is_alike);
        alike.filter_map(|other| other.native_s).reduce(f64::min)
    }
}

fn foreseen(finding: Finding) -> Adaptation {
    let (nodes, root, class) =
        (finding.group.nodes(), usize::from(finding.root), SizeClass::of(finding.bytes));
    let what =
        format!("{class} from {} can be foreseen by what is known of the links", nodes[root]);
    Adaptation { what, links: None, findings: vec![finding] }
}
