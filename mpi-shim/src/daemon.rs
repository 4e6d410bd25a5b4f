//! This process's link to the daemon of its node: its slot, its holds, the plans on the board.
//!
//! Made at the first broadcast that could use it, one a process. Everything here may fail at any
//! time, since daemons come and go; then the process goes on without.

use arborcast_proto::client::{ClientError, Connection, socket_path};
use arborcast_proto::hold::{self, Experiment, Phase};
use arborcast_proto::message::{Answer, Ask, Role, Welcome};
use arborcast_proto::segment::{BoardView, Broadcast, SegmentError, Slot};
use arborcast_proto::{Group, GroupHash, monotonic_ns};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A daemon that does not answer within this is treated as absent.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// How often the process looks whether its daemon is still there, or is there again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
}

/// A link that works, or worked when last looked at.
pub struct Link {
    connection: Connection,
    board: BoardView,
    slot: Slot,
    /// Broadcasts under way in this process; several threads may be in one each.
    broadcasting: u32,
    looked: Instant,
    registered: Vec<GroupHash>,
}

impl Link {
    /// # Errors
    /// Where there is no daemon, it is of another version, or this user may not use it.
    pub fn open(role: Role) -> Result<Self, LinkError> {
        let mut connection = Connection::open(&socket_path(), ANSWER_LIMIT)?;
        let Answer::Welcome(Welcome { board, desk, slot }) = connection.ask(&Ask::Hello(role))?
        else {
            return Err(ClientError::Unexpected.into());
        };
        Ok(Link {
            connection,
            board: BoardView::open(&board)?,
            slot: Slot::open(&desk, slot as usize)?,
            broadcasting: 0,
            looked: Instant::now(),
            registered: Vec::new(),
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

    /// Claims the network for a broadcast. Returns at once unless an experiment is running on this
    /// node; then it waits for it to stop, but never longer than the daemon's `hold_wait_max`.
    pub fn begin(&mut self) {
        self.broadcasting += 1;
        if self.broadcasting > 1 || hold::claim(self.slot.request(), self.board.experiment()) {
            return;
        }
        // A daemon that does not hear the bell still looks at the desk now and then.
        let _ = self.connection.tell(&Ask::Ring);
        let give_up = Instant::now() + self.board.identity().hold_wait_max;
        loop {
            let seen = Experiment::load(self.board.experiment());
            let left = give_up.saturating_duration_since(Instant::now());
            if seen.phase == Phase::Quiet {
                return;
            }
            if left.is_zero() {
                self.slot.count_wait_given_up();
                return;
            }
            self.board.wait_for_change(seen, left);
        }
    }

    /// Ends what [`begin`](Self::begin) began, and leaves a note of it for the daemon.
    pub fn end(&mut self, broadcast: &Broadcast) {
        self.broadcasting = self.broadcasting.saturating_sub(1);
        self.slot.record(broadcast, monotonic_ns());
        if self.broadcasting == 0 {
            hold::release(self.slot.request());
        }
    }

    /// Tells the daemon which nodes the group of this hash has, once.
    pub fn register(&mut self, hash: GroupHash, group: &Group) -> Result<(), ClientError> {
        if !self.registered.contains(&hash) {
            self.connection.ask(&Ask::Register(group.clone()))?;
            self.registered.push(hash);
        }
        Ok(())
    }
}

/// The application's link, if it has one now, and when it was last tried for.
struct Shared {
    link: Option<Link>,
    tried: Option<Instant>,
}

static SHARED: OnceLock<Mutex<Shared>> = OnceLock::new();

fn shared() -> MutexGuard<'static, Shared> {
    let shared = SHARED.get_or_init(|| Mutex::new(Shared { link: None, tried: None }));
    // What a panicking thread may have left half done is the count of broadcasts under way, which
    // costs experiments, never the application.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Uses the application's link if there is one. A daemon that went away is noticed here, and looked
/// for again, at most once a second.
pub fn with_link<T>(use_link: impl FnOnce(&mut Link) -> T) -> Option<T> {
    let mut shared = shared();
    if let Some(link) = &mut shared.link
        && link.broadcasting == 0
        && link.looked.elapsed() >= LOOK_EVERY
    {
        link.looked = Instant::now();
        if link.connection.is_closed() {
            shared.link = None;
        }
    }
    if shared.link.is_none() && shared.tried.is_none_or(|tried| tried.elapsed() >= LOOK_EVERY) {
        shared.tried = Some(Instant::now());
        shared.link = Link::open(Role::Application).ok();
    }
    shared.link.as_mut().map(use_link)
}

/// This node's name, if a daemon serves it.
pub fn node_name() -> Option<arborcast_proto::NodeName> {
    with_link(|link| link.board().identity().node.clone())
}
