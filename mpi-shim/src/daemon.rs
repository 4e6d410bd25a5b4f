//! This process's link to the daemon of its node: its slot, its holds, the plans on the board.
//!
//! Only who is the root of a broadcast, or reports on one, needs a link; it is made then, one a process. Who only wants to
//! know whether a daemon is there asks for the board ([`with_board`]) and keeps nothing but a mapping.
//! Everything here may fail at any time, since daemons come and go; then the process goes on without.
//! A daemon that has the socket and does not serve it (stopped, swapping) costs one wait: then this
//! process steps back, twice as long each time.

use arborcast_proto::client::{ClientError, Connection, SocketFile, is_served, socket_path};
use arborcast_proto::hold::{self, Experiment, Phase};
use arborcast_proto::message::{Ask, Role};
use arborcast_proto::segment::{BoardView, Broadcast, SegmentError, Slot};
use arborcast_proto::{DeliveryReport, Group, GroupHash, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A daemon that does not answer within this is treated as absent. Long enough for the thousand ranks
/// of a node that all come at once.
pub const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// How often the process looks whether its daemon is still there, or is there again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The longest that a process leaves a daemon alone that did not answer.
const LONGEST_STEP_BACK: Duration = Duration::from_secs(300);

/// Where a native broadcast takes longer, a first plan is worth a header each time.
const LONG_S: f64 = 0.2;
/// Targets that are remembered for some reason; where there are more, all are forgotten.
const MAX_TARGETS: usize = 256;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

impl LinkError {
    fn is_time_out(&self) -> bool {
        matches!(self, LinkError::Client(error) if error.is_time_out())
    }
}

/// A link that works, or worked when last looked at.
pub struct Link {
    connection: Connection,
    board: BoardView,
    slot: Slot,
    /// The threads with a broadcast under way. A thread whose last broadcast was left by an exception
    /// is still among them, until it begins its next.
    broadcasting: Vec<libc::pthread_t>,
    /// The experiment word at the last hold timeout.
    timed_out_at: Option<Experiment>,
    registered: BTreeSet<GroupHash>,
    /// See [`Link::is_long_natively`].
    long_natively: BTreeSet<Target>,
    /// For which the daemon was asked for a plan.
    asked_for: BTreeSet<Target>,
    /// Why the connection is of no use any more.
    broken: Option<ClientError>,
}

impl Link {
    /// # Errors
    /// Where there is no daemon, it is of another version, or this user may not use it.
    pub fn open(role: Role) -> Result<Self, LinkError> {
        Self::open_at(&socket_path(), role)
    }

    fn open_at(socket: &Path, role: Role) -> Result<Self, LinkError> {
        let mut connection = Connection::open(socket, ANSWER_LIMIT)?;
        let slot = connection.hello(role)?;
        let board = connection.board()?;
        Ok(Link {
            connection,
            board: BoardView::open(board)?,
            slot: Slot::open(&slot)?,
            broadcasting: Vec::new(),
            timed_out_at: None,
            registered: BTreeSet::new(),
            long_natively: BTreeSet::new(),
            asked_for: BTreeSet::new(),
            broken: None,
        })
    }

    pub fn board(&self) -> &BoardView {
        &self.board
    }

    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Whether the last broadcast of a target was native and took so long that to ask for a first plan before the
    /// next one may be worth it.
    pub fn is_long_natively(&self, target: Target) -> bool {
        self.long_natively.contains(&target)
    }

    /// Claims the network for a broadcast of this thread. Returns at once unless an experiment is running
    /// on this node; then it waits for it to stop, but never longer than the daemon's `hold_wait_max`,
    /// and not again for a word that has not changed since the last hold timeout.
    pub fn begin(&mut self) {
        if !self.broadcasting.contains(&this_thread()) {
            self.broadcasting.push(this_thread());
        }
        if self.slot.claim(self.board.experiment()) || self.broken.is_some() {
            return;
        }
        let mut seen = Experiment::load(self.board.experiment());
        if self.timed_out_at == Some(seen) {
            return;
        }
        // A daemon that does not hear the doorbell still looks at the slots now and then.
        self.connection.tell_if_room(&Ask::Ring);
        let deadline = Instant::now() + self.board.identity().hold_wait_max;
        while seen.phase != Phase::Quiet {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.slot.count_hold_timeout();
                self.timed_out_at = Some(seen);
                return;
            }
            self.board.wait_for_change(seen, left);
            seen = Experiment::load(self.board.experiment());
        }
    }

    /// Ends what this thread's [`begin`](Self::begin) began, and leaves a note of it for the daemon: as of `ended_ns`
    /// (CLOCK_MONOTONIC), when all nodes should have it. Where that began without a link, nobody else's hold ends with it.
    pub fn end(&mut self, broadcast: &Broadcast, ended_ns: u64) {
        self.broadcasting.retain(|&thread| thread != this_thread());
        self.slot.record(broadcast, ended_ns);
        if broadcast.native_s.is_some_and(|seconds| seconds >= LONG_S) {
            remember(&mut self.long_natively, broadcast.target);
        } else {
            self.long_natively.remove(&broadcast.target);
        }
        if self.broadcasting.is_empty() {
            hold::release(self.slot.request());
        }
    }

    /// Tells the daemon what this node saw of a broadcast. Does not wait: where the socket is full, it is lost.
    pub fn tell_delivered(&mut self, report: DeliveryReport) {
        self.connection.tell_if_room(&Ask::Delivered(report));
    }

    /// Tells the daemon which nodes the group of this hash has, once.
    ///
    /// # Errors
    /// Where the daemon refuses the group, or did not answer; then the link is of no use any more.
    pub fn register(&mut self, hash: GroupHash, group: &Group) -> Result<(), ClientError> {
        if self.broken.is_some() || self.registered.contains(&hash) {
            return Ok(());
        }
        let answer = self.ask(&Ask::Register(group.clone()));
        if self.broken.is_none() {
            // Where it is refused, it will not be taken the next time either.
            self.registered.insert(hash);
        }
        answer
    }

    /// Has the daemon make a plan for a target that has none, once: where it can and that pays, the plan is on the
    /// board afterwards. Takes some hundredths of a second then, else next to nothing.
    pub fn ask_for_plan(&mut self, target: Target, bytes: u64) {
        if self.broken.is_none() && !self.asked_for.contains(&target) {
            remember(&mut self.asked_for, target);
            // Without an answer there is no plan.
            let _ = self.ask(&Ask::Plan(target, bytes));
        }
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), ClientError> {
        match self.connection.ask(ask) {
            Ok(_) => Ok(()),
            Err(ClientError::Refused(refusal)) => Err(refusal.into()),
            Err(error) => {
                let told = ClientError::Io(std::io::ErrorKind::NotConnected.into());
                self.broken = Some(error);
                Err(told)
            }
        }
    }
}

fn remember(targets: &mut BTreeSet<Target>, target: Target) {
    if targets.len() >= MAX_TARGETS {
        targets.clear();
    }
    targets.insert(target);
}

/// Different from that of every other living thread.
fn this_thread() -> libc::pthread_t {
    // SAFETY: reads the thread's own number; works in threads that Rust knows nothing of.
    unsafe { libc::pthread_self() }
}

/// When to try again what failed.
#[derive(Debug, Default)]
struct Backoff {
    not_before: Option<Instant>,
    /// After the last time-out.
    step: Duration,
}

impl Backoff {
    fn may_try(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| now >= at)
    }

    /// Nobody was there, which costs next to nothing to find out.
    fn absent(&mut self, now: Instant) {
        self.not_before = Some(now + LOOK_EVERY);
    }

    /// Somebody was there and did not answer, which cost a wait.
    fn timed_out(&mut self, now: Instant) {
        self.step = (2 * self.step).clamp(LOOK_EVERY, LONGEST_STEP_BACK);
        self.not_before = Some(now + self.step);
    }

    fn answered(&mut self) {
        *self = Backoff::default();
    }
}

/// What this process knows of its node's daemon.
struct Node {
    /// `None`: where [`socket_path`] says.
    socket: Option<PathBuf>,
    link: Option<Link>,
    /// The board of the daemon that last answered, without a link.
    board: Option<ServedBoard>,
    looked: Option<Instant>,
    backoff: Backoff,
}

/// A board, and the socket that it was asked for at.
struct ServedBoard {
    view: BoardView,
    socket: Option<SocketFile>,
}

impl ServedBoard {
    fn open_at(path: &Path) -> Result<Self, LinkError> {
        // Of the daemon that is asked, or of one before it: then the board is asked for once more.
        let socket = SocketFile::at(path);
        let board = Connection::open(path, ANSWER_LIMIT)?.board()?;
        Ok(ServedBoard { view: BoardView::open(board)?, socket })
    }

    /// Whether the daemon has gone, or another one has come.
    fn is_gone(&self, path: &Path) -> bool {
        self.socket != SocketFile::at(path) || !is_served(path)
    }
}

impl Node {
    const fn new() -> Self {
        let backoff = Backoff { not_before: None, step: Duration::ZERO };
        Node { socket: None, link: None, board: None, looked: None, backoff }
    }

    fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(socket_path)
    }

    /// Drops what belongs to a daemon that has gone. Looks at most once a second.
    fn look(&mut self, now: Instant) {
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        if self.link.as_ref().is_some_and(|link| link.connection.is_closed()) {
            self.link = None;
            self.board = None;
        }
        if self.link.is_none() {
            let socket = self.socket();
            self.board.take_if(|board| board.is_gone(&socket));
        }
    }

    /// Does what may fail, unless it has just failed.
    fn attempt<T>(
        &mut self,
        now: Instant,
        open: impl FnOnce(&Path) -> Result<T, LinkError>,
    ) -> Option<T> {
        if !self.backoff.may_try(now) {
            return None;
        }
        match open(&self.socket()) {
            Ok(opened) => {
                self.backoff.answered();
                Some(opened)
            }
            Err(error) => {
                self.failed(error.is_time_out());
                None
            }
        }
    }

    fn failed(&mut self, timed_out: bool) {
        // What it cost does not count as part of the pause.
        let now = Instant::now();
        if timed_out { self.backoff.timed_out(now) } else { self.backoff.absent(now) }
    }

    fn with_link<T>(&mut self, use_link: impl FnOnce(&mut Link) -> T) -> Option<T> {
        let now = Instant::now();
        self.look(now);
        if self.link.is_none() {
            self.link = self.attempt(now, |socket| Link::open_at(socket, Role::Application));
        }
        let link = self.link.as_mut()?;
        let result = use_link(link);
        if let Some(error) = link.broken.take() {
            self.link = None;
            self.failed(error.is_time_out());
        }
        Some(result)
    }

    fn board(&mut self) -> Option<&BoardView> {
        let now = Instant::now();
        self.look(now);
        if self.link.is_none() && self.board.is_none() {
            self.board = self.attempt(now, ServedBoard::open_at);
        }
        self.link.as_ref().map(Link::board).or(self.board.as_ref().map(|board| &board.view))
    }
}

static NODE: Mutex<Node> = Mutex::new(Node::new());

fn node() -> MutexGuard<'static, Node> {
    // What a panicking thread may have left half done costs experiments, never the application.
    NODE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Uses the application's link; for the roots of broadcasts, since it takes up a slot and a connection.
/// A daemon that went away is noticed here, and looked for again, at most once a second.
pub fn with_link<T>(use_link: impl FnOnce(&mut Link) -> T) -> Option<T> {
    node().with_link(use_link)
}

/// As [`with_link`], for what ends: the link is used as it was left, without a look whether it still works.
pub fn with_same_link<T>(use_link: impl FnOnce(&mut Link) -> T) -> Option<T> {
    node().link.as_mut().map(use_link)
}

/// Looks at the board of this node's daemon, if one serves it. Takes no slot and keeps no connection.
pub fn with_board<T>(look: impl FnOnce(&BoardView) -> T) -> Option<T> {
    node().board().map(look)
}

#[cfg(test)]
mod tests;
