//! PARUS network_test; see `docs/man/network_test.1`.

use arborcast_programs::{measure::program, network_test};
use std::process::ExitCode;

fn main() -> ExitCode {
    program::run("network_test", network_test::run)
}
