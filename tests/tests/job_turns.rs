//! A program whose roots take turns, in several communicators at once, and leave the experiment no room: what one of its
//! broadcasts shows of the links has to serve all others.

mod support;

use arborcast_proto::message::Times;
use arborcast_tests::{Grid, grid_file};
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
