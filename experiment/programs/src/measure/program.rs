//! The frame of a measurement program: starts MPI, runs the program on all ranks, lets one rank say
//! what went wrong, and ends MPI before the process exits, so that no rank hangs.

use super::failure::Failure;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::process::ExitCode;

/// What a run gave, where it did not fail.
#[derive(Debug)]
pub enum Outcome {
    Done,
    /// Text that was asked for (help, version), printed by one rank.
    Text(String),
}

/// Runs `main` with the world and the arguments after the program's name. All ranks must come to
/// the same result.
pub fn run(
    name: &str,
    main: fn(&SimpleCommunicator, &[String]) -> Result<Outcome, Failure>,
) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(universe) = mpi::initialize() else {
        eprintln!("{name}: MPI was started already");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
    let speaks = world.rank() == 0;
    match main(&world, &arguments) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Text(text)) => {
            if speaks {
                println!("{}", text.trim_end());
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            if speaks {
                eprintln!("{name}: {failure}");
            }
            // A launcher kills the other ranks when one exits with an error: the line comes first.
            world.barrier();
            ExitCode::from(failure.exit_code())
        }
    }
}
