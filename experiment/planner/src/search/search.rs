//! The search for one target: what to measure next, and what follows from what was measured.

use super::incumbent::Incumbent;
use super::strategy::Description;
use super::strategy::state::{Config, Knowledge, SearchState, Strategy, TrialResult};
use crate::measurement::{
    BroadcastResult, Outcome, Request, Seconds, Transfer, TransferResult, Trial, are_pings, counted,
};
use crate::model::network::Network;
use crate::model::simulate::simulate;
use crate::survey::{Rounds, Survey, of_sites};
use arborcast_proto::Plan;
use std::collections::BTreeMap;

/// A round of link measurements that was disturbed is made again at most this many times.
const DISTURBED_ROUNDS: u32 = 3;
/// A search whose broadcasts were disturbed this many times in a row is put off: they don't fit between
/// those of the applications.
const DISTURBED_BROADCASTS: u32 = 10;
/// An early trial is dropped after this many: the survey is to go on.
const DISTURBED_EARLY: u32 = 3;
/// A trial is dropped after this many broadcasts that were too slow to win: one may have met something else.
const SLOW_BROADCASTS: u32 = 2;
/// Where each broadcast takes a pause, a trial is over once so many of them, and most, took longer than the best plan
/// does.
const LOST_BROADCASTS: usize = 2;

/// What has become of the early trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Early {
    Due,
    /// The strategy has been asked for it.
    Over,
    /// Programs left no room for it.
    Dropped,
}

/// Why a trial is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The strategy asked for it and is to learn from it.
    Strategy,
    /// Before the links are known.
    Early,
    /// To doubt the plan in use.
    Doubt,
    /// To break a tie.
    Check,
}

/// What has been asked for, with what has come of it so far.
#[derive(Debug)]
enum Pending {
    Trial {
        trial: Trial,
        purpose: Purpose,
        samples_s: Vec<Seconds>,
        /// Broadcasts that were too slow to win.
        slow: u32,
    },
    Survey {
        rounds: Rounds,
        done: Vec<Vec<TransferResult>>,
        /// The form in which the round under way is made, where it is another one.
        instead: Option<Vec<Transfer>>,
    },
}

impl Pending {
    fn trial(state: &SearchState, trial: Trial, purpose: Purpose) -> Self {
        let trial = Trial { pause_s: state.pause_before_s(&trial), ..trial };
        Pending::Trial { trial, purpose, samples_s: Vec::new(), slow: 0 }
    }
}

/// The search for one target. It owns what all strategies need: the request that is pending, the survey of
/// the links, and the incumbent.
pub struct Search {
    description: &'static Description,
    strategy: Box<dyn Strategy>,
    state: SearchState,
    survey: Option<Survey>,
    /// The plan in use, where programs left no room to measure it first: its turn comes after the survey.
    doubted: Option<Plan>,
    early: Early,
    pending: Option<Pending>,
    /// How many times in a row what was asked for was disturbed.
    disturbances: u32,
    /// Trials so far.
    pub(super) trials: u32,
    /// Seconds spent so far.
    pub(super) search_s: Seconds,
}

impl Search {
    /// Measures `first` first of all, if there is one.
    pub fn new(description: &'static Description, config: Config, first: Option<Plan>) -> Self {
        let strategy = (description.make)(&config);
        let state = SearchState::new(config);
        // When native is measured, each strategy says itself.
        let first = first.filter(|plan| *plan != Plan::Native);
        Search {
            description,
            strategy,
            pending: first.map(|plan| Pending::trial(&state, state.trial(plan), Purpose::Doubt)),
            state,
            survey: None,
            doubted: None,
            early: Early::Due,
            disturbances: 0,
            trials: 0,
            search_s: 0.0,
        }
    }

    /// What to measure next; the same again until it was answered undisturbed. `None`: nothing is left to
    /// try for now.
    #[allow(clippy::should_implement_trait)] // it does not consume, and may go on after `None`
    pub fn next(&mut self) -> Option<Request> {
        if self.pending.is_none() {
            self.pending = self.choose();
        }
        match self.pending.as_mut()? {
            Pending::Trial { trial, .. } => {
                let Trial { bytes, pause_s, give_up_after_s, .. } = *trial;
                let plan = trial.plan.clone();
                Some(Request::Broadcast { plan, bytes, pause_s, give_up_after_s })
            }
            Pending::Survey { rounds, done, instead } => {
                *instead = None;
                Some(Request::Transfers(rounds[done.len()].clone()))
            }
        }
    }

    /// Native unless the plan in use has been put off, the survey where it is needed, the plan that has been put off,
    /// the strategy's own, and at last what breaks a tie.
    fn choose(&mut self) -> Option<Pending> {
        if self.doubted.is_none()
            && let Some(native) = self.strategy.native_trial(&self.state)
        {
            return Some(Pending::trial(&self.state, native, Purpose::Strategy));
        }
        if self.strategy.needs_links(&self.state)
            && let Some(rounds) = self.survey_rounds()
        {
            let early = self.early_trial();
            return Some(early.unwrap_or(Pending::Survey {
                rounds,
                done: Vec::new(),
                instead: None,
            }));
        }
        if let Some(plan) = self.doubted.take() {
            let trial = self.state.trial(plan);
            return Some(Pending::trial(&self.state, trial, Purpose::Doubt));
        }
        // Once the links are known native may have its turn.
        let native = self.strategy.native_trial(&self.state);
        let proposed = native.or_else(|| self.strategy.propose(&mut self.state));
        let tie_break = || self.state.incumbent.tie_break(self.state.config.bytes);
        match proposed {
            Some(trial) => Some(Pending::trial(&self.state, trial, Purpose::Strategy)),
            None => tie_break().map(|trial| Pending::trial(&self.state, trial, Purpose::Check)),
        }
    }

    /// Once the survey knows the latencies, and applications have shown what native takes: what may be far
    /// better than native, long before the survey ends.
    fn early_trial(&mut self) -> Option<Pending> {
        if !self.is_early_due() {
            return None;
        }
        let assumed = self.assumed_network()?;
        self.early_trial_on(assumed)
    }

    fn early_trial_on(&mut self, assumed: Network) -> Option<Pending> {
        let trial = self.strategy.propose_early(&self.state, assumed);
        // Native first, where nobody knows what it takes.
        if trial.as_ref().is_none_or(|trial| trial.plan != Plan::Native) {
            self.early = Early::Over;
        }
        Some(Pending::trial(&self.state, trial?, Purpose::Early))
    }

    /// Whether an early trial would be of use: not where a plan is in use already, which waits to be doubted.
    pub fn is_early_due(&self) -> bool {
        let config = self.config();
        let is_open = self.early == Early::Due && self.doubted.is_none();
        is_open && (config.native_in_use_s().is_some() || config.hides_native())
    }

    /// Where it surveys the links and knows their latencies: with rates as they might be.
    pub fn assumed_network(&self) -> Option<Network> {
        self.survey.as_ref()?.assumed_network()
    }

    /// By the configured sites alone, where there are several.
    pub fn network_of_sites(&self) -> Option<Network> {
        of_sites(&self.config().site_numbers()?)
    }

    /// A plan that should be far better than native on such a network, and what it should take.
    pub fn early_plan(&mut self, assumed: &Network) -> Option<(Plan, Seconds)> {
        let trial = self.strategy.propose_early(&self.state, assumed.clone())?;
        let plan = Some(trial.plan).filter(|plan| *plan != Plan::Native)?;
        let expected_s = self.expected_s(&plan, assumed);
        Some((plan, expected_s))
    }

    pub fn is_surveying(&self) -> bool {
        self.survey.is_some()
    }

    /// Whether it would begin to survey the links next.
    pub fn awaits_links(&self) -> bool {
        let is_free = self.pending.is_none() && !self.is_surveying();
        is_free
            && self.knowledge().network.is_none()
            && self.strategy.native_trial(&self.state).is_none()
            && self.strategy.needs_links(&self.state)
    }

    /// While another search surveys the links: an early trial, by what that assumes of them.
    /// False where none is worth it.
    pub fn begin_early(&mut self, assumed: Network) -> bool {
        self.pending = self.early_trial_on(assumed);
        self.pending.is_some()
    }

    /// Whether a network that another search has surveyed would be of use: nothing is known or under way but an
    /// early trial, which is of less use then.
    pub fn may_take_over(&self) -> bool {
        let is_free = self.pending.is_none() || self.is_early_pending();
        let knows_nothing = self.knowledge().network.is_none() && !self.is_surveying();
        is_free && knows_nothing && self.strategy.needs_links(&self.state)
    }

    /// An early trial that has not begun.
    fn is_early_pending(&self) -> bool {
        matches!(&self.pending,
            Some(Pending::Trial { purpose: Purpose::Early, samples_s, .. }) if samples_s.is_empty())
    }

    pub fn has_dropped_early(&self) -> bool {
        self.early == Early::Dropped
    }

    /// Does without an early trial that programs leave no room for, so that the survey goes on; false where
    /// none is pending.
    pub fn drop_early(&mut self) -> bool {
        let is_pending = self.is_early_pending();
        if is_pending {
            self.pending = None;
            self.early = Early::Dropped;
            self.disturbances = 0;
        }
        is_pending
    }

    /// Surveys first, which needs less room, where programs leave none to measure the plan in use.
    fn put_off_doubt(&mut self) {
        let is_survey_due =
            self.knowledge().network.is_none() && self.strategy.needs_links(&self.state);
        if let Some(Pending::Trial { trial, purpose: Purpose::Doubt, samples_s, .. }) =
            &self.pending
            && samples_s.is_empty()
            && is_survey_due
        {
            self.doubted = Some(trial.plan.clone());
            self.pending = None;
            self.disturbances = 0;
        }
    }

    /// Takes over the network that another search has surveyed.
    pub fn take_over(&mut self, knowledge: Knowledge) {
        self.state.config.knowledge.network = knowledge.network;
        self.state.config.knowledge.pacing = knowledge.pacing;
        self.pending = None;
    }

    /// The next rounds of the survey of the links; `None` once the network is known.
    fn survey_rounds(&mut self) -> Option<Rounds> {
        let Config { nodes, root, ref knowledge, .. } = self.state.config;
        if knowledge.network.is_some() {
            return None;
        }
        let survey = self.survey.get_or_insert_with(|| Survey::new(nodes, root));
        let rounds = survey.ask().cloned();
        self.end_survey();
        rounds
    }

    /// The network is known as soon as the survey has ended.
    fn end_survey(&mut self) {
        if let Some(network) = self.survey.as_ref().and_then(Survey::network) {
            self.state.config.knowledge.network = Some(network.clone());
            self.survey = None;
        }
    }

    /// The round of link measurements that [`Search::next`] has asked for is made in this form instead, between the
    /// same nodes. False where it has asked for another one.
    pub fn change_round(&mut self, asked: &[Transfer], instead: &[Transfer]) -> bool {
        let Some(Pending::Survey { rounds, done, instead: made }) = &mut self.pending else {
            return false;
        };
        let is_asked = rounds[done.len()] == asked;
        if is_asked {
            *made = Some(instead.to_vec());
        }
        is_asked
    }

    /// Takes what came of [`Search::next`], which with all around it took `spent_s`. Gives the result of
    /// the trial, where that is over. An outcome of another kind can't be meant for the request, which
    /// then stays.
    pub fn answer(&mut self, outcome: Outcome, spent_s: Seconds) -> Option<TrialResult> {
        self.search_s += spent_s;
        match (self.pending.take()?, outcome) {
            (
                Pending::Trial { trial, purpose, samples_s, slow },
                Outcome::Broadcast(BroadcastResult { disturbed: true, .. }),
            ) => {
                // The samples that are there are good: the trial goes on with the next one.
                self.disturbances += 1;
                self.pending = Some(Pending::Trial { trial, purpose, samples_s, slow });
                if self.disturbances >= DISTURBED_EARLY {
                    self.drop_early();
                    self.put_off_doubt();
                }
                None
            }
            (
                Pending::Trial { mut trial, purpose, mut samples_s, mut slow },
                Outcome::Broadcast(BroadcastResult { seconds, abandoned, .. }),
            ) => {
                self.disturbances = 0;
                if abandoned {
                    slow += 1;
                } else {
                    samples_s.push(seconds);
                    self.state.config.note_native_once(&trial, seconds);
                }
                let best_s = self.state.best_s();
                let counted_s = counted(&samples_s);
                let lost = counted_s.iter().filter(|seconds| **seconds > best_s).count();
                let has_lost =
                    trial.pause_s > 0.0 && lost >= LOST_BROADCASTS && 2 * lost > counted_s.len();
                let mut is_over = has_lost || !abandoned && trial.is_known_well_enough(&samples_s);
                if is_over && self.state.wins_in_doubt(&trial, counted_s) {
                    trial.pause_s = self.state.config.pause_s;
                    samples_s.clear();
                    is_over = false;
                }
                self.go_on(trial, purpose, samples_s, slow, is_over)
            }
            (
                Pending::Survey { rounds, done, instead },
                Outcome::Transfers { results, disturbed },
            ) => {
                let made = instead.unwrap_or_else(|| rounds[done.len()].clone());
                self.take_round(rounds, done, made, results, disturbed);
                None
            }
            (pending, _) => {
                self.pending = Some(pending);
                None
            }
        }
    }

    /// A trial after a broadcast of it. Gives the result, where that was the last.
    fn go_on(
        &mut self,
        trial: Trial,
        purpose: Purpose,
        samples_s: Vec<Seconds>,
        slow: u32,
        is_over: bool,
    ) -> Option<TrialResult> {
        let is_dropped = slow >= SLOW_BROADCASTS;
        if !is_dropped && !is_over {
            self.pending = Some(Pending::Trial { trial, purpose, samples_s, slow });
            return None;
        }
        if purpose == Purpose::Early && trial.plan == Plan::Native {
            return None;
        }
        self.trials += 1;
        let result = self.state.resolve(trial, &samples_s, is_dropped);
        if purpose == Purpose::Strategy {
            self.strategy.learn(&mut self.state, &result);
        }
        Some(result)
    }

    /// Takes in what a program's broadcast along `plan` took, where that is the plan of the trial that is due. Gives the
    /// trial's result where it is over: known well enough, or slower than `slower_than_s` once too often.
    pub fn note_broadcast(
        &mut self,
        plan: &Plan,
        seconds: Seconds,
        slower_than_s: Seconds,
    ) -> Option<TrialResult> {
        if !self.is_due(plan) {
            return None;
        }
        let Some(Pending::Trial { trial, purpose, mut samples_s, slow }) = self.pending.take()
        else {
            return None;
        };
        samples_s.push(seconds);
        let lost = samples_s.iter().filter(|seconds| **seconds > slower_than_s).count();
        let is_over = lost >= LOST_BROADCASTS || trial.is_known_well_enough(&samples_s);
        self.go_on(trial, purpose, samples_s, slow, is_over)
    }

    /// Whether the trial that is due is one of this plan.
    pub fn is_due(&self, due: &Plan) -> bool {
        matches!(&self.pending, Some(Pending::Trial { trial, .. }) if trial.plan == *due)
    }

    /// One round of the survey, in the form in which it was made. Of one that was disturbed, what was not over is made
    /// again, and all of it where transfers tell of each other; up to a point: then what came counts.
    fn take_round(
        &mut self,
        mut rounds: Rounds,
        mut done: Vec<Vec<TransferResult>>,
        made: Vec<Transfer>,
        results: Vec<TransferResult>,
        is_disturbed: bool,
    ) {
        // A program that comes waits for empty messages, which go on to their end.
        let is_lost = is_disturbed && !are_pings(&made) && self.disturbances < DISTURBED_ROUNDS;
        let over = match is_lost {
            false => Some((made, results)),
            true if self.survey.as_ref().is_some_and(Survey::are_told_alone) => {
                split_off_whole(&mut rounds, done.len(), made, results)
            }
            true => None,
        };
        match over {
            Some((made, results)) => {
                self.disturbances = 0;
                rounds[done.len()] = made;
                done.push(results);
            }
            None => self.disturbances += 1,
        }
        if done.len() < rounds.len() {
            self.pending = Some(Pending::Survey { rounds, done, instead: None });
        } else if let Some(survey) = &mut self.survey {
            survey.observe(&rounds, &done);
            self.end_survey();
        }
    }

    /// Time that went by and gave nothing.
    pub fn spend(&mut self, spent_s: Seconds) {
        self.search_s += spent_s;
    }

    /// Whether applications leave no time for what is next; if so, it is forgotten that they did.
    pub fn is_starved(&mut self) -> bool {
        let is_starved = self.disturbances >= DISTURBED_BROADCASTS;
        if is_starved {
            self.disturbances = 0;
        }
        is_starved
    }

    /// This search begun anew on another network, which is known: nothing that was measured stands.
    pub fn on(&self, network: &Network) -> Self {
        let knowledge = Knowledge {
            network: Some(network.clone()),
            native_s: BTreeMap::new(),
            ..self.knowledge().clone()
        };
        let config = Config { knowledge, native_once_s: None, ..self.config().clone() };
        let Search { trials, search_s, .. } = *self;
        Search { trials, search_s, ..Search::new(self.description, config, None) }
    }

    /// This search gone on with after another for the same target.
    #[must_use]
    pub fn after(self, other: &Search) -> Self {
        Search { trials: other.trials, search_s: other.search_s, ..self }
    }

    /// The tree that the strategy would measure first, with what its model expects, if that is less than `below_s`.
    /// It is measured next then, even before native.
    pub fn foresee(&mut self, below_s: Seconds) -> Option<(Plan, Seconds)> {
        if self.is_tree_due() {
            let expected_s = self.strategy.foresee(&mut self.state)?;
            if expected_s >= below_s {
                return None;
            }
            let trial = self.strategy.propose(&mut self.state)?;
            self.pending = Some(Pending::trial(&self.state, trial, Purpose::Strategy));
        }
        let Pending::Trial { trial, .. } = self.pending.as_ref()? else { return None };
        let predicted_s = trial.predicted_s.filter(|&predicted_s| predicted_s < below_s)?;
        (trial.plan != Plan::Native).then(|| (trial.plan.clone(), predicted_s))
    }

    /// Whether the strategy may be asked for a tree: nothing is under way but a trial of native.
    fn is_tree_due(&self) -> bool {
        let is_free = match &self.pending {
            None => true,
            Some(Pending::Trial { trial, purpose: Purpose::Strategy, .. }) => {
                trial.plan == Plan::Native
            }
            Some(_) => false,
        };
        is_free && self.doubted.is_none()
    }

    /// What a broadcast of the trial under way takes, as far as that is known: the longest that it took, or what is
    /// predicted or given to it.
    pub fn pending_s(&self) -> Option<Seconds> {
        let Pending::Trial { trial, samples_s, .. } = self.pending.as_ref()? else { return None };
        let longest_s = samples_s.iter().copied().reduce(f64::max);
        longest_s.or(trial.predicted_s).or(trial.give_up_after_s)
    }

    /// What a plan takes by the model on a network.
    pub fn expected_s(&self, plan: &Plan, network: &Network) -> Seconds {
        let Config { root, bytes, .. } = *self.config();
        let network = self.config().as_broadcasts_find(network.clone());
        simulate(&network, plan, root, bytes)
    }

    /// From now on programs are taken to pause for so long. False where trials have been made already that go
    /// by another pause.
    pub fn change_pause(&mut self, pause_s: Seconds) -> bool {
        let may_change = self.state.knowledge().network.is_none();
        if may_change {
            self.state.config.pause_s = pause_s;
        }
        may_change
    }

    /// What native broadcasts of applications have taken at least of late, from this root and from others.
    pub fn note_native(&mut self, at_least_s: Option<Seconds>, elsewhere_s: Option<Seconds>) {
        self.state.config.native_at_least_s = at_least_s;
        self.state.config.native_elsewhere_s = elsewhere_s;
    }

    pub fn config(&self) -> &Config {
        &self.state.config
    }

    pub fn knowledge(&self) -> &Knowledge {
        self.state.knowledge()
    }

    pub fn incumbent(&self) -> &Incumbent {
        &self.state.incumbent
    }

    pub fn strategy_name(&self) -> &'static str {
        self.description.name
    }
}

/// The transfers of a round that came whole, as they were made, with what came of them; others are in a round after it
/// then. `None` where none came whole.
fn split_off_whole(
    rounds: &mut Rounds,
    place: usize,
    made: Vec<Transfer>,
    results: Vec<TransferResult>,
) -> Option<(Vec<Transfer>, Vec<TransferResult>)> {
    let is_whole: Vec<bool> =
        made.iter().zip(&results).map(|(transfer, result)| result.is_whole(transfer)).collect();
    let asked = rounds[place].iter().zip(&is_whole);
    let open: Vec<Transfer> =
        asked.filter(|(_, is_whole)| !**is_whole).map(|(asked, _)| *asked).collect();
    if open.len() == made.len() {
        return None;
    }
    if !open.is_empty() {
        rounds.insert(place + 1, open);
    }
    let over = made.into_iter().zip(results).zip(is_whole);
    Some(over.filter(|(_, is_whole)| *is_whole).map(|(over, _)| over).unzip())
}

#[cfg(test)]
mod tests {
    use super::super::strategy::strategy;
    use super::*;
    use crate::model::grids::four_site_mesh;
    use crate::model::simulate::transfers;
    use arborcast_proto::{Stripe, Striping, Tree};

    fn search(name: &str, nodes: usize) -> Search {
        Search::new(strategy(name).unwrap(), Config::new(nodes, 0, 1000), None)
    }

    fn broadcast(seconds: Seconds) -> Outcome {
        Outcome::Broadcast(BroadcastResult { seconds, abandoned: false, disturbed: false })
    }

    #[test]
    fn a_trial_is_repeated_until_it_is_known() {
        let mut search = search("random-transform", 4);
        let first = search.next();
        let mut repetitions = 0;
        let result = loop {
            assert_eq!(search.next(), first, "one trial after the other");
            repetitions += 1;
            if let Some(result) = search.answer(broadcast(0.1), 0.2) {
                break result;
            }
        };
        assert_eq!(result.median_s(), 0.1);
        assert!(repetitions > 1);
    }

    #[test]
    fn the_survey_goes_on_where_programs_leave_no_room_for_the_plan_in_use() {
        let mut config = Config::new(4, 0, 1 << 20);
        config.native_at_least_s = Some(9.0);
        let plan = Plan::single(Tree::flat(4, 0).unwrap(), 777).unwrap();
        let mut search = Search::new(strategy("guided").unwrap(), config, Some(plan.clone()));
        let (mut surveyed, mut disturbed) = (0, 0);
        let is_measured = loop {
            match search.next().expect("something to measure") {
                Request::Transfers(round) => {
                    surveyed += 1;
                    let timed = |t: &Transfer| TransferResult::timed(0.01 + t.bytes as f64 * 1e-8);
                    let results = round.iter().map(timed).collect();
                    search.answer(Outcome::Transfers { results, disturbed: false }, 0.1);
                }
                Request::Broadcast { plan: asked, .. } if surveyed == 0 => {
                    assert_eq!(asked, plan);
                    disturbed += 1;
                    let result =
                        BroadcastResult { seconds: 9.0, abandoned: false, disturbed: true };
                    search.answer(Outcome::Broadcast(result), 0.1);
                }
                Request::Broadcast { plan: asked, .. } => break asked == plan,
            }
        };
        assert!(search.survey.is_none(), "after the survey");
        assert_eq!(disturbed, DISTURBED_EARLY);
        assert!(is_measured, "before any other plan");
    }

    #[test]
    fn a_trial_outlives_one_slow_broadcast_but_not_two() {
        let slow = || {
            let result = BroadcastResult { seconds: 9.0, abandoned: true, disturbed: false };
            Outcome::Broadcast(result)
        };
        let mut search = search("random-transform", 4);
        let first = search.next();
        assert_eq!(search.answer(slow(), 0.0), None);
        assert_eq!(search.next(), first);
        assert_eq!(search.answer(broadcast(0.1), 0.0), None);
        let result = search.answer(slow(), 0.0).expect("dropped");
        assert_eq!(result.times, None);
    }

    #[test]
    fn where_broadcasts_take_pauses_a_trial_that_cannot_win_is_soon_over() {
        let config = Config { pause_s: 1.0, ..Config::new(4, 0, 1 << 20) };
        let mut search = Search::new(strategy("random-transform").unwrap(), config, None);
        let mut broadcasts = |seconds: &mut dyn FnMut(u32) -> Seconds| {
            search.next();
            (1..).find(|&count| search.answer(broadcast(seconds(count)), 0.0).is_some()).unwrap()
        };
        assert_eq!(broadcasts(&mut |_| 0.1), 3);
        assert_eq!(broadcasts(&mut |count| 0.1 + 0.01 * f64::from(count)), 2);
        assert_eq!(
            broadcasts(&mut |count| if count == 2 { 0.11 } else { 0.08 }),
            3,
            "one tells nothing"
        );
    }

    #[test]
    fn a_trial_that_wins_without_pauses_has_to_win_with_them() {
        let network = four_site_mesh();
        let (nodes, bytes) = (network.len(), 20_000);
        // No connection carries both halves.
        let all_below = |hub: usize| {
            let parent = |node| (node != 0).then_some(if node == hub { 0 } else { hub });
            Tree::from_parents(&(0..nodes).map(parent).collect::<Vec<_>>()).unwrap()
        };
        let halves = [all_below(1), all_below(2)].map(|tree| Stripe::new(tree, 1));
        let halves = Plan::Trees(Striping::new(halves.to_vec(), 10_000).unwrap());
        let knowledge = Knowledge { network: Some(network), ..Knowledge::default() };
        let config = Config { knowledge, pause_s: 1.0, ..Config::new(nodes, 0, bytes) };
        let mut search = Search::new(strategy("guided").unwrap(), config, Some(halves));
        let mut pauses_s = Vec::new();
        let result = loop {
            let pause_s = search.next().unwrap().pause_s();
            pauses_s.push(pause_s);
            // The model takes what each connection carries for what its first window lets through.
            let seconds = if pause_s > 0.0 { 0.2 } else { 0.1 };
            if let Some(result) = search.answer(broadcast(seconds), 0.0) {
                break result;
            }
        };
        assert_eq!(result.median_s(), 0.2);
        assert_eq!(pauses_s, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_disturbed_broadcast_leaves_no_trace() {
        let mut search = search("random-transform", 4);
        let first = search.next();
        for count in 1..50 {
            let disturbed = BroadcastResult { seconds: 9.0, abandoned: true, disturbed: true };
            assert_eq!(search.answer(Outcome::Broadcast(disturbed), 0.0), None);
            assert_eq!(search.is_starved(), count % DISTURBED_BROADCASTS == 0);
            assert_eq!(search.next(), first);
        }
    }

    #[test]
    fn a_disturbed_round_is_made_again_unless_it_is_of_empty_messages() {
        let mut search = search("guided", 2);
        // Makes the round that is asked for, and gives the next one; `None` after the survey.
        let mut next = |asked: &[Transfer], disturbed: bool| {
            let result =
                |transfer: &Transfer| TransferResult::timed(1e-4 + transfer.bytes as f64 * 1e-8);
            let results = asked.iter().map(result).collect();
            search.answer(Outcome::Transfers { results, disturbed }, 0.1);
            loop {
                match search.next()? {
                    Request::Transfers(round) => return Some(round),
                    Request::Broadcast { .. } if search.knowledge().network.is_some() => {
                        return None;
                    }
                    Request::Broadcast { .. } => search.answer(broadcast(0.1), 0.1),
                };
            }
        };
        let mut asked = next(&[], true).unwrap();
        while are_pings(&asked) {
            let then = next(&asked, true).unwrap();
            assert_ne!(then, asked, "they go on to their end");
            asked = then;
        }
        assert_eq!(next(&asked, true).as_ref(), Some(&asked));
        let mut left = next(&asked, false);
        assert_ne!(left.as_ref(), Some(&asked), "one that was not disturbed is enough");
        for _ in 0..100 * (1 + DISTURBED_ROUNDS) {
            let Some(asked) = left else { return };
            left = next(&asked, true);
        }
        panic!("disturbances are borne in the end");
    }

    #[test]
    fn what_came_whole_though_a_program_came_is_not_measured_again() {
        let mut search = search("guided", 16);
        let network = four_site_mesh();
        let round = loop {
            let outcome = match search.next().expect("it surveys") {
                Request::Transfers(round) if are_pings(&round) => {
                    Outcome::Transfers { results: transfers(&network, &round), disturbed: false }
                }
                Request::Transfers(round) => break round,
                Request::Broadcast { .. } => broadcast(0.1),
            };
            search.answer(outcome, 0.1);
        };
        let mut results = transfers(&network, &round);
        assert!(round.len() > 2 && results.iter().zip(&round).all(|(r, t)| r.is_whole(t)));
        results[1].arrivals.truncate(1);
        search.answer(Outcome::Transfers { results, disturbed: true }, 0.1);
        assert_eq!(search.next(), Some(Request::Transfers(vec![round[1]])));
        let results = transfers(&network, &[round[1]]);
        search.answer(Outcome::Transfers { results, disturbed: false }, 0.1);
        let Some(Request::Transfers(next)) = search.next() else { panic!("it surveys") };
        assert!(next.iter().all(|transfer| !round.contains(transfer)));
    }
}
