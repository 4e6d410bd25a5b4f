//! One group of the scheduler for the processes of all labs.
//!
//! Hosts of a lab share this machine's processors, and MPI launchers start a session on each host, or for each rank.
//! Where the kernel makes each session a group (autogroup, see sched(7)), a rank that yields while it waits
//! yields to its own session alone, and keeps its group's turn of milliseconds from all other hosts. On hosts with
//! processors of their own no other host's rank is in the way. A control group ends that, since autogroup leaves
//! alone who is in one.
//!
//! Linux 6.18 runs a group whose threads sleep and wake all the time for seconds, up to a minute, while everything else
//! on the processor waits, the kernel's own threads too: each change of what the group weighs on a processor
//! gives it back the time it had. The less it weighs beside the others, the less it gets back: at a quarter none was
//! seen to wait for longer than 30 ms.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::Pid;

/// A hierarchy of the scheduler's control groups.
struct Hierarchy {
    folder: &'static str,
    /// A file that only a group has by which the scheduler goes.
    weight: &'static str,
    /// What a group weighs, where not as much as a session.
    weighs: Option<&'static str>,
    /// Who writes 0 there joins.
    members: &'static str,
}

/// cgroup v1 and v2, where they are as a rule. In v1 a thread joins, for which no other process's fork has to wait, and
/// the group weighs a quarter. In v2 those that keep the processors awake can't be in it, and would weigh too much
/// beside a quarter.
const V1: Hierarchy = Hierarchy {
    folder: "/sys/fs/cgroup/cpu",
    weight: "cpu.shares",
    weighs: Some("256"),
    members: "tasks",
};
const V2: Hierarchy = Hierarchy {
    folder: "/sys/fs/cgroup",
    weight: "cpu.weight",
    weighs: None,
    members: "cgroup.procs",
};

impl Hierarchy {
    fn group(&self) -> PathBuf {
        Path::new(self.folder).join("gridlab")
    }

    /// The group, which it makes where there is none; `None` where that is refused, as without root.
    fn open(&self) -> Option<PathBuf> {
        let group = self.group();
        let made = fs::create_dir(&group);
        let there =
            made.is_ok() || made.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::AlreadyExists);
        let weight = group.join(self.weight);
        if !there || !weight.exists() {
            return None;
        }
        if let (Ok(()), Some(weighs)) = (made, self.weighs) {
            let _ = fs::write(weight, weighs);
        }
        Some(group)
    }

    fn join(&self, member: &str) -> bool {
        let joined = |group: PathBuf| fs::write(group.join(self.members), member).is_ok();
        self.open().is_some_and(joined)
    }
}

/// Puts the calling process, which must have a single thread, and what it will start into the group of the labs.
/// Where that is refused, the sessions stay groups.
pub fn join() {
    if !V1.join("0") {
        V2.join("0");
    }
}

/// Puts one thread of a process into the group; false where only whole processes can be.
pub fn join_thread(thread: Pid) -> bool {
    V1.join(&thread.to_string())
}

/// Takes a thread out of the group again, whether or not it gets a processor.
pub fn leave_thread(thread: Pid) {
    let _ = fs::write(Path::new(V1.folder).join(V1.members), thread.to_string());
}

/// Removes the group where no process is left in it.
pub fn clear() {
    for hierarchy in [V1, V2] {
        let _ = fs::remove_dir(hierarchy.group());
    }
}
