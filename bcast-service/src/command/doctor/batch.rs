//! Whether a batch system hides the daemon's socket from jobs.

use super::Finding;
use std::path::Path;

const CHECK: &str = "batch system";
/// Where distributions keep Slurm's configuration.
const SLURM_FOLDERS: [&str; 2] = ["etc/slurm", "etc/slurm-llnl"];
/// Slurm's own default.
const PRIVATE_FOLDERS: &str = "/tmp,/dev/shm";

pub fn examine(root: &Path, socket: &Path) -> Finding {
    let folders = SLURM_FOLDERS.map(|folder| root.join(folder));
    let Some(folder) = folders.iter().find(|folder| folder.join("slurm.conf").exists()) else {
        return Finding::ok(CHECK, "no Slurm is configured here");
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let container = setting(&read("slurm.conf"), "JobContainerType");
    if !container.is_some_and(|plugin| plugin.ends_with("/tmpfs")) {
        return Finding::ok(CHECK, "Slurm's jobs see the node's folders");
    }
    let folders = setting(&read("job_container.conf"), "Dirs");
    let folders = folders.as_deref().unwrap_or(PRIVATE_FOLDERS);
    // The socket's folder may be a link, as /var/run is.
    let resolved = socket.canonicalize().unwrap_or_else(|_| socket.into());
    let hides = |folder: &&str| resolved.starts_with(folder) || socket.starts_with(folder);
    match folders.split(',').find(hides) {
        None => Finding::ok(
            CHECK,
            format!("Slurm's jobs have their own {folders}; no board or socket is hidden by that"),
        ),
        Some(folder) => Finding::fault(
            CHECK,
            format!(
                "Slurm gives each job a {folder} of its own (job_container/tmpfs): programs do not see {}, and broadcast natively",
                socket.display()
            ),
            format!(
                "leave {folder} out of Dirs in job_container.conf and call `scontrol reconfigure`, or have the daemon's `socket` elsewhere"
            ),
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
