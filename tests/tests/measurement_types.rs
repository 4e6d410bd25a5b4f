//! The times that each type of network_test must tell on hosts whose latencies and rates are known,
//! worked out by hand. Links are long, so that ranks that wait for a processor are told from what is
//! wrong. Where waiting for one can only add to a time, the least of the repetitions is taken; where it
//! may take from it too, since the clock starts with the process's own receive, the median.

mod measurement;

use gridlab::{Lab, Mpi};
use measurement::{alone, believed, json_of, lab, near, run_with};

/// Four hosts, equally far from each other, each pair with a link of its own. No message is above what
/// TCP may send at once.
const EQUALLY_FAR: &str = r#"
hosts = { tcp = "tuned", mtu = 9000 }
site = [
    { name = "a", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "b", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "c", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "d", nodes = 1, node_rate = "1gbit", latency = "100us" },
]
link = [
    { between = ["a", "b"], latency = "30ms", rate = "10mbit" },
    { between = ["a", "c"], latency = "30ms", rate = "10mbit" },
    { between = ["a", "d"], latency = "30ms", rate = "10mbit" },
    { between = ["b", "c"], latency = "30ms", rate = "10mbit" },
    { between = ["b", "d"], latency = "30ms", rate = "10mbit" },
    { between = ["c", "d"], latency = "30ms", rate = "10mbit" },
]
"#;

/// Part of a time that processors may add to it or take from it.
const TOLERANCE: f64 = 0.15;

/// A byte shows the ways from host to host; this many more show the rate. MPIs send them without asking
/// the receiver first.
const MORE_BYTES: usize = 50_000;

/// What is run, and which of the repetitions' statistics is looked at.
#[derive(Clone, Copy)]
struct Test {
    mpi: Mpi,
    processes: usize,
    /// Type and options of the noise.
    options: &'static str,
    more_bytes: bool,
    statistic: (&'static str, usize),
}

const LEAST: (&str, usize) = ("min", 3);
const MEDIAN: (&str, usize) = ("median", 7);

/// Two hosts measure each other.
const PAIR: Test =
    Test { mpi: Mpi::OpenMpi, processes: 2, options: "", more_bytes: true, statistic: LEAST };

/// All hosts take part, with a byte each.
const ALL: Test = Test { processes: 4, more_bytes: false, ..PAIR };

/// Seconds by length, receiver and sender.
type Cells = Vec<Vec<Vec<f64>>>;

fn network_test(lab: &Lab, test: Test) -> Cells {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.json");
    let (options, (statistic, repetitions)) = (test.options, test.statistic);
    let end = if test.more_bytes { MORE_BYTES + 2 } else { 2 };
    let arguments = format!(
        "-t {options} -f {} -b 1 -e {end} -s {MORE_BYTES} -n {repetitions} --format json",
        file.display()
    );
    run_with(test.mpi, lab, test.processes, "network_test", &arguments);
    let json = json_of(&file);
    let lengths = json["lengths"].as_array().unwrap();
    lengths.iter().map(|l| serde_json::from_value(l[statistic].clone()).unwrap()).collect()
}

/// Each cell but those of the diagonal takes `ways` from host to host, and its bytes once.
fn assert_ways(lab: &Lab, test: Test, ways: f64) {
    let check = |cells: &Cells| {
        for (length, rows) in cells.iter().enumerate() {
            let bytes = 1 + length * MORE_BYTES;
            for cell in 0..test.processes * test.processes {
                let (receiver, sender) = (cell / test.processes, cell % test.processes);
                if receiver == sender {
                    continue;
                }
                let topology = lab.topology();
                let way = topology.one_way_latency(sender, receiver).as_secs_f64();
                let rate = topology.path_rate_bytes_per_s(sender, receiver);
                let what = format!("{}: {bytes} B from {sender} to {receiver} (s)", test.options);
                let truth = ways * way + bytes as f64 / rate;
                near(&what, rows[receiver][sender], truth, TOLERANCE)?;
            }
        }
        Ok(())
    };
    believed(lab, || network_test(lab, test), check);
}

/// Both directions at once do not disturb each other on these links.
#[test]
fn async_one_to_one_takes_one_way() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    let test = Test { options: "async_one_to_one", statistic: MEDIAN, ..PAIR };
    assert_ways(&lab, test, 1.0);
}

/// Half of the time there and back.
#[test]
#[ignore = "long: make test-lab"]
fn one_to_one_and_send_recv_and_recv_send_take_one_way() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    assert_ways(&lab, Test { options: "one_to_one", ..PAIR }, 1.0);
    assert_ways(&lab, Test { options: "send_recv_and_recv_send", ..PAIR }, 1.0);
}

#[test]
fn all_to_all_takes_one_way() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    let test = Test { options: "all_to_all", statistic: MEDIAN, ..ALL };
    assert_ways(&lab, test, 1.0);
}

/// In a binomial tree of four, the root sends to two, and one of them to the last.
#[test]
fn bcast_takes_one_way_to_two_and_two_to_the_last() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    let way = lab.topology().one_way_latency(0, 1).as_secs_f64();
    let check = |cells: &Cells| {
        for root in 0..ALL.processes {
            let receivers = cells[0].iter().enumerate().filter(|(receiver, _)| *receiver != root);
            let mut times: Vec<f64> = receivers.map(|(_, row)| row[root]).collect();
            times.sort_by(f64::total_cmp);
            for (time, ways) in times.iter().zip([1.0, 1.0, 2.0]) {
                near(&format!("bcast from {root}: {ways} ways (s)"), *time, ways * way, TOLERANCE)?;
            }
        }
        Ok(())
    };
    believed(&lab, || network_test(&lab, Test { options: "bcast", ..ALL }), check);
}

#[test]
#[ignore = "long: make test-lab"]
fn noise_on_other_links_adds_nothing() {
    let _alone = alone();
    let lab = lab(EQUALLY_FAR);
    assert_ways(&lab, Test { options: "noise -l 1000 -m 2 -p 2", ..ALL }, 1.0);
    assert_ways(&lab, Test { options: "noise_blocking -l 1000 -m 2 -p 2", ..ALL }, 1.0);
}

/// What comes from a and from c to the hosts of b passes through one uplink.
const ONE_UPLINK: &str = r#"
hosts = { tcp = "tuned", mtu = 9000 }
site = [
    { name = "a", nodes = 1, node_rate = "1gbit", latency = "100us" },
    { name = "b", nodes = 2, node_rate = "1gbit", latency = "5ms", uplink = "2500kbit" },
    { name = "c", nodes = 1, node_rate = "1gbit", latency = "100us" },
]
link = [
    { between = ["a", "b"], latency = "40ms", rate = "100mbit" },
    { between = ["a", "c"], latency = "40ms", rate = "100mbit" },
    { between = ["b", "c"], latency = "5ms", rate = "100mbit" },
]
"#;

/// A host of b calls for noise and for the message of a at once. The call reaches c after 5 ms, the noise
/// of c the uplink after 10, and keeps it busy for 160. The call reaches a after 40 ms, when the time
/// starts, and what a sends the uplink after 80: it waits for the noise.
#[test]
#[ignore = "long: make test-lab"]
fn noise_on_the_way_is_waited_for() {
    let _alone = alone();
    let lab = lab(ONE_UPLINK);
    let truth = 0.010 + 0.160 - 0.040;
    for options in ["noise -l 50000 -p 2", "noise_blocking -l 50000 -p 2"] {
        let check = |cells: &Cells| {
            let of = |receiver: usize| cells[0][receiver][0];
            near(&format!("{options}: a1 to b1 (s)"), of(1), truth, TOLERANCE)?;
            near(&format!("{options}: a1 to b2 (s)"), of(2), truth, TOLERANCE)
        };
        believed(&lab, || network_test(&lab, Test { options, ..ALL }), check);
    }
}

/// A put until the target has said that it arrived, a get from its request on. MPICH, since Open MPI 4.1
/// makes no window between hosts over TCP by default.
#[test]
#[ignore = "long: make test-lab"]
fn put_and_get_take_the_way_there_and_back() {
    let _alone = alone();
    if let Err(missing) = Mpi::Mpich.launcher() {
        println!("not run: {missing}");
        return;
    }
    let lab = lab(EQUALLY_FAR);
    assert_ways(&lab, Test { mpi: Mpi::Mpich, options: "put", ..PAIR }, 2.0);
    assert_ways(&lab, Test { mpi: Mpi::Mpich, options: "get", ..PAIR }, 2.0);
}
