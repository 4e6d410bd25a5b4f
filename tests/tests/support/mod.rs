//! What the end-to-end tests share: a small grid, planted plans, and the processes on it.
#![allow(dead_code)] // each test program uses a part of it

use arborcast_tests::{Background, Grid, Run, compile_c, compile_library, program};
use gridlab::mpi::Job;
use gridlab::{Mpi, Topology};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Two sites of two nodes.
pub const FOUR_NODES: &str = r#"
    [[site]]
    name = "a"
    nodes = 2
    node_rate = "1gbit"
    latency = "100us"
    [[site]]
    name = "b"
    nodes = 2
    node_rate = "1gbit"
    latency = "100us"
    [[link]]
    between = ["a", "b"]
    latency = "1ms"
    rate = "200mbit"
"#;
/// For what a test waits for: above all that takes, so that it only ends what hangs.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Seconds of a `bcast_steady` that [`end`] ends.
pub const FOREVER: &str = "3600";

pub fn four_nodes() -> Grid {
    Grid::of(Topology::parse(FOUR_NODES).unwrap()).unwrap()
}

/// As [`four_nodes`], for programs of thousands of broadcasts, none of them timed: at a fifth of the latencies they wait
/// for processors, not for the network.
pub fn near_nodes() -> Grid {
    let near = FOUR_NODES.replace("100us", "20us").replace("1ms", "200us");
    Grid::of(Topology::parse(&near).unwrap()).unwrap()
}

/// Gives the daemon of a node plans for sizes and groups; returns how many. `source`: the seed of random ones from
/// every root, or the file of a topology for those that the planner proposes.
pub fn plant(
    grid: &Grid,
    node: &str,
    source: impl ToString,
    sizes: &str,
    groups: &[String],
) -> usize {
    let mut command = grid.lab().exec(node, program("plant-plans", Mpi::OpenMpi)).unwrap();
    let output = command.arg(source.to_string()).arg(sizes).args(groups).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "planting on {node}: {said}");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

pub fn status(grid: &Grid, node: &str) -> Value {
    grid.operator_json(node, &["status"]).unwrap()
}

pub fn targets(grid: &Grid, node: &str) -> Vec<Value> {
    grid.operator_json(node, &["targets"]).unwrap().as_array().unwrap().clone()
}

/// Whether an experiment has surveyed links.
pub fn knows_links(grid: &Grid) -> bool {
    let links = grid.operator_json(&grid.nodes()[0], &["matrix"]).unwrap();
    links.as_array().is_some_and(|links| !links.is_empty())
}

/// Starts a C program on all nodes, under Arborcast.
pub fn start(grid: &Grid, name: &str, arguments: &[&str]) -> Background {
    let application = compile_c(name, Mpi::OpenMpi);
    let command = grid.application(&Run::default(), &application, arguments).unwrap();
    Background::start(command, name).unwrap()
}

/// Runs a line of shell on a node.
pub fn shell(grid: &Grid, node: &str, line: &str) {
    let mut command = grid.lab().exec(node, "sh").unwrap();
    let output = command.args(["-ec", line]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{node}: {line}: {said}");
}

/// What a program has said by its end, which must be a good one.
pub fn finish(mut running: Background, mut said: Vec<String>) -> Vec<String> {
    let status = running.wait(LIMIT);
    // The readers of its streams may still have something.
    std::thread::sleep(Duration::from_millis(100));
    said.extend(running.lines());
    assert!(status.success(), "{status}:\n{}", said.join("\n"));
    said
}

/// As [`finish`], of the only `bcast_steady` on the grid, which has shown what it was started for.
pub fn end(grid: &Grid, steady: Background, said: Vec<String>) -> Vec<String> {
    signal(&processes(grid, &compile_c("bcast_steady.c", Mpi::OpenMpi)), libc::SIGUSR1);
    finish(steady, said)
}

pub fn wait_until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < LIMIT, "waited for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lines of a report, and the broadcasts that trees carried, as each rank has counted them.
pub fn carried_by_trees(report: &Path) -> (usize, u64) {
    let text = std::fs::read_to_string(report).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let broadcasts = lines.iter().flat_map(|line| line["broadcasts"].as_array().unwrap());
    let along_trees = broadcasts.filter(|row| row["carried_by"] == "trees");
    (lines.len(), along_trees.map(|row| row["number"].as_u64().unwrap()).sum())
}

/// The command with which a daemon starts the experiment on all nodes.
pub fn launch(grid: &Grid) -> String {
    launch_with(grid, Vec::new())
}

/// As [`launch`], with more variables in its environment.
pub fn launch_with(grid: &Grid, env: Vec<(OsString, OsString)>) -> String {
    let program = vec![program("arborcast-experiment", Mpi::OpenMpi).into()];
    let job = Job { n: None, ppn: 1, env, program };
    let launch = Mpi::OpenMpi.launch(grid.lab().topology(), &job).unwrap();
    let quoted = |word: &OsStr| format!("'{}'", word.to_str().unwrap());
    let variables = launch
        .env
        .iter()
        .map(|(key, value)| format!("{}={}", key.to_str().unwrap(), quoted(value)));
    let words = launch.command.iter().map(|word| quoted(word));
    format!("exec env {}", variables.chain(words).collect::<Vec<_>>().join(" "))
}

/// Daemons that are started on this grid from now on see a wall clock of their node that [`set_clock`] sets.
/// Gives the variable with which other programs do.
pub fn with_own_clocks(grid: &mut Grid) -> (OsString, OsString) {
    let library = compile_library("clock_offset.c", Mpi::OpenMpi);
    grid.set_daemon_env("LD_PRELOAD", &library);
    ("LD_PRELOAD".into(), library.into())
}

/// How far the wall clock of a node is off.
pub fn set_clock(grid: &Grid, node: &str, offset_s: i64) {
    // In one step: nobody reads a part.
    let line = format!("echo {offset_s} > /run/clock-new; mv /run/clock-new /run/clock-offset");
    shell(grid, node, &line);
}

/// A lab's processes find its name here.
fn is_of_lab(pid: u32, lab: &str) -> bool {
    let mark = std::fs::read_to_string(format!("/proc/{pid}/root/run/gridlab.lab"));
    mark.is_ok_and(|mark| mark.lines().next() == Some(lab))
}

/// The processes of a program of this build on a grid.
pub fn processes(grid: &Grid, program: &Path) -> Vec<u32> {
    let program = program.canonicalize().unwrap().into_os_string().into_string().unwrap();
    let numbers = std::fs::read_dir("/proc").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let runs = |pid: &u32| {
        let exe: Option<PathBuf> = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        // A test program that was compiled again since has another file in its place.
        let is_program = |exe: &str| exe.strip_suffix(" (deleted)").unwrap_or(exe) == program;
        exe.is_some_and(|exe| exe.to_str().is_some_and(is_program))
            && is_of_lab(*pid, grid.lab().name())
    };
    numbers.filter(runs).collect()
}

/// SIGKILL to all that runs on a node, until nothing does.
fn kill_all_on(grid: &Grid, node: &str) {
    let mut readlink = grid.lab().exec(node, "readlink").unwrap();
    let output = readlink.arg("/proc/self/ns/net").output().unwrap();
    let network = String::from_utf8(output.stdout).unwrap();
    let is_here = |pid| {
        let its = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        its.is_ok_and(|its| its == Path::new(network.trim()))
    };
    gridlab::state::kill_processes(grid.lab().name(), is_here).unwrap();
}

/// A host dies: all its processes, and then it sends nothing. [`start_host`] brings it back.
pub fn kill_host(grid: &Grid, node: &str) {
    kill_all_on(grid, node);
    // What the kernel still sends of connections that were open.
    std::thread::sleep(Duration::from_millis(100));
    shell(grid, node, "ip rule add pref 1 unreachable");
}

/// The host has its network again, and nothing in memory of what it was.
pub fn start_host(grid: &Grid, node: &str) {
    kill_all_on(grid, node);
    shell(grid, node, "find /dev/shm -type f -delete; rm -rf /run/ompi.* /run/vader_segment.*");
    shell(grid, node, "rm -f /run/arborcast/arborcastd.sock*; ip rule del pref 1");
}

pub fn experiment_ranks(grid: &Grid) -> Vec<u32> {
    processes(grid, &program("arborcast-experiment", Mpi::OpenMpi))
}

pub fn signal(pids: &[u32], signal: i32) {
    for &pid in pids {
        // SAFETY: kill(2) touches no memory.
        assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "signalling {pid}");
    }
}

/// One size of each class up to 2 MiB and one above 2 GiB, as `plant-plans` takes them.
fn sizes_of_all_classes() -> String {
    let classes = (0..12).chain([22]);
    classes.map(|class| (1024u64 << class).to_string()).collect::<Vec<_>>().join(",")
}

/// Every group of two or more of the nodes, as `plant-plans` takes it.
pub fn all_groups(nodes: &[String]) -> Vec<String> {
    let members = |set: u32| (0..nodes.len()).filter(move |node| set & 1 << node != 0);
    let sets = (0..1 << nodes.len()).filter(|set: &u32| set.count_ones() >= 2);
    sets.map(|set| members(set).map(|i| &*nodes[i]).collect::<Vec<_>>().join(",")).collect()
}

/// Four nodes as in [`plant_for_every_group`].
pub fn planted_for_every_group(seed: u64) -> Grid {
    plant_for_every_group(near_nodes(), seed)
}

/// Starts daemons that know random plans, each its own, for every group of two or more of the nodes.
pub fn plant_for_every_group(mut grid: Grid, seed: u64) -> Grid {
    println!("seed {seed}");
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let groups = all_groups(&nodes);
    for (number, node) in (0..).zip(&nodes) {
        assert!(plant(&grid, node, seed + number, &sizes_of_all_classes(), &groups) > 0);
    }
    grid
}
