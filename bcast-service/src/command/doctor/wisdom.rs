//! Whether what was learned survives a restart: the wisdom file and the disk it lies on.

use super::{Finding, free_bytes};
use crate::config::Config;
use arborcast_draw::units;
use arborcast_proto::wisdom::{Wisdom, WisdomError};
use std::io::ErrorKind;
use std::path::Path;

const CHECK: &str = "wisdom";
/// A wisdom file is written beside the old one, and has some tens of MiB at most.
const COMFORTABLE_BYTES: u64 = 128 << 20;

pub fn examine(config: &Config) -> Vec<Finding> {
    let (path, directory) = (config.wisdom_path(), &config.state_directory);
    let mut findings = vec![file(&path), room(&path, directory)];
    findings.extend(set_aside(&path, directory));
    findings
}

fn file(path: &Path) -> Finding {
    let shown = path.display();
    match Wisdom::load(path) {
        Ok(_) if !path.exists() => Finding::ok(CHECK, format!("nothing is saved in {shown} yet")),
        Ok(wisdom) => Finding::ok(CHECK, format!("{shown} is sound, {} plans", wisdom.plans.len())),
        Err(WisdomError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            Finding::ok(
                CHECK,
                format!("{shown} is for the daemon's user and root; not looked into"),
            )
        }
        Err(WisdomError::Io { source, .. }) => Finding::fault(
            CHECK,
            format!("{shown} cannot be read: {source}; nothing that is learned is saved"),
            "make it readable for the daemon's user, or remove it; the daemon tries every 30 s",
        ),
        Err(error) => Finding::fault(
            CHECK,
            format!("{shown}: {error}"),
            "restart the daemon: it sets the file aside, and the experiment learns anew; \
             or put a good copy in its place while the daemon is down",
        ),
    }
}

fn room(path: &Path, directory: &Path) -> Finding {
    let shown = directory.display();
    let needed = path.metadata().map_or(0, |file| 2 * file.len());
    let free = match free_bytes(directory) {
        Ok(free) => free,
        Err(error) => {
            return Finding::fault(
                CHECK,
                format!("{shown}: {error}; plans do not survive a restart of the daemon"),
                "make the folder for the daemon's user (StateDirectory= of its unit does), or set `state_directory`",
            );
        }
    };
    let left = format!("{} are left in {shown}", units::count(free as f64, "B"));
    match free {
        free if free <= needed => Finding::fault(
            CHECK,
            format!(
                "{left}, too little for another wisdom file: new plans do not survive a restart"
            ),
            "make room on that disk, or set `state_directory`",
        ),
        free if free < COMFORTABLE_BYTES => {
            Finding::advice(CHECK, left, "make room on that disk before plans cannot be saved")
        }
        _ => Finding::ok(CHECK, left),
    }
}

/// Damaged files that a daemon has put aside.
fn set_aside(path: &Path, directory: &Path) -> Option<Finding> {
    let prefix = format!("{}.damaged-", path.file_name()?.to_str()?);
    let names = directory
        .read_dir()
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let found: Vec<String> = names.filter(|name| name.starts_with(&prefix)).collect();
    let newest = found.iter().max()?;
    Some(Finding::advice(
        CHECK,
        format!("{} damaged files were set aside, the last one is {newest}", found.len()),
        "look into that disk's health, then remove them",
    ))
}
