//! The machines fail, not the processes: no room in /dev/shm, a link that is cut.

mod support;

use gridlab::{LinkChange, Mpi};
use std::time::Duration;
use support::*;

const BYTES: &str = "100000";

#[test]
fn a_full_shared_memory_ends_no_daemon_and_lets_none_start() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let (fill, free) = ("head -c 1G /dev/zero > /dev/shm/filler || true", "rm /dev/shm/filler");
    for node in &nodes {
        shell(&grid, node, "mount -o remount,size=4m /dev/shm");
        shell(&grid, node, fill);
    }
    // Far more plans than the pages that the board has hold.
    let sizes = (10..22).map(|power| (1u64 << power).to_string()).collect::<Vec<_>>().join(",");
    let planted = plant(&grid, &nodes[1], 1, &sizes, &all_groups(&nodes)) as u64;
    assert_eq!(status(&grid, &nodes[1])["plans"], planted, "it knows them");
    let said = finish(start(&grid, "bcast_steady.c", &["1", "777", "10", "2"]), Vec::new());
    println!("{} broadcasts while it is full", said.len());
    // Another daemon cannot start, and says why.
    grid.take_daemon(&nodes[2]).unwrap().signal(libc::SIGKILL);
    shell(&grid, &nodes[2], &format!("rm /dev/shm/arborcast-board-*; {fill}"));
    let mut daemon =
        grid.lab().exec(&nodes[2], arborcast_tests::program("arborcastd", Mpi::OpenMpi)).unwrap();
    let output = daemon.args(["--state-directory", "/run/arborcast/state"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("No space left"), "{text}");
    // With room all is as before, without a restart of those that ran.
    nodes.iter().for_each(|node| shell(&grid, node, free));
    grid.start_daemon(&nodes[2], &[]).unwrap();
    grid.wait_for_daemon(&nodes[2]).unwrap();
    let mut application = start(&grid, "bcast_steady.c", &["1", BYTES, "10", "5"]);
    application.wait_for_line("tree", LIMIT);
    finish(application, Vec::new());
}

#[test]
#[ignore = "a minute"]
fn a_link_that_is_cut_for_half_a_minute_ends_no_program() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    plant(&grid, &nodes[0], 2, BYTES, &[nodes.join(",")]);
    let mut job = grid.experiment(&[]).unwrap();
    let link = |loss| {
        let change = LinkChange { loss: Some(loss), ..LinkChange::default() };
        grid.lab().link("a", "b", true, change).unwrap();
    };
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "10", "45"]);
    application.wait_for_line("tree", LIMIT);
    link(1.0);
    std::thread::sleep(Duration::from_secs(30));
    link(0.0);
    application.lines();
    application.wait_for_line(" 0.", LIMIT);
    println!("a broadcast again");
    finish(application, Vec::new());
    // With the demand that the program has left.
    job.wait_for_line(" trial ", LIMIT);
}
