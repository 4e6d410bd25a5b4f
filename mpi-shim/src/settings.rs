//! What the environment says about this library, read once.

use std::io::Write;
use std::sync::OnceLock;

/// All broadcasts are native when set to anything but `0`: this rank says so to the others.
pub const DISABLE_VARIABLE: &str = "ARBORCAST_DISABLE";
/// Says on stderr what is decided when set to anything but `0`.
pub const VERBOSE_VARIABLE: &str = "ARBORCAST_VERBOSE";

/// With which MPIs are told to let a job go on that has lost ranks (User-Level Failure Mitigation). Its broadcasts are
/// native: errors are to come as the MPI gives them, and MPICH 4 fails in `MPI_Testsome` with that.
const OUTLIVES_RANKS: [&str; 5] = [
    "OMPI_MCA_mpi_ft_enable",
    "MPIR_CVAR_ENABLE_FT",
    "MPIR_PARAM_ENABLE_FT",
    "MPICH_ENABLE_FT",
    "I_MPI_FAULT_CONTINUE",
];

pub struct Settings {
    pub disabled: bool,
    pub verbose: bool,
    /// The job may go on where it has lost ranks.
    pub outlives_ranks: bool,
}

pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let is_set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        let is_false = |name| std::env::var_os(name).is_some_and(|v| v == "false" || v == "no");
        Settings {
            disabled: is_set(DISABLE_VARIABLE),
            verbose: is_set(VERBOSE_VARIABLE),
            outlives_ranks: OUTLIVES_RANKS.into_iter().any(|name| is_set(name) && !is_false(name)),
        }
    })
}

/// One line on stderr, where the user asked to be told.
pub fn say(line: impl FnOnce() -> String) {
    if settings().verbose {
        tell(&line());
    }
}

/// One line on stderr, written at once: the lines of several ranks come together there.
pub fn tell(line: &str) {
    // Where stderr is closed, nobody listens.
    let _ = std::io::stderr().write_all(format!("arborcast: {line}\n").as_bytes());
}
