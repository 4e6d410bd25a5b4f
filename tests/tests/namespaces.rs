//! Programs whose processes see another machine than their node's daemon does, as containers and batch systems have
//! it, and programs of several users at once: what can be used is used, and what cannot is left with one line.

mod support;

use arborcast_tests::{Background, Grid, Run, compile_c};
use gridlab::Mpi;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::*;

const BYTES: &str = "100000";
/// `job_container/tmpfs` of Slurm, and container engines.
const OWN_SHARED_MEMORY: &str =
    "unshare --mount sh -ec 'mount -t tmpfs none /dev/shm; exec \"$@\"' -";
const OWN_PROCESSES: &str = "unshare --pid --fork --mount-proc";
const NO_SOCKET: &str =
    "unshare --mount sh -ec 'mount -t tmpfs none /run/arborcast; exec \"$@\"' -";

/// Programs on a grid whose daemons know plans for their broadcasts.
struct Scene {
    grid: Grid,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(flags: &[&str]) -> Self {
        let mut grid = four_nodes();
        grid.start_daemons(flags).unwrap();
        let nodes = grid.nodes();
        for node in &nodes {
            plant(&grid, node, 7, BYTES, &[nodes.join(",")]);
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        Scene { grid, folder }
    }

    fn report(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.json"))
    }

    /// A program that is started by way of another command, where `where_` holds, a condition of the shell.
    fn wrapped(&self, name: &str, mpi: Mpi, where_: &str, wrapper: &str) -> PathBuf {
        let program = compile_c("bcast_times.c", mpi);
        let script = self.folder.path().join(name);
        let text = format!(
            "#!/bin/sh\nif {where_}; then exec {wrapper} {program} \"$@\"; fi\nexec {program} \"$@\"\n",
            program = program.display()
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        script
    }

    fn start(&self, name: &str, mpi: Mpi, script: &Path, arguments: &[&str]) -> Background {
        let report = self.report(name);
        let env = vec![("ARBORCAST_REPORT", report.to_str().unwrap())];
        let command = self.grid.application(&Run { mpi, env, ..Run::default() }, script, arguments);
        Background::start(command.unwrap(), name).unwrap()
    }

    /// What the library said, and how many broadcasts went along trees, counted by all ranks. The program checks
    /// the bytes.
    fn run(&self, where_: &str, wrapper: &str) -> (Vec<String>, u64) {
        let script = self.wrapped("program", Mpi::OpenMpi, where_, wrapper);
        let running = self.start("program", Mpi::OpenMpi, &script, &[BYTES, "9", "0", "10"]);
        let mut said = finish(running, Vec::new());
        said.retain(|line| line.starts_with("arborcast:"));
        let report = self.report("program");
        let (ranks, along_trees) = carried_by_trees(&report);
        fs::remove_file(report).unwrap();
        assert_eq!(ranks, self.grid.nodes().len());
        println!("{where_}: {wrapper}: {along_trees} along trees, {said:?}");
        (said, along_trees)
    }
}

/// How many of nine broadcasts of four ranks: all but a first one or two that no plan was there for.
fn nearly_all(along_trees: u64) -> bool {
    (4 * 7..=4 * 9).contains(&along_trees)
}

#[test]
fn programs_with_a_dev_shm_of_their_own_broadcast_along_trees() {
    let scene = Scene::new(&[]);
    for where_ in ["true", "[ $(hostname) = a2 ]"] {
        let (said, along_trees) = scene.run(where_, OWN_SHARED_MEMORY);
        assert!(nearly_all(along_trees), "{along_trees}");
        assert_eq!(said, [""; 0]);
    }
}

#[test]
fn programs_with_process_numbers_of_their_own_broadcast_along_trees() {
    let scene = Scene::new(&[]);
    let (said, along_trees) = scene.run("true", OWN_PROCESSES);
    assert!(nearly_all(along_trees), "{along_trees}");
    assert_eq!(said, [""; 0]);
    wait_until("the daemon to see that they have ended", || {
        (status(&scene.grid, "a1")["applications"] == 0).then_some(())
    });
}

#[test]
fn programs_that_do_not_see_the_socket_are_native_and_say_so_once() {
    let scene = Scene::new(&[]);
    for where_ in ["true", "[ $(hostname) = a2 ]"] {
        let (said, along_trees) = scene.run(where_, NO_SOCKET);
        assert_eq!(along_trees, 0);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("has no daemon"), "{said:?}");
    }
}

/// MPICH's ranks talk to their launcher over a descriptor that they inherit, whoever they are.
#[test]
fn programs_of_several_users_run_at_once() {
    const MEMBERS: &str = "4711";
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let scene = Scene::new(&["--group", MEMBERS]);
    let account = |uid, gid| format!("setpriv --reuid {uid} --regid {gid} --clear-groups");
    let users = [
        ("root", "env".to_owned(), true),
        ("member", account("65533", MEMBERS), true),
        ("another", account("65532", MEMBERS), true),
        ("stranger", account("65534", "65534"), false),
    ];
    let running = users.each_ref().map(|(name, wrapper, _)| {
        let script = scene.wrapped(name, Mpi::Mpich, "true", wrapper);
        scene.start(name, Mpi::Mpich, &script, &[BYTES, "30", "0", "100"])
    });
    let said = running.map(|program| finish(program, Vec::new()));
    for ((name, _, is_member), said) in users.iter().zip(said) {
        let (ranks, along_trees) = carried_by_trees(&scene.report(name));
        println!("{name}: {along_trees} along trees");
        assert_eq!(ranks, 4);
        assert_eq!(along_trees > 4 * 25, *is_member, "{name}: {along_trees}");
        let told = said.iter().filter(|line| line.starts_with("arborcast:")).count();
        assert_eq!(told, usize::from(!is_member), "{name}: {said:?}");
    }
}
