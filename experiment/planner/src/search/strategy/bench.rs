//! What every search keeps: the request that is out, the survey of the links, the best plan so far and
//! what is known of native.

use super::{Config, Knowledge, Measured, Outcome, Request, Trial, median};
use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::survey::Survey;
use arborcast_proto::Plan;

/// A broadcast that takes this many times what would still be of use won't have a median that is.
pub(super) const HOPELESS: f64 = 1.5;

#[derive(Debug)]
pub(super) struct Bench {
    pub config: Config,
    pub best: Option<Measured>,
    pending: Option<Request>,
    survey: Option<Survey>,
}

/// A trial with its outcome.
#[derive(Debug)]
pub(super) struct Settled {
    pub trial: Trial,
    /// `INFINITY` where the trial was abandoned.
    pub median_s: Seconds,
}

impl Bench {
    /// A network of another number of nodes than the target's is not believed.
    pub fn new(mut config: Config) -> Self {
        let fits = |network: &Network| network.len() == config.nodes;
        config.knowledge.network = config.knowledge.network.filter(fits);
        Bench { config, best: None, pending: None, survey: None }
    }

    pub fn pending(&self) -> Option<Request> {
        self.pending.clone()
    }

    /// Remembers and returns the request.
    pub fn ask(&mut self, request: impl Into<Request>) -> Option<Request> {
        self.pending = Some(request.into());
        self.pending.clone()
    }

    /// The next request of the survey of the links; `None` once the network is known.
    pub fn ask_links(&mut self) -> Option<Request> {
        if self.config.knowledge.network.is_some() {
            return None;
        }
        let Config { nodes, root, .. } = self.config;
        let survey = self.survey.get_or_insert_with(|| Survey::new(nodes, root));
        if let Some(rounds) = survey.ask().cloned() {
            return self.ask(Request::Links(rounds));
        }
        self.config.knowledge.network = survey.network().cloned();
        self.survey = None;
        None
    }

    /// The network as far as it is known, with the target's eager limit.
    pub fn network(&self) -> Option<Network> {
        let network = self.config.knowledge.network.clone()?;
        Some(network.with_eager_bytes(self.config.eager_bytes))
    }

    /// A trial of the target's own size.
    pub fn trial(&self, plan: Plan) -> Trial {
        Trial::new(plan, self.config.bytes)
    }

    /// Whether native is a candidate that has not been measured at this size.
    pub fn native_is_due(&self) -> bool {
        self.config.native && !self.config.knowledge.native_s.contains_key(&self.config.bytes)
    }

    /// Takes what an outcome answers off the bench. `None` where that was not a trial, or it was
    /// interrupted, or the answer is one to another question: those are asked again.
    pub fn settle(&mut self, outcome: Outcome) -> Option<Settled> {
        match (self.pending.take()?, outcome) {
            (Request::Links(_), Outcome::Links(seconds)) => {
                if let Some(survey) = &mut self.survey {
                    survey.observe(&seconds);
                }
                None
            }
            (Request::Broadcast(trial), Outcome::Broadcast { samples_s, abandoned_after_s }) => {
                let measured = median(&samples_s).filter(|_| abandoned_after_s.is_none());
                let median_s = measured.unwrap_or(f64::INFINITY);
                if median_s.is_finite() {
                    self.note(&trial, median_s, samples_s.len());
                }
                Some(Settled { trial, median_s })
            }
            (request, _) => {
                self.pending = Some(request);
                None
            }
        }
    }

    fn note(&mut self, trial: &Trial, median_s: Seconds, repetitions: usize) {
        if trial.plan == Plan::Native {
            self.config.knowledge.native_s.insert(trial.bytes, median_s);
        }
        let better = self.best.as_ref().is_none_or(|best| median_s < best.median_s);
        if trial.bytes == self.config.bytes && better {
            self.best = Some(Measured { plan: trial.plan.clone(), median_s, repetitions });
        }
    }

    pub fn knowledge(&self) -> &Knowledge {
        &self.config.knowledge
    }
}
