//! How a link was, as JSON.

use super::facts::LinkPast;
use super::record::{LinkSample, PlanInUse};
use super::sites::short;
use crate::explanation::{because, describe};
use serde_json::{Value, json};

/// `samples` are `[seconds since 1970, rate there and back in B/s, round trip in s]`; `plans` those that came
/// into use meanwhile.
pub fn json(past: &LinkPast) -> Value {
    let sample = |sample: &LinkSample| {
        let LinkSample { unix_s, rate_there, rate_back, round_trip_s } = *sample;
        json!([unix_s, short(rate_there), short(rate_back), short(round_trip_s)])
    };
    let plan = |(target, plan): &(String, PlanInUse)| {
        let finding = plan.finding.as_deref();
        json!({
            "unix_s": plan.since_unix_s, "target": target,
            "plan": finding.map_or_else(|| "forgotten".into(), |finding| describe(&finding.plan)),
            "because": finding.map(because),
        })
    };
    json!({
        "samples": past.samples.iter().map(sample).collect::<Vec<_>>(),
        "plans": past.plans.iter().map(plan).collect::<Vec<_>>(),
    })
}
