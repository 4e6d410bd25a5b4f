//! Trials in programs' own broadcasts. Where programs leave no room for the job's, they use the tree whose trial is due, if
//! it should be faster than what they use by more than the model errs, and what their nodes say of those broadcasts is its
//! trial. A tree that they use already, and that nobody has measured, is tried in the same way.
//!
//! Roots wait for the ACKs of the first broadcasts along a plan that nobody has measured, and report what these took.

use super::adapt::Adaptation;
use super::ledger::Purpose;
use super::{Running, Schedule};
use crate::change::broadcasts::AlongPlan;
use crate::measurement::Seconds;
use crate::search::findings::{FASTER, Report};
use arborcast_proto::{DeliveryReport, Plan, Target};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// A tree is dropped where two broadcasts along it take this many times what those along the plan in use do.
const SLOWER: f64 = 1.2;
/// Broadcasts that are told of so soon may have gone along the plan before, where its trees are the same.
const SETTLES: Duration = Duration::from_secs(1);
/// A program that has not broadcast for so long has ended, or has room for other trials now.
const GIVEN_UP: Duration = Duration::from_secs(20);

/// What trials in production are under way, and what all of them have cost.
#[derive(Debug)]
pub(super) struct InProduction {
    trials: HashMap<Target, ProductionTrial>,
    /// The part of the time of broadcasts that trials may cost.
    explore_max: f64,
    /// What broadcasts along trees have taken, in the mean of their nodes, and how much longer those along trees on trial
    /// took than they would have.
    broadcasts_s: Seconds,
    cost_s: Seconds,
}

#[derive(Debug)]
struct ProductionTrial {
    plan: Plan,
    broadcasts: AlongPlan,
    /// What programs use otherwise; `None` where they had this plan before.
    otherwise: Option<(Plan, Seconds)>,
    told: Instant,
    /// When a broadcast of it was last told of.
    last: Instant,
    /// The connections of the tree are there.
    has_begun: bool,
}

impl InProduction {
    pub fn new(explore_max: f64) -> Self {
        InProduction { trials: HashMap::new(), explore_max, broadcasts_s: 0.0, cost_s: 0.0 }
    }

    /// Forgets the trials of other targets.
    pub fn keep(&mut self, targets: &HashSet<Target>) {
        self.trials.retain(|target, _| targets.contains(target));
    }

    /// Whether a trial of this target is under way in production, so that the job's own can wait for it.
    pub fn is_trying(&self, target: Target, now: Instant) -> bool {
        let trial = self.trials.get(&target);
        trial.is_some_and(|trial| now.saturating_duration_since(trial.last) < GIVEN_UP)
    }

    fn may_explore(&self) -> bool {
        self.explore_max > 0.0 && self.cost_s <= self.explore_max * self.broadcasts_s
    }
}

impl Schedule {
    /// Whether programs pause for long enough that the job can measure what takes so long.
    pub(super) fn has_room_for(&self, seconds: Seconds, now: Instant) -> bool {
        self.pauses(now).is_none_or(|pauses| seconds <= self.courtesy.next_pause_s(&pauses))
    }

    /// The job has no room for the trial of a target that is due: programs may have.
    pub(super) fn try_in_production(&mut self, target: Target, now: Instant) {
        let Some(Running { search, findings, .. }) = self.running.get_mut(&target) else { return };
        let is_known =
            search.knowledge().network.is_some() && search.config().bytes == findings.asked_bytes;
        if !is_known || self.in_production.is_trying(target, now) {
            return;
        }
        let is_open =
            |plan: &&Plan| search.incumbent().times(plan).is_none() && search.is_due(plan);
        let (plan, otherwise) = match findings.plan().filter(is_open).cloned() {
            Some(plan) => (plan, None),
            None => {
                if !self.in_production.may_explore() {
                    return;
                }
                let Some((before, before_s)) = findings.in_use(search) else { return };
                let Some((plan, expected_s)) = search.foresee(before_s / FASTER) else { return };
                let what = format!(
                    "no room for a trial: programs try what should take {expected_s:.4} s instead of {before_s:.4} s"
                );
                let otherwise = (before, before_s);
                let findings =
                    findings.instead(search, otherwise.clone(), (plan.clone(), expected_s));
                self.production.tell([Adaptation::of(what, findings)]);
                (plan, Some(otherwise))
            }
        };
        let Some(striping) = plan.striping() else { return };
        let trial = ProductionTrial {
            broadcasts: AlongPlan::new(striping.clone()),
            plan,
            otherwise,
            told: now,
            last: now,
            has_begun: false,
        };
        self.in_production.trials.insert(target, trial);
    }

    /// Takes in what a node saw of a broadcast along trees.
    pub(super) fn note_in_production(
        &mut self,
        report: &DeliveryReport,
        now_unix_s: f64,
        now: Instant,
    ) {
        let target = report.target;
        let Some(running) = self.running.get_mut(&target) else { return };
        let InProduction { trials, broadcasts_s, cost_s, .. } = &mut self.in_production;
        *broadcasts_s += report.seconds() / running.findings.group.len() as f64;
        let Some(trial) = trials.get_mut(&target) else { return };
        let Running { search, findings, .. } = running;
        if !search.is_due(&trial.plan) {
            // It was measured otherwise, or the network has changed.
            trials.remove(&target);
            return;
        }
        if report.bytes != search.config().bytes
            || now.saturating_duration_since(trial.told) < SETTLES
        {
            return;
        }
        for seconds in trial.broadcasts.note(report.clone()) {
            trial.last = now;
            let otherwise_s =
                trial.otherwise.as_ref().map_or(f64::INFINITY, |(_, seconds)| *seconds);
            let longer_s = (seconds - otherwise_s).max(0.0);
            *cost_s += longer_s;
            self.ledger.note(Purpose::Programs, longer_s, 0);
            if !std::mem::replace(&mut trial.has_begun, true) {
                continue;
            }
            let over = search.note_broadcast(&trial.plan, seconds, SLOWER * otherwise_s);
            let Some(result) = over else { continue };
            let Some(trial) = trials.remove(&target) else { return };
            // For want of room.
            running.resting_until = None;
            let took_s = result.median_s();
            let Report { record, findings: mut told } = findings.report(search, result, now_unix_s);
            if findings.plan() == Some(&trial.plan)
                && let Some(otherwise) = trial.otherwise.filter(|(_, seconds)| took_s > *seconds)
            {
                // Nobody has measured that.
                told = findings.instead(search, (trial.plan, took_s), otherwise);
            }
            let what = "programs have tried a plan".to_owned();
            let done = Adaptation { trial: Some(record), ..Adaptation::of(what, told) };
            self.production.tell([done]);
            return;
        }
    }
}

#[cfg(test)]
mod tests;
