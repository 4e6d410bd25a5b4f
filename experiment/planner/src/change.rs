//! How the network changes under the broadcasts of applications, from what their nodes saw of them.
//!
//! Each node of a tree says when its first and its last piece came. How long the pieces took says the rate of
//! its edge, wherever its parent had them faster; how much later than the parent's the first one came says the
//! latency, up to the difference of two clocks, which hardly changes. Both are compared with what they were
//! under the same plan, since that depends on the plan, on how it is paced, and on how TCP starts; at its beginning with
//! what the model expects of it, which may be as wrong as the network has changed unseen. A node whose program or
//! processor was late says nothing of the network.

pub mod broadcasts;
mod cusum;
mod diagnosis;
pub mod links;
pub mod sightings;

use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use arborcast_proto::message::Times;
use arborcast_proto::{DeliveryReport, StripeDelivery};
use broadcasts::{Broadcasts, Reports};
use cusum::Cusum;
use links::{Deviation, Links};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What an edge did under the last broadcasts is what is usual for it; fewer say nothing.
const USUAL: usize = 15;
const LEAST_USUAL: usize = 3;
/// A transfer that is shorter than this, or than this part of the broadcast's longest, is noise of processors, and
/// matters little.
const NOISE_S: Seconds = 1e-3;
const NOISE_PART: f64 = 0.05;
/// A latency that grows by less than this, or by this part of the longest transfer, or by this multiple of what it is
/// usually off its median by, is none that matters.
const LATENCY_S: Seconds = 4e-3;
const LATENCY_PART: f64 = 0.1;
const LATENCY_NOISE: f64 = 8.0;

/// What is usual of so many plans is kept beside that of the one in use.
const PLANS_BEFORE: usize = 3;

/// The model is wrong of a new plan's edge by no more than this factor; what takes longer is a change that nobody saw.
const LIKELY: f64 = 2.0;

/// A processor that usually has other work for more of the time than this tells nothing of what is unusual.
const MOST_SHARED: f64 = 0.9;

/// Something of the network is no longer what it was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    pub parameter: Parameter,
    pub value: f64,
    /// Two nodes between which it shows.
    pub between: (usize, usize),
}

impl Change {
    #[must_use]
    pub fn apply(&self, network: &Network) -> Network {
        self.parameter.set(network, self.value)
    }
}

/// Two nodes between which the plan sends, along one tree or several: over one connection, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Edge {
    from: usize,
    to: usize,
}

/// What a node saw of some trees' shares, taken together.
#[derive(Debug, Clone)]
struct Delivery {
    stripes: Vec<u8>,
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Delivery {
    fn of(seen: impl IntoIterator<Item = StripeDelivery>) -> Option<Self> {
        seen.into_iter().map(Delivery::from).reduce(Delivery::with)
    }

    fn with(mut self, other: Self) -> Self {
        self.stripes.extend(other.stripes);
        self.bytes += other.bytes;
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self
    }

    fn seconds(&self) -> Seconds {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }
}

impl From<StripeDelivery> for Delivery {
    fn from(seen: StripeDelivery) -> Self {
        let StripeDelivery { stripe, bytes, first_ns, last_ns, .. } = seen;
        Delivery { stripes: vec![stripe], bytes, first_ns, last_ns }
    }
}

/// What an edge did.
#[derive(Debug, Default)]
struct History {
    /// From the first piece to the last, of the last broadcasts in which nothing was suspicious.
    transfer_s: VecDeque<Seconds>,
    /// From the parent's first piece to the first, by two clocks.
    lead_s: VecDeque<Seconds>,
    /// What came last, whatever it was.
    last: Option<Delivery>,
    last_lead_s: Seconds,
    slower: Cusum,
    /// The logarithm of how many times longer than usual the last transfer took.
    slower_by: f64,
    later: Cusum,
}

/// The median of what is usual, once that is known.
fn median(values: &VecDeque<Seconds>) -> Option<Seconds> {
    Times::median_of(values.iter().copied()).filter(|_| values.len() >= LEAST_USUAL)
}

/// The median distance from the median.
fn deviation_s(values: &VecDeque<Seconds>) -> Seconds {
    let Some(middle) = median(values) else { return 0.0 };
    median(&values.iter().map(|value| (value - middle).abs()).collect()).unwrap_or(0.0)
}

fn keep(values: &mut VecDeque<Seconds>, value: Seconds) {
    values.push_back(value);
    if values.len() > USUAL {
        values.pop_front();
    }
}

impl History {
    /// How long the pieces took, where the parent's took `of_parent_s` and the longest transfer of the plan usually
    /// takes `longest_s`. What comes no slower than the parent has it says nothing of the edge. Gives how much slower
    /// it was, where that can be told and is more than noise.
    fn note_transfer(
        &mut self,
        transfer_s: Seconds,
        longest_s: Seconds,
        of_parent_s: Seconds,
    ) -> Option<f64> {
        let usual_s = median(&self.transfer_s);
        let noise_s = NOISE_S.max(NOISE_PART * longest_s);
        if let Some(usual_s) = usual_s {
            let excess = (transfer_s + noise_s) / (usual_s.max(of_parent_s) + noise_s);
            self.slower_by = excess.ln();
            self.slower.add(self.slower_by);
        }
        if self.slower.sum() == 0.0 || self.transfer_s.len() < LEAST_USUAL {
            keep(&mut self.transfer_s, transfer_s);
        }
        usual_s.filter(|usual_s| transfer_s.max(*usual_s) > noise_s).map(|_| self.slower_by)
    }

    /// Whether pieces took longer than usual, and than to come to the parent.
    fn is_slow(&self, transfer_s: Seconds, of_parent_s: Seconds) -> bool {
        median(&self.transfer_s).is_some_and(|usual_s| transfer_s > usual_s.max(of_parent_s))
    }

    /// What is usual is learnt anew.
    fn forget_transfers(&mut self) {
        self.transfer_s.clear();
        self.slower = Cusum::default();
    }

    fn forget_leads(&mut self) {
        self.lead_s.clear();
        self.later = Cusum::default();
    }

    /// How much later than to the parent the first piece came; gives by how many times what is noise that is unusual.
    fn note_lead(&mut self, lead_s: Seconds, longest_s: Seconds) -> Option<f64> {
        self.last_lead_s = lead_s;
        let later_by = median(&self.lead_s).map(|usual_s| {
            let noise_s = LATENCY_NOISE * deviation_s(&self.lead_s);
            let unit_s = LATENCY_S.max(LATENCY_PART * longest_s).max(noise_s);
            (lead_s - usual_s) / unit_s
        });
        later_by.into_iter().for_each(|by| self.later.add(by));
        if self.later.sum() == 0.0 || self.lead_s.len() < LEAST_USUAL {
            keep(&mut self.lead_s, lead_s);
        }
        later_by
    }

    fn bytes(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.bytes)
    }

    /// By how much the latency has grown.
    fn added_s(&self) -> Seconds {
        self.last_lead_s - median(&self.lead_s).unwrap_or(self.last_lead_s)
    }
}

/// What each edge did, by what nodes saw.
fn deliveries<'a>(
    reports: impl IntoIterator<Item = &'a DeliveryReport>,
) -> BTreeMap<Edge, Delivery> {
    let mut seen: BTreeMap<Edge, Delivery> = BTreeMap::new();
    for report in reports {
        let to = usize::from(report.node);
        for &stripe in &report.stripes {
            let edge = Edge { from: stripe.from.into(), to };
            let of_others = seen.remove(&edge).into_iter();
            let all = of_others.fold(Delivery::from(stripe), Delivery::with);
            // The root's own are no transfer.
            seen.extend((edge.from != to).then_some((edge, all)));
        }
    }
    seen
}

/// What is usual of broadcasts along a plan.
#[derive(Debug, Default)]
struct Usual {
    edges: BTreeMap<Edge, History>,
    /// For which part of the last broadcasts the processor of each node had other work.
    processor_wait: HashMap<usize, VecDeque<f64>>,
}

impl Usual {
    /// Whether it was along the same plan, and of the same size.
    fn has(&self, seen: &BTreeMap<Edge, Delivery>) -> bool {
        let bytes = |edge: &Edge| self.edges.get(edge).and_then(History::bytes);
        seen.iter().all(|(edge, delivery)| bytes(edge) == Some(delivery.bytes))
    }
}

/// Watches the broadcasts of one target.
#[derive(Debug, Default)]
pub struct Monitor {
    broadcasts: Broadcasts,
    /// What is expected of the next plan, as long as no broadcast along it was seen.
    expected: BTreeMap<Edge, Delivery>,
    /// Of the plan in use.
    now: Usual,
    /// Of the plans before, which may be used in turns with one that is on trial.
    before: VecDeque<Usual>,
}

impl Monitor {
    /// The next plan is one of which the model expects these reports.
    pub fn expect(&mut self, reports: &[DeliveryReport]) {
        self.expected = deliveries(reports);
    }

    /// Takes in what a node saw, whose numbers are those of its group's nodes; says what has changed on a
    /// network of as many nodes, if that shows now, here or together with what other targets have told of the `links`. It
    /// is found again for as long as it stands.
    pub fn note(
        &mut self,
        report: DeliveryReport,
        links: &mut Links,
        network: &Network,
    ) -> Option<Change> {
        self.broadcasts.note(report, network.len());
        while let Some(reports) = self.broadcasts.next(network.len()) {
            let told = self.take(&reports);
            links.note(&told, &mut self.now.edges, network);
            if let Some(change) = diagnosis::change(&mut self.now.edges, links, network) {
                return Some(change);
            }
        }
        None
    }

    /// What edges of which the model has another word now did is usual no more.
    pub fn forget_what_differs(&mut self, before: &Network, now: &Network) {
        let of = |network: &Network, edge: &Edge| {
            (network.rate(edge.from, edge.to), network.latency_s(edge.from, edge.to))
        };
        let plans = self.before.iter_mut().chain([&mut self.now]);
        for (edge, history) in plans.flat_map(|plan| &mut plan.edges) {
            if of(before, edge) != of(now, edge) {
                history.forget_transfers();
                history.forget_leads();
            }
        }
    }

    /// What of a broadcast is unusual.
    fn take(&mut self, reports: &Reports) -> Vec<(Edge, Deviation)> {
        let seen = deliveries(reports.values());
        self.turn_to(&seen);
        let wait_s: HashMap<usize, Seconds> = reports
            .iter()
            .map(|(&node, report)| (node, self.unusual_wait_s(node, report)))
            .collect();
        let longest_s = self
            .now
            .edges
            .values()
            .filter_map(|history| median(&history.transfer_s))
            .fold(0.0, f64::max);
        // How much longer than usual the pieces took to come.
        let longer_s: HashMap<Edge, Seconds> = seen
            .iter()
            .map(|(edge, delivery)| {
                let history = self.now.edges.get(edge);
                let usual_s = history.and_then(|history| median(&history.transfer_s));
                let longer_s = usual_s.map_or(0.0, |s| (delivery.seconds() - s).max(0.0));
                (*edge, longer_s)
            })
            .collect();
        let mut told = Vec::new();
        for (edge, delivery) in &seen {
            let history = self.now.edges.entry(*edge).or_default();
            history.last = Some(delivery.clone());
            let is_passed_on = |stripe: &u8| delivery.stripes.contains(stripe);
            let of_parent = reports.get(&edge.from).and_then(|report| {
                Delivery::of(
                    report.stripes.iter().filter(|seen| is_passed_on(&seen.stripe)).copied(),
                )
            });
            let Some(of_parent) = of_parent else { continue };
            // Who has no processor sends no sooner than it receives.
            let processor_wait_s = wait_s[&edge.to].max(wait_s[&edge.from]);
            // Of the root nobody says that it received.
            let to_parent = seen.iter().filter(|(above, delivery)| {
                above.to == edge.from && delivery.stripes.iter().any(is_passed_on)
            });
            let parent_longer_s = to_parent.map(|(above, _)| longer_s[above]).reduce(f64::max);
            let parent_took_s = parent_longer_s.map_or(0.0, |_| of_parent.seconds());
            let transfer_s = (delivery.seconds() - processor_wait_s).max(0.0);
            let is_late = reports[&edge.to].listened_late;
            // It has seen no more than a part of the time.
            if is_late && !history.is_slow(transfer_s, parent_took_s) {
                continue;
            }
            let slower = history.note_transfer(transfer_s, longest_s, parent_took_s);
            let later = (!is_late).then(|| {
                let lead_s = (delivery.first_ns as f64 - of_parent.first_ns as f64) / 1e9;
                // What comes slowly to the parent waits there until a piece is whole.
                let waited_s = processor_wait_s.max(parent_longer_s.unwrap_or(0.0));
                history.note_lead(lead_s - waited_s, longest_s)
            });
            told.push((*edge, Deviation { slower, later: later.flatten() }));
        }
        told
    }

    /// Where the plan is another, or the size, what was usual of it before is so again.
    fn turn_to(&mut self, seen: &BTreeMap<Edge, Delivery>) {
        if self.now.has(seen) {
            return;
        }
        let known = self.before.iter().position(|plan| plan.has(seen));
        let known = known.and_then(|place| self.before.remove(place));
        let left = std::mem::replace(&mut self.now, known.unwrap_or_default());
        self.before.push_back(left);
        if self.before.len() > PLANS_BEFORE {
            self.before.pop_front();
        }
        self.begin_as_expected(seen);
    }

    /// What the model expects, and is likely to err by, is usual at first, where it expects just these edges and nothing
    /// else is known of them.
    fn begin_as_expected(&mut self, seen: &BTreeMap<Edge, Delivery>) {
        let is_expected = |(edge, delivery): (&Edge, &Delivery)| {
            self.expected.get(edge).is_some_and(|expected| expected.bytes == delivery.bytes)
        };
        if seen.len() != self.expected.len() || !seen.iter().all(is_expected) {
            return;
        }
        for (edge, expected) in std::mem::take(&mut self.expected) {
            let history = self.now.edges.entry(edge).or_default();
            if history.transfer_s.is_empty() {
                history.transfer_s = [LIKELY * expected.seconds(); LEAST_USUAL].into();
            }
            history.last.get_or_insert(expected);
        }
    }

    /// How much longer than usual a node's processor had other work. One that is shared always is so for the same
    /// part of the time, however long a broadcast takes.
    fn unusual_wait_s(&mut self, node: usize, report: &DeliveryReport) -> Seconds {
        let (wait_s, took_s) = (report.processor_wait_ns as f64 / 1e9, report.seconds());
        let part = (wait_s / took_s.max(NOISE_S)).min(MOST_SHARED);
        let parts = self.now.processor_wait.entry(node).or_default();
        let usual = median(parts).unwrap_or(part);
        // What is left without the unusual wait was shared as usual.
        let unusual_s = ((wait_s - usual * took_s) / (1.0 - usual)).max(0.0);
        if unusual_s <= NOISE_S.max(usual * took_s) {
            keep(parts, part);
        }
        unusual_s
    }
}

#[cfg(test)]
mod tests;
