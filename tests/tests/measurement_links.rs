//! network_test on an emulated grid, against the latencies and rates of its topology.

mod measurement;

use gridlab::Lab;
use gridlab::congestion::tested_with;
use measurement::{THREE_HOSTS, alone, believed, ensure, finished, json_of, lab_with, near, run};

/// Lengths above the MPI's eager limit, so that the way to start is the same for both and the
/// difference of their times is that of the bytes alone.
const SHORTER: usize = 600_000;
const LONGER: usize = 1_200_000;

/// Packets of 9000 bytes that a connection may send at first: more than the longest message has.
const WINDOW: usize = 160;

/// Three hosts whose connections start as those that have long been in use: with a window that holds any
/// message. CUBIC's slow start ends where round trips get longer, as they do when answers wait behind what
/// goes the other way; a message of several windows then takes several round trips.
fn three_hosts(tcp: Option<String>) -> Lab {
    let lab = lab_with(tcp, THREE_HOSTS);
    let widen =
        format!("ip route change $(ip route show 10.0.0.0/8) initcwnd {WINDOW} initrwnd {WINDOW}");
    for host in lab.nodes() {
        let mut command = lab.exec(host, "sh").unwrap();
        command.args(["-c", &widen]);
        finished(command, "giving connections a window");
    }
    lab
}

/// Seconds by length (0, shorter, longer), receiver and sender.
type Cells = Vec<Vec<Vec<f64>>>;

/// One statistic of a number of repetitions.
fn network_test(
    lab: &Lab,
    processes: usize,
    test_type: &str,
    (statistic, repetitions): (&str, usize),
) -> Cells {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("links.mtr");
    let arguments = format!(
        "-t {test_type} -f {} -b 0 -e {} -s {SHORTER} -n {repetitions} --format json",
        file.display(),
        LONGER + 1,
    );
    run(lab, processes, "network_test", &arguments);
    let json = json_of(&file.with_extension("json"));
    let lengths = json["lengths"].as_array().unwrap();
    lengths.iter().map(|l| serde_json::from_value(l[statistic].clone()).unwrap()).collect()
}

/// Latency and rate of each pair as the topology has them.
fn assert_true_links(tcp: Option<String>, test_type: &str) {
    let _alone = alone();
    let lab = three_hosts(tcp);
    // TCP probes now and then for a shorter round trip, or starts below the link's rate; the least time
    // is that of the link.
    let measure = || network_test(&lab, 3, test_type, ("min", 3));
    believed(&lab, measure, |cells| true_links(&lab, cells, test_type));
}

fn true_links(lab: &Lab, cells: &Cells, test_type: &str) -> Result<(), String> {
    let topology = lab.topology();
    let pairs = (0..3).flat_map(|receiver| (0..3).map(move |sender| (receiver, sender)));
    for (receiver, sender) in pairs {
        let of = |length: usize| cells[length][receiver][sender];
        if sender == receiver {
            let zeros = [of(0), of(1), of(2)] == [0.0; 3];
            ensure(zeros, || format!("{sender} to itself: not 0"))?;
            continue;
        }
        let what = format!("{test_type} {sender} to {receiver}");
        let latency = topology.one_way_latency(sender, receiver).as_secs_f64();
        near(&format!("{what}: latency (s)"), of(0), latency, 0.05)?;
        let rate = (LONGER - SHORTER) as f64 / (of(2) - of(1));
        let truth = topology.path_rate_bytes_per_s(sender, receiver);
        near(&format!("{what}: rate (bytes/s)"), rate, truth, 0.05)?;
    }
    Ok(())
}

#[test]
fn one_to_one_finds_latency_and_rate_of_each_pair() {
    tested_with("cubic", |tcp| assert_true_links(tcp, "one_to_one"));
}

#[test]
#[ignore = "long: make test-lab"]
fn send_recv_and_recv_send_finds_latency_and_rate_of_each_pair() {
    tested_with("cubic", |tcp| assert_true_links(tcp, "send_recv_and_recv_send"));
}

/// Makes the network interface of a host one shared medium: what it sends and what it receives pass
/// through one queue of 40 Mbit/s.
fn make_half_duplex(lab: &Lab, host: &str) {
    let script = "set -e
        ip link add medium type ifb
        ip link set medium mtu 9000 txqueuelen 1000 up
        tc qdisc add dev medium root tbf rate 40mbit burst 20kb limit 4mb
        tc qdisc add dev tun0 clsact
        for direction in ingress egress; do
            tc filter add dev tun0 $direction protocol all u32 match u32 0 0 \
                action mirred egress redirect dev medium
        done";
    let mut command = lab.exec(host, "sh").unwrap();
    command.args(["-c", script]);
    finished(command, "making a half-duplex link with tc");
}

/// Seconds that the bytes take on the link of hosts 0 and 1, both directions taken together.
fn seconds_of_bytes(lab: &Lab, test_type: &str) -> f64 {
    let cells = network_test(lab, 2, test_type, ("median", 5));
    let of = |length: usize| cells[length][1][0] + cells[length][0][1];
    of(2) - of(1)
}

fn assert_full_and_half_duplex(tcp: Option<String>) {
    let _alone = alone();
    let lab = three_hosts(tcp);
    let ratio =
        || seconds_of_bytes(&lab, "async_one_to_one") / seconds_of_bytes(&lab, "one_to_one");
    let within = |share: &f64, range: std::ops::Range<f64>| {
        eprintln!("async_one_to_one over one_to_one: {share:.3}");
        ensure(range.contains(share), || format!("{share}, not in {range:?}"))
    };
    believed(&lab, ratio, |full| within(full, 0.9..1.15));
    make_half_duplex(&lab, "b1");
    believed(&lab, ratio, |half| within(half, 1.8..2.3));
}

#[test]
#[ignore = "long: make test-lab"]
fn async_one_to_one_tells_full_from_half_duplex() {
    tested_with("cubic", assert_full_and_half_duplex);
}

/// The same with BBR.
mod bbr {
    use super::*;

    #[test]
    #[ignore = "another congestion control: make test-links"]
    fn one_to_one_finds_latency_and_rate_of_each_pair() {
        tested_with("bbr", |tcp| assert_true_links(tcp, "one_to_one"));
    }

    #[test]
    #[ignore = "another congestion control: make test-links"]
    fn send_recv_and_recv_send_finds_latency_and_rate_of_each_pair() {
        tested_with("bbr", |tcp| assert_true_links(tcp, "send_recv_and_recv_send"));
    }

    #[test]
    #[ignore = "another congestion control: make test-links"]
    fn async_one_to_one_tells_full_from_half_duplex() {
        tested_with("bbr", assert_full_and_half_duplex);
    }
}
