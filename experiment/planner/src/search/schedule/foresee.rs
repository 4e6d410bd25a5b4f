//! Plans before anything is measured of their targets: where the network is known from other searches, what the
//! model expects to be far better than native is used at once. A program whose root has changed once is taken to
//! broadcast from all its nodes in time, so their plans are there before it does.

use super::adapt::Adaptation;
use super::{Findings, Running, Schedule, Wanted};
use crate::measurement::Seconds;
use crate::search::Search;
use crate::search::strategy::state::Config;
use arborcast_proto::message::Finding;
use arborcast_proto::{SizeClass, Target};
use std::collections::{HashSet, VecDeque};
use std::time::Instant;

/// In larger groups plans take too long, and too much room in the plan books, to be made for all roots.
const MOST_NODES: usize = 64;

/// What to foresee when there is time for it.
#[derive(Debug, Default)]
pub(super) struct Foresight {
    waiting: VecDeque<Wanted>,
    /// What has been waiting before.
    seen: HashSet<Target>,
}

impl Foresight {
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Schedule {
    /// Of a target that is worked on: its own plan now, and those of the other roots later.
    pub(super) fn foresee(&mut self, target: Target, wanted: &Wanted) {
        let native_s = self.native_s(wanted);
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else { return };
        let finding = native_s.and_then(|native_s| findings.foresee(search, native_s));
        let Some(finding) = finding else { return };
        self.production.tell(foreseen(finding));
        let is_other_root =
            |other: &Target| other.group == target.group && other.root != target.root;
        let nodes = wanted.group.len();
        if nodes > MOST_NODES || !self.running.keys().any(is_other_root) {
            return;
        }
        for root in 0..nodes as u16 {
            let other = Wanted { root, group: wanted.group.clone(), native_s, ..*wanted };
            let target = other.target();
            if !self.running.contains_key(&target) && self.foresight.seen.insert(target) {
                self.foresight.waiting.push_back(other);
            }
        }
    }

    /// One plan that is not needed yet, if any is waiting for it.
    pub(super) fn foresee_next(&mut self, now: Instant) -> Option<Adaptation> {
        let wanted = self.foresight.waiting.pop_front()?;
        if self.running.contains_key(&wanted.target()) {
            return None;
        }
        let knowledge = self.fresh(&wanted.group, wanted.root, now)?.knowledge;
        let config = Config { knowledge, ..self.config(&wanted) };
        let mut search = Search::new(self.settings.strategy, config, None);
        let mut findings = Findings::new(wanted.target(), wanted.group.clone(), wanted.bytes);
        findings.foresee(&mut search, wanted.native_s?).map(foreseen)
    }

    /// What native has taken at least, from this root or from others of the group.
    fn native_s(&self, wanted: &Wanted) -> Option<Seconds> {
        let (Target { group, class, .. }, of_wanted) = (wanted.target(), self.wanted.iter());
        let alike = of_wanted.filter(|other| {
            let target = other.target();
            target.group == group && target.class == class
        });
        wanted.native_s.or_else(|| alike.filter_map(|other| other.native_s).reduce(f64::min))
    }
}

fn foreseen(finding: Finding) -> Adaptation {
    let (nodes, root, class) =
        (finding.group.nodes(), usize::from(finding.root), SizeClass::of(finding.bytes));
    let what =
        format!("{class} from {} can be foreseen by what is known of the links", nodes[root]);
    Adaptation { what, findings: vec![finding] }
}
