//! `arborcast explain`: why a target has its plan.

use super::select::full_name;
use super::{CommandError, Daemon, TargetName, json, print_table, table};
use crate::explanation::{because, headline, rows};
use arborcast_proto::message::Finding;

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
    let mut table = table(&[]);
    for (name, value) in rows(finding) {
        table.add_row([name, &value]);
    }
    format!("{}\n{}", headline(finding), print_table(&table))
}
