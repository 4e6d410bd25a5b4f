//! How the ranks of a communicator agree whether its broadcasts are ours to carry.
//!
//! All ranks tell all others what they know of themselves, so that all judge its eligibility alike from
//! the same data; once, where that is enough ([`agreement`]). Every rank that has this library takes part,
//! one that is disabled too. The exchange is a blocking one: with several threads at once, MPICH 5 and Intel MPI
//! crash in non-blocking ones.

use crate::agreement::{self, Agreement, Course, Job, Outcome, Ranks};
use crate::communicator::ranks_in_job;
use crate::pmpi::{Comm, MpiError};
use crate::rank_info::RankInfo;
use crate::settings::{say, settings, tell};
use crate::tree_bcast::Carrier;
use arborcast_proto::{Group, NodeName};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Each carrier takes one of the MPI's contexts, of which MPICH has about 2,000 for a process: most are left to
/// the program.
const MAX_CARRIERS: usize = 128;

static CARRIERS: AtomicUsize = AtomicUsize::new(0);

/// A carrier's part of the budget; given back when this value goes.
pub struct Budget(());

impl Budget {
    fn is_left() -> bool {
        CARRIERS.load(Ordering::Relaxed) < MAX_CARRIERS
    }

    fn take() -> Self {
        CARRIERS.fetch_add(1, Ordering::Relaxed);
        Budget(())
    }

    /// It is not given back.
    fn for_ever(self) -> Option<Self> {
        std::mem::forget(self);
        None
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        CARRIERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a communicator stays native.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Ineligible {
    #[error("its ranks use different versions of Arborcast")]
    Versions,
    #[error("all its ranks are on one node")]
    OneNode,
    #[error("Arborcast is disabled for a rank on node {0}")]
    Disabled(NodeName),
    #[error("the job may go on where it has lost ranks")]
    Outlives,
    #[error("MPI was started by a session alone")]
    Session,
    #[error("node {0} has no daemon")]
    NoDaemon(NodeName),
    #[error("node {0} uses a GPU runtime")]
    Device(NodeName),
    #[error("{MAX_CARRIERS} communicators carry messages already")]
    Budget,
    #[error("{0}")]
    Group(String),
}

impl Ineligible {
    /// For the report, which counts by reasons.
    fn in_short(&self) -> &'static str {
        match self {
            Ineligible::Versions => "native: different versions of Arborcast",
            Ineligible::OneNode => "native: all ranks on one node",
            Ineligible::Disabled(_) => "native: Arborcast is disabled",
            Ineligible::Outlives => "native: a job that may lose ranks",
            Ineligible::Session => "native: a session without the world model",
            Ineligible::NoDaemon(_) => "native: a node without a daemon",
            Ineligible::Device(_) => "native: a GPU runtime",
            Ineligible::Budget => "native: enough communicators are managed",
            Ineligible::Group(_) => "native: names that are no group",
        }
    }

    /// Something can be done about it that the user would want to hear of.
    fn can_be_mended(&self) -> bool {
        matches!(self, Ineligible::Versions | Ineligible::NoDaemon(_) | Ineligible::Group(_))
    }
}

/// The nodes of an eligible communicator. The same on all its ranks.
fn eligibility(ranks: &[Option<RankInfo>]) -> Result<Group, Ineligible> {
    let known = ranks.iter().map(Option::as_ref).collect::<Option<Vec<_>>>();
    let known = known.ok_or(Ineligible::Versions)?;
    let mut names: Vec<_> = known.iter().map(|rank| rank.node.clone()).collect();
    names.sort();
    names.dedup();
    if names.len() < 2 {
        return Err(Ineligible::OneNode);
    }
    let node_where = |is_so: fn(&RankInfo) -> bool| {
        known.iter().find(|rank| is_so(rank)).map(|rank| rank.node.clone())
    };
    if let Some(node) = node_where(|rank| rank.is_disabled) {
        return Err(Ineligible::Disabled(node));
    }
    if node_where(|rank| rank.outlives_ranks).is_some() {
        return Err(Ineligible::Outlives);
    }
    if node_where(|rank| rank.has_no_world).is_some() {
        return Err(Ineligible::Session);
    }
    if let Some(node) = node_where(|rank| !rank.has_daemon) {
        return Err(Ineligible::NoDaemon(node));
    }
    if let Some(node) = node_where(|rank| rank.has_device) {
        return Err(Ineligible::Device(node));
    }
    if node_where(|rank| rank.is_out_of_budget).is_some() {
        return Err(Ineligible::Budget);
    }
    Group::new(names).map_err(|error| Ineligible::Group(error.to_string()))
}

/// Agrees with all members of `comm`, in their order `ranks`, or finds out why it stays native: with messages, and
/// collectively, unless it is known.
///
/// # Errors
/// Where MPI reports one; no error handler of the program is called.
pub fn set_up(comm: Comm, ranks: Ranks) -> Result<Outcome, MpiError> {
    if let Some(kept) = agreement::kept(ranks) {
        return Ok(kept);
    }
    comm.returning_errors(|| {
        let in_job = ranks_in_job(comm)?.ok_or_else(MpiError::other)?;
        let job = Job::get();
        let told = job.map_or_else(|| exchange(comm), |job| Ok(job.told(&in_job)))?;
        // All ranks make the same broadcasts in the same order, on whatever communicators they share.
        let in_order = told.iter().all(|rank| rank.as_ref().is_some_and(|rank| !rank.has_threads));
        let is_first = comm.rank()? == 0;
        let outcome = match eligibility(&told) {
            Ok(group) => {
                if is_first {
                    say(|| {
                        format!("a communicator of {} ranks on {} nodes", told.len(), group.len())
                    });
                }
                agree(comm, ranks, group, (&in_job, &told), (job, in_order))?.map(Arc::new)
            }
            Err(reason) => {
                if is_first {
                    say(|| {
                        format!("a communicator of {} ranks stays native: {reason}", told.len())
                    });
                    tell_once(&reason);
                }
                Err(reason.in_short())
            }
        };
        if in_order {
            agreement::keep(ranks, &outcome);
        }
        Ok(outcome)
    })
}

/// What members agree that may: each of `comm` has `told`, and is a rank `in_job`.
fn agree(
    comm: Comm,
    ranks: Ranks,
    group: Group,
    (in_job, told): (&[c_int], &[Option<RankInfo>]),
    (job, in_order): (Option<&Job>, bool),
) -> Result<Result<Agreement, &'static str>, MpiError> {
    let told = || told.iter().flatten();
    let node = |rank: &RankInfo| group.index_of(&rank.node).map(|node| node as u16);
    let node_of_rank: Vec<u16> = told().filter_map(node).collect();
    let mut has_plan = vec![false; group.len()];
    for (rank, &node) in told().zip(&node_of_rank) {
        has_plan[usize::from(node)] |= rank.planned.may_contain(group.hash(), node);
    }
    let (carrier, members, budget) = if let Some(job) = job {
        (job.carrier.clone(), job.on_carrier(in_job), None)
    } else {
        // MPIs agree on a new context, so that where it fails it fails on all ranks.
        let Ok(traffic) = comm.duplicate() else {
            say(|| "the MPI has no communicator left: native".into());
            return Ok(Err("native: the MPI has no communicator left"));
        };
        let carrier = Carrier::new(traffic, group.len())?;
        if in_order && in_job.len() == Comm::world().size()? {
            Job::begin(&carrier, in_job, told().cloned());
        }
        let budget = Budget::take();
        let budget = if in_order { budget.for_ever() } else { Some(budget) };
        (carrier, (0..in_job.len() as c_int).collect(), budget)
    };
    let channel = carrier.channel_of(members, &node_of_rank)?;
    Ok(Ok(Agreement::new(channel, group, Course::new(ranks, has_plan), budget)))
}

/// What each rank of `comm` tells, in their order; `None` from one of another version. Collective.
fn exchange(comm: Comm) -> Result<Vec<Option<RankInfo>>, MpiError> {
    let own = RankInfo::own(!Budget::is_left());
    let all = comm.all_gather(&own.encode())?;
    Ok(all.chunks_exact(RankInfo::BYTES).map(RankInfo::decode).collect())
}

/// Loading this library asks for managed broadcasts, so the user hears once, from one rank, why
/// there are none, where something can be done about it.
fn tell_once(reason: &Ineligible) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if reason.can_be_mended() && !TOLD.swap(true, Ordering::Relaxed) && !settings().verbose {
        tell(&format!("broadcasts are native: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::segment::PlannedRoots;

    fn rank(node: &str) -> RankInfo {
        let info = RankInfo::new(NodeName::new(node).unwrap(), PlannedRoots::default());
        RankInfo { has_daemon: true, ..info }
    }

    #[test]
    fn one_rank_keeps_a_communicator_native() {
        let eligible = |other: Option<RankInfo>| {
            eligibility(&[Some(rank("b")), Some(rank("a")), other]).map(|group| group.len())
        };
        assert_eq!(eligible(Some(rank("b"))), Ok(2));
        let c = NodeName::new("c").unwrap();
        let with = |change: fn(&mut RankInfo)| {
            let mut other = rank("c");
            change(&mut other);
            eligible(Some(other)).unwrap_err()
        };
        assert_eq!(eligible(None), Err(Ineligible::Versions));
        assert_eq!(with(|r| r.has_daemon = false), Ineligible::NoDaemon(c.clone()));
        assert_eq!(with(|r| r.has_device = true), Ineligible::Device(c.clone()));
        assert_eq!(with(|r| r.is_disabled = true), Ineligible::Disabled(c));
        assert_eq!(with(|r| r.outlives_ranks = true), Ineligible::Outlives);
        assert_eq!(with(|r| r.has_no_world = true), Ineligible::Session);
        assert_eq!(with(|r| r.is_out_of_budget = true), Ineligible::Budget);
        assert_eq!(eligibility(&[Some(rank("a")), Some(rank("a"))]), Err(Ineligible::OneNode));
    }
}
