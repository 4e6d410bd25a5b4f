//! What the tests of the measurement programs share: running them on a lab with a watchdog, and believing a run only when the lab says that it kept up.

#![allow(dead_code, reason = "each test file uses its own part of this module")]

use gridlab::{Lab, Limits, Mpi, Options, Topology, Verdict};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// Runs that may be rejected as disturbed before a test gives up.
const ATTEMPTS: usize = 4;

/// One measurement at a time: the tests of a file would disturb each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program built with this test.
pub fn program(name: &str) -> PathBuf {
    arborcast_tests::program(name, Mpi::OpenMpi)
}

/// Three hosts at three sites; latencies and rates of the three links all differ.
pub const THREE_HOSTS: &str = r#"
site = [
    { name = "a", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "b", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "c", nodes = 1, node_rate = "1gbit", latency = "100us" },
]
link = [
    { between = ["a", "b"], latency = "10ms", rate = "60mbit" },
    { between = ["a", "c"], latency = "20ms", rate = "30mbit" },
    { between = ["b", "c"], latency = "5ms", rate = "80mbit" },
]
"#;

pub fn lab(topology: &str) -> Lab {
    let topology = Topology::parse(topology).expect("the test's topology is valid");
    Lab::up(topology, Options::default()).expect("a lab needs root and TUN devices")
}

/// Runs a program on the first `processes` hosts of the lab; it must succeed.
pub fn run(lab: &Lab, processes: usize, name: &str, arguments: &str) -> Output {
    let output = attempt(lab, processes, name, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments}: {}\n{text}", output.status);
    output
}

/// As [`run`], however it ends.
pub fn attempt(lab: &Lab, processes: usize, name: &str, arguments: &str) -> Output {
    let path = program(name);
    let mut words: Vec<&OsStr> = vec![path.as_os_str()];
    words.extend(arguments.split_whitespace().map(OsStr::new));
    let command = lab.mpirun(Mpi::OpenMpi, Some(processes), 1, &[], &words).expect("mpirun");
    ended(command, &format!("{name} {arguments}"))
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

/// Result of `measure`, repeated while the lab or `measure` itself says that the machine was busy.
pub fn believed<T>(lab: &Lab, mut measure: impl FnMut() -> Result<T, String>) -> T {
    for attempt in 1..=ATTEMPTS {
        let mark = lab.mark().expect("the lab answers");
        let result = measure();
        let quality = lab.quality_since(&mark).expect("the lab answers");
        match (quality.verdict(&Limits::default()), result) {
            (Verdict::Good, Ok(result)) => return result,
            (Verdict::Rejected(reason), _) | (_, Err(reason)) => {
                eprintln!("attempt {attempt} rejected: {reason}");
            }
        }
    }
    panic!("the machine was too busy in {ATTEMPTS} attempts; run this test alone");
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

/// `measured` within `part` of `truth`.
#[track_caller]
pub fn assert_within(part: f64, measured: f64, truth: f64, what: &str) {
    let off = (measured - truth).abs() / truth;
    assert!(off <= part, "{what}: measured {measured}, true {truth}, {:.1} % off", off * 100.0);
    eprintln!("{what}: measured {measured:.6}, true {truth:.6}, {:.2} % off", off * 100.0);
}

pub fn json_of(path: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("the program has written it");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
