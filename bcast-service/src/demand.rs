//! What applications have broadcast on this node, most recent first. Bounded; without I/O or clock.

use crate::arbiter::Moment;
use arborcast_proto::Target;
use arborcast_proto::message::Times;
use arborcast_proto::segment::Broadcast;
use std::collections::VecDeque;

/// Targets remembered; the one that was used longest ago goes first.
const MAX_TARGETS: usize = 256;
/// Sampled times of one target that its `in_use` is made of.
const MAX_SAMPLES: usize = 256;
/// Pauses and native broadcasts of one target that its `pause_s`, `quiets_s` and `native_s` are made of: a program that
/// goes on to other work is soon seen to.
const MAX_RECENT: usize = 15;

/// How a target has been used.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    pub target: Target,
    /// Size of the last message.
    pub bytes: u64,
    pub last: Moment,
    pub broadcasts: u64,
    samples_s: VecDeque<f64>,
    pauses_s: VecDeque<f64>,
    quiets_s: VecDeque<f64>,
    natives_s: VecDeque<f64>,
}

impl Usage {
    /// Of the sampled broadcasts since the target's plan changed.
    pub fn in_use(&self) -> Option<Times> {
        let samples: Vec<f64> = self.samples_s.iter().copied().collect();
        Times::of(&samples)
    }

    /// The median pause before the last broadcasts.
    pub fn pause_s(&self) -> Option<f64> {
        Times::median_of(self.pauses_s.iter().copied())
    }

    /// What passed since the root took part in the broadcast before, whoever its root: of the last ones.
    pub fn quiets_s(&self) -> Vec<f64> {
        self.quiets_s.iter().copied().collect()
    }

    /// What three of four of the last native broadcasts took at least. Some take longer since ranks came late, and the root
    /// has a few behind it at once, since they go into buffers that are empty.
    pub fn native_s(&self) -> Option<f64> {
        Times::at_least_of(self.natives_s.iter().copied())
    }
}

/// The targets that applications have used, most recent first.
#[derive(Debug, Default)]
pub struct DemandList {
    usages: VecDeque<Usage>,
}

impl DemandList {
    /// Notes the broadcasts that a slot showed, oldest first, the last of which ended at `last`.
    /// `total` counts also those that the slot no longer shows; they are taken to have been like
    /// the ones it does.
    pub fn note(&mut self, broadcasts: &[Broadcast], total: u64, last: Moment) {
        for (broadcast, weight) in broadcasts.iter().zip(weights(total, broadcasts.len())) {
            self.note_one(broadcast, weight, last);
        }
    }

    fn note_one(&mut self, broadcast: &Broadcast, weight: u64, last: Moment) {
        let Broadcast { target, bytes, seconds, pause_s, quiet_s, native_s } = *broadcast;
        let place = self.usages.iter().position(|usage| usage.target == target);
        let mut usage = match place.and_then(|place| self.usages.remove(place)) {
            Some(usage) => usage,
            None => Usage {
                target,
                bytes,
                last,
                broadcasts: 0,
                samples_s: VecDeque::new(),
                pauses_s: VecDeque::new(),
                quiets_s: VecDeque::new(),
                natives_s: VecDeque::new(),
            },
        };
        usage.bytes = bytes;
        usage.last = usage.last.max(last);
        usage.broadcasts = usage.broadcasts.saturating_add(weight);
        extend(&mut usage.samples_s, seconds, MAX_SAMPLES);
        extend(&mut usage.pauses_s, pause_s, MAX_RECENT);
        extend(&mut usage.quiets_s, quiet_s, MAX_RECENT);
        extend(&mut usage.natives_s, native_s, MAX_RECENT);
        self.usages.push_front(usage);
        self.usages.truncate(MAX_TARGETS);
    }

    /// The target's plan has changed: earlier times say nothing about the new one.
    pub fn plan_changed(&mut self, target: Target) {
        for usage in self.usages.iter_mut().filter(|usage| usage.target == target) {
            usage.samples_s.clear();
        }
    }

    pub fn get(&self, target: Target) -> Option<&Usage> {
        self.usages.iter().find(|usage| usage.target == target)
    }

    /// Most recent first.
    pub fn iter(&self) -> impl Iterator<Item = &Usage> {
        self.usages.iter()
    }
}

/// How many of `total` broadcasts each of those that are `shown` stands for.
pub fn weights(total: u64, shown: usize) -> impl Iterator<Item = u64> {
    let shown = shown as u64;
    let upto = move |i: u64| (u128::from(total) * u128::from(i) / u128::from(shown)) as u64;
    (0..shown).map(move |i| upto(i + 1) - upto(i))
}

/// The last of `values`, at most `most`.
fn extend(values: &mut VecDeque<f64>, value: Option<f64>, most: usize) {
    values.extend(value);
    if values.len() > most {
        values.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{GroupHash, SizeClass};
    use std::time::Duration;

    fn broadcast(root: u16, seconds: Option<f64>) -> Broadcast {
        let target = Target { group: GroupHash(1), root, class: SizeClass::of(8) };
        let pause_s = seconds.map(|seconds| 2.0 * seconds);
        Broadcast { target, bytes: 8, seconds, pause_s, quiet_s: seconds, native_s: pause_s }
    }

    fn roots(list: &DemandList) -> Vec<u16> {
        list.iter().map(|usage| usage.target.root).collect()
    }

    #[test]
    fn the_most_recent_target_comes_first() {
        let mut list = DemandList::default();
        let second = Duration::from_secs(1);
        list.note(&[broadcast(1, None), broadcast(2, None), broadcast(1, None)], 3, second);
        assert_eq!(roots(&list), [1, 2]);
        list.note(&[broadcast(3, None)], 1, 2 * second);
        list.note(&[broadcast(2, None)], 1, 3 * second);
        assert_eq!(roots(&list), [2, 3, 1]);
        assert_eq!(list.iter().map(|u| u.broadcasts).collect::<Vec<_>>(), [2, 1, 2]);
    }

    #[test]
    fn broadcasts_that_were_overwritten_are_counted() {
        let mut list = DemandList::default();
        list.note(&[broadcast(1, None), broadcast(2, None), broadcast(2, None)], 10, Moment::ZERO);
        assert_eq!(list.iter().map(|u| u.broadcasts).sum::<u64>(), 10);
        list.note(&[], 5, Moment::ZERO);
        list.note(&[broadcast(1, None)], u64::MAX, Moment::ZERO);
    }

    #[test]
    fn the_list_and_its_samples_are_bounded() {
        let mut list = DemandList::default();
        for root in 0..1000 {
            list.note(&[broadcast(root, Some(1.0))], 1, Moment::ZERO);
        }
        assert_eq!(list.iter().count(), MAX_TARGETS);
        let target = broadcast(999, None).target;
        for i in 0..1000 {
            list.note(&[broadcast(999, Some(f64::from(i)))], 1, Moment::ZERO);
        }
        let times = list.get(target).unwrap().in_use().unwrap();
        assert_eq!((times.repetitions, times.max_s), (MAX_SAMPLES as u32, 999.0));
        // Of the last fifteen.
        assert_eq!(list.get(target).unwrap().pause_s(), Some(2.0 * 992.0));
        let last: Vec<f64> = (985..1000).map(f64::from).collect();
        assert_eq!(list.get(target).unwrap().quiets_s(), last);
        assert_eq!(list.get(target).unwrap().native_s(), Some(2.0 * 988.0));
        list.plan_changed(target);
        assert_eq!(list.get(target).unwrap().in_use(), None);
    }
}
