//! What the ranks of a communicator have agreed. It serves every later communicator of the same ranks, and what all ranks
//! of the job have told each other serves those of some of them: neither takes a message.
//!
//! Their messages travel among each other's on one carrier. Which broadcast a header belongs to is told by its
//! number, since each agreement counts from a place of its own; all else comes from a known source, and between two
//! ranks in the order of their broadcasts, which MPI demands to be the same on both unless one has several threads
//! in MPI. Where one has, what they agree serves their communicator alone.

use crate::delivery::Reporting;
use crate::native_runs::NativeRuns;
use crate::plan_cache::PlanCache;
use crate::rank_info::RankInfo;
use crate::sampling::Sampling;
use crate::set_up::Budget;
use crate::tree_bcast::{Carrier, Channel};
use arborcast_proto::codec::checksum;
use arborcast_proto::{Group, GroupHash};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The ranks of a communicator, in its order, by a hash of their numbers in the job: the same on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ranks(u64);

impl Ranks {
    pub fn new(in_job: &[c_int]) -> Self {
        Ranks(checksum(in_job.iter().flat_map(|rank| rank.to_le_bytes())))
    }
}

/// See the module's text.
pub struct Agreement {
    pub channel: Channel,
    pub group: Group,
    pub group_hash: GroupHash,
    course: Mutex<Course>,
    as_root: Mutex<AsRoot>,
    /// For a carrier of its own, which goes with the communicator; `None` where others use it too.
    pub budget: Option<Budget>,
}

/// The broadcasts of all communicators that an agreement serves, as one row: counted alike by all ranks.
#[derive(Debug)]
pub struct Course {
    /// Of the last broadcast that carried a header.
    sequence: u64,
    pub native_runs: NativeRuns,
}

impl Course {
    /// `has_plan`: see [`NativeRuns::new`].
    pub fn new(ranks: Ranks, has_plan: Vec<bool>) -> Self {
        Course { sequence: ranks.0, native_runs: NativeRuns::new(has_plan) }
    }

    /// The number of the next broadcast that carries a header.
    pub fn next_sequence(&mut self) -> u64 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

/// What a rank knows for where it is the root.
#[derive(Default)]
pub struct AsRoot {
    pub plans: PlanCache,
    pub sampling: Sampling,
    pub reporting: Reporting,
}

impl Agreement {
    pub fn new(channel: Channel, group: Group, course: Course, budget: Option<Budget>) -> Self {
        Agreement {
            channel,
            group_hash: group.hash(),
            group,
            course: Mutex::new(course),
            as_root: Mutex::default(),
            budget,
        }
    }

    pub fn as_root(&self) -> MutexGuard<'_, AsRoot> {
        self.as_root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of the ranks' exchange: an agreement, or why their broadcasts are native.
pub type Outcome = Result<Arc<Agreement>, &'static str>;

static KEPT: Mutex<BTreeMap<Ranks, Outcome>> = Mutex::new(BTreeMap::new());

/// MPI_Finalize has begun. Ranks call it in the same order as their broadcasts.
static JOB_HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// What ranks have agreed before, at the same broadcast on all of them.
pub fn kept(ranks: Ranks) -> Option<Outcome> {
    let kept = || KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(&ranks).cloned();
    (!job_has_ended()).then(kept).flatten()
}

/// Whether ranks need no message to agree.
pub fn is_known(ranks: Ranks) -> bool {
    Job::get().is_some() || kept(ranks).is_some()
}

/// From now on it serves all communicators of these ranks. None of them may have several threads in MPI.
pub fn keep(ranks: Ranks, outcome: &Outcome) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).insert(ranks, outcome.clone());
}

/// From now on no agreement serves that is kept: the world, which their carriers are of, is no more.
pub fn end_job() {
    JOB_HAS_ENDED.store(true, Ordering::Relaxed);
}

pub fn job_has_ended() -> bool {
    JOB_HAS_ENDED.load(Ordering::Relaxed)
}

/// What all ranks of the job have told each other, and the communicator of them all that carries.
pub struct Job {
    pub carrier: Carrier,
    /// By the rank in the job: what each has told, and its rank on the carrier.
    told: Vec<RankInfo>,
    on_carrier: Vec<c_int>,
}

static JOB: OnceLock<Job> = OnceLock::new();

impl Job {
    /// Once they have; at the same broadcast on all of them.
    pub fn get() -> Option<&'static Job> {
        JOB.get().filter(|_| !job_has_ended())
    }

    /// They have, on a communicator in whose order are what they `told` and their ranks in the job.
    pub fn begin(carrier: &Carrier, in_job: &[c_int], told: impl Iterator<Item = RankInfo>) {
        let told = (0..).zip(in_job).zip(told);
        let mut by_rank: Vec<(c_int, c_int, RankInfo)> =
            told.map(|((on_carrier, &in_job), told)| (in_job, on_carrier, told)).collect();
        by_rank.sort_by_key(|(in_job, ..)| *in_job);
        let (on_carrier, told) = by_rank.into_iter().map(|(_, on, told)| (on, told)).unzip();
        // Two at once there cannot be: no rank has several threads in MPI.
        let _ = JOB.set(Job { carrier: carrier.clone(), told, on_carrier });
    }

    /// By some of its ranks.
    pub fn told(&self, in_job: &[c_int]) -> Vec<Option<RankInfo>> {
        in_job.iter().map(|&rank| self.told.get(rank as usize).cloned()).collect()
    }

    /// The carrier's ranks of some of the job's.
    pub fn on_carrier(&self, in_job: &[c_int]) -> Vec<c_int> {
        in_job.iter().map(|&rank| self.on_carrier[rank as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counting up from one, no program comes to another: not in 2^30 broadcasts.
    #[test]
    fn courses_of_different_ranks_are_far_apart() {
        const JOB: c_int = 256;
        let pairs =
            (0..JOB).flat_map(|a| (0..JOB).filter(move |&b| b != a).map(move |b| vec![a, b]));
        let parts = (1..=JOB).flat_map(|size| {
            (0..JOB / size).flat_map(move |part| {
                let strided = (0..size).map(|i| part + i * (JOB / size)).collect::<Vec<_>>();
                [(part * size..(part + 1) * size).collect(), strided]
            })
        });
        let mut all: Vec<Vec<c_int>> = pairs.chain(parts).collect();
        all.sort();
        all.dedup();
        let mut starts: Vec<u64> = all.iter().map(|ranks| Ranks::new(ranks).0).collect();
        starts.sort_unstable();
        let nearest = starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
        assert!(nearest > 1 << 30, "{nearest} among {}", starts.len());
    }
}
