//! Nothing stays behind: not after a killed forwarder, not after an interrupted MPI run. These tests
//! keep their labs in a folder of their own, so that they may clear away all labs in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::*;

/// `gridlab` on labs in `root`; fails the test where it fails.
fn done(root: &Path, arguments: &[&str]) -> String {
    let mut command = in_root(root, arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    String::from_utf8(finish(child, 60).stdout).unwrap()
}

fn in_root(root: &Path, arguments: &[&str]) -> Command {
    let mut command = gridlab();
    command.args(arguments).env("GRIDLAB_STATE", root).env_remove("GRIDLAB_LAB");
    command
}

fn list(root: &Path) -> Vec<Value> {
    serde_json::from_str(&done(root, &["list", "--json"])).unwrap()
}

fn forwarder(root: &Path, name: &str) -> u64 {
    let status: Value = serde_json::from_str(&done(root, &["status", name, "--json"])).unwrap();
    status["pid"].as_u64().unwrap()
}

fn kill(pid: u64, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Waits until `holds`, at most 20 s.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited 20 s until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The namespaces in which processes run, and this process's mounts.
fn world() -> (BTreeSet<String>, String) {
    let mut namespaces = BTreeSet::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        for kind in ["net", "uts", "mnt", "user"] {
            let link = fs::read_link(process.path().join("ns").join(kind));
            namespaces.extend(link.map(|l| l.display().to_string()));
        }
    }
    (namespaces, fs::read_to_string("/proc/self/mountinfo").unwrap())
}

fn assert_nothing_new(before: &(BTreeSet<String>, String)) {
    wait_until("the lab's namespaces are gone", || world().0.is_subset(&before.0));
    assert_eq!(world().1, before.1, "mounts");
}

#[test]
fn a_killed_lab_is_named_and_cleared_away() {
    let _alone = Alone::wait();
    let before = world();
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("labs");
    let mesh = grid_file("mesh.toml");
    let mesh = mesh.to_str().unwrap();

    done(root, &["up", mesh, "--name", "killed"]);
    let run = ["mpirun", "killed", "--mpi", "openmpi", "--", "sleep", "1000"];
    let mut run = in_root(root, &run).stderr(Stdio::null()).spawn().unwrap();
    let processes = |root: &Path| list(root)[0]["processes"].as_array().unwrap().clone();
    wait_until("sixteen programs run", || {
        processes(root).iter().filter(|p| p["command"] == "sleep").count() == 16
    });
    kill(forwarder(root, "killed"), "-KILL");
    wait_until("the lab counts as left behind", || list(root)[0]["up"] == false);
    assert_eq!(list(root)[0]["name"], "killed");
    assert!(!processes(root).is_empty(), "the processes inside are named");

    // The next lab of that name stands on cleared ground.
    done(root, &["up", mesh, "--name", "killed"]);
    assert_eq!(list(root).len(), 1);
    assert_eq!(list(root)[0]["up"], true);
    assert!(processes(root).is_empty(), "{:?}", processes(root));
    done(root, &["--lab", "killed", "ping", "a1", "d4"]);
    run.wait().unwrap();

    let mut inside = in_root(root, &["exec", "b2", "--", "sleep", "1000"]).spawn().unwrap();
    wait_until("a program runs", || !processes(root).is_empty());
    kill(forwarder(root, "killed"), "-KILL");
    wait_until("the lab counts as left behind", || list(root)[0]["up"] == false);
    done(root, &["down", "--all"]);
    inside.wait().unwrap();
    assert!(list(root).is_empty());
    assert!(!root.exists(), "the folder of labs is removed with the last one");
    assert_nothing_new(&before);
}

#[test]
fn a_lab_taken_down_leaves_nothing() {
    let _alone = Alone::wait();
    let before = world();
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("labs");
    done(root, &["up", grid_file("two-sites.toml").to_str().unwrap()]);
    done(root, &["up", grid_file("even.toml").to_str().unwrap()]);
    assert_eq!(list(root).len(), 2, "labs stand side by side");
    done(root, &["down", "two-sites"]);
    // A forwarder that is asked to end by a signal clears up as well.
    kill(forwarder(root, "even"), "-TERM");
    wait_until("the folder of labs is gone", || !root.exists());
    assert_nothing_new(&before);
}

/// The environment variable that makes [`be_an_owner_for_another_test`] one.
const OWNED: &str = "GRIDLAB_TEST_OWNED";

#[test]
fn a_lab_ends_with_the_process_that_has_it() {
    let _alone = Alone::wait();
    let before = world();
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("labs");
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leftovers::be_an_owner_for_another_test", "--nocapture"])
        .env(OWNED, grid_file("even.toml"))
        .env("GRIDLAB_STATE", root)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_up = || in_root(root, &["status"]).output().unwrap().status.success();
    wait_until("the lab is up", is_up);
    let mut inside = in_root(root, &["exec", "e1", "--", "sleep", "1000"]).spawn().unwrap();
    let processes = || list(root)[0]["processes"].as_array().unwrap().clone();
    wait_until("a program runs in it", || !processes().is_empty());
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until("the lab is gone", || !root.exists());
    assert!(!inside.wait().unwrap().success(), "what ran in it is killed");
    assert_nothing_new(&before);
}

#[test]
fn be_an_owner_for_another_test() {
    let Some(grid) = std::env::var_os(OWNED) else { return };
    let _lab = gridlab::Lab::up_file(grid, gridlab::lab::Options::default()).unwrap();
    // Until it is killed.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn an_interrupted_mpi_run_takes_its_processes_along() {
    let _alone = Alone::wait();
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("labs");
    done(root, &["up", grid_file("mesh.toml").to_str().unwrap()]);
    for mpi in ["openmpi", "mpich"] {
        for signal in ["-INT", "-TERM"] {
            let run = ["mpirun", "--mpi", mpi, "--", "sleep", "1000"];
            let mut command = in_root(root, &run);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let run = command.spawn().unwrap();
            let processes = || list(root)[0]["processes"].as_array().unwrap().clone();
            wait_until("sixteen programs run", || {
                processes().iter().filter(|p| p["command"] == "sleep").count() == 16
            });
            kill(run.id().into(), signal);
            let ended = finish_any(run, 20);
            assert!(!ended.status.success(), "{mpi} {signal}: {}", ended.status);
            assert!(processes().is_empty(), "{mpi} {signal}: {:?}", processes());
        }
    }
    done(root, &["down", "--all"]);
}

#[test]
fn a_lab_keeps_no_descriptor_of_who_brought_it_up() {
    let _alone = Alone::wait();
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("labs");
    // A pipe as a shell's `9>&1 | cat` leaves it: whoever reads it waits until all writers are gone.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let script = format!(
        "exec 9>&1; exec {} up {} --name kept",
        env!("CARGO_BIN_EXE_gridlab"),
        grid_file("two-sites.toml").display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("GRIDLAB_STATE", root).env_remove("GRIDLAB_LAB");
    let child = command.stdout(writer).spawn().unwrap();
    // The command's own end of the pipe goes with it.
    drop(command);
    finish(child, 60);
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut reader, &mut text);
        let _ = sender.send(text);
    });
    let read = ended.recv_timeout(Duration::from_secs(10));
    let is_up = list(root)[0]["up"] == true;
    done(root, &["down", "kept"]);
    assert!(is_up, "the pipe is to end while the lab is up");
    assert!(read.expect("the lab holds the pipe open").contains("kept is up"));
}
