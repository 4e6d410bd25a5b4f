//! Simulated annealing over trees (R. Gupta and S. S. Vadhiyar, "Application-oriented adaptive MPI_Bcast
//! for grids", IPDPS 2006, whose abstract says this much): the nodes are clustered by measured bandwidth,
//! then a schedule is annealed, in runs sized to the time that is expected until the next broadcast.
//!
//! The energy of a tree is the time that the simulator gives it on the measured links; the result of each
//! run is measured. Moves are the single steps of [`transform`], half of them inside a cluster, half
//! between the clusters.

use super::state::{Config, SearchState, Strategy, TrialResult};
use crate::measurement::{Seconds, Trial};
use crate::model::annealing::{Cooling, is_taken};
use crate::model::clusters;
use crate::model::network::Network;
use crate::model::simulate::finish;
use crate::trees::shapes;
use crate::trees::transform::transform;
use arborcast_proto::{Plan, Tree};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::ops::Range;

/// The gap between broadcasts that a run is sized to.
const GAP_S: Seconds = 1.0;
/// Messages that one core simulates in a second.
const MESSAGES_PER_S: f64 = 1e6;
const STEPS: std::ops::RangeInclusive<usize> = 50..=2000;
/// As fractions of the first energy.
const COOLING: Cooling = Cooling { hot: 0.2, cold: 0.002 };
/// The search rests once this many runs in a row have found nothing faster.
const FRUITLESS_RUNS: usize = 3;
/// Distances for the clustering, in seconds per byte: below the first they don't differ, above the second
/// (slower than 100 Mbit/s) they are not those of one cluster.
const SLOWNESS: Range<f64> = 2e-11..8e-8;

/// The state of the annealing between runs.
pub struct Annealing {
    random: ChaCha8Rng,
    /// The tree that the next run starts from, and its measured time.
    current: Option<(Tree, Seconds)>,
    fruitless: usize,
}

impl Annealing {
    pub fn new(config: &Config) -> Self {
        let random = ChaCha8Rng::seed_from_u64(config.seed);
        Annealing { random, current: None, fruitless: 0 }
    }

    fn run(&mut self, config: &Config, network: &Network) -> Tree {
        let clusters = bandwidth_clusters(network);
        let Config { nodes, root, .. } = *config;
        let start = match &self.current {
            Some((tree, _)) => tree.clone(),
            None => shapes::magpie(&clusters, root),
        };
        let first = energy(config, network, &start);
        let (mut tree, mut now, mut best) = (start.clone(), first, (start, first));
        let steps = steps(config);
        for step in 0..steps {
            let progress = step as f64 / steps as f64;
            let temperature = first * COOLING.temperature(progress);
            let b = self.random.random_range(0..nodes);
            let a = self.random.random_range(0..nodes);
            let inside: bool = self.random.random();
            if inside != (clusters[a] == clusters[b]) {
                continue;
            }
            let Some(next) = transform(&tree, a, b) else { continue };
            let next_energy = energy(config, network, &next);
            if is_taken(now, next_energy, temperature, &mut self.random) {
                (tree, now) = (next, next_energy);
                if now < best.1 {
                    best = (tree.clone(), now);
                }
            }
        }
        best.0
    }
}

fn plan(config: &Config, tree: Tree) -> Plan {
    let segment_bytes = config.default_segment_bytes();
    Plan::single(tree, segment_bytes).expect("the segment size is in its range")
}

fn energy(config: &Config, network: &Network, tree: &Tree) -> Seconds {
    finish(network, &plan(config, tree.clone()), config.root, config.bytes).every_ack_s
}

fn steps(config: &Config) -> usize {
    let segments = config.bytes.div_ceil(u64::from(config.default_segment_bytes()));
    let messages = (config.nodes as f64 * segments.clamp(1, 400) as f64).max(1.0);
    ((GAP_S * MESSAGES_PER_S / messages) as usize).clamp(*STEPS.start(), *STEPS.end())
}

fn bandwidth_clusters(network: &Network) -> Vec<usize> {
    let slowness = |a, b| 1.0 / network.rate(a, b).min(network.rate(b, a));
    clusters::clusters(network.len(), SLOWNESS, slowness)
}

impl Strategy for Annealing {
    fn needs_links(&self, _state: &SearchState) -> bool {
        true
    }

    fn propose(&mut self, state: &mut SearchState) -> Option<Trial> {
        let network = state.network()?;
        while self.fruitless < FRUITLESS_RUNS {
            let tree = self.run(&state.config, &network);
            if self.current.as_ref().is_none_or(|(current, _)| *current != tree) {
                return Some(state.trial(plan(&state.config, tree)));
            }
            self.fruitless += 1;
        }
        self.fruitless = 0;
        None
    }

    fn learn(&mut self, _state: &mut SearchState, result: &TrialResult) {
        let Plan::Trees(striping) = &result.trial.plan else { return };
        let before = self.current.as_ref().map_or(f64::INFINITY, |(_, seconds)| *seconds);
        if result.median_s() < before {
            self.fruitless = 0;
            self.current = Some((striping.stripes()[0].tree.clone(), result.median_s()));
        } else {
            self.fruitless += 1;
        }
    }
}
