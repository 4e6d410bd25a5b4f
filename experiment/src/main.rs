//! See [`arborcast_experiment`].

fn main() -> std::process::ExitCode {
    arborcast_experiment::main()
}
