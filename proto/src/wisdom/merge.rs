//! What two wisdom files say together.
//!
//! Each entry stands for itself, and of two that speak of the same the newer and better known one stays:
//!
//! | | speak of the same | first comes | then | then |
//! |---|---|---|---|---|
//! | plans | target | measured before predicted | the newer job | more trials, more repetitions, the shorter median |
//! | links | group | the newer job | more pairs whose rate is known | |
//! | trials | target, number and time | more repetitions | | |
//!
//! What is equal in all of that goes by its bytes. So [`merge`] takes the greater of two in a total order,
//! entry by entry: the order of the files does not matter, nor how many are merged first, and merging
//! again changes nothing.

use super::{Learned, MeasuredLinks, Wisdom};
use crate::codec;
use crate::message::TrialRecord;
use crate::{Group, Target};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All entries of both, of each the one that comes first by the rule above.
#[must_use]
pub fn merge(one: Wisdom, other: Wisdom) -> Wisdom {
    let groups = greatest(one.groups.into_iter().chain(other.groups), Group::hash, by_bytes);
    let plans = one.plans.into_iter().chain(other.plans);
    let plans = greatest(plans, |learned| learned.finding.target(), compare_plans);
    let matrices = one.matrices.into_iter().chain(other.matrices);
    let matrices = greatest(matrices, |links| links.group.hash(), compare_links);
    let trials = merge_trials(one.trials.into_iter().chain(other.trials));
    Wisdom { groups, plans, trials, matrices }
}

/// Each trial once, target by target, in the order of their times.
#[must_use]
pub fn merge_trials(trials: impl IntoIterator<Item = Arc<TrialRecord>>) -> Vec<Arc<TrialRecord>> {
    greatest(trials, identity, |a, b| {
        let repetitions = |trial: &TrialRecord| trial.times.map_or(0, |times| times.repetitions);
        repetitions(a).cmp(&repetitions(b)).then_with(|| by_bytes(a, b))
    })
}

/// Greater is the one that stays.
#[must_use]
pub fn compare_plans(a: &Learned, b: &Learned) -> Ordering {
    let known = |learned: &Learned| {
        let finding = &learned.finding;
        let times = finding.times;
        (times.is_measured(), learned.epoch, finding.trials, times.repetitions)
    };
    let median_s = |learned: &Learned| learned.finding.times.median_s;
    let faster = || median_s(b).total_cmp(&median_s(a));
    known(a).cmp(&known(b)).then_with(faster).then_with(|| by_bytes(a, b))
}

/// Greater is the one that stays.
#[must_use]
pub fn compare_links(a: &MeasuredLinks, b: &MeasuredLinks) -> Ordering {
    let known = |links: &MeasuredLinks| (links.epoch, links.matrix.known_rates());
    known(a).cmp(&known(b)).then_with(|| by_bytes(a, b))
}

/// A trial's target and when it was. The bits of a time that is not negative are in its order.
fn identity(trial: &Arc<TrialRecord>) -> (Target, u64, u32) {
    (trial.target, trial.unix_s.to_bits(), trial.number)
}

fn greatest<K: Ord, T>(
    all: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    let mut kept = BTreeMap::<K, T>::new();
    for entry in all {
        let key = key(&entry);
        if kept.get(&key).is_none_or(|standing| compare(&entry, standing).is_gt()) {
            kept.insert(key, entry);
        }
    }
    kept.into_values().collect()
}

fn by_bytes<T: Serialize>(a: &T, b: &T) -> Ordering {
    // What came out of a file fits into one.
    let bytes = |value: &T| codec::encode(value).unwrap_or_default();
    bytes(a).cmp(&bytes(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Finding, Times};
    use crate::{LinkMatrix, NodeName, Plan, SizeClass, Tree};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn group(first: u8) -> Group {
        let name = |i: u8| NodeName::new(format!("n{}", first + i)).unwrap();
        Group::new((0..3).map(name).collect()).unwrap()
    }

    fn plan(segment_bytes: u32) -> Plan {
        Plan::single(Tree::flat(3, 0).unwrap(), segment_bytes).unwrap()
    }

    fn learned(epoch: u64, median_s: f64, repetitions: u32) -> Learned {
        let times = Times { repetitions, ..Times::predicted(median_s) };
        let finding = Finding {
            group: group(0),
            root: 0,
            bytes: 1,
            plan: plan(1024),
            times,
            native: None,
            limit_s: None,
            strategy: "guided".into(),
            trials: 1,
            search_s: 1.0,
            reason: None,
        };
        Learned { finding: Arc::new(finding), epoch }
    }

    fn links(epoch: u64, rate: f64) -> MeasuredLinks {
        let mut rates = vec![rate; 9];
        rates[1] = 1e6;
        let matrix = Arc::new(LinkMatrix::new(3, vec![0.1; 9], rates).unwrap());
        MeasuredLinks { group: group(0), matrix, epoch }
    }

    fn trial(unix_s: f64, number: u32, times: Option<f64>) -> Arc<TrialRecord> {
        Arc::new(TrialRecord {
            target: Target { group: group(0).hash(), root: 0, class: SizeClass::of(1) },
            bytes: 1,
            number,
            plan: plan(1024),
            times: times.and_then(|seconds| Times::of(&[seconds])),
            predicted_s: None,
            best_s: None,
            strategy: "guided".into(),
            search_s: 1.0,
            unix_s,
        })
    }

    fn merged_plans(a: Learned, b: Learned) -> Vec<Learned> {
        let of = |learned| Wisdom { plans: vec![learned], ..Wisdom::default() };
        merge(of(a), of(b)).plans
    }

    #[test]
    fn the_newer_and_better_known_plan_stays() {
        for (better, worse) in [
            (learned(2, 0.7, 3), learned(1, 0.5, 9)),  // the newer job
            (learned(1, 0.7, 3), learned(2, 0.5, 0)),  // measured
            (learned(2, 0.7, 30), learned(2, 0.5, 3)), // more often
            (learned(2, 0.5, 3), learned(2, 0.7, 3)),  // the faster one
        ] {
            let stays = vec![better.clone()];
            assert_eq!(merged_plans(better.clone(), worse.clone()), stays);
            assert_eq!(merged_plans(worse, better), stays);
        }
    }

    #[test]
    fn the_newer_and_better_known_links_stay() {
        for (better, worse) in
            [(links(2, f64::INFINITY), links(1, 1e6)), (links(1, 1e6), links(1, f64::INFINITY))]
        {
            let of = |links| Wisdom { matrices: vec![links], ..Wisdom::default() };
            assert_eq!(merge(of(worse), of(better.clone())).matrices, [better]);
        }
    }

    #[test]
    fn a_trial_that_both_know_is_kept_once_and_the_measured_one_where_one_was_dropped() {
        let (first, second) = (trial(1.0, 1, Some(0.5)), trial(2.0, 2, Some(0.4)));
        let of = |trials| Wisdom { trials, ..Wisdom::default() };
        let merged = merge(
            of(vec![second.clone(), first.clone()]),
            of(vec![trial(2.0, 2, None), trial(3.0, 1, None)]),
        );
        assert_eq!(merged.trials, [first, second, trial(3.0, 1, None)]);
    }

    #[test]
    fn nothing_of_different_targets_is_lost() {
        let mut other = learned(1, 0.5, 3);
        Arc::make_mut(&mut other.finding).group = group(5);
        assert_eq!(merged_plans(learned(2, 0.5, 3), other).len(), 2);
    }

    prop_compose! {
        /// Few values each, so that most entries speak of the same as another one.
        fn any_plan()(
            first in 0u8..2, root in 0u16..2, epoch in 0u64..3, segment in 10u32..12,
            median_s in 1u32..3, repetitions in 0u32..3, trials in 0u32..2,
        ) -> Learned {
            let mut learned = learned(epoch, f64::from(median_s), repetitions);
            let finding = Arc::make_mut(&mut learned.finding);
            finding.group = group(first);
            finding.root = root;
            finding.trials = trials;
            finding.plan = plan(1 << segment);
            learned
        }
    }

    prop_compose! {
        fn any_links()(
            first in 0u8..2, epoch in 0u64..3, rate in prop_oneof![Just(1e6), Just(f64::INFINITY)],
        ) -> MeasuredLinks {
            MeasuredLinks { group: group(first), ..links(epoch, rate) }
        }
    }

    prop_compose! {
        fn any_trial()(
            unix_s in 0u8..3, number in 1u32..3, times in proptest::option::of(1u8..3),
        ) -> Arc<TrialRecord> {
            trial(f64::from(unix_s), number, times.map(f64::from))
        }
    }

    prop_compose! {
        fn any_wisdom()(
            groups in vec((0u8..3).prop_map(group), 0..3),
            plans in vec(any_plan(), 0..6),
            trials in vec(any_trial(), 0..6),
            matrices in vec(any_links(), 0..4),
        ) -> Wisdom {
            Wisdom { groups, plans, trials, matrices }
        }
    }

    proptest! {
        #[test]
        fn the_order_of_the_files_does_not_matter(a in any_wisdom(), b in any_wisdom()) {
            prop_assert_eq!(merge(a.clone(), b.clone()), merge(b, a));
        }

        #[test]
        fn which_are_merged_first_does_not_matter(
            a in any_wisdom(), b in any_wisdom(), c in any_wisdom(),
        ) {
            let left = merge(merge(a.clone(), b.clone()), c.clone());
            prop_assert_eq!(left, merge(a, merge(b, c)));
        }

        #[test]
        fn merging_again_changes_nothing(a in any_wisdom(), b in any_wisdom()) {
            let merged = merge(a.clone(), b.clone());
            prop_assert_eq!(&merge(merged.clone(), a), &merged);
            prop_assert_eq!(&merge(merged.clone(), b), &merged);
            prop_assert_eq!(&merge(merged.clone(), merged.clone()), &merged);
        }
    }
}
