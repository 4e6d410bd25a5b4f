//! A lab as other programs use it: bring it up, run commands on its nodes, change its links, and ask
//! whether it was good enough while something was measured. Dropping a [`Lab`] takes it down, and so does the end of
//! the process that has it, whatever ends that.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::control::{Reply, Request, Status, ask};
use crate::forwarder::{KEEP, Order};
use crate::mpi::{Job, Mpi, MpiError};
use crate::state::{self, StateError};
use crate::sys;
use crate::topology::{LinkChange, Topology, TopologyError};

/// How long a lab may take to come up.
const UP_PATIENCE: Duration = Duration::from_secs(60);

/// Why something could not be done with a lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Mpi(#[from] MpiError),
    #[error("the lab did not come up: {0}")]
    Up(String),
    #[error("the lab refused: {0}")]
    Refused(String),
    #[error(
        "the program `gridlab` was not found next to {0} nor on PATH: build it with `cargo build -p gridlab`, or set GRIDLAB_EXE"
    )]
    NoProgram(PathBuf),
    #[error("{step}: {source}")]
    Io { step: String, source: io::Error },
}

fn io_error(step: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
    let step = step.into();
    move |source| LabError::Io { step, source }
}

/// How a lab is brought up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `None`: a name of its own, made from the process id and a number.
    pub name: Option<String>,
    /// Seed of the links' random losses.
    pub seed: u64,
    /// The congestion control of the hosts' TCP, as `/proc/sys/net/ipv4/tcp_available_congestion_control`
    /// names it. `None`: what `GRIDLAB_TCP` names, else what the topology does.
    pub tcp: Option<String>,
}

/// A lab that is up. Nodes, sites and links are those of [`Lab::topology`].
#[derive(Debug)]
pub struct Lab {
    name: String,
    topology: Topology,
    /// The standard input of the forwarder, which takes the lab down when that ends. `None` where somebody else's
    /// lab stays up.
    owned: Option<ChildStdin>,
}

impl Lab {
    /// Brings a lab up and waits until its nodes can be used.
    pub fn up(mut topology: Topology, options: Options) -> Result<Self, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let own_name = || {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            format!("lab-{}-{number}", std::process::id())
        };
        let name = options.name.unwrap_or_else(own_name);
        let tcp = options.tcp.or_else(|| std::env::var("GRIDLAB_TCP").ok());
        let tcp = tcp.filter(|tcp| !tcp.is_empty());
        topology.hosts.congestion_control = tcp.or(topology.hosts.congestion_control);
        let order = Order { name: name.clone(), topology, seed: options.seed };
        let owned = Some(start_forwarder(&order)?);
        Ok(Self { name, topology: order.topology, owned })
    }

    /// Brings up the lab of a topology file.
    pub fn up_file(path: impl AsRef<Path>, options: Options) -> Result<Self, LabError> {
        Self::up(Topology::load(path)?, options)
    }

    /// A lab that someone else has brought up; dropping it leaves it up.
    pub fn attach(name: &str) -> Result<Self, LabError> {
        state::Record::of(name)?;
        let topology = status(name)?.topology;
        Ok(Self { name: name.to_owned(), topology, owned: None })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The topology the lab came up with ([`Lab::status`] has the present one).
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The names of the nodes, in the order in which MPI ranks are placed.
    pub fn nodes(&self) -> Vec<&str> {
        self.topology.nodes.iter().map(|n| n.name.as_str()).collect()
    }

    /// A command that will run inside a node; arguments can be added as usual.
    pub fn exec(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let mut command = Command::new(program_path()?);
        command.args(["--lab", &self.name, "exec", node, "--"]).arg(program);
        Ok(command)
    }

    /// A command that starts an MPI program on the nodes and ends with it.
    ///
    /// `n` processes (`None`: all nodes times `ppn`), `ppn` on each node in order.
    pub fn mpirun(
        &self,
        mpi: Mpi,
        n: Option<usize>,
        ppn: usize,
        env: &[(&str, &str)],
        program: &[&OsStr],
    ) -> Result<Command, LabError> {
        // Says now what would be wrong later.
        let words = program.iter().map(OsString::from).collect();
        mpi.launch(&self.topology, &Job { n, ppn, env: Vec::new(), program: words })?;
        let mut command = Command::new(program_path()?);
        command.args(["--lab", &self.name, "mpirun", "--mpi", mpi.name()]);
        command.args(["--ppn", &ppn.to_string()]);
        if let Some(n) = n {
            command.args(["-n", &n.to_string()]);
        }
        for (key, value) in env {
            command.arg("--env").arg(format!("{key}={value}"));
        }
        command.arg("--").args(program);
        Ok(command)
    }

    /// Changes the link between two sites, one direction or both, from now on.
    pub fn link(
        &self,
        from: &str,
        to: &str,
        both: bool,
        change: LinkChange,
    ) -> Result<(), LabError> {
        let request = Request::Link { from: from.to_owned(), to: to.to_owned(), both, change };
        match ask_lab(&self.name, &request)? {
            Reply::Error(text) => Err(LabError::Refused(text)),
            _ => Ok(()),
        }
    }

    pub fn status(&self) -> Result<Status, LabError> {
        status(&self.name)
    }

    /// Leaves the lab up when this value is dropped and when this process ends.
    pub fn keep(mut self) -> Result<(), LabError> {
        let Some(mut forwarder) = self.owned.take() else { return Ok(()) };
        forwarder.write_all(KEEP.as_bytes()).map_err(io_error("talking to the forwarder"))
    }

    /// Takes the lab down: its processes, hosts and files.
    pub fn down(mut self) -> Result<(), LabError> {
        let _owned = self.owned.take();
        down(&self.name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned.is_some()
            && let Err(error) = down(&self.name)
        {
            eprintln!("gridlab: {}: {error}", self.name);
        }
    }
}

fn ask_lab(name: &str, request: &Request) -> Result<Reply, LabError> {
    ask(&state::socket(name), request).map_err(io_error(format!("asking lab {name}")))
}

fn status(name: &str) -> Result<Status, LabError> {
    match ask_lab(name, &Request::Status)? {
        Reply::Status(status) => Ok(*status),
        Reply::Error(text) => Err(LabError::Refused(text)),
        Reply::Done => Err(LabError::Refused("an answer to another question".to_owned())),
    }
}

/// Takes a lab down, in whatever state it is: up, half up, or left behind by a killed forwarder.
pub fn down(name: &str) -> Result<(), LabError> {
    let deadline = Instant::now() + Duration::from_secs(10);
    let asked = ask(&state::socket(name), &Request::Down);
    // A forwarder that was told to go clears away everything itself, and unlocks its folder last.
    while asked.is_ok() && state::is_up(name) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(pid) = state::forwarder_pid(name) {
        state::kill_processes(name, |p| p == pid && state::is_up(name))?;
    }
    Ok(state::clear_leftovers(name)?)
}

/// The `gridlab` program: `GRIDLAB_EXE`, else this program itself, else one in the build folders
/// around this program, else one on PATH.
pub fn program_path() -> Result<PathBuf, LabError> {
    if let Some(path) = std::env::var_os("GRIDLAB_EXE") {
        return Ok(PathBuf::from(path));
    }
    let exe = std::env::current_exe().map_err(io_error("finding my own program"))?;
    if exe.file_name().is_some_and(|name| name == "gridlab") {
        return Ok(exe);
    }
    let near = exe.ancestors().skip(1).flat_map(|folder| {
        ["gridlab", "release/gridlab", "debug/gridlab"].map(|name| folder.join(name))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates =
        near.chain(std::env::split_paths(&path).map(|folder| folder.join("gridlab")));
    candidates.find(|path| path.is_file()).ok_or(LabError::NoProgram(exe))
}

/// Starts a forwarder and waits for its word that the lab is up; gives the standard input that it lives by.
fn start_forwarder(order: &Order) -> Result<ChildStdin, LabError> {
    let program = program_path()?;
    let mut command = Command::new(&program);
    command
        .arg("forwarder")
        .env("GRIDLAB_STATE", state::root())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    sys::detach(&mut command);
    let mut child = command.spawn().map_err(io_error(program.display().to_string()))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    let stdout = child.stdout.take();
    let mut line = serde_json::to_vec(order).map_err(|e| LabError::Up(e.to_string()))?;
    line.push(b'\n');
    stdin.write_all(&line).map_err(io_error("talking to the forwarder"))?;
    let (sender, word) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if let Some(stdout) = stdout {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let _ = sender.send(line);
        // Reaps the forwarder where its starter outlives it.
        let _ = child.wait();
    });
    match word.recv_timeout(UP_PATIENCE) {
        Ok(line) if line.trim() == "up" => Ok(stdin),
        Ok(line) if line.is_empty() => Err(LabError::Up("its forwarder ended at once".to_owned())),
        Ok(line) => Err(LabError::Up(line.trim().to_owned())),
        Err(_) => {
            let _ = down(&order.name);
            Err(LabError::Up(format!("no word from its forwarder in {UP_PATIENCE:?}")))
        }
    }
}
