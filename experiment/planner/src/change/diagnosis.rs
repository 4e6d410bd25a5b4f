//! Which part of the network explains that edges have become slower: the smallest that they have in common.

use super::cusum::Cusum;
use super::links::Links;
use super::{Change, Delivery, Edge, History, median};
use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What has to be left of a rate at most for the model to be changed: the estimate is no better.
const FALLEN: f64 = 0.8;

/// A part of the network of which this part was not used has fallen only where what passes it takes this multiple of
/// its usual time.
const USED: f64 = 0.5;
const FAR_SLOWER: f64 = 2.0;

/// An edge that is not slow speaks against what it passes as much as one that may become an alarm speaks for it.
const INNOCENT: f64 = 1.0;
/// Nor is one slow by the same cause that has not become slower by this part, as a logarithm, of the slowest: where
/// broadcasts take longer, connections rest longer, and start anew.
const AS_SLOW: f64 = 0.5;

type Edges = BTreeMap<Edge, History>;

/// What has changed, if an edge has raised an alarm.
pub(super) fn change(edges: &mut Edges, links: &mut Links, network: &Network) -> Option<Change> {
    if edges.values().any(|history| history.slower.is_alarm()) {
        links.forget_alarms();
        let found = rate(edges, network);
        match found {
            Some(_) => {
                links.forget_slower(edges.keys(), network);
                edges.values_mut().for_each(|history| history.slower = Cusum::default());
            }
            None => forget_what_is_suspicious(edges),
        }
        return found;
    }
    // Where pieces come slowly, the first of those that are passed on comes late as well.
    let is_slower = edges.values().any(|history| history.slower.is_suspicious());
    let mut late = edges.iter().filter(|(_, history)| history.later.is_alarm()).peekable();
    let is_late = late.peek().is_some() && !late.any(|(edge, _)| links.may_queue(edge, network));
    if !is_slower && is_late {
        links.forget_alarms();
        let found = latency(edges, network);
        edges.values_mut().for_each(|history| history.later = Cusum::default());
        return found;
    }
    None
}

/// Nothing explains it: what was taken for usual was not, and how late what comes so is passed on neither.
fn forget_what_is_suspicious(edges: &mut Edges) {
    let is_suspicious = |(_, history): &(&Edge, &History)| history.slower.is_suspicious();
    let reached: HashSet<usize> =
        edges.iter().filter(is_suspicious).map(|(edge, _)| edge.to).collect();
    for (edge, history) in edges {
        if history.slower.is_suspicious() {
            history.forget_transfers();
        }
        if reached.contains(&edge.from) {
            history.forget_leads();
        }
    }
}

fn rate(edges: &Edges, network: &Network) -> Option<Change> {
    let parameter = explains_most(edges, network)?;
    let passing = || edges.iter().filter(|(edge, _)| passes(edge, parameter, network));
    // Over a link that is slow by itself nobody sees that an interface has fallen.
    let shows = |(edge, history): &(&Edge, &History)| {
        (network.rate(edge.from, edge.to), history.slower.sum())
    };
    let slow = passing().filter(|(_, history)| history.slower.is_suspicious());
    let (worst, _) = slow.max_by(|a, b| {
        let ((rate_a, sum_a), (rate_b, sum_b)) = (shows(a), shows(b));
        rate_a.total_cmp(&rate_b).then(sum_a.total_cmp(&sum_b))
    })?;
    let longest_s = |of: fn(&History) -> Option<Seconds>| {
        passing().filter_map(|(_, history)| of(history)).fold(0.0, f64::max)
    };
    let usual_s = longest_s(|history| median(&history.transfer_s));
    let now_s = longest_s(|history| history.last.as_ref().map(Delivery::seconds));
    let value = rate_through(edges, parameter, network);
    let slower = now_s / usual_s;
    // What plans leave unused of it is not what it has lost; and what they use little of would hardly fall to just
    // below that.
    let is_used = USED * parameter.of(network) < value * slower;
    let is_fallen = value > 0.0
        && value < FALLEN * parameter.of(network)
        && slower > if is_used { 1.0 / FALLEN } else { FAR_SLOWER };
    is_fallen.then_some(Change { parameter, value, between: (worst.from, worst.to) })
}

/// What passed a part of the network in the last broadcast, in bytes per second of the longest time for which a node
/// received of it, by that node's own clock.
fn rate_through(edges: &Edges, parameter: Parameter, network: &Network) -> f64 {
    let mut bytes = 0;
    let mut received_ns: HashMap<usize, (u64, u64)> = HashMap::new();
    for (edge, history) in edges.iter().filter(|(edge, _)| passes(edge, parameter, network)) {
        let Some(last) = &history.last else { continue };
        bytes += last.bytes;
        let (first_ns, last_ns) =
            received_ns.entry(edge.to).or_insert((last.first_ns, last.last_ns));
        (*first_ns, *last_ns) = ((*first_ns).min(last.first_ns), (*last_ns).max(last.last_ns));
    }
    let longest_ns = received_ns.values().map(|(first_ns, last_ns)| last_ns - first_ns).max();
    bytes as f64 * 1e9 / longest_ns.unwrap_or(0) as f64
}

/// The part of the network which what is slow passes the most, and what is not the least; of equal ones the first of
/// [`parameters`]. `None` where more speaks against each than for it.
fn explains_most(edges: &Edges, network: &Network) -> Option<Parameter> {
    // How much slower the slowest of what passes each part has become.
    let mut worst: HashMap<Parameter, (f64, usize)> = HashMap::new();
    for (edge, history) in edges.iter().filter(|(_, history)| history.slower.is_suspicious()) {
        for (place, parameter) in parameters(edge, network).into_iter().enumerate() {
            if passes(edge, parameter, network) {
                let (most, _) = worst.entry(parameter).or_insert((0.0, place));
                *most = most.max(history.slower_by);
            }
        }
    }
    let blame = |parameter: Parameter, most: f64| -> f64 {
        let passing = edges.iter().filter(|(edge, _)| passes(edge, parameter, network));
        let speaks = |history: &History| {
            let is_as_slow = history.slower_by >= AS_SLOW * most;
            if history.slower.is_suspicious() && is_as_slow {
                history.slower.sum()
            } else {
                -INNOCENT
            }
        };
        // What others follow is slower than they are.
        most * passing.map(|(_, history)| speaks(history)).sum::<f64>()
    };
    let blamed = worst
        .into_iter()
        .map(|(parameter, (most, place))| (blame(parameter, most), Reverse(place), parameter));
    let (blame, _, parameter) = blamed.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
    (blame > 0.0).then_some(parameter)
}

/// Whose rates an edge may go by.
fn parameters(edge: &Edge, network: &Network) -> [Parameter; 5] {
    let (from, to) = (network.site_of(edge.from), network.site_of(edge.to));
    [
        Parameter::LinkRate { from, to },
        Parameter::Egress(from),
        Parameter::Ingress(to),
        Parameter::Send(edge.from),
        Parameter::Receive(edge.to),
    ]
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
    // Others over the same link say the same, and what else the sender sends is not as late, or it is a node.
    let (passing, others): (Vec<_>, Vec<_>) =
        edges.iter().partition(|(edge, _)| passes(edge, parameter, network));
    let (yes, no): (Vec<_>, Vec<_>) =
        passing.into_iter().partition(|(_, history)| history.later.is_suspicious());
    let added_s = history.added_s();
    let of_sender = others.into_iter().filter(|(edge, _)| edge.from == worst.from);
    let (as_late, in_time): (Vec<_>, Vec<_>) =
        of_sender.partition(|(_, history)| history.added_s() > added_s / 2.0);
    let is_link = yes.len() > no.len() && as_late.len() <= in_time.len();
    let value = parameter.of(network) + added_s;
    (is_link && added_s > 0.0).then_some(Change {
        parameter,
        value,
        between: (worst.from, worst.to),
    })
}
