//! How the strategies converge on the simulator, and how planning scales:
//! `cargo run --release -p arborcast-planner --example convergence [NODES…]`.
//!
//! The first table compares strategies on the four-site mesh, the second runs `guided` on five grids drawn
//! from seeds: medians and the most. Virtual seconds are what the measurements would take; planning is
//! processor time of one core.

use arborcast_planner::propose::{propose, site_plan};
use arborcast_planner::{
    Config, Experiment, Knowledge, Limits, Network, Search, converge, grids, strategy,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Instant;

const SIZES: [u64; 6] = [1, 1 << 10, 64 << 10, 1 << 20, 8 << 20, 32 << 20];
const SCALE_SIZES: [u64; 4] = [1, 64 << 10, 1 << 20, 8 << 20];
const SCALE_SEEDS: std::ops::RangeInclusive<u64> = 1..=5;
/// Of the MPI that is simulated, as Open MPI's; plans go by the least of all.
const EAGER_BYTES: u64 = 64 << 10;
const NOISE: f64 = 0.03;

fn main() {
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
    compare(&grids::four_site_mesh().with_eager_bytes(EAGER_BYTES));
    println!();
    for nodes in if sizes.is_empty() { vec![100, 1_000, 10_000] } else { sizes } {
        scale(nodes);
    }
}

fn compare(network: &Network) {
    println!("four-site mesh, 16 nodes, measurements up to {:.0} % late", NOISE * 100.0);
    println!(
        "strategy            bytes   limit_s   final_s  × limit  trials   after_s  within 10 %"
    );
    let limits = Limits::new(network, 0);
    for name in ["guided", "annealing", "random-transform", "magpie", "multilevel", "binomial"] {
        let mut knowledge = Knowledge::default();
        let (mut trials, mut seconds) = (0, 0.0);
        for bytes in SIZES {
            let mut config = Config::new(network.len(), 0, bytes);
            config.knowledge = knowledge;
            let mut search = Search::new(strategy(name).expect("a known name"), config, None);
            let experiment = Experiment { max_trials: 200, noise: NOISE, seed: 1, ask_again: 0 };
            let record = converge(&mut search, network, experiment);
            knowledge = search.knowledge().clone();
            let reached = record.converged(0.1).expect("something was measured");
            trials += reached.trials;
            seconds += reached.elapsed_s;
            let limit_s = limits.limit_s(bytes);
            println!(
                "{name:16} {bytes:8} {limit_s:9.4} {:9.4} {:8.2} {:7} {:9.1}  {:3} trials, {:.1} s",
                record.final_s(),
                record.final_s() / limit_s,
                record.trials,
                record.elapsed_s,
                reached.trials,
                reached.elapsed_s
            );
        }
        println!(
            "{name:16} all sizes within 10 % after {trials} trials, {seconds:.1} virtual seconds"
        );
    }
}

/// What the search for one size on one grid comes to.
struct Found {
    of_limit: f64,
    trials: usize,
    transfers: usize,
    virtual_s: f64,
    planning_s: f64,
}

fn scale(nodes: usize) {
    let sites = (nodes as f64).sqrt().round() as usize;
    let of_seed = |seed| scale_of(&grids::random(sites, nodes / sites, seed));
    let all: Vec<[Found; SCALE_SIZES.len()]> = SCALE_SEEDS.map(of_seed).collect();
    let nodes = sites * (nodes / sites);
    println!("{nodes} nodes in {sites} sites, {} grids", all.len());
    for (place, bytes) in SCALE_SIZES.into_iter().enumerate() {
        let median_and_most = |of: fn(&Found) -> f64| {
            let mut values: Vec<f64> = all.iter().map(|grid| of(&grid[place])).collect();
            values.sort_by(f64::total_cmp);
            (values[values.len() / 2], values[values.len() - 1])
        };
        let (of_limit, most_of_limit) = median_and_most(|found| found.of_limit);
        let (trials, _) = median_and_most(|found| found.trials as f64);
        let (transfers, _) = median_and_most(|found| found.transfers as f64);
        let (virtual_s, _) = median_and_most(|found| found.virtual_s);
        let (planning_s, most_planning_s) = median_and_most(|found| found.planning_s);
        println!(
            "  {bytes:8} B: {of_limit:.2} × limit (most {most_of_limit:.2}), {trials} trials, \
             {:.1} transfers a node, {virtual_s:.1} virtual s; {planning_s:.2} s for one planning \
             (most {most_planning_s:.2})",
            transfers / nodes as f64
        );
    }
}

fn scale_of(network: &Network) -> [Found; SCALE_SIZES.len()] {
    let network = network.clone().with_eager_bytes(EAGER_BYTES);
    let limits = Limits::new(&network, 0);
    let mut knowledge = Knowledge::default();
    SCALE_SIZES.map(|bytes| {
        let mut config = Config::new(network.len(), 0, bytes);
        config.knowledge = std::mem::take(&mut knowledge);
        config.native = false;
        let mut search = Search::new(strategy("guided").expect("a known name"), config, None);
        let experiment = Experiment { max_trials: 30, noise: NOISE, seed: 1, ask_again: 0 };
        let record = converge(&mut search, &network, experiment);
        knowledge = search.knowledge().clone();
        let found = knowledge.network.as_ref().expect("a search of trees knows the network");
        let start = Instant::now();
        propose(found, 0, bytes, site_plan::USUAL_PACING, &mut ChaCha8Rng::seed_from_u64(1));
        Found {
            of_limit: record.final_s() / limits.limit_s(bytes),
            trials: record.trials,
            transfers: record.transfers,
            virtual_s: record.elapsed_s,
            planning_s: start.elapsed().as_secs_f64(),
        }
    })
}
