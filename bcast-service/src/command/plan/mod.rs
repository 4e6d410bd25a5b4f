//! `arborcast plan`: what the planner would do on a matrix of links, and what it would do if some of them
//! were better or worse. Asks no daemon, and measures nothing: times are the model's.

mod matrix_file;
mod what_if;

use super::{json, print_table, table};
use arborcast_draw::tree::Labels;
use arborcast_draw::units;
use arborcast_planner::model::assumed_sites;
use arborcast_planner::model::bounds::binding::{Binding, Bottleneck, binding};
use arborcast_planner::model::simulate::Finish;
use arborcast_planner::propose::propose;
use arborcast_planner::propose::site_plan::USUAL_PACING;
use arborcast_planner::{Network, limit_s, simulate};
use arborcast_proto::{Group, Plan};
pub(crate) use matrix_file::MatrixFile;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use std::path::PathBuf;
pub use what_if::WhatIf;

/// Equal questions have equal answers.
const SEED: u64 = 1;

/// What is a smaller part of the bound does not bind.
pub(crate) const MATTERS: f64 = 0.01;

/// Why nothing can be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is no answer of `arborcast matrix --json`: {reason}")]
    Form { path: PathBuf, reason: String },
    #[error("there is no node {name}; the nodes are {nodes}")]
    NoNode { name: String, nodes: String },
    #[error("--set {change}: {reason}")]
    Change { change: String, reason: String },
}

/// What is to be planned.
#[derive(Debug, Clone)]
pub struct Question {
    pub matrix: PathBuf,
    /// The first digits of the group, where the file has several.
    pub group: Option<String>,
    pub root: String,
    pub bytes: u64,
    pub what_if: Vec<WhatIf>,
    /// Seconds without a broadcast before each, after which connections begin anew.
    pub pause_s: f64,
    /// Whether every pair of nodes is taken to have a link of its own.
    pub unshared: bool,
}

/// What the planner makes of a network.
pub(crate) struct Proposal {
    network: Network,
    plan: Plan,
    pub(crate) predicted: Finish,
    pub(crate) bound_s: f64,
    pub(crate) binding: Option<Binding>,
    binomial_s: f64,
}

pub(crate) fn plan_on(network: Network, root: usize, bytes: u64) -> Proposal {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let best = propose(&network, root, bytes, USUAL_PACING, &mut random).swap_remove(0);
    Proposal {
        bound_s: limit_s(&network, root, bytes),
        binding: binding(&network, root, bytes),
        binomial_s: simulate(&network, &Plan::Native, root, bytes),
        plan: best.plan,
        predicted: best.predicted,
        network,
    }
}

/// # Errors
/// Where the file, the root or a change cannot be used.
pub fn plan(question: &Question, as_json: bool) -> Result<String, PlanError> {
    let mut file = MatrixFile::read(&question.matrix, question.group.as_deref())?;
    let root = file.index_of(&question.root)?;
    // As measured: a change makes no other sites.
    let site_of = match question.unshared {
        true => (0..file.group.len()).collect(),
        false => assumed_sites::sites(&file.links),
    };
    let propose = |file: &MatrixFile| {
        let network = match question.unshared {
            true => Network::from_links(&file.links),
            false => assumed_sites::network(&file.links, &site_of),
        };
        plan_on(network.after_pause(question.pause_s), root, question.bytes)
    };
    let before = propose(&file);
    let mut after = None;
    if !question.what_if.is_empty() {
        for change in &question.what_if {
            change.apply(&mut file, &site_of)?;
        }
        after = Some(propose(&file));
    }
    let names = Names { group: &file.group, network: &before.network };
    Ok(match as_json {
        true => json::print(&names.json(question, &before, after.as_ref())),
        false => names.text(question, &before, after.as_ref()),
    })
}

/// Nodes and sites by name.
pub(crate) struct Names<'a> {
    pub(crate) group: &'a Group,
    pub(crate) network: &'a Network,
}

impl Names<'_> {
    pub(crate) fn node(&self, node: usize) -> String {
        self.group.nodes().get(node).map_or_else(|| node.to_string(), ToString::to_string)
    }

    /// A site by its nodes: the first and the last of several.
    pub(crate) fn site(&self, site: usize) -> String {
        match self.network.members()[site][..] {
            [] => site.to_string(),
            [one] => self.node(one),
            [first, .., last] => format!("{}…{}", self.node(first), self.node(last)),
        }
    }

    pub(crate) fn part(&self, part: Bottleneck) -> String {
        match part {
            Bottleneck::Sender(node) => format!("what {} sends", self.node(node)),
            Bottleneck::Receiver(node) => format!("what {} receives", self.node(node)),
            Bottleneck::Egress(site) => format!("what {} send to all others", self.site(site)),
            Bottleneck::Ingress(site) => {
                format!("what {} receive from all others", self.site(site))
            }
            Bottleneck::Link(a, b) if a == b => format!("inside {}", self.site(a)),
            Bottleneck::Link(a, b) => format!("{} → {}", self.site(a), self.site(b)),
        }
    }

    fn text(&self, question: &Question, before: &Proposal, after: Option<&Proposal>) -> String {
        let changes: Vec<String> = question.what_if.iter().map(ToString::to_string).collect();
        let head = format!(
            "{} from {} to {} nodes in {} sites\n",
            units::bytes(question.bytes),
            question.root,
            self.network.len(),
            self.network.sites().len()
        );
        let Some(after) = after else { return head + &self.proposal(question, before) };
        let faster = before.predicted.acknowledged_s / after.predicted.acknowledged_s;
        format!(
            "{head}\nas measured\n{}\nwith {}: {faster:.2} × as fast\n{}",
            self.proposal(question, before),
            changes.join(" and "),
            self.proposal(question, after)
        )
    }

    fn proposal(&self, question: &Question, proposal: &Proposal) -> String {
        let Proposal { predicted, bound_s, binomial_s, .. } = proposal;
        let mut table = table(&[]);
        let mut row = |name: &str, value: String| {
            table.add_row([name, &value]);
        };
        let distance = predicted.acknowledged_s / bound_s;
        row("predicted", units::seconds(predicted.acknowledged_s));
        row("bound", format!("{} ({distance:.2} ×)", units::seconds(*bound_s)));
        row("binomial tree", units::seconds(*binomial_s));
        if let Some(binding) = &proposal.binding {
            let bytes_s = question.bytes as f64 / binding.rate;
            row("binds", self.bound(binding, bytes_s));
            let matter = bytes_s > MATTERS * bound_s;
            for (part, rate) in binding.cut.iter().filter(|_| matter) {
                row("", format!("{}: {}", self.part(*part), units::rate(*rate)));
            }
        }
        print_table(&table) + &self.trees(&proposal.plan)
    }

    /// The parts of the bound.
    fn bound(&self, binding: &Binding, bytes_s: f64) -> String {
        let way: Vec<String> = binding.way.iter().map(|&site| self.site(site)).collect();
        format!(
            "{}: {} on the way {}, {} for its ACK, {} for the bytes at {}, the most that reaches it, {} since not \
             all of that takes the shortest way",
            self.node(binding.node),
            units::seconds(binding.reach_s),
            way.join(" → "),
            units::seconds(binding.ack_s),
            units::seconds(bytes_s),
            units::rate(binding.rate),
            units::seconds(binding.detours_s)
        )
    }

    fn trees(&self, plan: &Plan) -> String {
        let Some(striping) = plan.striping() else { return "native\n".into() };
        let shares: u32 = striping.stripes().iter().map(|stripe| u32::from(stripe.share)).sum();
        let node = |index: usize| self.node(index);
        let labels = Labels { node: &node, edge: &|_, _| None };
        let mut text = String::new();
        for stripe in striping.stripes() {
            let percent = 100.0 * f64::from(stripe.share) / f64::from(shares);
            let segment = units::bytes(striping.segment_bytes().into());
            text.push_str(&format!("{percent:.0} % of the message in segments of {segment}:\n"));
            text.push_str(&arborcast_draw::tree::text(&stripe.tree, &labels));
        }
        text
    }

    fn json(&self, question: &Question, before: &Proposal, after: Option<&Proposal>) -> Value {
        let changes: Vec<String> = question.what_if.iter().map(ToString::to_string).collect();
        let faster =
            after.map(|after| before.predicted.acknowledged_s / after.predicted.acknowledged_s);
        let members = self.network.members();
        let sites: Vec<Vec<String>> = members
            .iter()
            .map(|nodes| nodes.iter().map(|&node| self.node(node)).collect())
            .collect();
        json!({
            "group": self.group.hash().to_string(), "sites": sites, "root": question.root,
            "bytes": question.bytes, "pause_s": question.pause_s,
            "as_measured": self.proposal_json(before), "set": changes,
            "what_if": after.map(|after| self.proposal_json(after)), "times_as_fast": faster,
        })
    }

    fn proposal_json(&self, proposal: &Proposal) -> Value {
        let Proposal { plan, predicted, bound_s, binding, binomial_s, .. } = proposal;
        let binds = binding.as_ref().map(|binding| {
            let cut: Vec<Value> =
                binding.cut.iter().map(|(part, rate)| self.part_json(*part, *rate)).collect();
            json!({
                "node": self.node(binding.node), "way": binding.way, "reach_s": binding.reach_s,
                "ack_s": binding.ack_s, "bytes_per_s": binding.rate, "detours_s": binding.detours_s,
                "cut": cut,
            })
        });
        json!({
            "plan": json::plan(plan, self.group), "predicted_s": predicted.acknowledged_s,
            "delivered_s": predicted.delivered_s, "bound_s": bound_s, "binomial_s": binomial_s,
            "binds": binds,
        })
    }

    /// Sites by their places in `sites`.
    fn part_json(&self, part: Bottleneck, bytes_per_s: f64) -> Value {
        let (kind, from, to) = match part {
            Bottleneck::Sender(node) => ("sender", json!(self.node(node)), Value::Null),
            Bottleneck::Receiver(node) => ("receiver", Value::Null, json!(self.node(node))),
            Bottleneck::Egress(site) => ("egress", json!(site), Value::Null),
            Bottleneck::Ingress(site) => ("ingress", Value::Null, json!(site)),
            Bottleneck::Link(a, b) => ("link", json!(a), json!(b)),
        };
        json!({ "kind": kind, "from": from, "to": to, "bytes_per_s": bytes_per_s })
    }
}
