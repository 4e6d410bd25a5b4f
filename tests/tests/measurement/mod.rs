//! What the tests of the measurement programs share: running them on a lab with a watchdog, and
//! believing a run only when the lab says that it kept up.

#![allow(dead_code, reason = "each test file uses its own part of this module")]

use gridlab::{Lab, Limits, Mpi, Options, Topology};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// One measurement at a time: the tests of a file would disturb each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program built with this test.
pub fn program(name: &str) -> PathBuf {
    arborcast_tests::program(name, Mpi::OpenMpi)
}

/// A program of this build on this host alone, without a lab.
pub fn mpirun(processes: usize, name: &str) -> Command {
    let mut command = Command::new("mpirun.openmpi");
    command.args(["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
    // One that fails is over at once: nothing is left that would need a second from SIGTERM to SIGKILL.
    command.args(["--mca", "odls_base_sigkill_timeout", "0"]);
    command.args(["-n", &processes.to_string()]).arg(program(name));
    command
}

/// Three hosts at three sites; latencies and rates of the three links all differ. The queues hold any
/// message of the tests: TCP that does not pace, as CUBIC, sends one that fits its window at the rate of
/// the sender's interface, and of one whose end is dropped the time is that of TCP's recovery.
pub const THREE_HOSTS: &str = r#"
hosts = { tcp = "tuned", mtu = 9000 }
site = [
    { name = "a", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "b", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "c", nodes = 1, node_rate = "1gbit", latency = "100us" },
]
link = [
    { between = ["a", "b"], latency = "20ms", rate = "60mbit", queue = "2500kB" },
    { between = ["a", "c"], latency = "40ms", rate = "30mbit", queue = "2500kB" },
    { between = ["b", "c"], latency = "12ms", rate = "80mbit", queue = "2500kB" },
]
"#;

pub fn lab(topology: &str) -> Lab {
    lab_with(None, topology)
}

/// As [`lab`], with a congestion control.
pub fn lab_with(tcp: Option<String>, topology: &str) -> Lab {
    let topology = Topology::parse(topology).expect("the test's topology is valid");
    let options = Options { tcp, ..Options::default() };
    Lab::up(topology, options).expect("a lab needs root and TUN devices")
}

/// Runs a program on the first `processes` hosts of the lab; it must succeed.
pub fn run(lab: &Lab, processes: usize, name: &str, arguments: &str) -> Output {
    run_with(Mpi::OpenMpi, lab, processes, name, arguments)
}

/// As [`run`], built for an MPI and started by it.
pub fn run_with(mpi: Mpi, lab: &Lab, processes: usize, name: &str, arguments: &str) -> Output {
    finished(command(mpi, lab, processes, name, arguments), &format!("{name} {arguments}"))
}

/// As [`run`], however it ends.
pub fn attempt(lab: &Lab, processes: usize, name: &str, arguments: &str) -> Output {
    let command = command(Mpi::OpenMpi, lab, processes, name, arguments);
    ended(command, &format!("{name} {arguments}"))
}

fn command(mpi: Mpi, lab: &Lab, processes: usize, name: &str, arguments: &str) -> Command {
    let path = arborcast_tests::program(name, mpi);
    let mut words: Vec<&OsStr> = vec![path.as_os_str()];
    words.extend(arguments.split_whitespace().map(OsStr::new));
    lab.mpirun(mpi, Some(processes), 1, &[], &words).expect("mpirun")
}

/// Output of a command that must succeed.
pub fn finished(command: Command, what: &str) -> Output {
    let output = ended(command, what);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{text}", output.status);
    output
}

/// Output of a command, however it ends.
pub fn ended(mut command: Command, what: &str) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{what}: {error}"));
    let id = child.id().to_string();
    let (done, waited) = std::sync::mpsc::channel::<()>();
    let watched = what.to_owned();
    let watchdog = std::thread::spawn(move || {
        if waited.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("waited {PATIENCE:?} for: {watched}");
            let _ = Command::new("kill").arg(&id).status();
        }
    });
    let output = child.wait_with_output().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(done);
    watchdog.join().expect("the watchdog does not panic");
    output
}

/// See [`Lab::believed`].
pub fn believed<T>(
    lab: &Lab,
    measure: impl FnMut() -> T,
    check: impl Fn(&T) -> Result<(), String>,
) -> Option<T> {
    lab.believed(&Limits::default(), measure, check)
}

/// Waits until `found` gives something.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// As [`near`](gridlab::quality::near), and says it.
pub fn near(what: &str, measured: f64, truth: f64, share: f64) -> Result<(), String> {
    let off = 100.0 * (measured / truth - 1.0);
    eprintln!("{what}: measured {measured:.6}, true {truth:.6}, {off:.2} % off");
    gridlab::quality::near(what, measured, truth, share)
}

/// Fails a check with what was found.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

pub fn json_of(path: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("the program has written it");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
