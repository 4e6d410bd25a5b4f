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

/// A hierarchy of the scheduler's control groups.
struct Hierarchy {
    folder: &'static str,
    /// A file that only a group has by which the scheduler goes.
    mark: &'static str,
    /// Who writes 0 there joins: in v1 a thread, for which no other process's fork has to wait.
    members: &'static str,
}

/// cgroup v1 and v2, where they are as a rule.
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy { folder: "/sys/fs/cgroup/cpu", mark: "cpu.shares", members: "tasks" },
    Hierarchy { folder: "/sys/fs/cgroup", mark: "cpu.weight", members: "cgroup.procs" },
];

impl Hierarchy {
    fn group(&self) -> PathBuf {
        PathBuf::from(self.folder).join("gridlab")
    }
}

/// Puts the calling process, which must have a single thread, and what it will start into the group of the labs,
/// which it makes where there is none. Where that is refused, as without root, the sessions stay groups.
pub fn join() {
    for hierarchy in &HIERARCHIES {
        let group = hierarchy.group();
        let made = fs::create_dir(&group);
        let there = made.is_ok() || made.is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists);
        if there && group.join(hierarchy.mark).exists() {
            let _ = fs::write(group.join(hierarchy.members), "0");
            return;
        }
    }
}

/// Removes the group where no process is left in it.
pub fn clear() {
    for hierarchy in &HIERARCHIES {
        let _ = fs::remove_dir(hierarchy.group());
    }
}
