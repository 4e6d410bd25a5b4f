//! What the lab tests share: one lab at a time, and what is measured on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gridlab::probe::{Ping, Stream};
use gridlab::{Hosts, Lab, Options, Topology};

/// Lets one test at a time measure, also under `cargo test`, which runs tests in threads and knows
/// nothing of nextest's groups.
pub struct Alone(#[allow(dead_code, reason = "held, not read")] File);

impl Alone {
    pub fn wait() -> Self {
        let path = std::env::temp_dir().join("gridlab-tests.lock");
        let file = File::create(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        file.lock().unwrap();
        Self(file)
    }
}

pub fn gridlab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gridlab"))
}

pub fn grid_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("grids").join(name)
}

/// A grid of the ready-made ones, with hosts that fill its paths.
pub fn grid(name: &str) -> Topology {
    let grid = Topology::load(grid_file(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    Topology { hosts: Hosts::tuned(), ..grid }
}

/// A lab with a name of this test's own.
pub fn up(topology: Topology, name: &str) -> Lab {
    up_with(None, topology, name)
}

/// As [`up`], with a congestion control.
pub fn up_with(tcp: Option<String>, topology: Topology, name: &str) -> Lab {
    let name = format!("test-{name}-{}", std::process::id());
    Lab::up(topology, Options { name: Some(name), seed: 7, tcp }).unwrap_or_else(|e| panic!("{e}"))
}

pub fn ping(lab: &Lab, from: &str, to: &str, count: usize) -> Ping {
    let mut command = gridlab();
    command.args(["--lab", lab.name(), "ping", from, to, "--json", "-c", &count.to_string()]);
    serde_json::from_slice(&finish(command.stdout(Stdio::piped()).spawn().unwrap(), 60).stdout)
        .unwrap()
}

/// Starts a TCP stream; [`finish_stream`] waits for its figures.
pub fn start_stream(lab: &Lab, from: &str, to: &str, seconds: f64) -> Child {
    let mut command = gridlab();
    command.args(["--lab", lab.name(), "stream", from, to, "--json"]);
    command.args(["--seconds", &seconds.to_string()]).stdout(Stdio::piped()).spawn().unwrap()
}

pub fn finish_stream(child: Child) -> Stream {
    serde_json::from_slice(&finish(child, 120).stdout).unwrap()
}

/// Waits for a child and its output, at most `seconds`.
pub fn finish(child: Child, seconds: u64) -> Output {
    let output = finish_any(child, seconds);
    assert!(output.status.success(), "ended with {}: {output:?}", output.status);
    output
}

/// Waits for a child and its output, however it ends, at most `seconds`.
pub fn finish_any(mut child: Child, seconds: u64) -> Output {
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let reader = std::thread::spawn(move || {
        let read = |from: Option<&mut dyn std::io::Read>| {
            let mut bytes = Vec::new();
            from.map(|f| f.read_to_end(&mut bytes));
            bytes
        };
        let (mut stdout, mut stderr) = (stdout, stderr);
        let error = std::thread::spawn(move || read(stderr.as_mut().map(|s| s as _)));
        let text = read(stdout.as_mut().map(|s| s as _));
        let _ = sender.send(());
        (text, error.join().unwrap())
    });
    let _ = receiver.recv_timeout(Duration::from_secs(seconds));
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let (stdout, stderr) = reader.join().unwrap();
            return Output { status, stdout, stderr };
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("process {pid} was still running after {seconds} s and more");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
