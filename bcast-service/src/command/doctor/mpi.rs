//! Which MPI is on this node's PATH, and whether Arborcast knows it.

use super::Finding;
use std::io::{ErrorKind, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const CHECK: &str = "MPI";
const LAUNCHER: &str = "mpirun";
/// Launchers say their version at once, unless their folder hangs.
const LIMIT: Duration = Duration::from_secs(10);

/// What a launcher says of itself, what that is called, and the oldest major version whose library has
/// the ABI that Arborcast knows.
const KNOWN: [(&str, &str, u32); 3] = [
    ("(Open MPI) ", "Open MPI", 4),
    ("Intel(R) MPI Library for Linux* OS, Version ", "Intel MPI", 5),
    ("Version:", "MPICH", 3),
];

pub fn examine() -> Finding {
    match say_version() {
        Ok(text) => judge(&text),
        Err(error) => Finding::advice(
            CHECK,
            format!("{LAUNCHER} cannot be asked which MPI it is: {error}"),
            "where programs bring their MPI with a module, load that and ask again",
        ),
    }
}

fn judge(text: &str) -> Finding {
    for (words, name, oldest) in KNOWN {
        let Some((_, rest)) = text.split_once(words) else { continue };
        let version = rest.split_whitespace().next().unwrap_or("?");
        let major: u32 =
            version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        let found = format!("{LAUNCHER} is {name} {version}");
        return match major >= oldest {
            true => Finding::ok(CHECK, format!("{found}, which is supported")),
            false => Finding::fault(
                CHECK,
                format!("{found}, whose library has another ABI: its programs broadcast natively"),
                format!("use {name} {oldest} or newer"),
            ),
        };
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing").trim();
    Finding::advice(
        CHECK,
        format!("{LAUNCHER} is of an MPI that is not known; it says: {first}"),
        "Open MPI, MPICH with its relatives, and the standard ABI of MPI 5.0 are supported; \
         ARBORCAST_VERBOSE=1 tells of a program whether it is one of them",
    )
}

fn say_version() -> std::io::Result<String> {
    let mut child = Command::new(LAUNCHER)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // A pipe holds more than any version is long.
    let mut text = String::new();
    child.stdout.take().map_or(Ok(0), |mut output| output.read_to_string(&mut text))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::Level;

    #[test]
    fn launchers_are_known_by_what_they_say() {
        for (text, level, words) in [
            ("mpirun (Open MPI) 4.1.4\n\nReport bugs to…", Level::Ok, "Open MPI 4.1.4"),
            ("mpirun (Open MPI) 1.10.7\n", Level::Fault, "Open MPI 1.10.7"),
            ("HYDRA build details:\n    Version:        4.0.2\n", Level::Ok, "MPICH 4.0.2"),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.19 Build 2026\n",
                Level::Ok,
                "Intel MPI 2021.19",
            ),
            ("\nPlatform MPI 9.1\n", Level::Advice, "Platform MPI 9.1"),
            ("", Level::Advice, "nothing"),
        ] {
            let finding = judge(text);
            assert_eq!(finding.level, level, "{finding:?}");
            assert!(finding.meaning.contains(words), "{finding:?}");
        }
    }
}
