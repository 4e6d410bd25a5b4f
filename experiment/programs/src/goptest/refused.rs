//! Options of the original's goptest and mpptest that are not here, each with the reason. A script
//! that uses one must hear of it: figures of something else would be taken for what it asked for.

use crate::measure::failure::Failure;

const REFUSED: [(&[&str], &str); 10] = [
    (&["col"], "the original refuses it too; -colx collects parts of known sizes"),
    (&["gop"], "name the operation alone; -format csv gives a line a size"),
    (
        &["force", "ssend", "persistant", "pending"],
        "sends are blocking, receives are blocking or, with -async, non-blocking",
    ),
    (&["put", "get"], "network_test -t put and -t get measure one-sided transfers"),
    (&["vector", "vectortype", "vstride", "cachesize"], "messages are contiguous and used again"),
    (
        &[
            "halo",
            "npartner",
            "waitany",
            "periodic",
            "touch",
            "bisect",
            "bisectdist",
            "distance",
            "nbrring",
            "nbrdbl",
            "nbrhc",
            "nbrshift",
            "debug",
        ],
        "only the first and the last process exchange messages; network_test measures every pair",
    ),
    (
        &["overlap", "overlapmsgsize", "overlapauto", "diff"],
        "mpi_collective_benchmark measures overlap with computation",
    ),
    (&["memcpy", "int", "double", "longlong"], "copying memory is no message"),
    (
        &["n_stable", "max_run_time"],
        "samples of a size end by -rthresh and -sample_reps; a launcher can limit the time of a run",
    ),
    (
        &["diagnostics", "autodebug", "threadmultiple"],
        "-format json tells samples, repetitions and what was measured again; MPI runs without threads",
    ),
];

/// An error where one of the arguments, with two dashes, is such an option.
pub fn check(arguments: &[String]) -> Result<(), Failure> {
    for name in arguments.iter().filter_map(|argument| argument.strip_prefix("--")) {
        if let Some((_, reason)) = REFUSED.iter().find(|(names, _)| names.contains(&name)) {
            return Err(Failure::BadOption(format!("-{name} is left out: {reason}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_told_with_its_reason() {
        let of = |argument: &str| check(&[argument.to_owned()]);
        let told = of("--bisect").unwrap_err().to_string();
        assert!(told.starts_with("-bisect is left out: only the first and the last"), "{told}");
        assert!(of("--bcast").is_ok() && of("bisect").is_ok());
    }

    #[test]
    fn the_manual_lists_what_is_left_out() {
        let manual = include_str!("../../../../docs/man/goptest.1").replace('\\', "");
        let words: Vec<&str> =
            manual.split(|c: char| c.is_whitespace() || ",;.\"".contains(c)).collect();
        for name in REFUSED.iter().flat_map(|(names, _)| *names) {
            assert!(words.contains(&format!("-{name}").as_str()), "-{name}");
        }
    }
}
