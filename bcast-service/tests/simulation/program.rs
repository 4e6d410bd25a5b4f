//! An MPI program: its processes broadcast from some of its nodes, one after the other. Each process that is a
//! root has a link to the daemon of its node, and does with its slot what the library does.

use crate::host::Link;
use crate::world::{Event, Key, World};
use arborcast_planner::model::simulate;
use arborcast_proto::hold::{self, Experiment, Phase};
use arborcast_proto::message::{Ask, Role};
use arborcast_proto::segment::Broadcast;
use arborcast_proto::{Group, Plan, SizeClass, Target};
use arborcast_service::arbiter::Moment;
use rand::RngExt;
use std::collections::BTreeMap;
use std::time::Duration;

/// As the library's: between two looks whether the daemon is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub struct Program {
    group: Group,
    /// The node of each member of the group.
    members: Vec<usize>,
    roots: Vec<u16>,
    sizes: Vec<u64>,
    pub pause: Duration,
    /// Broadcasts that are left.
    left: u32,
    processes: BTreeMap<usize, Process>,
    now: Call,
    state: State,
    next: Option<Key>,
}

/// What is being broadcast, or was last.
#[derive(Clone, Copy)]
struct Call {
    root: u16,
    bytes: u64,
    began: Moment,
    took: Duration,
    native: bool,
}

#[derive(Default)]
struct Process {
    link: Option<Link>,
    looked: Moment,
    not_before: Moment,
    is_registered: bool,
    timed_out_at: Option<Experiment>,
    /// The daemon has let it go ahead, and its hold stands, since then.
    holds_since: Option<Moment>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Pausing,
    Waiting { until: Moment },
    Broadcasting,
}

impl World {
    pub fn start_program(&mut self, number: u64, most: u32) {
        let hosts = self.hosts.len();
        let mut members: Vec<usize> = (0..hosts).collect();
        let size = self.chance.random_range(2..=hosts);
        while members.len() > size {
            let out = self.chance.random_range(0..members.len());
            members.remove(out);
        }
        let names = members.iter().map(|&host| self.hosts[host].name.clone());
        let group = Group::new(names.collect()).expect("a group");
        let roots: Vec<u16> = (0..self.chance.random_range(1..=2))
            .map(|_| self.chance.random_range(0..size) as u16)
            .collect();
        let sizes: Vec<u64> = (0..self.chance.random_range(1..=2))
            .map(|_| {
                let most = if self.chance.random_bool(self.rules.large) { 23 } else { 16 };
                1 << self.chance.random_range(0..most)
            })
            .collect();
        let pause = Duration::from_secs_f64(0.01 * 500f64.powf(self.chance.random_range(0.0..1.0)));
        let left = self.chance.random_range(1..=most);
        let now = Call { root: 0, bytes: 0, began: self.now, took: Duration::ZERO, native: true };
        let (processes, state) = (BTreeMap::new(), State::Pausing);
        let program = Program {
            group,
            members,
            roots,
            sizes,
            pause,
            left,
            processes,
            now,
            state,
            next: None,
        };
        self.note(10, number);
        self.programs.insert(number, program);
        self.next_act(number, Duration::ZERO);
    }

    fn next_act(&mut self, number: u64, after: Duration) {
        let key = self.after(after, Event::Act { program: number });
        let program = self.programs.get_mut(&number).expect("it acts");
        let old = program.next.replace(key);
        self.cancel(old);
    }

    /// A program ends or is killed, at whatever point it is.
    pub fn end_program(&mut self, number: u64) {
        let Some(program) = self.programs.remove(&number) else { return };
        self.note(11, number);
        self.cancel(program.next);
        for (host, process) in program.processes {
            if let Some(Link { life, connection, .. }) = process.link {
                self.hang_up(host, life, connection);
            }
        }
    }

    /// It does nothing for this long, whatever it holds.
    pub fn hang_program(&mut self, number: u64, seconds: u64) {
        if self.programs.contains_key(&number) {
            self.note(12, number);
            self.next_act(number, Duration::from_secs(seconds));
        }
    }

    pub fn act(&mut self, number: u64) {
        let Some(program) = self.programs.get_mut(&number) else { return };
        program.next = None;
        match program.state {
            State::Pausing => self.begin(number),
            State::Waiting { until } => self.wait(number, until),
            State::Broadcasting => self.end(number),
        }
    }

    fn begin(&mut self, number: u64) {
        let draw = (self.chance.random::<u32>(), self.chance.random::<u32>());
        let program = self.programs.get_mut(&number).expect("it acts");
        let root = program.roots[draw.0 as usize % program.roots.len()];
        let bytes = program.sizes[draw.1 as usize % program.sizes.len()];
        let host = program.members[usize::from(root)];
        program.now = Call { root, bytes, began: self.now, took: Duration::ZERO, native: true };
        self.find_daemon(number, host);
        let program = self.programs.get_mut(&number).expect("it acts");
        let process = program.processes.entry(host).or_default();
        let Some(link) = &process.link else { return self.go_ahead(number, false) };
        if link.slot.claim(link.board.experiment()) {
            return self.go_ahead(number, true);
        }
        if process.timed_out_at == Some(link.word()) {
            return self.go_ahead(number, false);
        }
        let (life, connection) = (link.life, link.connection);
        let until = self.now + self.rules.hold_wait_max;
        program.state = State::Waiting { until };
        self.tell(host, life, connection, Ask::Ring);
        self.next_act(number, self.rules.hold_wait_max);
    }

    fn find_daemon(&mut self, number: u64, host: usize) {
        let now = self.now;
        let program = self.programs.get_mut(&number).expect("it acts");
        let group = program.group.clone();
        let process = program.processes.entry(host).or_default();
        let life = process.link.as_ref().map(|link| link.life);
        let was = process.link.as_ref().map(|link| link.connection);
        let (looks, tries) = (now >= process.looked + LOOK_EVERY, now >= process.not_before);
        if looks {
            process.looked = now;
        }
        let is_gone = looks && life.is_some_and(|life| !self.lives(host, life));
        let connected = match life {
            Some(_) if !is_gone => return,
            _ if tries => self.connect(host, Role::Application).expect("nobody is refused"),
            _ => None,
        };
        let registers = connected.as_ref().map(|link| (link.life, link.connection));
        if let Some((life, connection)) = life.zip(was) {
            self.hang_up(host, life, connection);
        }
        if let Some((life, connection)) = registers {
            self.ask(host, life, connection, Ask::Register(group));
        }
        let program = self.programs.get_mut(&number).expect("it acts");
        let process = program.processes.entry(host).or_default();
        process.is_registered = connected.is_some();
        process.not_before = if connected.is_some() { now } else { now + LOOK_EVERY };
        process.link = connected;
        process.timed_out_at = None;
    }

    /// The experiment word has changed, or `hold_wait_max` is over.
    fn wait(&mut self, number: u64, until: Moment) {
        let now = self.now;
        let (process, _) = self.calling(number).expect("it waits");
        let Some(link) = &process.link else { return self.go_ahead(number, false) };
        let seen = link.word();
        if seen.phase == Phase::Quiet {
            return self.go_ahead(number, true);
        }
        if now >= until {
            link.slot.count_hold_timeout();
            process.timed_out_at = Some(seen);
            self.figures.hold_timeouts += 1;
            return self.go_ahead(number, false);
        }
        self.next_act(number, until - now);
    }

    /// The process of the call's root, and its node.
    fn calling(&mut self, number: u64) -> Option<(&mut Process, usize)> {
        let program = self.programs.get_mut(&number)?;
        let host = program.members[usize::from(program.now.root)];
        Some((program.processes.entry(host).or_default(), host))
    }

    /// `agreed`: no experiment uses the network, says the daemon.
    fn go_ahead(&mut self, number: u64, agreed: bool) {
        let (process, host) = self.calling(number).expect("it begins");
        let life = process.link.as_ref().map(|link| link.life);
        let agreed = agreed && life.is_some_and(|life| self.lives(host, life));
        if agreed && !self.is_unanswered(host) {
            self.check_nothing_is_sent(host, "a program goes ahead");
            // A daemon that saw the claim later counts `hold_max` from then.
            let began = self.programs[&number].now.began;
            let (process, _) = self.calling(number).expect("it begins");
            process.holds_since = Some(began);
        }
        self.figures.broadcasts += 1;
        self.say(&format!("program {number} goes ahead on node {host}, agreed {agreed}"));
        let program = &self.programs[&number];
        let Call { root, bytes, .. } = program.now;
        let target = target(&program.group, root, bytes);
        let process = &program.processes[&host];
        let planned = process.link.as_ref().and_then(|link| link.board.plan(target));
        let plan = planned.map_or(Plan::Native, |entry| entry.plan);
        if let Some(striping) = plan.striping() {
            assert_eq!(striping.len(), program.group.len(), "{target} has a plan of another group");
            assert_eq!(striping.root(), usize::from(root), "{target} has a plan of another root");
            assert!(striping.stripes().iter().all(|stripe| stripe.tree.len() == striping.len()));
            self.figures.along_trees += 1;
        }
        let members = program.members.clone();
        let seconds = self.broadcast_s(&members, &plan, usize::from(root), bytes);
        let took = Duration::from_secs_f64(seconds);
        if let Some(striping) = plan.striping()
            && self.chance.random_bool(0.5)
        {
            let network = self.network().subset(&members);
            let number = self.figures.broadcasts as u32;
            for report in simulate::reports(&network, striping, target, bytes) {
                let host = members[usize::from(report.node)];
                let report = arborcast_proto::DeliveryReport { broadcast: number, ..report };
                if let Some(life) = self.hosts[host].daemon.as_ref().map(|daemon| daemon.life) {
                    self.tell(host, life, 0, Ask::Delivered(report));
                }
            }
        }
        if life.is_some_and(|life| self.lives(host, life)) {
            self.wants(target);
        }
        let program = self.programs.get_mut(&number).expect("it begins");
        program.now.native = plan == Plan::Native;
        program.now.took = took;
        program.state = State::Broadcasting;
        self.next_act(number, took);
    }

    fn end(&mut self, number: u64) {
        let (now, chance) = (self.now, self.chance.random_range(0.5..1.5));
        let program = self.programs.get_mut(&number).expect("it acts");
        let Call { root, bytes, took, native, .. } = program.now;
        let target = target(&program.group, root, bytes);
        program.state = State::Pausing;
        program.left -= 1;
        let (left, pause) = (program.left, program.pause.mul_f64(chance));
        let (process, _) = self.calling(number).expect("it ends");
        process.holds_since = None;
        if let Some(link) = &process.link {
            let now_ns = now.as_nanos() as u64;
            let seconds = Some(took.as_secs_f64());
            let since_s = link.slot.seconds_since_last(now_ns);
            let pause_s = since_s.map(|since_s| (since_s - took.as_secs_f64()).max(0.0));
            let broadcast = Broadcast {
                target,
                bytes,
                seconds: seconds.filter(|_| !native),
                pause_s,
                quiet_s: pause_s,
                native_s: seconds.filter(|_| native),
            };
            link.slot.record(&broadcast, now_ns);
            hold::release(link.slot.request());
        }
        if left == 0 {
            self.end_program(number);
        } else {
            self.next_act(number, pause);
        }
    }

    /// Whoever waits at a node is woken.
    pub fn wake_programs(&mut self, host: usize, life: u64) {
        let waits = |program: &Program| {
            let at = program.members[usize::from(program.now.root)];
            let link = program.processes.get(&at).and_then(|process| process.link.as_ref());
            matches!(program.state, State::Waiting { .. })
                && at == host
                && link.is_some_and(|link| link.life == life)
        };
        let waiting: Vec<u64> =
            self.programs.iter().filter(|(_, p)| waits(p)).map(|(number, _)| *number).collect();
        for number in waiting {
            let State::Waiting { until } = self.programs[&number].state else { continue };
            let after = self.lag().min(until.saturating_sub(self.now));
            self.next_act(number, after);
        }
    }

    /// Somebody who was told to go ahead has held a node since less than `hold_max`.
    pub fn holder(&self, host: usize) -> Option<(u64, Moment)> {
        let life = self.hosts[host].daemon.as_ref()?.life;
        self.programs.iter().find_map(|(number, program)| {
            let process = program.processes.get(&host)?;
            process.link.as_ref().filter(|link| link.life == life)?;
            let since =
                process.holds_since.filter(|since| self.now < *since + self.rules.hold_max)?;
            Some((*number, since))
        })
    }

    /// The links of living programs to the daemon of a node.
    pub fn links_to(&self, host: usize) -> usize {
        let Some(daemon) = &self.hosts[host].daemon else { return 0 };
        let links = self.programs.values().filter_map(|p| p.processes.get(&host)?.link.as_ref());
        links.filter(|link| link.life == daemon.life).count()
    }
}

pub fn target(group: &Group, root: u16, bytes: u64) -> Target {
    Target { group: group.hash(), root, class: SizeClass::of(bytes) }
}
