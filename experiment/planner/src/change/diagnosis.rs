//! Which part of the network explains that edges have become slower: the smallest that they have in common.

use super::{Change, Edge, History};
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use std::collections::{BTreeMap, HashMap};

/// What has to be left of a rate at most for the model to be changed: the estimate is no better.
const FALLEN: f64 = 0.8;

type Edges = BTreeMap<Edge, History>;

/// What has changed, if an edge has raised an alarm. Where nothing that the model knows explains it, the alarm
/// is forgotten.
pub(super) fn change(edges: &mut Edges, network: &Network) -> Option<Change> {
    if edges.values().any(|history| history.slower.is_alarm()) {
        let found = rate(edges, network);
        if found.is_none() {
            edges.values_mut().for_each(|history| history.slower = Default::default());
        }
        return found;
    }
    if edges.values().any(|history| history.later.is_alarm()) {
        let found = latency(edges, network);
        if found.is_none() {
            edges.values_mut().for_each(|history| history.later = Default::default());
        }
        return found;
    }
    None
}

fn rate(edges: &Edges, network: &Network) -> Option<Change> {
    let slow: Vec<(&Edge, &History)> =
        edges.iter().filter(|(_, history)| history.slower.is_suspicious()).collect();
    let worst = slow.iter().max_by(|a, b| a.1.slower.sum().total_cmp(&b.1.slower.sum()))?.0;
    let parameter = explains(&slow, edges, network).unwrap_or(Parameter::LinkRate {
        from: network.site_of(worst.from),
        to: network.site_of(worst.to),
    });
    let value = rate_through(edges, parameter, network);
    let is_fallen = value > 0.0 && value < FALLEN * parameter.of(network);
    is_fallen.then_some(Change { parameter, value, between: (worst.from, worst.to) })
}

/// What passed a part of the network in the last broadcast, in bytes per second of the longest time for which a node
/// received of it, by that node's own clock.
fn rate_through(edges: &Edges, parameter: Parameter, network: &Network) -> f64 {
    let mut bytes = 0;
    let mut received_ns: HashMap<usize, (u64, u64)> = HashMap::new();
    for (edge, history) in edges.iter().filter(|(edge, _)| passes(edge, parameter, network)) {
        let Some(last) = history.last else { continue };
        bytes += last.bytes;
        let (first_ns, last_ns) =
            received_ns.entry(edge.to).or_insert((last.first_ns, last.last_ns));
        (*first_ns, *last_ns) = ((*first_ns).min(last.first_ns), (*last_ns).max(last.last_ns));
    }
    let longest_ns = received_ns.values().map(|(first_ns, last_ns)| last_ns - first_ns).max();
    bytes as f64 * 1e9 / longest_ns.unwrap_or(0) as f64
}

/// The one thing that all slow edges pass, and that few others do; `None` where that is just the link of one.
fn explains(slow: &[(&Edge, &History)], edges: &Edges, network: &Network) -> Option<Parameter> {
    let site = |node| network.site_of(node);
    let (first, _) = slow.first()?;
    let (from, to) = (site(first.from), site(first.to));
    let candidates = [
        Parameter::LinkRate { from, to },
        Parameter::Egress(from),
        Parameter::Ingress(to),
        Parameter::Send(first.from),
        Parameter::Receive(first.to),
    ];
    let explains_all =
        |parameter: &Parameter| slow.iter().all(|(edge, _)| passes(edge, *parameter, network));
    // What passes it and is not slow speaks against it.
    let innocent = |parameter: &Parameter| {
        let passing = edges.iter().filter(|(edge, _)| passes(edge, *parameter, network));
        passing.filter(|(_, history)| !history.slower.is_suspicious()).count()
    };
    candidates.into_iter().filter(explains_all).min_by_key(innocent)
}

fn passes(edge: &Edge, parameter: Parameter, network: &Network) -> bool {
    let (from, to) = (network.site_of(edge.from), network.site_of(edge.to));
    match parameter {
        Parameter::LinkRate { from: a, to: b } | Parameter::LinkLatency { from: a, to: b } => {
            (from, to) == (a, b)
        }
        Parameter::Egress(site) => from == site && to != site,
        Parameter::Ingress(site) => to == site && from != site,
        Parameter::Send(node) => edge.from == node,
        Parameter::Receive(node) => edge.to == node,
    }
}

fn latency(edges: &Edges, network: &Network) -> Option<Change> {
    let later: Vec<_> = edges.iter().filter(|(_, history)| history.later.is_alarm()).collect();
    let (worst, history) =
        later.into_iter().max_by(|a, b| a.1.added_s().total_cmp(&b.1.added_s()))?;
    let (from, to) = (network.site_of(worst.from), network.site_of(worst.to));
    let parameter = Parameter::LinkLatency { from, to };
    // Others over the same link say the same, or it is a node.
    let passing = edges.iter().filter(|(edge, _)| passes(edge, parameter, network));
    let (yes, no): (Vec<_>, Vec<_>) =
        passing.partition(|(_, history)| history.later.is_suspicious());
    let added_s = history.added_s();
    let value = parameter.of(network) + added_s;
    (yes.len() > no.len() && added_s > 0.0).then_some(Change {
        parameter,
        value,
        between: (worst.from, worst.to),
    })
}
