//! `random-transform` against the optimum that an exhaustive search over all ordered trees finds.

use arborcast_planner::{
    Config, Experiment, Network, Search, converge, grids, simulate, strategy, transform,
};
use arborcast_proto::{Plan, Tree};
use std::collections::HashSet;

const SEGMENT_BYTES: u32 = 16 << 10;

/// Every tree over `n` nodes below node 0, in every order of sending. `transform` reaches all of
/// them; the count is known ((2n − 2)! / (n − 1)! / n), so none is missing.
fn all_trees(n: usize) -> HashSet<Tree> {
    let mut known = HashSet::new();
    let mut open = vec![Tree::flat(n, 0).unwrap()];
    while let Some(tree) = open.pop() {
        if !known.insert(tree.clone()) {
            continue;
        }
        for a in 0..n {
            open.extend((0..n).filter_map(|b| transform(&tree, a, b)));
        }
    }
    let factorial = |k: usize| (1..=k).product::<usize>();
    assert_eq!(known.len(), factorial(2 * n - 2) / factorial(n - 1) / n);
    known
}

fn optimum(network: &Network, bytes: u64) -> f64 {
    let time = |tree| simulate(network, &Plan::single(tree, SEGMENT_BYTES).unwrap(), 0, bytes);
    all_trees(network.len()).into_iter().map(time).fold(f64::INFINITY, f64::min)
}

#[test]
fn reaches_the_exhaustive_optimum_for_five_and_six_nodes() {
    println!("nodes   bytes  seed  optimum_s     flat_s  trials to within 10 %, 1 %, all of it");
    for n in [5, 6] {
        for bytes in [1, 1 << 20] {
            for seed in 1..=3 {
                let network = grids::scattered(n, seed);
                let optimum = optimum(&network, bytes);
                let mut config = Config::new(n, 0, bytes);
                (config.seed, config.native) = (seed, false);
                let mut search = Search::new(strategy("random-transform").unwrap(), config, None);
                let experiment =
                    Experiment { max_trials: 4_000, noise: 0.0, seed, ask_again: usize::MAX - 1 };
                let record = converge(&mut search, &network, experiment);
                let trials = |fraction: f64| {
                    let good = optimum * (1.0 + fraction);
                    record.steps.iter().find(|step| step.best_s <= good).map(|step| step.trials)
                };
                let flat = record.steps[0].best_s;
                println!(
                    "{n:5} {bytes:7} {seed:5} {optimum:10.6} {flat:10.6}  {:?} {:?} {:?}",
                    trials(0.1),
                    trials(0.01),
                    trials(1e-9)
                );
                assert!(
                    trials(1e-9).is_some(),
                    "{n} nodes, {bytes} B, seed {seed}: {} s after {} trials, optimum {optimum} s",
                    record.final_s(),
                    record.trials
                );
            }
        }
    }
}
