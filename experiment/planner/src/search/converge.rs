//! Runs a search against the simulator on a virtual clock and records how it converges.

use super::search::Search;
use super::strategy::state::Config;
use crate::measurement::{
    Arrival, BroadcastResult, Outcome, Request, Seconds, Transfer, TransferResult, Trial,
};
use crate::model::network::Network;
use crate::model::simulate::{simulate, transfers};
use arborcast_proto::Plan;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Seconds between two broadcasts of a trial, for looking at the holds and spreading the plan.
const BETWEEN_BROADCASTS_S: Seconds = 1e-3;

/// How long to go on, and how true the measurements are.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    pub max_trials: usize,
    /// Every measured time is the true one × (1 + something between 0 and this).
    pub noise: f64,
    pub seed: u64,
    /// The number of times that a search with nothing left to ask is asked again, as a job does that waits
    /// for the network to change.
    pub ask_again: usize,
}

/// The plan in use, after a number of trials and of seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub trials: usize,
    pub elapsed_s: Seconds,
    /// The true time of the plan, not the measured one.
    pub best_s: Seconds,
    pub plan: Plan,
}

/// How a search converged.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Each time the plan in use changed.
    pub steps: Vec<Step>,
    /// Plans measured.
    pub trials: usize,
    /// Transfers measured to learn the links, and how much was sent for it.
    pub transfers: usize,
    pub transferred_bytes: u64,
    pub elapsed_s: Seconds,
}

impl Record {
    /// The time of the last best plan; infinite where none was measured.
    pub fn final_s(&self) -> Seconds {
        self.steps.last().map_or(f64::INFINITY, |step| step.best_s)
    }

    /// The first step within `fraction` of the final time: `converged(0.1)` is within 10 %.
    pub fn converged(&self, fraction: f64) -> Option<&Step> {
        let good = self.final_s() * (1.0 + fraction);
        self.steps.iter().find(|step| step.best_s <= good)
    }
}

/// Runs `search` until it has nothing left to ask or the experiment's trials are used up. Holds and
/// interruptions don't happen here.
pub fn converge(search: &mut Search, network: &Network, experiment: Experiment) -> Record {
    let Config { root, bytes, .. } = *search.config();
    let mut random = ChaCha8Rng::seed_from_u64(experiment.seed);
    let mut noise = || 1.0 + experiment.noise * random.random_range(0.0..1.0);
    // The links are measured over connections that have been silent, or have only just come to be.
    let silent = network.clone().after_pause(f64::INFINITY);
    let mut simulator = Simulator { network, root, last: None };
    let mut record =
        Record { steps: Vec::new(), trials: 0, transfers: 0, transferred_bytes: 0, elapsed_s: 0.0 };
    let mut refusals = 0;
    while record.trials < experiment.max_trials && refusals <= experiment.ask_again {
        match search.next() {
            None => refusals += 1,
            Some(Request::Broadcast { plan, bytes, pause_s, give_up_after_s }) => {
                let trial = Trial { pause_s, give_up_after_s, ..Trial::new(plan, bytes) };
                let outcome = simulator.broadcast(&trial, &mut noise);
                let spent_s = pause_s + outcome.seconds + BETWEEN_BROADCASTS_S;
                record.elapsed_s += spent_s;
                let result = search.answer(Outcome::Broadcast(outcome), spent_s);
                record.trials += usize::from(result.is_some());
            }
            Some(Request::Transfers(round)) => {
                let times = transfers(&silent, &round);
                let taken =
                    |(r, t): (&TransferResult, &Transfer)| r.seconds * f64::from(t.repetitions);
                let longest = times.iter().zip(&round).map(taken);
                let spent_s = longest.fold(0.0, f64::max);
                record.elapsed_s += spent_s;
                record.transfers += round.len();
                record.transferred_bytes +=
                    round.iter().map(|t| t.bytes * u64::from(t.repetitions)).sum::<u64>();
                let results = times.into_iter().map(|result| noisy(result, &mut noise)).collect();
                search.answer(Outcome::Transfers { results, disturbed: false }, spent_s);
            }
        }
        if let Some((plan, _)) = search.incumbent().in_use()
            && record.steps.last().is_none_or(|step| step.plan != *plan)
        {
            record.steps.push(Step {
                trials: record.trials,
                elapsed_s: record.elapsed_s,
                best_s: simulate(network, plan, root, bytes),
                plan: plan.clone(),
            });
        }
    }
    record
}

/// A result as it would be seen.
fn noisy(result: TransferResult, noise: &mut impl FnMut() -> f64) -> TransferResult {
    let stretch = noise();
    let later = |arrival: Arrival| Arrival { seconds: arrival.seconds * stretch, ..arrival };
    TransferResult {
        seconds: result.seconds * stretch,
        arrivals: result.arrivals.into_iter().map(later).collect(),
        lost: result.lost,
    }
}

struct Simulator<'a> {
    network: &'a Network,
    root: usize,
    /// The repetitions of a trial take the same true time.
    last: Option<(Trial, Seconds)>,
}

impl Simulator<'_> {
    fn broadcast(&mut self, trial: &Trial, noise: &mut impl FnMut() -> f64) -> BroadcastResult {
        let last = self.last.take().filter(|(last, _)| last == trial);
        let true_s = last.map_or_else(|| self.true_s(trial), |(_, seconds)| seconds);
        let may_give_up = |limit_s: &Seconds| trial.plan != Plan::Native && true_s > *limit_s;
        let limit_s = trial.give_up_after_s.filter(may_give_up);
        self.last = Some((trial.clone(), true_s));
        let seconds = limit_s.unwrap_or_else(|| true_s * noise());
        BroadcastResult { seconds, abandoned: limit_s.is_some(), disturbed: false }
    }

    /// Where connections begin anew after pauses, they do so after that of the trial.
    fn true_s(&self, trial: &Trial) -> Seconds {
        let Trial { plan, bytes, pause_s, .. } = trial;
        let pause_s = if self.network.pause_s() > 0.0 { *pause_s } else { 0.0 };
        let network = self.network.clone().after_pause(pause_s);
        simulate(&network, plan, self.root, *bytes)
    }
}
