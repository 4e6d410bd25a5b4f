//! What broadcasts along trees tell of the links between sites that they pass: how fast the pieces came over each, and
//! whether they would have come faster over a faster one. What windows that grow hold up counts as the link's doing, so the
//! programs must be such as keep their connections busy, or rest so shortly that it is about the same for all links.

use super::broadcasts::{Broadcasts, Reports, is_along};
use super::{Delivery, NOISE_S};
use crate::measurement::Seconds;
use crate::model::network::Network;
use arborcast_proto::message::Times;
use arborcast_proto::{DeliveryReport, StripeDelivery, Striping};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// So many broadcasts along a plan tell, in the first of which connections are new, where none took less than this part
/// of what native takes, or than so many times what was expected: a plan that was not measured may be bad.
const ENOUGH: [(usize, f64, f64); 3] = [(2, 1.0, f64::INFINITY), (4, 0.5, 2.0), (7, 0.0, 0.0)];
/// Where programs take so long for them, three are enough.
const LONG: Duration = Duration::from_secs(5);
const ENOUGH_IN_LONG: usize = 3;
/// A link passes no more than this where its pieces take so many times as long as they took to come to who sent them.
const SLOWER: f64 = 1.2;

/// The sites of a sender and a receiver.
pub type SiteLink = (usize, usize);

/// What was seen of a link, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sighting {
    /// It passes this.
    Rate(f64),
    /// It passes no less.
    AtLeast(f64),
}

/// In one broadcast.
#[derive(Debug, Clone, Copy)]
struct Passage {
    rate: f64,
    is_slower: bool,
}

/// Collects the broadcasts of one target.
#[derive(Debug, Default)]
pub struct Sightings {
    broadcasts: Broadcasts,
    /// The plan of the last ones, and what was said of them.
    plan: Option<Striping>,
    along: Along,
    /// When the first of them was told of.
    since: Option<Instant>,
}

impl Sightings {
    /// Takes in what one of the plan's nodes saw; gives broadcasts along `plan` once there are enough, and again after as
    /// many more.
    pub fn note(
        &mut self,
        report: DeliveryReport,
        plan: &Striping,
        (native_s, expected_s): (Option<Seconds>, Option<Seconds>),
        now: Instant,
    ) -> Option<Along> {
        let (native_s, expected_s) = (native_s.unwrap_or(f64::MAX), expected_s.unwrap_or(f64::MAX));
        self.broadcasts.note(report, plan.len());
        while let Some(reports) = self.broadcasts.next(plan.len()) {
            if !is_along(plan, &reports) {
                continue;
            }
            if self.plan.as_ref() != Some(plan) {
                self.plan = Some(plan.clone());
                self.along = Along::default();
            }
            if self.along.0.is_empty() {
                self.since = Some(now);
            }
            self.along.0.push(reports);
            let is_long = self.since.is_some_and(|since| now - since >= LONG);
            if self.along.is_enough(native_s, expected_s, is_long) {
                return Some(std::mem::take(&mut self.along));
            }
        }
        None
    }
}

/// What nodes said of broadcasts along one plan.
#[derive(Debug, Default)]
pub struct Along(Vec<Reports>);

impl Along {
    fn is_enough(&self, native_s: Seconds, expected_s: Seconds, is_long: bool) -> bool {
        let least_s = self.each_took_s().fold(f64::INFINITY, f64::min);
        let is_enough = |&(count, part, times)| {
            let is_bad = least_s >= part * native_s || least_s >= times * expected_s;
            self.0.len() >= count && is_bad
        };
        is_long && self.0.len() >= ENOUGH_IN_LONG || ENOUGH.iter().any(is_enough)
    }

    /// What they take from the first piece to the last, where that takes longest; a median.
    pub fn took_s(&self) -> Option<Seconds> {
        Times::median_of(self.each_took_s())
    }

    /// What they take until their root, which waited for them, had all ACKs; a median.
    pub fn acknowledged_s(&self) -> Option<Seconds> {
        let roots = self.0.iter().flat_map(|reports| reports.values());
        let acknowledged = roots.filter(|report| report.acknowledged);
        Times::median_of(acknowledged.map(DeliveryReport::seconds))
    }

    fn each_took_s(&self) -> impl Iterator<Item = Seconds> {
        let longest_s =
            |reports: &Reports| reports.values().map(DeliveryReport::seconds).fold(0.0, f64::max);
        self.0.iter().map(longest_s)
    }

    /// What the plan's broadcasts show of the links between a network's sites.
    pub fn links(&self, network: &Network, plan: &Striping) -> BTreeMap<SiteLink, Sighting> {
        let mut passages: BTreeMap<SiteLink, Vec<Passage>> = BTreeMap::new();
        for (link, passage) in self.0.iter().flat_map(|reports| passages_in(reports, network, plan))
        {
            passages.entry(link).or_default().push(passage);
        }
        let told = |(link, passages): (SiteLink, Vec<Passage>)| {
            let rate = Times::median_of(passages.iter().map(|passage| passage.rate))?;
            let slower = passages.iter().filter(|passage| passage.is_slower).count();
            let is_slower = 2 * slower > passages.len();
            let sighting = if is_slower { Sighting::Rate(rate) } else { Sighting::AtLeast(rate) };
            (2 * passages.len() > self.0.len()).then_some((link, sighting))
        };
        passages.into_iter().filter_map(told).collect()
    }
}

/// What passed each link in one broadcast, as far as that tells.
fn passages_in(reports: &Reports, network: &Network, plan: &Striping) -> Vec<(SiteLink, Passage)> {
    // By sender and receiver, what came.
    let mut links: BTreeMap<SiteLink, BTreeMap<(usize, usize), Vec<StripeDelivery>>> =
        BTreeMap::new();
    for (&to, report) in reports {
        for stripe in &report.stripes {
            let from = usize::from(stripe.from);
            let link = (network.site_of(from), network.site_of(to));
            if link.0 != link.1 {
                links.entry(link).or_default().entry((from, to)).or_default().push(*stripe);
            }
        }
    }
    let is_late = |edges: &BTreeMap<(usize, usize), Vec<StripeDelivery>>| {
        edges.keys().any(|(_, to)| reports[to].listened_late)
    };
    links.retain(|_, edges| !is_late(edges));
    let told = |(link, edges)| Some((link, passage(&edges, reports, plan)?));
    links.into_iter().filter_map(told).collect()
}

/// What passed a link, in the longest time for which a node received of it; `None` where that is noise.
fn passage(
    edges: &BTreeMap<(usize, usize), Vec<StripeDelivery>>,
    reports: &Reports,
    plan: &Striping,
) -> Option<Passage> {
    let mut bytes = 0;
    let (mut longest_s, mut at_sender_s) = (0.0, 0.0);
    let mut received: BTreeMap<usize, Vec<StripeDelivery>> = BTreeMap::new();
    for (&(from, to), stripes) in edges {
        received.entry(to).or_default().extend(stripes);
        at_sender_s = f64::max(at_sender_s, sender_s(from, stripes, reports, plan)?);
    }
    for stripes in received.into_values() {
        let delivery = Delivery::of(stripes)?;
        // When the first piece came it was whole.
        bytes += delivery.bytes.saturating_sub(plan.segment_bytes().into());
        longest_s = f64::max(longest_s, delivery.seconds());
    }
    let is_slower = longest_s > SLOWER * at_sender_s;
    (longest_s > NOISE_S && bytes > 0)
        .then(|| Passage { rate: bytes as f64 / longest_s, is_slower })
}

/// How long a node had pieces come that it passed on; what the root has it has at once, or as it is paced.
fn sender_s(
    from: usize,
    stripes: &[StripeDelivery],
    reports: &Reports,
    plan: &Striping,
) -> Option<Seconds> {
    if from == plan.root() {
        let paced_s = |sent: &StripeDelivery| {
            let rate = plan.stripes()[usize::from(sent.stripe)].bytes_per_s;
            rate.map_or(0.0, |rate| sent.bytes as f64 / rate.get() as f64)
        };
        return stripes.iter().map(paced_s).reduce(f64::max);
    }
    let is_passed_on =
        |seen: &&StripeDelivery| stripes.iter().any(|sent| sent.stripe == seen.stripe);
    let seen = reports.get(&from)?.stripes.iter().filter(is_passed_on);
    Delivery::of(seen.copied()).map(|delivery| delivery.seconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::model::parameter::Parameter;
    use crate::model::simulate::reports;
    use crate::trees::shapes::chain;
    use arborcast_proto::{GroupHash, Plan, SizeClass, Target};

    const BYTES: u64 = 1 << 20;

    /// What the least number of broadcasts tells that is enough, and that number.
    fn told(network: &Network, plan: &Striping, native_s: Option<Seconds>) -> (Along, usize) {
        told_every(Duration::ZERO, network, plan, (native_s, None))
    }

    fn told_every(
        interval: Duration,
        network: &Network,
        plan: &Striping,
        native_and_expected_s: (Option<Seconds>, Option<Seconds>),
    ) -> (Along, usize) {
        let mut now = Instant::now();
        let target = Target { group: GroupHash(1), root: 0, class: SizeClass::of(BYTES) };
        let mut sightings = Sightings::default();
        for number in 1..=100 {
            now += interval;
            for mut report in reports(network, plan, target, BYTES) {
                report.broadcast = number;
                if let Some(along) = sightings.note(report, plan, native_and_expected_s, now) {
                    return (along, number as usize);
                }
            }
        }
        panic!("it is never enough");
    }

    fn seen(network: &Network, plan: &Striping) -> BTreeMap<SiteLink, Sighting> {
        told(network, plan, None).0.links(network, plan)
    }

    #[test]
    fn a_plan_that_native_may_beat_or_that_disappoints_tells_soon() {
        let mesh = grids::four_site_mesh();
        let plan = Plan::single(chain(16, 0), 16 << 10).unwrap();
        let striping = plan.striping().unwrap();
        let (along, usual) = told(&mesh, striping, None);
        let took_s = along.took_s().unwrap();
        let count = |native: f64| told(&mesh, striping, Some(native * took_s)).1;
        assert_eq!([usual, count(3.0), count(1.5), count(0.9)], [7, 7, 4, 2]);
        let every = |interval, expected: Option<f64>| {
            let expected_s = expected.map(|part| part * took_s);
            told_every(interval, &mesh, striping, (None, expected_s)).1
        };
        assert_eq!(every(Duration::from_secs(4), None), 3, "rare ones");
        let expected = [0.2, 0.4, 0.6].map(|part| every(Duration::ZERO, Some(part)));
        assert_eq!(expected, [4, 4, 7], "it takes twice as long");
    }

    #[test]
    fn what_holds_pieces_up_is_told_from_what_passes_them_as_they_come() {
        // From a to b at 100 Mbit/s, on to c at 50, and to d at 80.
        let mesh = grids::four_site_mesh();
        let plan = Plan::single(chain(16, 0), 16 << 10).unwrap();
        let told = seen(&mesh, plan.striping().unwrap());
        let is_near = |rate: f64, mbit: f64| (rate / (mbit * 125e3) - 1.0).abs() < 0.05;
        let rate = |link| match told[&link] {
            Sighting::Rate(rate) => (rate, true),
            Sighting::AtLeast(rate) => (rate, false),
        };
        for (link, mbit, is_its_own) in
            [((0, 1), 100.0, true), ((1, 2), 50.0, true), ((2, 3), 50.0, false)]
        {
            let (rate, is_exact) = rate(link);
            assert!(is_near(rate, mbit) && is_exact == is_its_own, "{link:?}: {told:?}");
        }
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn a_root_that_is_paced_tells_no_more_than_its_pace() {
        let mesh = grids::four_site_mesh();
        let plan = Plan::single(chain(16, 0), 16 << 10).unwrap();
        let mut stripes = plan.striping().unwrap().stripes().to_vec();
        let link = Parameter::LinkRate { from: 0, to: 1 }.of(&mesh);
        stripes[0].bytes_per_s = std::num::NonZeroU64::new((0.5 * link) as u64);
        let paced = Striping::new(stripes, 16 << 10).unwrap();
        assert!(matches!(seen(&mesh, &paced)[&(0, 1)], Sighting::AtLeast(_)));
    }
}
