//! One group of the scheduler for the processes of all labs.
//!
//! Hosts of a lab share this machine's processors, and MPI launchers start a session on each host, or for each rank.
//! Where the kernel makes each session a group (autogroup, see sched(7)), a rank that yields while it waits
//! yields to its own session alone, and keeps its group's turn of milliseconds from all other hosts. On hosts with
//! processors of their own no other host's rank is in the way. A control group ends that, since autogroup leaves
//! alone who is in one.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Where the scheduler's control groups are: of cgroup v1 and v2, each with a file that only a group has by which
/// the scheduler goes.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/cpu", "cpu.shares"), ("/sys/fs/cgroup", "cpu.weight")];

fn groups() -> impl Iterator<Item = (PathBuf, &'static str)> {
    HIERARCHIES.iter().map(|(parent, weight)| (PathBuf::from(parent).join("gridlab"), *weight))
}

/// Puts the calling process, and what it will start, into the group of the labs, which it makes where there is none.
/// Where that is refused, as without root, the sessions stay groups.
pub fn join() {
    for (group, weight) in groups() {
        let made = fs::create_dir(&group);
        let there = made.is_ok() || made.is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists);
        if there && group.join(weight).exists() {
            let _ = fs::write(group.join("cgroup.procs"), std::process::id().to_string());
            return;
        }
    }
}

/// Removes the group where no process is left in it.
pub fn clear() {
    for (group, _) in groups() {
        let _ = fs::remove_dir(group);
    }
}
