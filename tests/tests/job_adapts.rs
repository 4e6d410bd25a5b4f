//! An ordinary program broadcasts all the time; a link that its plan uses falls, and heals. Nothing but the
//! program's own broadcasts tells the experiment.

mod support;

use arborcast_proto::message::Times;
use arborcast_tests::{Background, Grid};
use gridlab::{LinkChange, Topology};
use std::time::{Duration, Instant};
use support::*;

/// Three sites, each with a link to each: what one direct link carries, the detour carries too.
const TRIANGLE: &str = r#"
    [[site]]
    name = "a"
    nodes = 2
    node_rate = "1gbit"
    latency = "100us"
    [[site]]
    name = "b"
    nodes = 2
    node_rate = "1gbit"
    latency = "100us"
    [[site]]
    name = "c"
    nodes = 2
    node_rate = "1gbit"
    latency = "100us"
    [[link]]
    between = ["a", "b"]
    latency = "10ms"
    rate = "100mbit"
    [[link]]
    between = ["a", "c"]
    latency = "10ms"
    rate = "100mbit"
    [[link]]
    between = ["b", "c"]
    latency = "10ms"
    rate = "100mbit"
"#;
const BYTES: &str = "1048576";
const USUAL_BYTES_PER_S: f64 = 100e6 / 8.0;
/// The number of broadcasts of which a median is taken.
const SOME: usize = 15;
/// What the operator is promised at most is far less; this only ends what never comes.
const HEALS_WITHIN: Duration = Duration::from_secs(90);

/// What the next broadcasts take, in seconds.
fn broadcasts(program: &mut Background, count: usize) -> Vec<f64> {
    let mut seconds = || loop {
        if let Ok(seconds) = program.wait_for_line("", LIMIT).parse() {
            return seconds;
        }
    };
    (0..count).map(|_| seconds()).collect()
}

fn median_s(program: &mut Background) -> f64 {
    Times::of(&broadcasts(program, SOME)).unwrap().median_s
}

/// Where the first node's daemon serves its page, inside that node.
const PAGE: &str = "127.0.0.1:8430";
/// Within which a viewer is to see what the experiment has found.
const SEEN: Duration = Duration::from_secs(2);

/// Asks for a path of the page; what comes of it are lines. HTTP/1.0 has no chunks.
fn get(grid: &Grid, path: &str) -> Background {
    let (host, port) = PAGE.split_once(':').unwrap();
    let ask = format!(
        "exec 3<>/dev/tcp/{host}/{port}; printf 'GET {path} HTTP/1.0\\r\\nHost: {PAGE}\\r\\n\\r\\n' >&3; exec cat <&3"
    );
    let mut command = grid.lab().exec(&grid.nodes()[0], "bash").unwrap();
    command.args(["-c", &ask]);
    Background::start(command, path).unwrap()
}

/// The page's groups as it tells its viewers of them next.
fn next_groups(viewer: &mut Background) -> serde_json::Value {
    viewer.wait_for_line("event: groups", LIMIT);
    let data = viewer.wait_for_line("data: ", LIMIT);
    serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap()
}

/// What the page says of the slowest link between two sites, in bytes per second.
fn slowest_shown(grid: &Grid, groups: &serde_json::Value) -> f64 {
    let group = groups[0]["group"].as_str().unwrap();
    let line = get(grid, &format!("/links/{group}")).wait_for_line("cells", LIMIT);
    let links: serde_json::Value = serde_json::from_str(&line).unwrap();
    let rows = links["cells"].as_array().unwrap().iter();
    let cells = rows.flat_map(|row| row.as_array().unwrap());
    cells.filter_map(|cell| cell[1].as_f64()).fold(f64::INFINITY, f64::min)
}

fn set_rate(grid: &Grid, bytes_per_s: f64) {
    let change = LinkChange { rate_bytes_per_s: Some(bytes_per_s), latency: None, loss: None };
    grid.lab().link("a", "b", true, change).unwrap();
}

#[test]
#[ignore = "long: make test-lab"]
fn a_link_that_falls_is_avoided_and_used_again_once_it_has_healed() {
    let mut grid = Grid::of(Topology::parse(TRIANGLE).unwrap()).unwrap();
    let node = grid.nodes()[0].clone();
    grid.start_daemons(&["--page-listen", PAGE]).unwrap();
    let mut job = grid.experiment(&[]).unwrap();
    let mut program = start(&grid, "bcast_times.c", &[BYTES, "100000", "0", "200"]);
    wait_until("a plan that was measured", || {
        let is_measured = |finding: &serde_json::Value| {
            finding["plan"]["kind"] == "trees" && finding["times"]["repetitions"].as_u64() > Some(0)
        };
        targets(&grid, &node).iter().any(|target| is_measured(&target["finding"])).then_some(())
    });
    program.lines();
    // The program's broadcasts go on while the search does.
    std::thread::sleep(Duration::from_secs(10));
    program.lines();
    let usual_s = median_s(&mut program);
    let mut viewer = get(&grid, "/updates");
    let before = slowest_shown(&grid, &next_groups(&mut viewer));

    job.lines();
    set_rate(&grid, USUAL_BYTES_PER_S / 20.0);
    let fell = Instant::now();
    let at_first = broadcasts(&mut program, 4);
    let fallen_s = at_first.into_iter().fold(0.0, f64::max);
    let noticed = job.wait_for_line("the network has changed: from a", LIMIT);
    let noticed_at = Instant::now();
    let mut shown = slowest_shown(&grid, &next_groups(&mut viewer));
    while shown >= before / 4.0 && noticed_at.elapsed() < SEEN {
        // What was news before it fell.
        shown = slowest_shown(&grid, &next_groups(&mut viewer));
    }
    let (shown_after, after_all) = (noticed_at.elapsed(), fell.elapsed());
    println!(
        "the page: {before:.0} B/s, then {shown:.0}, {shown_after:?} after it was noticed, {after_all:?} after it fell"
    );
    assert!(shown < before / 4.0, "{before} B/s, {shown} B/s: {noticed}");
    assert!(shown_after < SEEN, "{shown_after:?}");
    broadcasts(&mut program, SOME);
    let avoided_s = median_s(&mut program);
    println!("{usual_s:.3} s, {fallen_s:.3} s where it fell, then {avoided_s:.3} s: {noticed}");
    assert!(fallen_s > 2.0 * usual_s, "the plan did not use the link: {usual_s} s, {fallen_s} s");
    assert!(avoided_s < fallen_s / 2.0, "{fallen_s} s, and still {avoided_s} s");

    set_rate(&grid, USUAL_BYTES_PER_S);
    let healed = Instant::now();
    let mut seconds = f64::INFINITY;
    while seconds > 1.3 * usual_s {
        assert!(healed.elapsed() < HEALS_WITHIN, "{usual_s} s before, still {seconds} s");
        seconds = median_s(&mut program);
    }
    println!("{seconds:.3} s again after {:.0} s", healed.elapsed().as_secs_f64());
}
