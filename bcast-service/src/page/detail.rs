//! What is told of one target: why it has its plan, its trees by site, and how the search went.

use super::facts::Detail;
use super::record::PlanInUse;
use super::sites::{Sites, short};
use super::view::{GroupView, path};
use crate::explanation::{because, describe, headline, rows};
use arborcast_draw::tree::Labels;
use arborcast_draw::units;
use arborcast_proto::message::{Finding, TrialRecord};
use arborcast_proto::{Group, LinkMatrix, Plan};
use serde_json::{Value, json};
use std::sync::Arc;

/// Trees of larger groups are told by site only.
const MAX_TEXT_NODES: usize = 64;
/// Points of the curve.
const MAX_POINTS: usize = 600;
/// Trials that are listed.
const MAX_LISTED: usize = 15;

pub fn json(detail: &Detail, view: Option<&GroupView>, version: u64) -> Value {
    let Detail { facts, trials, plans, .. } = detail;
    let finding = facts.finding.as_deref();
    let mut json = trees_json(detail, finding, view);
    json["path"] = path(facts.target).into();
    json["version"] = version.into();
    json["name"] = format!("{} {}", facts.root, facts.target.class).into();
    json["why"] = finding.map(rows).map_or(Value::Null, |rows| json!(rows));
    json["median_s"] = finding.map(|finding| finding.times.median_s).into();
    json["is_measured"] = finding.map(|finding| finding.times.is_measured()).into();
    json["native_s"] = finding.and_then(|f| f.native).map(|native| native.median_s).into();
    json["limit_s"] = finding.and_then(|finding| finding.limit_s).into();
    json["plans"] = plans.iter().map(plan_in_use).collect();
    json["points"] = points(trials);
    json["trial_count"] = trials.last().map_or(0, |newest| newest.number).into();
    json["newest"] = trials.iter().rev().take(MAX_LISTED).map(|trial| self::trial(trial)).collect();
    json
}

/// What is drawn of a target's trees with one of its plans.
pub fn trees_json(detail: &Detail, finding: Option<&Finding>, view: Option<&GroupView>) -> Value {
    let Detail { facts, group, .. } = detail;
    // The group may have become another one since.
    let view = view.filter(|view| view.group == *group);
    let of_nodes;
    let sites = match view {
        Some(view) => &view.sites,
        None => {
            of_nodes = Sites::of_nodes(group);
            &of_nodes
        }
    };
    let links = view.map(|view| &*view.links);
    let mut json = sites.json(group);
    json["root"] = facts.root.clone().into();
    json["root_place"] = sites.place_of(usize::from(facts.target.root)).into();
    json["sites_are_known"] = view.is_some().into();
    json["headline"] = finding.map(headline).into();
    json["flows"] = finding.map_or(json!([]), |finding| sites.flows(&finding.plan, links));
    json["trees"] = finding.map_or(json!([]), |finding| trees(&finding.plan, group, links));
    json
}

/// A stop of the slider through time.
fn plan_in_use(plan: &PlanInUse) -> Value {
    let finding = plan.finding.as_deref();
    json!({
        "number": plan.number, "since_unix_s": plan.since_unix_s,
        "text": finding.map_or_else(|| "forgotten".into(), |finding| describe(&finding.plan)),
        "median_s": finding.map(|finding| finding.times.median_s),
        "is_measured": finding.is_some_and(|finding| finding.times.is_measured()),
        "because": finding.map(because),
    })
}

fn trees(plan: &Plan, group: &Group, links: Option<&LinkMatrix>) -> Value {
    let Some(striping) = plan.striping() else { return json!([]) };
    let shares: f64 = striping.stripes().iter().map(|stripe| f64::from(stripe.share)).sum();
    let node = |index: usize| {
        group.nodes().get(index).map_or_else(|| index.to_string(), ToString::to_string)
    };
    let edge = |from: usize, to: usize| {
        let links = links?;
        let (latency_s, rate) = (links.latency_s(from, to), links.rate(from, to));
        Some(format!("{}, {}", units::seconds(latency_s), units::rate(rate)))
    };
    let labels = Labels { node: &node, edge: &edge };
    let tree = |stripe: &arborcast_proto::Stripe| {
        let text = (group.len() <= MAX_TEXT_NODES)
            .then(|| arborcast_draw::tree::text(&stripe.tree, &labels));
        json!({
            "share": short(f64::from(stripe.share) / shares), "depth": stripe.tree.depth(),
            "bytes_per_s": stripe.bytes_per_s, "segment_bytes": striping.segment_bytes(),
            "text": text,
        })
    };
    striping.stripes().iter().map(tree).collect()
}

/// `[seconds of searching, this trial's median or null, the best so far or null]`; all improvements, and of
/// the others every so manieth.
fn points(trials: &[Arc<TrialRecord>]) -> Value {
    let every = trials.len().div_ceil(MAX_POINTS).max(1);
    let mut best_s = f64::INFINITY;
    let mut points = Vec::new();
    for (place, trial) in trials.iter().enumerate() {
        let improves = trial.best_s.is_some_and(|now_s| now_s < best_s);
        best_s = trial.best_s.map_or(best_s, |now_s| now_s.min(best_s));
        if improves || place % every == 0 || place + 1 == trials.len() {
            let median_s = trial.times.map(|times| times.median_s);
            points.push(json!([
                short(trial.search_s),
                median_s.map(short),
                trial.best_s.map(short)
            ]));
        }
    }
    points.into()
}

fn trial(trial: &TrialRecord) -> Value {
    json!({
        "number": trial.number, "plan": describe(&trial.plan), "strategy": trial.strategy,
        "median_s": trial.times.map(|times| times.median_s), "predicted_s": trial.predicted_s,
        "best_s": trial.best_s, "unix_s": trial.unix_s,
    })
}
