//! How targets converged. Bounded in records and in memory: where there are too many, every second
//! one that brought no improvement is dropped, so that the curve keeps its steps.

use arborcast_proto::Target;
use arborcast_proto::message::TrialRecord;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Records of one target.
const MAX_RECORDS: usize = 10_000;
/// Bytes of one target's records, so that an answer fits into a message.
const MAX_TARGET_BYTES: usize = 4 << 20;
/// Bytes of all records, so that they fit into the wisdom file.
const MAX_BYTES: usize = 24 << 20;

#[derive(Debug, Default)]
pub struct History {
    /// None of them without records.
    targets: BTreeMap<Target, Records>,
    /// Of all records.
    bytes: usize,
    count: u64,
}

#[derive(Debug, Default)]
struct Records {
    records: Vec<Arc<TrialRecord>>,
    bytes: usize,
}

/// About what a record takes up when it is encoded.
fn encoded_bytes(record: &TrialRecord) -> usize {
    let trees = record.plan.striping().map_or(0, |s| s.stripes().len() * (4 * s.len() + 32));
    160 + record.strategy.len() + trees
}

impl Records {
    fn push(&mut self, record: Arc<TrialRecord>) {
        self.bytes += encoded_bytes(&record);
        self.records.push(record);
    }

    /// Drops at least a quarter.
    fn thin(&mut self) {
        let before = self.records.len();
        let mut best = f64::INFINITY;
        let last = self.records.len().saturating_sub(1);
        let mut keep_next = false;
        let mut index = 0;
        self.records.retain(|record| {
            let improves = record.best_s.is_some_and(|now| now < best);
            best = record.best_s.map_or(best, |now| now.min(best));
            keep_next = !keep_next;
            index += 1;
            improves || keep_next || index - 1 == last
        });
        // Improvements alone may be too many, too: then the oldest records go.
        if 4 * self.records.len() > 3 * before {
            self.records.drain(..self.records.len().div_ceil(2));
        }
        self.bytes = self.records.iter().map(|record| encoded_bytes(record)).sum();
    }
}

impl History {
    pub fn add(&mut self, record: Arc<TrialRecord>) {
        self.count += 1;
        let target = record.target;
        let records = self.targets.entry(target).or_default();
        let before = records.bytes;
        records.push(record);
        if records.records.len() > MAX_RECORDS || records.bytes > MAX_TARGET_BYTES {
            records.thin();
        }
        self.bytes = self.bytes + records.bytes - before;
        while self.bytes > MAX_BYTES {
            let others = self.targets.iter_mut().filter(|(other, _)| **other != target);
            let largest = others.max_by_key(|(_, records)| records.bytes);
            // No target alone takes up so much.
            let Some((&largest, records)) = largest else { return };
            let before = records.bytes;
            records.thin();
            self.bytes -= before - records.bytes;
            if records.records.is_empty() {
                self.targets.remove(&largest);
            }
        }
    }

    /// Puts records, of which there may be too many, in place of those of a target.
    pub fn replace(&mut self, target: Target, records: Vec<Arc<TrialRecord>>) {
        let known = self.of(target).len();
        self.forget(target);
        let count = self.count + records.len().saturating_sub(known) as u64;
        records.into_iter().for_each(|record| self.add(record));
        self.count = count;
    }

    /// All records that were added, those that are gone included.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn of(&self, target: Target) -> &[Arc<TrialRecord>] {
        self.targets.get(&target).map_or(&[], |records| &records.records)
    }

    pub fn forget(&mut self, target: Target) {
        self.bytes -= self.targets.remove(&target).map_or(0, |records| records.bytes);
    }

    pub fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        self.targets.keys().copied()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<TrialRecord>> {
        self.targets.values().flat_map(|records| &records.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{GroupHash, Plan, SizeClass, Tree};

    fn record(root: u16, number: u32, best_s: f64, nodes: usize) -> Arc<TrialRecord> {
        Arc::new(TrialRecord {
            target: Target { group: GroupHash(1), root, class: SizeClass::of(1) },
            bytes: 1,
            number,
            plan: Plan::single(Tree::flat(nodes, root.into()).unwrap(), 1024).unwrap(),
            times: None,
            predicted_s: None,
            best_s: Some(best_s),
            strategy: "test".into(),
            search_s: f64::from(number),
            unix_s: 0.0,
        })
    }

    #[test]
    fn steps_of_the_curve_survive_thinning() {
        let mut history = History::default();
        let best = |number: u32| 1.0 / f64::from(1 + number / 1000);
        for number in 1..=50_000 {
            history.add(record(0, number, best(number), 16));
        }
        let target = record(0, 1, 1.0, 16).target;
        let kept = history.of(target);
        assert!(kept.len() <= MAX_RECORDS && kept.len() > 1000, "{}", kept.len());
        for step in 1..50 {
            assert!(kept.iter().any(|r| r.number == step * 1000), "step {step}");
        }
        assert_eq!((kept[0].number, kept[kept.len() - 1].number), (1, 50_000));
        assert!(kept.is_sorted_by_key(|r| r.number));
        assert_eq!(history.count(), 50_000);
    }

    #[test]
    fn large_plans_and_many_targets_stay_within_their_memory() {
        let mut history = History::default();
        for number in 1..=400 {
            for root in 0..20 {
                history.add(record(root, number, 1.0 / f64::from(number), 2000));
            }
        }
        let bytes: usize = history.all().map(|record| encoded_bytes(record)).sum();
        assert!(bytes <= MAX_BYTES, "{bytes}");
        assert_eq!(history.bytes, bytes, "what is counted is what is there");
        assert!(history.targets().all(|target| !history.of(target).is_empty()));
    }

    #[test]
    fn targets_that_come_and_go_leave_nothing_behind() {
        let mut history = History::default();
        // One record each, as of a job that never uses the same nodes twice.
        let mut record = (*record(0, 1, 1.0, 60_000)).clone();
        for group in 0..1000 {
            record.target.group = GroupHash(group);
            history.add(Arc::new(record.clone()));
        }
        assert_eq!(history.targets().count(), history.all().count());
        assert!(history.targets().count() < 200, "{}", history.targets().count());
        assert!(history.bytes <= MAX_BYTES);
        assert_eq!(history.of(record.target).len(), 1, "the newest is there");
    }
}
