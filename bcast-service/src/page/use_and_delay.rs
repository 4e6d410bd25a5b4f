//! Which programs broadcast on this node and what delayed them, as JSON.

use super::facts::{Facts, TargetFacts};
use super::record::{ParentFacts, ProgramFacts, ReceivedFacts, UseFacts};
use super::sites::short;
use super::view::path;
use arborcast_proto::{Lateness, NodeLateness, Target};
use serde_json::{Value, json};

/// Nodes without measurements that are named.
const MAX_NAMES: usize = 32;

/// Programs, with what they broadcast by size.
pub fn programs(facts: &Facts) -> Value {
    json!({
        "programs": facts.programs.iter().map(program).collect::<Vec<_>>(),
        "left_out": facts.left_out_programs,
    })
}

fn program(facts: &ProgramFacts) -> Value {
    let process = facts.process.as_ref();
    // To the second: what has not changed reads the same.
    json!({
        "pid": process.map(|process| process.pid),
        "command": process.map(|process| &process.command).filter(|name| !name.is_empty()),
        "job": process.and_then(|process| process.job.as_ref()),
        "since_unix_s": facts.since_unix_s.round(),
        "ended_unix_s": facts.ended_unix_s.map(f64::round),
        "used_unix_s": facts.used_unix_s.map(f64::round),
        "holds": facts.holds, "claims": facts.claims, "hold_timeouts": facts.hold_timeouts,
        "reports": facts.reports,
        "uses": facts.uses.iter().map(of_size).collect::<Vec<_>>(),
    })
}

fn of_size(facts: &UseFacts) -> Value {
    let time = |time: Option<(f64, usize)>| {
        time.map(|(median_s, count)| json!({ "median_s": short(median_s), "of": count }))
    };
    json!({
        "size": facts.class.to_string(), "along_trees": facts.along_trees, "native": facts.native,
        "bytes": facts.bytes, "tree_time": time(facts.tree_time), "native_time": time(facts.native_time),
        "gained_s": facts.gained_s.map(short),
    })
}

/// What came late, to this node and in the grid, and nodes of which nothing is known.
pub fn delays(facts: &Facts) -> Value {
    let names: Vec<_> = facts.unmeasured.iter().take(MAX_NAMES).collect();
    json!({
        "received": facts.received.iter().map(|(of, parents)| received(of, parents, facts)).collect::<Vec<_>>(),
        "late": facts.late.iter().map(|(of, names)| late(of, names, facts)).collect::<Vec<_>>(),
        "unmeasured": names, "left_out_unmeasured": facts.unmeasured.len() - names.len(),
    })
}

fn received(of: &ReceivedFacts, parents: &[String], facts: &Facts) -> Value {
    let (name, path) = name_and_path(of.target, facts);
    json!({
        "name": name, "path": path,
        "reports": of.reports, "listened_late": of.listened_late, "took_s": short(of.took_s),
        "processor_wait_s": short(of.processor_wait_s),
        "most_processor_wait_s": short(of.most_processor_wait_s),
        "parents": of.parents.iter().zip(parents).map(|(of, name)| parent(of, name)).collect::<Vec<_>>(),
    })
}

/// How the page names a target, and where it has more of it.
fn name_and_path(target: Target, facts: &Facts) -> (String, Option<String>) {
    let known = facts.targets.iter().find(|known| known.target == target);
    let name = |known: &TargetFacts| format!("{} {}", known.root, known.target.class);
    (known.map_or_else(|| target.to_string(), name), known.map(|known| path(known.target)))
}

fn late(of: &Lateness, names: &[String], facts: &Facts) -> Value {
    let (name, path) = name_and_path(of.target, facts);
    let node = |(of, name): (&NodeLateness, &String)| {
        json!({
            "node": name, "reports": of.reports, "listened_late": of.listened_late,
            "took_s": short(of.took_s), "processor_wait_s": short(of.processor_wait_s),
        })
    };
    json!({
        "name": name, "path": path, "nodes": of.nodes, "median_s": short(of.median_s),
        "latest": of.latest.iter().zip(names).map(node).collect::<Vec<_>>(),
    })
}

fn parent(of: &ParentFacts, name: &str) -> Value {
    json!({
        "node": name, "reports": of.reports, "last": of.last, "done_s": short(of.done_s),
        "behind_s": of.behind_s.map(short), "bytes_per_s": of.bytes_per_s.map(short),
    })
}
