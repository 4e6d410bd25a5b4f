//! Daemons and experiment ranks that have nothing to do cost next to nothing: processor time of their
//! processes from /proc over 10 s.

mod support;

use std::time::{Duration, Instant};
use support::*;

const OBSERVED: Duration = Duration::from_secs(10);
/// Of a core.
const ALLOWED: f64 = 0.01;

/// Time on a processor so far, of all threads.
fn processor_time(pid: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let time = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        Duration::from_nanos(text.split(' ').next().unwrap_or("").parse().unwrap_or(0))
    };
    threads.map(|thread| time(thread.unwrap().path())).sum()
}

/// The largest share of a core that one of the processes took.
fn observe(what: &str, pids: &[u32]) {
    let (started, before) = (Instant::now(), pids.iter().map(|&pid| processor_time(pid)));
    let before: Vec<_> = before.collect();
    std::thread::sleep(OBSERVED);
    let used = pids.iter().zip(before).map(|(&pid, before)| processor_time(pid) - before);
    let used: Vec<_> = used.collect();
    let shares = used.iter().map(|used| used.as_secs_f64() / started.elapsed().as_secs_f64());
    let (least, most) = shares.fold((f64::MAX, 0.0), |(a, b), s| (f64::min(a, s), f64::max(b, s)));
    println!("{what}: {:.3} % to {:.3} % of a core each", 100.0 * least, 100.0 * most);
    assert!(least > 0.0, "{what}: processes that are not there");
    assert!(most < ALLOWED, "{what}: {most}");
}

#[test]
#[ignore = "long: make test-lab"]
fn idle_daemons_and_experiment_ranks_take_less_than_a_hundredth_of_a_core() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let _experiment = grid.experiment(&[]).unwrap();
    for node in &nodes {
        wait_until("the experiment", || {
            (status(&grid, node)["experiment"] == "running").then_some(())
        });
    }
    wait_until("the survey that nobody asks for", || knows_links(&grid).then_some(()));
    let daemon = |node: &String| status(&grid, node)["daemon_pid"].as_u64().unwrap() as u32;
    let daemons: Vec<u32> = nodes.iter().map(daemon).collect();
    let ranks = experiment_ranks(&grid);
    assert_eq!((daemons.len(), ranks.len()), (4, 4));
    let both = |state: &str| {
        std::thread::scope(|scope| {
            scope.spawn(|| observe(&format!("daemons, {state}"), &daemons));
            scope.spawn(|| observe(&format!("experiment ranks, {state}"), &ranks));
        });
    };
    both("no demand");
    finish(start(&grid, "bcast_times.c", &["100000", "2"]), Vec::new());
    for node in &nodes {
        assert!(grid.operator(node, &["pause"]).unwrap().status.success());
    }
    wait_until("the pause", || (status(&grid, &nodes[0])["experiment"] == "paused").then_some(()));
    both("paused with demand");
}
