//! Files of the measurement programs as Python's netCDF4 and csv modules read them, written by the test
//! types and methods that only a run of several processes shows. These run on this host, without a lab.

mod measurement;

use measurement::{alone, finished, json_of, mpirun};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROCESSES: usize = 4;

/// What the readers find in files, in their order.
fn read_by_python(paths: &[PathBuf]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/read_results.py");
    // The distribution's netCDF4 belongs to the distribution's Python.
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).args(paths);
    let output = finished(command, "reading with Python (make deps brings python3-netcdf4)");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Rows of a matrix.
fn rows(matrix: &Value) -> Vec<Vec<f64>> {
    matrix.as_array().unwrap().iter().map(numbers).collect()
}

fn transposed(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (0..matrix.len()).map(|row| matrix.iter().map(|cells| cells[row]).collect()).collect()
}

/// serde_json may read a number's last binary digit otherwise.
fn same(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-12 * wanted.abs()
}

fn assert_same(found: &[Vec<f64>], wanted: &[Vec<f64>], what: &str) {
    let all = || found.concat().into_iter().zip(wanted.concat());
    let equal = found.len() == wanted.len() && all().all(|(found, wanted)| same(found, wanted));
    assert!(equal, "{what}: {found:?}, wanted {wanted:?}");
}

const STATISTICS: [&str; 4] = ["average", "median", "deviation", "min"];
const LENGTHS: [usize; 2] = [0, 3000];

/// Runs a test type with four repetitions of each length and compares what is in its files: with the
/// JSON of the same run, and with what such numbers obey.
fn assert_files_of(test_type: &str, code: i32, options: &str) {
    let folder = tempfile::tempdir().unwrap();
    // A dot in a prefix is a part of it.
    let prefix = folder.path().join("run.1");
    let file = |tail: &str| PathBuf::from(format!("{}{tail}", prefix.display()));
    let mut command = mpirun(PROCESSES, "network_test");
    command.args(["-t", test_type, "-b", "0", "-e", "3001", "-s", "3000", "--num_iterations", "4"]);
    command.args(["--format", "text,netcdf,csv,json", "-f"]).arg(&prefix);
    command.args(options.split_whitespace());
    finished(command, test_type);

    let own = json_of(&file(".json"));
    let mut paths: Vec<PathBuf> = STATISTICS.map(|name| file(&format!("_{name}.nc"))).into();
    paths.push(file(".csv"));
    let found = read_by_python(&paths);
    for ((name, netcdf), data_type) in STATISTICS.iter().zip(&found).zip(1..) {
        assert_eq!(netcdf["format"], "NETCDF3_64BIT_OFFSET");
        assert_eq!(netcdf["dimensions"], json!({ "x": 4, "y": 4, "n": 2, "strings": 101 }));
        assert_eq!(netcdf["unlimited"], json!(["n"]));
        assert_eq!(netcdf["data_dimensions"], json!(["n", "x", "y"]));
        let scalars = &netcdf["scalars"];
        assert_eq!(scalars["test_type"], code, "{test_type}");
        assert_eq!(
            (&scalars["data_type"], &scalars["num_repeates"]),
            (&json!(data_type), &json!(4))
        );
        for (index, length) in LENGTHS.iter().enumerate() {
            let receivers = rows(&own["lengths"][index][name]);
            // Whoever reports has the row there: of a put the sender.
            let wanted = if test_type == "put" { transposed(&receivers) } else { receivers };
            let what = format!("{test_type} {name} of {length} bytes");
            assert_same(&rows(&netcdf["data"][index]), &wanted, &what);
        }
    }
    let cells = found[4].as_array().unwrap();
    assert_eq!(cells.len(), LENGTHS.len() * PROCESSES * PROCESSES);
    for cell in cells {
        let number = |name: &str| cell[name].as_str().unwrap().parse::<f64>().unwrap();
        let [average, median, deviation, min] = STATISTICS.map(|name| number(&format!("{name}_s")));
        if cell["sender"] == cell["receiver"] {
            assert_eq!(
                [average, median, deviation, min],
                [0.0; 4],
                "{test_type} to itself: {cell}"
            );
            continue;
        }
        assert!(0.0 < min && min <= median && min <= average, "{test_type}: {cell}");
        // Four samples on both sides of their average, none below the least.
        assert!(deviation <= 3f64.sqrt() * (average - min) + 1e-12, "{test_type}: {cell}");
        let index = LENGTHS.iter().position(|length| number("message_bytes") == *length as f64);
        let (to, from) = (number("receiver") as usize, number("sender") as usize);
        let in_json = own["lengths"][index.unwrap()]["median"][to][from].as_f64().unwrap();
        assert!(same(in_json, median), "{test_type}: {cell}");
    }
    let least = std::fs::read_to_string(file("_min")).unwrap();
    assert!(
        least.contains(&format!("test type \"{test_type}\"\ndata type \"minimum\"\n")),
        "{least}"
    );
}

#[test]
fn transfers_beside_noise_are_read_by_others() {
    let _alone = alone();
    let noise = "--length_noise_message 2000 --num_noise_message 3 --procs_noise 2";
    assert_files_of("noise", 5, noise);
    assert_files_of("noise_blocking", 6, noise);
}

#[test]
fn transfers_of_all_at_once_are_read_by_others() {
    let _alone = alone();
    assert_files_of("all_to_all", 2, "");
    assert_files_of("bcast", 7, "");
}

#[test]
fn one_sided_transfers_are_read_by_others() {
    let _alone = alone();
    assert_files_of("put", 8, "");
    assert_files_of("get", 9, "");
}

#[test]
fn a_second_run_of_a_name_is_refused_and_the_first_kept() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let run = |options: &[&str]| {
        let mut command = mpirun(2, "network_test");
        command.args(["-e", "1", "-n", "2", "--format", "csv"]).args(options);
        command.current_dir(folder.path());
        measurement::ended(command, "network_test")
    };
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(run(&["-f", "run.1"]).status.success());
    assert!(run(&["-f", "run.2"]).status.success());
    let first = read("run.1.csv");
    assert_ne!(first, read("run.2.csv"));
    let refused = run(&["-f", "run.1"]);
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--overwrite"));
    assert_eq!(first, read("run.1.csv"));
    assert!(run(&["-f", "run.1", "--overwrite"]).status.success());
    assert_ne!(first, read("run.1.csv"));
}

const METHODS: [&str; 6] = ["allreduce", "barrier", "broadcast", "gather", "allgather", "scatter"];

/// All methods, as a file asks for them that also holds what is no option.
#[test]
fn all_methods_are_measured_and_read_by_others() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let ini = "allMethods = 1\niterations = \"20\"\n[deep]\nspeed = 1\n";
    std::fs::write(folder.path().join("options.ini"), ini).unwrap();
    let run = |processes, options: &str| {
        let mut command = mpirun(processes, "mpi_collective_benchmark");
        command.args(options.split_whitespace()).current_dir(folder.path());
        finished(command, "mpi_collective_benchmark")
    };
    let output = run(PROCESSES, "-startSize 1 -threshold 0.5 -format csv -fname all.csv");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("deep.speed is no option"), "{said}");
    let found = &read_by_python(&[folder.path().join("all.csv")])[0];
    let found = found.as_array().unwrap();
    let wanted = METHODS.iter().flat_map(|method| ["1", "2", "4"].map(|size| (*method, size)));
    assert_eq!(found.len(), wanted.clone().count());
    for (row, (method, size)) in found.iter().zip(wanted) {
        assert_eq!((&row["method"], &row["commsize"]), (&json!(method), &json!(size)));
        let number = |name: &str| row[name].as_str().unwrap().parse::<f64>().unwrap();
        assert!(number("blocking_s") > 0.0 && number("nb_wait_s") > 0.0, "{row}");
        for mode in ["nb_sleep", "nb_active"] {
            let [base, overhead, available] =
                ["base_s", "overhead_s", "available"].map(|name| number(&format!("{mode}_{name}")));
            assert!(base > 0.0, "{row}");
            let expected = 1.0 - overhead / base;
            // Written with four digits behind the point.
            assert!((available - expected).abs() < 1e-4, "{row}: {expected}");
        }
    }
    let output = run(1, "-nohdr 2 -verbose 2");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.lines().count(), METHODS.len(), "{text}");
    for line in text.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((cells.len(), cells[0], cells[1]), (8, "1", "20"), "{line}");
        let times = [2, 3, 4, 6].map(|column| cells[column].parse::<f64>().unwrap());
        assert!(times.iter().all(|seconds| *seconds >= 0.0), "{line}");
    }
    assert!(String::from_utf8_lossy(&output.stderr).contains("NB_active: iter_t "));
}
