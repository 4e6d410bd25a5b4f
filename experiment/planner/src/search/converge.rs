//! Runs a strategy against the simulator on a virtual clock and records how it converges.

use super::strategy::Strategy;
use crate::measurement::{Outcome, Request, Seconds, Trial};
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
    /// A strategy that has nothing left to ask is asked again so often, as a job does that waits for
    /// the network to change.
    pub ask_again: usize,
}

/// The best so far, after a number of trials and of seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub trials: usize,
    pub elapsed_s: Seconds,
    /// The true time of the plan, not the measured one.
    pub best_s: Seconds,
    pub plan: Plan,
}

/// How a strategy converged.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Each time the best plan changed.
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

/// Runs `strategy` until it has nothing left to ask or the experiment's trials are used up. Holds and
/// interruptions don't happen here.
pub fn converge(
    strategy: &mut dyn Strategy,
    network: &Network,
    root: usize,
    bytes: u64,
    experiment: Experiment,
) -> Record {
    let mut random = ChaCha8Rng::seed_from_u64(experiment.seed);
    let mut noise = || 1.0 + experiment.noise * random.random_range(0.0..1.0);
    let mut record =
        Record { steps: Vec::new(), trials: 0, transfers: 0, transferred_bytes: 0, elapsed_s: 0.0 };
    let mut refusals = 0;
    while record.trials < experiment.max_trials && refusals <= experiment.ask_again {
        match strategy.next() {
            None => refusals += 1,
            Some(Request::Broadcast(trial)) => {
                record.trials += 1;
                let (outcome, seconds) = broadcast(network, root, &trial, &mut noise);
                record.elapsed_s += seconds;
                strategy.observe(outcome);
            }
            Some(Request::Links(rounds)) => {
                let mut all = Vec::new();
                for round in rounds {
                    let times = transfers(network, &round);
                    let longest =
                        times.iter().zip(&round).map(|(s, t)| s * f64::from(t.repetitions));
                    record.elapsed_s += longest.fold(0.0, f64::max);
                    record.transfers += round.len();
                    record.transferred_bytes +=
                        round.iter().map(|t| t.bytes * u64::from(t.repetitions)).sum::<u64>();
                    all.push(times.into_iter().map(|s| s * noise()).collect());
                }
                strategy.observe(Outcome::Links(all));
            }
        }
        let best = strategy.best();
        if let Some(best) = best
            && record.steps.last().is_none_or(|step| step.plan != best.plan)
        {
            let best_s = simulate(network, &best.plan, root, bytes);
            record.steps.push(Step {
                trials: record.trials,
                elapsed_s: record.elapsed_s,
                best_s,
                plan: best.plan.clone(),
            });
        }
    }
    record
}

/// What a trial comes to, and how long it takes.
fn broadcast(
    network: &Network,
    root: usize,
    trial: &Trial,
    noise: &mut impl FnMut() -> f64,
) -> (Outcome, Seconds) {
    let seconds = simulate(network, &trial.plan, root, trial.bytes);
    let limit = trial.give_up_after_s.filter(|_| trial.plan != Plan::Native);
    if let Some(limit) = limit.filter(|&limit| seconds > limit) {
        let outcome = Outcome::Broadcast { samples_s: vec![], abandoned_after_s: Some(limit) };
        return (outcome, limit + BETWEEN_BROADCASTS_S);
    }
    let mut samples_s = vec![seconds * noise()];
    while !trial.is_known_well_enough(&samples_s) {
        samples_s.push(seconds * noise());
    }
    let total = samples_s.iter().map(|s| s + BETWEEN_BROADCASTS_S).sum();
    (Outcome::Broadcast { samples_s, abandoned_after_s: None }, total)
}
