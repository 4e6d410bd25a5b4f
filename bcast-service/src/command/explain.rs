//! `arborcast explain`: why a target has its plan.

use super::select::full_name;
use super::targets::describe;
use super::{CommandError, Daemon, TargetName, json, print_table, table};
use arborcast_draw::units::seconds;
use arborcast_proto::Plan;
use arborcast_proto::message::{Finding, Reason, Rival, Times};

/// What was predicted and measured of the plan of one target, and against what it is in use.
///
/// # Errors
/// Where there is no such target, or the daemon does not answer.
pub fn explain(
    daemon: &mut Daemon,
    name: &TargetName,
    as_json: bool,
) -> Result<String, CommandError> {
    let targets = daemon.targets()?;
    let status = name.only(&targets)?;
    if as_json {
        let mut value = json::target(status);
        value["because"] = status.finding.as_ref().map(because).into();
        return Ok(json::print(&value));
    }
    let name = full_name(status);
    Ok(match &status.finding {
        Some(finding) => format!("{name}: {}", text(finding)),
        None => format!("{name}: no plan yet\n"),
    })
}

fn text(finding: &Finding) -> String {
    let Finding { plan, times, strategy, trials, search_s, .. } = finding;
    let searched = seconds(*search_s);
    let mut table = table(&[]);
    let mut row = |name: &str, value: String| {
        table.add_row([name, &value]);
    };
    let reason = finding.reason.as_ref();
    if let Some(predicted_s) = reason.and_then(|reason| reason.predicted_s) {
        row("predicted", seconds(predicted_s));
    }
    match times.is_measured() {
        true => row("measured", measured(times, reason.map(|reason| reason.interval_s))),
        false => row("predicted", seconds(times.median_s)),
    }
    if let Some(Rival { plan, times, interval_s }) = reason.and_then(|r| r.against.as_ref()) {
        row("against", format!("{}: {}", describe(plan), measured(times, Some(*interval_s))));
    }
    if let Some(limit_s) = finding.limit_s {
        row("limit", format!("{} ({:.2} ×)", seconds(limit_s), times.median_s / limit_s));
    }
    row("because", because(finding).into());
    let plan = describe(plan);
    format!("{plan}, by {strategy} after {trials} trials in {searched}\n{}", print_table(&table))
}

fn measured(times: &Times, interval_s: Option<(f64, f64)>) -> String {
    let interval = interval_s.map_or(String::new(), |(low_s, high_s)| {
        format!(", 90 % interval {} to {}", seconds(low_s), seconds(high_s))
    });
    format!("{}, median of {}{interval}", seconds(times.median_s), times.repetitions)
}

/// The rule that put the plan in use.
fn because(finding: &Finding) -> &'static str {
    if !finding.times.is_measured() {
        return "expected to be the best by what is known of the links by now; not measured yet";
    }
    let Some(Reason { against, .. }) = &finding.reason else {
        return "not known: found before reasons were kept, or published by hand";
    };
    let against = against.as_ref().map(|rival| &rival.plan);
    match (&finding.plan, against) {
        (_, None) => "nothing else was measured",
        (Plan::Native, Some(_)) => "no tree is faster than native beyond doubt",
        (Plan::Trees(_), Some(Plan::Native)) => "faster than native beyond doubt",
        (Plan::Trees(_), Some(Plan::Trees(_))) => {
            "the fastest tree; native was not measured at this size"
        }
    }
}
