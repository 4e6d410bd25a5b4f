//! What the system says of a client's process: for the page, which tells programs apart by it.

use crate::page::record::Process;
use std::fs;

/// What anybody may read of a process below /proc. Who has ended meanwhile has no name.
pub fn read(pid: i32) -> Process {
    let text = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let command = String::from_utf8_lossy(&text("comm")).trim_end().to_owned();
    let job = slurm_job(&String::from_utf8_lossy(&text("cgroup")));
    Process { pid: pid.unsigned_abs(), command, job }
}

/// Slurm puts `job_` and the number into the path of a job's control group.
fn slurm_job(control_groups: &str) -> Option<String> {
    let mut parts = control_groups.split(['/', '\n']);
    let number = parts.find_map(|part| part.strip_prefix("job_"))?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_name_and_a_job_where_it_is_of_one() {
        let own = read(std::process::id().cast_signed());
        assert!(!own.command.is_empty() && own.command.len() <= 15, "{own:?}");
        let second = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n";
        assert_eq!(slurm_job(second).as_deref(), Some("4711"));
        let first = "4:memory:/slurm/uid_1000/job_12/step_batch\n0::/\n";
        assert_eq!(slurm_job(first).as_deref(), Some("12"));
        assert_eq!(slurm_job("0::/user.slice/job_/x\n"), None);
        assert_eq!(read(-1).command, "");
    }
}
