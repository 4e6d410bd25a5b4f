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
const USUAL_LATENCY: Duration = Duration::from_millis(10);
/// With which the direct link takes longer than the detour.
const ADDED_LATENCY: Duration = Duration::from_millis(50);
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

/// A program that broadcasts again and again along a plan, on links that are known. Its pauses are too short for
/// trials.
struct Scene {
    program: Background,
    job: Background,
    grid: Grid,
    usual_s: f64,
}

impl Scene {
    fn begin(daemon_arguments: &[&str]) -> Scene {
        let mut grid = Grid::of(Topology::parse(TRIANGLE).unwrap()).unwrap();
        let node = grid.nodes()[0].clone();
        grid.start_daemons(daemon_arguments).unwrap();
        let job = grid.experiment(&[]).unwrap();
        wait_until("the links", || knows_links(&grid).then_some(()));
        let mut program = start(&grid, "bcast_times.c", &[BYTES, "100000", "0", "200"]);
        wait_until("a plan", || {
            let has_trees =
                |target: &serde_json::Value| target["finding"]["plan"]["kind"] == "trees";
            targets(&grid, &node).iter().any(has_trees).then_some(())
        });
        program.lines();
        // The program's broadcasts go on while the search does.
        std::thread::sleep(Duration::from_secs(10));
        program.lines();
        let usual_s = median_s(&mut program);
        Scene { program, job, grid, usual_s }
    }

    /// Changes the link between sites a and b.
    fn set(&self, change: LinkChange) {
        self.grid.lab().link("a", "b", true, change).unwrap();
    }

    /// Makes the link worse; what a broadcast takes then at most, and the job's word of it.
    fn spoil(&mut self, change: LinkChange) -> (f64, String) {
        self.job.lines();
        self.set(change);
        let at_first = broadcasts(&mut self.program, 4);
        let spoilt_s = at_first.into_iter().fold(0.0, f64::max);
        let noticed = wait_until("the job to notice", || {
            let mut lines = self.job.lines().into_iter().inspect(|line| println!("{line}"));
            lines.find(|line| line.contains("the network has changed: from a"))
        });
        (spoilt_s, noticed)
    }

    /// What broadcasts take once some have gone by the way that the job has found instead.
    fn avoided_s(&mut self) -> f64 {
        broadcasts(&mut self.program, SOME);
        median_s(&mut self.program)
    }

    /// Makes the link what it was, and waits until broadcasts take what they took.
    fn heal(mut self, change: LinkChange) {
        self.set(change);
        let healed = Instant::now();
        let mut seconds = f64::INFINITY;
        while seconds > 1.3 * self.usual_s {
            assert!(
                healed.elapsed() < HEALS_WITHIN,
                "{} s before, still {seconds} s",
                self.usual_s
            );
            seconds = median_s(&mut self.program);
        }
        println!("{seconds:.3} s again after {:.0} s", healed.elapsed().as_secs_f64());
    }
}

fn rate(bytes_per_s: f64) -> LinkChange {
    LinkChange { rate_bytes_per_s: Some(bytes_per_s), latency: None, loss: None }
}

fn latency(latency: Duration) -> LinkChange {
    LinkChange { rate_bytes_per_s: None, latency: Some(latency), loss: None }
}

#[test]
#[ignore = "long: make test-lab"]
fn a_link_that_falls_is_avoided_and_used_again_once_it_has_healed() {
    let mut scene = Scene::begin(&["--page-listen", PAGE]);
    let mut viewer = get(&scene.grid, "/updates");
    let before = slowest_shown(&scene.grid, &next_groups(&mut viewer));
    let fell = Instant::now();
    let (fallen_s, noticed) = scene.spoil(rate(USUAL_BYTES_PER_S / 20.0));
    let noticed_at = Instant::now();
    let mut shown = slowest_shown(&scene.grid, &next_groups(&mut viewer));
    while shown >= before / 4.0 && noticed_at.elapsed() < SEEN {
        // What was news before it fell.
        shown = slowest_shown(&scene.grid, &next_groups(&mut viewer));
    }
    let (shown_after, after_all) = (noticed_at.elapsed(), fell.elapsed());
    println!(
        "the page: {before:.0} B/s, then {shown:.0}, {shown_after:?} after it was noticed, {after_all:?} after it fell"
    );
    assert!(shown < before / 4.0, "{before} B/s, {shown} B/s: {noticed}");
    assert!(shown_after < SEEN, "{shown_after:?}");
    let (usual_s, avoided_s) = (scene.usual_s, scene.avoided_s());
    println!("{usual_s:.3} s, {fallen_s:.3} s where it fell, then {avoided_s:.3} s: {noticed}");
    assert!(fallen_s > 2.0 * usual_s, "the plan did not use the link: {usual_s} s, {fallen_s} s");
    assert!(avoided_s < fallen_s / 2.0, "{fallen_s} s, and still {avoided_s} s");
    scene.heal(rate(USUAL_BYTES_PER_S));
}

#[test]
#[ignore = "long: make test-lab"]
fn a_link_that_gets_longer_is_avoided_and_used_again_once_it_has_healed() {
    let mut scene = Scene::begin(&[]);
    let changed = Instant::now();
    let (longer_s, noticed) = scene.spoil(latency(USUAL_LATENCY + ADDED_LATENCY));
    let noticed_after = changed.elapsed();
    let (usual_s, avoided_s) = (scene.usual_s, scene.avoided_s());
    println!(
        "{usual_s:.3} s, {longer_s:.3} s where it was longer, noticed after {noticed_after:?}, then {avoided_s:.3} s: {noticed}"
    );
    let added_s = ADDED_LATENCY.as_secs_f64();
    assert!(
        longer_s > usual_s + added_s,
        "the plan did not use the link: {usual_s} s, {longer_s} s"
    );
    assert!(avoided_s < longer_s - added_s, "{longer_s} s, and still {avoided_s} s");
    scene.heal(latency(USUAL_LATENCY));
}
