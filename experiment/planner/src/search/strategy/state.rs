//! What a strategy is, what it is told of its target, and what the search has come to know of it.

use super::random_transform::Parameters;
use crate::measurement::{Seconds, Trial, counted};
use crate::model::clusters::numbered;
use crate::model::network::{FIRST_WINDOW_BYTES, Network};
use crate::model::simulate::simulate;
use crate::search::incumbent::Incumbent;
use arborcast_proto::Plan;
use arborcast_proto::message::Times;
use std::collections::BTreeMap;

/// A broadcast that takes this many times what would still be of use won't have a median that is.
pub(super) const HOPELESS: f64 = 1.5;
/// A pause that changes a broadcast's time by less than this part, or by less than this time, is not made.
const A_DIFFERENCE: f64 = 0.03;
const A_DIFFERENCE_S: Seconds = 5e-3;

fn is_a_difference(more_s: Seconds, of_s: Seconds) -> bool {
    more_s > A_DIFFERENCE_S.max(A_DIFFERENCE * of_s)
}

/// The least eager limit of the usual MPIs with TCP, MPICH 4's with UCX: it takes 16 KiB at once, 20 no longer.
pub(in crate::search) const LEAST_EAGER_BYTES: u64 = 17 << 10;
/// The largest, about: Open MPI's.
const MOST_EAGER_BYTES: u64 = 64 << 10;

/// What was learnt of a group of nodes, handed from the search for one target to that for the next,
/// so that nothing is measured twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Knowledge {
    /// The links, as measured ([`Network::from_links`] takes a matrix from elsewhere).
    pub network: Option<Network>,
    /// Median times of native by bytes.
    pub native_s: BTreeMap<u64, Seconds>,
    /// The pacing rate in the best plan of the last size, as a part of what its trees carry: with more,
    /// packets may get lost.
    pub pacing: Option<f64>,
}

/// What all strategies are told about their target.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub nodes: usize,
    pub root: usize,
    pub bytes: u64,
    /// Equal seeds and equal outcomes lead to equal requests.
    pub seed: u64,
    pub knowledge: Knowledge,
    /// The configured site of each node, if any; names only have to be equal or different.
    pub sites: Option<Vec<String>>,
    /// Whether native may be the best plan. It is then measured too, first of all where its time is
    /// bearable.
    pub native: bool,
    /// Larger messages use rendezvous.
    pub eager_bytes: u64,
    /// What programs pause before a broadcast, if their connections then begin anew; 0 where they don't.
    pub pause_s: Seconds,
    /// What native broadcasts of applications have taken at least, where known.
    pub native_at_least_s: Option<Seconds>,
    /// The same from other roots of the group, where this one's may have taken longer than is known: no bound, but about
    /// what there is to be gained.
    pub native_elsewhere_s: Option<Seconds>,
    /// The least that a native broadcast of the experiment took, from its first one on.
    pub native_once_s: Option<Seconds>,
    /// Of the strategy of that name.
    pub random_transform: Parameters,
}

impl Config {
    /// Nothing known, native a candidate, the least eager limit, no pauses.
    pub fn new(nodes: usize, root: usize, bytes: u64) -> Self {
        Config {
            nodes,
            root,
            bytes,
            seed: 0,
            knowledge: Knowledge::default(),
            sites: None,
            native: true,
            eager_bytes: LEAST_EAGER_BYTES,
            pause_s: 0.0,
            native_at_least_s: None,
            native_elsewhere_s: None,
            native_once_s: None,
            random_transform: Parameters::default(),
        }
    }

    /// What applications wait for now, as far as that is known.
    pub fn native_in_use_s(&self) -> Option<Seconds> {
        let all = [self.native_at_least_s, self.native_elsewhere_s, self.native_once_s];
        all.into_iter().flatten().reduce(f64::max)
    }

    /// Native's first broadcast tells already what is far better.
    pub fn note_native_once(&mut self, trial: &Trial, seconds: Seconds) {
        if trial.plan == Plan::Native && trial.bytes == self.bytes {
            let least_s = self.native_once_s.map_or(seconds, |least_s| least_s.min(seconds));
            self.native_once_s = Some(least_s);
        }
    }

    /// Whether one native broadcast should tell that: messages that are sent eagerly have left an application's
    /// root long before the last node has them.
    pub fn hides_native(&self) -> bool {
        let may_be_eager = self.bytes <= self.eager_bytes.max(MOST_EAGER_BYTES);
        self.native && may_be_eager && self.native_once_s.is_none()
    }

    /// A network as the target's broadcasts find it: in this MPI, after a pause.
    pub fn as_broadcasts_find(&self, network: Network) -> Network {
        network.with_eager_bytes(self.eager_bytes).after_pause(self.pause_s)
    }

    /// The segment size that suits most networks: small enough to be sent without rendezvous.
    pub fn default_segment_bytes(&self) -> u32 {
        let below_eager = 1u64 << (self.eager_bytes.max(2) - 1).ilog2();
        below_eager.clamp(1 << 10, 32 << 10) as u32
    }

    /// The number of each node's configured site, in the order of their first nodes.
    pub fn site_numbers(&self) -> Option<Vec<usize>> {
        Some(numbered(self.sites.as_ref()?).0)
    }
}

/// A trial with what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialResult {
    pub trial: Trial,
    /// `None` where the trial was abandoned.
    pub times: Option<Times>,
}

impl TrialResult {
    /// `INFINITY` where the trial was abandoned.
    pub fn median_s(&self) -> Seconds {
        self.times.map_or(f64::INFINITY, |times| times.median_s)
    }
}

/// A search as its strategy sees it.
#[derive(Debug)]
pub struct SearchState {
    /// With the knowledge as it grows.
    pub config: Config,
    pub incumbent: Incumbent,
}

impl SearchState {
    /// A network of another number of nodes than the target's is not believed.
    pub fn new(mut config: Config) -> Self {
        let fits = |network: &Network| network.len() == config.nodes;
        config.knowledge.network = config.knowledge.network.filter(fits);
        SearchState { config, incumbent: Incumbent::default() }
    }

    pub fn knowledge(&self) -> &Knowledge {
        &self.config.knowledge
    }

    /// The network as far as it is known, as the target's broadcasts find it.
    pub fn network(&self) -> Option<Network> {
        let network = self.config.knowledge.network.clone()?;
        Some(self.config.as_broadcasts_find(network))
    }

    /// How long to pause before each broadcast of a trial: as programs do, where that makes a difference.
    pub fn pause_before_s(&self, trial: &Trial) -> Seconds {
        let Config { root, pause_s, .. } = self.config;
        let matters = match self.network().filter(|_| pause_s > 0.0) {
            Some(network) => {
                let after_s = simulate(&network, &trial.plan, root, trial.bytes);
                let network = network.after_pause(0.0);
                let at_once_s = simulate(&network, &trial.plan, root, trial.bytes);
                is_a_difference(after_s - at_once_s, at_once_s)
            }
            None => trial.bytes as f64 > FIRST_WINDOW_BYTES,
        };
        if matters { pause_s } else { 0.0 }
    }

    /// Whether a trial without pauses would win and may only do so since it has none: where the model takes a window
    /// for wider than it is after a pause, programs wait for a round trip more.
    pub fn wins_in_doubt(&self, trial: &Trial, samples_s: &[Seconds]) -> bool {
        let paused = trial.pause_s > 0.0 || self.config.pause_s == 0.0;
        let Some(times) = Times::of(samples_s).filter(|_| !paused) else { return false };
        let of_s = times.median_s;
        let fits = trial.bytes as f64 <= FIRST_WINDOW_BYTES;
        let round_trip_s = self.knowledge().network.as_ref().map(Network::longest_round_trip_s);
        !fits && of_s < self.best_s() && round_trip_s.is_some_and(|s| is_a_difference(s, of_s))
    }

    /// A trial of the target's own size.
    pub fn trial(&self, plan: Plan) -> Trial {
        Trial::new(plan, self.config.bytes)
    }

    /// Whether native is a candidate that has not been measured at this size.
    pub fn native_is_due(&self) -> bool {
        self.config.native && !self.config.knowledge.native_s.contains_key(&self.config.bytes)
    }

    /// The least median of all that was measured at this size, native included.
    pub fn best_s(&self) -> Seconds {
        self.incumbent.least_median_s()
    }

    /// Takes in the samples of a trial that was not `abandoned`, or notes that it was.
    pub fn resolve(&mut self, trial: Trial, samples_s: &[Seconds], abandoned: bool) -> TrialResult {
        let samples_s = counted(samples_s);
        let times = Times::of(samples_s).filter(|_| !abandoned);
        if let Some(times) = times {
            let is_own_size = trial.bytes == self.config.bytes;
            if is_own_size {
                self.incumbent.add(&trial.plan, samples_s, trial.predicted_s);
            }
            if trial.plan == Plan::Native {
                let of_all = self.incumbent.native().filter(|_| is_own_size).unwrap_or(times);
                self.config.knowledge.native_s.insert(trial.bytes, of_all.median_s);
            }
        }
        TrialResult { trial, times }
    }
}

/// A way to search for the best plan of one target.
pub trait Strategy: Send {
    /// The trial of native that should come now, if any: by default the first trial of all, where native
    /// is a candidate.
    fn native_trial(&self, state: &SearchState) -> Option<Trial> {
        state.native_is_due().then(|| state.trial(Plan::Native))
    }

    /// Whether the links have to be surveyed before [`Strategy::propose`] is called.
    fn needs_links(&self, _state: &SearchState) -> bool {
        false
    }

    /// A trial for a network of which only the latencies are known, and rates are `assumed`, while the survey
    /// goes on: of native, where nobody knows yet what that takes, then of a plan. None by default.
    fn propose_early(&mut self, _state: &SearchState, _assumed: Network) -> Option<Trial> {
        None
    }

    /// What its model expects of what [`Strategy::propose`] would give now, where it has one and the links are known.
    fn foresee(&mut self, _state: &mut SearchState) -> Option<Seconds> {
        None
    }

    /// The next trial. `None`: nothing is left that could help; asked again later, the strategy may find
    /// something.
    fn propose(&mut self, state: &mut SearchState) -> Option<Trial>;

    /// What came of a trial of [`Strategy::native_trial`] or [`Strategy::propose`].
    fn learn(&mut self, state: &mut SearchState, result: &TrialResult);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::trees::shapes::chain;

    #[test]
    fn trials_pause_where_that_makes_a_difference() {
        let pause_s = |network: Network, bytes: u64| {
            let nodes = network.len();
            let knowledge = Knowledge { network: Some(network), ..Knowledge::default() };
            let config = Config { knowledge, pause_s: 0.7, ..Config::new(nodes, 0, bytes) };
            let state = SearchState::new(config);
            let plan = Plan::single(chain(nodes, 0), 32 << 10).unwrap();
            state.pause_before_s(&state.trial(plan))
        };
        assert_eq!(pause_s(grids::four_site_mesh(), 1 << 20), 0.7);
        assert_eq!(pause_s(grids::four_site_mesh(), 1), 0.0);
        assert_eq!(pause_s(grids::random(1, 8, 1), 1 << 20), 0.0, "a millisecond at most");
    }
}
