//! Programs whose roots take turns: what one broadcast shows of the links has to serve all others.

mod support;

use arborcast_proto::message::Times;
use arborcast_tests::{Grid, grid_file};
use gridlab::LinkChange;
use std::time::{Duration, Instant};
use support::*;

const BYTES: &str = "1048576";
const PAUSE_MS: &str = "100";
const SECONDS: &str = "50";
/// Each root is the root of so many steps natively, at least.
const FIRST: usize = 4;
/// So many of the last steps tell what was found.
const LAST: usize = 16;

#[test]
#[ignore = "long: make test-lab"]
fn rows_and_columns_have_plans_for_all_their_roots_within_a_minute() {
    let mut grid = Grid::up(&grid_file("mesh")).unwrap();
    grid.start_daemons(&[]).unwrap();
    let _job = grid.experiment(&[]).unwrap();
    let program = start(&grid, "bcast_rows_columns.c", &[BYTES, PAUSE_MS, SECONDS]);
    let lines = finish(program, Vec::new());
    let seconds = lines.iter().filter_map(|line| line.strip_prefix("step ")?.parse().ok());
    let steps: Vec<f64> = seconds.collect();
    for some in steps.chunks(LAST) {
        println!("{:.3} s a step", Times::of(some).unwrap().median_s);
    }
    assert!(steps.len() > FIRST + LAST, "{} steps", steps.len());
    let first_s = Times::of(&steps[..FIRST]).unwrap().median_s;
    let last_s = Times::of(&steps[steps.len() - LAST..]).unwrap().median_s;
    println!("{first_s:.3} s a step natively, {last_s:.3} s at last");
    assert!(last_s < first_s / 2.0, "{first_s} s at first, {last_s} s at last");
}

/// The link between the first two sites has this part of its rate from then on.
const FALLEN: f64 = 0.1;
const FALLS_AFTER: Duration = Duration::from_secs(35);
const TURNS_PAUSE_MS: &str = "400";
/// Within which the roots avoid it; it ends once they do.
const TURNS_SECONDS: &str = "130";

#[test]
#[ignore = "long: make test-lab"]
fn all_roots_avoid_a_link_that_has_fallen_both_ways() {
    let mut grid = Grid::up(&grid_file("mesh")).unwrap();
    let roots = grid.nodes().len();
    grid.start_daemons(&[]).unwrap();
    let job = grid.experiment(&[]).unwrap();
    wait_until("the links", || knows_links(&grid).then_some(()));
    let arguments = [BYTES, TURNS_PAUSE_MS, TURNS_SECONDS];
    let mut program = start(&grid, "bcast_turns.c", &arguments);
    let began = Instant::now();
    let mut turns: Vec<f64> = Vec::new();
    let mut fell: Option<(usize, Instant)> = None;
    let median_s = |turns: &[f64]| Times::of(turns).unwrap().median_s;
    // What a broadcast took before, and where the link has fallen.
    let compared_s = |turns: &[f64], before: usize| {
        (median_s(&turns[before - roots..before]), median_s(&turns[before + 1..before + 4]))
    };
    // Of the last turn of all roots three of four, since a broadcast may meet something else.
    let avoid = |turns: &[f64], before: usize| {
        let (_, fallen_s) = compared_s(turns, before);
        let last = &turns[turns.len() - roots..];
        4 * last.iter().filter(|&&seconds| seconds < fallen_s / 2.0).count() >= 3 * roots
    };
    while !fell.is_some_and(|(before, _)| turns.len() > before + roots && avoid(&turns, before)) {
        assert!(program.ended().is_none(), "some roots do not avoid it: {turns:.3?}");
        if fell.is_none() && began.elapsed() > FALLS_AFTER {
            fell = Some((turns.len(), Instant::now()));
            let topology = grid.lab().topology();
            let rate_bytes_per_s = topology.link(0, 1).map(|link| FALLEN * link.rate_bytes_per_s);
            let change = LinkChange { rate_bytes_per_s, latency: None, loss: None };
            let [a, b] = [0, 1].map(|site: usize| &topology.sites[site].name);
            grid.lab().link(a, b, true, change).unwrap();
        }
        let lines = program.lines();
        turns.extend(lines.iter().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()));
        for line in job.lines().iter().filter(|line| line.contains("the network has changed")) {
            println!("{:5.1} s  {line}", began.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let (before, at) = fell.expect("the link has fallen");
    let ((usual_s, fallen_s), after) = (compared_s(&turns, before), at.elapsed());
    let waits_of = |node: &String| status(&grid, node)["hold_timeouts"].as_u64().unwrap();
    let waits: u64 = grid.nodes().iter().map(waits_of).sum();
    println!(
        "{usual_s:.3} s, {fallen_s:.3} s where it has fallen, {:.3} s {after:.0?} after that; {waits} waits",
        median_s(&turns[turns.len() - roots..])
    );
    assert!(fallen_s > 2.0 * usual_s, "no plan has used the link");
    assert!(waits <= 3, "{waits} waits of a quarter of a second");
}
