//! What a wisdom file of another daemon, or of another day, adds to what is known.

use super::{Knowledge, NOT_BETTER, check, faster_native};
use arborcast_proto::message::{Finding, Imported, Refusal, TrialRecord};
use arborcast_proto::wisdom::{
    Learned, MeasuredLinks, Wisdom, compare_links, compare_plans, merge_trials,
};
use arborcast_proto::{Group, Plan, Target};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

impl Knowledge {
    /// Merges a file with what is known ([`arborcast_proto::wisdom::merge`]), entry by entry, each checked
    /// as if the experiment had said it. Nothing that is known goes, but for what is newer and better
    /// known. Gives what became of the entries, and the targets that have another plan now.
    pub fn import(&mut self, file: Wisdom) -> (Imported, Vec<Target>) {
        let (mut imported, mut changed) = (Imported::default(), Vec::new());
        for group in &file.groups {
            // One that is refused stands for other nodes here: so do the trials that refer to it.
            let _ = self.register(group, false);
        }
        for links in file.matrices {
            match self.import_links(links) {
                Ok(true) => imported.links += 1,
                Ok(false) => imported.known += 1,
                Err(_) => imported.refused += 1,
            }
        }
        for learned in file.plans {
            let target = learned.finding.target();
            let is_in_use =
                self.finding(target).is_some_and(|standing| standing.plan == learned.finding.plan);
            match self.import_plan(learned) {
                Ok(true) => {
                    imported.plans += 1;
                    changed.extend((!is_in_use).then_some(target));
                }
                Ok(false) => imported.known += 1,
                Err(_) => imported.refused += 1,
            }
        }
        self.import_trials(file.trials, &mut imported);
        if (imported.plans, imported.links, imported.trials) != (0, 0, 0) {
            self.changes += 1;
        }
        (imported, changed)
    }

    /// Whether it takes the place of what was known.
    fn import_links(&mut self, links: MeasuredLinks) -> Result<bool, Refusal> {
        self.require_same_nodes(&links.group)?;
        let standing = self.matrices.get(&links.group.hash());
        if standing.is_some_and(|standing| compare_links(&links, standing).is_le()) {
            return Ok(false);
        }
        let MeasuredLinks { group, matrix, epoch } = links;
        self.set_links(group, matrix, epoch)?;
        Ok(true)
    }

    /// As before.
    fn import_plan(&mut self, learned: Learned) -> Result<bool, Refusal> {
        let finding: &Finding = &learned.finding;
        check::finding(finding)?;
        self.require_same_nodes(&finding.group)?;
        if finding.plan != Plan::Native && faster_native(finding).is_some() {
            return Err(Refusal::Invalid(NOT_BETTER.into()));
        }
        match self.plans.get(&finding.target()) {
            Some(standing) if compare_plans(&learned, standing).is_le() => return Ok(false),
            Some(_) => {}
            None => self.require_room(finding)?,
        }
        self.groups.replace(&finding.group);
        self.plans.insert(finding.target(), learned);
        Ok(true)
    }

    fn require_same_nodes(&self, group: &Group) -> Result<(), Refusal> {
        let hash = group.hash();
        match self.group(hash) {
            Some(known) if known != group => {
                Err(Refusal::Invalid(format!("the hash {hash} stands for a group of other nodes")))
            }
            _ => Ok(()),
        }
    }

    fn import_trials(&mut self, trials: Vec<Arc<TrialRecord>>, imported: &mut Imported) {
        let mut by_target = BTreeMap::<Target, Vec<Arc<TrialRecord>>>::new();
        for trial in trials {
            if check::trial(&trial, self.group(trial.target.group)).is_ok() {
                by_target.entry(trial.target).or_default().push(trial);
            } else {
                imported.refused += 1;
            }
        }
        for (target, trials) in by_target {
            let standing = self.history.of(target);
            let there: HashSet<*const TrialRecord> = standing.iter().map(Arc::as_ptr).collect();
            let told = trials.len();
            let merged = merge_trials(standing.iter().cloned().chain(trials));
            let is_new = |trial: &&Arc<TrialRecord>| !there.contains(&Arc::as_ptr(trial));
            let taken = merged.iter().filter(is_new).count();
            imported.trials += taken as u32;
            imported.known += told.saturating_sub(taken) as u32;
            if taken > 0 {
                self.history.replace(target, merged);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{chain, finding, flat, group, plan_of, trial};
    use super::*;
    use arborcast_proto::LinkMatrix;
    use arborcast_proto::message::Times;

    fn links(rate: f64) -> Arc<LinkMatrix> {
        Arc::new(LinkMatrix::new(3, vec![0.1; 9], vec![rate; 9]).unwrap())
    }

    /// What a daemon knows after a job with this epoch.
    fn after(epoch: u64, finding: Finding, trials: &[u32]) -> Knowledge {
        let mut knowledge = Knowledge::default();
        knowledge.publish(finding, Some(epoch)).unwrap();
        knowledge.set_links(group(), links(epoch as f64), epoch).unwrap();
        for &number in trials {
            let unix_s = (epoch + u64::from(number)) as f64;
            knowledge.add_trial(TrialRecord { unix_s, ..trial(number) }).unwrap();
        }
        knowledge
    }

    #[test]
    fn what_is_newer_is_taken_and_what_is_older_is_left() {
        let (older, newer) =
            (after(1, finding(flat(), 0.4), &[1]), after(9, finding(chain(), 0.5), &[1, 2]));
        let mut knowledge = Knowledge::from_wisdom(older.to_wisdom()).0;
        let (imported, changed) = knowledge.import(newer.to_wisdom());
        assert_eq!(imported, Imported { plans: 1, links: 1, trials: 2, known: 0, refused: 0 });
        assert_eq!(changed, [finding(flat(), 0.4).target()]);
        assert_eq!(plan_of(&knowledge), (&chain(), 0.5), "the newer one, though it is slower");
        assert_eq!(knowledge.matrices().next().unwrap().matrix, links(9.0));
        assert_eq!(knowledge.trials(trial(1).target).len(), 3);
        let changes = knowledge.changes();
        for file in [older.to_wisdom(), newer.to_wisdom(), knowledge.to_wisdom()] {
            let before = knowledge.to_wisdom();
            let (imported, changed) = knowledge.import(file);
            assert_eq!((imported.plans, imported.links, imported.trials), (0, 0, 0));
            assert!(changed.is_empty() && imported.known > 0);
            assert_eq!(knowledge.to_wisdom(), before);
        }
        assert_eq!(knowledge.changes(), changes, "there is nothing to save");
    }

    #[test]
    fn the_same_is_known_as_after_a_merge_of_the_files() {
        let (one, other) =
            (after(2, finding(flat(), 0.4), &[1, 3]), after(1, finding(chain(), 0.5), &[1, 2]));
        let mut knowledge = Knowledge::from_wisdom(one.to_wisdom()).0;
        knowledge.import(other.to_wisdom());
        let merged = arborcast_proto::wisdom::merge(one.to_wisdom(), other.to_wisdom());
        assert_eq!(knowledge.to_wisdom(), merged);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_what_is_known_stands() {
        let mut knowledge = after(1, finding(flat(), 0.5), &[1]);
        let before = knowledge.to_wisdom();
        let with = |finding: Finding| Learned { finding: Arc::new(finding), epoch: 5 };
        let nan = Times { median_s: f64::NAN, ..finding(flat(), 0.5).times };
        let wrong_size = Arc::new(LinkMatrix::new(2, vec![0.1; 4], vec![1.0; 4]).unwrap());
        let file = Wisdom {
            plans: vec![
                with(finding(flat(), 2.0)),
                with(Finding { times: nan, ..finding(flat(), 0.5) }),
            ],
            trials: vec![Arc::new(TrialRecord { bytes: 1, ..trial(7) })],
            matrices: vec![MeasuredLinks { group: group(), matrix: wrong_size, epoch: 5 }],
            ..Wisdom::default()
        };
        let (imported, changed) = knowledge.import(file);
        assert_eq!(imported, Imported { refused: 4, ..Imported::default() });
        assert!(changed.is_empty());
        assert_eq!(knowledge.to_wisdom(), before);
    }
}
