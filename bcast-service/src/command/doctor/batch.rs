//! Whether a batch system hides the daemon's board from jobs.

use super::Finding;
use std::path::Path;

const CHECK: &str = "batch system";
/// Where distributions keep Slurm's configuration.
const SLURM_FOLDERS: [&str; 2] = ["etc/slurm", "etc/slurm-llnl"];
const SHARED_MEMORY: &str = "/dev/shm";

pub fn examine(root: &Path) -> Finding {
    let folders = SLURM_FOLDERS.map(|folder| root.join(folder));
    let Some(folder) = folders.iter().find(|folder| folder.join("slurm.conf").exists()) else {
        return Finding::ok(CHECK, "no Slurm is configured here");
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let container = setting(&read("slurm.conf"), "JobContainerType");
    if !container.is_some_and(|plugin| plugin.ends_with("/tmpfs")) {
        return Finding::ok(CHECK, "Slurm's jobs see the node's /dev/shm");
    }
    // Slurm's own default has it.
    let directories = setting(&read("job_container.conf"), "Dirs");
    let is_private = directories.is_none_or(|list| list.split(',').any(|dir| dir == SHARED_MEMORY));
    match is_private {
        false => Finding::ok(CHECK, "Slurm's jobs have private folders, and the node's /dev/shm"),
        true => Finding::fault(
            CHECK,
            "Slurm gives each job a /dev/shm of its own (job_container/tmpfs): programs see no board, and broadcast natively",
            "set Dirs=/tmp in job_container.conf, without /dev/shm, and call `scontrol reconfigure`",
        ),
    }
}

/// The last value of a `Key=Value`, of which a line may have several.
fn setting(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    let mut pairs = lines.flat_map(str::split_whitespace).filter_map(|word| word.split_once('='));
    pairs.rfind(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_in_any_case_and_not_in_comments() {
        let text = "# JobContainerType=none\nfoo=1 jobcontainertype=job_container/tmpfs # x=2\n";
        assert_eq!(setting(text, "JobContainerType").as_deref(), Some("job_container/tmpfs"));
        assert_eq!(setting(text, "x"), None);
    }
}
