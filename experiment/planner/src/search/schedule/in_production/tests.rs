use super::InProduction;
use crate::model::grids;
use crate::search::schedule::Adaptation;
use crate::search::schedule::adapt::tests::World;

const NATIVE_S: f64 = 4.5;

/// So many broadcasts of a program that leaves no room; what is done.
fn broadcasts(world: &mut World, count: usize) -> Vec<Adaptation> {
    let mut done = Vec::new();
    for _ in 0..count {
        done.extend(world.broadcast(1));
        world.meet();
    }
    done
}

fn trials(done: &[Adaptation]) -> usize {
    done.iter().filter(|done| done.trial.is_some()).count()
}

#[test]
fn where_there_is_no_room_for_trials_programs_measure_the_plan_that_they_use() {
    let mut world = World::without_room(grids::four_site_mesh(), NATIVE_S);
    let done = broadcasts(&mut world, 12);
    let trial = done.iter().find_map(|done| done.trial.clone()).expect("it is a trial");
    let times = trial.times.expect("and over");
    assert!((times.median_s / world.takes_s() - 1.0).abs() < 0.01, "{times:?}");
    assert_eq!(trial.plan, world.plan());
    let told = done.iter().flat_map(|done| &done.findings).next_back().expect("it is told");
    assert!(told.times.is_measured() && told.plan == trial.plan);
}

#[test]
fn a_root_whose_turn_does_not_come_has_its_plan_by_programs_trials() {
    let mut world = World::without_room(grids::four_site_mesh(), NATIVE_S);
    let all: Vec<usize> = (0..world.schedule.names.len()).collect();
    let takes_s = |world: &World, target| world.takes_among_s(&all, target);
    let planned_s = takes_s(&world, world.target).unwrap();
    // Better than native by more than the model errs, and not far better.
    let other = world.ask_among(&all, 1, Some(1.5 * planned_s));
    world.follow();
    let found_s = takes_s(&world, other).expect("it has a plan");
    assert!(found_s < 1.2 * planned_s, "{found_s} s");
    let plain = world.ask_among(&all, 2, Some(1.05 * planned_s));
    world.follow();
    assert_eq!(takes_s(&world, plain), None, "it might be no better");
}

#[test]
fn a_plan_that_disappoints_makes_way_for_another() {
    let mut world = World::without_room(grids::four_site_mesh(), NATIVE_S);
    let first = world.plan();
    let disappointing = first.clone();
    world.slower = Box::new(move |plan| if *plan == disappointing { 1.8 } else { 1.0 });
    let done = broadcasts(&mut world, 60);
    assert!(trials(&done) >= 2, "{done:?}");
    assert!(world.plan() != first);
}

#[test]
fn what_is_slower_is_dropped_at_once_and_all_of_it_bounded() {
    let mut world = World::without_room(grids::four_site_mesh(), NATIVE_S);
    // Others promise to be faster by more than the model errs, and are slower.
    let first = world.plan();
    let fastest = first.clone();
    world.slower = Box::new(move |plan| if *plan == fastest { 1.4 } else { 1.9 });
    let (mut away, mut longest_away, mut tried) = (0, 0, 0);
    for _ in 0..400 {
        tried += trials(&broadcasts(&mut world, 1));
        away = if world.plan() == first { 0 } else { away + 1 };
        longest_away = longest_away.max(away);
    }
    let InProduction { cost_s, broadcasts_s: all_s, .. } = world.schedule.in_production;
    println!("{tried} trials, {cost_s} s of {all_s} s, {longest_away} broadcasts in a row");
    assert!(tried > 2, "nothing was tried");
    assert!(longest_away <= 6);
    assert!(cost_s < 0.02 * all_s);
    assert_eq!(world.plan(), first);
}
