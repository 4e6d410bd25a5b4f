use super::{FALLEN, MOST_PLANS, NO_ROOM};
use crate::measurement::Seconds;
use crate::model::grids;
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use crate::search::schedule::adapt::tests::World;
use arborcast_proto::{Plan, Target};
use std::time::Duration;

/// An experiment that surveys, and a program along a plan by latencies alone.
fn early(network: &Network) -> World {
    // So long that nearly any tree is far better.
    let mut world = World::unknown(network.clone(), Some(60.0));
    world.experiment_until_a_plan();
    assert!(world.is_surveying());
    world
}

/// What broadcasts of a program that leaves no room for a survey take: at first, after a minute or so, and with what
/// a survey and trials find.
fn taught(network: &Network) -> (Seconds, Seconds, Seconds) {
    let mut world = early(network);
    let early_s = world.takes_s();
    let plans = world.broadcast(200).iter().filter(|done| done.findings.len() > 1).count();
    assert!(plans <= MOST_PLANS as usize);
    let taught_s = world.takes_s();
    world.experiment();
    (early_s, taught_s, world.takes_s())
}

#[test]
fn broadcasts_teach_where_there_is_no_room_for_a_survey() {
    let (early_s, taught_s, surveyed_s) = taught(&grids::four_site_mesh());
    println!("{early_s} s, {taught_s} s, {surveyed_s} s");
    assert!(early_s > 1.4 * surveyed_s && taught_s < 1.2 * surveyed_s);
}

#[test]
fn most_of_what_a_survey_would_gain_is_gained_without_it() {
    const GRIDS: u64 = 8;
    let (mut early_ln, mut taught_ln) = (0.0, 0.0);
    for seed in 0..GRIDS {
        let (early_s, taught_s, surveyed_s) = taught(&grids::random(4, 4, seed));
        println!("{seed}: {early_s:.3} s, {taught_s:.3} s, {surveyed_s:.3} s");
        assert!(taught_s < 1.01 * early_s, "{seed}");
        early_ln += (early_s / surveyed_s).ln();
        taught_ln += (taught_s / surveyed_s).ln();
    }
    assert!(taught_ln < early_ln / 2.0, "{taught_ln} of {early_ln}");
}

#[test]
fn once_a_survey_has_ended_a_plan_by_it_waits_for_no_room_for_trials() {
    let mut world = early(&grids::four_site_mesh());
    let early_s = world.takes_s();
    while world.is_surveying() {
        world.survey();
    }
    world.survey();
    assert_eq!(world.broadcast(1).len(), 1);
    assert!(world.takes_s() < early_s / 1.3, "{} s, {early_s} s at first", world.takes_s());
}

#[test]
fn where_not_even_latencies_can_be_measured_the_configured_sites_give_the_first_plan() {
    let native_s = 4.5;
    let mut world = World::unknown(grids::four_site_mesh(), Some(native_s));
    assert!(world.pass(NO_ROOM / 2).is_empty());
    assert_eq!(world.pass(NO_ROOM).len(), 1);
    assert!(world.pass(NO_ROOM).is_empty(), "once");
    let first_s = world.takes_s();
    world.broadcast(200);
    let taught_s = world.takes_s();
    world.experiment();
    let surveyed_s = world.takes_s();
    println!("{first_s} s, {taught_s} s, {surveyed_s} s");
    assert!(first_s < native_s / 2.0 && taught_s < 1.4 * surveyed_s);
}

#[test]
fn a_trial_that_programs_leave_no_room_for_is_left_to_them() {
    let native_s = 1.5;
    let mut world = World::unknown(grids::four_site_mesh(), Some(native_s));
    while world.pass(Duration::ZERO).is_empty() {
        world.survey();
        assert!(world.is_surveying(), "nothing before its end");
    }
    assert!(world.takes_s() < native_s / 2.0);
}

#[test]
fn what_a_root_sees_of_a_short_broadcast_is_enough_where_sites_promise_far_better() {
    for (root_saw_s, plans) in [(0.17, 1), (0.02, 0)] {
        let mut world = World::broadcasting(64 << 10, grids::four_site_mesh(), Some(root_saw_s));
        world.pass(Duration::ZERO);
        assert_eq!(world.pass(NO_ROOM).len(), plans, "{root_saw_s} s");
    }
}

#[test]
fn a_plan_by_sites_that_falls_behind_native_makes_way_for_it() {
    // Links a hundred times slower than assumed, and a native broadcast that has not suffered from it.
    let mesh = grids::four_site_mesh();
    let links = (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
    let slow = links
        .filter(|(from, to)| from != to)
        .fold(mesh, |network, (from, to)| Parameter::LinkRate { from, to }.set(&network, 125e3));
    let mut world = World::unknown(slow, Some(1.0));
    world.pass(Duration::ZERO);
    (0..2).for_each(|_| world.broadcast_natively(world.target, 1.0));
    assert_eq!(world.pass(NO_ROOM).len(), 1);
    while world.plan() != Plan::Native {
        assert!(world.broadcast(1).len() <= 1);
    }
}

#[test]
fn programs_that_fell_back_while_the_network_was_disturbed_have_trees_again_after_a_while() {
    let native_s = 4.5;
    let mut world = World::unknown(grids::four_site_mesh(), Some(native_s));
    world.pass(Duration::ZERO);
    (0..2).for_each(|_| world.broadcast_natively(world.target, native_s));
    assert_eq!(world.pass(NO_ROOM).len(), 1);
    let first_s = world.takes_s();
    let mut rest = FALLEN;
    for _ in 0..3 {
        world.slower = Box::new(|_| 100.0);
        while world.plan() != Plan::Native {
            world.broadcast(1);
        }
        world.slower = Box::new(|_| 1.0);
        let is_early = !world.pass(rest - NO_ROOM).is_empty();
        let again = world.pass(NO_ROOM);
        assert!(!is_early && again.len() == 1 && world.plan() != Plan::Native, "{rest:?}");
        rest *= 2;
    }
    world.broadcast(200);
    let taught_s = world.takes_s();
    println!("{first_s} s, {taught_s} s");
    assert!(taught_s < first_s / 1.2);
}

#[test]
fn what_broadcasts_of_one_group_show_serves_another_at_once() {
    const COLUMN: [usize; 4] = [1, 5, 9, 13];
    let mesh = grids::four_site_mesh();
    let by_sites_s = {
        let mut world = World::unknown(mesh.clone(), Some(4.5));
        let target = world.ask_among(&COLUMN, 0, Some(4.5));
        world.pass(Duration::ZERO);
        world.pass(NO_ROOM);
        world.pass(Duration::ZERO);
        world.takes_among_s(&COLUMN, target).expect("a plan by sites")
    };
    let mut world = World::unknown(mesh, Some(4.5));
    world.pass(Duration::ZERO);
    world.pass(NO_ROOM);
    world.broadcast(50);
    let target = world.ask_among(&COLUMN, 0, Some(4.5));
    assert_eq!(world.pass(Duration::ZERO).len(), 1);
    let first_s = world.takes_among_s(&COLUMN, target).expect("a plan by what was seen");
    println!("{by_sites_s} s, {first_s} s");
    assert!(first_s < by_sites_s / 1.5);
}

#[test]
fn a_plan_by_sites_gives_way_to_one_by_what_another_group_shows() {
    const COLUMN: [usize; 4] = [1, 5, 9, 13];
    let mut world = World::unknown(grids::four_site_mesh(), Some(4.5));
    world.pass(Duration::ZERO);
    let target = world.ask_among(&COLUMN, 0, Some(4.5));
    world.pass(Duration::ZERO);
    world.pass(NO_ROOM);
    world.pass(Duration::ZERO);
    let by_sites_s = world.takes_among_s(&COLUMN, target).expect("a plan by sites");
    world.broadcast(50);
    let now_s = world.takes_among_s(&COLUMN, target).unwrap();
    println!("{by_sites_s} s, {now_s} s");
    assert!(now_s < by_sites_s / 1.5);
}

#[test]
fn roots_that_take_turns_have_plans_before_each_has_waited_twice() {
    let mut world = World::unknown(grids::four_site_mesh(), None);
    let all: Vec<usize> = (0..16).collect();
    let take_turns = |world: &mut World, root| {
        let target = world.ask_among(&all, root, None);
        // One alone tells nothing.
        world.broadcast_natively(target, 1.9);
        world.pass(Duration::from_secs(4)).len()
    };
    assert_eq!([0, 1, 2].map(|root| take_turns(&mut world, root)), [0, 1, 1]);
    let more = (0..40).map(|_| world.pass(Duration::from_millis(10)).len()).sum::<usize>();
    assert_eq!(more, 14);
    let has_plan = |&root: &usize| {
        let target = Target { root: root as u16, ..world.target };
        world.takes_among_s(&all, target).is_some()
    };
    assert_eq!(all.iter().filter(|root| has_plan(root)).count(), 16);
}

#[test]
fn where_what_is_seen_makes_plans_slower_the_best_one_comes_back() {
    let mut world = World::unknown(grids::four_site_mesh(), Some(4.5));
    world.pass(Duration::ZERO);
    world.pass(NO_ROOM);
    let by_sites = world.plan();
    let is_by_sites = by_sites.clone();
    // What makes all others slower is nothing that links show.
    world.slower = Box::new(move |plan| if *plan == is_by_sites { 1.0 } else { 10.0 });
    world.broadcast(100);
    assert_eq!(world.plan(), by_sites);
    assert!(world.broadcast(50).is_empty(), "once and for all");
}
