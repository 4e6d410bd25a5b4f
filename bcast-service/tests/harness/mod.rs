//! Real daemons on sockets, segments and state directories of their own, which disappear with the
//! value, and clients that speak as applications and experiments do.
#![allow(dead_code)] // each test program uses its own part

pub mod browser;
pub mod grid;
pub mod http;

use arborcast_proto::client::Connection;
use arborcast_proto::hold::{self, Experiment, Phase};
use arborcast_proto::message::{Answer, Ask, Finding, Role, Status, Times, TrialRecord};
use arborcast_proto::segment::{BoardView, Broadcast, Slot};
use arborcast_proto::{Group, NodeName, Plan, SizeClass, Target, Tree};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a watchdog waits for at most. Reaching it is a failure that names what did not happen.
pub const LONG: Duration = Duration::from_secs(30);

/// Waits until `happened` says so.
pub fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < LONG, "waited in vain for: {what}");
        sleep(Duration::from_millis(2));
    }
}

/// Time on a processor so far, of all threads, in nanoseconds: /proc/PID/stat would count hundredths
/// of a second.
pub fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let time = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    };
    threads.map(|thread| time(thread.unwrap().path())).sum()
}

pub struct Daemon {
    pub directory: TempDir,
    pub prefix: String,
    child: Option<Child>,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    /// Soft and hard limit; without a hard one that of the test program.
    descriptors: Option<(u64, Option<u64>)>,
}

/// Raises the number of descriptors that this test program may have to `count`.
pub fn allow_descriptors(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < count) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum }).unwrap();
    }
}

impl Daemon {
    /// Starts a daemon and waits until it answers.
    pub fn start(flags: &[&str]) -> Self {
        let mut daemon = Self::prepare(flags);
        daemon.restart();
        daemon
    }

    /// A place for a daemon that does not run yet.
    pub fn prepare(flags: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Daemon {
            directory: tempfile::tempdir().unwrap(),
            prefix: format!("arborcast-test-{}-{number}", std::process::id()),
            child: None,
            flags: flags.iter().map(ToString::to_string).collect(),
            variables: Vec::new(),
            descriptors: None,
        }
    }

    /// Of the environment of the daemon's next start.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.into(), value.into()));
    }

    /// The soft limit on descriptors that the daemon is started with.
    pub fn limit_descriptors(&mut self, count: u64) {
        self.descriptors = Some((count, None));
    }

    /// As before, and the daemon cannot raise it.
    pub fn limit_descriptors_for_good(&mut self, count: u64) {
        self.descriptors = Some((count, Some(count)));
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("run/daemon.sock")
    }

    pub fn state_directory(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub fn wisdom(&self) -> PathBuf {
        self.state_directory().join(format!("{}.wisdom", self.prefix))
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_arborcastd"));
        command
            .env_remove("ARBORCAST_CONFIG")
            .env_remove("ARBORCAST_LOG")
            .env("ARBORCAST_SOCKET", self.socket())
            .envs(self.variables.iter().cloned())
            .args(["--node", "n0", "--site", "a", "--segment-prefix", &self.prefix])
            .arg("--state-directory")
            .arg(self.state_directory())
            .args(&self.flags);
        if let Some((count, most)) = self.descriptors {
            use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
            use std::os::unix::process::CommandExt;
            let maximum = most.or(getrlimit(Resource::Nofile).maximum);
            let limit = Rlimit { current: Some(count), maximum };
            // SAFETY: between fork and exec the closure makes one system call.
            unsafe { command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?)) };
        }
        command
    }

    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        self.child = Some(self.command().stderr(Stdio::piped()).spawn().unwrap());
        wait_for("the daemon to answer", || {
            let child = self.child.as_mut().unwrap();
            if let Some(status) = child.try_wait().unwrap() {
                let mut text = String::new();
                child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
                panic!("the daemon ended with {status}: {text}");
            }
            Connection::open(&self.socket(), LONG).is_ok_and(|mut c| c.ask(&Ask::Status).is_ok())
        });
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        let mut ended = None;
        wait_for("the end of the daemon", || {
            ended = self.child.as_mut().and_then(|child| child.try_wait().unwrap());
            ended.is_some()
        });
        self.child = None;
        ended.unwrap()
    }

    /// Ends it as an operator would; gives what it logged.
    pub fn terminate(&mut self) -> String {
        self.signal(rustix::process::Signal::TERM);
        let child = self.child.take().unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        let log = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "the daemon ended with {status}: {log}");
        log
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.socket(), LONG).unwrap()
    }

    pub fn ask(&self, ask: &Ask) -> Answer {
        self.connect().ask(ask).unwrap()
    }

    pub fn status(&self) -> Status {
        match self.ask(&Ask::Status) {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub fn board(&self) -> BoardView {
        BoardView::open(self.connect().board().unwrap()).unwrap()
    }

    /// The operator's command against this daemon.
    pub fn arborcast(&self, arguments: &[&str]) -> Output {
        arborcast(&self.socket(), arguments)
    }

    /// The files of this daemon below /dev/shm.
    pub fn shared_memory(&self) -> Vec<String> {
        let names = std::fs::read_dir("/dev/shm").unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| {
                name.strip_prefix(&self.prefix).is_some_and(|r| r.starts_with("-board-"))
            })
            .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in self.shared_memory() {
            let _ = std::fs::remove_file(Path::new("/dev/shm").join(name));
        }
    }
}

pub fn arborcast(socket: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_arborcast"))
        .env("ARBORCAST_SOCKET", socket)
        .env_remove("ARBORCAST_LIBRARY")
        .args(arguments)
        .output()
        .unwrap()
}

/// A client with its slot.
pub struct Client {
    pub connection: Connection,
    pub board: BoardView,
    pub slot: Slot,
}

impl Client {
    pub fn hello(daemon: &Daemon, role: Role) -> Self {
        Self::try_hello(daemon, role).unwrap()
    }

    pub fn try_hello(
        daemon: &Daemon,
        role: Role,
    ) -> Result<Self, arborcast_proto::client::ClientError> {
        let mut connection = daemon.connect();
        let slot = connection.hello(role)?;
        let board = BoardView::open(connection.board()?).unwrap();
        Ok(Client { connection, board, slot: Slot::open(&slot).unwrap() })
    }

    pub fn application(daemon: &Daemon) -> Self {
        Self::hello(daemon, Role::Application)
    }

    pub fn experiment(daemon: &Daemon, epoch: u64) -> Self {
        Self::hello(daemon, Role::Experiment { epoch })
    }

    pub fn phase(&self) -> Phase {
        Experiment::load(self.board.experiment()).phase
    }

    /// Claims the network as the shim does. True: the experiment was quiet in time.
    pub fn claim(&mut self, limit: Duration) -> bool {
        if self.slot.claim(self.board.experiment()) {
            return true;
        }
        // Nobody hears it where the daemon is gone; then the limit ends the wait.
        self.connection.tell_if_room(&Ask::Ring);
        let start = Instant::now();
        loop {
            let seen = Experiment::load(self.board.experiment());
            match limit.checked_sub(start.elapsed()) {
                _ if seen.phase == Phase::Quiet => return true,
                Some(left) => self.board.wait_for_change(seen, left),
                None => {
                    self.slot.count_hold_timeout();
                    return false;
                }
            }
        }
    }

    pub fn release(&self, broadcast: Option<&Broadcast>) {
        if let Some(broadcast) = broadcast {
            self.slot.record(broadcast, arborcast_proto::monotonic_ns());
        }
        hold::release(self.slot.request());
    }

    /// As an experiment: is about to send, if it may.
    pub fn enter(&mut self) -> bool {
        let may_run = hold::enter(self.slot.request(), self.board.experiment());
        may_run || {
            self.leave();
            false
        }
    }

    /// As an experiment: sends no more. True where the daemon waited for that.
    pub fn leave(&mut self) -> bool {
        let is_waited_for = hold::leave(self.slot.request(), self.board.experiment());
        if is_waited_for {
            self.connection.tell(&Ask::Ring).unwrap();
        }
        is_waited_for
    }
}

pub fn group() -> Group {
    Group::new(["n0", "n1", "n2", "n3"].map(|n| NodeName::new(n).unwrap()).to_vec()).unwrap()
}

pub fn flat(root: usize) -> Plan {
    Plan::single(Tree::flat(4, root).unwrap(), 32 << 10).unwrap()
}

pub fn finding(root: u16, bytes: u64, plan: Plan, median_s: f64) -> Finding {
    Finding {
        group: group(),
        root,
        bytes,
        plan,
        times: Times::of(&[median_s]).unwrap(),
        native: Times::of(&[2.0]),
        limit_s: Some(0.1),
        strategy: "random-transform".into(),
        trials: 2,
        search_s: 3.5,
        reason: None,
    }
}

pub fn target(root: u16, bytes: u64) -> Target {
    Target { group: group().hash(), root, class: SizeClass::of(bytes) }
}

pub fn trial(root: u16, bytes: u64, number: u32, best_s: f64) -> TrialRecord {
    TrialRecord {
        target: target(root, bytes),
        bytes,
        number,
        plan: flat(root.into()),
        times: Times::of(&[best_s]),
        predicted_s: None,
        best_s: Some(best_s),
        strategy: "random-transform".into(),
        search_s: f64::from(number),
        unix_s: 1e9,
    }
}

pub fn broadcast(root: u16, bytes: u64, seconds: Option<f64>) -> Broadcast {
    Broadcast {
        target: target(root, bytes),
        bytes,
        seconds,
        pause_s: None,
        quiet_s: None,
        native_s: None,
    }
}
