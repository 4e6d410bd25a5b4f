//! Whether plans are searched for: the experiment job, and when it last found one.

use super::Finding;
use super::daemon::Answers;
use crate::config::Config;
use arborcast_proto::message::{ExperimentState, Status};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CHECK: &str = "experiment";

pub fn examine(config: &Config, daemon: &Answers) -> Vec<Finding> {
    let mut findings = vec![job(config, &daemon.status), plans(daemon)];
    let Status { hold_timeouts, broadcasts, .. } = daemon.status;
    if hold_timeouts > 0 {
        findings.push(Finding::advice(
            CHECK,
            format!("{hold_timeouts} of {broadcasts} broadcasts waited in vain for it to stop"),
            "where this grows, a node of the experiment is stuck or overloaded: ask its daemons and `arborcast explain`",
        ));
    }
    findings
}

fn job(config: &Config, status: &Status) -> Finding {
    match (status.experiment, &config.experiment.launch) {
        (ExperimentState::None, Some(launch)) => Finding::fault(
            CHECK,
            format!("no job is connected, although this node is to launch `{launch}`"),
            "`journalctl -u arborcastd` has what the job says at its end; run the command by hand as the daemon's user",
        ),
        (ExperimentState::None, None) => Finding::advice(
            CHECK,
            "no job is connected: the plans that are known are used, and no others are searched for",
            "set `[experiment] launch` on one node of the grid, or run `arborcast doctor` on the node where it is set",
        ),
        (ExperimentState::Paused, _) => Finding::advice(
            CHECK,
            "an operator has paused it, and with it the experiment of the whole grid",
            "arborcast resume",
        ),
        (state, _) => {
            let state = super::json::state(state);
            Finding::ok(CHECK, format!("it is {state}, epoch {}", status.epoch.unwrap_or(0)))
        }
    }
}

fn plans(daemon: &Answers) -> Finding {
    let plans = daemon.status.plans;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let newest = daemon.newest_plan_unix_s.map(|unix_s| {
        let age_s = (now.as_secs_f64() - unix_s).max(0.0);
        humantime::format_duration(Duration::from_secs(age_s as u64))
    });
    match newest {
        Some(age) => Finding::ok(CHECK, format!("{plans} plans, the newest found {age} ago")),
        None => Finding::ok(CHECK, format!("{plans} plans, and no trial that found one is known")),
    }
}
