//! Nodes, programs and an experiment job on one virtual clock. Everything that happens is an event with its time;
//! what is late by how much, and what fails, is drawn from one seed. The network is the planner's simulator.

use crate::host::Host;
use crate::program::Program;
use crate::rank::{Job, Leader};
use crate::rules::Rules;
use arborcast_planner::job::coordinator::{Coordinator, Until};
use arborcast_planner::job::wire::{News, Order, StepResult};
use arborcast_planner::search::schedule::{Schedule, Settings};
use arborcast_planner::{Network, grids, simulate};
use arborcast_proto::message::{Ask, Demand, Finding};
use arborcast_proto::{NodeName, Plan, Target};
use arborcast_service::arbiter::Moment;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
use std::time::{Duration, Instant};

/// Looks at the world now and then.
pub type Watch = fn(&mut World);

/// When an event happens, and its number among all.
pub type Key = (Moment, u64);

pub enum Event {
    Look { host: usize },
    Told { host: usize, life: u64, connection: u64, ask: Ask },
    Gone { host: usize, life: u64, connection: u64 },
    Save { host: usize, life: u64 },
    Act { program: u64 },
    Wake { rank: usize, epoch: u64 },
    Mail { rank: usize, epoch: u64, order: Order },
    News { rank: usize, epoch: u64, news: News },
    Begin { epoch: u64, step: u64 },
    Due { epoch: u64, step: u64, end: u64 },
    Done { epoch: u64, rank: usize, step: u64, result: StepResult },
    StartDaemon { host: usize },
    Resume { host: usize },
    Trouble,
    Arrival,
    Sample,
}

/// What came of a run.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Figures {
    pub events: u64,
    pub broadcasts: u64,
    pub along_trees: u64,
    pub trials: u64,
    pub hold_timeouts: u64,
    pub overdue: u64,
    pub replaced: u64,
    pub jobs: u64,
    pub programs: u64,
    /// The longest that a target which programs want waited for its first trial, and how many have waited.
    pub longest_wait: Duration,
    pub turns: u64,
}

pub struct World {
    pub now: Moment,
    zero: Instant,
    pub chance: ChaCha8Rng,
    events: BTreeMap<Key, Event>,
    number: u64,
    pub rules: Rules,
    networks: Vec<Network>,
    network: usize,
    pub hosts: Vec<Host>,
    pub programs: BTreeMap<u64, Program>,
    pub job: Option<Job>,
    pub epochs: u64,
    /// The next job starts then.
    job_at: Moment,
    job_pause: Duration,
    /// Programs arrive and things fail until then, and all is over at the end.
    calm: Moment,
    end: Moment,
    pub arrivals: fn(Moment) -> (Duration, u32),
    /// What has happened, in short.
    pub history: DefaultHasher,
    pub figures: Figures,
    /// Targets that programs want and no trial was made of yet in this job, and since when.
    waiting: BTreeMap<Target, Moment>,
    served: std::collections::BTreeSet<Target>,
    /// What the job that runs has told all daemons last.
    pub told: BTreeMap<Target, (Moment, Finding)>,
    pub sample: Option<(Duration, Watch)>,
    pub samples: Vec<isize>,
    last_broadcast: Option<(usize, Vec<usize>, Plan, usize, u64, f64)>,
    is_loud: bool,
}

impl Figures {
    pub fn add(&mut self, other: &Figures) {
        self.events += other.events;
        self.broadcasts += other.broadcasts;
        self.along_trees += other.along_trees;
        self.trials += other.trials;
        self.hold_timeouts += other.hold_timeouts;
        self.overdue += other.overdue;
        self.replaced += other.replaced;
        self.jobs += other.jobs;
        self.programs += other.programs;
        self.turns += other.turns;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

impl World {
    pub fn new(rules: Rules, seed: u64, chance: ChaCha8Rng) -> Self {
        let networks = (0..3).map(|i| grids::random(rules.hosts, 1, 10 * seed + i)).collect();
        let name = |i: usize| NodeName::new(format!("n{i}")).expect("a name");
        let host = |i| Host { name: name(i), daemon: None, lives: 0, file: Vec::new() };
        let now = Duration::from_secs(1000);
        let mut world = World {
            now,
            zero: Instant::now(),
            chance,
            events: BTreeMap::new(),
            number: 0,
            hosts: (0..rules.hosts).map(host).collect(),
            rules,
            networks,
            network: 0,
            programs: BTreeMap::new(),
            job: None,
            epochs: 0,
            job_at: now,
            job_pause: Duration::from_secs(1),
            calm: now,
            end: now,
            arrivals: |_| (Duration::from_secs(10), 40),
            history: DefaultHasher::new(),
            figures: Figures::default(),
            waiting: BTreeMap::new(),
            served: Default::default(),
            told: BTreeMap::new(),
            sample: None,
            samples: Vec::new(),
            last_broadcast: None,
            is_loud: std::env::var_os("ARBORCAST_SIMULATION_LOUD").is_some(),
        };
        (0..world.hosts.len()).for_each(|host| world.start_daemon(host));
        world
    }

    /// Lets the world go on for so long, with troubles and programs that arrive, and then quietly.
    pub fn run(&mut self, busy: Duration, quiet: Duration) {
        self.calm = self.now + busy;
        self.end = self.calm + quiet;
        self.after(Duration::ZERO, Event::Arrival);
        if self.rules.trouble_every.is_some() {
            self.after(Duration::from_secs(1), Event::Trouble);
        }
        if let Some((every, _)) = self.sample {
            self.after(every, Event::Sample);
        }
        while !self.is_over() {
            if self.now < self.job_at {
                self.step_before(self.job_at);
                continue;
            }
            self.figures.jobs += 1;
            let started = self.now;
            self.start_job();
            self.lead();
            if !self.is_over() {
                self.kill_job();
            }
            // As the daemon that launches it, but for the longest pause.
            let lasted = self.now - started >= Duration::from_secs(60);
            self.job_pause = match lasted {
                true => Duration::from_secs(1),
                false => (2 * self.job_pause).min(self.rules.job_pause),
            };
            self.job_at = self.now + self.job_pause;
        }
    }

    fn lead(&mut self) {
        let names = self.hosts.iter().map(|host| host.name.clone()).collect();
        let sites = (0..self.hosts.len()).map(|i| format!("s{}", i / 2)).collect();
        let settings = Settings { refresh: self.rules.refresh, ..Settings::default() };
        let schedule = Schedule::new(settings, names, sites);
        let Some(leader) = Leader::of(self) else { return };
        let _ = Coordinator::new(leader, schedule, Until::default()).run();
    }

    pub fn is_over(&self) -> bool {
        self.now >= self.end
    }

    pub fn is_calm(&self) -> bool {
        self.now >= self.calm
    }

    pub fn instant(&self) -> Instant {
        self.zero + self.now
    }

    pub fn network(&self) -> &Network {
        &self.networks[self.network]
    }

    /// How long a broadcast between nodes takes now.
    pub fn broadcast_s(&mut self, members: &[usize], plan: &Plan, root: usize, bytes: u64) -> f64 {
        if let Some((network, of, which, from, many, seconds)) = &self.last_broadcast
            && (*network, &of[..], which, *from, *many)
                == (self.network, members, plan, root, bytes)
        {
            return *seconds;
        }
        let seconds = simulate(&self.network().subset(members), plan, root, bytes);
        self.last_broadcast =
            Some((self.network, members.to_vec(), plan.clone(), root, bytes, seconds));
        seconds
    }

    /// By how much a message, a timer or a wake-up is late: mostly little.
    pub fn lag(&mut self) -> Duration {
        let part = self.chance.random_range(0.0f64..1.0).powi(4);
        self.rules.most_lag.mul_f64(part) + Duration::from_micros(5)
    }

    /// When the end of a process is noticed.
    pub fn late(&mut self) -> Duration {
        self.rules.most_late.mul_f64(self.chance.random_range(0.0..1.0))
    }

    pub fn after(&mut self, after: Duration, event: Event) -> Key {
        self.number += 1;
        let key = (self.now + after, self.number);
        self.events.insert(key, event);
        key
    }

    pub fn cancel(&mut self, key: Option<Key>) {
        if let Some(key) = key {
            self.events.remove(&key);
        }
    }

    /// The next event, if it comes before `until`; else it becomes that time, and false.
    pub fn step_before(&mut self, until: Moment) -> bool {
        let until = until.min(self.end);
        match self.events.first_key_value() {
            Some((&(at, _), _)) if at < until => {}
            _ => {
                self.now = self.now.max(until);
                return false;
            }
        }
        let ((at, _), event) = self.events.pop_first().expect("it was there");
        self.now = self.now.max(at);
        self.figures.events += 1;
        self.happens(event);
        true
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Look { host } => self.look(host),
            Event::Told { host, life, connection, ask } => self.told(host, life, connection, ask),
            Event::Gone { host, life, connection } => self.gone(host, life, connection),
            Event::Save { host, life } => self.save(host, life),
            Event::Act { program } => self.act(program),
            Event::Wake { rank, epoch } if self.is_led(epoch) => self.follow(rank),
            Event::Mail { rank, epoch, order } if self.is_led(epoch) => self.mail(rank, order),
            Event::News { rank, epoch, news } if self.is_led(epoch) => self.news(rank, news),
            Event::Begin { epoch, step } if self.is_led(epoch) => self.begin_step(step),
            Event::Due { epoch, step, end } if self.is_led(epoch) => self.due(step, end),
            Event::Done { epoch, rank, step, result } if self.is_led(epoch) => {
                self.done(rank, step, result);
            }
            // Of a job that has ended.
            Event::Wake { .. }
            | Event::Mail { .. }
            | Event::News { .. }
            | Event::Begin { .. }
            | Event::Due { .. }
            | Event::Done { .. } => {}
            Event::StartDaemon { host } => self.start_daemon(host),
            Event::Resume { host } => self.pause(host, false),
            Event::Trouble => self.trouble(),
            Event::Arrival => self.arrive(),
            Event::Sample => {
                if let Some((every, sample)) = self.sample {
                    sample(self);
                    self.after(every, Event::Sample);
                }
            }
        }
    }

    fn arrive(&mut self) {
        if self.is_calm() {
            let all: Vec<u64> = self.programs.keys().copied().collect();
            return all.into_iter().for_each(|number| self.end_program(number));
        }
        let (every, most) = (self.arrivals)(self.now);
        self.figures.programs += 1;
        self.start_program(self.figures.programs, most);
        let after = every.mul_f64(self.chance.random_range(0.1..1.9));
        self.after(after.min(self.calm.saturating_sub(self.now)), Event::Arrival);
    }

    fn trouble(&mut self) {
        let Some(every) = self.rules.trouble_every.filter(|_| !self.is_calm()) else { return };
        let host = self.chance.random_range(0..self.hosts.len());
        let programs = self.programs.len().max(1);
        let program = self.chance.random_range(0..programs);
        let program = self.programs.keys().nth(program).copied().unwrap_or(0);
        let seconds = self.chance.random_range(1..30);
        match self.chance.random_range(0..8) {
            0 => {
                self.kill_daemon(host);
                let after = Duration::from_millis(100 * seconds);
                self.after(after, Event::StartDaemon { host });
            }
            1 => self.kill_job(),
            2 | 3 => self.end_program(program),
            4 => self.hang_program(program, seconds),
            5 => {
                self.pause(host, true);
                self.after(Duration::from_secs(seconds), Event::Resume { host });
            }
            6 => self.freeze_daemon(host, Duration::from_millis(300 * seconds)),
            _ => self.network = self.chance.random_range(0..self.networks.len()),
        }
        let after = every.mul_f64(self.chance.random_range(0.1..1.9));
        self.after(after, Event::Trouble);
    }

    fn pause(&mut self, host: usize, paused: bool) {
        let life = self.hosts[host].lives;
        if self.is_frozen(host) {
            // The operator's command fails, and is given again where it matters.
            if !paused {
                self.after(Duration::from_secs(1), Event::Resume { host });
            }
            return;
        }
        self.ask(host, life, 0, if paused { Ask::Pause } else { Ask::Resume });
    }

    /// Something that another run of the same seed must do, too.
    pub fn note(&mut self, what: u64, which: u64) {
        if self.is_loud {
            println!("{:10.4} note {what} {which}", self.now.as_secs_f64());
        }
        (self.now, what, which).hash(&mut self.history);
    }

    pub fn say(&mut self, line: &str) {
        (self.now, line).hash(&mut self.history);
        if self.is_loud {
            println!("{:10.4} {line}", self.now.as_secs_f64());
        }
    }

    /// A new job knows of no trial.
    pub fn waits_begin(&mut self) {
        self.served.clear();
        self.told.clear();
        let now = self.now;
        self.waiting.values_mut().for_each(|since| *since = now);
    }

    pub fn wants(&mut self, target: Target) {
        if !self.served.contains(&target) {
            let now = self.now;
            self.waiting.entry(target).or_insert(now);
        }
    }

    pub fn has_turn(&mut self, target: Target) {
        self.served.insert(target);
        if let Some(since) = self.waiting.remove(&target) {
            self.figures.turns += 1;
            self.figures.longest_wait = self.figures.longest_wait.max(self.now - since);
        }
    }

    /// Targets that no trial was made of, of those that a daemon still speaks of, and since when.
    pub fn waiting(&mut self) -> Vec<(Target, Moment)> {
        let demand: Vec<Target> =
            (0..self.hosts.len()).flat_map(|host| self.demand(host)).map(|d| d.target).collect();
        self.waiting.retain(|target, _| demand.contains(target));
        self.waiting.iter().map(|(target, since)| (*target, *since)).collect()
    }

    pub fn demand(&mut self, host: usize) -> Vec<Demand> {
        let life = self.hosts[host].lives;
        match self.ask(host, life, 0, Ask::Demand) {
            Some(arborcast_proto::message::Answer::Demand(demand)) => demand,
            _ => Vec::new(),
        }
    }

    pub fn published(&mut self, finding: &Finding) {
        if self.rules.trouble_every.is_some() {
            self.told.insert(finding.target(), (self.now, finding.clone()));
        }
    }
}
