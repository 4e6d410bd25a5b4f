//! Processes are killed, missing or of the wrong kind: the application finishes with right data. The
//! programs check every byte on every rank themselves and fail otherwise.

mod support;

use arborcast_tests::{Background, Grid, program};
use gridlab::Mpi;
use std::time::{Duration, Instant};
use support::*;

const BYTES: &str = "100000";
/// Trials do not pause before each broadcast, as programs are taken to do.
const SEARCH: [&str; 4] = ["--strategy", "random-transform", "--pause", "0s"];

fn count(lines: &[String], start: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(start)).count()
}

/// The daemon of a node has saved what it knows.
fn wait_until_saved(grid: &Grid, node: &str) {
    let saved = "until [ -s /run/arborcast/state/arborcast.wisdom ]; do sleep 0.1; done";
    shell(grid, node, saved);
}

#[test]
fn killed_daemons_are_done_without_and_found_again() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    let all = [nodes.join(",")];
    plant(&grid, &nodes[1], 1, BYTES, &all);
    // The root's daemon and another one.
    let killed = [nodes[1].as_str(), nodes[3].as_str()];
    let mut application = start(&grid, "bcast_steady.c", &["1", BYTES, "10", FOREVER]);
    let mut said = vec![application.wait_for_line("tree", LIMIT)];
    for node in killed {
        grid.take_daemon(node).unwrap().signal(libc::SIGKILL);
    }
    said.push(application.wait_for_line("native", LIMIT));
    for node in killed {
        assert!(!grid.operator(node, &["status"]).unwrap().status.success(), "it is dead");
        grid.start_daemon(node, &[]).unwrap();
        grid.wait_for_daemon(node).unwrap();
    }
    plant(&grid, &nodes[1], 2, BYTES, &all);
    said.push(application.wait_for_line("tree", LIMIT));
    let again = wait_until("the new daemon to see broadcasts", || {
        status(&grid, &nodes[1])["broadcasts"].as_u64().filter(|&seen| seen > 0)
    });
    let said = end(&grid, application, said);
    println!("the new daemon saw {again} broadcasts; {} lines in all", said.len());
}

#[test]
#[ignore = "long: make test-lab"]
fn a_daemon_that_is_back_is_used_again_with_the_plans_it_had() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let nodes = grid.nodes();
    plant(&grid, &nodes[0], 4, BYTES, &[nodes.join(",")]);
    wait_until_saved(&grid, &nodes[0]);
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "100", FOREVER]);
    application.wait_for_line("tree", LIMIT);
    grid.take_daemon(&nodes[0]).unwrap().signal(libc::SIGKILL);
    application.wait_for_line("native", LIMIT);
    // Long enough for it to be native for many broadcasts at a time: it looks again after 1 s, then after 2, then 4.
    std::thread::sleep(Duration::from_secs(4));
    grid.start_daemon(&nodes[0], &[]).unwrap();
    grid.wait_for_daemon(&nodes[0]).unwrap();
    let back = Instant::now();
    application.lines();
    application.wait_for_line("tree", LIMIT);
    println!("along trees {:.1?} after the daemon was back", back.elapsed());
    end(&grid, application, Vec::new());
}

#[test]
#[ignore = "long: make test-lab"]
fn a_daemon_of_another_version_is_done_without_until_the_right_one_is_back() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let root = grid.nodes()[0].clone();
    plant(&grid, &root, 7, BYTES, &[grid.nodes().join(",")]);
    wait_until_saved(&grid, &root);
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "50", FOREVER]);
    let mut said = vec![application.wait_for_line("tree", LIMIT)];
    for differs_in in ["frames", "layout"] {
        let mut daemon = grid.take_daemon(&root).unwrap();
        daemon.signal(libc::SIGKILL);
        daemon.wait(LIMIT);
        let other = program("other-version", Mpi::OpenMpi);
        let mut other = grid.lab().exec(&root, other).unwrap();
        other.arg(differs_in);
        let mut other = Background::start(other, differs_in).unwrap();
        said.push(application.wait_for_line("native", LIMIT));
        let begun = finish(start(&grid, "bcast_steady.c", &["0", BYTES, "10", "2"]), Vec::new());
        assert_eq!((count(&begun, "tree"), count(&begun, "arborcast:")), (0, 1), "{begun:?}");
        said.extend(application.lines());
        assert_eq!(other.ended(), None);
        other.signal(libc::SIGKILL);
        other.wait(LIMIT);
        grid.start_daemon(&root, &[]).unwrap();
        grid.wait_for_daemon(&root).unwrap();
        let back = Instant::now();
        said.push(application.wait_for_line("tree", LIMIT));
        println!("along trees {:.1?} after the right version was back", back.elapsed());
    }
    let said = end(&grid, application, said);
    assert!(count(&said, "arborcast:") <= 1, "{said:?}");
}

#[test]
#[ignore = "long: make test-lab"]
fn a_daemon_whose_names_were_removed_is_used_again() {
    let mut grid = four_nodes();
    grid.start_daemons(&[]).unwrap();
    let root = grid.nodes()[0].clone();
    plant(&grid, &root, 8, BYTES, &[grid.nodes().join(",")]);
    let mut application = start(&grid, "bcast_steady.c", &["0", BYTES, "50", FOREVER]);
    application.wait_for_line("tree", LIMIT);
    shell(&grid, &root, "rm /run/arborcast/arborcastd.sock* /dev/shm/arborcast-board-*");
    let removed = Instant::now();
    grid.wait_for_daemon(&root).unwrap();
    wait_until("the daemon to see the program's broadcasts", || {
        (status(&grid, &root)["broadcasts"].as_u64() > Some(0)).then_some(())
    });
    println!("its daemon sees broadcasts {:.1?} after they were removed", removed.elapsed());
    application.lines();
    application.wait_for_line("tree", LIMIT);
    end(&grid, application, Vec::new());
}

#[test]
fn a_job_whose_rank_was_killed_is_started_again_by_its_daemon() {
    let mut grid = four_nodes();
    let nodes = grid.nodes();
    let launch = launch(&grid);
    grid.start_daemon(&nodes[0], &["--experiment-launch", &launch]).unwrap();
    nodes[1..].iter().for_each(|node| grid.start_daemon(node, &[]).unwrap());
    nodes.iter().for_each(|node| grid.wait_for_daemon(node).unwrap());
    let searches = |known: &[u32]| {
        wait_until("a job on all nodes", || {
            let ranks = experiment_ranks(&grid);
            let runs = |node: &String| status(&grid, node)["experiment"] == "running";
            let is_new = ranks.iter().all(|rank| !known.contains(rank));
            (is_new && nodes.iter().all(runs)).then_some(ranks)
        })
    };
    let first = searches(&[]);
    signal(&first[..1], libc::SIGKILL);
    let killed = Instant::now();
    searches(&first);
    println!("another job runs on all nodes {:.1?} after the kill", killed.elapsed());
}

#[test]
fn a_killed_experiment_hurts_nobody_and_another_one_goes_on() {
    let mut grid = four_nodes();
    // Without linger the experiment works in every gap between two broadcasts.
    grid.start_daemons(&["--linger", "0ms"]).unwrap();
    let nodes = grid.nodes();
    let mut experiment = grid.experiment(&SEARCH).unwrap();
    let application = start(&grid, "bcast_steady.c", &["0", BYTES, "200", FOREVER]);
    experiment.wait_for_line(" trial 1:", LIMIT);
    let ranks = experiment_ranks(&grid);
    assert_eq!(ranks.len(), nodes.len());
    let before = status(&grid, &nodes[0])["broadcasts"].as_u64();
    experiment.signal(libc::SIGKILL);
    signal(&ranks, libc::SIGKILL);
    wait_until("broadcasts after the kill", || {
        let status = status(&grid, &nodes[0]);
        (status["broadcasts"].as_u64() > before && status["experiment"] == "none").then_some(())
    });
    experiment = grid.experiment(&SEARCH).unwrap();
    experiment.wait_for_line(" trial 1:", LIMIT);
    let said = end(&grid, application, Vec::new());
    println!("{} broadcasts native, {} along trees", count(&said, "native"), count(&said, "tree"));
}

#[test]
fn without_a_daemon_an_application_runs_natively_and_says_so_once() {
    let mut grid = four_nodes();
    let nodes = grid.nodes();
    for node in &nodes[..3] {
        grid.start_daemon(node, &[]).unwrap();
        grid.wait_for_daemon(node).unwrap();
        plant(&grid, node, 3, BYTES, &[nodes.join(",")]);
    }
    let said = finish(start(&grid, "bcast_steady.c", &["0", BYTES, "10", "2"]), Vec::new());
    let told: Vec<_> = said.iter().filter(|line| line.starts_with("arborcast:")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(&format!("node {} has no daemon", nodes[3])), "{told:?}");
    assert_eq!(count(&said, "tree"), 0);
    assert!(count(&said, "native") > 10, "{said:?}");
}
