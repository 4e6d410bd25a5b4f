//! Days of demand that comes and goes: what the daemons and the job keep is bounded, and every target that programs
//! want gets its turn.

use crate::memory::live_bytes;
use crate::rules::Rules;
use crate::world::World;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Between two looks at the memory.
const EVERY: Duration = Duration::from_secs(2 * 3600);

/// The first trial of a target begins within this, while nobody holds the network for long.
const TURN: Duration = Duration::from_secs(120);

/// What lives at a moment.
#[derive(Debug, Clone, Copy)]
struct Memory {
    live: isize,
    /// Of that, what daemons keep of trials and of plans, by design until the wisdom file is full.
    trials: isize,
    plans: isize,
}

impl Memory {
    fn of(world: &World) -> Self {
        let knowledge = || {
            let daemons = world.hosts.iter().filter_map(|host| host.daemon.as_ref());
            daemons.map(|daemon| daemon.node.knowledge())
        };
        let trials = copied(|| {
            let of_target = |knowledge: &arborcast_service::knowledge::Knowledge| {
                let targets = knowledge.targets().into_iter();
                let trials = targets.flat_map(|target| knowledge.trials(target).to_vec());
                trials.map(|trial| Box::new((*trial).clone())).collect::<Vec<_>>()
            };
            knowledge().map(of_target).collect::<Vec<_>>()
        });
        let plans = copied(|| {
            knowledge()
                .map(|known| {
                    known
                        .to_wisdom()
                        .plans
                        .into_iter()
                        .map(|learned| Box::new((*learned.finding).clone()))
                        .collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        });
        Memory { live: live_bytes(), trials, plans }
    }

    fn rest(&self) -> isize {
        self.live - self.trials - self.plans
    }
}

/// The bytes of what is made.
fn copied<T>(make: impl FnOnce() -> T) -> isize {
    let before = live_bytes();
    let copy = make();
    let bytes = live_bytes() - before;
    drop(copy);
    bytes
}

/// Programs come each few minutes by day, and hardly by night.
fn by_day(now: Duration) -> (Duration, u32) {
    let hour = now.as_secs() / 3600 % 24;
    if (8..20).contains(&hour) { (Duration::from_secs(200), 12) } else { (HOUR, 5) }
}

/// That a daemon knows: the wisdom file bounds it.
fn plan_count(world: &World) -> usize {
    world.hosts[0].daemon.as_ref().map_or(0, |daemon| daemon.node.knowledge().plan_count())
}

fn print(world: &World, memory: &Memory, waiting: usize) {
    let kib = |bytes: isize| bytes / 1024;
    let plans = plan_count(world);
    println!(
        "{:3.0} h: {} KiB live: {} of trials, {} of plans, {} of all else; {plans} plans; {waiting} targets wait, \
         the longest wait was {:.0} s; {} programs, {} broadcasts, {} trials, {} events",
        world.now.as_secs_f64() / 3600.0,
        kib(memory.live),
        kib(memory.trials),
        kib(memory.plans),
        kib(memory.rest()),
        world.figures.longest_wait.as_secs_f64(),
        world.figures.programs,
        world.figures.broadcasts,
        world.figures.trials,
        world.figures.events,
    );
}

fn sample(world: &mut World) {
    let memory = Memory::of(world);
    let waiting = world.waiting();
    print(world, &memory, waiting.len());
    for (target, since) in waiting {
        assert!(world.now - since < TURN, "{target} has been waiting since {since:?}");
    }
    world.samples.push(memory.rest() / plan_count(world).max(1) as isize);
}

#[test]
#[ignore = "three days, in a minute"]
fn three_days_of_demand_leave_memory_bounded_and_every_target_gets_its_turn() {
    let mut world = World::new(Rules::days(), 1, ChaCha8Rng::seed_from_u64(1));
    world.arrivals = by_day;
    world.sample = Some((EVERY, sample));
    world.run(72 * HOUR + Duration::from_secs(1), Duration::ZERO);
    assert!(world.figures.longest_wait < TURN, "{:?}", world.figures.longest_wait);
    // What is on its way to daemons that are away comes and goes. What a target needs stays, and programs keep asking
    // for new ones; what leaks grows with the programs that come, of which there are more for each plan every day.
    let days: Vec<isize> =
        world.samples.chunks(12).map(|day| day.iter().copied().min().unwrap_or(0)).collect();
    println!("The least of all else for each plan in each day, in bytes: {days:?}");
    assert!(days[2] < days[1] * 5 / 4, "what is kept grows: {days:?}");
}
