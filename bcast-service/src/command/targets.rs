//! `arborcast targets`: what applications use and what has been found for it.

use super::select::root_name;
use super::{CommandError, Daemon, json, print_table, right, table};
use crate::explanation::describe;
use arborcast_draw::units;
use arborcast_proto::message::Times;

/// Most recent demand first.
///
/// # Errors
/// Where the daemon does not answer.
pub fn targets(daemon: &mut Daemon, as_json: bool) -> Result<String, CommandError> {
    let targets = daemon.targets()?;
    if as_json {
        return Ok(json::print(&targets.iter().map(json::target).collect()));
    }
    if targets.is_empty() {
        return Ok(
            "no target yet: no application has broadcast, and no experiment has searched\n".into()
        );
    }
    let mut table = table(&[
        "GROUP",
        "NODES",
        "ROOT",
        "SIZE",
        "BROADCASTS",
        "LAST",
        "PLAN",
        "MEDIAN",
        "NATIVE",
        "LIMIT",
        "IN USE",
    ]);
    for status in &targets {
        let finding = status.finding.as_ref();
        let demand = status.demand.as_ref();
        let time = |times: Option<&Times>| {
            right(times.map_or_else(|| "-".into(), |times| units::seconds(times.median_s)))
        };
        table.add_row([
            status.target.group.to_string().into(),
            right(status.group.len()),
            root_name(status).into(),
            right(status.target.class),
            right(demand.map_or(0, |demand| demand.broadcasts)),
            right(demand.map_or_else(
                || "-".into(),
                |demand| format!("{} ago", units::seconds(demand.age.as_secs_f64())),
            )),
            finding.map_or_else(|| "-".into(), |finding| describe(&finding.plan)).into(),
            time(finding.and_then(|finding| finding.measured())),
            time(finding.and_then(|finding| finding.native.as_ref())),
            right(
                finding
                    .and_then(|finding| finding.limit_s)
                    .map_or_else(|| "-".into(), units::seconds),
            ),
            time(status.in_use.as_ref()),
        ]);
    }
    Ok(print_table(&table))
}
