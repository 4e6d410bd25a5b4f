//! What operators are told of a plan, in the terminal and on the page.

use arborcast_draw::units::seconds;
use arborcast_proto::Plan;
use arborcast_proto::message::{Finding, Reason, Rival, Times};

/// `native`, `1 tree, depth 3`.
pub fn describe(plan: &Plan) -> String {
    let Some(striping) = plan.striping() else { return "native".into() };
    let depth = striping.stripes().iter().map(|stripe| stripe.tree.depth()).max().unwrap_or(0);
    match striping.stripes().len() {
        1 => format!("1 tree, depth {depth}"),
        count => format!("{count} trees, depth {depth}"),
    }
}

/// What the plan is and how it was found.
pub fn headline(finding: &Finding) -> String {
    let Finding { plan, strategy, trials, search_s, .. } = finding;
    let s = if *trials == 1 { "" } else { "s" };
    format!("{}, by {strategy} after {trials} trial{s} in {}", describe(plan), seconds(*search_s))
}

/// What was predicted and measured of the plan, against what, and why it is in use: names and values.
pub fn rows(finding: &Finding) -> Vec<(&'static str, String)> {
    let times = &finding.times;
    let mut rows = Vec::new();
    let reason = finding.reason.as_ref();
    if let Some(predicted_s) = reason.and_then(|reason| reason.predicted_s) {
        rows.push(("predicted", seconds(predicted_s)));
    }
    rows.push(match times.is_measured() {
        true => ("measured", measured(times, reason.map(|reason| reason.interval_s))),
        false => ("predicted", seconds(times.median_s)),
    });
    if let Some(Rival { plan, times, interval_s }) = reason.and_then(|r| r.against.as_ref()) {
        let against = format!("{}: {}", describe(plan), measured(times, Some(*interval_s)));
        rows.push(("against", against));
    }
    if let Some(limit_s) = finding.limit_s {
        rows.push(("limit", format!("{} ({:.2} ×)", seconds(limit_s), times.median_s / limit_s)));
    }
    rows.push(("because", because(finding).into()));
    rows
}

fn measured(times: &Times, interval_s: Option<(f64, f64)>) -> String {
    let interval = interval_s.map_or(String::new(), |(low_s, high_s)| {
        format!(", 90 % interval {} to {}", seconds(low_s), seconds(high_s))
    });
    format!("{}, median of {}{interval}", seconds(times.median_s), times.repetitions)
}

/// The rule that put the plan in use.
pub fn because(finding: &Finding) -> &'static str {
    if !finding.times.is_measured() {
        return "expected to be the best by what is known of the links by now; not measured yet";
    }
    let Some(Reason { against, .. }) = &finding.reason else {
        return "not known: found before reasons were kept, or published by hand";
    };
    let against = against.as_ref().map(|rival| &rival.plan);
    match (&finding.plan, against) {
        (_, None) => "nothing else has been measured in this search yet",
        (Plan::Native, Some(_)) => "no tree is faster than native beyond doubt",
        (Plan::Trees(_), Some(Plan::Native)) => "faster than native beyond doubt",
        (Plan::Trees(_), Some(Plan::Trees(_))) => {
            "the fastest tree; native was not measured at this size"
        }
    }
}
