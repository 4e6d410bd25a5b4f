//! A search for the best plan of one target, without I/O and without a clock: it says what to measure
//! next and is told what came of it. The same strategies run against MPI and against the simulator
//! ([`crate::converge`]).

mod annealing;
mod bench;
pub mod fixed;
mod guided;
mod random_transform;
mod registry;

pub use annealing::Annealing;
pub use fixed::Fixed;
pub use guided::Guided;
pub use random_transform::{Options as RandomTransformOptions, RandomTransform};
pub use registry::{Description, STRATEGIES, UnknownStrategy, strategy};

use crate::measurement::{Outcome, Request, Seconds, Trial};
use crate::model::network::Network;
use arborcast_proto::Plan;
use arborcast_proto::message::Times;
use std::collections::BTreeMap;

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
