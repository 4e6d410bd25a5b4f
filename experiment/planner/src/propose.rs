//! Plans that should be good on a network as it is known: built from the model, judged by the
//! simulator, then improved by small steps.
//!
//! Short messages want look-ahead trees over the latencies in which the number of sends counts (P. B. Bhat,
//! C. S. Raghavendra, V. K. Prasanna, "Efficient collective communication in distributed heterogeneous
//! systems", 1999), long ones packings of trees; what is in between is tried both ways, with segment
//! sizes chosen together with the trees.

mod closed_form;
pub mod packing;
mod refine;
pub mod simplest;
pub mod site_plan;

use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::model::simulate::{Finish, finish, messages};
use crate::trees::shortest_paths::shortest_paths;
use crate::trees::transform::transform;
use arborcast_proto::{MIN_SEGMENT_BYTES, Plan, Tree};
use closed_form::{ClosedForm, Shares};
use packing::RatedTree;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use simplest::{ALIKE, simplest};
use site_plan::{Inside, Members, SitePlan, USUAL_PACING, most_lanes};
use std::collections::{BTreeSet, HashSet};

/// A plan with the time the model gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    pub plan: Plan,
    pub predicted: Finish,
    /// What it was made from.
    pub site_plan: SitePlan,
    /// That each node receives.
    pub messages: u64,
}

/// Messages that a planning may simulate in all: less than a second of one core.
const MESSAGES_TO_SIMULATE: usize = 1_200_000;
/// What making a plan counts as, however few messages it has: a planning looks at some hundreds at most.
const LEAST_MESSAGES: usize = 1_500;
/// Fewer plans than this are no choice.
const LEAST_PLANS: usize = 12;
const SEGMENT_BYTES: [u32; 8] =
    [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 512 << 10];
/// Or what is sent without rendezvous, if that is less.
const USUAL_SEGMENT_BYTES: u32 = 32 << 10;
/// Factor on the measured per-message overhead, applied per segment: segments that are four times too long
/// take a few percent more time, segments that are four times too short twice the time.
const SEGMENT_COST: f64 = 4.0;

fn usual_segment_bytes(network: &Network) -> u32 {
    let sizes = SEGMENT_BYTES.into_iter().filter(|&size| u64::from(size) < network.eager_bytes());
    sizes.fold(MIN_SEGMENT_BYTES, u32::max).min(USUAL_SEGMENT_BYTES)
}

/// Proposes plans for one target.
struct Proposer<'a> {
    network: &'a Network,
    /// As messages that are cut into segments find it.
    network_of_segments: Network,
    root: usize,
    bytes: u64,
    /// Of paced plans: see [`SitePlan::pacing`].
    pacing: f64,
    members: Members,
    known: HashSet<Plan>,
    proposals: Vec<Proposal>,
    /// Messages that may still be simulated.
    budget: usize,
    effort: Effort,
}

/// The part of a whole planning's work that is done.
#[derive(Debug, Clone, Copy)]
struct Effort(f64);

impl Effort {
    const USUAL: Effort = Effort(1.0);
    const LITTLE: Effort = Effort(0.05);

    fn of(self, usual: usize) -> usize {
        (usual as f64 * self.0) as usize
    }
}

/// The plans the model thinks best for a broadcast of `bytes` from `root`, all different: the [`simplest`] of the best,
/// then the others, the fastest first. Roots send at `pacing` of their trees' rates
/// ([`USUAL_PACING`] unless something else is known). Equal
/// states of `random` lead to equal proposals.
pub fn propose(
    network: &Network,
    root: usize,
    bytes: u64,
    pacing: f64,
    random: &mut ChaCha8Rng,
) -> Vec<Proposal> {
    propose_with(Effort::USUAL, network, root, bytes, pacing, random)
}

/// As [`propose`], for who waits for the plan: in a twentieth of the time, and on most networks as good by some
/// percent.
pub fn propose_at_once(
    network: &Network,
    root: usize,
    bytes: u64,
    random: &mut ChaCha8Rng,
) -> Vec<Proposal> {
    propose_with(Effort::LITTLE, network, root, bytes, USUAL_PACING, random)
}

fn propose_with(
    effort: Effort,
    network: &Network,
    root: usize,
    bytes: u64,
    pacing: f64,
    random: &mut ChaCha8Rng,
) -> Vec<Proposal> {
    let mut proposer = Proposer::new(network, root, bytes, pacing);
    proposer.effort = effort;
    proposer.budget = effort.of(proposer.budget);
    let part = proposer.budget / 4;
    proposer.evaluate_first(3 * part, random);
    proposer.vary_lanes(2 * part);
    proposer.vary_segments(part);
    proposer.polish(random);
    proposer.lengthen_segments();
    let plans = proposer.proposals.iter();
    if let Some(place) = simplest(plans.map(|p| (p.predicted.every_ack_s, p.messages))) {
        proposer.proposals[..=place].rotate_right(1);
    }
    proposer.proposals
}

/// Small steps from one plan, the best first.
pub(crate) fn propose_steps(
    network: &Network,
    root: usize,
    bytes: u64,
    from: &SitePlan,
    random: &mut ChaCha8Rng,
) -> Vec<Proposal> {
    let mut proposer = Proposer::new(network, root, bytes, from.pacing.unwrap_or(USUAL_PACING));
    proposer.evaluate(from.clone());
    proposer.polish(random);
    // Last, since the model knows nothing of queues that overflow, and would prefer a root that isn't paced.
    let pacing = from.pacing.is_none().then_some(proposer.pacing);
    proposer.evaluate(SitePlan { pacing, ..from.clone() });
    proposer.proposals
}

/// One plan and what the model says of it.
pub(crate) fn propose_one(
    network: &Network,
    root: usize,
    bytes: u64,
    site_plan: SitePlan,
) -> Vec<Proposal> {
    let pacing = site_plan.pacing.unwrap_or(USUAL_PACING);
    let mut proposer = Proposer::new(network, root, bytes, pacing);
    proposer.evaluate(site_plan);
    proposer.proposals
}

impl<'a> Proposer<'a> {
    fn new(network: &'a Network, root: usize, bytes: u64, pacing: f64) -> Self {
        let usual = messages(network, bytes, usual_segment_bytes(network));
        Proposer {
            network,
            network_of_segments: network.with_costlier_messages(SEGMENT_COST),
            root,
            bytes,
            pacing,
            members: Members::new(network, root),
            known: HashSet::new(),
            proposals: Vec::new(),
            budget: MESSAGES_TO_SIMULATE.max(LEAST_PLANS * usual),
            effort: Effort::USUAL,
        }
    }

    fn spend(&mut self, messages: usize) {
        self.budget = self.budget.saturating_sub(messages.max(LEAST_MESSAGES));
    }

    /// As messages find it that are cut into segments of that size, or are not.
    fn network_of(&self, segment_bytes: u32) -> &Network {
        let is_cut = u64::from(segment_bytes) < self.bytes;
        if is_cut { &self.network_of_segments } else { self.network }
    }

    /// Simulates a plan unless it is known.
    fn evaluate(&mut self, site_plan: SitePlan) {
        let segment_bytes = site_plan.segment_bytes;
        let network = self.network_of(segment_bytes);
        let plan = site_plan.realise(network, &self.members, self.root, self.bytes);
        if !self.known.insert(plan.clone()) {
            self.spend(LEAST_MESSAGES);
            return;
        }
        self.spend(messages(self.network, self.bytes, segment_bytes));
        let predicted = finish(self.network_of(segment_bytes), &plan, self.root, self.bytes);
        let messages = messages_received(&plan, self.bytes);
        let proposal = Proposal { plan, predicted, site_plan, messages };
        let place = self
            .proposals
            .partition_point(|p| p.predicted.every_ack_s <= proposal.predicted.every_ack_s);
        self.proposals.insert(place, proposal);
    }

    /// Trees over sites that suit some message size, and the packings.
    fn wide_area(&self) -> Vec<Vec<RatedTree>> {
        let network = self.network;
        let sites = network.sites().len();
        let home = network.site_of(self.root);
        let link = |a: usize, b: usize| network.site_link(a, b);
        let mut trees: Vec<Tree> = Vec::new();
        let mut add = |parents: Vec<Option<usize>>| {
            let tree = Tree::from_parents(&parents).expect("parents of shortest paths are a tree");
            if !trees.contains(&tree) {
                trees.push(tree);
            }
        };
        let mut sizes =
            vec![0, u64::from(usual_segment_bytes(network)).min(self.bytes), self.bytes];
        sizes.dedup();
        for bytes in sizes {
            add(shortest_paths(sites, home, |a, b| {
                let rate = link(a, b).pair_rate.min(link(a, b).shared_rate);
                link(a, b).latency_s + bytes as f64 / rate
            })
            .parents);
        }
        add((0..sites).map(|site| (site != home).then_some(home)).collect());
        let alone = |tree| vec![packing::alone(network, self.root, tree)];
        let mut all: Vec<Vec<RatedTree>> = trees.into_iter().map(alone).collect();
        for packing in packing::packings(network, self.root, self.bytes) {
            if !all.contains(&packing) {
                all.push(packing);
            }
        }
        all
    }

    /// One segment for the whole message, where there may be one so long.
    fn whole_segment_bytes(&self) -> u32 {
        self.bytes.clamp(u64::from(MIN_SEGMENT_BYTES), 1 << 30) as u32
    }

    /// Simulates the candidates that the closed form puts first, down to a rest of the budget.
    fn evaluate_first(&mut self, rest: usize, random: &mut ChaCha8Rng) {
        let segment_bytes = self.whole_segment_bytes().min(usual_segment_bytes(self.network));
        let mut candidates: Vec<(Seconds, SitePlan)> = Vec::new();
        let mut wide_area = self.wide_area();
        wide_area.extend(refine::refine(self, &wide_area, random));
        for stripes in wide_area {
            let lanes = most_lanes(self.network, stripes.len());
            for inside in [Inside::Postal, Inside::Chains(1), Inside::Chains(2), Inside::Chains(4)]
            {
                let plan = SitePlan::balanced(
                    self.network,
                    stripes.clone(),
                    self.bytes,
                    inside,
                    segment_bytes,
                );
                for lanes in BTreeSet::from([1, lanes]) {
                    let plan = SitePlan { pacing: Some(self.pacing), lanes, ..plan.clone() };
                    candidates.push((self.estimate_s(&plan), plan));
                }
            }
        }
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, plan) in candidates {
            if self.budget > rest {
                self.evaluate(plan);
            }
        }
    }

    /// By the closed form.
    fn estimate_s(&self, plan: &SitePlan) -> Seconds {
        let network = self.network_of(plan.segment_bytes);
        let model = ClosedForm::new(network, self.root, self.bytes, plan.shape());
        model.time_s(&Shares::new(&plan.stripes, &plan.shares), &mut model.scratch())
    }

    /// As many connections as are of use for the best so far, down to a rest of the budget.
    fn vary_lanes(&mut self, rest: usize) {
        for seed in self.seeds() {
            for lanes in (2..=most_lanes(self.network, seed.stripes.len())).rev() {
                if self.budget > rest {
                    self.evaluate(SitePlan { lanes, ..seed.clone() });
                }
            }
        }
    }

    /// The best so far of each number of trees and lanes.
    fn seeds(&self) -> Vec<SitePlan> {
        let mut seeds: Vec<SitePlan> = Vec::new();
        for proposal in &self.proposals {
            let kind = |plan: &SitePlan| (plan.stripes.len(), plan.lanes);
            let is_same = |seed: &SitePlan| kind(seed) == kind(&proposal.site_plan);
            if !seeds.iter().any(is_same) {
                seeds.push(proposal.site_plan.clone());
            }
        }
        seeds
    }

    /// Those that may be of use, in ascending order.
    fn segment_sizes(&self) -> Vec<u32> {
        let useful = SEGMENT_BYTES.into_iter().filter(|&size| u64::from(size) < self.bytes);
        useful.chain([self.whole_segment_bytes()]).collect()
    }

    /// Other segment sizes for the best so far, down to a rest of the budget.
    fn vary_segments(&mut self, rest: usize) {
        let sizes = self.segment_sizes();
        for seed in self.seeds() {
            for &segment_bytes in &sizes {
                if self.budget > rest {
                    self.evaluate(SitePlan { segment_bytes, ..seed.clone() });
                }
            }
        }
    }

    /// Segments as long as may be for the best, which polishing need not have tried.
    fn lengthen_segments(&mut self) {
        let Some(best) = self.proposals.first() else { return };
        let (site_plan, best_s) = (best.site_plan.clone(), best.predicted.every_ack_s);
        for segment_bytes in
            self.segment_sizes().into_iter().filter(|s| *s > site_plan.segment_bytes)
        {
            let longer = SitePlan { segment_bytes, ..site_plan.clone() };
            self.evaluate(longer.clone());
            let is_alike = |p: &Proposal| p.predicted.every_ack_s <= best_s * (1.0 + ALIKE);
            if !self.proposals.iter().any(|p| p.site_plan == longer && is_alike(p)) {
                return;
            }
        }
    }

    /// Small steps from the best, as long as there is budget.
    fn polish(&mut self, random: &mut ChaCha8Rng) {
        while self.budget > 0 {
            let best = &self.proposals[0].site_plan;
            match step(best, most_lanes(self.network, best.stripes.len()), random) {
                Some(step) => self.evaluate(step),
                None => self.spend(LEAST_MESSAGES),
            }
        }
    }
}

/// Of a broadcast of `bytes`, by each node but the root.
fn messages_received(plan: &Plan, bytes: u64) -> u64 {
    let Plan::Trees(striping) = plan else { return 0 };
    let segment_bytes = u64::from(striping.segment_bytes());
    striping.ranges(bytes).map(|range| (range.end - range.start).div_ceil(segment_bytes)).sum()
}

/// A plan that differs from `plan` in one thing; `None` where the draw changes nothing.
fn step(plan: &SitePlan, most_lanes: usize, random: &mut ChaCha8Rng) -> Option<SitePlan> {
    let mut next = plan.clone();
    let stripes = plan.stripes.len();
    let sites = plan.stripes[0].sites.len();
    match random.random_range(0..8) {
        0..4 if sites > 1 => {
            let stripe = &mut next.stripes[random.random_range(0..stripes)];
            let (a, b) = (random.random_range(0..sites), random.random_range(0..sites));
            stripe.sites = transform(&stripe.sites, a, b)?;
        }
        4..6 if stripes > 1 => {
            let (from, to) = (random.random_range(0..stripes), random.random_range(0..stripes));
            let moved = plan.shares[from] * random.random_range(0.02..0.3);
            next.shares[from] -= moved;
            next.shares[to] += moved;
        }
        6 if random.random() => next.lanes = random.random_range(1..=most_lanes),
        6 => {
            let larger: bool = random.random();
            next.segment_bytes =
                if larger { plan.segment_bytes.checked_mul(2)? } else { plan.segment_bytes / 2 };
        }
        _ => {
            let choices = [
                Inside::Postal,
                Inside::Chains(1),
                Inside::Chains(2),
                Inside::Chains(3),
                Inside::Chains(4),
            ];
            next.inside = choices[random.random_range(0..choices.len())];
        }
    }
    (next != *plan).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::bounds::Limits;
    use crate::model::grids;
    use crate::model::network::{Link, Node, Site};
    use rand_chacha::rand_core::SeedableRng;

    /// How far the best proposal is from the limit, by bytes.
    fn distances(network: &Network) -> Vec<(u64, f64)> {
        let limits = Limits::new(network, 0);
        [1, 1 << 10, 64 << 10, 1 << 20, 8 << 20, 32 << 20]
            .into_iter()
            .map(|bytes| {
                let mut random = ChaCha8Rng::seed_from_u64(1);
                let best = &propose(network, 0, bytes, USUAL_PACING, &mut random)[0];
                println!(
                    "{bytes:9} {:.4} {:.4} {}",
                    best.predicted.every_ack_s,
                    limits.limit_s(bytes),
                    best.plan
                );
                (bytes, best.predicted.every_ack_s / limits.limit_s(bytes))
            })
            .collect()
    }

    /// How far the best proposal for a long message is from the limit.
    fn distance(network: &Network, bytes: u64) -> f64 {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let best = &propose(network, 0, bytes, USUAL_PACING, &mut random)[0];
        best.predicted.every_ack_s / Limits::new(network, 0).limit_s(bytes)
    }

    #[test]
    fn a_link_faster_than_half_an_interface_is_filled() {
        // The root sends once: to a node of its site, the last of which sends to the other one.
        let between = Link { latency_s: 20e-3, pair_rate: f64::INFINITY, shared_rate: 100e6 };
        let inside = Link { latency_s: 100e-6, ..Link::LOCAL };
        let node = |i: usize| Node {
            site: i / 5,
            send_rate: 125e6,
            receive_rate: 125e6,
            overhead_s: 10e-6,
        };
        let links = vec![inside, between, between, inside];
        let network =
            Network::new((0..10).map(node).collect(), vec![Site::UNLIMITED; 2], links).unwrap();
        let distance = distance(&network, 8 << 20);
        assert!(distance < 1.1, "{distance:.2}");
    }

    #[test]
    fn long_messages_come_near_the_limit_on_hundreds_of_nodes() {
        let mut distances: Vec<f64> =
            (1..6).map(|seed| distance(&grids::random(32, 31, seed), 8 << 20)).collect();
        distances.sort_by(f64::total_cmp);
        assert!(distances[2] < 1.12 && distances[4] < 1.4, "{distances:?}");
    }

    #[test]
    fn the_closed_form_says_what_the_simulator_does() {
        for (network, most) in [
            (grids::four_site_mesh(), 0.1),
            (grids::random(6, 4, 2), 0.1),
            (grids::four_site_mesh().after_pause(1.0), 0.25),
            (grids::five_regions().after_pause(1.0), 0.25),
        ] {
            for bytes in [1 << 20, 8 << 20] {
                let mut random = ChaCha8Rng::seed_from_u64(1);
                let proposer = Proposer::new(&network, 0, bytes, USUAL_PACING);
                let best = propose(&network, 0, bytes, USUAL_PACING, &mut random).swap_remove(0);
                let ratio = proposer.estimate_s(&best.site_plan) / best.predicted.every_ack_s;
                assert!((ratio - 1.0).abs() < most, "{bytes} B: {ratio:.3} along {}", best.plan);
            }
        }
    }

    #[test]
    fn costlier_messages_than_were_measured_do_little_harm() {
        let measured = grids::four_site_mesh().with_costlier_messages(5.0);
        let true_costs = measured.with_costlier_messages(SEGMENT_COST);
        for bytes in [64 << 10, 1 << 20, 8 << 20] {
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let best = &propose(&measured, 0, bytes, USUAL_PACING, &mut random)[0];
            let finish_s = |network: &Network| finish(network, &best.plan, 0, bytes).every_ack_s;
            let later = finish_s(&true_costs) / finish_s(&measured);
            assert!(later < 1.1, "{bytes} B: {later:.2} times as long along {}", best.plan);
        }
    }

    #[test]
    fn small_windows_leave_over_many_connections() {
        let found = |network: Network| distances(&network)[2];
        let warm = found(grids::five_regions());
        let cold = found(grids::five_regions().after_pause(1.0));
        assert_eq!((warm.0, cold.0), (64 << 10, 64 << 10));
        // Over one connection after the other it takes two round trips more.
        assert!(cold.1 < 1.1 * warm.1, "{} and {}", cold.1, warm.1);
    }

    #[test]
    fn proposals_for_the_mesh_come_close_to_the_limit() {
        let network = grids::four_site_mesh().with_eager_bytes(64 << 10);
        for (bytes, distance) in distances(&network) {
            let goal = match bytes {
                ..=1024 => 1.10,
                1025..=1_048_576 => 1.25,
                _ => 1.15,
            };
            assert!(distance <= goal, "{bytes} B: {distance}");
        }
    }
}
