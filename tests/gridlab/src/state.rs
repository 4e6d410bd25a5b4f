//! Where labs leave their traces, and how they are found and cleared away, also after a forwarder
//! was killed.
//!
//! A lab's folder is `ROOT/NAME` with the record of its forwarder and the control socket; the
//! forwarder holds a lock (flock) on the folder, so a lab is up exactly while the lock is held,
//! whatever has become of process ids. Processes inside a lab are known by the mark in their root
//! directory ([`host::MARK`]), which no process outside has.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use serde::{Deserialize, Serialize};

use crate::host::{self, Host};
use crate::scheduling;
use crate::topology::Topology;

/// How long processes are given to vanish after SIGKILL.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Why a lab can't be made, found or cleared.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(
        "a lab `{0}` is up already: choose another name with --name, or run `gridlab down {0}`"
    )]
    Exists(String),
    #[error("there is no lab `{0}`; `gridlab list` shows what there is")]
    Unknown(String),
    #[error("no lab is up: start one with `gridlab up FILE`")]
    NoLab,
    #[error("several labs are up ({0}): name one with --lab, or set GRIDLAB_LAB")]
    SeveralLabs(String),
    #[error("the forwarder of lab `{0}` is gone: clear the rest away with `gridlab down {0}`")]
    Dead(String),
    #[error("lab `{0}` is still coming up: `gridlab up` says when it is")]
    Rising(String),
    #[error("`{0}` is no name for a lab: use up to 32 letters, digits, hyphens and underscores")]
    BadName(String),
    #[error("lab `{lab}` has no node `{node}`; its nodes are {nodes}")]
    NoNode { lab: String, node: String, nodes: String },
    #[error("processes of lab `{0}` don't go away: {1:?}")]
    Immortal(String, Vec<u32>),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

fn io_error<E: Into<io::Error>>(path: &Path) -> impl Fn(E) -> StateError {
    let path = path.to_owned();
    move |source| StateError::Io { path: path.clone(), source: source.into() }
}

/// What a forwarder writes down so that others can enter its hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub pid: u32,
    /// The congestion control of the hosts' TCP.
    pub tcp: String,
    pub hosts: Vec<HostRecord>,
}

/// The forwarder's descriptors of a host's namespaces, to be opened as `/proc/PID/fd/N`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostRecord {
    pub node: String,
    pub net_fd: i32,
    pub uts_fd: i32,
    pub mnt_fd: i32,
}

impl Record {
    pub fn new(dir: &LabDir, topology: &Topology, hosts: &[Host]) -> Self {
        let tcp = hosts.first().map(|host| host.tcp.clone()).unwrap_or_default();
        let hosts = topology.nodes.iter().zip(hosts).map(|(node, host)| HostRecord {
            node: node.name.clone(),
            net_fd: host.net.as_raw_fd(),
            uts_fd: host.uts.as_raw_fd(),
            mnt_fd: host.mnt.as_raw_fd(),
        });
        Self { name: dir.name.clone(), pid: std::process::id(), tcp, hosts: hosts.collect() }
    }

    /// Reads the record of a lab that is up.
    pub fn of(name: &str) -> Result<Self, StateError> {
        check_name(name)?;
        let dir = root().join(name);
        if !dir.is_dir() {
            return Err(StateError::Unknown(name.to_owned()));
        }
        if !is_locked(&dir)? {
            return Err(StateError::Dead(name.to_owned()));
        }
        let path = dir.join("record.json");
        let text = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(StateError::Rising(name.to_owned()));
            }
            read => read.map_err(io_error(&path))?,
        };
        serde_json::from_slice(&text).map_err(|e| io_error(&path)(io::Error::other(e)))
    }

    pub fn host(&self, node: &str) -> Result<&HostRecord, StateError> {
        self.hosts.iter().find(|h| h.node == node).ok_or_else(|| StateError::NoNode {
            lab: self.name.clone(),
            node: node.to_owned(),
            nodes: self.hosts.iter().map(|h| h.node.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}

/// The folder of all labs' state: `/run/gridlab` for root, else `$XDG_RUNTIME_DIR/gridlab`, else a
/// folder under /tmp. `GRIDLAB_STATE` overrides it (and is how it is found inside a user namespace).
pub fn root() -> PathBuf {
    if let Some(path) = std::env::var_os("GRIDLAB_STATE") {
        return PathBuf::from(path);
    }
    let uid = rustix::process::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        _ if uid.is_root() => PathBuf::from("/run/gridlab"),
        Some(path) => Path::new(&path).join("gridlab"),
        None => PathBuf::from(format!("/tmp/gridlab-{}", uid.as_raw())),
    }
}

/// The control socket of a lab.
pub fn socket(name: &str) -> PathBuf {
    root().join(name).join("control")
}

fn check_name(name: &str) -> Result<(), StateError> {
    let good = (1..=32).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && !name.starts_with('-');
    if good { Ok(()) } else { Err(StateError::BadName(name.to_owned())) }
}

fn open_dir(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn is_locked(dir: &Path) -> Result<bool, StateError> {
    let fd = open_dir(dir).map_err(io_error(dir))?;
    Ok(rustix::fs::flock(&fd, FlockOperation::NonBlockingLockShared).is_err())
}

/// The folder of a lab that is up, held by its forwarder.
pub struct LabDir {
    name: String,
    root: PathBuf,
    _lock: OwnedFd,
}

impl LabDir {
    /// Makes and locks the folder of a new lab; what a killed lab of that name left is cleared away.
    pub fn create(name: &str) -> Result<Self, StateError> {
        check_name(name)?;
        let root = root();
        fs::create_dir_all(&root).map_err(io_error(&root))?;
        let gate = open_dir(&root).map_err(io_error(&root))?;
        rustix::fs::flock(&gate, FlockOperation::LockExclusive).map_err(io_error(&root))?;
        let dir = root.join(name);
        if dir.is_dir() {
            if is_locked(&dir)? {
                return Err(StateError::Exists(name.to_owned()));
            }
            clear_leftovers(name)?;
        }
        // Another lab's end may have removed the root in the meantime.
        fs::create_dir_all(&dir).map_err(io_error(&dir))?;
        let lock = open_dir(&dir).map_err(io_error(&dir))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(io_error(&dir))?;
        Ok(Self { name: name.to_owned(), root, _lock: lock })
    }

    /// What every host's [`host::MARK`] holds: which lab, of which folder of labs.
    pub fn mark(&self) -> String {
        format!("{}\n{}", self.name, self.root.display())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn socket(&self) -> PathBuf {
        socket(&self.name)
    }

    /// Writes the forwarder's record, after which the hosts can be entered.
    pub fn write(&self, record: &Record) -> Result<(), StateError> {
        let path = self.root.join(&self.name).join("record.json");
        let text = serde_json::to_vec(record).map_err(|e| io_error(&path)(io::Error::other(e)))?;
        // Whole at once: others may be looking for it.
        let half = path.with_extension("new");
        fs::write(&half, text).map_err(io_error(&half))?;
        fs::rename(&half, &path).map_err(io_error(&path))
    }

    /// Ends the processes inside the lab and removes its folder.
    pub fn clear(&self) -> Result<(), StateError> {
        clear_leftovers(&self.name)
    }
}

/// A lab that is up or left something behind.
#[derive(Debug, Clone, Serialize)]
pub struct Trace {
    pub name: String,
    /// Whether its forwarder lives.
    pub up: bool,
    /// Its folder, where there is one.
    pub folder: Option<PathBuf>,
    /// The congestion control of its hosts' TCP, of a lab that is up.
    pub tcp: Option<String>,
    /// Processes inside its hosts.
    pub processes: Vec<Process>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Process {
    pub pid: u32,
    pub command: String,
}

/// The name of the lab a process runs in, among the labs of this user's folder.
fn lab_of(pid: u32) -> Option<String> {
    let mark = fs::read_to_string(format!("/proc/{pid}/root{}", host::MARK)).ok()?;
    let (name, root_of_lab) = mark.split_once('\n')?;
    (Path::new(root_of_lab) == root()).then(|| name.to_owned())
}

fn process_ids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// All labs: those that are up, and those of which a folder or a process is left.
pub fn traces() -> Vec<Trace> {
    let root = root();
    let mut traces: Vec<Trace> = Vec::new();
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str() {
            let up = is_locked(&entry.path()).unwrap_or(false);
            let folder = Some(entry.path());
            let tcp = Record::of(name).ok().map(|record| record.tcp);
            traces.push(Trace { name: name.to_owned(), up, folder, tcp, processes: Vec::new() });
        }
    }
    for pid in process_ids() {
        if pid == std::process::id() {
            continue;
        }
        let Some(name) = lab_of(pid) else { continue };
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let process = Process { pid, command: command.trim().to_owned() };
        match traces.iter_mut().find(|t| t.name == name) {
            Some(trace) => trace.processes.push(process),
            None => {
                let processes = vec![process];
                traces.push(Trace { name, up: false, folder: None, tcp: None, processes });
            }
        }
    }
    traces.sort_by(|a, b| a.name.cmp(&b.name));
    traces
}

/// The lab that a command without a name means: `GRIDLAB_LAB`, else the only one that is up.
pub fn only_lab() -> Result<String, StateError> {
    if let Ok(name) = std::env::var("GRIDLAB_LAB") {
        return Ok(name);
    }
    let up: Vec<String> = traces().into_iter().filter(|t| t.up).map(|t| t.name).collect();
    match up.as_slice() {
        [] => Err(StateError::NoLab),
        [one] => Ok(one.clone()),
        several => Err(StateError::SeveralLabs(several.join(", "))),
    }
}

/// Ends the processes for which `is_meant` says so, except the calling one, with SIGKILL, and waits
/// until they are gone. The names are looked at again once the process can't be mistaken any more.
pub fn kill_processes(name: &str, is_meant: impl Fn(u32) -> bool) -> Result<(), StateError> {
    let deadline = Instant::now() + KILL_PATIENCE;
    loop {
        let mut left = Vec::new();
        for pid in process_ids() {
            if pid == std::process::id() || !is_meant(pid) {
                continue;
            }
            let Some(handle) = Pid::from_raw(pid as i32) else { continue };
            let Ok(fd) = rustix::process::pidfd_open(handle, PidfdFlags::empty()) else { continue };
            if is_meant(pid) {
                let _ = rustix::process::pidfd_send_signal(&fd, Signal::KILL);
                left.push(pid);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(StateError::Immortal(name.to_owned(), left));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends a lab's processes and removes its folder, whether or not its forwarder still lives.
pub fn clear_leftovers(name: &str) -> Result<(), StateError> {
    kill_processes(name, |pid| lab_of(pid).as_deref() == Some(name))?;
    scheduling::clear();
    let root = root();
    let dir = root.join(name);
    match fs::remove_dir_all(&dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_error(&dir)(e)),
        _ => {}
    }
    // Fails while other labs are there, and is meant to.
    let _ = fs::remove_dir(&root);
    Ok(())
}

/// Whether a lab's forwarder lives.
pub fn is_up(name: &str) -> bool {
    is_locked(&root().join(name)).unwrap_or(false)
}

/// The process id of a lab's forwarder, as it wrote it down.
pub fn forwarder_pid(name: &str) -> Option<u32> {
    let text = fs::read(root().join(name).join("record.json")).ok()?;
    serde_json::from_slice::<Record>(&text).ok().map(|record| record.pid)
}
