//! goptest on this host, without a lab: every operation and option comes to an end and says what it
//! measured, gnuplot reads what is written for it, and what is left out is refused.

mod measurement;

use measurement::{alone, ended, finished, json_of, mpirun};
use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

fn goptest(processes: usize, folder: &Path, arguments: &str) -> Output {
    let mut command = mpirun(processes, "goptest");
    command.args(arguments.split_whitespace()).current_dir(folder);
    finished(command, &format!("goptest {arguments}"))
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Lines of CSV, by the names of their columns.
fn rows(csv: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = csv.lines().map(|line| line.split(','));
    let names: Vec<&str> = lines.next().unwrap().collect();
    lines.map(|fields| names.iter().copied().zip(fields).collect()).collect()
}

/// Few repetitions, each size once.
const BRIEF: &str = "-reps 3 -sample_reps 2 -smooth 0";

#[test]
fn every_operation_measures_every_size() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (line, operation, processes) in [
        ("-roundtrip", "roundtrip", 3),
        ("-roundtrip -async -specified", "roundtrip", 3),
        ("-head", "head", 3),
        ("-head -sync -anysource", "head", 3),
        ("-head -async -specified", "head", 3),
        ("-scatter", "bcast", 3),
        ("-bcast -root 2", "bcast", 3),
        ("-bcastalt -wholeround", "bcastalt", 3),
        ("-bcastleaf -bcastwith flat", "bcastleaf", 3),
        ("-colx", "colx", 3),
        ("-colxex", "colx", 3),
        ("-mpiscatter", "mpiscatter", 3),
        ("", "sync", 3),
        ("-sync", "sync", 3),
        ("-isum", "isum", 3),
        ("-dsum -pset 1-2", "dsum", 2),
    ] {
        let arguments = format!("{line} {BRIEF} -sizelist 16,100000 -format csv");
        let csv = text(&goptest(3, folder.path(), &arguments));
        let rows = rows(&csv);
        let sizes: Vec<&str> = rows.iter().map(|row| row["size"]).collect();
        assert_eq!(sizes, ["16", "100000"], "{line}");
        for row in rows {
            assert_eq!(row["operation"], operation, "{line}");
            assert_eq!(row["processes"], processes.to_string(), "{line}");
            let seconds: f64 = row["seconds"].parse().unwrap();
            assert!(
                seconds >= 0.0 && (seconds > 0.0 || operation == "bcastalt"),
                "{line}: {row:?}"
            );
        }
    }
}

/// Longer than what an MPI buffers: with blocking calls both would wait for ever.
#[test]
fn head_to_head_says_from_which_size_on_it_is_non_blocking() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let output = goptest(2, folder.path(), &format!("-head {BRIEF} -sizelist 1024,8000000"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("above 1024 bytes"));
    let results = text(&output);
    let places = ["\n0\t1\t1\t1024\t", "\n# above 1024 bytes as with -async\n0\t1\t1\t8000000\t"]
        .map(|what| results.find(what).unwrap_or_else(|| panic!("no {what:?} in {results}")));
    assert!(places[0] < places[1], "{results}");
}

/// mpptest's columns: half of the round, and the bytes of both directions a second.
#[test]
fn partners_are_scaled_as_the_originals() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for line in ["-roundtrip", "-head"] {
        let arguments = format!("{line} {BRIEF} -sizelist 1000 -noinfo -givedy");
        let results = text(&goptest(2, folder.path(), &arguments));
        let columns: Vec<f64> =
            results.split_whitespace().map(|column| column.parse().unwrap()).collect();
        let [0.0, 1.0, 1.0, 1000.0, mean, rate, least, greatest] = columns[..] else {
            panic!("{line}: {results}")
        };
        assert!(least <= mean && mean <= greatest, "{results}");
        let bytes_of_a_way = rate * least * 1e-6;
        assert!((bytes_of_a_way - 1000.0).abs() < 1.0, "{line}: {results}");
    }
}

#[test]
fn automatic_sizes_lie_between_their_ends() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("-roundtrip {BRIEF} -auto -size 0 320 1 -autodx 2 -format csv");
    let csv = text(&goptest(2, folder.path(), &arguments));
    let sizes: Vec<usize> = rows(&csv).iter().map(|row| row["size"].parse().unwrap()).collect();
    assert!(sizes.len() >= 33 && sizes.is_sorted() && sizes.ends_with(&[320]), "{sizes:?}");
    assert!(sizes.windows(2).all(|two| two[1] - two[0] >= 2), "{sizes:?}");
}

/// An empty broadcast takes no longer than what is taken off for its acknowledgement.
#[test]
fn an_acker_never_comes_out_negative() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        "-bcastalt -wholeround -root 1 -sizelist 0,1 -smooth 0 -format json -fname ack.json";
    goptest(3, folder.path(), arguments);
    let document = json_of(&folder.path().join("ack.json"));
    let run = &document["runs"][0];
    let subtracted: Vec<f64> = serde_json::from_value(run["subtracted_seconds"].clone()).unwrap();
    assert!(matches!(subtracted[..], [a, 0.0, c] if a > 1e-8 && c > 1e-8), "{subtracted:?}");
    for entry in run["entries"].as_array().unwrap() {
        let times = entry["per_process_seconds"].as_array().unwrap();
        assert!(times.iter().all(|time| time.as_f64().unwrap() >= 0.0), "{entry}");
    }
}

/// What gnuplot writes to its standard output for a file of commands. `None` where it is not installed.
fn gnuplot(folder: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    if Command::new("gnuplot").arg("--version").output().is_err() {
        eprintln!("not tested: there is no gnuplot here");
        return None;
    }
    let mut command = Command::new("gnuplot");
    command.args(arguments).current_dir(folder);
    let output = finished(command, "gnuplot");
    let told = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(!told.contains("skipping") && !told.contains("no valid points"), "{told}");
    Some(output.stdout)
}

/// The points that gnuplot would draw, in all curves together.
fn points(folder: &Path, commands: &str) -> Option<usize> {
    gnuplot(folder, &["-e", "set table 'points'", commands])?;
    let table = std::fs::read_to_string(folder.join("points")).unwrap();
    Some(table.lines().filter(|line| line.trim_end().ends_with(" i")).count())
}

#[test]
fn gnuplot_draws_collective_operations_over_processes() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let line = format!("-dsum {BRIEF} -sizelist 1,10,100 -gnuploteps -fname sums.mpl");
    goptest(2, folder.path(), &format!("{line} -notail"));
    goptest(3, folder.path(), &format!("{line} -nohead -title it's"));
    let of = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(of("sums.mpl").starts_with("set terminal postscript eps\n"), "{}", of("sums.mpl"));
    assert!(of("sums.gpl").contains("\n#np time (us) for various sizes\n2 "), "{}", of("sums.gpl"));
    let Some(drawing) = gnuplot(folder.path(), &["sums.mpl"]) else { return };
    assert!(drawing.starts_with(b"%!PS-Adobe"), "{}", String::from_utf8_lossy(&drawing));
    assert_eq!(points(folder.path(), "sums.mpl"), Some(2 * 3));
}

#[test]
fn gnuplot_draws_partners_over_sizes() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (line, drawing_begins) in [
        ("-gnuplot -givedy -fname run.1", b"".as_slice()),
        ("-gnuplot -logscale -fname run.log", b""),
        ("-gnuplotps -rate -fname run.ps", b"%!PS-Adobe"),
        ("-gnuplotgif -fname run.gif -title it's", b"GIF8"),
    ] {
        goptest(2, folder.path(), &format!("-head {BRIEF} -size 4 2048 128 {line}"));
        let commands = line.split("-fname ").last().unwrap().split(' ').next().unwrap();
        let Some(drawing) = gnuplot(folder.path(), &[commands]) else { return };
        assert!(drawing.starts_with(drawing_begins), "{line}");
        let sizes = if line.contains("-logscale") { 10 } else { 16 };
        assert_eq!(points(folder.path(), commands), Some(sizes), "{line}");
        std::fs::remove_file(folder.path().join("run.gpl")).unwrap();
    }
    // Without a file, commands go to standard output.
    let printed = text(&goptest(2, folder.path(), "-roundtrip -sizelist 1,2 -gnuplot"));
    assert!(printed.contains("plot 'mppout.gpl' using 4:5"), "{printed}");
    let results = std::fs::read_to_string(folder.path().join("mppout.gpl")).unwrap();
    assert_eq!(results.lines().filter(|line| line.starts_with("0\t1\t1\t")).count(), 2);
}

/// A line of CSV as Python reads it, one field a line.
#[test]
fn a_foreign_reader_opens_the_csv() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let line = format!("-isum {BRIEF} -sizelist 1,2 -format csv -fname sums.csv -title a,\"b\"");
    goptest(2, folder.path(), &line);
    goptest(3, folder.path(), &line);
    let script = "import csv
for row in csv.DictReader(open('sums.csv', newline=''), strict=True):
    print(row['title'], row['processes'], row['size'], row['bytes'], len(row), None in row)";
    let mut command = Command::new("python3");
    command.args(["-c", script]).current_dir(folder.path());
    let rows = ["2 1 4", "2 2 8", "3 1 4", "3 2 8"].map(|row| format!("a,\"b\" {row} 13 False\n"));
    assert_eq!(text(&finished(command, "python3")), rows.concat());
}

#[test]
fn results_of_two_runs_stand_one_behind_the_other() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let line = format!("-bcast {BRIEF} -sizelist 8 -fit -fname runs");
    goptest(2, folder.path(), &format!("{line} -notail"));
    goptest(3, folder.path(), &format!("{line} -noinfo"));
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert!(runs.starts_with("set default\n"), "{runs}");
    let (_, results) = runs.split_once("\n#np time (us) for various sizes\n").unwrap();
    let processes: Vec<&str> = results
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(processes, ["2", "3"], "{runs}");
}

#[test]
#[ignore = "long: make test-lab"]
fn what_is_left_out_is_refused_with_the_reason() {
    let _alone = alone();
    for (line, reason) in [
        ("-halo", "-halo is left out: only the first and the last process"),
        ("-roundtrip -ssend", "-ssend is left out: sends are blocking"),
        ("-bcast -auto", "-auto: only with -roundtrip and -head"),
        ("-dsum -givedy", "-givedy and -rate: only with"),
        ("-dsum -pset 1-9", "-pset: there is no process 9"),
    ] {
        let mut command = mpirun(2, "goptest");
        command.args(line.split_whitespace());
        let output = ended(command, line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(reason), "{line}: {told}");
    }
}
