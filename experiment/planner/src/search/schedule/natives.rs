//! What native broadcasts of programs take, as nodes that wait for them report: their roots may only fill buffers, and go
//! on long before the others have the message.

use super::Schedule;
use super::demand::Wanted;
use crate::measurement::Seconds;
use arborcast_proto::message::Times;
use arborcast_proto::{DeliveryReport, GroupHash, SizeClass, Target};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// Of each target: a program that goes on to other work is soon seen to.
const MAX_BROADCASTS: usize = 15;

/// By target, the number of each of the last broadcasts, and the longest that a node waited for it.
#[derive(Debug, Default)]
pub(super) struct Natives(HashMap<Target, VecDeque<(u32, Seconds)>>);

impl Natives {
    fn note(&mut self, report: &DeliveryReport) {
        let broadcasts = self.0.entry(report.target).or_default();
        let known = broadcasts.iter_mut().find(|(number, _)| *number == report.broadcast);
        match known {
            Some((_, longest_s)) => *longest_s = longest_s.max(report.seconds()),
            None => broadcasts.push_back((report.broadcast, report.seconds())),
        }
        if broadcasts.len() > MAX_BROADCASTS {
            broadcasts.pop_front();
        }
    }

    /// What nodes of a target have waited.
    pub fn of(&self, target: Target) -> Option<Seconds> {
        Times::at_least_of(self.0.get(&target)?.iter().map(|one| one.1))
    }

    /// What native takes of a target, whose root may have seen less.
    pub fn corrected(&self, wanted: &Wanted) -> Option<Seconds> {
        [wanted.native_s, self.of(wanted.target)].into_iter().flatten().reduce(f64::max)
    }

    /// The same from all roots of a group alike, none of which may have broadcast twice.
    pub fn of_group(&self, group: GroupHash, class: SizeClass) -> Option<Seconds> {
        let is_alike = |target: &Target| (target.group, target.class) == (group, class);
        let alike = self.0.iter().filter(|(target, _)| is_alike(target));
        Times::at_least_of(alike.flat_map(|(_, all)| all).map(|one| one.1))
    }

    /// The network has changed.
    pub fn forget(&mut self, group: GroupHash) {
        self.0.retain(|target, _| target.group != group);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets other targets.
    pub fn keep(&mut self, targets: &HashSet<Target>) {
        self.0.retain(|target, _| targets.contains(target));
    }
}

impl Schedule {
    /// Takes in how long a node waited for a native broadcast.
    pub(super) fn note_native(&mut self, report: &DeliveryReport) {
        self.natives.note(report);
        let mut is_news = false;
        for (_, wanted) in self.demand.iter_mut().filter_map(|of| of.get_mut(&report.target)) {
            let native_s = self.natives.corrected(wanted);
            if native_s != wanted.native_s {
                Rc::make_mut(wanted).native_s = native_s;
                is_news = true;
            }
        }
        if is_news {
            self.want_most_recent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::search::schedule::adapt::tests::World;
    use arborcast_proto::message::Demand;
    use std::time::Duration;

    #[test]
    fn what_a_root_does_not_see_its_nodes_tell() {
        for (waited_s, plans) in [(4.5, 1), (0.03, 0)] {
            let mut world = World::unknown(grids::four_site_mesh(), Some(0.02));
            world.pass(Duration::ZERO);
            (0..2).for_each(|_| world.broadcast_natively(world.target, waited_s));
            assert_eq!(world.pass(Duration::from_secs(60)).len(), plans, "{waited_s} s");
        }
    }

    #[test]
    fn nothing_is_measured_while_nodes_wait_though_the_root_does_not() {
        let mut world = World::unknown(grids::four_site_mesh(), None);
        world.schedule.note_free(world.now);
        (0..2).for_each(|_| world.broadcast_natively(world.target, 1.5));
        let wanted = world.schedule.wanted[0].clone();
        let Wanted { target, ref group, bytes, .. } = *wanted;
        let demand = Demand {
            target,
            group: group.clone(),
            bytes,
            age: Duration::ZERO,
            broadcasts: 1,
            pause_s: None,
            quiets_s: vec![0.3],
            native_s: Some(0.2),
        };
        world.schedule.note_demand(0, vec![demand], &[], world.now);
        let mut begins_after =
            |seconds| world.schedule.choose(world.now + Duration::from_secs_f64(seconds)).is_some();
        assert_eq!([0.1, 1.2, 1.35].map(&mut begins_after), [false, false, true]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut world = World::unknown(grids::four_site_mesh(), None);
        (0..100).for_each(|_| world.broadcast_natively(world.target, 1.0));
        let kept = &world.schedule.natives.0;
        assert!(kept.len() == 1 && kept.values().all(|kept| kept.len() == MAX_BROADCASTS));
    }
}
