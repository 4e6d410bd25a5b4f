//! The machines fail, not the processes: no room in /dev/shm, a link that is cut, a clock that jumps, a host
//! that dies.

mod support;

use arborcast_tests::{Background, Grid, Run, compile_c, program};
use gridlab::{LinkChange, Mpi};
use std::time::{Duration, Instant};
use support::*;

const BYTES: &str = "100000";

#[test]
#[ignore = "long: make test-lab"]
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
    let mut daemon = grid.lab().exec(&nodes[2], program("arborcastd", Mpi::OpenMpi)).unwrap();
    let output = daemon.args(["--state-directory", "/run/arborcast/state"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("No space left"), "{text}");
    // With room all is as before, without a restart of those that ran.
    nodes.iter().for_each(|node| shell(&grid, node, free));
    grid.start_daemon(&nodes[2], &[]).unwrap();
    grid.wait_for_daemon(&nodes[2]).unwrap();
    let mut application = start(&grid, "bcast_steady.c", &["1", BYTES, "10", FOREVER]);
    application.wait_for_line("tree", LIMIT);
    end(&grid, application, Vec::new());
}

#[test]
#[ignore = "half a minute"]
fn a_link_that_is_cut_for_twenty_seconds_ends_no_program() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    plant(&grid, &nodes[0], 2, BYTES, &[nodes.join(",")]);
    let mut job = grid.experiment(&[]).unwrap();
    let link = |loss| {
        let change = LinkChange { loss: Some(loss), ..LinkChange::default() };
        grid.lab().link("a", "b", true, change).unwrap();
    };
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "10", FOREVER]);
    application.wait_for_line("tree", LIMIT);
    link(1.0);
    // TCP has sent it again after 25 s, and does so next after 51.
    std::thread::sleep(Duration::from_secs(20));
    link(0.0);
    application.lines();
    application.wait_for_line(" 0.", LIMIT);
    println!("a broadcast again");
    end(&grid, application, Vec::new());
    // With the demand that the program has left.
    job.wait_for_line(" trial ", LIMIT);
}

/// The epoch of the job that runs on all nodes, once it is one that `is_meant`.
fn epoch(grid: &Grid, is_meant: impl Fn(u64) -> bool) -> u64 {
    let of = |node: &String| status(grid, node)["epoch"].as_u64();
    wait_until("the job on all nodes", || {
        let nodes = grid.nodes();
        let first = of(&nodes[0]).filter(|&epoch| is_meant(epoch))?;
        nodes.iter().all(|node| of(node) == Some(first)).then_some(first)
    })
}

#[test]
#[ignore = "half a minute"]
fn a_wall_clock_that_jumps_by_weeks_stops_neither_programs_nor_searches() {
    const WEEKS_S: i64 = 3 * 7 * 24 * 3600;
    let mut grid = four_nodes();
    let (key, library) = with_own_clocks(&mut grid);
    let nodes = grid.nodes();
    let jump = |grid: &Grid, offset_s| {
        nodes.iter().for_each(|node| set_clock(grid, node, offset_s));
    };
    let start_job = |grid: &Grid| {
        let job = program("arborcast-experiment", Mpi::OpenMpi);
        let env = [(key.to_str().unwrap(), library.to_str().unwrap())];
        let command = grid.lab().mpirun(Mpi::OpenMpi, None, 1, &env, &[job.as_os_str()]).unwrap();
        Background::start(command, "arborcast-experiment").unwrap()
    };
    jump(&grid, WEEKS_S);
    grid.start_daemons(&["--linger", "0ms"]).unwrap();
    let first_job = start_job(&grid);
    let first = epoch(&grid, |_| true);
    // Its pauses leave the jobs room, so that both it and they live through the jump.
    let application = start(&grid, "bcast_steady.c", &["0", BYTES, "400", FOREVER]);
    let trials = |grid: &Grid| status(grid, &nodes[0])["trials"].as_u64().unwrap();
    wait_until("trials of the first job", || (trials(&grid) > 0).then_some(()));
    jump(&grid, -WEEKS_S);
    // Its clock is behind, and it is the newer one all the same.
    let second_job = start_job(&grid);
    let second = epoch(&grid, |epoch| epoch != first);
    assert_eq!(second, first + 1);
    drop((first_job, second_job));
    wait_until("the end of both jobs", || experiment_ranks(&grid).is_empty().then_some(()));
    let before = trials(&grid);
    let _third_job = start_job(&grid);
    assert!(epoch(&grid, |epoch| epoch != second) < first);
    wait_until("trials of the third job", || (trials(&grid) > before).then_some(()));
    end(&grid, application, Vec::new());
}

#[test]
#[ignore = "half a minute"]
fn a_host_that_is_killed_takes_its_own_programs_with_it_and_no_others() {
    let mut grid = four_nodes();
    let nodes = grid.nodes();
    let launch = launch(&grid);
    grid.start_daemon(&nodes[0], &["--experiment-launch", &launch]).unwrap();
    nodes[1..].iter().for_each(|node| grid.start_daemon(node, &[]).unwrap());
    nodes.iter().for_each(|node| grid.wait_for_daemon(node).unwrap());
    plant(&grid, &nodes[0], 5, BYTES, &[nodes.join(","), nodes[..3].join(",")]);
    let on = |grid: &Grid, ranks, seconds: &str| {
        let steady = compile_c("bcast_steady.c", Mpi::OpenMpi);
        let run = Run { ranks: Some(ranks), ..Run::default() };
        let command = grid.application(&run, &steady, &["0", BYTES, "50", seconds]).unwrap();
        Background::start(command, format!("a program on {ranks} nodes")).unwrap()
    };
    let (mut over, mut beside) = (on(&grid, 4, FOREVER), on(&grid, 3, FOREVER));
    over.wait_for_line("tree", LIMIT);
    beside.wait_for_line("tree", LIMIT);
    epoch(&grid, |_| true);
    let ranks = experiment_ranks(&grid);
    let killed = Instant::now();
    let mut daemon = grid.take_daemon(&nodes[3]).unwrap();
    daemon.signal(libc::SIGKILL);
    daemon.wait(LIMIT);
    kill_host(&grid, &nodes[3]);
    assert!(!over.wait(LIMIT).success(), "its rank is gone");
    println!("the program over it ended {:.1?} after the kill", killed.elapsed());
    beside.lines();
    beside.wait_for_line(" 0.", LIMIT);
    end(&grid, beside, Vec::new());
    start_host(&grid, &nodes[3]);
    grid.start_daemon(&nodes[3], &[]).unwrap();
    grid.wait_for_daemon(&nodes[3]).unwrap();
    let back = Instant::now();
    let mut again = on(&grid, 4, FOREVER);
    again.wait_for_line("tree", LIMIT);
    println!("a new program over it along trees {:.1?} after it was back", back.elapsed());
    end(&grid, again, Vec::new());
    wait_until("another job on all nodes", || {
        let now = experiment_ranks(&grid);
        let runs = |node: &String| status(&grid, node)["experiment"] != "none";
        let is_new = now.iter().all(|rank| !ranks.contains(rank));
        (is_new && nodes.iter().all(runs)).then_some(())
    });
    println!("another job on all nodes {:.1?} after it was back", back.elapsed());
}

#[test]
#[ignore = "long: make test-lab"]
fn a_node_whose_processors_are_taken_is_slow_and_nothing_else() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    plant(&grid, &nodes[0], 6, BYTES, &[nodes.join(",")]);
    let processors = std::thread::available_parallelism().unwrap().get();
    let spin = || {
        let mut command = grid.lab().exec(&nodes[2], "sh").unwrap();
        command.args(["-c", "while :; do :; done"]);
        Background::start(command, "a busy loop").unwrap()
    };
    let spinning: Vec<Background> = (0..2 * processors).map(|_| spin()).collect();
    let mut job = grid.experiment(&[]).unwrap();
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "20", "4"]);
    application.wait_for_line("tree", LIMIT);
    let said = finish(application, Vec::new());
    println!("{} broadcasts while its processors are taken", said.len());
    drop(spinning);
    job.wait_for_line(" trial ", LIMIT);
}
