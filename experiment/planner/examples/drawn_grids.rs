//! How far from the limit the default strategy ends on grids drawn from seeds, in the simulator:
//! `cargo run --release -p arborcast-planner --example drawn_grids [GRIDS]`.
//!
//! Two to eight sites of one to eight nodes, once with connections that know the way ("warm"), once with
//! such as begin anew after pauses of a second ("cold"), as those of most programs do. The limit knows
//! nothing of TCP's start. "search" is the median of what the measurements take, pauses included. The seeds
//! of the worst grids are named, to be looked into.

use arborcast_planner::{
    Config, Experiment, Limits, Network, Search, Seconds, converge, grids, strategy,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::num::NonZero;

const SIZES: [u64; 3] = [64 << 10, 1 << 20, 8 << 20];
/// Of the MPI that is simulated, as Open MPI's; plans go by the least of all.
const EAGER_BYTES: u64 = 64 << 10;
const NOISE: f64 = 0.03;
const WORST: usize = 5;
const PAUSE_S: Seconds = 1.0;

fn main() {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000);
    println!("{count} grids, guided, × limit");
    println!("hosts     bytes  median   90 %   99 %  worst  search  seeds of the worst");
    for (hosts, is_cold) in [("warm", false), ("cold", true)] {
        for bytes in SIZES {
            let mut found = on_all_processors(count, |seed| search(seed, is_cold, bytes));
            found.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
            let place = |part: f64| ((count - 1) as f64 * part).round() as usize;
            let of_limit = |part: f64| found[place(part)].0.0;
            let mut searches_s: Vec<Seconds> = found.iter().map(|(found, _)| found.1).collect();
            searches_s.sort_by(f64::total_cmp);
            let worst = found.iter().rev().take(WORST).map(|(_, seed)| seed.to_string());
            println!(
                "{hosts:5} {bytes:9} {:7.2} {:6.2} {:6.2} {:6.2} {:5.1} s  {}",
                of_limit(0.5),
                of_limit(0.9),
                of_limit(0.99),
                of_limit(1.0),
                searches_s[place(0.5)],
                worst.collect::<Vec<_>>().join(" ")
            );
        }
    }
}

/// Of each seed below `count`, in no order.
fn on_all_processors<T: Send>(count: u64, of_seed: impl Fn(u64) -> T + Sync) -> Vec<(T, u64)> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let of_every = &|first| {
        let seeds = (first..count).step_by(threads);
        seeds.map(|seed| (of_seed(seed), seed)).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let firsts = 0..threads as u64;
        let running: Vec<_> = firsts.map(|first| scope.spawn(move || of_every(first))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a search ends")).collect()
    })
}

/// What the plan that is found takes, as a multiple of the limit, and how long its search, survey included.
fn search(seed: u64, is_cold: bool, bytes: u64) -> (f64, Seconds) {
    let network = draw(seed);
    let limit_s = Limits::new(&network, 0).limit_s(bytes);
    let network = network.after_pause(if is_cold { PAUSE_S } else { 0.0 });
    let mut config = Config::new(network.len(), 0, bytes);
    config.pause_s = network.pause_s();
    config.native = false;
    let mut search = Search::new(strategy("guided").expect("a known name"), config, None);
    let experiment = Experiment { max_trials: 30, noise: NOISE, seed, ask_again: 0 };
    let record = converge(&mut search, &network, experiment);
    (record.final_s() / limit_s, record.elapsed_s)
}

fn draw(seed: u64) -> Network {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let sites = random.random_range(2..=8);
    let nodes_per_site = random.random_range(if sites < 4 { 2..=8 } else { 1..=8 });
    grids::random(sites, nodes_per_site, seed).with_eager_bytes(EAGER_BYTES)
}
