//! The daemon: one thread that serves clients, looks at the slots when it is rung or when it is
//! time, and keeps its files. Everything that decides is in [`node`] and below; this module owns
//! the socket, the timers and the order of starting and ending.

mod board_name;
mod budget;
pub mod clock;
mod connection;
mod descriptors;
mod lock;
pub mod node;
mod planning;
mod process;
mod socket;
mod supervisor;
mod textfile;
mod wisdom_store;

use crate::config::{Config, ConfigError};
use crate::page::{Page, PageError, Question};
use arborcast_proto::message::{Ask, Role};
use arborcast_proto::segment::{self, SegmentError};
use board_name::BoardName;
use budget::{Budget, User};
use clock::Now;
use connection::Event;
pub use descriptors::close_inherited;
use lock::Lock;
use node::{ConnectionId, Node};
use planning::Planning;
use rustix::process::Rlimit;
use sd_notify::NotifyState;
use socket::Socket;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use supervisor::Supervisor;
use textfile::Textfile;
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;
use tracing::{debug, info, warn};
use wisdom_store::WisdomStore;

/// Questions that wait to be answered. Few, since an answer takes up to 16 MiB until its client has it.
const QUEUED_EVENTS: usize = 8;
/// How often the daemon looks whether it can still be found, and what became of the job.
const ROUND: Duration = Duration::from_secs(1);

/// Why a daemon does not run. [`DaemonError::exit_code`] is what its program ends with.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(
        "another daemon runs here: it has locked {0}; side by side they need their own socket, and their own state directory or segment prefix"
    )]
    AnotherDaemon(PathBuf),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error(transparent)]
    Page(PageError),
    #[error("the event loop cannot be set up: {0}")]
    Runtime(io::Error),
}

impl From<PageError> for DaemonError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Config(error) => DaemonError::Config(error),
            error => DaemonError::Page(error),
        }
    }
}

impl DaemonError {
    /// 2: the configuration cannot be used; 3: another daemon runs here; 4: the system refuses.
    pub fn exit_code(&self) -> u8 {
        match self {
            DaemonError::Config(_) => 2,
            DaemonError::AnotherDaemon(_) => 3,
            DaemonError::Io { .. }
            | DaemonError::Segment(_)
            | DaemonError::Page(_)
            | DaemonError::Runtime(_) => 4,
        }
    }
}

/// Reads the settings again and takes over what can be changed while running.
pub type Reload = dyn FnMut() -> Result<Config, ConfigError>;

/// Runs a daemon until SIGTERM or SIGINT; `reload` is called on SIGHUP.
///
/// # Errors
/// Where it cannot start.
pub fn run(config: Config, reload: &mut Reload) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Runtime)?;
    runtime.block_on(async {
        let mut signals = Signals::new().map_err(DaemonError::Runtime)?;
        let limits = descriptors::raise_limit();
        let mut next = Some((config, None));
        while let Some((config, page)) = next {
            let daemon = Daemon::start(config, limits, page)?;
            next = daemon.serve(reload, &mut signals).await;
        }
        Ok(())
    })
}

struct Daemon {
    config: Config,
    node: Node,
    planning: Planning,
    wisdom_store: WisdomStore,
    textfile: Textfile,
    supervisor: Supervisor,
    page: Option<Page>,
    socket: Socket,
    connections: HashMap<ConnectionId, Client>,
    next_connection: ConnectionId,
    budget: Budget,
    // Last, so that the lock is given back when all else is gone.
    board_name: BoardName,
    lock: Lock,
}

/// Who is connected.
struct Client {
    task: AbortHandle,
    /// `None` where it is in another pid namespace.
    pid: Option<i32>,
}

/// They outlive a daemon that starts anew: none is missed.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

impl Daemon {
    /// `limits`: the descriptors that the job may have, and the most connections. `page`: that of a daemon
    /// that starts anew, which listens already.
    fn start(
        config: Config,
        limits: (Rlimit, usize),
        page: Option<Page>,
    ) -> Result<Self, DaemonError> {
        let name = config.node_name()?;
        let gid = config.gid()?;
        make_directory(config.socket.parent().unwrap_or(Path::new("/")))?;
        let lock = take_lock(&with_suffix(&config.socket, ".lock"))?;
        let (limit, max_connections) = limits;
        let (wisdom_store, knowledge) = WisdomStore::open(config.wisdom_path())?;
        let kept_in = with_suffix(&config.socket, ".board");
        let board_name = BoardName::draw(config.segment_prefix.as_str(), kept_in.clone())
            .map_err(|source| DaemonError::Io { path: kept_in, source })?;
        let node = Node::new(&config, name, board_name.as_str(), knowledge, Now::read())?;
        let page = match page {
            None => Page::start(&config.page, &host_name())?,
            listens => listens,
        };
        // Last: who finds the socket finds a daemon that answers.
        let socket = Socket::listen(&config.socket, gid)
            .map_err(|source| DaemonError::Io { path: config.socket.clone(), source })?;
        Ok(Daemon {
            supervisor: Supervisor::new(config.experiment.clone(), limit),
            textfile: Textfile::new(config.metrics.clone()),
            page,
            config,
            node,
            planning: Planning::new(),
            wisdom_store,
            socket,
            connections: HashMap::new(),
            next_connection: 0,
            budget: Budget::new(max_connections),
            board_name,
            lock,
        })
    }

    /// Until a signal says that it is to end, or it cannot be found any more: then it gives the settings and
    /// the page for one that starts anew.
    async fn serve(
        mut self,
        reload: &mut Reload,
        signals: &mut Signals,
    ) -> Option<(Config, Option<Page>)> {
        let (events, mut inbox) = mpsc::channel(QUEUED_EVENTS);
        let mut watchdog =
            sd_notify::watchdog_enabled().map(|limit| tokio::time::interval(limit / 2));
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        info!("arborcastd {} serves {}", env!("CARGO_PKG_VERSION"), self.config.socket.display());
        notify(&[NotifyState::Ready]);
        let config = loop {
            let next_look = self.node.next_look(Now::read());
            tokio::select! {
                Some(event) = inbox.recv() => self.handle(event),
                () = sleep(next_look) => self.node.look(Now::read()),
                accepted = self.socket.accept() => match accepted {
                    Ok(stream) => self.accept(stream, &events),
                    Err(error) => {
                        // Out of file descriptors, most likely: not to be tried again at once.
                        warn!("a connection cannot be accepted: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
                done = self.wisdom_store.wait() => {
                    if let Some(wisdom) = self.wisdom_store.step(done, self.node.knowledge()) {
                        self.node.absorb(wisdom, Now::read());
                        self.wisdom_store.note(self.node.knowledge());
                    }
                }
                planned = self.planning.wait() => {
                    if let Some(finding) = planned {
                        self.node.planned(finding, Now::read());
                        self.wisdom_store.note(self.node.knowledge());
                    }
                    self.planning.end();
                }
                done = self.textfile.wait() => {
                    let unsaved = self.wisdom_store.unsaved_changes(self.node.knowledge());
                    self.textfile.step(done, |targets| self.node.metrics(targets, unsaved, Now::read()));
                }
                question = next_question(self.page.as_mut()) => self.answer_page(question),
                () = self.supervisor.step() => {}
                () = tick(watchdog.as_mut()) => notify(&[NotifyState::Watchdog]),
                _ = rounds.tick() => {
                    self.supervisor.watch(self.node.experiments() > 0);
                    if let Some(lost) = self.lost_name() {
                        warn!("{} is not this daemon's any more; it starts anew", lost.display());
                        break Some(self.config.clone());
                    }
                }
                _ = signals.hangup.recv() => self.reload(reload).await,
                _ = signals.terminate.recv() => break None,
                _ = signals.interrupt.recv() => break None,
            }
            for connection in self.node.take_connections_to_close() {
                self.close(connection);
            }
        };
        info!("ending");
        if config.is_none() {
            notify(&[NotifyState::Stopping]);
        }
        let page = self.end().await;
        config.map(|config| (config, page))
    }

    /// What somebody has removed, or put another in place of, so that clients or other daemons do not find
    /// this one.
    fn lost_name(&self) -> Option<PathBuf> {
        let board = self.board_name.as_str();
        if !self.lock.is_named().unwrap_or(true) {
            Some(self.lock.path().into())
        } else if !self.socket.is_named() {
            Some(self.socket.path().into())
        } else if !self.board_name.is_kept() {
            Some(self.board_name.kept_in().into())
        } else if !segment::is_there(board) {
            Some(Path::new("/dev/shm").join(board))
        } else {
            None
        }
    }

    fn accept(&mut self, stream: UnixStream, events: &mpsc::Sender<Event>) {
        // Who cannot be named is gone already.
        let Ok(peer) = stream.peer_cred() else { return };
        let own_uid = rustix::process::geteuid().as_raw();
        let user = User { uid: peer.uid(), trusted: peer.uid() == own_uid || peer.uid() == 0 };
        let seat = match self.budget.seat(user) {
            Ok(seat) => seat,
            Err(over) => return warn!(uid = user.uid, "a connection is refused: {over}"),
        };
        let id = self.next_connection;
        self.next_connection += 1;
        let task = tokio::spawn(connection::serve(stream, id, user, seat, events.clone()));
        self.connections.insert(id, Client { task: task.abort_handle(), pid: peer.pid() });
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Question(question, reply) => {
                let connection = question.connection;
                if let Ask::Plan(target, bytes) = question.ask
                    && let Some(wanted) = self.node.to_plan(target, bytes)
                {
                    return self.planning.ask(wanted, reply);
                }
                let is_program = matches!(question.ask, Ask::Hello(Role::Application));
                // Fails only where the connection has ended meanwhile.
                let _ = reply.send(self.node.handle(question, Now::read()));
                if is_program {
                    self.name_program(connection);
                }
                self.wisdom_store.note(self.node.knowledge());
            }
            Event::Gone(connection) => {
                self.node.gone(connection, Now::read());
                self.connections.remove(&connection);
            }
        }
    }

    fn name_program(&mut self, connection: ConnectionId) {
        let pid = self.connections.get(&connection).and_then(|client| client.pid);
        if let Some(pid) = pid.filter(|_| self.node.keeps_record()) {
            self.node.name_program(connection, process::read(pid));
        }
    }

    /// Who has asked may be gone.
    fn answer_page(&mut self, question: Question) {
        match question {
            Question::Facts(reply) => drop(reply.send(self.node.facts(Now::read()))),
            Question::Detail(target, reply) => {
                drop(reply.send(self.node.detail(target, Now::read())));
            }
            Question::LinkPast(group, [from, to], reply) => {
                drop(reply.send(self.node.link_past(group, from, to)));
            }
            Question::Metrics(reply) => {
                let unsaved = self.wisdom_store.unsaved_changes(self.node.knowledge());
                let targets = self.config.metrics.targets;
                drop(reply.send(self.node.metrics(targets, unsaved, Now::read())));
            }
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(Client { task, .. }) = self.connections.remove(&connection) {
            task.abort();
        }
    }

    async fn reload(&mut self, reload: &mut Reload) {
        let config = match reload() {
            Ok(config) => config,
            Err(error) => return warn!("the configuration stays as it was: {error}"),
        };
        self.node.set_linger(config.linger);
        self.supervisor.reload(config.experiment.clone()).await;
        self.textfile.reload(config.metrics.clone());
        let Config { linger, log, experiment, metrics, .. } = config.clone();
        let taken = Config { linger, log, experiment, metrics, ..self.config.clone() };
        if taken != config {
            warn!("some settings that have changed need a restart");
        }
        self.config = taken;
        info!("configuration read again");
    }

    /// Applications go on at once, plans are saved, and nothing is left behind but the page.
    async fn end(mut self) -> Option<Page> {
        // Before the connections: a client that loses them looks at the board no more.
        self.node.quiet();
        drop(self.socket);
        for Client { task, .. } in self.connections.into_values() {
            task.abort();
        }
        self.textfile.finish().await;
        self.supervisor.end().await;
        self.wisdom_store.finish(&mut self.node).await;
        self.page
    }
}

fn take_lock(path: &Path) -> Result<Lock, DaemonError> {
    let taken = Lock::take(path).map_err(|source| DaemonError::Io { path: path.into(), source })?;
    taken.ok_or_else(|| DaemonError::AnotherDaemon(path.into()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn make_directory(path: &Path) -> Result<(), DaemonError> {
    fs::create_dir_all(path).map_err(|source| DaemonError::Io { path: path.into(), source })
}

fn notify(state: &[NotifyState]) {
    // Where systemd did not start it, there is nobody to notify.
    if let Err(error) = sd_notify::notify(state) {
        debug!("systemd cannot be notified: {error}");
    }
}

async fn sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

async fn next_question(page: Option<&mut Page>) -> Question {
    match page {
        Some(page) => page.question().await,
        None => std::future::pending().await,
    }
}

async fn tick(interval: Option<&mut tokio::time::Interval>) {
    match interval {
        Some(interval) => {
            interval.tick().await;
        }
        None => std::future::pending().await,
    }
}
