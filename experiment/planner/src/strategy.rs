//! A search for the best plan of one target, without I/O and without a clock: it says what to measure
//! next and is told what came of it. The same strategies run against MPI and against the simulator
//! ([`crate::converge`]).

mod annealing;
mod bench;
mod fixed;
mod guided;
mod random_transform;
mod registry;

pub use annealing::Annealing;
pub use fixed::Fixed;
pub use guided::Guided;
pub use random_transform::{Options as RandomTransformOptions, RandomTransform};
pub use registry::{Description, STRATEGIES, UnknownStrategy, strategy};

use crate::network::Network;
use crate::simulate::Seconds;
use arborcast_proto::Plan;
use arborcast_proto::message::Times;
use std::collections::BTreeMap;

/// How often a plan is broadcast in a trial.
const MIN_REPETITIONS: u32 = 3;
const MAX_REPETITIONS: u32 = 15;
/// A trial's median is known well enough when the middle half of its samples lies within this part
/// of it.
const SPREAD_ENOUGH: f64 = 0.05;
/// Repetitions that have taken longer than this are enough, even where they are fewer than they should be:
/// what is long is disturbed less.
pub const TRIAL_S: Seconds = 4.0;

/// What a strategy wants to know next.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Broadcast(Trial),
    /// Rounds one after the other; the transfers of a round run at the same time.
    Links(Vec<Vec<Transfer>>),
}

impl From<Trial> for Request {
    fn from(trial: Trial) -> Self {
        Request::Broadcast(trial)
    }
}

/// Broadcasts of one plan with leaf ACKs.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    pub plan: Plan,
    pub bytes: u64,
    /// Repeated at least so often, then until the median is known well enough, at most
    /// `max_repetitions` times.
    pub min_repetitions: u32,
    pub max_repetitions: u32,
    /// A single broadcast that takes longer can't win: it may be abandoned, and the trial with it.
    /// An MPI's own broadcast can't be abandoned; its time is reported all the same.
    pub give_up_after_s: Option<Seconds>,
    /// What the strategy's model says it takes, if it has one.
    pub predicted_s: Option<Seconds>,
}

impl Trial {
    /// As often as it takes a median that one disturbance doesn't move, or the first broadcast over new
    /// connections.
    pub fn new(plan: Plan, bytes: u64) -> Self {
        Trial {
            plan,
            bytes,
            min_repetitions: MIN_REPETITIONS,
            max_repetitions: MAX_REPETITIONS,
            give_up_after_s: None,
            predicted_s: None,
        }
    }

    /// Whether these samples are enough: the middle half of them is close together, or there are as many
    /// as the trial allows, or as time does.
    pub fn is_known_well_enough(&self, samples_s: &[Seconds]) -> bool {
        let (count, spent_s) = (samples_s.len() as u32, samples_s.iter().sum::<Seconds>());
        if spent_s > TRIAL_S {
            return true;
        }
        if count < self.min_repetitions {
            return false;
        }
        let mut sorted = samples_s.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted[(sorted.len() - 1) * part / 4];
        let is_close = at(3) - at(1) <= SPREAD_ENOUGH * at(2);
        is_close || count >= self.max_repetitions
    }
}

/// `from` sends `bytes` in segments of `segment_bytes`, and `to` answers with an empty message
/// once it has all of them. The time is taken at `from`, from its start until the answer; of
/// `repetitions` the least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transfer {
    pub from: usize,
    pub to: usize,
    pub bytes: u64,
    pub segment_bytes: u32,
    pub repetitions: u32,
    /// How much later than the others of its round it starts, so that what comes from near and from far
    /// arrives at the same time. One for all transfers of a sender.
    pub delay_s: Seconds,
}

impl Transfer {
    /// In segments below the eager limit of any MPI.
    pub fn new((from, to): (usize, usize), bytes: u64, repetitions: u32) -> Self {
        Transfer { from, to, bytes, segment_bytes: 32 << 10, repetitions, delay_s: 0.0 }
    }
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Broadcast {
        /// One a repetition; those before an abandoned one included.
        samples_s: Vec<Seconds>,
        /// Where the trial was abandoned: how long its last broadcast had taken by then.
        abandoned_after_s: Option<Seconds>,
    },
    /// As many rounds and transfers as asked for.
    Links(Vec<Vec<Seconds>>),
    /// A hold ended it. [`Strategy::next`] offers the same again.
    Interrupted,
}

/// A plan with its measured time.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub plan: Plan,
    pub median_s: Seconds,
    pub repetitions: usize,
}

/// What was learnt of a group of nodes, handed from the strategy of one target to that of the next,
/// so that nothing is measured twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Knowledge {
    /// The links, as measured ([`Network::from_links`] takes a matrix from elsewhere).
    pub network: Option<Network>,
    /// Median times of the MPI's own broadcast by bytes; `INFINITY` is never stored, an abandoned
    /// one neither.
    pub native_s: BTreeMap<u64, Seconds>,
    /// The part of their trees' rates that roots fed in the best plan of the last size: with more, packets
    /// may get lost.
    pub pace: Option<f64>,
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
    /// Whether the MPI's own broadcast may be the best plan. It is then measured too, first of all
    /// where its time is bearable.
    pub native: bool,
    /// Larger messages wait for the receiver's consent.
    pub eager_bytes: u64,
    /// Seconds of measuring that the search may take in all, where it can be sized to fit.
    pub deadline_s: Option<Seconds>,
    pub random_transform: random_transform::Options,
}

impl Config {
    /// Nothing known, native a candidate, an eager limit of 64 KiB.
    pub fn new(nodes: usize, root: usize, bytes: u64) -> Self {
        Config {
            nodes,
            root,
            bytes,
            seed: 0,
            knowledge: Knowledge::default(),
            sites: None,
            native: true,
            eager_bytes: 64 << 10,
            deadline_s: None,
            random_transform: random_transform::Options::default(),
        }
    }

    /// The segment size that suits most networks: small enough to be sent without consent.
    pub fn default_segment_bytes(&self) -> u32 {
        let below_eager = (self.eager_bytes / 2).clamp(1 << 10, 32 << 10);
        below_eager as u32
    }

    /// The number of each node's configured site, in the order of their first nodes.
    pub fn site_numbers(&self) -> Option<Vec<usize>> {
        let names = self.sites.as_ref()?;
        let mut seen: Vec<&String> = Vec::new();
        let number = |name| {
            seen.iter().position(|&known| known == name).unwrap_or_else(|| {
                seen.push(name);
                seen.len() - 1
            })
        };
        Some(names.iter().map(number).collect())
    }
}

/// See the module's text.
pub trait Strategy: Send {
    fn name(&self) -> &'static str;

    /// What to measure next; the same again until an outcome other than `Interrupted` is observed.
    /// `None`: nothing is left that could help; asked again later, it may find something.
    fn next(&mut self) -> Option<Request>;

    /// The outcome of what [`Strategy::next`] last returned.
    fn observe(&mut self, outcome: Outcome);

    /// The best plan measured so far.
    fn best(&self) -> Option<&Measured>;

    /// What was learnt, for the next target's strategy.
    fn knowledge(&self) -> &Knowledge;
}

/// The middle of the samples; `None` where there are none.
pub(crate) fn median(samples: &[Seconds]) -> Option<Seconds> {
    Some(Times::of(samples)?.median_s)
}
