//! Applications broadcast while everything around them goes wrong, by a schedule that is drawn from a
//! printed seed: they finish with right data, and nothing is left behind. `ARBORCAST_CHAOS_SEED` and
//! `ARBORCAST_CHAOS_SECONDS` choose another run.

mod arena;
mod daemons;
mod leftovers;
mod programs;
mod schedule;
#[path = "../support/mod.rs"]
mod support;

use arena::Arena;
use gridlab::Mpi;
use programs::{Lane, Tally};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use schedule::{Fault, Kind};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use support::{status, wait_until};

/// More than this for one schedule shows nothing that the next seed does not.
const ROUND: Duration = Duration::from_secs(300);
/// Of the program that shows that trees are used again.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// What a daemon may have open beyond what it has at first: the experiment, and who asks it.
const MORE_DESCRIPTORS: usize = 8;

/// What happened, of one round or of many.
#[derive(Default)]
struct Account {
    done: BTreeMap<Kind, u32>,
    tally: Tally,
    daemon_starts: u32,
    refused_starts: u32,
}

impl Account {
    fn add(&mut self, arena: &Arena, lanes: &[Lane]) {
        for (kind, number) in &arena.done {
            *self.done.entry(*kind).or_default() += number;
        }
        for Lane { tally, .. } in lanes {
            self.tally.programs += tally.programs;
            self.tally.broadcasts += tally.broadcasts;
            self.tally.along_trees += tally.along_trees;
            self.tally.killed_with_host += tally.killed_with_host;
        }
        let (starts, refused) = arena.daemon_starts();
        self.daemon_starts += starts;
        self.refused_starts += refused;
    }

    fn print(&self) {
        for (kind, number) in &self.done {
            println!("{number:>6} {kind:?}");
        }
        println!("{:>6} daemons started, {} refused", self.daemon_starts, self.refused_starts);
        let Tally { programs, broadcasts, along_trees, killed_with_host } = self.tally;
        println!("{programs:>6} programs, {broadcasts} broadcasts, {along_trees} seen along trees");
        println!("{killed_with_host:>6} programs ended with a host of theirs");
    }
}

/// The faults of a schedule on an arena, and the programs that run meanwhile.
struct Round {
    arena: Arena,
    lanes: [Lane; 2],
    random: ChaCha8Rng,
    started: Instant,
    underway: Vec<Fault>,
    next_mpi: Mpi,
}

impl Round {
    fn fail(&mut self, why: &str) -> ! {
        let picture = leftovers::picture(&self.arena.grid);
        let said = self.arena.said();
        let at = self.started.elapsed();
        panic!("after {at:.1?}, during {:?}:\n{why}\n{said}{picture}", self.underway);
    }

    /// One look at all that runs; programs that end are followed by others where there is time `left`.
    fn step(&mut self, left: Duration) {
        self.arena.tend();
        for lane in 0..self.lanes.len() {
            if let Err(why) = self.lanes[lane].look() {
                self.fail(&why);
            }
            if left.is_zero() || !self.lanes[lane].is_idle() {
                continue;
            }
            let down: Vec<usize> = self.hosts_down().collect();
            let (grid, random) = (&self.arena.grid, &mut self.random);
            match lane {
                0 => {
                    self.lanes[0].start_random(grid, self.next_mpi, random, &down, left);
                    self.next_mpi = match (self.next_mpi, Mpi::Mpich.launcher()) {
                        (Mpi::OpenMpi, Ok(_)) => Mpi::Mpich,
                        _ => Mpi::OpenMpi,
                    };
                }
                _ => self.lanes[1].start_steady(grid, random, &down, left),
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }

    fn hosts_down(&self) -> impl Iterator<Item = usize> + '_ {
        let killed = self.underway.iter().filter(|fault| fault.kind == Kind::HostKilled);
        killed.map(|fault| fault.node)
    }

    fn run(&mut self, schedule: &[Fault], length: Duration) {
        let (begins, ends) = (schedule.iter().map(|f| (f.from, f)), schedule.iter());
        let mut moments: Vec<_> = begins.chain(ends.map(|f| (f.until, f))).collect();
        moments.sort_by_key(|(at, _)| *at);
        let mut moments = moments.into_iter().peekable();
        while moments.peek().is_some() || self.started.elapsed() < length {
            while let Some((at, fault)) = moments.next_if(|(at, _)| *at <= self.started.elapsed()) {
                if at == fault.from {
                    println!("{:>8.1?} {fault:?}", self.started.elapsed());
                    if fault.kind == Kind::HostKilled {
                        self.lanes.iter_mut().for_each(|lane| lane.host_killed(fault.node));
                    }
                    self.arena.begin(fault);
                    self.underway.push(*fault);
                } else {
                    self.arena.end(fault);
                    self.underway.retain(|other| other != fault);
                }
            }
            self.step(length.saturating_sub(self.started.elapsed()));
        }
        while !self.lanes.iter().all(Lane::is_idle) {
            self.step(Duration::ZERO);
        }
        self.settle();
    }

    /// Until every daemon has plans.
    fn settle(&mut self) {
        let since = Instant::now();
        while !self.arena.is_settled() {
            if since.elapsed() > support::LIMIT {
                self.fail("waited for the daemons to take plans");
            }
            self.step(Duration::ZERO);
        }
    }

    /// All is as it was before: holds and slots are free, the experiment works, trees are used.
    fn recovers(&mut self, descriptors: &[usize]) {
        let nodes = self.arena.grid.nodes();
        for node in &nodes {
            wait_until(&format!("{node} to be free of applications"), || {
                let status = status(&self.arena.grid, node);
                (status["applications"] == 0 && status["holds"] == 0).then_some(())
            });
            wait_until(&format!("an experiment on {node}"), || {
                self.arena.tend();
                (status(&self.arena.grid, node)["experiment"] != "none").then_some(())
            });
        }
        for (pid, before) in self.arena.daemon_pids().into_iter().zip(descriptors) {
            let now = leftovers::descriptors(pid);
            assert!(now <= before + MORE_DESCRIPTORS, "{now} descriptors, {before} at first");
        }
        let before = self.lanes[1].tally;
        self.lanes[1].start_steady(&self.arena.grid, &mut self.random, &[], AFTERWARDS);
        while !self.lanes[1].is_idle() {
            self.step(Duration::ZERO);
        }
        let after = self.lanes[1].tally;
        assert!(after.along_trees > before.along_trees, "no broadcast goes along trees again");
    }

    fn leaves_nothing(&mut self) {
        self.arena.end_daemons();
        let started = Instant::now();
        while !leftovers::processes(&self.arena.grid).is_empty() {
            if started.elapsed() > support::LIMIT {
                self.fail("waited for the end of all processes");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for node in self.arena.grid.nodes() {
            let kept =
                ["/run/arborcast", "/run/arborcast/state", "/run/arborcast/state/arborcast.wisdom"];
            let is_kept = |file: &str| kept.contains(&file) || file.contains(".wisdom.damaged-");
            let files = leftovers::files(&self.arena.grid, &node);
            let left: Vec<&String> = files.iter().filter(|file| !is_kept(file)).collect();
            assert!(left.is_empty(), "left behind on {node}: {left:?}");
        }
    }
}

fn round(seed: u64, length: Duration, account: &mut Account) {
    println!("seed {seed}, {length:?}");
    let arena = Arena::up(seed);
    let schedule = schedule::draw(seed, arena.grid.nodes().len(), length);
    let random = ChaCha8Rng::seed_from_u64(seed);
    let lanes = <[Lane; 2]>::default();
    let (underway, next_mpi) = (Vec::new(), Mpi::OpenMpi);
    let mut round = Round { arena, lanes, random, started: Instant::now(), underway, next_mpi };
    round.settle();
    let pids = round.arena.daemon_pids();
    let descriptors: Vec<usize> = pids.into_iter().map(leftovers::descriptors).collect();
    round.started = Instant::now();
    round.run(&schedule, length);
    round.recovers(&descriptors);
    round.leaves_nothing();
    account.add(&round.arena, &round.lanes);
    account.print();
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Rounds from the seed `ARBORCAST_CHAOS_SEED`, or one of the clock, each with the next seed, for
/// `ARBORCAST_CHAOS_SECONDS`.
fn chaos(seconds: u64) {
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let first = number("ARBORCAST_CHAOS_SEED").unwrap_or(clock);
    let mut left = Duration::from_secs(number("ARBORCAST_CHAOS_SECONDS").unwrap_or(seconds));
    let mut account = Account::default();
    for seed in first.. {
        let length = left.min(ROUND);
        round(seed, length, &mut account);
        left -= length;
        if left.is_zero() {
            break;
        }
    }
    assert!(account.tally.along_trees > 0, "no broadcast went along trees");
}

#[test]
#[ignore = "a minute and a half"]
fn programs_finish_with_right_data_whatever_fails() {
    chaos(60);
}

#[test]
#[ignore = "an hour: ARBORCAST_CHAOS_SECONDS says how long"]
fn programs_finish_with_right_data_whatever_fails_for_an_hour() {
    chaos(3600);
}
