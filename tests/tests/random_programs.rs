//! Programs drawn at random, natively and along random trees: every payload is checked against the seed,
//! and the checksums of both are the same. `ARBORCAST_SOAK_SECONDS` and `ARBORCAST_SOAK_SEED` make an
//! hour of it.

mod support;

use arborcast_tests::{Grid, Run, compile_c};
use gridlab::Mpi;
use std::time::{Duration, Instant};
use support::{LIMIT, planted_for_every_group};

/// One program: its arguments, and the ranks that run it.
#[derive(Clone, Copy)]
struct Program<'a> {
    mpi: Mpi,
    ranks_per_node: usize,
    threads: &'a str,
    steps: &'a str,
    limit: Duration,
}

/// `1500 steps, 2975 broadcasts, checksum fd04200e9eddb067` and the number along trees.
fn end(said: &[String]) -> (String, u64) {
    let line = said.iter().find(|line| line.contains("checksum")).expect("the last line");
    println!("  {line}");
    let (result, asked) = line.split_at(line.match_indices(", ").nth(2).unwrap().0);
    let along = asked.split(' ').filter_map(|word| word.parse().ok()).nth(1).unwrap();
    (result.to_owned(), along)
}

/// Runs a program both ways; returns how many broadcasts trees carried of those that were asked.
fn beside_native(grid: &Grid, program: Program<'_>, seed: u64) -> u64 {
    let Program { mpi, ranks_per_node, threads, steps, limit } = program;
    println!("{}, {ranks_per_node} a node, {threads} threads, seed {seed}", mpi.name());
    let application = compile_c("random_program.c", mpi);
    let seed = seed.to_string();
    let run = |managed| {
        let run = Run { mpi, ranks_per_node, managed, ..Run::default() };
        let arguments = [&*seed, "--steps", steps, "--threads", threads];
        end(&grid.run(&run, &application, &arguments, limit).unwrap())
    };
    let ((native, nobody), (managed, along)) = (run(false), run(true));
    assert_eq!(managed, native);
    assert_eq!(nobody, 0, "no library, nobody to ask");
    along
}

fn assert_as_natively(program: Program<'_>, seed: u64) {
    let grid = planted_for_every_group(seed);
    assert!(beside_native(&grid, program, seed) > 0, "no broadcast went along trees");
}

const SHORT: Program<'_> =
    Program { mpi: Mpi::OpenMpi, ranks_per_node: 1, threads: "1", steps: "2000", limit: LIMIT };

#[test]
fn a_random_program_is_as_natively_with_open_mpi() {
    assert_as_natively(SHORT, 11);
}

#[test]
#[ignore = "long: make test-lab"]
fn a_random_program_is_as_natively_with_mpich() {
    assert_as_natively(Program { mpi: Mpi::Mpich, steps: "800", ..SHORT }, 12);
}

#[test]
#[ignore = "long: make test-lab"]
fn a_random_program_is_as_natively_with_two_ranks_a_node() {
    assert_as_natively(Program { ranks_per_node: 2, steps: "800", ..SHORT }, 13);
}

#[test]
#[ignore = "long: make test-lab"]
fn a_random_program_of_three_threads_is_as_natively_with_open_mpi() {
    assert_as_natively(Program { threads: "3", steps: "300", ..SHORT }, 14);
}

#[test]
fn a_random_program_of_three_threads_is_as_natively_with_mpich() {
    assert_as_natively(Program { mpi: Mpi::Mpich, threads: "3", steps: "150", ..SHORT }, 15);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// As long as `ARBORCAST_SOAK_SECONDS` says, an hour without it, from the seed `ARBORCAST_SOAK_SEED` or
/// one of the clock; every program has a seed of its own and every grid other plans.
#[test]
#[ignore = "an hour: ARBORCAST_SOAK_SECONDS says how long"]
fn random_programs_are_as_natively_for_an_hour() {
    let limit = Duration::from_secs(number("ARBORCAST_SOAK_SECONDS").unwrap_or(3600));
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let first = number("ARBORCAST_SOAK_SEED").unwrap_or(clock);
    let of_system = [
        SHORT,
        Program { mpi: Mpi::Mpich, steps: "800", ..SHORT },
        Program { threads: "3", steps: "300", ..SHORT },
        Program { ranks_per_node: 2, steps: "800", ..SHORT },
        Program { ranks_per_node: 3, steps: "400", ..SHORT },
        Program { mpi: Mpi::Mpich, threads: "3", steps: "150", ..SHORT },
    ];
    // Those that `make mpi-wheels` has put there.
    let of_wheels = [Mpi::OpenMpi5, Mpi::Mpich5, Mpi::Intel];
    let programs = of_wheels.into_iter().filter(|mpi| mpi.launcher().is_ok()).flat_map(|mpi| {
        [("1", "800"), ("3", "150")].map(|(threads, steps)| Program {
            mpi,
            threads,
            steps,
            ..SHORT
        })
    });
    let programs: Vec<Program<'_>> = of_system.into_iter().chain(programs).collect();
    let (started, mut along, mut runs) = (Instant::now(), 0, 0);
    println!("first seed {first}");
    for seed in (first..).step_by(100) {
        let grid = planted_for_every_group(seed);
        for (number, program) in (0..).zip(&programs) {
            // An hour on a machine that has other work too: only what hangs for good is an end.
            let program = Program { limit: 10 * LIMIT, ..*program };
            if started.elapsed() < limit {
                along += beside_native(&grid, program, seed + number);
                runs += 1;
            }
        }
        if started.elapsed() >= limit {
            break;
        }
    }
    println!("{runs} programs from seed {first}: {along} asked broadcasts went along trees");
    assert!(along > 0, "no broadcast went along trees");
}
