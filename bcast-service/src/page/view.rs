//! What viewers are sent: the daemon's facts as sections of JSON, each with a version, so that only what has
//! changed is sent again.

use super::binds::{self, Known};
use super::facts::{Facts, LinkFacts, TargetFacts};
use super::sites::Sites;
use super::use_and_delay;
use crate::command::json;
use crate::events::{Event, Kind};
use crate::explanation::describe;
use arborcast_proto::message::{Finding, TrialRecord};
use arborcast_proto::{Group, GroupHash, LinkMatrix, Target};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// In the order in which they are sent.
pub const SECTIONS: [&str; 7] =
    ["status", "targets", "groups", "binds", "programs", "delays", "events"];

/// A section as it is sent. Versions count from 1.
#[derive(Debug, Clone)]
pub struct Section {
    pub version: u64,
    pub json: Arc<str>,
}

/// The links of a group, and its sites.
pub struct GroupView {
    pub group: Group,
    pub links: Arc<LinkMatrix>,
    pub sites: Sites,
    pub json: Arc<str>,
    pub version: u64,
}

/// All that viewers see at one moment.
pub struct Snapshot {
    pub sections: Vec<Section>,
    pub groups: HashMap<GroupHash, Arc<GroupView>>,
    /// Another number where a target's detail has changed.
    pub target_versions: HashMap<Target, u64>,
    pub binds_questions: Vec<binds::Question>,
}

impl Snapshot {
    pub fn says_the_same(&self, other: &Snapshot) -> bool {
        let versions = |s: &Snapshot| s.sections.iter().map(|s| s.version).collect::<Vec<_>>();
        versions(self) == versions(other)
    }
}

/// Draws up snapshots, and knows what the last one said.
#[derive(Default)]
pub struct View {
    sections: [Option<Section>; SECTIONS.len()],
    groups: HashMap<GroupHash, (Option<f64>, Arc<GroupView>)>,
    targets: HashMap<Target, TargetState>,
    versions: u64,
}

/// What a target's detail is made of.
struct TargetState {
    finding: Option<Arc<Finding>>,
    newest_trial: Option<Arc<TrialRecord>>,
    version: u64,
}

impl View {
    pub fn draw_up(&mut self, facts: Facts, known: &Known) -> Snapshot {
        self.note_groups(&facts.links);
        self.note_targets(&facts.targets);
        let questions = self.binds_questions(&facts);
        let sections = [
            status(&facts),
            self.targets(&facts),
            self.groups(&facts.links),
            known.rows(&questions),
            use_and_delay::programs(&facts),
            use_and_delay::delays(&facts),
            facts.events.iter().map(|event| self::event(event, &facts)).collect(),
        ];
        Snapshot {
            sections: self.number(sections),
            groups: self.groups.iter().map(|(hash, (_, view))| (*hash, view.clone())).collect(),
            target_versions: self.targets.iter().map(|(t, state)| (*t, state.version)).collect(),
            binds_questions: questions,
        }
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    fn number(&mut self, sections: [Value; SECTIONS.len()]) -> Vec<Section> {
        let numbered = sections.into_iter().enumerate().map(|(place, section)| {
            let text = section.to_string();
            if let Some(last) = self.sections[place].as_ref().filter(|last| *last.json == *text) {
                return last.clone();
            }
            let section = Section { version: self.next_version(), json: text.into() };
            self.sections[place] = Some(section.clone());
            section
        });
        numbered.collect()
    }

    /// Sites are found again only where links are others.
    fn note_groups(&mut self, links: &[LinkFacts]) {
        let mut before = std::mem::take(&mut self.groups);
        for LinkFacts { group, links, measured_unix_s } in links {
            let hash = group.hash();
            let same = before.remove(&hash).filter(|(measured, view)| {
                Arc::ptr_eq(&view.links, links) && measured == measured_unix_s
            });
            let view = match same {
                Some((_, view)) => view,
                None => {
                    let version = self.next_version();
                    Arc::new(group_view(group, links, *measured_unix_s, version))
                }
            };
            self.groups.insert(hash, (*measured_unix_s, view));
        }
    }

    fn note_targets(&mut self, targets: &[TargetFacts]) {
        let mut before = std::mem::take(&mut self.targets);
        for target in targets {
            let state = before.remove(&target.target).filter(|state| {
                is_same(&state.finding, &target.finding)
                    && is_same(&state.newest_trial, &target.newest_trial)
            });
            let state = state.unwrap_or_else(|| TargetState {
                finding: target.finding.clone(),
                newest_trial: target.newest_trial.clone(),
                version: self.next_version(),
            });
            self.targets.insert(target.target, state);
        }
    }

    fn targets(&self, facts: &Facts) -> Value {
        let rows: Vec<Value> = facts
            .targets
            .iter()
            .map(|target| {
                let version = self.targets.get(&target.target).map(|state| state.version);
                self::target(target, version)
            })
            .collect();
        json!({ "targets": rows, "left_out": facts.target_count - facts.targets.len() })
    }

    fn groups(&self, links: &[LinkFacts]) -> Value {
        let group = |facts: &LinkFacts| {
            let hash = facts.group.hash();
            let (_, view) = self.groups.get(&hash)?;
            Some(json!({
                "group": hash.to_string(), "nodes": facts.group.len(),
                "sites": view.sites.count(), "measured_unix_s": facts.measured_unix_s,
                "version": view.version,
            }))
        };
        links.iter().filter_map(group).collect()
    }

    fn binds_questions(&self, facts: &Facts) -> Vec<binds::Question> {
        let question = |target: &TargetFacts| {
            let (_, view) = self.groups.get(&target.target.group)?;
            let of_finding = target.finding.as_ref().map(|finding| finding.bytes);
            Some(binds::Question {
                target: target.target,
                root: target.root.clone(),
                bytes: of_finding.or(target.bytes)?,
                group: view.clone(),
            })
        };
        facts.targets.iter().filter_map(question).take(binds::MAX_TARGETS).collect()
    }
}

fn is_same<T>(a: &Option<Arc<T>>, b: &Option<Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

fn group_view(
    group: &Group,
    links: &Arc<LinkMatrix>,
    measured_unix_s: Option<f64>,
    version: u64,
) -> GroupView {
    let sites = Sites::of_links(group, links);
    let mut json = sites.json(group);
    json["group"] = group.hash().to_string().into();
    json["nodes"] = group.len().into();
    json["measured_unix_s"] = measured_unix_s.into();
    json["cells"] = sites.cells(group, links);
    let json = json.to_string().into();
    GroupView { group: group.clone(), links: links.clone(), sites, json, version }
}

/// As `arborcast status --json`, with what only the page has. Ages are told as times, so that nothing
/// changes while nothing happens.
fn status(facts: &Facts) -> Value {
    let mut status = json::status(&facts.status);
    if let Some(members) = status.as_object_mut() {
        members.remove("uptime_s");
        members.remove("waits_given_up");
    }
    status["started_unix_s"] = facts.started_unix_s.round().into();
    status["experiment_ranks"] = facts.experiments.into();
    status["forgotten_holds"] = facts.forgotten_holds.into();
    status["overdue_stops"] = facts.overdue_stops.into();
    status
}

/// How the page names a target, and asks for it.
pub fn path(target: Target) -> String {
    format!("{}/{}/{}", target.group, target.root, target.class.index())
}

fn target(facts: &TargetFacts, version: Option<u64>) -> Value {
    let finding = facts.finding.as_deref();
    let plan = finding.map(|finding| {
        json!({
            "text": describe(&finding.plan), "is_native": finding.plan.striping().is_none(),
            "median_s": finding.times.median_s, "is_measured": finding.times.is_measured(),
            "native_s": finding.native.map(|native| native.median_s), "limit_s": finding.limit_s,
            "trials": finding.trials,
        })
    });
    json!({
        "path": path(facts.target), "version": version, "group": facts.target.group.to_string(),
        "nodes": facts.nodes, "root": facts.root, "size": facts.target.class.to_string(),
        "bytes": facts.bytes, "broadcasts": facts.broadcasts, "used_unix_s": facts.used_unix_s,
        "native_at_least_s": facts.native_at_least_s,
        "in_use_s": facts.in_use.map(|times| times.median_s), "plan": plan,
    })
}

fn event(event: &Event, facts: &Facts) -> Value {
    let kind = match event.kind {
        Kind::Daemon => "daemon",
        Kind::Experiment => "experiment",
        Kind::Plan => "plan",
        Kind::Links => "links",
        Kind::Hold => "hold",
    };
    let known = event.target.and_then(|t| facts.targets.iter().find(|known| known.target == t));
    let name = known.map(|known| format!("{}/{}", known.root, known.target.class));
    json!({
        "number": event.number, "unix_s": event.unix_s, "kind": kind, "text": event.text,
        "target": name.or(event.target.map(|target| target.to_string())),
        "path": known.map(|known| path(known.target)),
    })
}
