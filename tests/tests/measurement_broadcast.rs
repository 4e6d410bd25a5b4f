//! goptest and mpi_collective_benchmark on an emulated grid: broadcasts whose times are known.

mod measurement;

use gridlab::{Lab, LinkChange};
use measurement::{THREE_HOSTS, alone, believed, ensure, json_of, lab, near, run, wait_for};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// The document that goptest writes with `-format json`.
fn goptest(lab: &Lab, arguments: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("goptest.json");
    let arguments =
        format!("{arguments} -sample_reps 3 -smooth 0 -format json -fname {}", file.display());
    run(lab, 3, "goptest", &arguments);
    json_of(&file)
}

fn seconds(document: &Value, size: usize) -> f64 {
    document["runs"][0]["entries"][size]["seconds"].as_f64().unwrap()
}

/// The chain a-b-c has one leaf, c. Its ACK comes the direct way.
#[test]
#[ignore = "long: make test-lab"]
fn acker_agrees_with_leaf_acks_and_repeated_broadcasts_do_not() {
    let _alone = alone();
    let lab = lab(THREE_HOSTS);
    let sizes = "-sizelist 1,25000 -reps 5 -bcastwith chain";
    let one_way = |from, to| lab.topology().one_way_latency(from, to).as_secs_f64();
    let measure = || {
        ["-bcastalt", "-bcastleaf", "-bcast -root 0"]
            .map(|test| goptest(&lab, &format!("{test} {sizes}")))
    };
    let check = |[acker, leaf, repeated]: &[Value; 3]| {
        for size in 0..2 {
            let per_process = &acker["runs"][0]["entries"][size]["per_process_seconds"];
            let arrival = per_process[2].as_f64().unwrap();
            let what = format!("size {size}: arrival at the leaf by ACKer and by leaf ACKs (s)");
            near(&what, arrival, seconds(leaf, size) - one_way(2, 0), 0.10)?;
            let at_b = per_process[1].as_f64().unwrap();
            ensure(at_b < arrival, || format!("b comes before c: {per_process}"))?;
        }
        let (mean, true_time) = (seconds(repeated, 0), seconds(acker, 0));
        eprintln!("one integer: mean of repeated broadcasts {mean} s, ACKer {true_time} s");
        ensure(mean < 0.5 * true_time, || format!("they overlap: {mean} s, {true_time} s"))?;
        near("one integer along the chain (s)", true_time, one_way(0, 1) + one_way(1, 2), 0.10)
    };
    believed(&lab, measure, check);
}

/// Four hosts, each 40 ms from each other.
const FAR_APART: &str = r#"
site = [
    { name = "a", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "b", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "c", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "d", nodes = 1, node_rate = "1gbit", latency = "100us" },
]
link = [
    { between = ["a", "b"], latency = "40ms", rate = "100mbit" },
    { between = ["a", "c"], latency = "40ms", rate = "100mbit" },
    { between = ["a", "d"], latency = "40ms", rate = "100mbit" },
    { between = ["b", "c"], latency = "40ms", rate = "100mbit" },
    { between = ["b", "d"], latency = "40ms", rate = "100mbit" },
    { between = ["c", "d"], latency = "40ms", rate = "100mbit" },
]
"#;

const ONE_WAY: f64 = 0.040;

/// The one row that mpi_collective_benchmark writes for a method.
fn overlap(lab: &Lab, method: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overlap.json");
    let arguments = format!(
        "-method {method} -start together -iterations 5 -threshold 2.5 -format json -fname {}",
        file.display()
    );
    run(lab, 4, "mpi_collective_benchmark", &arguments);
    json_of(&file)["rows"][0].clone()
}

/// Compares every step of the search, and the availability, with what can be worked out by hand:
/// `iteration` gives the seconds of an iteration with that much work. Four ranks that poll on two cores
/// wait for each other, which on some machines takes milliseconds.
fn check_overlap(
    row: &Value,
    mode: &str,
    available: f64,
    iteration: impl Fn(f64) -> f64,
) -> Result<(), String> {
    let what = format!("{} {mode}", row["method"]);
    for step in row[mode]["steps"].as_array().unwrap() {
        let work = step["work_seconds"].as_f64().unwrap();
        let measured = step["iteration_seconds"].as_f64().unwrap();
        near(&format!("{what}, {work:.3} s of work"), measured, iteration(work), 0.15)?;
    }
    let found = row[mode]["available"].as_f64().unwrap();
    eprintln!("{what}: available {found:.3}, by hand {available:.3}");
    ensure((found - available).abs() < 0.1, || format!("{what}: {found}, by hand {available}"))
}

/// A broadcast of one integer takes 40 ms to each of three processes and none of the root's time. It
/// travels by itself.
#[test]
#[ignore = "long: make test-lab"]
fn availability_of_a_broadcast_that_takes_40_ms() {
    let _alone = alone();
    let lab = lab(FAR_APART);
    let iteration = |work: f64| (work + 3.0 * work.max(ONE_WAY)) / 4.0;
    believed(
        &lab,
        || overlap(&lab, "broadcast"),
        |row| {
            check_overlap(row, "nb_sleep", 1.0, iteration)?;
            check_overlap(row, "nb_active", 1.0, iteration)
        },
    );
}

/// A barrier of four takes two rounds of 40 ms. While the processes work outside of MPI, the first
/// goes on by itself and the second does not; with MPI_Test both do.
#[test]
#[ignore = "long: make test-lab"]
fn availability_of_a_barrier_of_two_rounds() {
    let _alone = alone();
    let lab = lab(FAR_APART);
    believed(
        &lab,
        || overlap(&lab, "barrier"),
        |row| {
            check_overlap(row, "nb_sleep", 0.5, |work| work.max(ONE_WAY) + ONE_WAY)?;
            check_overlap(row, "nb_active", 1.0, |work| work.max(2.0 * ONE_WAY))
        },
    );
}

fn entries(file: &Path) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    // The program may be writing just now: then there is no count yet.
    let document: Value = serde_json::from_str(&text).unwrap_or_default();
    document["runs"][0]["entries"].as_array().map_or(0, Vec::len)
}

/// Round trips over five sizes; with `disturbed`, the link is slower during the third.
fn smoothed(lab: &Lab, disturbed: bool) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("smooth.json");
    let arguments = format!(
        "-roundtrip -sizelist 0,2000,4000,6000,8000 -reps 5 -sample_reps 3 -format json -fname {}",
        file.display()
    );
    std::thread::scope(|scope| {
        if disturbed {
            let file = &file;
            scope.spawn(move || {
                let latency = |milliseconds| LinkChange {
                    latency: Some(Duration::from_millis(milliseconds)),
                    ..LinkChange::default()
                };
                wait_for("the second size", || (entries(file) >= 2).then_some(()));
                lab.link("a", "b", true, latency(30)).unwrap();
                wait_for("the third size", || (entries(file) >= 3).then_some(()));
                lab.link("a", "b", true, latency(20)).unwrap();
            });
        }
        run(lab, 2, "goptest", &arguments);
    });
    json_of(&file)["runs"][0].clone()
}

#[test]
#[ignore = "long: make test-lab"]
fn smoothing_finds_the_size_that_was_disturbed_and_no_other() {
    let _alone = alone();
    let lab = lab(THREE_HOSTS);
    let nothing = |quiet: &Value| {
        ensure(quiet["remeasured"] == Value::Array(Vec::new()), || format!("{quiet:#}"))
    };
    believed(&lab, || smoothed(&lab, false), nothing);
    // One packet of 4000 bytes and the headers of IP, TCP and Open MPI.
    let truth = 2.0 * lab.topology().packet_time(0, 1, 4_100).as_secs_f64();
    let mended = |run: &Value| {
        let told = run["remeasured"].as_array().unwrap();
        eprintln!("measured again: {told:?}");
        let mended = told.iter().find(|again| again["size"] == 4000);
        let mended = mended.ok_or_else(|| format!("the disturbed size is not in {told:?}"))?;
        let of = |what: &str| mended[what].as_f64().unwrap();
        ensure(of("before_seconds") > 1.2 * of("after_seconds"), || mended.to_string())?;
        near("round trip after smoothing (s)", of("after_seconds"), truth, 0.05)
    };
    believed(&lab, || smoothed(&lab, true), mended);
}
