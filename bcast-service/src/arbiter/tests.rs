//! The arbiter against a world of clients whose words it reads only when it looks.

use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    linger: Duration::from_millis(100),
    hold_wait_max: Duration::from_millis(250),
    hold_max: Duration::from_secs(600),
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Application,
    Experiment { epoch: u64 },
}

#[derive(Debug, Clone)]
struct Client {
    kind: Kind,
    state: HoldState,
    /// An application that found the word not quiet sleeps until it is woken.
    asleep: bool,
}

/// The words of a node, the clients that write them, and a daemon around the arbiter.
struct World {
    arbiter: Arbiter,
    clients: BTreeMap<ClientId, Client>,
    now: Moment,
    /// The experiment word: its phase as clients see it and the grant's number.
    running: bool,
    stopping: bool,
    grant: u32,
}

#[derive(Debug, Clone)]
enum Op {
    Application(ClientId),
    Experiment(ClientId, u64),
    Die(ClientId),
    Claim(ClientId),
    Release(ClientId),
    /// The experiment notices that it is to stop, and says so; true: and rings.
    Answer(ClientId, bool),
    Pause(bool),
    Wait(u16),
    /// A claim right between the arbiter's decision to start and the daemon's look at the words.
    ClaimInTheGap(ClientId),
    /// Longer than a hold may stand.
    WaitLong,
    NonsenseTime(ClientId, u64),
}

fn free() -> HoldState {
    HoldState { holds: false, claims: 0, last_broadcast_ns: 0, hold_timeouts: 0, stopped_grant: 0 }
}

impl World {
    fn new() -> Self {
        World {
            arbiter: Arbiter::new(LIMITS),
            clients: BTreeMap::new(),
            now: Duration::from_secs(1000),
            running: false,
            stopping: false,
            grant: 0,
        }
    }

    fn connect(&mut self, id: ClientId, kind: Kind) -> bool {
        if self.clients.contains_key(&id) {
            return false;
        }
        match kind {
            Kind::Application => self.arbiter.connect_application(id),
            Kind::Experiment { epoch } => {
                let newest = self.arbiter.epoch();
                let answer = self.arbiter.connect_experiment(id, epoch);
                assert_eq!(answer.is_ok(), newest.is_none_or(|newest| epoch >= newest));
                if answer.is_err() {
                    return false;
                }
            }
        }
        self.clients.insert(id, Client { kind, state: free(), asleep: false });
        true
    }

    /// True: the application went to sleep and rang.
    fn claim(&mut self, id: ClientId) -> bool {
        let busy = self.running || self.stopping;
        match self.clients.get_mut(&id) {
            Some(client) if client.kind == Kind::Application && !client.asleep => {
                client.state.holds = true;
                client.state.claims += 1;
                client.asleep = busy;
                busy
            }
            _ => false,
        }
    }

    /// The daemon looks at the desk and does what the arbiter says.
    fn look(&mut self, claim_in_the_gap: Option<ClientId>) {
        for (&id, client) in &self.clients {
            self.arbiter.saw(id, &client.state, self.now);
        }
        let mut steps = 0;
        while let Some(action) = self.arbiter.poll(self.now) {
            steps += 1;
            assert!(steps < 20, "the arbiter finds no rest: {:?}", self.arbiter);
            match action {
                Action::Start => {
                    assert!(!self.running && !self.stopping, "started twice");
                    if let Some(id) = claim_in_the_gap {
                        self.claim(id);
                    }
                    self.grant += 1;
                    let stands = !self
                        .clients
                        .iter()
                        .any(|(&id, client)| self.arbiter.holds_back(id, &client.state, self.now));
                    (self.running, self.stopping) = (stands, !stands);
                    self.arbiter.started(self.grant, stands, self.now);
                }
                Action::Stop => (self.running, self.stopping) = (false, true),
                Action::Quiet => {
                    (self.running, self.stopping) = (false, false);
                    self.clients.values_mut().for_each(|client| client.asleep = false);
                }
                Action::Disconnect(id) => self.die(id),
            }
        }
        self.check();
    }

    fn die(&mut self, id: ClientId) {
        if self.clients.remove(&id).is_some() {
            self.arbiter.disconnect(id);
        }
    }

    fn check(&self) {
        let experiment = |client: &&Client| matches!(client.kind, Kind::Experiment { .. });
        if self.running {
            let fresh = |(id, client): (&ClientId, &Client)| {
                self.arbiter.holds_back(*id, &client.state, self.now)
            };
            assert!(!self.clients.iter().any(fresh), "runs while a hold stands");
            assert!(self.clients.values().any(|c| experiment(&c)), "runs without an experiment");
            assert_eq!(self.arbiter.holds(self.now), 0, "runs while a hold lingers");
            assert_eq!(self.arbiter.state(), ExperimentState::Running);
        }
        if !self.clients.values().any(|c| experiment(&c)) {
            assert!(!self.running && !self.stopping, "an experiment that is gone keeps the word");
        }
        for client in self.clients.values().filter(|client| client.asleep) {
            assert!(self.running || self.stopping, "asleep for ever: {client:?}");
        }
        if self.running || self.stopping {
            assert!(self.arbiter.next_look(self.now).is_some(), "nobody would look again");
        }
    }

    fn do_op(&mut self, op: &Op) {
        match *op {
            Op::Application(id) => {
                self.connect(id, Kind::Application);
            }
            Op::Experiment(id, epoch) => {
                if self.connect(id, Kind::Experiment { epoch }) {
                    self.look(None);
                }
            }
            Op::Die(id) => {
                self.die(id);
                self.look(None);
            }
            Op::Claim(id) => {
                if self.claim(id) {
                    self.look(None);
                }
            }
            Op::Release(id) => {
                let now = self.now;
                if let Some(client) = self.clients.get_mut(&id).filter(|c| !c.asleep) {
                    client.state.holds = false;
                    client.state.last_broadcast_ns = now.as_nanos() as u64;
                }
            }
            Op::Answer(id, rings) => {
                let grant = self.grant;
                if let (Some(client), true) = (self.clients.get_mut(&id), !self.running) {
                    client.state.stopped_grant = grant;
                    if rings {
                        self.look(None);
                    }
                }
            }
            Op::Pause(paused) => {
                self.arbiter.set_paused(paused);
                self.look(None);
                assert!(!(paused && self.running));
            }
            Op::Wait(ms) => {
                self.now += Duration::from_millis(ms.into());
                self.look(None);
            }
            Op::WaitLong => {
                self.now += LIMITS.hold_max;
                self.look(None);
            }
            Op::ClaimInTheGap(id) => self.look(Some(id)),
            Op::NonsenseTime(id, ns) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    client.state.last_broadcast_ns = ns;
                }
            }
        }
    }
}

fn any_op() -> impl Strategy<Value = Op> {
    let id = 0u64..5;
    prop_oneof![
        2 => id.clone().prop_map(Op::Application),
        2 => (id.clone(), 1u64..6).prop_map(|(id, epoch)| Op::Experiment(id, epoch)),
        1 => id.clone().prop_map(Op::Die),
        4 => id.clone().prop_map(Op::Claim),
        4 => id.clone().prop_map(Op::Release),
        4 => (id.clone(), any::<bool>()).prop_map(|(id, rings)| Op::Answer(id, rings)),
        1 => any::<bool>().prop_map(Op::Pause),
        4 => (0u16..400).prop_map(Op::Wait),
        1 => Just(Op::WaitLong),
        2 => id.clone().prop_map(Op::ClaimInTheGap),
        1 => (id, any::<u64>()).prop_map(|(id, ns)| Op::NonsenseTime(id, ns)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_order_of_events_breaks_the_rules(ops in proptest::collection::vec(any_op(), 1..80)) {
        let mut world = World::new();
        for op in &ops {
            world.do_op(op);
        }
        // No application waits longer than hold_wait_max, whatever the experiment does.
        world.look(None);
        world.now += LIMITS.hold_wait_max;
        world.look(None);
        let asleep = world.clients.values().filter(|client| client.asleep).count();
        prop_assert_eq!(asleep, 0, "{:?}", world.arbiter);

        // When all holds are gone, the newest experiment runs, whatever came before.
        let slots: Vec<ClientId> = world.clients.keys().copied().collect();
        for id in slots {
            world.do_op(&Op::Release(id));
        }
        world.arbiter.set_paused(false);
        world.now += LIMITS.linger;
        world.look(None);
        world.now += LIMITS.hold_wait_max;
        world.look(None);
        world.now += LIMITS.hold_wait_max * UNANSWERED_REST;
        world.look(None);
        let connected = world.arbiter.epoch().is_some();
        prop_assert_eq!(world.running, connected, "{:?}", world.arbiter);

        // When the experiments are gone, the word is quiet and nobody looks for nothing.
        let slots: Vec<ClientId> = world.clients.keys().copied().collect();
        for id in slots {
            world.die(id);
        }
        world.look(None);
        prop_assert!(!world.running && !world.stopping);
        prop_assert_eq!(world.arbiter.next_look(world.now), None);
    }
}

/// A node with an experiment at id 0 that runs, and applications at slots 1 and 2.
fn running_world() -> World {
    let mut world = World::new();
    world.do_op(&Op::Application(1));
    world.do_op(&Op::Application(2));
    world.do_op(&Op::Experiment(0, 7));
    assert!(world.running);
    world
}

#[test]
fn scenario_1_an_application_stops_the_experiment() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1)); // p
    assert!(world.stopping, "e");
    assert!(world.clients[&1].asleep);
    world.do_op(&Op::Answer(0, true)); // s
    assert!(!world.stopping && !world.clients[&1].asleep, "g");
    assert_eq!(world.arbiter.state(), ExperimentState::Waiting);
}

#[test]
fn scenario_2_the_experiment_goes_on_after_the_last_hold() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Claim(2));
    world.do_op(&Op::Answer(0, true));
    world.do_op(&Op::Release(1)); // f
    world.do_op(&Op::Wait(150));
    assert!(!world.running, "the second application still holds");
    world.do_op(&Op::Release(2));
    world.do_op(&Op::Wait(90));
    assert!(!world.running, "it lingers");
    world.do_op(&Op::Wait(10));
    assert!(world.running, "b");
}

#[test]
fn a_program_whose_pauses_are_shorter_than_holds_linger_is_interrupted_now_and_then() {
    let mut world = running_world();
    let mut runs = 0;
    for _ in 0..100 {
        world.do_op(&Op::Claim(1));
        world.do_op(&Op::Answer(0, true));
        world.do_op(&Op::Wait(30));
        world.do_op(&Op::Release(1));
        assert!(!world.running, "the daemon looks at the end of the pause");
        world.do_op(&Op::Wait(50));
        runs += u32::from(world.running);
    }
    // In 8 s, once a second.
    assert!((6..=8).contains(&runs), "{runs}");
}

#[test]
fn an_experiment_that_does_not_stop_holds_nobody_up_for_long() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Wait(249));
    assert!(world.clients[&1].asleep);
    world.do_op(&Op::Wait(1));
    assert!(!world.clients[&1].asleep);
    assert_eq!(world.arbiter.overdue_stops(), 1);
    world.do_op(&Op::Release(1));
    world.do_op(&Op::Wait(1000));
    assert!(!world.running, "it rests until it has answered");
    world.do_op(&Op::Answer(0, true));
    assert!(world.running);
}

#[test]
fn a_hold_that_nobody_renews_does_not_stop_the_grid_for_ever() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Answer(0, true));
    let almost = LIMITS.hold_max - Duration::from_millis(1);
    world.now += almost;
    world.look(None);
    assert!(!world.running, "it may still be broadcasting");
    // Another broadcast of the same program, which another of its threads holds on through.
    let now_ns = world.now.as_nanos() as u64;
    world.clients.get_mut(&1).unwrap().state.last_broadcast_ns = now_ns;
    world.look(None);
    world.now += almost;
    world.look(None);
    assert!(!world.running, "it was alive when it was last seen");
    world.do_op(&Op::Wait(1));
    assert!(world.running, "it hangs");
    assert_eq!((world.arbiter.holds(world.now), world.arbiter.forgotten_holds(world.now)), (0, 1));
    // It comes back without ever having released its hold, and is heard at once.
    world.do_op(&Op::Claim(1));
    assert!(world.stopping && world.clients[&1].asleep);
    world.do_op(&Op::Answer(0, true));
    assert!(!world.clients[&1].asleep);
    world.do_op(&Op::Wait(1000));
    assert!(!world.running, "it holds again");
}

#[test]
fn a_forgotten_hold_that_is_claimed_anew_in_the_gap_takes_the_grant_back() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Claim(2));
    world.do_op(&Op::Answer(0, true));
    world.now += LIMITS.hold_max;
    let grant = world.grant;
    world.look(Some(1));
    assert_eq!(world.grant, grant + 1, "a start was tried");
    assert!(!world.running);
}

#[test]
fn a_late_answer_is_not_taken_for_a_newer_grant() {
    let mut world = running_world();
    let first = world.grant;
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Answer(0, true));
    world.do_op(&Op::Release(1));
    world.do_op(&Op::Wait(200));
    assert!(world.running && world.grant == first + 1);
    world.do_op(&Op::Claim(1));
    assert_eq!(world.clients[&0].state.stopped_grant, first);
    assert!(world.stopping, "the answer to the first grant does not count");
}

#[test]
fn a_newer_job_takes_the_place_of_an_older_one_when_that_has_stopped() {
    let mut world = running_world();
    assert!(!world.connect(3, Kind::Experiment { epoch: 6 }), "one job at a time");
    world.do_op(&Op::Experiment(3, 8));
    assert!(world.stopping && world.clients.contains_key(&0));
    world.do_op(&Op::Answer(0, true));
    assert!(world.running, "the newer one runs");
    assert!(!world.clients.contains_key(&0), "the older one was disconnected");
}

#[test]
fn a_job_that_connects_again_takes_its_own_place() {
    let mut world = running_world();
    // The daemon did not answer in time, and has not seen yet that the connection was closed.
    world.do_op(&Op::Experiment(3, 7));
    assert!(world.clients.contains_key(&3), "it is not refused for its own sake");
    world.do_op(&Op::Die(0));
    assert!(world.running, "it runs on the new connection");
}

#[test]
fn the_death_of_a_holder_or_of_the_experiment_frees_the_others() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Die(0));
    assert!(!world.clients[&1].asleep && !world.stopping);
    world.do_op(&Op::Experiment(0, 9));
    assert!(!world.running);
    world.do_op(&Op::Die(1));
    assert!(world.running);
}
