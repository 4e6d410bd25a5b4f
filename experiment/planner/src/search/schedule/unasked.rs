//! The links of all nodes, before any program asks: once there is nothing else to do they are surveyed, once in the
//! life of a job. Programs that come later, whatever their group, root and sizes, have a plan after two native
//! broadcasts, also those that leave no room for a survey.

use super::demand::Wanted;
use super::{Schedule, Settings};
use crate::measurement::Request;
use arborcast_proto::{Group, NodeName, SizeClass, Target};
use std::rc::Rc;
use std::time::Instant;

/// Which target the survey is booked under; it serves all.
const BYTES: u64 = 1 << 20;

/// What is surveyed unasked: all nodes, unless the command line says what to search for.
pub(super) fn all_nodes(settings: &Settings, names: &[NodeName]) -> Option<Rc<Wanted>> {
    let group = Group::new(names.to_vec()).ok().filter(|group| group.len() > 1)?;
    let target = Target { group: group.hash(), root: 0, class: SizeClass::of(BYTES) };
    let wanted =
        Wanted { target, group, bytes: BYTES, pause_s: None, quiets_s: Vec::new(), native_s: None };
    settings.fixed.is_none().then(|| Rc::new(wanted))
}

impl Schedule {
    /// The next round of that survey, where it is not over and no program has broadcast of late.
    pub(super) fn survey_unasked(&mut self, now: Instant) -> Option<(Target, Request)> {
        let all = self.unasked.clone().filter(|_| self.recent(now).next().is_none())?;
        let target = all.target;
        if !self.running.contains_key(&target) {
            self.begin(&all, now);
        }
        let running = self.running.get_mut(&target)?;
        let request = running.search.next();
        if let Some(request @ Request::Transfers(_)) = request {
            return Some((target, request));
        }
        // The links are known, or of no use to this strategy.
        self.unasked = None;
        if self.wanted.iter().all(|wanted| wanted.target != target) {
            self.running.remove(&target);
        }
        None
    }
}
