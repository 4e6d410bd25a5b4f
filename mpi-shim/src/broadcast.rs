//! `MPI_Bcast` as an application calls it.

use crate::communicator::{Communicator, Managed};
use crate::daemon;
use crate::datatype::Elements;
use crate::engine::{BroadcastError, Buffer, Call, Options};
use crate::header::Decision;
use crate::raw::{BcastFn, Comm, ERR_OTHER, MpiError, byte_type, check};
use crate::settings::{say, settings};
use crate::shortcut::Arguments;
use arborcast_proto::segment::Broadcast;
use arborcast_proto::{Plan, SizeClass, Target};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The MPI's own broadcast.
static NATIVE: OnceLock<BcastFn> = OnceLock::new();

/// Says where the MPI's own broadcast is, for a library that exports `PMPI_Bcast` itself. Has an
/// effect before the first broadcast only.
pub fn set_native(native: BcastFn) {
    let _ = NATIVE.set(native);
}

fn native() -> BcastFn {
    *NATIVE.get_or_init(|| {
        // Where this code is part of a library that exports the symbol, the MPI's is the next one.
        // SAFETY: looks up a symbol by name, which is that of a function of this type.
        unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, c"PMPI_Bcast".as_ptr());
            std::mem::transmute::<*mut c_void, Option<BcastFn>>(next).unwrap_or(ffi::PMPI_Bcast)
        }
    })
}

/// How a broadcast went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// It went along trees.
    pub along_trees: bool,
    /// At the root of a broadcast along trees: until the ACKs of all leaves were in.
    pub until_acked: Option<Duration>,
}

/// Broadcasts as `MPI_Bcast` does, and returns its error code, after the communicator's error handler
/// has been called. With `timed`, the root waits for the ACKs of all leaves where the broadcast goes
/// along trees.
///
/// # Safety
/// The arguments must be such as `MPI_Bcast` allows.
pub unsafe fn broadcast(
    elements: Elements,
    root: c_int,
    comm: ffi::MPI_Comm,
    timed: bool,
) -> (c_int, Timing) {
    let native = || {
        let Elements { data, count, datatype } = elements;
        // SAFETY: the arguments of the application, unchanged.
        unsafe { native()(data, count, datatype, root, comm) }
    };
    if settings().disabled {
        return (native(), Timing::default());
    }
    // SAFETY: passed on from the caller.
    let outcome = unsafe { try_broadcast(elements, root, Comm(comm), timed, &native) };
    match outcome {
        Ok((code, timing)) => (code, timing),
        Err(error) => {
            say(|| format!("a broadcast failed: {error}"));
            let MpiError(code) = match error {
                BroadcastError::Mpi(error) => error,
                _ => ERR_OTHER,
            };
            // SAFETY: the application's communicator and an error code of this MPI.
            unsafe { ffi::PMPI_Comm_call_errhandler(comm, code) };
            (code, Timing::default())
        }
    }
}

unsafe fn try_broadcast(
    elements: Elements,
    root: c_int,
    comm: Comm,
    timed: bool,
    native: &dyn Fn() -> c_int,
) -> Result<(c_int, Timing), BroadcastError> {
    // SAFETY: passed on from the caller.
    let Some((Communicator::Managed(managed), total_bytes)) =
        (unsafe { look_up(elements, root, comm)? })
    else {
        return Ok((native(), Timing::default()));
    };
    // What was looked up has a rank for its root.
    let root_rank = root as usize;
    let is_root = root_rank == managed.own_rank;
    let class = SizeClass::of(total_bytes);
    let target = Target { group: managed.group_hash, root: managed.node_of_rank[root_rank], class };
    let is_agreed_native = managed.agreement.take_native(class);
    if is_root {
        managed.claim(target, !is_agreed_native);
    }
    let outcome = match is_agreed_native {
        true => Ok((native(), Timing::default())),
        // SAFETY: passed on from the caller.
        false => unsafe { managed.broadcast(elements, root_rank, total_bytes, timed, native) },
    };
    if is_root {
        let seconds = outcome.as_ref().ok().and_then(|(_, timing)| timing.until_acked);
        let seconds = seconds.map(|time| time.as_secs_f64());
        let broadcast = Broadcast { target, bytes: total_bytes, seconds };
        daemon::with_link(|link| link.end(&broadcast));
    }
    outcome
}

/// The communicator of a broadcast and the message's bytes; `None` where the arguments are wrong, whose
/// error is MPI's own to report, and for an empty message, which is nobody's burden.
///
/// # Safety
/// As for [`Communicator::of`].
unsafe fn look_up<'a>(
    elements: Elements,
    root: c_int,
    comm: Comm,
) -> Result<Option<(&'a mut Communicator, u64)>, MpiError> {
    let Elements { count, datatype, .. } = elements;
    let arguments = Arguments { count, datatype, root, comm: comm.0 };
    // SAFETY: by the caller.
    if let Some(known) = unsafe { arguments.find() } {
        return Ok(Some(known));
    }
    // SAFETY: compares handles.
    let is_null = unsafe { comm.0 == ffi::RSMPI_COMM_NULL || datatype == ffi::RSMPI_DATATYPE_NULL };
    // A wrong root is an error of this rank alone, and an empty message may be told from the count on
    // one rank and from the datatype on another: neither may lead into a collective call.
    let is_rank = |size| usize::try_from(root).is_ok_and(|rank| rank < size);
    if is_null || count <= 0 || !comm.size().is_ok_and(is_rank) {
        return Ok(None);
    }
    let Ok(total_bytes @ 1..) = elements.total_bytes() else { return Ok(None) };
    // SAFETY: by the caller.
    let communicator = unsafe { Communicator::of(comm, total_bytes)? };
    if !matches!(communicator, Communicator::Young(_)) && elements.is_predefined() {
        arguments.remember(communicator, total_bytes);
    }
    Ok(Some((communicator, total_bytes)))
}

impl Managed {
    /// The root claims the network, and looks at its plan where it decides by it.
    fn claim(&mut self, target: Target, decides: bool) {
        let linked = daemon::with_link(|link| {
            // A daemon that is slow to learn the group's nodes only hears later what to search for.
            let _ = link.register(self.group_hash, &self.group);
            link.begin();
            if decides {
                self.plans.refresh(link.board(), target);
            }
        });
        if linked.is_none() {
            self.plans.clear();
        }
    }

    /// A broadcast whose root says how it goes.
    unsafe fn broadcast(
        &mut self,
        elements: Elements,
        root_rank: usize,
        total_bytes: u64,
        timed: bool,
        native: &dyn Fn() -> c_int,
    ) -> Result<(c_int, Timing), BroadcastError> {
        let class = SizeClass::of(total_bytes);
        self.sequence = self.sequence.wrapping_add(1);
        let root_node = usize::from(self.node_of_rank[root_rank]);
        let own_node = usize::from(self.node_of_rank[self.own_rank]);
        let call = Call { sequence: self.sequence, root_node, root_rank: root_rank as c_int };
        // The rank of this node that takes part in the tree.
        let participant = match own_node == root_node {
            true => root_rank,
            false => self.channel.leader(own_node) as usize,
        };
        let mut arrived = (Decision::Trees, None);
        if participant == self.own_rank {
            // SAFETY: passed on from the caller.
            arrived = unsafe { self.take_part(elements, call, total_bytes, timed)? };
        }
        let (mut decision, until_acked) = arrived;
        if let Some(node_ranks) = self.node_ranks {
            // A node's ranks are all at home here, so the first with a rank on the node is 0.
            let first = self.node_of_rank.iter().enumerate();
            let local_root = first
                .filter(|(_, node)| usize::from(**node) == own_node)
                .position(|(rank, _)| rank == participant)
                .unwrap_or(0);
            // SAFETY: passed on from the caller.
            decision = unsafe { share_on_node(node_ranks, local_root, elements, decision)? };
        }
        match decision {
            Decision::Trees => {
                self.agreement.went_along_trees(class);
                Ok((ffi::MPI_SUCCESS as c_int, Timing { along_trees: true, until_acked }))
            }
            Decision::Native { broadcasts } => {
                self.agreement.announced(class, broadcasts);
                Ok((native(), Timing::default()))
            }
        }
    }

    /// This rank's part for its node: as the root, or as a relay or leaf.
    unsafe fn take_part(
        &mut self,
        elements: Elements,
        call: Call,
        total_bytes: u64,
        timed: bool,
    ) -> Result<(Decision, Option<Duration>), BroadcastError> {
        let (class, total_bytes) = (SizeClass::of(total_bytes), total_bytes as usize);
        let is_root = self.own_rank == call.root_rank as usize;
        let entry = self.plans.get(class);
        let striping = entry.and_then(|entry| entry.plan.striping());
        let fits = |s: &&arborcast_proto::Striping| {
            s.len() == self.channel.nodes() && s.root() == call.root_node
        };
        let striping = striping.filter(fits);
        if is_root && striping.is_none() {
            let broadcasts = self.agreement.next_run(class);
            let bytes = total_bytes as u64;
            self.engine.announce_native(&self.channel, call, bytes, broadcasts)?;
            return Ok((Decision::Native { broadcasts }, None));
        }
        let in_place = elements.is_contiguous()?;
        let buffer = match in_place {
            true => Buffer { data: elements.data.cast(), len: total_bytes },
            false => {
                self.packed.resize(total_bytes, 0);
                Buffer { data: self.packed.as_mut_ptr(), len: total_bytes }
            }
        };
        let comm = self.channel.comm();
        if let (true, Some(striping)) = (is_root, striping) {
            if !in_place {
                // SAFETY: the root's elements are readable by the caller.
                unsafe { elements.pack(comm, &mut self.packed)? };
            }
            let expected = entry.map_or(0.0, |entry| entry.median_s).clamp(0.0, 3600.0);
            let expected = Duration::from_secs_f64(expected);
            let leaf_acks = timed || self.sampling.is_due(Instant::now(), expected);
            let options = Options { leaf_acks, abandon: None };
            // SAFETY: the buffer is the root's own or ours, and stays while the engine works.
            let sent = unsafe { self.engine.send(&self.channel, call, striping, buffer, options)? };
            return Ok((Decision::Trees, sent.until_acked));
        }
        // SAFETY: the buffer is the caller's to be written, or ours.
        let arrived = unsafe { self.engine.receive(&self.channel, call, buffer, &mut || {})? };
        if arrived.decision == Decision::Trees && !in_place {
            // SAFETY: the elements are writable by the caller.
            unsafe { elements.unpack(comm, &self.packed)? };
        }
        Ok((arrived.decision, None))
    }

    /// The plan that a broadcast from this rank's node would use, if the daemon knows one.
    pub(crate) fn plan(&mut self, target: Target) -> Option<Plan> {
        daemon::with_link(|link| self.plans.refresh(link.board(), target))?;
        Some(self.plans.get(target.class)?.plan.clone())
    }
}

/// The ranks of a node share what their participant knows and got, by the MPI's own broadcast.
unsafe fn share_on_node(
    node_ranks: Comm,
    local_root: usize,
    elements: Elements,
    decision: Decision,
) -> Result<Decision, MpiError> {
    // 0 says "along trees", anything else how many broadcasts are native.
    let mut word = match decision {
        Decision::Trees => 0u32,
        Decision::Native { broadcasts } => broadcasts.max(1),
    }
    .to_le_bytes();
    let local_root = local_root as c_int;
    // SAFETY: four bytes on every rank.
    check(unsafe {
        let data = word.as_mut_ptr().cast();
        native()(data, word.len() as c_int, byte_type(), local_root, node_ranks.0)
    })?;
    match u32::from_le_bytes(word) {
        0 => {
            let Elements { data, count, datatype } = elements;
            // SAFETY: the application's own arguments, on the ranks of one node.
            check(unsafe { native()(data, count, datatype, local_root, node_ranks.0) })?;
            Ok(Decision::Trees)
        }
        broadcasts => Ok(Decision::Native { broadcasts }),
    }
}
