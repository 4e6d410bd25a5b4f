//! Who may use the network: applications before the experiment. Decisions without I/O and without a
//! clock, after the two scenarios of R. Gupta, "MPI Collective Communications for Grids (broadcast)",
//! progress report, Indian Institute of Science.
//!
//! The daemon tells the arbiter what happened and what it saw in the slots, and then carries out
//! what [`Arbiter::poll`] says until it says nothing more. Times are those of one monotonic clock.
//!
//! | message there | here |
//! |---|---|
//! | p: an application asks | [`Arbiter::saw`] its slot with a standing hold |
//! | e: stop the experiment | [`Action::Stop`] |
//! | s: it has stopped | [`Arbiter::saw`] that the experiment does not hold |
//! | g: go ahead | [`Action::Quiet`] |
//! | f: the broadcast has finished | [`Arbiter::saw`] the slot free, `linger` after its last broadcast |
//! | b: go on | [`Action::Start`] |

use arborcast_proto::message::{ExperimentState, Refusal};
use arborcast_proto::segment::{HoldState, MOST_UNDER_WAY};
use std::collections::BTreeMap;
use std::time::Duration;

/// An experiment that did not stop in time and still holds is granted nothing for this many times
/// `hold_wait_max`: each grant may cost an application a whole wait.
const UNANSWERED_REST: u32 = 8;

/// Of a client that broadcasts again and again, holds linger no longer than this many times `linger` in all: where its
/// pauses are shorter than that, no experiment would ever run.
const LINGERS_OF_A_BURST: u32 = 10;

/// Names a client.
pub type ClientId = u64;

/// A moment of the monotonic clock, as the time since its start.
pub type Moment = Duration;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// After a client's last broadcast, its hold stands for so long.
    pub linger: Duration,
    /// An experiment that was told to stop holds applications up no longer than this.
    pub hold_wait_max: Duration,
    /// A hold that has stood for so long without a new claim or broadcast holds nothing up any more.
    pub hold_max: Duration,
}

/// What the daemon is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Let the experiment run, unless a request word says hold; then call [`Arbiter::started`].
    Start,
    /// Tell the experiment to stop.
    Stop,
    /// Make the experiment word quiet and wake all who wait.
    Quiet,
    /// Close the connection of this experiment: a newer job has taken its place.
    Disconnect(ClientId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Quiet,
    Running,
    Stopping { since: Moment },
}

#[derive(Debug, Clone, Copy, Default)]
struct Application {
    /// The hold that stands.
    hold: Option<Hold>,
    /// A free client's hold stands until then.
    lingers_until: Option<Moment>,
    /// Since when one or the other has stood, or the last experiment stopped.
    burst_since: Option<Moment>,
}

impl Application {
    /// Whether its hold stands though it is free.
    fn lingers(&self, limits: &Limits, now: Moment) -> bool {
        let longest = limits.linger * LINGERS_OF_A_BURST;
        let is_in_burst = self.burst_since.is_none_or(|since| now.saturating_sub(since) < longest);
        is_in_burst && self.lingers_until.is_some_and(|until| until > now)
    }
}

/// A standing hold, as it was when something new was last seen of it.
#[derive(Debug, Clone, Copy)]
struct Hold {
    renewed: Moment,
    claims: u64,
    last_broadcast_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Job {
    client: ClientId,
    epoch: u64,
}

/// What a rank of an experiment's job is at.
#[derive(Debug, Clone, Copy, Default)]
struct Rank {
    /// It may be sending, or about to.
    holds: bool,
    /// When the arbiter stopped waiting for the end of that.
    given_up: Option<Moment>,
}

impl Rank {
    fn is_waited_for(&self) -> bool {
        self.holds && self.given_up.is_none()
    }
}

/// The state of one node's network use.
#[derive(Debug)]
pub struct Arbiter {
    limits: Limits,
    applications: BTreeMap<ClientId, Application>,
    /// Of experiments, also those that a newer job has replaced and that are still connected.
    ranks: BTreeMap<ClientId, Rank>,
    newest: Option<Job>,
    phase: Phase,
    /// For whom the experiment was last started.
    granted: Option<ClientId>,
    paused: bool,
    overdue_stops: u64,
}

impl Hold {
    /// Whether the client has claimed or broadcast since.
    fn is_renewed_by(&self, state: &HoldState) -> bool {
        (self.claims, self.last_broadcast_ns) != (state.claims, state.last_broadcast_ns)
    }

    fn is_over(&self, limits: &Limits, now: Moment) -> bool {
        now.saturating_sub(self.renewed) >= limits.hold_max
    }
}

impl Arbiter {
    pub fn new(limits: Limits) -> Self {
        Arbiter {
            limits,
            applications: BTreeMap::new(),
            ranks: BTreeMap::new(),
            newest: None,
            phase: Phase::Quiet,
            granted: None,
            paused: false,
            overdue_stops: 0,
        }
    }

    pub fn set_linger(&mut self, linger: Duration) {
        self.limits.linger = linger;
    }

    pub fn connect_application(&mut self, client: ClientId) {
        self.applications.insert(client, Application::default());
    }

    /// An experiment job of `epoch` wants to run. It takes the place of an older job, and of its own connection, whose
    /// end the daemon may not have noticed yet.
    ///
    /// # Errors
    /// `OtherExperiment` where a newer job is here.
    pub fn connect_experiment(&mut self, client: ClientId, epoch: u64) -> Result<(), Refusal> {
        if let Some(Job { epoch: winner, .. }) = self.newest.filter(|newest| newest.epoch > epoch) {
            return Err(Refusal::OtherExperiment { winner });
        }
        self.ranks.insert(client, Rank::default());
        self.newest = Some(Job { client, epoch });
        Ok(())
    }

    /// The client is gone, and with it its hold or its use of the network.
    pub fn disconnect(&mut self, client: ClientId) {
        self.applications.remove(&client);
        self.ranks.remove(&client);
        self.newest = self.newest.filter(|job| job.client != client);
        self.granted = self.granted.filter(|granted| *granted != client);
    }

    /// The daemon read a client's slot at `now`.
    pub fn saw(&mut self, client: ClientId, state: &HoldState, now: Moment) {
        if let Some(application) = self.applications.get_mut(&client) {
            let HoldState { claims, last_broadcast_ns, .. } = *state;
            let known = application.hold.filter(|hold| !hold.is_renewed_by(state));
            let renewed = known.map_or(now, |hold| hold.renewed);
            application.hold = state.holds.then_some(Hold { renewed, claims, last_broadcast_ns });
            // A time that is neither past nor soon makes no sense; it is not believed.
            let last = Moment::from_nanos(last_broadcast_ns);
            let makes_sense = !last.is_zero() && last <= now + MOST_UNDER_WAY;
            application.lingers_until =
                makes_sense.then(|| last + self.limits.linger).filter(|&until| until > now);
            let stands = application.hold.is_some() || application.lingers_until.is_some();
            let since = application.burst_since.unwrap_or(now);
            application.burst_since = stands.then_some(since);
        }
        if let Some(rank) = self.ranks.get_mut(&client) {
            rank.holds = state.holds;
            rank.given_up = rank.given_up.filter(|_| state.holds);
        }
    }

    /// Whether `state`, read in a client's slot right now, speaks against a start: its request word
    /// says hold, and that is not the hold that was forgotten.
    pub fn holds_back(&self, client: ClientId, state: &HoldState, now: Moment) -> bool {
        let known = self.applications.get(&client).and_then(|application| application.hold);
        let forgotten = |hold: Hold| !hold.is_renewed_by(state) && hold.is_over(&self.limits, now);
        state.holds && !known.is_some_and(forgotten)
    }

    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// What came of [`Action::Start`]: whether it runs, or a request word said hold.
    pub fn started(&mut self, runs: bool) {
        if !runs {
            return;
        }
        self.phase = Phase::Running;
        self.granted = self.newest.map(|newest| newest.client);
        // It may have stopped, and begun again, since it was last seen.
        let rank = self.granted.and_then(|granted| self.ranks.get_mut(&granted));
        rank.into_iter().for_each(|rank| rank.given_up = None);
    }

    /// What is to be done next, if anything. Every client must have been seen shortly before, and again after what changes
    /// the experiment word.
    pub fn poll(&mut self, now: Moment) -> Option<Action> {
        let newest = self.newest.map(|newest| newest.client);
        let is_replaced =
            |(client, rank): &(&ClientId, &Rank)| Some(**client) != newest && !rank.is_waited_for();
        if let Some((&client, _)) = self.ranks.iter().find(is_replaced) {
            self.ranks.remove(&client);
            return Some(Action::Disconnect(client));
        }
        match self.phase {
            Phase::Quiet if self.may_run(now) && !self.rests(now) => Some(Action::Start),
            Phase::Quiet => None,
            Phase::Running if self.may_run(now) && self.granted == newest => None,
            Phase::Running => {
                self.phase = Phase::Stopping { since: now };
                Some(Action::Stop)
            }
            Phase::Stopping { since } => self.end_of_stop(since, now),
        }
    }

    fn end_of_stop(&mut self, since: Moment, now: Moment) -> Option<Action> {
        let mut waited_for: Vec<_> =
            self.ranks.values_mut().filter(|r| r.is_waited_for()).collect();
        if !waited_for.is_empty() {
            if now.saturating_sub(since) < self.limits.hold_wait_max {
                return None;
            }
            waited_for.iter_mut().for_each(|rank| rank.given_up = Some(now));
            self.overdue_stops += 1;
        }
        self.phase = Phase::Quiet;
        self.applications.values_mut().for_each(|application| application.burst_since = None);
        Some(Action::Quiet)
    }

    fn may_run(&self, now: Moment) -> bool {
        self.newest.is_some() && !self.paused && self.holds(now) == 0
    }

    /// Whether the newest experiment has not stopped since it was last told to, so that the next grant had better wait.
    fn rests(&self, now: Moment) -> bool {
        let rest = self.limits.hold_wait_max * UNANSWERED_REST;
        let newest = self.newest.and_then(|newest| self.ranks.get(&newest.client));
        let given_up = newest.and_then(|rank| rank.given_up);
        given_up.is_some_and(|at| now.saturating_sub(at) < rest)
    }

    /// The holds that stand at `now`.
    pub fn holds(&self, now: Moment) -> usize {
        let stands = |client: &&Application| {
            client.hold.is_some_and(|hold| !hold.is_over(&self.limits, now))
                || client.lingers(&self.limits, now)
        };
        self.applications.values().filter(stands).count()
    }

    /// The holds that have stood for longer than `hold_max`, and hold nothing up.
    pub fn forgotten_holds(&self, now: Moment) -> usize {
        let over =
            |client: &&Application| client.hold.is_some_and(|hold| hold.is_over(&self.limits, now));
        self.applications.values().filter(over).count()
    }

    pub fn applications(&self) -> usize {
        self.applications.len()
    }

    pub fn application_ids(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.applications.keys().copied()
    }

    pub fn epoch(&self) -> Option<u64> {
        self.newest.map(|job| job.epoch)
    }

    /// How often an experiment did not stop in time.
    pub fn overdue_stops(&self) -> u64 {
        self.overdue_stops
    }

    pub fn state(&self) -> ExperimentState {
        match (self.phase, self.newest) {
            (Phase::Running, _) => ExperimentState::Running,
            (Phase::Stopping { .. }, _) => ExperimentState::Stopping,
            (Phase::Quiet, _) if self.paused => ExperimentState::Paused,
            (Phase::Quiet, None) => ExperimentState::None,
            (Phase::Quiet, Some(_)) => ExperimentState::Waiting,
        }
    }

    /// How long the daemon may leave the slots alone; `None` until somebody connects. Clients ring the
    /// doorbell when they wait, so this only bounds what nobody rings for: the end of a linger, a client
    /// that forgets to ring, demand.
    pub fn next_look(&self, now: Moment) -> Option<Duration> {
        const STOPPING: Duration = Duration::from_millis(5);
        const ACTIVE: Duration = Duration::from_millis(20);
        const IDLE: Duration = Duration::from_millis(200);
        let anyone = !self.applications.is_empty() || !self.ranks.is_empty();
        let contended = self.newest.is_some() && !self.applications.is_empty();
        match self.phase {
            Phase::Stopping { .. } => Some(STOPPING),
            Phase::Running if contended => Some(ACTIVE),
            Phase::Quiet if contended && !self.paused && self.holds(now) > 0 => Some(ACTIVE),
            _ => anyone.then_some(IDLE),
        }
    }
}

#[cfg(test)]
mod tests;
