//! `MPI_Bcast` as a program calls it.

use crate::abi::Interface;
use crate::call_cache::Arguments;
use crate::communicator::{Communicator, Managed, own_comm};
use crate::daemon;
use crate::datatype::{Elements, Layout, Message};
use crate::delivery::NativeWitness;
use crate::device;
use crate::header::Decision;
use crate::pauses;
use crate::pmpi::{Comm, Datatype, MpiError, SUCCESS, mpi};
use crate::report;
use crate::settings::say;
use crate::tree_bcast::{BroadcastError, Buffer, Call, Options};
use arborcast_proto::segment::{Broadcast, MOST_UNDER_WAY};
use arborcast_proto::{Plan, SizeClass, Striping, Target, monotonic_ns};
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// Memory for a message is kept from one broadcast to the next up to this size.
const KEPT_BYTES: usize = 64 << 20;

/// How a broadcast went.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timing {
    /// It went along trees.
    pub along_trees: bool,
    /// At the root of a broadcast along trees: until the ACKs of all leaves were in.
    pub until_acked: Option<Duration>,
}

impl Elements {
    /// The broadcast that the MPI makes of these arguments. It calls the program's error handler, which
    /// may throw or jump away: nothing that has to be given back may be held meanwhile.
    ///
    /// # Safety
    /// As for `MPI_Bcast`.
    pub unsafe fn native(self, root: c_int, comm: Comm) -> c_int {
        let Elements { data, count, datatype, is_large_call } = self;
        // SAFETY: the program's own arguments.
        unsafe {
            match (c_int::try_from(count), mpi().bcast_large) {
                (_, Some(bcast)) if is_large_call => bcast(data, count, datatype.0, root, comm.0),
                (Ok(count), _) => (mpi().bcast)(data, count, datatype.0, root, comm.0),
                (Err(_), _) => call_error_handler(comm, mpi().abi.err_count),
            }
        }
    }
}

/// # Safety
/// `comm` must be a communicator.
unsafe fn call_error_handler(comm: Comm, code: c_int) -> c_int {
    // SAFETY: by the caller; an error class is an error code.
    unsafe { (mpi().functions.comm_call_errhandler)(comm.0, code) };
    code
}

/// Broadcasts as `MPI_Bcast` does, and returns its error code, after the communicator's error handler
/// has been called. With `timed`, the root waits for the ACKs of all leaves where the broadcast goes
/// along trees.
///
/// # Safety
/// The arguments must be such as `MPI_Bcast` allows, and the process must have an MPI.
pub unsafe fn broadcast(
    elements: Elements,
    root: c_int,
    comm: Comm,
    timed: bool,
) -> (c_int, Timing) {
    // SAFETY: passed on from the caller.
    let native = || unsafe { elements.native(root, comm) };
    // SAFETY: passed on from the caller.
    let (communicator, message) = match unsafe { look_up(elements, root, comm) } {
        LookUp::Carries(communicator, message) => (communicator, message),
        LookUp::Native(why) => {
            note_native(elements, comm, why);
            return (native(), Timing::default());
        }
        LookUp::Failed(MpiError(code)) => return (code, Timing::default()),
    };
    let managed = match &mut *communicator {
        Communicator::Managed(managed) => managed,
        Communicator::Native(why) => {
            note_native(elements, comm, why);
            return (native(), Timing::default());
        }
        Communicator::Pending(..) => {
            report::note(report::NOT_SET_UP, message.bytes);
            return (native(), Timing::default());
        }
    };
    let mut hold = Hold(None);
    let root_rank = root as usize;
    // SAFETY: passed on from the caller.
    match unsafe { managed.broadcast(elements, root_rank, message, timed, &mut hold) } {
        Ok(Outcome::Native(witness)) => {
            report::note(report::PLAN_IS_NATIVE, message.bytes);
            // An error handler may free the communicator: nothing of it is touched from here on.
            let code = native();
            match &mut hold.0 {
                Some(held) => held.is_native = true,
                None => pauses::note_received(message.bytes),
            }
            if let Some(witness) = witness.filter(|_| code == SUCCESS) {
                daemon::with_link(|link| link.tell_delivered(witness.report(monotonic_ns())));
            }
            (code, Timing::default())
        }
        Ok(Outcome::AlongTrees(until_acked)) => {
            report::note(report::TREES, message.bytes);
            match &mut hold.0 {
                Some(held) => {
                    held.broadcast.seconds = until_acked.map(|time| time.as_secs_f64());
                }
                None => pauses::note_received(message.bytes),
            }
            (SUCCESS, Timing { along_trees: true, until_acked })
        }
        Err(error) => {
            say(|| format!("a broadcast failed: {error}"));
            drop(hold);
            let code = match error {
                // All of it has been taken in: the ranks are still in step.
                BroadcastError::Length { root, here } => length_error(root, here),
                BroadcastError::Mpi(MpiError(code)) => communicator.step_aside(code),
                BroadcastError::Memory(_) => communicator.step_aside(mpi().abi.err_no_mem),
                BroadcastError::Header(_) | BroadcastError::Node(_) => {
                    communicator.step_aside(mpi().abi.err_other)
                }
            };
            if code != SUCCESS {
                // SAFETY: the program's communicator.
                unsafe { call_error_handler(comm, code) };
            }
            (code, Timing::default())
        }
    }
}

/// The root's claim on the network, given back when this value goes: also where an exception passes.
struct Hold(Option<Held>);

struct Held {
    broadcast: Broadcast,
    /// CLOCK_MONOTONIC, once the network was this process's.
    began_ns: u64,
    /// When all nodes should have it, where it goes along trees: the root may be through with its part long before.
    arrives_ns: u64,
    /// The MPI has carried it.
    is_native: bool,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(Held { broadcast, began_ns, arrives_ns, is_native }) = &mut self.0 {
            let now_ns = monotonic_ns();
            let took_s = now_ns.saturating_sub(*began_ns) as f64 / 1e9;
            broadcast.native_s = is_native.then_some(took_s);
            let ended_ns = if *is_native { now_ns } else { now_ns.max(*arrives_ns) };
            pauses::note_end(ended_ns);
            daemon::with_same_link(|link| link.end(broadcast, ended_ns));
        }
    }
}

/// What the MPI itself says where the root's message is longer or shorter than a rank expects.
fn length_error(root_bytes: u64, here_bytes: u64) -> c_int {
    let abi = &mpi().abi;
    match (root_bytes > here_bytes, abi.interface) {
        (true, _) => abi.err_truncate,
        // Open MPI takes a shorter message for a part of the longer.
        (false, Interface::OpenMpi) => SUCCESS,
        (false, _) => abi.err_other,
    }
}

/// Counts a broadcast of a communicator that is not managed, whose bytes nothing else asks for.
fn note_native(elements: Elements, comm: Comm, why: &'static str) {
    if report::is_wanted() {
        let layout = layout_of(elements.datatype, comm).filter(|_| elements.count > 0);
        let bytes = layout.map_or(0, |layout| layout.size.saturating_mul(elements.count as u64));
        report::note(why, bytes);
    }
}

enum LookUp<'a> {
    Carries(&'a mut Communicator, Message),
    Native(&'static str),
    /// MPI has reported the error and called its handler.
    Failed(MpiError),
}

/// The communicator of a broadcast and the message. Native where the arguments are wrong, whose
/// errors are the MPI's to report, and for empty messages.
///
/// # Safety
/// As for [`Communicator::of`].
unsafe fn look_up<'a>(elements: Elements, root: c_int, comm: Comm) -> LookUp<'a> {
    let Elements { data, count, datatype, .. } = elements;
    let arguments = Arguments { count, datatype, root, comm };
    // SAFETY: by the caller.
    if let Some((communicator, message)) = unsafe { arguments.find() }
        && !data.is_null()
    {
        return LookUp::Carries(communicator, message);
    }
    if !comm.is_plausible() {
        return LookUp::Native(report::DOUBTFUL);
    }
    // SAFETY: by the caller.
    let communicator = match unsafe { Communicator::of(comm) } {
        Ok(communicator) => communicator,
        Err(error) => return LookUp::Failed(error),
    };
    if let Communicator::Native(why) = *communicator {
        arguments.remember(communicator, Message { bytes: 0, is_plain: false });
        return LookUp::Native(why);
    }
    // A wrong root is an error of this rank alone, and an empty message may be told from the count on
    // one rank and from the datatype on another: neither may lead into a collective call.
    let is_rank = |size| usize::try_from(root).is_ok_and(|rank| rank < size);
    if count <= 0 || !comm.size().is_ok_and(is_rank) {
        return LookUp::Native(report::DOUBTFUL);
    }
    let layout = layout_of(datatype, comm);
    let Some(layout) = layout.filter(|layout| !(layout.is_predefined && data.is_null())) else {
        return LookUp::Native(report::DOUBTFUL);
    };
    let Some(bytes @ 1..) = layout.size.checked_mul(count as u64) else {
        return LookUp::Native(report::DOUBTFUL);
    };
    if let Err(error) = communicator.prepare(comm, bytes) {
        say(|| format!("a communicator cannot be set up and stays native: {error}"));
    }
    let is_plain = layout.is_predefined && datatype.extent_is_size().unwrap_or(false);
    let message = Message { bytes, is_plain };
    if layout.is_predefined && !matches!(communicator, Communicator::Pending(..)) {
        arguments.remember(communicator, message);
    }
    LookUp::Carries(communicator, message)
}

/// What MPI tells of a datatype, asked on a communicator that returns errors: one of this process's own,
/// which the world model alone has.
fn layout_of(datatype: Datatype, comm: Comm) -> Option<Layout> {
    match own_comm() {
        Ok(own) => datatype.layout(own),
        Err(_) => comm.returning_errors(|| Ok(datatype.layout(comm))).ok().flatten(),
    }
}

enum Outcome {
    /// All ranks know that the broadcast is the MPI's to make; its daemon is to hear from this one what it took.
    Native(Option<NativeWitness>),
    AlongTrees(Option<Duration>),
}

impl Communicator {
    /// After an error of ours: from now on all is native, so that the MPI itself reports what is wrong.
    /// Returns the code.
    fn step_aside(&mut self, code: c_int) -> c_int {
        let aside = Communicator::Native(report::AFTER_ERROR);
        if let Communicator::Managed(mut managed) = std::mem::replace(self, aside) {
            managed.engine.give_up();
            // Others may still send to it, and sends of ours may still read from it.
            std::mem::forget(managed);
        }
        code
    }
}

impl Managed {
    fn target(&self, root_rank: c_int, bytes: u64) -> Target {
        let root = self.agreed.channel.node_of(root_rank) as u16;
        Target { group: self.agreed.group_hash, root, class: SizeClass::of(bytes) }
    }

    /// The root claims the network, and looks at its plan where it decides by it.
    fn claim(&mut self, target: Target, bytes: u64, decides: bool) -> Held {
        let mut own = self.agreed.as_root();
        let started = report::is_wanted().then(Instant::now);
        let linked = daemon::with_link(|link| {
            // A daemon that is slow to learn the group's nodes only hears later what to search for.
            let _ = link.register(self.agreed.group_hash, &self.agreed.group);
            if decides {
                own.plans.refresh(link.board(), target);
                if own.plans.get(target.class).is_none() {
                    link.ask_for_plan(target, bytes);
                }
            }
            link.begin();
            if decides {
                own.plans.refresh(link.board(), target);
                // Where native is the plan, it is to take no longer than without us.
                let is_open = own.plans.get(target.class).is_none();
                self.agreed
                    .course()
                    .native_runs
                    .note_long(target, is_open && link.is_long_natively(target));
            }
            let began_ns = monotonic_ns();
            (began_ns, link.slot().seconds_since_last(began_ns))
        });
        if linked.is_none() {
            own.plans.clear();
        }
        if let Some(started) = started {
            report::note_hold(started.elapsed());
        }
        let (began_ns, pause_s) = linked.unwrap_or_else(|| (monotonic_ns(), None));
        let quiet_s = pauses::seconds_since_last(began_ns);
        let entry = decides.then(|| own.plans.get(target.class)).flatten();
        let most_ns = MOST_UNDER_WAY.as_nanos() as u64;
        let expected_ns = entry.map_or(0, |entry| (1e9 * entry.median_s) as u64).min(most_ns);
        let arrives_ns = began_ns.saturating_add(expected_ns);
        let broadcast =
            Broadcast { target, bytes, seconds: None, pause_s, quiet_s, native_s: None };
        Held { broadcast, began_ns, arrives_ns, is_native: false }
    }

    /// This rank's part of a broadcast, up to where it is known to be native.
    ///
    /// # Safety
    /// As for `MPI_Bcast`.
    unsafe fn broadcast(
        &mut self,
        elements: Elements,
        root: usize,
        message: Message,
        timed: bool,
        hold: &mut Hold,
    ) -> Result<Outcome, BroadcastError> {
        let root_rank = self.agreed.channel.member(root);
        let target = self.target(root_rank, message.bytes);
        let (root_node, class) = (usize::from(target.root), target.class);
        let is_agreed_native = self.agreed.course().native_runs.take_native(root_node, class);
        if root_rank == self.agreed.channel.own_rank() {
            hold.0 = Some(self.claim(target, message.bytes, !is_agreed_native));
        }
        if is_agreed_native {
            return Ok(Outcome::Native(None));
        }
        let call = Call { sequence: self.agreed.course().next_sequence(), root_node, root_rank };
        // SAFETY: passed on from the caller.
        let (decision, until_acked) = unsafe {
            match root_rank == self.agreed.channel.own_rank() {
                true => self.send(elements, call, message, timed)?,
                false => (self.receive(elements, call, message)?, None),
            }
        };
        match decision {
            Decision::Trees => {
                self.agreed.course().native_runs.reset(root_node, class);
                if let Some(report) = self.engine.report(&self.agreed.channel, call, target) {
                    daemon::with_link(|link| link.tell_delivered(report));
                }
                Ok(Outcome::AlongTrees(until_acked))
            }
            Decision::Native { broadcasts } => {
                self.agreed.course().native_runs.announced(root_node, class, broadcasts);
                Ok(Outcome::Native(self.engine.native_witness(&self.agreed.channel, call, target)))
            }
        }
    }

    /// The root's part.
    ///
    /// # Safety
    /// As for `MPI_Bcast`.
    unsafe fn send(
        &mut self,
        elements: Elements,
        call: Call,
        message: Message,
        timed: bool,
    ) -> Result<(Decision, Option<Duration>), BroadcastError> {
        let class = SizeClass::of(message.bytes);
        let own = &mut *self.agreed.as_root();
        let fits =
            |s: &&Striping| s.len() == self.agreed.channel.nodes() && s.root() == call.root_node;
        let entry = own.plans.get(class);
        let striping = entry.and_then(|entry| entry.plan.striping()).filter(fits);
        let Some((entry, striping)) = entry.zip(striping) else {
            let has_daemon = daemon::with_same_link(|_| ()).is_some();
            let (root, now) = (call.root_node, Instant::now());
            let broadcasts =
                self.agreed.course().native_runs.next_run(root, class, now, has_daemon);
            let report =
                if has_daemon { own.reporting.number(self.agreed.channel.nodes()) } else { 0 };
            self.engine.announce_native(
                &self.agreed.channel,
                call,
                message.bytes,
                broadcasts,
                report,
            )?;
            return Ok((Decision::Native { broadcasts }, None));
        };
        let buffer = match lies_as_it_travels(elements, message)? {
            true => Buffer { data: elements.data.cast(), len: message.bytes as usize },
            false => {
                let buffer = memory_for(&mut self.packed, message.bytes)?;
                // SAFETY: the root's elements are readable by the caller.
                unsafe { elements.pack(own_comm()?, &mut self.packed)? };
                buffer
            }
        };
        let expected = Duration::from_secs_f64(entry.median_s.clamp(0.0, 3600.0));
        let report = own.reporting.number(self.agreed.channel.nodes());
        let is_trial = report != 0 && own.plans.take_trial(class);
        let leaf_acks = timed || is_trial || own.sampling.is_due(Instant::now, expected);
        let options = Options { leaf_acks, report, abandon: None };
        // SAFETY: the buffer is the root's own or ours, and stays while the engine works.
        let sent =
            unsafe { self.engine.send(&self.agreed.channel, call, striping, buffer, options)? };
        report::note_gain(entry.native_s, entry.median_s);
        release_memory(&mut self.packed);
        Ok((Decision::Trees, sent.until_acked))
    }

    /// Any other rank's part.
    ///
    /// # Safety
    /// As for `MPI_Bcast`.
    unsafe fn receive(
        &mut self,
        elements: Elements,
        call: Call,
        message: Message,
    ) -> Result<Decision, BroadcastError> {
        let in_place = lies_as_it_travels(elements, message)?;
        let buffer = match in_place {
            true => Buffer { data: elements.data.cast(), len: message.bytes as usize },
            false => memory_for(&mut self.packed, message.bytes)?,
        };
        // SAFETY: the buffer is the caller's to be written, or ours.
        let arrived =
            unsafe { self.engine.receive(&self.agreed.channel, call, buffer, &mut || {}) };
        let mut whole = elements;
        match &arrived {
            Ok(arrived) if arrived.decision != Decision::Trees => return Ok(arrived.decision),
            Ok(_) => {}
            // Whole elements of a message that is shorter than expected.
            Err(BroadcastError::Length { root, here }) if root < here => {
                let element_bytes = message.bytes / elements.count as u64;
                whole.count = (root / element_bytes.max(1)) as i64;
            }
            Err(_) => return arrived.map(|arrived| arrived.decision),
        }
        if !in_place {
            // SAFETY: the elements are writable by the caller.
            unsafe { whole.unpack(own_comm()?, &self.packed)? };
        }
        release_memory(&mut self.packed);
        arrived.map(|arrived| arrived.decision)
    }

    /// The plan that a broadcast from this rank's node would use, if the daemon knows one.
    pub(crate) fn plan(&mut self, bytes: u64) -> Option<Plan> {
        let target = self.target(self.agreed.channel.own_rank(), bytes);
        let plans = &mut self.agreed.as_root().plans;
        daemon::with_link(|link| plans.refresh(link.board(), target))?;
        Some(plans.get(target.class)?.plan.clone())
    }
}

/// Whether the message's bytes may be sent from and received into the program's memory as it is. Memory
/// that may be a GPU's is left to the MPI, which packs and unpacks it.
fn lies_as_it_travels(elements: Elements, message: Message) -> Result<bool, MpiError> {
    Ok((message.is_plain || elements.are_contiguous()?) && !device::runtime_is_loaded())
}

fn memory_for(packed: &mut Vec<u8>, bytes: u64) -> Result<Buffer, BroadcastError> {
    let len = usize::try_from(bytes).map_err(|_| BroadcastError::Memory(bytes))?;
    let missing = len.saturating_sub(packed.len());
    packed.try_reserve_exact(missing).map_err(|_| BroadcastError::Memory(bytes))?;
    packed.resize(len, 0);
    Ok(Buffer { data: packed.as_mut_ptr(), len })
}

fn release_memory(packed: &mut Vec<u8>) {
    if packed.capacity() > KEPT_BYTES {
        *packed = Vec::new();
    }
}
