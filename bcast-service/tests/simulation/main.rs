//! Everything that decides, together, on a virtual clock: the daemon of each node, the experiment's coordinator,
//! schedule and ranks, and programs that come, hold, broadcast, hang and die. Nothing here is a copy of what users
//! run but sockets, MPI and time. A run follows from its seed alone.
//!
//! `ARBORCAST_SIMULATION_SEED=7` repeats one run, with `ARBORCAST_SIMULATION_LOUD=1` and `--nocapture` it tells what
//! happens; `ARBORCAST_SIMULATION_SEEDS=100000` is for a night.
//!
//! [`world`] has the clock and the events, [`host`] a node and its daemon, [`program`] an MPI program, [`rank`] and
//! [`step`] the experiment job, [`rules`] how long things take and what fails.

mod days;
mod host;
mod memory;
mod program;
mod rank;
mod rules;
mod step;
mod world;

use arborcast_proto::Plan;
use arborcast_proto::message::{Answer, Ask, ExperimentState, Times};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rules::Rules;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use world::{Figures, World};

const SECOND: Duration = Duration::from_secs(1);

/// Says which run it was that failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("ARBORCAST_SIMULATION_SEED={} repeats it", self.0);
        }
    }
}

/// A minute of troubles, then a quiet half.
fn troubled(seed: u64) -> (Figures, u64) {
    let _seed = Seed(seed);
    let mut chance = ChaCha8Rng::seed_from_u64(seed);
    let rules = Rules::troubled(&mut chance);
    let mut world = World::new(rules, seed, chance);
    world.run(60 * SECOND, 30 * SECOND);
    check_quiet(&mut world);
    (world.figures.clone(), world.history.finish())
}

/// What holds when programs have ended, and everybody had time to notice.
fn check_quiet(world: &mut World) {
    assert_eq!(world.programs.len(), 0);
    for host in 0..world.hosts.len() {
        let life = world.hosts[host].lives;
        let Some(Answer::Status(status)) = world.ask(host, life, 0, Ask::Status) else {
            panic!("node {host} has no daemon");
        };
        assert_eq!(status.holds, 0, "node {host} has a hold of the dead");
        assert_eq!(status.applications, world.links_to(host) as u32, "node {host}");
        assert_eq!(status.experiment, ExperimentState::Running, "node {host} lets nobody run");
    }
    check_knowledge(world);
}

/// What the job has found every daemon knows, and all know the same of it: what it measured stands nowhere behind what
/// is older, and what it only expects gives way to that.
fn check_knowledge(world: &World) {
    let Some(job) = &world.job else { return };
    for (target, (at, told)) in &world.told {
        if world.now < *at + SECOND {
            // On its way.
            continue;
        }
        let mut plans = Vec::new();
        for host in &world.hosts {
            let known = host.daemon.as_ref().expect("they are all back").node.knowledge();
            // To one that did not know a plan it is nothing that this has fallen behind native.
            let is_slower = |native: Times| native.median_s <= told.times.median_s;
            let has_fallen = told.plan != Plan::Native && told.native.is_some_and(is_slower);
            let plan = known.finding(*target).map(|finding| &finding.plan);
            assert!(plan.is_some() || has_fallen, "{} knows nothing of {target}", host.name);
            let is_newest = known.epoch(*target).is_none_or(|epoch| epoch == job.epoch);
            assert!(
                is_newest || !told.times.is_measured(),
                "{} has an older plan for {target} than {}",
                host.name,
                told.plan
            );
            if is_newest {
                plans.push(plan.unwrap_or(&Plan::Native));
            }
        }
        plans.dedup();
        assert!(plans.len() <= 1, "daemons differ on {target}: {plans:?}; told was {}", told.plan);
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn rules_hold_whatever_happens_in_whatever_order() {
    if let Some(seed) = number("ARBORCAST_SIMULATION_SEED") {
        println!("{:?}", troubled(seed));
        return;
    }
    let seeds = number("ARBORCAST_SIMULATION_SEEDS").unwrap_or(150);
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let some = || {
        let mut sum = Figures::default();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                seed if seed < seeds => sum.add(&troubled(seed).0),
                _ => return sum,
            }
        }
    };
    let mut all = Figures::default();
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        threads.into_iter().for_each(|thread| all.add(&thread.join().expect("the rules hold")));
    });
    let per_minute = seeds as f64 / started.elapsed().as_secs_f64() * 60.0;
    println!("{seeds} seeds, {per_minute:.0} a minute: {all:?}");
    // Else nothing was tried that could fail.
    for (what, count) in [
        ("trials", all.trials),
        ("broadcasts along trees", all.along_trees),
        ("waits in vain", all.hold_timeouts),
        ("experiments that did not stop in time", all.overdue),
        ("experiments that were replaced", all.replaced),
    ] {
        assert!(count > 0, "there were no {what}");
    }
}

#[test]
fn a_seed_says_all_that_happens() {
    for seed in 0..5 {
        assert_eq!(troubled(seed), troubled(seed), "seed {seed}");
    }
}
