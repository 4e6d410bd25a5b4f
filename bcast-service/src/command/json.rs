//! The form of every --json answer. Names carry their units, nodes stand by name, hashes are text
//! (JSON numbers lose digits above 2⁵³).

use super::select::{full_name, root_name};
use arborcast_proto::message::{
    ExperimentState, Finding, Reason, Status, TargetStatus, Times, TrialRecord,
};
use arborcast_proto::{Group, LinkMatrix, Plan, Spending, Spent};
use serde_json::{Value, json};

/// As it is printed.
pub fn print(value: &Value) -> String {
    format!("{value:#}\n")
}

pub fn state(state: ExperimentState) -> &'static str {
    match state {
        ExperimentState::None => "none",
        ExperimentState::Waiting => "waiting",
        ExperimentState::Running => "running",
        ExperimentState::Stopping => "stopping",
        ExperimentState::Paused => "paused",
    }
}

/// By what it was spent on.
fn spending(spending: &Spending) -> Value {
    let spent = |spent: Spent| json!({ "seconds": spent.seconds, "bytes": spent.bytes });
    let kinds = spending.kinds().map(|(kind, of_kind)| (kind.to_owned(), spent(of_kind)));
    json!({
        "job_s": spending.job_s, "spent": Value::Object(kinds.into_iter().collect()),
        "time_share": spending.time_share, "bytes_per_hour": spending.bytes_per_hour,
    })
}

pub fn status(status: &Status) -> Value {
    json!({
        "node": status.node, "site": status.site, "version": status.version,
        "daemon_pid": status.daemon_pid, "uptime_s": status.uptime.as_secs_f64(),
        "experiment": state(status.experiment), "epoch": status.epoch,
        "applications": status.applications, "holds": status.holds,
        "broadcasts": status.broadcasts, "hold_timeouts": status.hold_timeouts,
        // The former name of `hold_timeouts`, for readers written for version 0.1.
        "waits_given_up": status.hold_timeouts,
        "plans": status.plans, "trials": status.trials,
        "spending": status.spending.as_ref().map(spending),
    })
}

/// `parents` has a name for each node of the group in its order, null for the root.
pub fn plan(plan: &Plan, group: &Group) -> Value {
    let Some(striping) = plan.striping() else { return json!({ "kind": "native" }) };
    let name = |node: Option<usize>| node.and_then(|node| group.nodes().get(node));
    let trees: Vec<Value> = striping
        .stripes()
        .iter()
        .map(|stripe| {
            let parents: Vec<_> = stripe.tree.parents().into_iter().map(name).collect();
            json!({ "share": stripe.share, "bytes_per_s": stripe.bytes_per_s, "parents": parents })
        })
        .collect();
    json!({
        "kind": "trees", "segment_bytes": striping.segment_bytes(), "trees": trees,
        "tcp_paced": striping.is_tcp_paced(),
    })
}

pub fn times(times: &Times) -> Value {
    json!({
        "median_s": times.median_s, "min_s": times.min_s, "max_s": times.max_s,
        "repetitions": times.repetitions,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "plan": plan(&finding.plan, &finding.group), "bytes": finding.bytes,
        "times": times(&finding.times), "native": finding.native.as_ref().map(times),
        "limit_s": finding.limit_s, "strategy": finding.strategy,
        "trials": finding.trials, "search_s": finding.search_s,
        "reason": finding.reason.as_ref().map(|why| reason(why, &finding.group)),
    })
}

fn reason(reason: &Reason, group: &Group) -> Value {
    let against = reason.against.as_ref().map(|rival| {
        json!({
            "plan": plan(&rival.plan, group), "times": times(&rival.times),
            "interval_s": rival.interval_s,
        })
    });
    json!({
        "predicted_s": reason.predicted_s, "interval_s": reason.interval_s, "against": against,
    })
}

pub fn target(status: &TargetStatus) -> Value {
    let demand = status.demand.as_ref().map(|demand| {
        json!({
            "bytes": demand.bytes, "age_s": demand.age.as_secs_f64(),
            "broadcasts": demand.broadcasts,
            "pause_s": demand.pause_s,
            "quiets_s": demand.quiets_s,
            "native_at_least_s": demand.native_s,
        })
    });
    json!({
        "target": full_name(status), "group": status.target.group.to_string(),
        "nodes": status.group.nodes(), "root": root_name(status),
        "class_max_bytes": status.target.class.max_bytes(), "demand": demand,
        "finding": status.finding.as_ref().map(finding),
        "in_use": status.in_use.as_ref().map(times),
    })
}

pub fn trial(record: &TrialRecord, group: &Group) -> Value {
    json!({
        "number": record.number, "bytes": record.bytes, "plan": plan(&record.plan, group),
        "times": record.times.as_ref().map(times), "predicted_s": record.predicted_s,
        "best_s": record.best_s,
        "strategy": record.strategy, "search_s": record.search_s, "unix_s": record.unix_s,
    })
}

/// Rows send, columns receive; a rate that nothing limits is null, and so is the diagonal.
pub fn matrix(group: &Group, matrix: &LinkMatrix) -> Value {
    let table = |value: &dyn Fn(usize, usize) -> f64| -> Value {
        let cell = |row: usize, column: usize| (row != column).then(|| value(row, column));
        let row = |row| (0..matrix.nodes()).map(|column| cell(row, column)).collect();
        (0..matrix.nodes())
            .map(|index| -> Vec<Option<f64>> { row(index) })
            .collect::<Vec<_>>()
            .into()
    };
    json!({
        "group": group.hash().to_string(), "nodes": group.nodes(),
        "one_way_latency_s": table(&|from, to| matrix.latency_s(from, to)),
        "bytes_per_s": table(&|from, to| matrix.rate(from, to)),
    })
}
