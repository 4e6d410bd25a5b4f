//! mpi_collective_benchmark; see `docs/man/mpi_collective_benchmark.1`.

use arborcast_programs::{collective_benchmark, measure::program};
use std::process::ExitCode;

fn main() -> ExitCode {
    program::run("mpi_collective_benchmark", collective_benchmark::run)
}
