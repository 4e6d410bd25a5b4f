use crate::measurement::{BroadcastResult, Outcome, Request, Seconds};
use crate::model::grids;
use crate::model::network::Network;
use crate::model::simulate::{simulate, transfers};
use crate::search::InUse;
use crate::search::schedule::tests::demand;
use crate::search::schedule::{Schedule, Settings};
use arborcast_proto::message::{Demand, Finding};
use arborcast_proto::{Group, NodeName, Plan, SizeClass, Target, Tree};
use std::collections::HashMap;
use std::time::{Duration, Instant};

const BYTES: u64 = 1 << 20;

/// Programs on the nodes of a network, and an experiment that knows nothing of it.
struct World {
    network: Network,
    names: Vec<NodeName>,
    schedule: Schedule,
    now: Instant,
    demand: HashMap<Target, Demand>,
    /// What programs pause between two broadcasts.
    pause_s: Option<Seconds>,
    /// Bytes of all transfers that were asked for.
    surveyed_bytes: u64,
    /// The last finding of each target.
    told: HashMap<Target, Finding>,
}

impl World {
    fn new() -> Self {
        let network = grids::four_site_mesh();
        let name = |node: usize| NodeName::new(format!("n{node:02}")).unwrap();
        let names: Vec<NodeName> = (0..network.len()).map(name).collect();
        let sites = vec![String::new(); names.len()];
        World {
            schedule: Schedule::new(Settings::default(), names.clone(), sites),
            network,
            names,
            now: Instant::now(),
            demand: HashMap::new(),
            pause_s: None,
            surveyed_bytes: 0,
            told: HashMap::new(),
        }
    }

    fn native_s(&self) -> Seconds {
        simulate(&self.network, &Plan::Native, 0, BYTES)
    }

    /// A program broadcasts natively, the most recent of all.
    fn broadcast(&mut self, nodes: &[usize], root: u16) -> Target {
        let names = nodes.iter().map(|&node| self.names[node].clone());
        let group = Group::new(names.collect()).unwrap();
        let target = Target { group: group.hash(), root, class: SizeClass::of(BYTES) };
        self.now += Duration::from_millis(500);
        let native_s = Some(self.native_s());
        let demand = Demand {
            pause_s: self.pause_s,
            quiets_s: self.pause_s.into_iter().collect(),
            native_s,
            ..demand(&group, root, BYTES)
        };
        self.demand.insert(target, demand.clone());
        self.schedule.note_demand(0, vec![demand], &[], self.now);
        target
    }

    /// Carries out one thing that the schedule asks for; whether it asked.
    fn step(&mut self) -> bool {
        let chosen = self.schedule.choose(self.now);
        let mut news = self.schedule.adapt(0.0, self.now);
        news.extend(self.schedule.plan(self.now));
        for finding in news.into_iter().flat_map(|news| news.findings) {
            self.told.insert(finding.target(), finding);
        }
        let Some((target, request)) = chosen else { return false };
        let outcome = match &request {
            Request::Broadcast { plan, .. } => {
                let seconds = self.takes_s(target, plan);
                // The program comes back before a longer one is over.
                let disturbed = self.pause_s.is_some_and(|pause_s| seconds > pause_s);
                Outcome::Broadcast(BroadcastResult { seconds, abandoned: false, disturbed })
            }
            Request::Transfers(round) => {
                let group = self.schedule.group(target).unwrap().clone();
                let network = self.network.subset(&self.nodes(&group));
                self.surveyed_bytes += round.iter().map(|transfer| transfer.bytes).sum::<u64>();
                let results = transfers(&network, round);
                Outcome::Transfers { results, disturbed: false }
            }
        };
        let spent_s = match &outcome {
            Outcome::Broadcast(result) => result.seconds,
            Outcome::Transfers { .. } => 0.1,
        };
        if let Some(report) = self.schedule.answer(target, outcome, spent_s, 0.0, self.now) {
            self.told.extend(report.findings.into_iter().map(|finding| (target, finding)));
        }
        self.schedule.learn(target);
        true
    }

    fn nodes(&self, group: &Group) -> Vec<usize> {
        group.places_in(&Group::new(self.names.clone()).unwrap()).unwrap()
    }

    fn takes_s(&self, target: Target, plan: &Plan) -> Seconds {
        let network = self.network.subset(&self.nodes(&self.demand[&target].group));
        simulate(&network, plan, target.root.into(), BYTES)
    }

    /// The plan that was told of last takes so long, and so long once there is nothing left to try.
    fn at_once_and_at_last_s(&mut self, target: Target) -> (Seconds, Seconds) {
        self.step();
        let at_once = self.told[&target].clone();
        assert!(!at_once.times.is_measured());
        while self.step() {}
        let at_last = self.told[&target].clone();
        assert!(at_last.times.is_measured());
        (self.takes_s(target, &at_once.plan), self.takes_s(target, &at_last.plan))
    }
}

#[test]
fn who_comes_after_the_job_has_been_idle_has_a_plan_at_once() {
    let mut world = World::new();
    while world.step() {}
    let surveyed_bytes = world.surveyed_bytes;
    assert!(surveyed_bytes > 0);
    assert!(!world.step() && world.told.is_empty(), "once, and no trials");
    // Programs whose pauses have no room for anything, soon and a day later.
    world.pause_s = Some(0.0);
    let groups = [(0..16).collect(), vec![0, 1, 4, 5, 12, 13]];
    for (nodes, root, later_h) in groups.iter().flat_map(|nodes| [(nodes, 2, 0), (nodes, 1, 24)]) {
        world.now += Duration::from_hours(later_h);
        let target = world.broadcast(nodes, root);
        world.step();
        let plan = world.told.get(&target).expect("by what is known of the links").plan.clone();
        let native_s = world.takes_s(target, &Plan::Native);
        let seconds = world.takes_s(target, &plan);
        assert!(seconds < native_s, "{seconds} s, natively {native_s} s");
    }
    assert_eq!(world.surveyed_bytes, surveyed_bytes);
}

#[test]
fn a_plan_that_nobody_has_measured_makes_way_for_a_better_one_and_a_measured_one_does_not() {
    for (nodes, is_measured) in
        [((0..16).collect(), false), (vec![0, 1, 4, 5, 12, 13], false), (vec![0, 4, 5, 12], true)]
    {
        let mut world = World::new();
        while world.step() {}
        world.pause_s = Some(0.0);
        let names = nodes.iter().map(|&node| world.names[node].clone());
        let group = Group::new(names.collect()).unwrap().hash();
        let target = Target { group, root: 0, class: SizeClass::of(BYTES) };
        let flat = Plan::single(Tree::flat(nodes.len(), 0).unwrap(), 16 << 10).unwrap();
        let in_use = InUse { plan: flat.clone(), is_measured };
        world.schedule.note_in_use(0, vec![(target, in_use)]);
        world.broadcast(&nodes, 0);
        world.step();
        world.step();
        assert_eq!(world.told.is_empty(), is_measured, "{:?}", world.told);
        if let Some(told) = world.told.get(&target) {
            let (flat_s, seconds) =
                (world.takes_s(target, &flat), world.takes_s(target, &told.plan));
            assert!(seconds < 0.7 * flat_s, "{seconds} s, {flat_s} s before");
        }
    }
}

#[test]
fn another_root_and_a_group_of_some_of_the_nodes_have_plans_at_once() {
    let mut world = World::new();
    let all: Vec<usize> = (0..16).collect();
    world.broadcast(&all, 0);
    while world.step() {}
    let surveyed_bytes = world.surveyed_bytes;
    assert!(surveyed_bytes > 0);
    for (nodes, root) in [(&all[..], 9), (&[1, 2, 6, 9, 10, 15][..], 3), (&all[8..], 0)] {
        let target = world.broadcast(nodes, root);
        let (at_once_s, at_last_s) = world.at_once_and_at_last_s(target);
        println!("{at_once_s} s at once, {at_last_s} s at last");
        assert!(at_once_s < 1.3 * at_last_s, "{at_once_s} s at once, {at_last_s} s at last");
    }
    assert_eq!(world.surveyed_bytes, surveyed_bytes, "nothing was measured twice");
}

#[test]
fn a_program_that_changes_its_root_has_plans_for_all_roots_before_it_broadcasts() {
    let mut world = World::new();
    let nodes = [0, 3, 4, 9, 14];
    world.broadcast(&nodes, 0);
    while world.step() {}
    assert!(world.told.len() < 3, "one root may be the only one");
    let group = world.broadcast(&nodes, 2).group;
    while world.step() {}
    assert_eq!(world.told.len(), nodes.len());
    for root in 0..nodes.len() as u16 {
        let finding = &world.told[&Target { group, root, class: SizeClass::of(BYTES) }];
        assert_eq!(finding.times.is_measured(), [0, 2].contains(&root), "root {root}");
        assert!(finding.times.median_s < world.native_s() / 2.0, "root {root}");
    }
}

#[test]
fn a_group_whose_root_changes_does_not_wait_behind_another() {
    let mut world = World::new();
    world.broadcast(&(0..16).collect::<Vec<_>>(), 0);
    while world.step() {}
    let nodes = [0, 3, 4, 9, 14];
    world.broadcast(&nodes, 0);
    while world.step() {}
    let group = world.broadcast(&nodes, 2).group;
    while world.step() {}
    let of_group = world.told.keys().filter(|target| target.group == group);
    assert_eq!(of_group.count(), nodes.len());
}

#[test]
fn roots_that_never_broadcast_have_their_plans_in_time_too() {
    let mut world = World::new();
    let nodes = [0, 3, 4, 9, 14];
    let group = world.broadcast(&nodes, 0).group;
    while world.step() {}
    for known in 2..=nodes.len() {
        assert_eq!(world.told.len(), known, "one after the other");
        world.now += Duration::from_secs(10);
        world.step();
        world.step();
    }
    let target = Target { group, root: 2, class: SizeClass::of(BYTES) };
    let foreseen = world.told[&target].plan.clone();
    world.broadcast(&nodes, 2);
    while world.step() {}
    let at_last = &world.told[&target];
    assert!(at_last.times.is_measured());
    let (at_once_s, at_last_s) =
        (world.takes_s(target, &foreseen), world.takes_s(target, &at_last.plan));
    assert!(at_once_s < 1.3 * at_last_s, "{at_once_s} s at once, {at_last_s} s at last");
}

#[test]
fn roots_without_room_for_a_trial_have_their_plans_too() {
    let mut world = World::new();
    let nodes = [0, 3, 4, 9, 14];
    world.pause_s = Some(0.11);
    for turn in 0..4000 {
        world.broadcast(&nodes, turn % 5);
        world.schedule.note_free(world.now);
        world.step();
    }
    assert_eq!(world.told.len(), nodes.len());
}

#[test]
fn many_roots_at_once_are_served_by_one_survey() {
    let surveyed_bytes = |roots: u16| {
        let mut world = World::new();
        let all: Vec<usize> = (0..16).collect();
        let mut root = 0;
        let mut is_busy = true;
        // Whoever broadcast last comes first, so that each root's search has its turn before the survey ends.
        while is_busy || world.told.len() < usize::from(roots) {
            world.broadcast(&all, root % roots);
            is_busy = world.step();
            root += 1;
            assert!(root < 20_000);
        }
        world.surveyed_bytes
    };
    assert_eq!(surveyed_bytes(6), surveyed_bytes(1));
}
