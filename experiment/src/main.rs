//! See [`arborcast_experiment::job`].

fn main() -> std::process::ExitCode {
    arborcast_experiment::job::main()
}
