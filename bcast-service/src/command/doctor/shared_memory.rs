//! Whether there is room in /dev/shm, and whether the board that the daemon hands over can be read.

use super::daemon::Answers;
use super::{Finding, free_bytes};
use arborcast_draw::units;
use arborcast_proto::segment::BoardView;
use std::path::Path;

const CHECK: &str = "shared memory";
/// The default of container engines. MPIs keep segments of some MiB a rank there, beside the board.
const COMFORTABLE_BYTES: u64 = 64 << 20;
/// A daemon that starts makes its board before the last one's is removed, and writes to all of it in time;
/// the room that is short then ends it.
const NEEDED_BYTES: u64 = 8 << 20;

pub fn examine(root: &Path, daemon: Option<&Answers>) -> Vec<Finding> {
    let mut findings = vec![room(&root.join("dev/shm"))];
    if let Some(daemon) = daemon {
        findings.push(match BoardView::open(&daemon.board) {
            Ok(_) => Finding::ok(CHECK, "the daemon's board can be read"),
            Err(error) => Finding::fault(
                CHECK,
                format!(
                    "the daemon's board cannot be read here: {error}; programs broadcast natively"
                ),
                "restart the daemon, after an upgrade too: systemctl restart arborcastd",
            ),
        });
    }
    findings
}

fn room(path: &Path) -> Finding {
    let shown = path.display();
    let free = match free_bytes(path) {
        Ok(free) => free,
        Err(error) => {
            let problem = format!("{shown} cannot be used: {error}");
            return Finding::fault(CHECK, problem, "mount a tmpfs at /dev/shm");
        }
    };
    let left = format!("{} are left in {shown}", units::count(free as f64, "B"));
    match free {
        0..NEEDED_BYTES => Finding::fault(
            CHECK,
            format!("{left}: too little for a board"),
            "remove what ended programs left there, or enlarge it: mount -o remount,size=50% /dev/shm",
        ),
        NEEDED_BYTES..COMFORTABLE_BYTES => Finding::advice(
            CHECK,
            format!("{left}, where MPIs keep segments too"),
            "enlarge it: mount -o remount,size=50% /dev/shm, or --shm-size of a container",
        ),
        _ => Finding::ok(CHECK, left),
    }
}
