//! What a daemon knows: plans, how they were found, links and groups. Without I/O or clock.
//!
//! Everything comes from the experiment or from the wisdom file and is checked here before it is
//! kept. What a job has measured last stands: it measures the plan in use itself before any other, and a time
//! of another day says nothing of the network as it is. Which job is the newest is not decided here: epochs
//! come from clocks, and clocks are set back.

mod check;
mod groups;
mod history;
mod import;

use arborcast_proto::message::{Finding, Reason, Refusal, Rival, Times, TrialRecord};
use arborcast_proto::segment::BookEntry;
use arborcast_proto::wisdom::{Learned, MeasuredLinks, Wisdom};
use arborcast_proto::{Group, GroupHash, LinkMatrix, Plan, SizeClass, Target};
use groups::Groups;
use history::History;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// About what all plans may take up, and what all matrices may, so that with the histories they fit
/// into the wisdom file. Beyond it, something has to be forgotten first.
const MAX_PLAN_BYTES: usize = 12 << 20;
const MAX_MATRIX_BYTES: usize = 12 << 20;
const NOT_BETTER: &str = "the plan is not better than the native broadcast; publish `native`";

/// Plans, histories, links and groups.
#[derive(Debug, Default)]
pub struct Knowledge {
    plans: BTreeMap<Target, Learned>,
    history: History,
    matrices: BTreeMap<GroupHash, MeasuredLinks>,
    groups: Groups,
    /// Counts changes that belong into the wisdom file.
    changes: u64,
}

/// What a finding changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The target has another plan now.
    NewPlan,
    /// News of the plan in use.
    SamePlan,
    /// The plan in use is faster, or measured where this one is not.
    Slower,
}

impl Knowledge {
    /// Takes in a finding of the experiment job with this epoch; `None`: one that is published by hand, which
    /// counts as much as what the job said whose plan stands.
    ///
    /// # Errors
    /// `Invalid` where it contradicts itself or is not better than the native broadcast.
    pub fn publish(
        &mut self,
        mut finding: Finding,
        epoch: Option<u64>,
    ) -> Result<Published, Refusal> {
        check::finding(&finding)?;
        let target = finding.target();
        let standing = self.plans.get(&target).map(|standing| &*standing.finding);
        let mut is_news_of_it = standing.is_some_and(|standing| standing.plan == finding.plan);
        if let Some(native) = faster_native(&finding)
            && finding.plan != Plan::Native
        {
            // The plan has fallen behind: native takes its place, also where the daemon was away when the
            // job told it of that plan, and another one stands here.
            let is_of_job = epoch.is_some() && finding.times.is_measured();
            is_news_of_it |= is_of_job && standing.is_some();
            if !is_news_of_it {
                return Err(Refusal::Invalid(NOT_BETTER.into()));
            }
            fall_behind(&mut finding, native);
        }
        let published = match standing {
            None => {
                self.require_room(&finding)?;
                Published::NewPlan
            }
            Some(standing)
                if !is_news_of_it && !takes_over(&finding, standing, epoch.is_some()) =>
            {
                return Ok(Published::Slower);
            }
            Some(standing) if standing.plan == finding.plan => Published::SamePlan,
            Some(_) => Published::NewPlan,
        };
        // Never less: in another daemon's file what it replaces would come first again.
        let epoch = epoch.max(self.epoch(target)).unwrap_or(0);
        self.groups.replace(&finding.group);
        self.plans.insert(target, Learned { finding: Arc::new(finding), epoch });
        self.changes += 1;
        Ok(published)
    }

    fn require_room(&self, finding: &Finding) -> Result<(), Refusal> {
        if self.plan_bytes() + encoded_bytes(finding) <= MAX_PLAN_BYTES {
            return Ok(());
        }
        let text = format!("{} plans are all that fit; forget some", self.plans.len());
        Err(Refusal::Invalid(text))
    }

    /// Takes in what a trial gave.
    ///
    /// # Errors
    /// `Invalid` where it contradicts itself.
    pub fn add_trial(&mut self, record: TrialRecord) -> Result<(), Refusal> {
        check::trial(&record, self.group(record.target.group))?;
        self.history.add(Arc::new(record));
        self.changes += 1;
        Ok(())
    }

    /// Takes in the links of a group, as the experiment job with this epoch measured them, in place of what
    /// was known of them.
    ///
    /// # Errors
    /// `Invalid` where there are not as many nodes as the group has.
    pub fn set_links(
        &mut self,
        group: Group,
        matrix: Arc<LinkMatrix>,
        epoch: u64,
    ) -> Result<(), Refusal> {
        if matrix.nodes() != group.len() {
            let text = format!("a matrix of {} for {} nodes", matrix.nodes(), group.len());
            return Err(Refusal::Invalid(text));
        }
        let hash = group.hash();
        let others = self.matrices.iter().filter(|(other, _)| **other != hash);
        let bytes = |group: &Group| 64 + 16 * group.len() * group.len() + group_bytes(group);
        let of_others: usize = others.map(|(_, links)| bytes(&links.group)).sum();
        if of_others + bytes(&group) > MAX_MATRIX_BYTES {
            let text = format!("the links of {} groups are all that fit", self.matrices.len());
            return Err(Refusal::Invalid(text));
        }
        let epoch = self.links_epoch(hash).map_or(epoch, |known| epoch.max(known));
        self.groups.replace(&group);
        self.matrices.insert(hash, MeasuredLinks { group, matrix, epoch });
        self.changes += 1;
        Ok(())
    }

    /// A client tells which nodes a hash stands for. Hashes can be made to meet, so where other nodes
    /// are known, those stand, unless the client is `trusted`.
    ///
    /// # Errors
    /// `Invalid` where the hash stands for other nodes.
    pub fn register(&mut self, group: &Group, trusted: bool) -> Result<(), Refusal> {
        let hash = group.hash();
        if trusted {
            self.groups.replace(group);
            Ok(())
        } else if self.group(hash).is_none_or(|known| known == group) {
            self.groups.register(group);
            Ok(())
        } else {
            Err(Refusal::Invalid(format!("the hash {hash} stands for a group of other nodes")))
        }
    }

    /// Forgets one target, or everything that was learned. Gives the targets that had a plan.
    pub fn forget(&mut self, target: Option<Target>) -> Vec<Target> {
        self.changes += 1;
        match target {
            Some(target) => {
                self.history.forget(target);
                self.plans.remove(&target).map(|_| target).into_iter().collect()
            }
            None => {
                self.history = History::default();
                self.matrices.clear();
                std::mem::take(&mut self.plans).into_keys().collect()
            }
        }
    }

    /// The nodes behind a hash. What the experiment said goes before what any client registered.
    pub fn group(&self, hash: GroupHash) -> Option<&Group> {
        let of_matrix = || self.matrices.get(&hash).map(|links| &links.group);
        let of_group = Target { group: hash, root: 0, class: SizeClass::of(0) }..;
        let first = self.plans.range(of_group).next().filter(|(target, _)| target.group == hash);
        let of_plan = first.map(|(_, learned)| &learned.finding.group);
        of_plan.or_else(of_matrix).or_else(|| self.groups.get(hash))
    }

    pub fn finding(&self, target: Target) -> Option<&Finding> {
        self.plans.get(&target).map(|learned| &*learned.finding)
    }

    /// As [`Knowledge::finding`], to be kept.
    pub fn shared_finding(&self, target: Target) -> Option<Arc<Finding>> {
        self.plans.get(&target).map(|learned| learned.finding.clone())
    }

    /// The links of a group as they were measured last.
    pub fn links(&self, group: GroupHash) -> Option<&LinkMatrix> {
        self.matrices.get(&group).map(|links| &*links.matrix)
    }

    /// The experiment job that found the target's plan.
    pub fn epoch(&self, target: Target) -> Option<u64> {
        self.plans.get(&target).map(|learned| learned.epoch)
    }

    fn plan_bytes(&self) -> usize {
        self.plans.values().map(|learned| encoded_bytes(&learned.finding)).sum()
    }

    pub fn plan_count(&self) -> usize {
        self.plans.len()
    }

    /// Of this daemon and those whose wisdom it has, thinned ones included.
    pub fn trial_count(&self) -> u64 {
        self.history.count()
    }

    pub fn trials(&self, target: Target) -> &[Arc<TrialRecord>] {
        self.history.of(target)
    }

    /// When the plan that was found last was measured first, in seconds since 1970, as far as the trials
    /// tell.
    pub fn newest_plan_unix_s(&self) -> Option<f64> {
        let found = self.plans.iter().filter_map(|(target, learned)| {
            let mut trials = self.trials(*target).iter();
            Some(trials.find(|trial| trial.plan == learned.finding.plan)?.unix_s)
        });
        found.reduce(f64::max)
    }

    pub fn matrices(&self) -> impl Iterator<Item = &MeasuredLinks> {
        self.matrices.values()
    }

    /// The experiment job that measured the links of a group.
    pub fn links_epoch(&self, group: GroupHash) -> Option<u64> {
        self.matrices.get(&group).map(|links| links.epoch)
    }

    /// Every target with a plan or a trial, in order.
    pub fn targets(&self) -> BTreeSet<Target> {
        self.plans.keys().copied().chain(self.history.targets()).collect()
    }

    /// What the plan book is to say.
    pub fn book(&self) -> Vec<(Target, BookEntry)> {
        let entry = |(target, learned): (&Target, &Learned)| {
            let Finding { plan, times, native, .. } = &*learned.finding;
            let native_s = native.map(|native| native.median_s);
            let (plan, median_s, is_measured) = (plan.clone(), times.median_s, times.is_measured());
            (*target, BookEntry { plan, median_s, is_measured, native_s })
        };
        self.plans.iter().map(entry).collect()
    }

    /// Counts what has changed since the beginning and belongs into the wisdom file.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn to_wisdom(&self) -> Wisdom {
        let groups: BTreeSet<GroupHash> = self.targets().iter().map(|t| t.group).collect();
        Wisdom {
            groups: groups.into_iter().filter_map(|hash| self.group(hash).cloned()).collect(),
            plans: self.plans.values().cloned().collect(),
            trials: self.history.all().cloned().collect(),
            matrices: self.matrices.values().cloned().collect(),
        }
    }

    /// What of the wisdom makes sense, and how much of it does not.
    pub fn from_wisdom(wisdom: Wisdom) -> (Self, usize) {
        let mut knowledge = Knowledge::default();
        let refused = knowledge.take_in(wisdom);
        knowledge.changes = 0;
        (knowledge, refused)
    }

    /// Takes in wisdom that could not be read at first, as if it had been known before all else. Gives
    /// how much of it makes no sense.
    pub fn absorb(&mut self, earlier: Wisdom) -> usize {
        let (mut all, refused) = Knowledge::from_wisdom(earlier);
        all.changes = self.changes + 1;
        // What was checked once makes sense, and where the file was full the newest is left out.
        let _ = all.take_in(self.to_wisdom());
        for group in self.groups.iter() {
            let _ = all.register(group, false);
        }
        *self = all;
        refused
    }

    fn take_in(&mut self, wisdom: Wisdom) -> usize {
        let mut refused = 0;
        for group in &wisdom.groups {
            self.groups.replace(group);
        }
        for MeasuredLinks { group, matrix, epoch } in wisdom.matrices {
            refused += usize::from(self.set_links(group, matrix, epoch).is_err());
        }
        for Learned { finding, epoch } in wisdom.plans {
            refused += usize::from(self.publish((*finding).clone(), Some(epoch)).is_err());
        }
        for trial in wisdom.trials {
            refused += usize::from(self.add_trial((*trial).clone()).is_err());
        }
        refused
    }
}

/// Whether a finding takes the place of one of another plan.
fn takes_over(finding: &Finding, standing: &Finding, is_of_job: bool) -> bool {
    // What native took in the same experiment is what compares.
    let native = finding.native.filter(|_| standing.plan == Plan::Native);
    let standing_s = native.unwrap_or(standing.times).median_s;
    // What was only expected gives way to what is measured.
    match (finding.times.is_measured(), standing.times.is_measured()) {
        (true, false) => true,
        (false, true) => false,
        _ => is_of_job || finding.times.median_s < standing_s,
    }
}

/// Native in the same experiment, where it took no longer than the plan.
fn faster_native(finding: &Finding) -> Option<Times> {
    finding.native.filter(|native| native.median_s <= finding.times.median_s)
}

/// Native takes the place of the plan, which is what it is compared with from now on.
fn fall_behind(finding: &mut Finding, native: Times) {
    let plan = std::mem::replace(&mut finding.plan, Plan::Native);
    let times = std::mem::replace(&mut finding.times, native);
    finding.reason = finding.reason.take().and_then(|reason| {
        let native = reason.against.filter(|rival| rival.plan == Plan::Native)?;
        let against = Some(Rival { plan, times, interval_s: reason.interval_s });
        Some(Reason { predicted_s: None, interval_s: native.interval_s, against })
    });
}

/// About what a finding takes up when it is encoded.
pub fn encoded_bytes(finding: &Finding) -> usize {
    let names = group_bytes(&finding.group);
    let trees = |plan: &Plan| plan.striping().map_or(0, |s| s.stripes().len() * (4 * s.len() + 32));
    let rival = finding.reason.as_ref().and_then(|reason| reason.against.as_ref());
    let rival = rival.map_or(0, |rival| trees(&rival.plan));
    256 + 96 + finding.strategy.len() + names + trees(&finding.plan) + rival
}

/// What a group takes up when it is encoded.
pub fn group_bytes(group: &Group) -> usize {
    8 + group.nodes().iter().map(|name| 8 + name.as_str().len()).sum::<usize>()
}

#[cfg(test)]
mod tests;
