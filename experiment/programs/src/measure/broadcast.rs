//! The broadcast under test. Programs and kernels know only the trait, so the native broadcast,
//! Arborcast's and fixed trees run by Arborcast's engine are measured by the same code and can be
//! laid side by side.

use super::failure::Failure;
use arborcast_proto::{MAX_NODES, Stripe, Striping, Tree};
use arborcast_shim::pmpi::Comm;
use arborcast_shim::tree_bcast::{Buffer, Call, Carrier, Channel, Engine, Options};
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// A way to bring the bytes of one process to all. Collective.
pub trait Broadcast {
    /// For reports: as in the option that chose it.
    fn name(&self) -> &'static str;

    /// As `MPI_Bcast` of bytes.
    fn broadcast(&self, comm: &SimpleCommunicator, root: i32, bytes: &mut [u8]);

    /// As [`Broadcast::broadcast`], with an ACK of each leaf of the tree to the root, where the
    /// broadcast can do that. On the root: from its start until it had all of them.
    fn until_acked(
        &self,
        comm: &SimpleCommunicator,
        root: i32,
        bytes: &mut [u8],
    ) -> Option<Duration> {
        self.broadcast(comm, root, bytes);
        None
    }

    /// What a report should say about the broadcasts so far.
    fn note(&self) -> Option<String> {
        None
    }
}

/// `MPI_Bcast`, as the MPI library chooses to do it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

impl Broadcast for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn broadcast(&self, comm: &SimpleCommunicator, root: i32, bytes: &mut [u8]) {
        comm.process_at_rank(root).broadcast_into(bytes);
    }
}

/// Arborcast's broadcast with the plans of the nodes' daemons.
#[derive(Debug, Default)]
pub struct Arborcast {
    calls: Cell<u64>,
    along_trees: Cell<u64>,
}

impl Arborcast {
    /// An error unless the daemon of a root (`None`: of any process) has a plan for one of the
    /// sizes: without one, Arborcast's broadcast is native. Collective.
    pub fn connect(
        comm: &SimpleCommunicator,
        root: Option<i32>,
        sizes_bytes: &[u64],
    ) -> Result<Self, Failure> {
        let may_be_root = root.is_none_or(|root| root == comm.rank());
        let mut known = 0;
        for bytes in sizes_bytes {
            let plan = arborcast_rsmpi::plan_in_use(comm, *bytes);
            known |= i32::from(may_be_root && plan.is_ok_and(|plan| plan.is_some()));
        }
        let mut known_somewhere = 0;
        comm.all_reduce_into(&known, &mut known_somewhere, SystemOperation::max());
        if known_somewhere == 0 {
            return Err(Failure::Unavailable {
                what: "Arborcast's broadcast".to_owned(),
                reason: "there is no daemon on these nodes, or it has no plan for this root and \
                         these sizes; see arborcast status"
                    .to_owned(),
            });
        }
        Ok(Self::default())
    }

    fn run(
        &self,
        comm: &SimpleCommunicator,
        root: i32,
        bytes: &mut [u8],
        timed: bool,
    ) -> Option<Duration> {
        self.calls.set(self.calls.get() + 1);
        match arborcast_rsmpi::broadcast_from(comm, root, bytes, timed) {
            Ok(timing) => {
                self.along_trees.set(self.along_trees.get() + u64::from(timing.along_trees));
                timing.until_acked
            }
            Err(error) => give_up(comm, &error),
        }
    }
}

/// After a failed broadcast the ranks are out of step, and none can be told so.
fn give_up(comm: &SimpleCommunicator, error: &dyn std::fmt::Debug) -> ! {
    eprintln!("a broadcast failed on rank {}: {error:?}", comm.rank());
    comm.abort(1)
}

impl Broadcast for Arborcast {
    fn name(&self) -> &'static str {
        "arborcast"
    }

    fn broadcast(&self, comm: &SimpleCommunicator, root: i32, bytes: &mut [u8]) {
        self.run(comm, root, bytes, false);
    }

    fn until_acked(
        &self,
        comm: &SimpleCommunicator,
        root: i32,
        bytes: &mut [u8],
    ) -> Option<Duration> {
        self.run(comm, root, bytes, true)
    }

    fn note(&self) -> Option<String> {
        let (along, calls) = (self.along_trees.get(), self.calls.get());
        Some(format!("{along} of {calls} broadcasts went along trees"))
    }
}

/// A tree that needs no search, run by the engine that runs Arborcast's plans, every rank a node of
/// its own. Needs no daemon.
pub struct FixedTree {
    name: &'static str,
    /// By root.
    stripings: Vec<Striping>,
    channel: Channel,
    engine: RefCell<Engine>,
    sequence: Cell<u64>,
}

/// A segment above the MPI's eager limit (64 KiB with Open MPI's TCP) pays a rendezvous.
const SEGMENT_BYTES: u32 = 32 << 10;

impl FixedTree {
    /// `shape` makes the tree over a number of processes from a root. Collective.
    pub fn new(
        comm: &SimpleCommunicator,
        name: &'static str,
        shape: fn(usize, usize) -> Tree,
    ) -> Result<Self, Failure> {
        let unavailable = |reason: String| Failure::Unavailable {
            what: format!("a broadcast along a {name} tree"),
            reason,
        };
        let processes = comm.size() as usize;
        if processes > MAX_NODES {
            return Err(unavailable(format!("{processes} are too many processes")));
        }
        let striping =
            |root| Striping::new(vec![Stripe::new(shape(processes, root), 1)], SEGMENT_BYTES);
        let stripings: Result<Vec<Striping>, _> = (0..processes).map(striping).collect();
        let stripings = stripings.map_err(|error| unavailable(error.to_string()))?;
        let failed = |error| unavailable(format!("{error:?}"));
        let own = Comm::from_raw(comm.as_raw()).duplicate().map_err(failed)?;
        let nodes: Vec<u16> = (0..comm.size() as u16).collect();
        let carrier = Carrier::new(own, nodes.len()).map_err(failed)?;
        let channel = carrier.channel(&nodes).map_err(failed)?;
        Ok(Self { name, stripings, channel, engine: RefCell::default(), sequence: Cell::new(0) })
    }

    fn run(
        &self,
        comm: &SimpleCommunicator,
        root: i32,
        bytes: &mut [u8],
        leaf_acks: bool,
    ) -> Option<Duration> {
        let sequence = self.sequence.get();
        self.sequence.set(sequence.wrapping_add(1));
        let call = Call { sequence, root_node: root as usize, root_rank: root };
        let buffer = Buffer { data: bytes.as_mut_ptr(), len: bytes.len() };
        let mut engine = self.engine.borrow_mut();
        if comm.rank() == root {
            let options = Options { leaf_acks, report: 0, abandon: None };
            let striping = &self.stripings[root as usize];
            // SAFETY: `bytes` is borrowed until the call returns; an error ends the process.
            let sent = unsafe { engine.send(&self.channel, call, striping, buffer, options) };
            sent.unwrap_or_else(|error| give_up(comm, &error)).until_acked
        } else {
            // SAFETY: as above.
            let arrived = unsafe { engine.receive(&self.channel, call, buffer, &mut || {}) };
            arrived.unwrap_or_else(|error| give_up(comm, &error));
            None
        }
    }
}

impl Drop for FixedTree {
    fn drop(&mut self) {
        self.channel.comm().free();
    }
}

impl Broadcast for FixedTree {
    fn name(&self) -> &'static str {
        self.name
    }

    fn broadcast(&self, comm: &SimpleCommunicator, root: i32, bytes: &mut [u8]) {
        self.run(comm, root, bytes, false);
    }

    fn until_acked(
        &self,
        comm: &SimpleCommunicator,
        root: i32,
        bytes: &mut [u8],
    ) -> Option<Duration> {
        self.run(comm, root, bytes, true)
    }
}
