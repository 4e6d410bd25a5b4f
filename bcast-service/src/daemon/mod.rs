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
mod supervisor;
mod textfile;
mod wisdom_store;

use crate::config::{Config, ConfigError};
use crate::page::{Page, PageError, Question};
use arborcast_proto::segment::SegmentError;
use board_name::BoardName;
use budget::{Budget, User};
use clock::Now;
use connection::Event;
pub use descriptors::close_inherited;
use lock::Lock;
use node::{ConnectionId, Node};
use sd_notify::NotifyState;
use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use supervisor::Supervisor;
use textfile::Textfile;
use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::{debug, info, warn};
use wisdom_store::WisdomStore;

/// Clients that wait to be accepted; a node's ranks may all come at once. The system may allow fewer.
const BACKLOG: i32 = 4096;
/// Questions that wait to be answered. Few, since an answer takes up to 16 MiB until its client has it.
const QUEUED_EVENTS: usize = 8;

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
        let daemon = Daemon::start(config)?;
        daemon.serve(reload).await;
        Ok(())
    })
}

struct Daemon {
    config: Config,
    node: Node,
    wisdom_store: WisdomStore,
    textfile: Textfile,
    supervisor: Supervisor,
    page: Option<Page>,
    listener: UnixListener,
    signals: Signals,
    connections: HashMap<ConnectionId, AbortHandle>,
    next_connection: ConnectionId,
    budget: Budget,
    // Last, so that the lock is given back when all else is gone.
    _board_name: BoardName,
    _lock: Lock,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Daemon {
    fn start(config: Config) -> Result<Self, DaemonError> {
        let name = config.node_name()?;
        let gid = config.gid()?;
        make_directory(config.socket.parent().unwrap_or(Path::new("/")))?;
        let lock = take_lock(&with_suffix(&config.socket, ".lock"))?;
        let (limit, max_connections) = descriptors::raise_limit();
        let (wisdom_store, knowledge) = WisdomStore::open(config.wisdom_path())?;
        let kept_in = with_suffix(&config.socket, ".board");
        let board_name = BoardName::draw(config.segment_prefix.as_str(), kept_in.clone())
            .map_err(|source| DaemonError::Io { path: kept_in, source })?;
        let node = Node::new(&config, name, board_name.as_str(), knowledge, Now::read())?;
        let to_signal = |kind| signal(kind).map_err(DaemonError::Runtime);
        let signals = Signals {
            terminate: to_signal(SignalKind::terminate())?,
            interrupt: to_signal(SignalKind::interrupt())?,
            hangup: to_signal(SignalKind::hangup())?,
        };
        let page = Page::start(&config.page, &host_name())?;
        // Last: who finds the socket finds a daemon that answers.
        let listener = listen(&config.socket, gid)?;
        Ok(Daemon {
            supervisor: Supervisor::new(config.experiment.launch.clone(), limit),
            textfile: Textfile::new(config.metrics.clone()),
            page,
            config,
            node,
            wisdom_store,
            listener,
            signals,
            connections: HashMap::new(),
            next_connection: 0,
            budget: Budget::new(max_connections),
            _board_name: board_name,
            _lock: lock,
        })
    }

    async fn serve(mut self, reload: &mut Reload) {
        let (events, mut inbox) = mpsc::channel(QUEUED_EVENTS);
        let mut watchdog =
            sd_notify::watchdog_enabled().map(|limit| tokio::time::interval(limit / 2));
        info!("arborcastd {} serves {}", env!("CARGO_PKG_VERSION"), self.config.socket.display());
        notify(&[NotifyState::Ready]);
        loop {
            let next_look = self.node.next_look(Now::read());
            tokio::select! {
                Some(event) = inbox.recv() => self.handle(event),
                () = sleep(next_look) => self.node.look(Now::read()),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.accept(stream, &events),
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
                done = self.textfile.wait() => {
                    let unsaved = self.wisdom_store.unsaved_changes(self.node.knowledge());
                    self.textfile.step(done, |targets| self.node.metrics(targets, unsaved, Now::read()));
                }
                question = next_question(self.page.as_mut()) => self.answer_page(question),
                () = self.supervisor.step() => {}
                () = tick(watchdog.as_mut()) => notify(&[NotifyState::Watchdog]),
                _ = self.signals.hangup.recv() => self.reload(reload).await,
                _ = self.signals.terminate.recv() => break,
                _ = self.signals.interrupt.recv() => break,
            }
            for connection in self.node.take_connections_to_close() {
                self.close(connection);
            }
        }
        self.end().await;
    }

    fn accept(&mut self, stream: tokio::net::UnixStream, events: &mpsc::Sender<Event>) {
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
        self.connections.insert(id, task.abort_handle());
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Question(question, reply) => {
                // Fails only where the connection has ended meanwhile.
                let _ = reply.send(self.node.handle(question, Now::read()));
                self.wisdom_store.note(self.node.knowledge());
            }
            Event::Gone(connection) => {
                self.node.gone(connection, Now::read());
                self.connections.remove(&connection);
            }
        }
    }

    /// Who has asked may be gone.
    fn answer_page(&mut self, question: Question) {
        match question {
            Question::Facts(reply) => drop(reply.send(self.node.facts(Now::read()))),
            Question::Detail(target, reply) => {
                drop(reply.send(self.node.detail(target, Now::read())));
            }
            Question::Metrics(reply) => {
                let unsaved = self.wisdom_store.unsaved_changes(self.node.knowledge());
                let targets = self.config.metrics.targets;
                drop(reply.send(self.node.metrics(targets, unsaved, Now::read())));
            }
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(task) = self.connections.remove(&connection) {
            task.abort();
        }
    }

    async fn reload(&mut self, reload: &mut Reload) {
        let config = match reload() {
            Ok(config) => config,
            Err(error) => return warn!("the configuration stays as it was: {error}"),
        };
        self.node.set_linger(config.linger);
        self.supervisor.reload(config.experiment.launch.clone()).await;
        self.textfile.reload(config.metrics.clone());
        let Config { linger, log, experiment, metrics, .. } = config.clone();
        let taken = Config { linger, log, experiment, metrics, ..self.config.clone() };
        if taken != config {
            warn!("some settings that have changed need a restart");
        }
        self.config = taken;
        info!("configuration read again");
    }

    /// Applications go on at once, plans are saved, and nothing is left behind.
    async fn end(mut self) {
        info!("ending");
        notify(&[NotifyState::Stopping]);
        // Before the connections: a client that loses them looks at the board no more.
        self.node.quiet();
        drop(self.listener);
        let _ = fs::remove_file(&self.config.socket);
        for task in self.connections.into_values() {
            task.abort();
        }
        self.textfile.finish().await;
        self.supervisor.end().await;
        self.wisdom_store.finish(&mut self.node).await;
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

/// Listens at `path`, for the daemon's user and group. The caller has the lock, so that a socket
/// that is there already belongs to no one.
fn listen(path: &Path, gid: Option<u32>) -> Result<UnixListener, DaemonError> {
    let io = |source| DaemonError::Io { path: path.into(), source };
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(io)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|errno| io(errno.into()))?;
    if let Some(gid) = gid {
        std::os::unix::fs::chown(path, None, Some(gid)).map_err(io)?;
    }
    fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(io)?;
    Ok(listener)
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
