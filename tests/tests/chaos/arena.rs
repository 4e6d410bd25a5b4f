//! The grid on which faults happen: how each of them is brought about, and how it is made good again.

use crate::daemons::{Daemon, STATE};
use crate::leftovers::{command_line, picture, processes};
use crate::programs::environment;
use crate::schedule::{Fault, Kind};
use crate::support;
use arborcast_tests::{Background, Grid, Run, compile_c, program};
use gridlab::{LinkChange, Mpi};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use support::LIMIT;

/// What the victims broadcast, by which they are known from other programs.
const VICTIMS_BYTES: &str = "20011";

/// A node of the grid.
struct Host {
    name: String,
    daemon: Daemon,
    /// Plans are to be given to its daemon.
    wants_plans: bool,
    planting: Option<(Background, Instant)>,
    /// What is there in place of its daemon.
    stand_in: Option<Background>,
}

pub struct Arena {
    pub grid: Grid,
    hosts: Vec<Host>,
    victim: Option<Background>,
    second_job: Option<Background>,
    stopped_rank: Option<u32>,
    /// Programs that only take processor time.
    spinning: Vec<Background>,
    /// What was told to end, with when and what it is.
    ending: Vec<(Background, Instant, &'static str)>,
    pub done: BTreeMap<Kind, u32>,
    planted: u32,
    seed: u64,
    /// The program that is started to be killed.
    steady: PathBuf,
}

impl Arena {
    /// Four nodes, each with a small file system for the state of its daemon.
    pub fn up(seed: u64) -> Self {
        let mut grid = support::four_nodes();
        let clock = support::with_own_clocks(&mut grid);
        let launch = support::launch_with(&grid, vec![clock]);
        let host = |(index, name): (usize, String)| {
            let launching = ["--experiment-launch".to_owned(), launch.clone()];
            let flags = if index == 0 { &launching[..] } else { &[] };
            let daemon = Daemon::new(&name, flags);
            Host { name, daemon, wants_plans: true, planting: None, stand_in: None }
        };
        let hosts: Vec<Host> = grid.nodes().into_iter().enumerate().map(host).collect();
        let arena = Arena {
            grid,
            hosts,
            victim: None,
            second_job: None,
            stopped_rank: None,
            spinning: Vec::new(),
            ending: Vec::new(),
            done: BTreeMap::new(),
            planted: 0,
            seed,
            steady: compile_c("bcast_steady.c", Mpi::OpenMpi),
        };
        for index in 0..arena.hosts.len() {
            arena.shell(index, &format!("mkdir -p {STATE}"));
            arena.shell(index, &format!("mount -t tmpfs -o size=32m tmpfs {STATE}"));
            arena.shell(index, "mount -o remount,size=32m /dev/shm");
        }
        arena
    }

    fn shell(&self, node: usize, line: &str) {
        support::shell(&self.grid, &self.hosts[node].name, line);
    }

    fn daemon(&mut self, node: usize) -> &mut Daemon {
        &mut self.hosts[node].daemon
    }

    /// What daemons logged last.
    pub fn said(&mut self) -> String {
        self.hosts.iter_mut().map(|host| host.daemon.said()).collect()
    }

    pub fn daemon_pids(&self) -> Vec<u32> {
        self.hosts.iter().map(|host| host.daemon.pid().expect("it runs")).collect()
    }

    /// How often daemons were started, and how often the system refused them what they need.
    pub fn daemon_starts(&self) -> (u32, u32) {
        let daemons = || self.hosts.iter().map(|host| &host.daemon);
        (daemons().map(|d| d.started).sum(), daemons().map(|d| d.refused).sum())
    }

    /// Keeps daemons running and plans planted.
    pub fn tend(&mut self) {
        let sizes =
            (0..11).map(|power| (1024u64 << power).to_string()).collect::<Vec<_>>().join(",");
        let groups = support::all_groups(&self.grid.nodes());
        for host in &mut self.hosts {
            host.daemon.keep(&mut self.grid);
            if let Some((planting, _)) = &mut host.planting {
                let Some(status) = planting.ended() else { continue };
                // A fault may have come between.
                host.wants_plans = !status.success();
                host.daemon.may_fail &= !status.success();
                self.planted += u32::from(status.success());
            }
            let last = host.planting.as_ref().map(|(_, at)| *at);
            let is_time = last.is_none_or(|at| at.elapsed() > Duration::from_millis(300));
            if host.wants_plans && host.daemon.pid().is_some() && is_time {
                let plant = program("plant-plans", Mpi::OpenMpi);
                let mut command = self.grid.lab().exec(&host.name, plant).unwrap();
                self.seed += 1;
                command.arg(self.seed.to_string()).arg(&sizes).args(&groups);
                let planting = Background::start(command, "plant-plans").unwrap();
                host.planting = Some((planting, Instant::now()));
            } else if !host.wants_plans {
                host.planting = None;
            }
        }
        let grid = &self.grid;
        self.ending.retain_mut(|(program, since, what)| {
            if since.elapsed() > LIMIT {
                let (said, left) = (program.lines().join("\n"), picture(grid));
                panic!("waited for the end of {what}, which said:\n{said}\n{left}");
            }
            program.ended().is_none()
        });
    }

    /// Whether every daemon has plans and nothing is on its way to its end.
    pub fn is_settled(&self) -> bool {
        self.ending.is_empty() && self.hosts.iter().all(|host| !host.wants_plans)
    }

    /// The processes of the experiment's mpirun.
    fn launchers(&self) -> Vec<u32> {
        let launcher = Mpi::OpenMpi.launcher().unwrap().canonicalize().unwrap();
        let is_launcher = |pid: &u32| {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            exe.is_ok_and(|exe| exe == launcher)
                && command_line(*pid).contains("arborcast-experiment")
        };
        processes(&self.grid).into_iter().filter(is_launcher).collect()
    }

    pub fn begin(&mut self, fault: &Fault) {
        let Fault { kind, node, number, .. } = *fault;
        let happened = match kind {
            Kind::DaemonKilled => {
                let runs = self.daemon(node).pid().is_some();
                self.daemon(node).kill();
                runs
            }
            Kind::DaemonEnded => {
                let runs = self.daemon(node).pid().is_some();
                self.daemon(node).end();
                runs
            }
            Kind::DaemonStopped => {
                self.daemon(node).signal(libc::SIGSTOP);
                self.daemon(node).pid().is_some()
            }
            Kind::WisdomDamaged => self.wisdom_damaged(node, number),
            Kind::StateFull => {
                self.shell(node, &format!("head -c 1G /dev/zero > {STATE}/filler || true"));
                self.hosts[node].wants_plans = true;
                true
            }
            Kind::StateReadOnly => {
                self.daemon(node).kill();
                // While the kernel still ends the daemon, the file system is busy.
                let remount = format!("mount -o remount,ro {STATE} && exit");
                let line = format!("for i in $(seq 100); do {remount}; sleep 0.05; done; exit 1");
                self.shell(node, &line);
                self.daemon(node).is_off = false;
                true
            }
            Kind::SharedMemoryFull => self.shared_memory_full(node, number),
            Kind::RankKilled => {
                let rank = pick(&support::experiment_ranks(&self.grid), number);
                rank.is_some_and(|rank| send(rank, libc::SIGKILL))
            }
            Kind::RankStopped => {
                self.stopped_rank = pick(&support::experiment_ranks(&self.grid), number);
                self.stopped_rank.is_some_and(|rank| send(rank, libc::SIGSTOP))
            }
            Kind::JobKilled => {
                let launcher = pick(&self.launchers(), number);
                launcher.is_some_and(|launcher| send(launcher, libc::SIGKILL))
            }
            Kind::SecondJob => {
                self.second_job = Some(self.grid.experiment(&[]).unwrap());
                true
            }
            Kind::ApplicationKilled => {
                let victim = self.steady.clone();
                let root = (number % self.hosts.len() as u64).to_string();
                let arguments = [root.as_str(), VICTIMS_BYTES, "5", "1000"];
                let run = Run { env: environment(), ..Run::default() };
                let command = self.grid.application(&run, &victim, &arguments).unwrap();
                self.victim = Some(Background::start(command, "the victim").unwrap());
                true
            }
            Kind::LinkSlow => self.link(LinkChange {
                latency: Some(Duration::from_millis(1 + number % 20)),
                rate_bytes_per_s: Some(5e6 + (number % 10_000_000) as f64),
                loss: None,
            }),
            Kind::LinkLossy => {
                let loss = Some(0.001 * (1 + number % 20) as f64);
                self.link(LinkChange { loss, ..LinkChange::default() })
            }
            Kind::LinkCut => self.link(LinkChange { loss: Some(1.0), ..LinkChange::default() }),
            Kind::ClockJump => {
                let hours = 1 + (number >> 8) as i64 % 1000;
                let sign = if number.is_multiple_of(2) { 1 } else { -1 };
                support::set_clock(&self.grid, &self.hosts[node].name, sign * 3600 * hours);
                true
            }
            Kind::HostKilled => {
                self.daemon(node).kill();
                let is_starting = support::experiment_ranks(&self.grid).is_empty();
                support::kill_host(&self.grid, &self.hosts[node].name);
                // It may wait for ever for a host that died while it started the job.
                if is_starting {
                    for launcher in self.launchers() {
                        send(launcher, libc::SIGKILL);
                    }
                }
                true
            }
            Kind::OtherVersion => self.other_version(node, number),
            Kind::NamesRemoved => self.names_removed(node, number),
            Kind::ProcessorsTaken => self.processors_taken(node),
        };
        if happened {
            *self.done.entry(kind).or_default() += 1;
        }
    }

    pub fn end(&mut self, fault: &Fault) {
        let Fault { kind, node, number, .. } = *fault;
        match kind {
            Kind::DaemonKilled | Kind::DaemonEnded => {
                self.daemon(node).is_off = false;
                self.hosts[node].wants_plans = true;
            }
            Kind::DaemonStopped => self.daemon(node).signal(libc::SIGCONT),
            Kind::WisdomDamaged => self.hosts[node].wants_plans = true,
            Kind::StateFull => self.shell(node, &format!("rm -f {STATE}/filler")),
            Kind::StateReadOnly => {
                self.shell(node, &format!("mount -o remount,rw {STATE}"));
                self.hosts[node].wants_plans = true;
            }
            Kind::SharedMemoryFull => {
                self.shell(node, "rm -f /dev/shm/filler");
                self.hosts[node].wants_plans = true;
            }
            Kind::RankStopped => {
                // It may have been killed meanwhile, with the rest of its job.
                let ranks = support::experiment_ranks(&self.grid);
                if let Some(rank) = self.stopped_rank.take().filter(|rank| ranks.contains(rank)) {
                    send(rank, libc::SIGCONT);
                }
            }
            Kind::RankKilled | Kind::JobKilled => {}
            Kind::SecondJob => {
                let job = self.second_job.take().expect("begun");
                job.signal(libc::SIGTERM);
                self.ending.push((job, Instant::now(), "the second experiment"));
            }
            Kind::ApplicationKilled => self.kill_victim(number),
            Kind::LinkSlow | Kind::LinkLossy | Kind::LinkCut => {
                let link = &self.grid.lab().topology().links[0];
                let (latency, rate) = (Some(link.latency), Some(link.rate_bytes_per_s));
                self.link(LinkChange { latency, rate_bytes_per_s: rate, loss: Some(0.0) });
            }
            Kind::ClockJump => support::set_clock(&self.grid, &self.hosts[node].name, 0),
            Kind::HostKilled => {
                support::start_host(&self.grid, &self.hosts[node].name);
                self.daemon(node).is_off = false;
                self.hosts[node].wants_plans = true;
            }
            Kind::OtherVersion => {
                let mut stand_in = self.hosts[node].stand_in.take().expect("begun");
                assert!(stand_in.ended().is_none(), "{:?}", stand_in.lines());
                stand_in.signal(libc::SIGKILL);
                stand_in.wait(LIMIT);
                self.daemon(node).is_off = false;
                self.hosts[node].wants_plans = true;
            }
            Kind::NamesRemoved => self.hosts[node].wants_plans = true,
            Kind::ProcessorsTaken => self.spinning.clear(),
        }
    }

    fn wisdom_damaged(&mut self, node: usize, number: u64) -> bool {
        self.daemon(node).kill();
        let wisdom = format!("{STATE}/arborcast.wisdom");
        let damage = match number % 3 {
            0 => format!("truncate -s $((number % size)) {wisdom}"),
            1 => {
                format!("echo {number} | dd of={wisdom} bs=1 seek=$((number % size)) conv=notrunc")
            }
            _ => format!("echo {number} > {wisdom}"),
        };
        let line = format!(
            "[ -s {wisdom} ] || exit 0; size=$(stat -c %s {wisdom}); number={}; {damage}",
            number >> 8
        );
        self.shell(node, &line);
        self.daemon(node).is_off = false;
        true
    }

    /// A daemon that runs already needs nothing more of it; one that is started waits until there is room.
    fn shared_memory_full(&mut self, node: usize, number: u64) -> bool {
        // What was planted before the daemon found no room says nothing of whether it does.
        self.hosts[node].planting = None;
        let full = "head -c 1G /dev/zero > /dev/shm/filler || true";
        if number.is_multiple_of(2) {
            self.shell(node, full);
            self.hosts[node].wants_plans = true;
        } else {
            self.daemon(node).kill();
            // What its successor would make room with.
            self.shell(node, &format!("rm -f /dev/shm/arborcast-board-*; {full}"));
            self.daemon(node).may_fail = true;
            self.daemon(node).is_off = false;
        }
        true
    }

    fn other_version(&mut self, node: usize, number: u64) -> bool {
        self.daemon(node).kill();
        let what = ["frames", "layout"][number as usize % 2];
        let host = &mut self.hosts[node];
        let stand_in = program("other-version", Mpi::OpenMpi);
        let mut command = self.grid.lab().exec(&host.name, stand_in).unwrap();
        command.arg(what);
        host.stand_in = Some(Background::start(command, what).unwrap());
        true
    }

    fn names_removed(&mut self, node: usize, number: u64) -> bool {
        let socket = "/run/arborcast/arborcastd.sock";
        let board = "/dev/shm/arborcast-board-*";
        let names = [
            socket.to_owned(),
            format!("{socket}.lock"),
            board.to_owned(),
            format!("{socket}* {board}"),
        ];
        self.shell(node, &format!("rm -f {}", names[number as usize % names.len()]));
        self.hosts[node].daemon.pid().is_some()
    }

    fn processors_taken(&mut self, node: usize) -> bool {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = || {
            let mut command = self.grid.lab().exec(&self.hosts[node].name, "sh").unwrap();
            command.args(["-c", "while :; do :; done"]);
            Background::start(command, "a busy loop").unwrap()
        };
        self.spinning = (0..processors).map(|_| spin()).collect();
        true
    }

    fn kill_victim(&mut self, number: u64) {
        let victim = self.victim.take().expect("begun");
        let steady = self.steady.clone();
        let mut ranks = support::processes(&self.grid, &steady);
        ranks.retain(|&rank| command_line(rank).contains(VICTIMS_BYTES));
        if number & 1 << 40 != 0 {
            ranks.truncate(1);
        }
        if ranks.is_empty() {
            victim.signal(libc::SIGTERM);
        }
        for rank in ranks {
            send(rank, libc::SIGKILL);
        }
        self.ending.push((victim, Instant::now(), "a killed application"));
    }

    fn link(&self, change: LinkChange) -> bool {
        self.grid.lab().link("a", "b", true, change).unwrap();
        true
    }

    /// Ends all daemons as an operator does.
    pub fn end_daemons(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.daemon.end());
        while !self.hosts.iter().all(|host| host.daemon.has_ended()) {
            self.hosts.iter_mut().for_each(|host| host.daemon.keep(&mut self.grid));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn pick(from: &[u32], number: u64) -> Option<u32> {
    let index = number.checked_rem(from.len() as u64)?;
    from.get(index as usize).copied()
}

/// Whether there was such a process.
fn send(pid: u32, signal: i32) -> bool {
    // SAFETY: kill(2) touches no memory.
    unsafe { libc::kill(pid as i32, signal) == 0 }
}
