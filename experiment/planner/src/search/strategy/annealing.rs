//! Simulated annealing over trees, the way of the published system (Gupta and Vadhiyar, IPDPS 2006, of
//! which only the abstract says how): the nodes are clustered by measured bandwidth, then a schedule
//! is annealed, in runs sized to the time that is expected until the next broadcast.
//!
//! Here the energy of a tree is the time that the simulator gives it on the measured links; the result
//! of each run is measured. Moves are the single steps of [`crate::transform`], half of them inside a
//! cluster, half between the clusters.

use super::bench::Bench;
use super::{Config, Knowledge, Measured, Outcome, Request, Strategy};
use crate::measurement::Seconds;
use crate::model::clusters;
use crate::model::network::Network;
use crate::model::simulate::finish;
use crate::trees::shapes;
use crate::trees::transform::transform;
use arborcast_proto::{Plan, Tree};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The gap that a run is sized to where no deadline is known.
const GAP_S: Seconds = 1.0;
/// Messages that one core simulates in a second.
const MESSAGES_PER_S: f64 = 1e6;
const STEPS: std::ops::RangeInclusive<usize> = 50..=2000;
/// Temperatures at the start and at the end of a run, as fractions of the first energy.
const HOT: f64 = 0.2;
const COLD: f64 = 0.002;
/// The search rests once so many runs in a row have found nothing faster.
const FRUITLESS_RUNS: usize = 3;
/// Seconds per byte above which two nodes without a gap between them are not of one cluster: slower
/// than 100 Mbit/s.
const SLOW: f64 = 8e-8;

/// See the module's text.
pub struct Annealing {
    bench: Bench,
    random: ChaCha8Rng,
    /// The tree that the next run starts from, and its measured time.
    current: Option<(Tree, Seconds)>,
    fruitless: usize,
}

impl Annealing {
    pub fn new(config: Config) -> Self {
        Annealing {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            bench: Bench::new(config),
            current: None,
            fruitless: 0,
        }
    }

    fn plan(&self, tree: Tree) -> Plan {
        let segment_bytes = self.bench.config.default_segment_bytes();
        Plan::single(tree, segment_bytes).expect("the segment size is in its range")
    }

    fn energy(&self, network: &Network, tree: &Tree) -> Seconds {
        let Config { root, bytes, .. } = self.bench.config;
        finish(network, &self.plan(tree.clone()), root, bytes).every_ack_s
    }

    fn steps(&self) -> usize {
        let Config { nodes, bytes, deadline_s, .. } = self.bench.config;
        let segments = bytes.div_ceil(u64::from(self.bench.config.default_segment_bytes()));
        let messages = (nodes as f64 * segments.clamp(1, 400) as f64).max(1.0);
        let gap_s = deadline_s.map_or(GAP_S, |all| all / (2 * FRUITLESS_RUNS) as f64);
        ((gap_s * MESSAGES_PER_S / messages) as usize).clamp(*STEPS.start(), *STEPS.end())
    }

    fn run(&mut self, network: &Network) -> Tree {
        let clusters = bandwidth_clusters(network);
        let Config { nodes, root, .. } = self.bench.config;
        let start = match &self.current {
            Some((tree, _)) => tree.clone(),
            None => shapes::magpie(&clusters, root),
        };
        let mut energy = self.energy(network, &start);
        let (mut tree, mut best, first) = (start.clone(), (start, energy), energy);
        let steps = self.steps();
        for step in 0..steps {
            let progress = step as f64 / steps as f64;
            let temperature = first * HOT * (COLD / HOT).powf(progress);
            let b = self.random.random_range(0..nodes);
            let a = self.random.random_range(0..nodes);
            let inside: bool = self.random.random();
            if inside != (clusters[a] == clusters[b]) {
                continue;
            }
            let Some(next) = transform(&tree, a, b) else { continue };
            let next_energy = self.energy(network, &next);
            let accepted = ((energy - next_energy) / temperature).exp();
            if next_energy <= energy || self.random.random_range(0.0..1.0) < accepted {
                (tree, energy) = (next, next_energy);
                if energy < best.1 {
                    best = (tree.clone(), energy);
                }
            }
        }
        best.0
    }
}

fn bandwidth_clusters(network: &Network) -> Vec<usize> {
    let slowness = |a, b| 1.0 / network.rate(a, b).min(network.rate(b, a));
    // In seconds per MiB, so that the clustering's idea of a short distance fits.
    clusters::clusters(network.len(), SLOW * 1e6, |a, b| slowness(a, b) * 1e6)
}

impl Strategy for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn next(&mut self) -> Option<Request> {
        if let Some(request) = self.bench.pending() {
            return Some(request);
        }
        if self.bench.native_is_due() {
            let trial = self.bench.trial(Plan::Native);
            return self.bench.ask(trial);
        }
        if let Some(request) = self.bench.ask_links() {
            return Some(request);
        }
        if self.fruitless >= FRUITLESS_RUNS {
            self.fruitless = 0;
            return None;
        }
        let network = self.bench.network()?;
        let tree = self.run(&network);
        if self.current.as_ref().is_some_and(|(current, _)| *current == tree) {
            self.fruitless += 1;
            return self.next();
        }
        let trial = self.bench.trial(self.plan(tree));
        self.bench.ask(trial)
    }

    fn observe(&mut self, outcome: Outcome) {
        let Some(settled) = self.bench.settle(outcome) else { return };
        let Plan::Trees(striping) = &settled.trial.plan else { return };
        let before = self.current.as_ref().map_or(f64::INFINITY, |(_, seconds)| *seconds);
        if settled.median_s < before {
            self.fruitless = 0;
            self.current = Some((striping.stripes()[0].tree.clone(), settled.median_s));
        } else {
            self.fruitless += 1;
        }
    }

    fn best(&self) -> Option<&Measured> {
        self.bench.best.as_ref()
    }

    fn knowledge(&self) -> &Knowledge {
        self.bench.knowledge()
    }
}
