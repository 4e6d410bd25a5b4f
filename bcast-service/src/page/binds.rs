//! What limits each target, and what a better link would bring: by the planner's model of the links, on a
//! thread of its own, once for each measurement of the links.

use super::desk::lock;
use super::sites::short;
use super::view::{GroupView, path};
use crate::command::plan::{MATTERS, MatrixFile, Names, plan_on};
use arborcast_planner::model::assumed_sites;
use arborcast_planner::model::bounds::binding::{Bottleneck, binding};
use arborcast_planner::{Network, limit_s};
use arborcast_proto::{LinkMatrix, Target};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most recent ones.
pub const MAX_TARGETS: usize = 32;
/// Parts of a cut that are doubled one by one.
const MAX_PARTS: usize = 4;
/// In larger groups trees take too long to propose; there the bounds are compared.
const MAX_PLANNED_NODES: usize = 64;

/// After each answer, in times of what it took.
const PAUSES: u32 = 9;
/// So that a page that is closed and opened again does not wait for the answer to another one.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// A target of which it is to be told what binds it.
#[derive(Clone)]
pub struct Question {
    pub target: Target,
    pub root: String,
    pub bytes: u64,
    pub group: Arc<GroupView>,
}

impl Question {
    /// The same key has the same answer.
    fn key(&self) -> Key {
        (self.group.version, self.bytes)
    }

    fn name(&self) -> Value {
        json!({
            "path": path(self.target), "root": self.root, "size": self.target.class.to_string(),
            "bytes": self.bytes,
        })
    }
}

type Key = (u64, u64);

/// What has been found out.
#[derive(Default)]
pub struct Known(HashMap<Target, (Key, Arc<Value>)>);

impl Known {
    fn answer(&self, question: &Question) -> Option<&Arc<Value>> {
        let known = self.0.get(&question.target).filter(|(key, _)| *key == question.key());
        known.map(|(_, answer)| answer)
    }

    /// Where it is not known yet, the target's name alone.
    pub fn rows(&self, questions: &[Question]) -> Value {
        let row = |question: &Question| {
            self.answer(question).map_or_else(|| question.name(), |answer| Value::clone(answer))
        };
        questions.iter().map(row).collect()
    }
}

/// The answers, and whether somebody works on more.
#[derive(Default)]
pub struct Binds {
    known: Mutex<Known>,
    is_busy: AtomicBool,
}

impl Binds {
    pub fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// What is to be computed, if anything; whoever takes it calls [`Binds::compute`].
    pub fn work(&self, questions: &[Question]) -> Option<Vec<Question>> {
        let mut known = self.known();
        known.0.retain(|target, _| questions.iter().any(|question| question.target == *target));
        let open: Vec<_> =
            questions.iter().filter(|q| known.answer(q).is_none()).cloned().collect();
        (!open.is_empty() && !self.is_busy.swap(true, Ordering::Relaxed)).then_some(open)
    }

    /// Answers as long as it `is_wanted`, and takes a tenth of a core at most while there is more to do.
    pub fn compute(&self, work: Vec<Question>, is_wanted: impl Fn() -> bool) {
        let mut pause = Duration::ZERO;
        for question in work {
            std::thread::sleep(pause);
            if !is_wanted() {
                break;
            }
            let start = Instant::now();
            let answer = Arc::new(answer(&question));
            self.known().0.insert(question.target, (question.key(), answer));
            pause = (PAUSES * start.elapsed()).min(MAX_PAUSE);
        }
        self.is_busy.store(false, Ordering::Relaxed);
    }
}

/// What the model says of a network: what no broadcast can beat, and what its best plan takes, where that is
/// computed.
struct Times {
    bound_s: f64,
    predicted_s: Option<f64>,
}

fn times(network: &Network, root: usize, bytes: u64, is_planned: bool) -> Times {
    if !is_planned {
        return Times { bound_s: limit_s(network, root, bytes), predicted_s: None };
    }
    let proposal = plan_on(network.clone(), root, bytes);
    Times { bound_s: proposal.bound_s, predicted_s: Some(proposal.predicted.acknowledged_s) }
}

fn answer(question: &Question) -> Value {
    let Question { target, bytes, group: view, .. } = question;
    let (root, site_of) = (usize::from(target.root), &view.sites.site_of);
    let network = assumed_sites::network(&view.links, site_of);
    let mut answer = question.name();
    let Some(binding) = binding(&network, root, *bytes) else { return answer };
    let is_planned = network.len() <= MAX_PLANNED_NODES;
    let before = times(&network, root, *bytes, is_planned);
    let names = Names { group: &view.group, network: &network };
    let bytes_s = *bytes as f64 / binding.rate;
    let is_latency = bytes_s <= MATTERS * before.bound_s;
    let gain = |parts: &[Bottleneck], is_planned: bool| {
        let links = doubled(view, parts)?;
        let after = times(&assumed_sites::network(&links, site_of), root, *bytes, is_planned);
        let predicted = before.predicted_s.zip(after.predicted_s);
        Some(json!({
            "bound_times": short(before.bound_s / after.bound_s),
            "predicted_times": predicted.map(|(before, after)| short(before / after)),
        }))
    };
    let parts: Vec<Bottleneck> = binding.cut.iter().map(|(part, _)| *part).collect();
    let all_doubled = if is_latency { None } else { gain(&parts, is_planned) };
    let part = |(part, rate): &(Bottleneck, f64)| {
        // A plan for each would take too long.
        let doubled = if parts.len() == 1 { all_doubled.clone() } else { gain(&[*part], false) };
        json!({
            "part": names.part(*part), "bytes_per_s": rate, "set": setting(&names, *part),
            "doubled": doubled,
        })
    };
    let shown = if is_latency { 0 } else { MAX_PARTS };
    let cut: Vec<Value> = binding.cut.iter().take(shown).map(part).collect();
    let way: Vec<String> = binding.way.iter().map(|&site| names.site(site)).collect();
    answer["bound_s"] = before.bound_s.into();
    answer["predicted_s"] = before.predicted_s.into();
    answer["node"] = names.node(binding.node).into();
    answer["way"] = way.into();
    answer["reach_s"] = binding.reach_s.into();
    answer["ack_s"] = binding.ack_s.into();
    answer["bytes_s"] = short(bytes_s);
    answer["bytes_per_s"] = short(binding.rate);
    answer["detours_s"] = short(binding.detours_s);
    answer["is_latency"] = is_latency.into();
    answer["all_doubled"] = all_doubled.unwrap_or(Value::Null);
    answer["cut"] = cut.into();
    answer["left_out_parts"] = parts.len().saturating_sub(MAX_PARTS).into();
    answer
}

/// The links with twice the rate in each of `parts`. What joins two sites gets it in both directions, as with
/// `arborcast plan --set`.
fn doubled(view: &GroupView, parts: &[Bottleneck]) -> Option<LinkMatrix> {
    let site = |node: usize| view.sites.site_of[node];
    let is_meant = |from: usize, to: usize, part: &Bottleneck| match *part {
        Bottleneck::Sender(node) => from == node,
        Bottleneck::Receiver(node) => to == node,
        Bottleneck::Egress(at) | Bottleneck::Ingress(at) => (site(from) == at) != (site(to) == at),
        Bottleneck::Link(a, b) => [(a, b), (b, a)].contains(&(site(from), site(to))),
    };
    let mut file = MatrixFile { group: view.group.clone(), links: LinkMatrix::clone(&view.links) };
    file.change(|from, to| {
        let is_doubled = from != to && parts.iter().any(|part| is_meant(from, to, part));
        let (latency_s, rate) = (view.links.latency_s(from, to), view.links.rate(from, to));
        is_doubled.then_some((latency_s, 2.0 * rate))
    })
    .ok()?;
    Some(file.links)
}

/// How `arborcast plan --set` says it, where it can.
fn setting(names: &Names<'_>, part: Bottleneck) -> Option<String> {
    let first = |site: usize| names.network.members()[site].first().map(|node| names.node(*node));
    match part {
        Bottleneck::Link(a, b) if a != b => Some(format!("{}-{}=x2", first(a)?, first(b)?)),
        Bottleneck::Egress(site) | Bottleneck::Ingress(site) => {
            Some(format!("{}-*=x2", first(site)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::sites::Sites;
    use arborcast_planner::grids;
    use arborcast_proto::{Group, NodeName, SizeClass};

    fn question(network: &Network, bytes: u64) -> Question {
        let name = |node: usize| NodeName::new(format!("n{node:04}")).unwrap();
        let group = Group::new((0..network.len()).map(name).collect()).unwrap();
        let links = Arc::new(network.to_links());
        let target = Target { group: group.hash(), root: 0, class: SizeClass::of(bytes) };
        let sites = Sites::of_links(&group, &links);
        let group = Arc::new(GroupView { group, links, sites, json: "".into(), version: 1 });
        Question { target, root: "n0000".into(), bytes, group }
    }

    #[test]
    fn of_long_messages_links_bind_and_of_short_ones_latency() {
        let mesh = grids::four_site_mesh();
        let long = answer(&question(&mesh, 32 << 20));
        assert_eq!(
            (&long["is_latency"], long["bytes_per_s"].as_f64()),
            (&json!(false), Some(16.25e6))
        );
        // 130 Mbit/s into a site: all links of the cut together have to be better.
        let (all, one) = (&long["all_doubled"], &long["cut"][0]["doubled"]);
        assert!(all["bound_times"].as_f64() > Some(1.15), "{all}");
        assert!(all["bound_times"].as_f64() > one["bound_times"].as_f64(), "{long:#}");
        assert!(all["predicted_times"].as_f64() > Some(1.15), "{all}");
        assert!(long["cut"][0]["set"].as_str().unwrap().ends_with("=x2"), "{long:#}");
        let short = answer(&question(&mesh, 1));
        assert_eq!(short["is_latency"], json!(true));
    }

    #[test]
    fn everything_is_answered_once_and_again_where_the_links_are_others() {
        let binds = Binds::default();
        let mut questions = [question(&grids::four_site_mesh(), 1 << 20)];
        assert_eq!(binds.known().rows(&questions)[0]["bound_s"], Value::Null, "not known yet");
        let work = binds.work(&questions).unwrap();
        assert!(binds.work(&questions).is_none(), "somebody works on it");
        binds.compute(work, || true);
        assert!(binds.known().rows(&questions)[0]["bound_s"].is_f64());
        assert!(binds.work(&questions).is_none());
        let group = &questions[0].group;
        questions[0].group = Arc::new(GroupView {
            group: group.group.clone(),
            links: group.links.clone(),
            sites: Sites::of_links(&group.group, &group.links),
            json: "".into(),
            version: 2,
        });
        binds.compute(binds.work(&questions).unwrap(), || false);
        assert!(binds.work(&questions).is_some(), "nobody wanted it then");
    }
}
