//! The applications: one after the other on each lane, each checks every byte on every rank itself. What
//! it was that a watchdog waited for is said.

use crate::support::LIMIT;
use arborcast_tests::{Background, Grid, Run, compile_c};
use gridlab::Mpi;
use rand::{Rng, RngExt};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Beyond the seconds that a program is told to run: far above what all faults together take.
const PATIENCE: Duration = Duration::from_secs(180);

/// What programs did.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub programs: u64,
    pub broadcasts: u64,
    /// Of those of which the program asked what carried them.
    pub along_trees: u64,
    /// Programs that ended with an error since a host of theirs was killed.
    pub killed_with_host: u64,
}

/// A place for one program at a time.
#[derive(Default)]
pub struct Lane {
    running: Option<Running>,
    compiled: HashMap<String, PathBuf>,
    pub tally: Tally,
}

struct Running {
    program: Background,
    what: String,
    deadline: Instant,
    said: Vec<String>,
    is_steady: bool,
    /// It has this number of the first nodes of the grid.
    nodes: usize,
    /// One of them was killed: it ends with an error, as natively.
    may_fail: bool,
}

/// On how many nodes the next program runs: on all of them, or on fewer, so that a host can be killed
/// beside it.
fn draw_nodes(grid: &Grid, random: &mut impl Rng) -> usize {
    let all = grid.nodes().len();
    if random.random_bool(0.6) { all } else { random.random_range(2..all) }
}

impl Lane {
    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// A node of the grid dies, with all that runs on it.
    pub fn host_killed(&mut self, node: usize) {
        if let Some(running) = self.running.as_mut().filter(|running| node < running.nodes) {
            running.may_fail = true;
            running.deadline = running.deadline.min(Instant::now() + LIMIT);
            running.said.extend(running.program.lines());
            // An mpirun whose host dies while it starts the program may wait for ever, whatever it starts.
            if running.said.is_empty() {
                running.program.signal(libc::SIGTERM);
            }
        }
    }

    fn start(&mut self, grid: &Grid, run: &Run<'_>, name: &str, arguments: &[String], s: u64) {
        let compiled = self.compiled.entry(format!("{name} {}", run.mpi.name()));
        let application = compiled.or_insert_with(|| compile_c(name, run.mpi));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let what = format!(
            "{name} {} with {}, {} a node, {:?} in all",
            arguments.join(" "),
            run.mpi.name(),
            run.ranks_per_node,
            run.ranks
        );
        let command = grid.application(run, application, &arguments).unwrap();
        let program = Background::start(command, &what).unwrap();
        let deadline = Instant::now() + Duration::from_secs(s) + PATIENCE;
        let is_steady = name == "bcast_steady.c";
        let nodes = run.ranks.map_or(usize::MAX, |ranks| ranks / run.ranks_per_node);
        let (said, may_fail) = (Vec::new(), false);
        self.running = Some(Running { program, what, deadline, said, is_steady, nodes, may_fail });
    }

    /// A program of random communicators, roots, sizes and datatypes. None starts, here and in
    /// [`start_steady`](Self::start_steady), where it would need a host that is `down`; each runs about as long as there
    /// is time `left` at most.
    pub fn start_random(
        &mut self,
        grid: &Grid,
        mpi: Mpi,
        random: &mut impl Rng,
        down: &[usize],
        left: Duration,
    ) {
        let nodes = draw_nodes(grid, random);
        if down.iter().any(|&node| node < nodes) {
            return;
        }
        let (seed, seconds) =
            (random.random::<u32>(), random.random_range(5..15).min(left.as_secs() + 1));
        let has_two_ranks = mpi == Mpi::OpenMpi && random.random_bool(0.25);
        let ranks_per_node = 1 + usize::from(has_two_ranks);
        let arguments = [format!("{seed}"), "--seconds".into(), format!("{seconds}")];
        let ranks = Some(nodes * ranks_per_node);
        let run = Run { mpi, ranks, ranks_per_node, env: environment(), ..Run::default() };
        self.start(grid, &run, "random_program.c", &arguments, seconds);
    }

    /// A program that broadcasts the same again and again from one root.
    pub fn start_steady(
        &mut self,
        grid: &Grid,
        random: &mut impl Rng,
        down: &[usize],
        left: Duration,
    ) {
        let nodes = draw_nodes(grid, random);
        if down.iter().any(|&node| node < nodes) {
            return;
        }
        let root = random.random_range(0..nodes);
        let bytes = 1024u64 << random.random_range(0..10);
        let pause_ms = random.random_range(0..100);
        let seconds = random.random_range(5..20).min(left.as_secs() + 1);
        let arguments = [root as u64, bytes, pause_ms, seconds].map(|number| number.to_string());
        let run = Run { ranks: Some(nodes), env: environment(), ..Run::default() };
        self.start(grid, &run, "bcast_steady.c", &arguments, seconds);
    }

    /// Takes note of a program that has ended.
    ///
    /// # Errors
    /// Where it failed, or did not end in time.
    pub fn look(&mut self) -> Result<(), String> {
        let Some(running) = &mut self.running else { return Ok(()) };
        running.said.extend(running.program.lines());
        let Some(status) = running.program.ended() else {
            let in_time = Instant::now() < running.deadline;
            return if in_time { Ok(()) } else { Err(running.message("waited for its end")) };
        };
        // The readers of its streams may still have something.
        std::thread::sleep(Duration::from_millis(100));
        running.said.extend(running.program.lines());
        if !status.success() && running.may_fail {
            self.tally.killed_with_host += 1;
            self.running = None;
            return Ok(());
        }
        if !status.success() {
            return Err(running.message(&format!("ended with {status}")));
        }
        let (broadcasts, along_trees) = running.count();
        self.tally.programs += 1;
        self.tally.broadcasts += broadcasts;
        self.tally.along_trees += along_trees;
        self.running = None;
        Ok(())
    }
}

impl Running {
    fn message(&self, why: &str) -> String {
        let last = self.said.len().saturating_sub(30);
        format!("{}: {why}; it said\n{}", self.what, self.said[last..].join("\n"))
    }

    /// Its broadcasts, and those that trees carried.
    fn count(&self) -> (u64, u64) {
        let lines = |word| self.said.iter().filter(|line| line.starts_with(word)).count() as u64;
        if self.is_steady {
            return (lines("tree ") + lines("native "), lines("tree "));
        }
        // `1500 steps, 2975 broadcasts, checksum fd04200e9eddb067, 800 asked, 700 along trees`
        let line = self.said.iter().find(|line| line.contains("checksum")).expect("the last line");
        let field = |word| {
            let field = line.split(", ").find(|field| field.ends_with(word)).expect("a field");
            field.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        (field(" broadcasts"), field(" along trees"))
    }
}

/// Open MPI's own segments are not in /dev/shm, which would end its ranks natively too where it is full.
pub fn environment() -> Vec<(&'static str, &'static str)> {
    vec![("OMPI_MCA_btl_vader_backing_directory", "/run")]
}
