//! Whether what an experiment says contradicts itself. Types already guarantee that trees are
//! trees; here it is whether they fit the group, and whether numbers are times.

use arborcast_proto::message::{Finding, Reason, Refusal, Rival, Times, TrialRecord};
use arborcast_proto::{Group, Plan, SizeClass};

const MAX_STRATEGY_BYTES: usize = 64;

fn require(condition: bool, text: &str) -> Result<(), Refusal> {
    if condition { Ok(()) } else { Err(Refusal::Invalid(text.into())) }
}

fn is_seconds(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn times(times: &Times) -> Result<(), Refusal> {
    let Times { median_s, min_s, max_s, .. } = *times;
    let ordered = min_s <= median_s && median_s <= max_s;
    let finite = is_seconds(min_s) && is_seconds(max_s) && median_s > 0.0;
    require(ordered && finite, "times must be finite, min ≤ median ≤ max, the median above 0")
}

fn interval((low_s, high_s): (f64, f64)) -> Result<(), Refusal> {
    let ordered = is_seconds(low_s) && is_seconds(high_s) && low_s <= high_s;
    require(ordered, "an interval must be finite, low ≤ high")
}

fn strategy(name: &str) -> Result<(), Refusal> {
    let fits = (1..=MAX_STRATEGY_BYTES).contains(&name.len());
    let printable = name.bytes().all(|b| b.is_ascii_graphic());
    require(fits && printable, "a strategy's name has 1 to 64 printable characters")
}

fn plan(plan: &Plan, root: u16, nodes: Option<usize>) -> Result<(), Refusal> {
    let Some(striping) = plan.striping() else { return Ok(()) };
    require(striping.root() == usize::from(root), "the plan's root is not the target's")?;
    let spans = nodes.is_none_or(|nodes| nodes == striping.len());
    require(spans, "the plan does not span the group")
}

pub fn finding(finding: &Finding) -> Result<(), Refusal> {
    let nodes = finding.group.len();
    require(usize::from(finding.root) < nodes, "the root is not a node of the group")?;
    plan(&finding.plan, finding.root, Some(nodes))?;
    times(&finding.times)?;
    finding.native.as_ref().map_or(Ok(()), times)?;
    let limit = finding.limit_s.is_none_or(|limit| is_seconds(limit) && limit > 0.0);
    require(limit, "the limit must be finite and above 0")?;
    require(is_seconds(finding.search_s), "the time of searching must be finite")?;
    if let Some(Reason { predicted_s, interval_s, against }) = &finding.reason {
        require(predicted_s.is_none_or(is_seconds), "the predicted time must be finite")?;
        interval(*interval_s)?;
        if let Some(Rival { plan: other, times: of_other, interval_s }) = against {
            plan(other, finding.root, Some(nodes))?;
            times(of_other)?;
            interval(*interval_s)?;
        }
    }
    strategy(&finding.strategy)
}

pub fn trial(trial: &TrialRecord, group: Option<&Group>) -> Result<(), Refusal> {
    let nodes = group.map(Group::len);
    let within = nodes.is_none_or(|nodes| usize::from(trial.target.root) < nodes);
    require(within, "the root is not a node of the group")?;
    require(SizeClass::of(trial.bytes) == trial.target.class, "bytes of another size class")?;
    plan(&trial.plan, trial.target.root, nodes)?;
    trial.times.as_ref().map_or(Ok(()), times)?;
    require(trial.best_s.is_none_or(is_seconds), "the best time must be finite")?;
    require(trial.predicted_s.is_none_or(is_seconds), "the predicted time must be finite")?;
    let clocks = is_seconds(trial.search_s) && is_seconds(trial.unix_s);
    require(clocks, "the time of a trial must be finite")?;
    strategy(&trial.strategy)
}
