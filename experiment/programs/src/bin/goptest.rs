//! goptest; see `docs/man/goptest.1`.

use arborcast_programs::{goptest, measure::program};
use std::process::ExitCode;

fn main() -> ExitCode {
    program::run("goptest", goptest::run)
}
