//! `arborcast history`: how a target converged.

use super::select::{full_name, root_name};
use super::{CommandError, Daemon, TargetName, json, print_table, right, table};
use crate::explanation::describe;
use arborcast_draw::chart::{Axis, Chart, Join, Reference, Scale, Series};
use arborcast_draw::units;
use arborcast_proto::message::{Answer, Ask, TargetStatus, TrialRecord};

/// Width of the longest bar of the text plot.
const BAR: f64 = 40.0;

/// The trials of one target: a line for each improvement, or all of them as JSON or SVG.
///
/// # Errors
/// Where there is no such target, or the daemon does not answer.
pub fn history(
    daemon: &mut Daemon,
    name: &TargetName,
    as_json: bool,
    as_svg: bool,
) -> Result<String, CommandError> {
    let targets = daemon.targets()?;
    let status = name.only(&targets)?;
    let trials = daemon.ask(&Ask::History(status.target), |answer| match answer {
        Answer::History(trials) => Some(trials),
        _ => None,
    })?;
    Ok(match (as_json, as_svg) {
        (true, _) => {
            let trials = trials.iter().map(|trial| json::trial(trial, &status.group)).collect();
            json::print(&trials)
        }
        (false, true) => svg(status, &trials),
        (false, false) => text(status, &trials),
    })
}

/// The trials that brought the best time down.
fn improvements(trials: &[TrialRecord]) -> Vec<(&TrialRecord, f64)> {
    let mut best = f64::INFINITY;
    let mut steps = Vec::new();
    for trial in trials {
        if let Some(now) = trial.best_s.filter(|now| *now < best) {
            best = now;
            steps.push((trial, now));
        }
    }
    steps
}

fn text(status: &TargetStatus, trials: &[TrialRecord]) -> String {
    let steps = improvements(trials);
    let (Some((_, first)), Some(last)) = (steps.first(), trials.last()) else {
        return format!("{}: no trial yet\n", full_name(status));
    };
    let mut table = table(&["TRIAL", "SEARCHED", "BEST", "", "STRATEGY", "PLAN"]);
    for (trial, best) in &steps {
        let bar = "█".repeat((BAR * best / first).ceil() as usize);
        table.add_row([
            right(trial.number),
            right(units::seconds(trial.search_s)),
            right(units::seconds(*best)),
            bar.into(),
            (&trial.strategy).into(),
            describe(&trial.plan).into(),
        ]);
    }
    let searched = units::seconds(last.search_s);
    format!("{}: {} trials in {searched}\n{}", full_name(status), last.number, print_table(&table))
}

fn svg(status: &TargetStatus, trials: &[TrialRecord]) -> String {
    let measured = trials
        .iter()
        .filter_map(|trial| Some((trial.search_s, trial.times.as_ref()?.median_s)))
        .collect();
    let mut best: Vec<(f64, f64)> =
        improvements(trials).iter().map(|(trial, best)| (trial.search_s, *best)).collect();
    // The best time stands until the end.
    if let (Some(&(_, value)), Some(last)) = (best.last(), trials.last()) {
        best.push((last.search_s, value));
    }
    let finding = status.finding.as_ref();
    let native = finding.and_then(|finding| finding.native);
    let limit = finding.and_then(|finding| finding.limit_s);
    let references = native
        .map(|times| Reference { name: "native", value: times.median_s })
        .into_iter()
        .chain(limit.map(|value| Reference { name: "limit", value }))
        .collect();
    let title =
        format!("{} nodes from {}, {}", status.group.len(), root_name(status), status.target.class);
    let axis = |label, scale| Axis { label, scale, format: &units::seconds };
    Chart {
        title: &title,
        x: axis("time of searching", Scale::Linear),
        y: axis("median until all leaves have acknowledged", Scale::Log),
        series: vec![
            Series { name: "best so far", points: best, join: Join::Step },
            Series { name: "trials", points: measured, join: Join::Points },
        ],
        references,
    }
    .svg()
}
