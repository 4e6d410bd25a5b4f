use super::*;
use crate::measurement::Seconds;
use crate::measurement::{BroadcastResult, Outcome};
use crate::model::grids;
use crate::model::simulate::{reports, simulate, transfers};
use crate::propose::propose;
use crate::propose::site_plan::USUAL_PACING;
use crate::search::InUse;
use crate::search::schedule::known::Known;
use crate::search::schedule::tests::demand;
use crate::search::schedule::{Settings, Wanted};
use crate::search::strategy::state::Knowledge;
use arborcast_proto::message::Demand;
use arborcast_proto::{Plan, SizeClass, StripeDelivery};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::time::Duration;

const BYTES: u64 = 1 << 20;

/// A program that broadcasts on a network, and an experiment.
pub struct World {
    network: Network,
    pub schedule: Schedule,
    pub target: Target,
    pub now: Instant,
    broadcasts: u32,
    /// How many times as long as on the network broadcasts along a plan take.
    pub slower: Box<dyn Fn(&Plan) -> f64>,
}

impl World {
    /// The experiment knows the network.
    fn new(network: Network) -> Self {
        let mut world = Self::unknown(network.clone(), None);
        let group = world.schedule.wanted[0].group.clone();
        let knowledge = Knowledge { network: Some(network), ..Knowledge::default() };
        world.schedule.known.insert(0, Known { group, knowledge, since: world.now });
        world
    }

    /// All that the experiment knows is what native broadcasts take.
    pub fn unknown(network: Network, native_s: Option<Seconds>) -> Self {
        Self::broadcasting(BYTES, network, native_s)
    }

    pub fn broadcasting(bytes: u64, network: Network, native_s: Option<Seconds>) -> Self {
        let name = |node: usize| NodeName::new(format!("n{node:02}")).unwrap();
        let names: Vec<NodeName> = (0..network.len()).map(name).collect();
        let group = Group::new(names.clone()).unwrap();
        let class = SizeClass::of(bytes);
        let target = Target { group: group.hash(), root: 0, class };
        let site = |node: usize| network.site_of(node).to_string();
        let sites = (0..network.len()).map(site).collect();
        let pause_s = Some(network.pause_s()).filter(|pause_s| *pause_s > 0.0);
        let settings = Settings { pause_s, ..Settings::default() };
        let mut schedule = Schedule::new(settings, names, sites);
        let now = Instant::now();
        let demand = Demand { native_s, ..demand(&group, 0, bytes) };
        schedule.note_demand(0, vec![demand], &[], now);
        World { network, schedule, target, now, broadcasts: 0, slower: Box::new(|_| 1.0) }
    }

    /// The experiment knows the network, and a program pauses so shortly that nothing fits; all of it is asked for until
    /// that has shown.
    pub fn without_room(network: Network, native_s: Seconds) -> Self {
        let mut world = Self::unknown(network.clone(), Some(native_s));
        let group = world.schedule.wanted[0].group.clone();
        let knowledge = Knowledge { network: Some(network), ..Knowledge::default() };
        world.schedule.known.insert(0, Known { group, knowledge, since: world.now });
        world.schedule.note_free(world.now);
        world.meet();
        world
    }

    /// The program goes on, comes whatever is begun, and waits unless that is in passing.
    pub fn meet(&mut self) {
        let Wanted { target, ref group, bytes, native_s, .. } = *self.schedule.wanted[0];
        const PAUSE_S: Seconds = 0.05;
        let demand = Demand {
            broadcasts: self.broadcasts.into(),
            pause_s: Some(PAUSE_S),
            quiets_s: vec![PAUSE_S],
            native_s,
            ..demand(group, target.root, bytes)
        };
        self.schedule.note_demand(0, vec![demand], &[], self.now);
        while let Some((target, request)) = self.schedule.choose(self.now) {
            let in_passing = self.schedule.asks_in_passing(target);
            let outcome = match request {
                Request::Broadcast { .. } => Outcome::Broadcast(BroadcastResult {
                    seconds: 1.0,
                    abandoned: false,
                    disturbed: true,
                }),
                Request::Transfers(round) => Outcome::Transfers {
                    results: transfers(&self.network, &round),
                    disturbed: !in_passing,
                },
            };
            self.schedule.answer(target, outcome, 1.0, 0.0, self.now);
        }
    }

    /// As much of what the schedule asks for as a plan takes.
    pub fn experiment_until_a_plan(&mut self) {
        let has_plan = |world: &Self| {
            let running = world.schedule.running.get(&world.target);
            running.is_some_and(|running| running.findings.plan().is_some())
        };
        while !has_plan(self) {
            assert!(self.step(), "there is no plan");
        }
    }

    /// For so long programs leave no room for anything.
    pub fn pass(&mut self, time: Duration) -> Vec<Adaptation> {
        self.schedule.choose(self.now);
        self.now += time;
        self.follow()
    }

    /// Looks at what nodes have said, and makes all plans that follow.
    pub fn follow(&mut self) -> Vec<Adaptation> {
        let mut done = self.schedule.adapt(0.0, self.now);
        loop {
            let is_last = !self.schedule.has_plans_to_make();
            done.extend(self.schedule.plan(self.now));
            if is_last {
                return done;
            }
        }
    }

    pub fn is_surveying(&self) -> bool {
        self.schedule.running[&self.target].search.is_surveying()
    }

    /// Carries out what the schedule asks for now; returns how much it asked for.
    pub fn experiment(&mut self) -> usize {
        let mut asked = 0;
        while self.step() {
            asked += 1;
        }
        asked
    }

    /// Carries out one thing that the schedule asks for; whether it asked.
    fn step(&mut self) -> bool {
        self.carry_out(|_| false)
    }

    /// The same where programs leave room for transfers alone.
    pub fn survey(&mut self) {
        self.carry_out(|request| matches!(request, Request::Broadcast { .. }));
    }

    fn carry_out(&mut self, is_disturbed: impl Fn(&Request) -> bool) -> bool {
        let Some((target, request)) = self.schedule.choose(self.now) else { return false };
        let disturbed = is_disturbed(&request);
        let outcome = match request {
            Request::Broadcast { plan, bytes, .. } => {
                let seconds = simulate(&self.network, &plan, 0, bytes);
                Outcome::Broadcast(BroadcastResult { seconds, abandoned: false, disturbed })
            }
            Request::Transfers(round) => {
                Outcome::Transfers { results: transfers(&self.network, &round), disturbed }
            }
        };
        self.schedule.answer(target, outcome, 0.1, 0.0, self.now);
        true
    }

    /// A program broadcasts from one of these nodes to the others, and its daemon has no plan.
    pub fn ask_among(&mut self, nodes: &[usize], root: usize, native_s: Option<Seconds>) -> Target {
        let names = nodes.iter().map(|&node| self.schedule.names[node].clone()).collect();
        let group = Group::new(names).unwrap();
        let target = Target { group: group.hash(), root: root as u16, class: SizeClass::of(BYTES) };
        let demand = Demand { native_s, ..demand(&group, root as u16, BYTES) };
        self.schedule.note_demand(nodes[root], vec![demand], &[], self.now);
        target
    }

    /// What a target's plan really takes among these nodes; `None` where it has none.
    pub fn takes_among_s(&self, nodes: &[usize], target: Target) -> Option<Seconds> {
        let plan = self.schedule.running.get(&target)?.findings.plan()?;
        Some(simulate(&self.network.subset(nodes), plan, target.root.into(), BYTES))
    }

    /// A native broadcast to all nodes, for which every one but the root waits so long.
    pub fn broadcast_natively(&mut self, target: Target, seconds: Seconds) {
        self.broadcasts += 1;
        let last_ns = (seconds * 1e9) as u64;
        let piece = StripeDelivery { stripe: 0, from: 0, bytes: BYTES, first_ns: 0, last_ns };
        let others = (0..self.network.len()).filter(|&node| node != usize::from(target.root));
        for node in others {
            let report = DeliveryReport {
                target,
                bytes: BYTES,
                broadcast: self.broadcasts,
                is_native: true,
                node: node as u16,
                listened_late: false,
                acknowledged: false,
                processor_wait_ns: 0,
                stripes: vec![piece],
            };
            self.schedule.note_deliveries(node, vec![report]);
        }
    }

    /// The network that plans go by, or will next.
    fn known(&self) -> Network {
        let knowledge = self.schedule.running[&self.target].search.knowledge();
        let changed = self.schedule.production.changed_network(self.target);
        changed
            .map_or_else(|| knowledge.network.clone().unwrap(), |changed| Network::clone(&changed))
    }

    pub fn plan(&self) -> Plan {
        self.schedule.running[&self.target].findings.plan().unwrap().clone()
    }

    /// What the plan in use really takes.
    pub fn takes_s(&self) -> Seconds {
        simulate(&self.network, &self.plan(), 0, BYTES)
    }

    /// The program broadcasts twice a second; returns what is done about what its nodes say.
    pub fn broadcast(&mut self, times: usize) -> Vec<Adaptation> {
        let mut done = Vec::new();
        for _ in 0..times {
            self.now += Duration::from_millis(500);
            self.broadcasts += 1;
            let plan = self.plan();
            let striping = plan.striping().unwrap();
            let slower = (self.slower)(&plan);
            for mut report in reports(&self.network, striping, self.target, BYTES) {
                report.broadcast = self.broadcasts;
                for stripe in &mut report.stripes {
                    let took_ns = (stripe.last_ns - stripe.first_ns) as f64 * slower;
                    stripe.last_ns = stripe.first_ns + took_ns as u64;
                }
                if report.node == 0 {
                    report.acknowledged = true;
                    let took_ns = 1e9 * slower * simulate(&self.network, &plan, 0, BYTES);
                    report.stripes[0].last_ns = took_ns as u64;
                }
                self.schedule.note_deliveries(report.node.into(), vec![report]);
            }
            done.extend(self.follow());
            self.schedule.note_free(self.now);
        }
        done
    }
}

#[test]
fn a_link_that_falls_is_avoided_at_once_and_used_again_when_it_is_as_before() {
    let usual = grids::four_site_mesh();
    let link = Parameter::LinkRate { from: 0, to: 1 };
    let fallen = link.set(&usual, link.of(&usual) / 10.0);
    let mut world = World::new(usual.clone());
    world.experiment();
    let best = world.plan();
    assert!(world.broadcast(20).is_empty());

    world.network = fallen.clone();
    let bad_s = world.takes_s();
    let done = world.broadcast(5);
    let [noticed, planned] = &done[..] else { panic!("{done:?}") };
    let [of_old, of_new] = &planned.findings[..] else { panic!("{done:?}") };
    assert!(!of_new.times.is_measured() && of_old.times.median_s > of_new.times.median_s);
    let (_, network) = noticed.network.as_ref().expect("operators see the link fall");
    let ratio = network.rate(0, 4) / link.of(&fallen);
    assert!((0.6..1.5).contains(&ratio), "{ratio} × what it has");
    let good_s = world.takes_s();
    assert!(good_s < bad_s / 2.0, "{good_s} s for {bad_s} s");
    assert!(world.broadcast(5).is_empty(), "once is enough");

    // What the change was is asked now and then, and nothing follows while it stands.
    world.experiment();
    world.now += Duration::from_secs(10);
    assert!(world.experiment() > 0);
    assert!(world.broadcast(5).is_empty());
    world.network = usual;
    world.now += Duration::from_secs(20);
    world.experiment();
    let done = world.broadcast(1);
    let told = done.iter().flat_map(|done| &done.findings).next_back();
    let told = told.expect("what was measured before is told");
    assert!(told.times.is_measured() && told.plan == best && world.plan() == best);
    world.experiment();
    world.now += Duration::from_secs(20);
    assert_eq!(world.experiment(), 0, "nothing is suspected any more");
}

#[test]
fn a_plan_that_a_daemon_has_made_follows_a_change_though_its_turn_has_not_come() {
    let usual = grids::four_site_mesh();
    let all: Vec<usize> = (0..usual.len()).collect();
    let mut world = World::new(usual.clone());
    world.experiment();
    world.broadcast(20);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let made = propose(&usual, 1, BYTES, USUAL_PACING, &mut random).remove(0).plan;
    let group = world.schedule.group(world.target).unwrap().clone();
    let target = Target { root: 1, ..world.target };
    world.schedule.note_in_use(1, vec![(target, InUse { plan: made, is_measured: false })]);
    world.schedule.note_demand(1, vec![demand(&group, 1, BYTES)], &[], world.now);

    let link = Parameter::LinkRate { from: 0, to: 1 };
    world.network = link.set(&usual, link.of(&usual) / 10.0);
    world.broadcast(5);
    let (takes_s, best_s) = (world.takes_among_s(&all, target).unwrap(), world.takes_s());
    assert!(takes_s < 1.3 * best_s, "{takes_s} s, where the other root takes {best_s} s");
}

#[test]
fn a_longer_way_is_told_from_a_slower_link() {
    // As hosts are: connections begin anew, which takes round trips.
    let usual = grids::four_site_mesh().after_pause(2.0);
    let ways = [(0, 1), (1, 0)].map(|(from, to)| Parameter::LinkLatency { from, to });
    let far = |network: Network, way: &Parameter| way.set(&network, way.of(&network) + 50e-3);
    let farther = ways.iter().fold(usual.clone(), far);
    let mut world = World::new(usual.clone());
    world.experiment();
    let usual_s = world.takes_s();
    assert!(world.broadcast(20).is_empty());

    world.network = farther.clone();
    let bad_s = world.takes_s();
    assert!(!world.broadcast(5).is_empty(), "it takes {bad_s} s instead of {usual_s} s");
    for _ in 0..3 {
        world.experiment();
        world.broadcast(3);
    }
    let (now_s, mut fresh) = (world.takes_s(), World::new(farther.clone()));
    fresh.experiment();
    let best_s = fresh.takes_s();
    assert!(now_s < 1.2 * best_s, "{usual_s} s, then {bad_s} s, now {now_s} s for {best_s} s");
    let known = world.known();
    for way in ways {
        let found_s = way.of(&known);
        assert!((found_s / way.of(&farther) - 1.0).abs() < 0.1, "{way:?}: {found_s} s");
    }
    let rate = Parameter::LinkRate { from: 0, to: 1 };
    let ratio = rate.of(&known) / rate.of(&farther);
    assert!((0.8..1.2).contains(&ratio), "{ratio} × what the link has");

    world.network = usual;
    world.now += Duration::from_secs(20);
    world.experiment();
    world.broadcast(3);
    assert!(world.takes_s() < 1.1 * usual_s, "{} s for {usual_s} s", world.takes_s());
}

/// What a program that leaves no room does about a change, and once all is as before: what a broadcast takes with the
/// change along the plan of before, with it along another, and at last.
fn without_room_s(usual: &Network, changed: &Network) -> [Seconds; 3] {
    let mut world = World::without_room(usual.clone(), 4.5);
    let mut broadcasts = |network: &Network, count: usize| {
        world.network = network.clone();
        let at_first_s = world.takes_s();
        for _ in 0..count {
            world.broadcast(1);
            world.meet();
        }
        (at_first_s, world.takes_s())
    };
    broadcasts(usual, 20);
    let (bad_s, good_s) = broadcasts(changed, 40);
    let (_, at_last_s) = broadcasts(usual, 120);
    [bad_s, good_s, at_last_s]
}

#[test]
fn what_is_as_before_is_found_where_programs_leave_no_room() {
    let usual = grids::four_site_mesh();
    let usual_s = World::without_room(usual.clone(), 4.5).takes_s();
    let link = Parameter::LinkRate { from: 0, to: 1 };
    let slower = link.set(&usual, link.of(&usual) / 10.0);
    let [bad_s, good_s, at_last_s] = without_room_s(&usual, &slower);
    assert!(good_s < bad_s / 2.0, "{good_s} s instead of {bad_s} s");
    assert!(at_last_s < 1.1 * usual_s, "{usual_s} s before, {at_last_s} s");

    // As hosts are: connections begin anew, which takes round trips.
    let usual = usual.after_pause(2.0);
    let usual_s = World::without_room(usual.clone(), 4.5).takes_s();
    let ways = [(0, 1), (1, 0)].map(|(from, to)| Parameter::LinkLatency { from, to });
    let longer = |network: Network, way: &Parameter| way.set(&network, way.of(&network) + 50e-3);
    let farther = ways.iter().fold(usual.clone(), longer);
    let [bad_s, good_s, at_last_s] = without_room_s(&usual, &farther);
    assert!(good_s < bad_s, "{good_s} s instead of {bad_s} s");
    assert!(at_last_s < 1.1 * usual_s, "{usual_s} s before, {at_last_s} s");
}

#[test]
fn a_longer_way_is_measured_before_anything_is_done_about_it() {
    let usual = grids::four_site_mesh();
    let inside = Parameter::LinkLatency { from: 1, to: 1 };
    let mut world = World::new(usual.clone());
    world.experiment();
    let plan = world.plan();
    world.broadcast(20);

    // Busy processors pass everything on late.
    world.network = inside.set(&usual, 80e-3);
    assert!(world.broadcast(10).is_empty());
    world.network = usual.clone();
    world.experiment();
    assert!(world.broadcast(3).is_empty());
    assert_eq!(world.plan(), plan);

    world.network = inside.set(&usual, 80e-3);
    world.broadcast(10);
    world.experiment();
    let known = world.known();
    let found_s = inside.of(&known);
    assert!((found_s / 80e-3 - 1.0).abs() < 0.1, "{found_s} s");
}

#[test]
fn a_way_that_has_become_longer_than_pauses_is_measured_too() {
    let usual = grids::four_site_mesh();
    let inside = Parameter::LinkLatency { from: 1, to: 1 };
    let mut world = World::new(usual.clone());
    world.experiment();
    world.broadcast(20);
    world.network = inside.set(&usual, 80e-3);
    world.broadcast(10);
    world.carry_out(|_| true);
    let found_s = inside.of(&world.known());
    assert!((found_s / 80e-3 - 1.0).abs() < 0.1, "{found_s} s");
}

#[test]
fn an_interface_is_measured_before_anything_is_done_about_it() {
    is_measured_first(grids::four_site_mesh(), Parameter::Send(0), Duration::ZERO);
}

#[test]
fn an_uplink_is_measured_before_anything_is_done_about_it() {
    is_measured_first(grids::five_regions(), Parameter::Egress(0), Duration::from_secs(20));
}

/// What many connections share falls, or seems to; it is found to have healed after so long.
fn is_measured_first(usual: Network, out: Parameter, healed_after: Duration) {
    let fallen = out.set(&usual, out.of(&usual) / 10.0);
    let mut world = World::new(usual.clone());
    world.experiment();
    let plan = world.plan();
    world.broadcast(20);

    // A processor that others use sends as slowly.
    world.network = fallen.clone();
    assert!(world.broadcast(10).is_empty());
    world.network = usual.clone();
    assert!(world.experiment() > 0, "it is measured");
    assert!(world.broadcast(3).is_empty());
    assert_eq!(world.plan(), plan);

    world.network = fallen.clone();
    world.broadcast(10);
    world.experiment();
    assert!(world.broadcast(1).is_empty(), "once may be a processor");
    for _ in 0..3 {
        world.now += Duration::from_secs(1);
        world.experiment();
    }
    let known = world.known();
    let found = out.of(&known);
    assert!((found / out.of(&fallen) - 1.0).abs() < 0.2, "{found} B/s");
    assert!(!world.broadcast(1).is_empty(), "it is told");

    // It seems to fall further, and is measured to have healed.
    world.broadcast(20);
    world.network = out.set(&usual, out.of(&usual) / 100.0);
    world.broadcast(10);
    world.network = usual.clone();
    world.now += healed_after;
    world.experiment();
    let known = world.known();
    assert_eq!(out.of(&known), out.of(&usual));
}

#[test]
fn a_change_that_hardly_matters_and_what_others_say_of_a_node_are_passed_over() {
    let usual = grids::four_site_mesh();
    let mut world = World::new(usual.clone());
    world.experiment();
    world.broadcast(20);
    let inside = Parameter::LinkLatency { from: 1, to: 1 };
    world.network = inside.set(&usual, 6e-3);
    assert!(world.broadcast(10).is_empty());

    let link = Parameter::LinkRate { from: 0, to: 1 };
    world.network = link.set(&usual, link.of(&usual) / 10.0);
    let plan = world.plan();
    for broadcast in 100..110 {
        for mut report in reports(&world.network, plan.striping().unwrap(), world.target, BYTES) {
            report.broadcast = broadcast;
            let another = (usize::from(report.node) + 1) % usual.len();
            world.schedule.note_deliveries(another, vec![report]);
        }
        assert!(world.follow().is_empty());
    }
}

#[test]
fn a_link_that_fell_while_nobody_used_it_shows_once_a_plan_does() {
    let usual = grids::four_site_mesh();
    let link = Parameter::LinkRate { from: 0, to: 1 };
    let fallen = link.set(&usual, link.of(&usual) / 10.0);
    let mut world = World::new(usual);
    world.experiment_until_a_plan();
    world.network = fallen.clone();
    let bad_s = world.takes_s();
    let mut found = World::new(fallen);
    found.experiment();
    let done = world.broadcast(5);
    assert!(done.iter().any(|done| done.what.contains("has changed")), "{done:?}");
    let (now_s, best_s) = (world.takes_s(), found.takes_s());
    println!("{bad_s} s, then {now_s} s for {best_s} s");
    assert!(bad_s > 2.0 * best_s && now_s < 1.2 * best_s);
}

#[test]
fn a_model_that_errs_as_models_do_is_no_change() {
    let mut world = World::new(grids::four_site_mesh());
    world.slower = Box::new(|_| 1.6);
    world.experiment();
    let plan = world.plan();
    let done = world.broadcast(100);
    assert!(done.iter().all(|done| !done.what.contains("has changed")), "{done:?}");
    assert_eq!(world.plan(), plan);
}
