//! network_test's types of which one process alone cannot say what they measure, on four hosts that are
//! all equally far from each other.

mod measurement;

use gridlab::Lab;
use measurement::{alone, believed, ensure, json_of, lab, near, run};

const EQUALLY_FAR: &str = r#"
site = [
    { name = "a", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "b", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "c", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "d", nodes = 1, node_rate = "1gbit", latency = "100us" },
]
link = [
    { between = ["a", "b"], latency = "5ms", rate = "100mbit" },
    { between = ["a", "c"], latency = "5ms", rate = "100mbit" },
    { between = ["a", "d"], latency = "5ms", rate = "100mbit" },
    { between = ["b", "c"], latency = "5ms", rate = "100mbit" },
    { between = ["b", "d"], latency = "5ms", rate = "100mbit" },
    { between = ["c", "d"], latency = "5ms", rate = "100mbit" },
]
"#;

const HOSTS: usize = 4;

/// Median seconds of one byte from each host to each other.
fn seconds_of_a_byte(lab: &Lab, options: &str) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.json");
    let arguments = format!("-t {options} -f {} -b 1 -e 2 -n 7 --format json", file.display());
    run(lab, HOSTS, "network_test", &arguments);
    let medians = json_of(&file)["lengths"][0]["median"].clone();
    let rows: Vec<Vec<f64>> = serde_json::from_value(medians).unwrap();
    (0..HOSTS * HOSTS)
        .filter(|cell| cell / HOSTS != cell % HOSTS)
        .map(|cell| rows[cell / HOSTS][cell % HOSTS])
        .collect()
}

/// Each cell of a type takes as many ways from host to host as `ways` allows.
fn assert_ways(lab: &Lab, options: &str, ways: &[f64]) {
    let way = lab.topology().one_way_latency(0, 1).as_secs_f64();
    let measure = || seconds_of_a_byte(lab, options);
    believed(lab, measure, |cells| {
        let mut nearest: Vec<f64> = Vec::new();
        for seconds in cells {
            let off = |ways: &f64| (seconds - ways * way).abs();
            let ways = ways.iter().copied().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap();
            near(&format!("{options}: {ways} ways (s)"), *seconds, ways * way, 0.20)?;
            nearest.push(ways);
        }
        ensure(ways.iter().all(|ways| nearest.contains(ways)), || format!("{options}: {nearest:?}"))
    });
}

#[test]
fn a_transfer_beside_noise_takes_one_way() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    assert_ways(&lab, "noise -l 1000 -m 2 -p 2", &[1.0]);
    assert_ways(&lab, "noise_blocking -l 1000 -m 2 -p 2", &[1.0]);
}

/// A broadcast's tree over four has two levels.
#[test]
fn all_to_all_takes_one_way_and_bcast_one_or_two() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    assert_ways(&lab, "all_to_all", &[1.0]);
    assert_ways(&lab, "bcast", &[1.0, 2.0]);
}
