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
    stopping_since: Moment,
    starts: u32,
}

#[derive(Debug, Clone)]
enum Op {
    Application(ClientId),
    Experiment(ClientId, u64),
    Die(ClientId),
    Claim(ClientId),
    Release(ClientId),
    /// A rank is about to send, if it may.
    Enter(ClientId),
    /// It sends no more; true: and rings where it sees that it is to stop.
    Leave(ClientId, bool),
    Pause(bool),
    Wait(u16),
    /// A claim right between the arbiter's decision to start and the daemon's look at the words, and a rank that enters
    /// between the daemon's word and its look at who holds.
    InTheGap(ClientId, ClientId),
    /// Longer than a hold may stand.
    WaitLong,
    NonsenseTime(ClientId, u64),
}

fn free() -> HoldState {
    HoldState { holds: false, claims: 0, last_broadcast_ns: 0, hold_timeouts: 0 }
}

impl World {
    fn new() -> Self {
        World {
            arbiter: Arbiter::new(LIMITS),
            clients: BTreeMap::new(),
            now: Duration::from_secs(1000),
            running: false,
            stopping: false,
            stopping_since: Duration::ZERO,
            starts: 0,
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

    /// A rank enters, where it finds that it may run.
    fn enter(&mut self, id: ClientId) {
        let running = self.running;
        if let Some(client) = self.experiment(id) {
            client.state.holds |= running;
        }
    }

    fn experiment(&mut self, id: ClientId) -> Option<&mut Client> {
        let client = self.clients.get_mut(&id);
        client.filter(|client| matches!(client.kind, Kind::Experiment { .. }))
    }

    fn set_phase(&mut self, running: bool, stopping: bool) {
        (self.running, self.stopping) = (running, stopping);
        if stopping {
            self.stopping_since = self.now;
        }
    }

    fn see_holds(&mut self) {
        for (&id, client) in &self.clients {
            self.arbiter.saw(id, &client.state, self.now);
        }
    }

    /// The daemon looks at the desk and does what the arbiter says.
    fn look(&mut self, in_the_gap: Option<(ClientId, ClientId)>) {
        self.see_holds();
        let mut steps = 0;
        while let Some(action) = self.arbiter.poll(self.now) {
            steps += 1;
            assert!(steps < 20, "the arbiter finds no rest: {:?}", self.arbiter);
            match action {
                Action::Start => {
                    assert!(!self.running && !self.stopping, "started twice");
                    if let Some((id, _)) = in_the_gap {
                        self.claim(id);
                    }
                    self.starts += 1;
                    let runs = !self.holds_back();
                    self.set_phase(runs, false);
                    self.arbiter.started(runs);
                    if !runs {
                        self.clients.values_mut().for_each(|client| client.asleep = false);
                    }
                    self.see_holds();
                }
                Action::Stop => {
                    if let Some((_, id)) = in_the_gap {
                        self.enter(id);
                    }
                    self.set_phase(false, true);
                    self.see_holds();
                }
                Action::Quiet => {
                    let sends = |client: &Client| {
                        client.state.holds && matches!(client.kind, Kind::Experiment { .. })
                    };
                    let took = self.now - self.stopping_since;
                    let is_known = took >= LIMITS.hold_wait_max || self.arbiter.overdue_stops() > 0;
                    assert!(is_known || !self.clients.values().any(sends), "a rank may send");
                    self.set_phase(false, false);
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

    /// Whether an application's word speaks against a start.
    fn holds_back(&self) -> bool {
        let holds = |id| self.arbiter.holds_back(id, &self.clients[&id].state, self.now);
        self.arbiter.application_ids().any(holds)
    }

    fn check(&self) {
        let experiment = |client: &&Client| matches!(client.kind, Kind::Experiment { .. });
        if self.running {
            assert!(!self.holds_back(), "runs while a hold stands");
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
            Op::Enter(id) => self.enter(id),
            Op::Leave(id, rings) => {
                let stopping = self.stopping;
                if let Some(client) = self.experiment(id) {
                    client.state.holds = false;
                    if rings && stopping {
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
            Op::InTheGap(claims, enters) => self.look(Some((claims, enters))),
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
        4 => id.clone().prop_map(Op::Enter),
        4 => (id.clone(), any::<bool>()).prop_map(|(id, rings)| Op::Leave(id, rings)),
        1 => any::<bool>().prop_map(Op::Pause),
        4 => (0u16..400).prop_map(Op::Wait),
        1 => Just(Op::WaitLong),
        2 => (id.clone(), id.clone()).prop_map(|(claims, enters)| Op::InTheGap(claims, enters)),
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

/// A node with an experiment at id 0 that runs and is at a step, and applications at slots 1 and 2.
fn running_world() -> World {
    let mut world = World::new();
    world.do_op(&Op::Application(1));
    world.do_op(&Op::Application(2));
    world.do_op(&Op::Experiment(0, 7));
    assert!(world.running);
    world.do_op(&Op::Enter(0));
    world
}

#[test]
fn scenario_1_an_application_stops_the_experiment() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1)); // p
    assert!(world.stopping, "e");
    assert!(world.clients[&1].asleep);
    world.do_op(&Op::Leave(0, true)); // s
    assert!(!world.stopping && !world.clients[&1].asleep, "g");
    assert_eq!(world.arbiter.state(), ExperimentState::Waiting);
}

#[test]
fn scenario_2_the_experiment_goes_on_after_the_last_hold() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Claim(2));
    world.do_op(&Op::Leave(0, true));
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
        world.do_op(&Op::Leave(0, true));
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
    assert!(!world.running, "it rests until it has stopped");
    world.do_op(&Op::Leave(0, true));
    world.do_op(&Op::Wait(20));
    assert!(world.running);
}

#[test]
fn nobody_waits_for_an_experiment_that_is_at_no_step() {
    let mut world = running_world();
    world.do_op(&Op::Leave(0, false));
    world.do_op(&Op::Claim(1));
    assert!(!world.stopping && !world.clients[&1].asleep, "it goes ahead at once");
    world.do_op(&Op::Enter(0));
    assert!(!world.clients[&0].state.holds, "it may not run now");
}

#[test]
fn a_rank_that_enters_while_the_daemon_stops_it_is_waited_for() {
    let mut world = running_world();
    world.do_op(&Op::Leave(0, false));
    assert!(!world.clients[&0].state.holds && world.claim(1));
    world.do_op(&Op::InTheGap(2, 0));
    assert!(world.stopping && world.clients[&1].asleep);
    world.do_op(&Op::Leave(0, true));
    assert!(!world.stopping && !world.clients[&1].asleep);
}

#[test]
fn a_hold_that_nobody_renews_does_not_stop_the_grid_for_ever() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Leave(0, true));
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
    world.do_op(&Op::Enter(0));
    world.do_op(&Op::Claim(1));
    assert!(world.stopping && world.clients[&1].asleep);
    world.do_op(&Op::Leave(0, true));
    assert!(!world.clients[&1].asleep);
    world.do_op(&Op::Wait(1000));
    assert!(!world.running, "it holds again");
}

#[test]
fn a_forgotten_hold_that_is_claimed_anew_in_the_gap_takes_the_grant_back() {
    let mut world = running_world();
    world.do_op(&Op::Claim(1));
    world.do_op(&Op::Claim(2));
    world.do_op(&Op::Leave(0, true));
    world.now += LIMITS.hold_max;
    let starts = world.starts;
    world.look(Some((1, 0)));
    assert_eq!(world.starts, starts + 1, "a start was tried");
    assert!(!world.running);
}

#[test]
fn a_newer_job_takes_the_place_of_an_older_one_when_that_has_stopped() {
    let mut world = running_world();
    assert!(!world.connect(3, Kind::Experiment { epoch: 6 }), "one job at a time");
    world.do_op(&Op::Experiment(3, 8));
    assert!(world.stopping && world.clients.contains_key(&0));
    world.do_op(&Op::Leave(0, true));
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
