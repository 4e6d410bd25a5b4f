//! The default search: measure the links, propose from the model, measure the best few, correct the
//! model by what was seen, go on with small steps from the best.
//!
//! A trial is asked for as long as the corrected model expects something faster than the best, and is
//! given up once it can't win. Native is measured too, unless what is known of it at smaller sizes
//! shows that it can't win; a native broadcast can't be abandoned, and may take minutes.

use super::bench::{Bench, HOPELESS, Settled};
use super::{Config, Knowledge, Measured, Outcome, Request, Strategy, Trial};
use crate::measurement::Seconds;
use crate::model::simulate::simulate;
use crate::propose::site_plan::{SitePlan, USUAL_PACE};
use crate::propose::{Proposal, propose, propose_one, propose_steps};
use arborcast_proto::Plan;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::HashSet;

/// Trials of trees before the search rests; asked again, it makes `MORE_TRIALS`.
const FIRST_TRIALS: usize = 4;
const MORE_TRIALS: usize = 2;
/// A plan is worth a trial if it should be faster than the best by this fraction, and a different kind
/// of plan, once, if it should not be slower by more than the second.
const WORTHWHILE: f64 = 0.01;
const DIFFERENT_KIND: f64 = 0.05;
/// What a correction from one plan says of a wholly similar one: 1 / (1 + this) of itself.
const DOUBT: f64 = 0.3;
/// A plan that is fed and takes longer than predicted by this factor has lost packets, it seems: more is
/// fed than some link on the way takes. So it is tried at this part of its pace, down to the last.
const LATE: f64 = 1.1;
const SLOWER: f64 = 0.94;
const LEAST_PACE: f64 = 0.75;
/// Native is measured before anything else if it should take less than this.
const BEARABLE_S: Seconds = 0.5;
/// Trees measured before a native that takes longer.
const TREES_BEFORE_NATIVE: usize = 2;
/// Sizes at which native is tried on the way to a large one.
const LADDER_BYTES: u64 = 64 << 10;
const LADDER_FACTOR: u64 = 8;
/// From those sizes on, a byte takes native no less than this part of what it takes in a shorter message.
const BYTE_GAIN: f64 = 8.0;

/// See the module's text.
pub struct Guided {
    bench: Bench,
    random: ChaCha8Rng,
    /// Not measured yet.
    candidates: Vec<Proposal>,
    /// Measured, with what the model had predicted.
    seen: Vec<(Proposal, Seconds)>,
    tried: HashSet<Plan>,
    proposed: bool,
    trials_left: usize,
}

impl Guided {
    pub fn new(config: Config) -> Self {
        Guided {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            bench: Bench::new(config),
            candidates: Vec::new(),
            seen: Vec::new(),
            tried: HashSet::new(),
            proposed: false,
            trials_left: FIRST_TRIALS,
        }
    }

    /// The least time of a tree, or of anything.
    fn best_s(&self) -> Seconds {
        self.bench.best.as_ref().map_or(f64::INFINITY, |best| best.median_s)
    }

    /// What native takes at least, going by what it takes at smaller sizes: longer messages don't take
    /// less time, and a byte of theirs not much less.
    fn native_at_least_s(&self) -> Seconds {
        let bytes = self.bench.config.bytes;
        let at_least_s = |(&smaller, &seconds): (&u64, &Seconds)| {
            let of_its_bytes = seconds * bytes as f64 / smaller as f64 / BYTE_GAIN;
            if smaller < LADDER_BYTES { seconds } else { seconds.max(of_its_bytes) }
        };
        let known = &self.bench.config.knowledge.native_s;
        known.range(..=bytes).map(at_least_s).fold(0.0, f64::max)
    }

    /// The trial of native that should come now, if any.
    fn native_trial(&self) -> Option<Trial> {
        if !self.bench.native_is_due() {
            return None;
        }
        let network = self.bench.network()?;
        let Config { root, bytes, .. } = self.bench.config;
        let guess_s = simulate(&network, &Plan::Native, root, bytes).max(self.native_at_least_s());
        let whole = self.bench.trial(Plan::Native);
        if guess_s < BEARABLE_S {
            return Some(whole);
        }
        let can_win = self.native_at_least_s() < self.best_s();
        if self.seen.len() < TREES_BEFORE_NATIVE || !can_win {
            return None;
        }
        let known = &self.bench.config.knowledge.native_s;
        let largest = known.range(..bytes).next_back().map_or(0, |(bytes, _)| *bytes);
        let step = (largest * LADDER_FACTOR).max(LADDER_BYTES);
        if step >= bytes {
            return Some(whole);
        }
        Some(Trial { bytes: step, min_repetitions: 1, max_repetitions: 1, ..whole })
    }

    /// The model's time for a proposal, corrected by how wrong it was on similar plans.
    fn expected_s(&self, proposal: &Proposal) -> Seconds {
        let (mut weights, mut sum) = (DOUBT, 0.0);
        for (seen, measured_s) in &self.seen {
            let weight = similarity(&seen.site_plan, &proposal.site_plan);
            sum += weight * (measured_s / seen.predicted.acknowledged_s).ln();
            weights += weight;
        }
        proposal.predicted.every_ack_s * (sum / weights).exp()
    }

    /// The candidate to measure next, if one is worth it.
    fn choose(&mut self) -> Option<Proposal> {
        let expected: Vec<Seconds> =
            self.candidates.iter().map(|proposal| self.expected_s(proposal)).collect();
        let least = |among: &dyn Fn(usize) -> bool| {
            (0..expected.len())
                .filter(|&i| among(i))
                .min_by(|&a, &b| expected[a].total_cmp(&expected[b]))
        };
        let best_s = self.best_s();
        let another_kind = |i: usize| {
            let kind = |plan: &SitePlan| (plan.stripes.len(), plan.segment_bytes);
            let own = kind(&self.candidates[i].site_plan);
            self.seen.iter().all(|(seen, _)| kind(&seen.site_plan) != own)
        };
        let promising = least(&|_| true).filter(|&i| expected[i] < best_s * (1.0 - WORTHWHILE));
        let choice = promising.or_else(|| {
            let compared = self.seen.len() >= 2;
            let other = least(&another_kind).filter(|_| !compared);
            other.filter(|&i| expected[i] < best_s * (1.0 + DIFFERENT_KIND))
        })?;
        Some(self.candidates.remove(choice))
    }

    fn add(&mut self, proposals: Vec<Proposal>) {
        for proposal in proposals {
            if self.tried.insert(proposal.plan.clone()) {
                self.candidates.push(proposal);
            }
        }
    }

    /// Where the plan measured last has lost packets, it may gain by a slower pace, and where it has not, by a
    /// faster one, up to the usual. Other sizes begin with the pace of the best.
    fn mind_the_pace(&mut self, seen: usize) {
        let Some(network) = self.bench.network() else { return };
        let (Proposal { plan, predicted, site_plan }, measured_s) = &self.seen[seen];
        let is_fed = matches!(plan, Plan::Trees(striping)
            if striping.stripes().iter().any(|stripe| stripe.bytes_per_s.is_some()));
        let Some(pace) = site_plan.pace.filter(|_| is_fed) else { return };
        let is_late = *measured_s > LATE * predicted.acknowledged_s;
        let other = if is_late { pace * SLOWER } else { (pace / SLOWER).min(USUAL_PACE) };
        if *measured_s <= self.best_s() {
            self.bench.config.knowledge.pace = Some(pace);
        }
        if other >= LEAST_PACE {
            let Config { root, bytes, .. } = self.bench.config;
            let site_plan = SitePlan { pace: Some(other), ..site_plan.clone() };
            self.add(propose_one(&network, root, bytes, site_plan));
        }
    }

    /// Nothing is left for now. When asked again: small steps from the best plan.
    fn rest(&mut self) -> Option<Request> {
        self.trials_left = MORE_TRIALS;
        let network = self.bench.network()?;
        let Config { root, bytes, .. } = self.bench.config;
        let finite = self.seen.iter().filter(|(_, seconds)| seconds.is_finite());
        let best =
            finite.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(best, _)| best.site_plan.clone());
        if let Some(best) = best {
            let steps = propose_steps(&network, root, bytes, &best, &mut self.random);
            self.add(steps);
        }
        None
    }
}

/// 1 for plans of the same segment size and pace over the same links between sites, 0 for plans that have
/// nothing in common.
fn similarity(a: &SitePlan, b: &SitePlan) -> f64 {
    let edges = |plan: &SitePlan| {
        let mut edges = HashSet::new();
        for stripe in &plan.stripes {
            stripe.sites.for_each_edge(|from, to| {
                edges.insert((from, to));
            });
        }
        edges
    };
    let (of_a, of_b) = (edges(a), edges(b));
    let union = of_a.union(&of_b).count();
    let common =
        if union == 0 { 1.0 } else { of_a.intersection(&of_b).count() as f64 / union as f64 };
    let octaves = (f64::from(a.segment_bytes) / f64::from(b.segment_bytes)).log2().abs();
    let pace = |plan: &SitePlan| plan.pace.unwrap_or(USUAL_PACE).ln();
    let steps = (pace(a) - pace(b)) / SLOWER.ln();
    (1.0 - octaves / 3.0).max(0.0) * (1.0 - steps.abs()).max(0.0) * (0.3 + 0.7 * common)
}

impl Strategy for Guided {
    fn name(&self) -> &'static str {
        "guided"
    }

    fn next(&mut self) -> Option<Request> {
        if let Some(request) = self.bench.pending().or_else(|| self.bench.ask_links()) {
            return Some(request);
        }
        if let Some(native) = self.native_trial() {
            return self.bench.ask(native);
        }
        if !self.proposed {
            self.proposed = true;
            let network = self.bench.network()?;
            let Config { root, bytes, .. } = self.bench.config;
            let pace = self.knowledge().pace.unwrap_or(USUAL_PACE);
            let proposals = propose(&network, root, bytes, pace, &mut self.random);
            self.add(proposals);
        }
        if self.trials_left == 0 {
            return self.rest();
        }
        let Some(proposal) = self.choose() else { return self.rest() };
        self.trials_left -= 1;
        let best_s = self.best_s();
        let give_up_after_s = best_s.is_finite().then_some(best_s * HOPELESS);
        let trial = Trial {
            give_up_after_s,
            predicted_s: Some(proposal.predicted.acknowledged_s),
            ..self.bench.trial(proposal.plan.clone())
        };
        // Infinite until measured; an interruption asks for the same trial again.
        self.seen.push((proposal, f64::INFINITY));
        self.bench.ask(trial)
    }

    fn observe(&mut self, outcome: Outcome) {
        let Some(Settled { trial, median_s }) = self.bench.settle(outcome) else { return };
        let found = self.seen.iter().position(|(proposal, _)| proposal.plan == trial.plan);
        let Some(found) = found else { return };
        // An abandoned trial took at least as long as it was given.
        let at_least_s = trial.give_up_after_s.unwrap_or(f64::MAX);
        self.seen[found].1 = if median_s.is_finite() { median_s } else { at_least_s };
        self.mind_the_pace(found);
    }

    fn best(&self) -> Option<&Measured> {
        self.bench.best.as_ref()
    }

    fn knowledge(&self) -> &Knowledge {
        self.bench.knowledge()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;

    fn search(bytes: u64, knowledge: Knowledge) -> Guided {
        let native = false;
        Guided::new(Config { knowledge, native, ..Config::new(16, 0, bytes) })
    }

    /// How fast the root feeds the trees of a trial; infinite where it leaves one to the connections.
    fn fed(trial: &Trial) -> f64 {
        let Plan::Trees(striping) = &trial.plan else { panic!("native was not asked for") };
        striping.bytes_per_s().map_or(f64::INFINITY, |rate| rate as f64)
    }

    fn next(search: &mut Guided) -> Option<Trial> {
        search.next().map(|request| match request {
            Request::Broadcast(trial) => trial,
            Request::Links(_) => panic!("the links are known"),
        })
    }

    #[test]
    fn what_loses_packets_is_fed_more_slowly_at_other_sizes_too() {
        let mesh = Knowledge { network: Some(grids::four_site_mesh()), ..Knowledge::default() };
        let mut first = search(8 << 20, mesh.clone());
        let too_fast = 0.95 * fed(&next(&mut first).unwrap());
        while let Some(trial) = next(&mut first) {
            let loses = fed(&trial) > too_fast;
            let seconds = trial.predicted_s.unwrap() * if loses { 1.4 } else { 1.0 };
            let samples_s = vec![seconds; 3];
            first.observe(Outcome::Broadcast { samples_s, abandoned_after_s: None });
        }
        assert_eq!(first.knowledge().pace, Some(USUAL_PACE * SLOWER));

        let usual = fed(&next(&mut search(32 << 20, mesh)).unwrap());
        let slower = fed(&next(&mut search(32 << 20, first.knowledge().clone())).unwrap());
        assert!(slower < 0.96 * usual, "{slower} B/s and {usual} B/s");
    }
}
