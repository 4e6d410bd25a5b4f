//! How the ranks of a communicator agree whether its broadcasts are ours to carry.
//!
//! All ranks tell all others what they know of themselves, so that all judge its eligibility alike from
//! the same data. Every rank that has this library takes part, one that is disabled too. The exchange is
//! a blocking one: with several threads at once, MPICH 5 and Intel MPI crash in non-blocking ones.

use crate::communicator::Managed;
use crate::daemon;
use crate::delivery::Reporting;
use crate::header;
use crate::native_runs::NativeRuns;
use crate::patience::{Debt, Ranks};
use crate::plan_cache::PlanCache;
use crate::pmpi::{Comm, MpiError, has_threads, world_is_usable};
use crate::sampling::Sampling;
use crate::settings::{say, settings, tell};
use crate::tree_bcast::{Channel, Engine};
use arborcast_proto::segment::{BoardView, PlannedRoots};
use arborcast_proto::{Group, NodeName};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Each managed communicator takes one of the MPI's contexts, of which MPICH has about 2,000 for a
/// process: most are left to the program.
const MAX_MANAGED: usize = 128;

static MANAGED: AtomicUsize = AtomicUsize::new(0);

/// A managed communicator's part of the budget; given back when this value goes.
pub struct Budget(());

impl Budget {
    fn is_left() -> bool {
        MANAGED.load(Ordering::Relaxed) < MAX_MANAGED
    }

    fn take() -> Self {
        MANAGED.fetch_add(1, Ordering::Relaxed);
        Budget(())
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        MANAGED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What each rank tells all others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RankInfo {
    /// `ARBORCAST_DISABLE` is set.
    is_disabled: bool,
    has_daemon: bool,
    /// A GPU runtime is loaded: buffers may be memory that the processor cannot touch.
    has_device: bool,
    /// MPI was started by a session alone.
    has_no_world: bool,
    /// As many communicators as may be are managed already.
    is_out_of_budget: bool,
    /// Several threads may be in MPI at once.
    has_threads: bool,
    planned: PlannedRoots,
    node: NodeName,
}

/// Version and flags.
const FIXED_BYTES: usize = 4;
const NODE_AT: usize = FIXED_BYTES + PlannedRoots::BYTES;

impl RankInfo {
    const BYTES: usize = NODE_AT + NodeName::MAX_BYTES + 1;

    fn own() -> Self {
        let is_disabled = settings().disabled;
        let told = |board: &BoardView| (board.identity().node.clone(), board.planned_roots());
        let from_daemon = (!is_disabled).then(|| daemon::with_board(told)).flatten();
        let host = || {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            NodeName::new(name).ok()
        };
        let has_daemon = from_daemon.is_some();
        let (node, planned) = from_daemon.unzip();
        let node = node.or_else(host).or_else(|| NodeName::new("unnamed").ok());
        RankInfo {
            is_disabled,
            has_daemon: has_daemon && node.is_some(),
            has_device: crate::device::runtime_is_loaded(),
            has_no_world: !world_is_usable().unwrap_or(false),
            is_out_of_budget: !Budget::is_left(),
            has_threads: has_threads().unwrap_or(true),
            planned: planned.unwrap_or_default(),
            node: node.unwrap_or_else(|| unreachable!("a constant name is valid")),
        }
    }

    fn flags(&mut self) -> [&mut bool; 6] {
        let RankInfo {
            is_disabled,
            has_daemon,
            has_device,
            has_no_world,
            is_out_of_budget,
            has_threads,
            ..
        } = self;
        [is_disabled, has_daemon, has_device, has_no_world, is_out_of_budget, has_threads]
    }

    fn encode(mut self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Ranks of another byte order read our headers wrongly; they see another number here.
        bytes[..2].copy_from_slice(&u16::from(header::VERSION).to_ne_bytes());
        for (bit, flag) in self.flags().into_iter().enumerate() {
            bytes[2] |= u8::from(*flag) << bit;
        }
        bytes[FIXED_BYTES..NODE_AT].copy_from_slice(&self.planned.to_bytes());
        let name = self.node.as_str().as_bytes();
        bytes[NODE_AT..NODE_AT + name.len()].copy_from_slice(name);
        bytes
    }

    /// `None` from a rank of another version.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let name = bytes[NODE_AT..].split(|&byte| byte == 0).next()?;
        let same_version = bytes[..2] == u16::from(header::VERSION).to_ne_bytes();
        same_version.then_some(())?;
        let mut info = RankInfo {
            is_disabled: false,
            has_daemon: false,
            has_device: false,
            has_no_world: false,
            is_out_of_budget: false,
            has_threads: false,
            planned: PlannedRoots::from_bytes(bytes[FIXED_BYTES..NODE_AT].try_into().ok()?),
            node: NodeName::new(String::from_utf8(name.to_vec()).ok()?).ok()?,
        };
        for (bit, flag) in info.flags().into_iter().enumerate() {
            *flag = bytes[2] >> bit & 1 != 0;
        }
        Some(info)
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
    #[error("MPI was started by a session alone")]
    Session,
    #[error("node {0} has no daemon")]
    NoDaemon(NodeName),
    #[error("node {0} uses a GPU runtime")]
    Device(NodeName),
    #[error("{MAX_MANAGED} communicators are managed already")]
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

/// Agrees with all `members` of `comm`, before a broadcast of `bytes`, or says why it stays native. Collective.
///
/// # Errors
/// Where MPI reports one; no error handler of the program is called.
pub fn set_up(
    comm: Comm,
    members: Ranks,
    bytes: u64,
) -> Result<Result<Managed, &'static str>, MpiError> {
    comm.returning_errors(|| {
        let ranks: Vec<_> = comm
            .all_gather(&RankInfo::own().encode())?
            .chunks_exact(RankInfo::BYTES)
            .map(RankInfo::decode)
            .collect();
        let in_order = ranks.iter().all(|rank| rank.as_ref().is_some_and(|rank| !rank.has_threads));
        let debt = Debt::take(members, bytes, in_order);
        let is_first = comm.rank()? == 0;
        let group = match eligibility(&ranks) {
            Ok(group) => group,
            Err(reason) => {
                if is_first {
                    say(|| {
                        format!("a communicator of {} ranks stays native: {reason}", ranks.len())
                    });
                    tell_once(&reason);
                }
                return Ok(Err(reason.in_short()));
            }
        };
        let node_of_rank: Vec<u16> = ranks
            .iter()
            .flatten()
            .filter_map(|rank| group.index_of(&rank.node))
            .map(|node| node as u16)
            .collect();
        let mut has_plan = vec![false; group.len()];
        for (rank, &node) in ranks.iter().flatten().zip(&node_of_rank) {
            has_plan[usize::from(node)] |= rank.planned.may_contain(group.hash(), node);
        }
        // MPIs agree on a new context, so that where it fails it fails on all ranks.
        let Ok(traffic) = comm.duplicate() else {
            say(|| "the MPI has no communicator left: native".into());
            return Ok(Err("native: the MPI has no communicator left"));
        };
        if is_first {
            say(|| format!("a communicator of {} ranks on {} nodes", ranks.len(), group.len()));
        }
        Ok(Ok(Managed {
            channel: Channel::new(traffic, node_of_rank)?,
            group_hash: group.hash(),
            group,
            sequence: 0,
            native_runs: NativeRuns::new(has_plan),
            plans: PlanCache::default(),
            sampling: Sampling::default(),
            reporting: Reporting::default(),
            engine: Engine::default(),
            packed: Vec::new(),
            budget: Budget::take(),
            debt,
        }))
    })
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
    use arborcast_proto::GroupHash;

    fn rank(node: &str) -> RankInfo {
        RankInfo {
            is_disabled: false,
            has_daemon: true,
            has_device: false,
            has_no_world: false,
            is_out_of_budget: false,
            has_threads: false,
            planned: PlannedRoots::default(),
            node: NodeName::new(node).unwrap(),
        }
    }

    #[test]
    fn what_a_rank_says_survives_the_exchange() {
        for flag in 0..6 {
            let mut said = rank(&"n".repeat(63));
            *said.flags()[flag] ^= true;
            said.planned.insert(GroupHash(7), flag as u16);
            let bytes = said.clone().encode();
            assert_eq!(RankInfo::decode(&bytes), Some(said));
            let mut other_version = bytes;
            other_version[0] ^= 0x7f;
            assert_eq!(RankInfo::decode(&other_version), None);
        }
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
        assert_eq!(with(|r| r.has_no_world = true), Ineligible::Session);
        assert_eq!(with(|r| r.is_out_of_budget = true), Ineligible::Budget);
        assert_eq!(eligibility(&[Some(rank("a")), Some(rank("a"))]), Err(Ineligible::OneNode));
    }
}
