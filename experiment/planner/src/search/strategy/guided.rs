//! The default search: measure the links, propose from the model, measure the best few, correct the
//! model by what was seen, go on with small steps from the best.
//!
//! A trial is asked for as long as the corrected model expects something faster than the best, and is
//! given up once it can't win. Native is measured too, unless what is known of it at smaller sizes
//! shows that it can't win; a native broadcast can't be abandoned, and may take minutes.

use super::FAR_BETTER;
use super::state::{Config, HOPELESS, SearchState, Strategy, TrialResult};
use crate::measurement::{Seconds, TRIAL_S, Trial};
use crate::model::network::Network;
use crate::model::simulate::simulate;
use crate::propose::simplest::simplest;
use crate::propose::site_plan::{SitePlan, USUAL_PACING};
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
/// A paced plan that takes longer than predicted by this factor has lost packets, it seems: it is paced
/// faster than some link on the way. So it is tried at this part of its pacing rate, down to the least; one that does
/// not, at so much more, up to the most, as long as half of that is gained: links may carry more than was measured.
const LATE: f64 = 1.1;
const SLOWER: f64 = 0.94;
const LEAST_PACING: f64 = 0.75;
const MOST_PACING: f64 = 1.1;
/// Native is measured before anything else if it should take less than this.
const BEARABLE_S: Seconds = 0.5;
/// Trees measured before a native that takes longer.
const TREES_BEFORE_NATIVE: usize = 2;
/// Sizes at which native is tried on the way to a large one.
const LADDER_BYTES: u64 = 64 << 10;
const LADDER_FACTOR: u64 = 8;
/// From those sizes on, a byte takes native no less than this part of what it takes in a shorter message.
const BYTE_GAIN: f64 = 8.0;

/// Small steps from the best plans, beyond what was proposed at first: who has asked again for this number is at the
/// end, until the links are measured anew.
const MOST_STEPS: usize = 300;

/// The state of the search between trials.
pub struct Guided {
    random: ChaCha8Rng,
    /// Not measured yet.
    candidates: Vec<Proposal>,
    /// The best plan, paced faster: the model expects nothing of it, since it knows only what was measured of the links.
    faster: Option<Proposal>,
    /// Measured, with what the model had predicted.
    seen: Vec<(Proposal, Seconds)>,
    tried: HashSet<Plan>,
    is_proposed: bool,
    /// How many were proposed at first.
    first: usize,
    trials_left: usize,
}

impl Guided {
    pub fn new(config: &Config) -> Self {
        Guided {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            candidates: Vec::new(),
            faster: None,
            seen: Vec::new(),
            tried: HashSet::new(),
            is_proposed: false,
            first: 0,
            trials_left: FIRST_TRIALS,
        }
    }

    /// The candidates to begin with, once.
    fn propose_first(&mut self, state: &SearchState, network: &Network) {
        if self.is_proposed {
            return;
        }
        self.is_proposed = true;
        let Config { root, bytes, .. } = state.config;
        let pacing = state.knowledge().pacing.unwrap_or(USUAL_PACING);
        let proposals = propose(network, root, bytes, pacing, &mut self.random);
        self.add(proposals);
        self.first = self.tried.len();
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
    fn choose(&mut self, best_s: Seconds) -> Option<Proposal> {
        let another_kind = |candidate: &Proposal| {
            let kind = |plan: &SitePlan| (plan.stripes.len(), plan.lanes, plan.segment_bytes);
            let own = kind(&candidate.site_plan);
            self.seen.iter().all(|(seen, _)| kind(&seen.site_plan) != own)
        };
        let promising = self.simplest(best_s * (1.0 - WORTHWHILE), |_| true);
        let choice = promising.or_else(|| {
            let below_s = best_s * (1.0 + DIFFERENT_KIND);
            (self.seen.len() < 2).then(|| self.simplest(below_s, another_kind))?
        })?;
        Some(self.candidates.remove(choice))
    }

    /// The place of the simplest of the best candidates that should take less than `below_s`.
    fn simplest(&self, below_s: Seconds, among: impl Fn(&Proposal) -> bool) -> Option<usize> {
        let places = (0..self.candidates.len()).filter(|&place| among(&self.candidates[place]));
        let expected = places.map(|place| (place, self.expected_s(&self.candidates[place])));
        let fast: Vec<_> = expected.filter(|(_, seconds)| *seconds < below_s).collect();
        let found = fast.iter().map(|&(place, seconds)| (seconds, self.candidates[place].messages));
        Some(fast[simplest(found)?].0)
    }

    fn add(&mut self, proposals: Vec<Proposal>) {
        for proposal in proposals {
            if self.tried.insert(proposal.plan.clone()) {
                self.candidates.push(proposal);
            }
        }
    }

    /// Where the plan measured last has lost packets, it may gain by slower pacing, and where it has not, by faster
    /// pacing, as long as that helps. Other sizes begin with the pacing rate of the best.
    fn adapt_pacing(&mut self, state: &mut SearchState, seen: usize) {
        let Some(network) = state.network() else { return };
        let (Proposal { plan, predicted, site_plan, .. }, measured_s) = &self.seen[seen];
        let is_paced = matches!(plan, Plan::Trees(striping)
            if striping.stripes().iter().any(|stripe| stripe.bytes_per_s.is_some()));
        let Some(pacing) = site_plan.pacing.filter(|_| is_paced) else { return };
        let is_best = *measured_s <= state.best_s();
        if is_best {
            state.config.knowledge.pacing = Some(pacing);
        }
        let is_late = *measured_s > LATE * predicted.acknowledged_s;
        // Where it was as fast when paced otherwise, it is late for another reason, or at what its links carry.
        let is_twin = |other: &SitePlan| {
            other.pacing != site_plan.pacing
                && SitePlan { pacing: site_plan.pacing, ..other.clone() } == *site_plan
        };
        let gain = if is_late { 1.0 + WORTHWHILE } else { SLOWER.sqrt().recip() };
        let as_fast_s = measured_s * gain;
        let was_as_fast =
            self.seen.iter().any(|(seen, s)| is_twin(&seen.site_plan) && *s < as_fast_s);
        let other = if is_late { pacing * SLOWER } else { pacing / SLOWER };
        let may_gain = (is_late || is_best) && !was_as_fast;
        if !may_gain || !(LEAST_PACING..=MOST_PACING).contains(&other) {
            return;
        }
        let Config { root, bytes, .. } = state.config;
        let site_plan = SitePlan { pacing: Some(other), ..site_plan.clone() };
        let mut proposals = propose_one(&network, root, bytes, site_plan);
        if is_late {
            self.add(proposals);
        } else {
            let is_new = |proposal: &Proposal| self.tried.insert(proposal.plan.clone());
            self.faster = proposals.pop().filter(is_new);
        }
    }

    /// The best by the model, if it should be far better than what applications have now.
    fn propose_early_tree(&mut self, state: &SearchState, network: &Network) -> Option<Trial> {
        let Config { root, bytes, .. } = state.config;
        let native_s = state.config.native_in_use_s()?;
        let proposals = propose(network, root, bytes, USUAL_PACING, &mut self.random);
        // Not the simplest: where rates are only assumed, several trees are some safety.
        let time_s = |proposal: &Proposal| proposal.predicted.every_ack_s;
        let best = proposals.into_iter().min_by(|a, b| time_s(a).total_cmp(&time_s(b)))?;
        // A rate that is only assumed is none to pace by.
        let site_plan = SitePlan { pacing: None, ..best.site_plan };
        let early = propose_one(network, root, bytes, site_plan).pop()?;
        let is_worth_it = early.predicted.acknowledged_s < FAR_BETTER * native_s;
        is_worth_it.then(|| Trial {
            give_up_after_s: Some(FAR_BETTER * native_s),
            min_repetitions: 1,
            max_repetitions: 1,
            ..state.trial(early.plan)
        })
    }

    /// Nothing is left for now. When asked again: small steps from the best plan.
    fn rest(&mut self, network: &Network, config: &Config) {
        self.trials_left = MORE_TRIALS;
        if self.tried.len() >= self.first + MOST_STEPS {
            return;
        }
        let finite = self.seen.iter().filter(|(_, seconds)| seconds.is_finite());
        let best =
            finite.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(best, _)| best.site_plan.clone());
        if let Some(best) = best {
            let Config { root, bytes, .. } = *config;
            let steps = propose_steps(network, root, bytes, &best, &mut self.random);
            self.add(steps);
        }
    }
}

/// What native takes at least, going by what it takes at smaller sizes: longer messages don't take less
/// time, and a byte of theirs not much less.
fn native_at_least_s(config: &Config) -> Seconds {
    let at_least_s = |(&smaller, &seconds): (&u64, &Seconds)| {
        let of_its_bytes = seconds * config.bytes as f64 / smaller as f64 / BYTE_GAIN;
        if smaller < LADDER_BYTES { seconds } else { seconds.max(of_its_bytes) }
    };
    config.knowledge.native_s.range(..=config.bytes).map(at_least_s).fold(0.0, f64::max)
}

/// 1 for plans of the same segment size, lanes and pacing over the same links between sites, 0 for plans that
/// have nothing in common.
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
    let alike = |of_a: f64, of_b: f64| (1.0 - (of_a / of_b).log2().abs() / 3.0).max(0.0);
    let segments = alike(a.segment_bytes.into(), b.segment_bytes.into());
    let lanes = alike(a.lanes as f64, b.lanes as f64);
    let pacing = |plan: &SitePlan| plan.pacing.unwrap_or(USUAL_PACING).ln();
    let steps = (pacing(a) - pacing(b)) / SLOWER.ln();
    segments * lanes * (1.0 - steps.abs()).max(0.0) * (0.3 + 0.7 * common)
}

impl Strategy for Guided {
    fn native_trial(&self, state: &SearchState) -> Option<Trial> {
        if !state.native_is_due() {
            return None;
        }
        let network = state.network()?;
        let Config { root, bytes, .. } = state.config;
        let at_least_s = native_at_least_s(&state.config);
        let guess_s = simulate(&network, &Plan::Native, root, bytes).max(at_least_s);
        let whole = state.trial(Plan::Native);
        if guess_s < BEARABLE_S {
            return Some(whole);
        }
        let can_win =
            at_least_s.max(state.config.native_at_least_s.unwrap_or(0.0)) < state.best_s();
        if self.seen.len() < TREES_BEFORE_NATIVE || !can_win {
            return None;
        }
        let smaller = state.knowledge().native_s.range(..bytes);
        let largest = smaller.map(|(bytes, _)| *bytes).next_back().unwrap_or(0);
        let step = (largest * LADDER_FACTOR).max(LADDER_BYTES);
        if step >= bytes {
            return Some(whole);
        }
        Some(Trial { bytes: step, min_repetitions: 1, max_repetitions: 1, ..whole })
    }

    fn needs_links(&self, _state: &SearchState) -> bool {
        true
    }

    /// A tree, where it is so much better than what applications have now that one broadcast tells; else native, where
    /// their roots may not have seen all that it takes.
    fn propose_early(&mut self, state: &SearchState, assumed: Network) -> Option<Trial> {
        let Config { root, bytes, .. } = state.config;
        let network = state.config.as_broadcasts_find(assumed);
        let tree = self.propose_early_tree(state, &network);
        if tree.is_some() || !state.config.hides_native() {
            return tree;
        }
        let predicted_s = simulate(&network, &Plan::Native, root, bytes);
        (predicted_s < TRIAL_S).then(|| Trial {
            predicted_s: Some(predicted_s),
            min_repetitions: 1,
            max_repetitions: 1,
            ..state.trial(Plan::Native)
        })
    }

    fn foresee(&mut self, state: &mut SearchState) -> Option<Seconds> {
        // It is asked each time that something is to be measured, and a network of thousands is long to copy.
        if !self.is_proposed {
            self.propose_first(state, &state.network()?);
        }
        let first = self.simplest(f64::INFINITY, |_| true)?;
        Some(self.candidates[first].predicted.acknowledged_s)
    }

    fn propose(&mut self, state: &mut SearchState) -> Option<Trial> {
        let network = state.network()?;
        self.propose_first(state, &network);
        let best_s = state.best_s();
        let chosen = if self.trials_left > 0 {
            self.choose(best_s).or_else(|| self.faster.take())
        } else {
            None
        };
        let Some(proposal) = chosen else {
            self.rest(&network, &state.config);
            return None;
        };
        self.trials_left -= 1;
        let trial = Trial {
            give_up_after_s: best_s.is_finite().then_some(best_s * HOPELESS),
            predicted_s: Some(proposal.predicted.acknowledged_s),
            ..state.trial(proposal.plan.clone())
        };
        // Infinite until measured.
        self.seen.push((proposal, f64::INFINITY));
        Some(trial)
    }

    fn learn(&mut self, state: &mut SearchState, result: &TrialResult) {
        let of_trial = |(proposal, _): &(Proposal, Seconds)| proposal.plan == result.trial.plan;
        let Some(found) = self.seen.iter().position(of_trial) else { return };
        // An abandoned trial took at least as long as it was given.
        let at_least_s = result.trial.give_up_after_s.unwrap_or(f64::MAX);
        self.seen[found].1 = result.times.map_or(at_least_s, |times| times.median_s);
        self.adapt_pacing(state, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{BroadcastResult, Outcome, Request};
    use crate::model::grids;
    use crate::search::strategy::state::Knowledge;
    use crate::search::strategy::strategy;
    use crate::search::{Experiment, Search, converge};

    fn search(bytes: u64, knowledge: Knowledge) -> Search {
        let config = Config { knowledge, native: false, ..Config::new(16, 0, bytes) };
        Search::new(strategy("guided").unwrap(), config, None)
    }

    /// The plan of the next trial.
    fn next(search: &mut Search) -> Option<Plan> {
        search.next().map(|request| match request {
            Request::Broadcast { plan, .. } => plan,
            Request::Transfers(_) => panic!("the links are known"),
        })
    }

    #[test]
    fn who_is_asked_again_for_ever_keeps_a_bounded_number_of_plans() {
        let mesh = grids::four_site_mesh();
        let config = Config { native: false, ..Config::new(16, 0, 1 << 20) };
        let mut state = SearchState::new(config);
        state.config.knowledge.network = Some(mesh.clone());
        let mut guided = Guided::new(&state.config);
        let mut sizes = Vec::new();
        for _ in 0..500 {
            while let Some(trial) = guided.propose(&mut state) {
                let seconds = simulate(&mesh, &trial.plan, 0, trial.bytes);
                let result = state.resolve(trial, &[seconds], false);
                guided.learn(&mut state, &result);
            }
            sizes.push(guided.tried.len());
        }
        assert!(sizes[0] < sizes[20], "it goes on for a while: {sizes:?}");
        assert_eq!(sizes[200], sizes[499]);
    }

    /// How fast the root paces the trees of a plan; infinite where it leaves one to the connections.
    fn pacing_rate(plan: &Plan) -> f64 {
        let rate = plan.striping().expect("native was not asked for").bytes_per_s();
        rate.map_or(f64::INFINITY, |rate| rate as f64)
    }

    #[test]
    fn applications_need_not_wait_for_the_survey() {
        // Where connections take their time to start, as most do, the survey takes longest.
        let mesh = grids::four_site_mesh().after_pause(f64::INFINITY);
        let native_s = simulate(&mesh, &Plan::Native, 0, 1 << 20);
        let record = |native_at_least_s| {
            let config = Config { native_at_least_s, ..Config::new(16, 0, 1 << 20) };
            let mut search = Search::new(strategy("guided").unwrap(), config, None);
            let experiment = Experiment { max_trials: 9, noise: 0.02, seed: 1, ask_again: 0 };
            converge(&mut search, &mesh, experiment)
        };
        let (with, without) = (record(Some(0.9 * native_s)), record(None));
        let (early, late) = (&with.steps[0], &without.steps[0]);
        println!("{} s after {} s, then {} s", early.best_s, early.elapsed_s, with.final_s());
        assert!(early.elapsed_s < late.elapsed_s / 2.0, "{} s", late.elapsed_s);
        assert!(early.best_s < native_s / 3.0, "{early:?}");
        assert!(with.final_s() < 1.05 * without.final_s());
        // What does not beat what is there is not taken.
        assert!(record(Some(early.best_s)).steps[0].elapsed_s > late.elapsed_s / 2.0);
    }

    #[test]
    fn nor_where_they_do_not_see_what_native_takes() {
        let mesh = grids::four_site_mesh().after_pause(f64::INFINITY);
        for bytes in [16 << 10, 64 << 10] {
            let native_s = simulate(&mesh, &Plan::Native, 0, bytes);
            let config = Config { pause_s: 1.0, ..Config::new(16, 0, bytes) };
            let mut search = Search::new(strategy("guided").unwrap(), config, None);
            let experiment = Experiment { max_trials: 9, noise: 0.02, seed: 1, ask_again: 0 };
            let record = converge(&mut search, &mesh, experiment);
            let early = &record.steps[0];
            println!("{native_s} s, {} s after {} s", early.best_s, early.elapsed_s);
            assert!(early.best_s < native_s / 2.0, "{early:?}");
            assert!(early.elapsed_s < record.elapsed_s / 2.0, "{} s", record.elapsed_s);
        }
    }

    #[test]
    fn what_is_late_however_it_is_paced_is_not_paced_more_slowly_again() {
        let network = grids::four_site_mesh();
        let mesh = Knowledge { network: Some(network.clone()), ..Knowledge::default() };
        let mut search = search(8 << 20, mesh);
        let mut plans = Vec::new();
        while let Some(plan) = next(&mut search) {
            let seconds = 1.4 * simulate(&network, &plan, 0, 8 << 20);
            let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
            search.answer(Outcome::Broadcast(result), 0.0);
            if plans.last() != Some(&plan) {
                plans.push(plan);
            }
        }
        let paced: Vec<f64> = plans.iter().map(pacing_rate).collect();
        assert!(plans.len() > 2 && paced[1] < 0.97 * paced[0], "{paced:?}");
        assert!(paced.iter().all(|rate| *rate > 0.97 * paced[1]), "{paced:?}");
    }

    #[test]
    fn what_carries_more_than_was_measured_is_paced_faster_as_long_as_that_helps() {
        let truth = grids::four_site_mesh();
        for (measured, least_gain, most_gain) in [(1.0, 0.97, 1.1), (0.9, 1.08, 1.2)] {
            let network = Some(grids::with_links_at(&truth, measured));
            let knowledge = Knowledge { network, ..Knowledge::default() };
            let mut search = search(32 << 20, knowledge);
            let mut found = Vec::new();
            while let Some(plan) = next(&mut search) {
                let seconds = simulate(&truth, &plan, 0, 32 << 20);
                let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
                search.answer(Outcome::Broadcast(result), 0.0);
                found.push((seconds, plan));
            }
            let best = found.iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let gain = found[0].0 / best.0;
            println!("{measured}: {} s, then {} s, {} trials", found[0].0, best.0, found.len());
            assert!((least_gain..most_gain).contains(&gain), "{measured}: {gain}");
        }
    }

    #[test]
    fn what_loses_packets_is_paced_more_slowly_at_other_sizes_too() {
        let network = grids::four_site_mesh();
        let mesh = Knowledge { network: Some(network.clone()), ..Knowledge::default() };
        let mut first = search(8 << 20, mesh.clone());
        let too_fast = 0.95 * pacing_rate(&next(&mut first).unwrap());
        while let Some(plan) = next(&mut first) {
            let loses = pacing_rate(&plan) > too_fast;
            let seconds = simulate(&network, &plan, 0, 8 << 20) * if loses { 1.4 } else { 1.0 };
            let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
            first.answer(Outcome::Broadcast(result), 0.0);
        }
        assert_eq!(first.knowledge().pacing, Some(USUAL_PACING * SLOWER));

        let usual = pacing_rate(&next(&mut search(32 << 20, mesh)).unwrap());
        let slower = pacing_rate(&next(&mut search(32 << 20, first.knowledge().clone())).unwrap());
        assert!(slower < 0.96 * usual, "{slower} B/s and {usual} B/s");
    }
}
