//! What a daemon does with each message and each look at the desk. Its only outside world are the
//! two segments; sockets, timers and files belong to the modules around it.

mod report;

use crate::arbiter::{Action, Arbiter, Limits, Moment};
use crate::config::Config;
use crate::demand::DemandList;
use crate::knowledge::{Knowledge, Published};
use arborcast_proto::hold;
use arborcast_proto::message::{Answer, Ask, Finding, Refusal, Role, Welcome};
use arborcast_proto::segment::{Board, BookEntry, Desk, Identity, SLOTS, SegmentError};
use arborcast_proto::{Group, LinkMatrix, NodeName, Target};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info, warn};

/// Names a connection.
pub type ConnectionId = u64;

/// A message and who sent it.
#[derive(Debug)]
pub struct Question {
    pub connection: ConnectionId,
    /// Whether the sender is the daemon's own user or root.
    pub trusted: bool,
    pub ask: Ask,
}

/// A client with a slot.
#[derive(Debug)]
struct Client {
    slot: usize,
    role: Role,
    /// How many of the slot's broadcasts have been seen.
    broadcasts_seen: u64,
    waits_given_up: u64,
}

/// One node's segments, clients and knowledge.
pub struct Node {
    name: NodeName,
    site: NodeName,
    segments: (String, String),
    board: Board,
    desk: Desk,
    arbiter: Arbiter,
    demand: DemandList,
    knowledge: Knowledge,
    clients: HashMap<ConnectionId, Client>,
    /// Slots in the order in which they became free: the next client gets the one that has been
    /// free for longest, so that a client that was cut off has time to notice.
    free_slots: VecDeque<usize>,
    /// Connections that the arbiter wants closed.
    to_close: Vec<ConnectionId>,
    paused: bool,
    started: Moment,
    broadcasts: u64,
    waits_given_up: u64,
}

impl Node {
    /// Creates the segments.
    ///
    /// # Errors
    /// Where that fails.
    pub fn new(
        config: &Config,
        name: NodeName,
        gid: Option<u32>,
        knowledge: Knowledge,
    ) -> Result<Self, SegmentError> {
        let Config { site, hold_wait_max, linger, segment_prefix, .. } = config;
        let identity =
            Identity { node: name.clone(), site: site.clone(), hold_wait_max: *hold_wait_max };
        let segments = (segment_prefix.board(), segment_prefix.desk());
        let desk = Desk::create(&segments.1, gid)?;
        let board = Board::create(&segments.0, &identity)?;
        let limits = Limits { linger: *linger, hold_wait_max: *hold_wait_max };
        let node = Node {
            name,
            site: site.clone(),
            segments,
            board,
            desk,
            arbiter: Arbiter::new(limits),
            demand: DemandList::default(),
            knowledge,
            clients: HashMap::new(),
            free_slots: (0..SLOTS).collect(),
            to_close: Vec::new(),
            paused: false,
            started: now(),
            broadcasts: 0,
            waits_given_up: 0,
        };
        node.publish_book();
        Ok(node)
    }

    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    pub fn set_linger(&mut self, linger: Duration) {
        self.arbiter.set_linger(linger);
    }

    /// How long the desk may be left alone; `None` while nobody is connected.
    pub fn next_look(&self) -> Option<Duration> {
        self.arbiter.next_look(now())
    }

    /// The connections to close, for which [`Node::gone`] has been done already.
    pub fn take_connections_to_close(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.to_close)
    }

    /// Reads the desk, and does what follows from it.
    pub fn look(&mut self) {
        let now = now();
        let mut fresh = Vec::new();
        for client in self.clients.values_mut() {
            let state = self.desk.hold_state(client.slot);
            self.arbiter.saw(client.slot, &state, now);
            client.waits_given_up = state.waits_given_up;
            let (shown, count) = self.desk.broadcasts_since(client.slot, client.broadcasts_seen);
            let total = count.saturating_sub(client.broadcasts_seen);
            client.broadcasts_seen = count;
            if client.role == Role::Application && total > 0 {
                let last = Moment::from_nanos(state.last_broadcast_ns).min(now);
                fresh.push((last, total, shown));
            }
        }
        fresh.sort_by_key(|(last, ..)| *last);
        for (last, total, shown) in fresh {
            self.broadcasts = self.broadcasts.saturating_add(total);
            self.demand.note(&shown, total, last);
        }
        self.arbitrate(now);
    }

    fn arbitrate(&mut self, now: Moment) {
        while let Some(action) = self.arbiter.poll(now) {
            debug!(?action, holds = self.arbiter.holds(now));
            match action {
                Action::Start => {
                    let (desk, arbiter) = (&self.desk, &self.arbiter);
                    let held =
                        || arbiter.application_slots().any(|slot| desk.hold_state(slot).holds);
                    let stands = hold::start(self.board.experiment(), held);
                    let grant = hold::Experiment::load(self.board.experiment()).grant;
                    self.board.wake_all();
                    self.arbiter.started(grant, stands, now);
                }
                Action::Stop => {
                    hold::stop(self.board.experiment());
                    self.board.wake_all();
                }
                Action::Quiet => self.quiet(),
                Action::Disconnect(slot) => {
                    let of_slot = |(&id, client): (&ConnectionId, &Client)| {
                        (client.slot == slot).then_some(id)
                    };
                    if let Some(id) = self.clients.iter().find_map(of_slot) {
                        info!("a newer experiment takes the place of the one at slot {slot}");
                        self.forget_client(id);
                        self.to_close.push(id);
                    }
                }
            }
        }
    }

    /// Makes the experiment word quiet and wakes all who wait, as at the daemon's end.
    pub fn quiet(&self) {
        hold::quiet(self.board.experiment());
        self.board.wake_all();
    }

    /// A connection has ended, or its process has died.
    pub fn gone(&mut self, connection: ConnectionId) {
        if self.clients.contains_key(&connection) {
            // Its last broadcasts count.
            self.look();
            self.forget_client(connection);
            self.look();
        }
    }

    fn forget_client(&mut self, connection: ConnectionId) {
        if let Some(client) = self.clients.remove(&connection) {
            debug!(connection, ?client, "gone");
            self.arbiter.disconnect(client.slot);
            self.waits_given_up = self.waits_given_up.saturating_add(client.waits_given_up);
            self.free_slots.push_back(client.slot);
        }
    }

    /// Does what a client asks. [`Ask::Ring`] has no answer.
    pub fn handle(&mut self, question: Question) -> Option<Answer> {
        let connection = question.connection;
        if question.ask == Ask::Ring {
            self.look();
            return None;
        }
        Some(self.answer(question).unwrap_or_else(|refusal| {
            info!(connection, "refused: {refusal}");
            Answer::Refused(refusal)
        }))
    }

    fn answer(&mut self, question: Question) -> Result<Answer, Refusal> {
        let Question { connection, trusted, ask } = question;
        if needs_trust(&ask) && !trusted {
            return Err(Refusal::NotAllowed);
        }
        Ok(match ask {
            Ask::Hello(role) => Answer::Welcome(self.hello(connection, role)?),
            Ask::Ring => Answer::Done,
            Ask::Register(group) => {
                self.knowledge.register(&group);
                Answer::Done
            }
            Ask::Demand => {
                self.look();
                let now = now();
                let demand = self.demand.iter().filter_map(|usage| self.demand_of(usage, now));
                Answer::Demand(demand.collect())
            }
            Ask::Publish(finding) => self.publish(connection, *finding)?,
            Ask::Trial(record) => {
                self.check_newest(connection)?;
                self.knowledge.add_trial(*record)?;
                Answer::Done
            }
            Ask::Links(group, matrix) => {
                self.check_newest(connection)?;
                self.knowledge.set_links(group, matrix)?;
                Answer::Done
            }
            Ask::Status => {
                self.look();
                Answer::Status(Box::new(self.status()))
            }
            Ask::Targets => {
                self.look();
                Answer::Targets(self.targets())
            }
            Ask::History(target) => {
                let trials = self.knowledge.trials(target);
                Answer::History(trials.iter().map(|trial| (**trial).clone()).collect())
            }
            Ask::Matrices => {
                let pair = |(group, matrix): &(Group, Arc<LinkMatrix>)| {
                    (group.clone(), (**matrix).clone())
                };
                Answer::Matrices(self.knowledge.matrices().map(pair).collect())
            }
            Ask::Pause => self.set_paused(true),
            Ask::Resume => self.set_paused(false),
            Ask::Forget(target) => self.forget(target),
        })
    }

    fn hello(&mut self, connection: ConnectionId, role: Role) -> Result<Welcome, Refusal> {
        let (board, desk) = self.segments.clone();
        if let Some(client) = self.clients.get(&connection) {
            return if client.role == role {
                Ok(Welcome { board, desk, slot: client.slot as u32 })
            } else {
                Err(Refusal::Invalid("this connection has introduced itself already".into()))
            };
        }
        let slot = *self.free_slots.front().ok_or(Refusal::NoSlot)?;
        self.desk.clear(slot);
        match role {
            Role::Application => self.arbiter.connect_application(slot),
            Role::Experiment { epoch } => self.arbiter.connect_experiment(slot, epoch)?,
        }
        self.free_slots.pop_front();
        info!(connection, slot, ?role, "hello");
        let client = Client { slot, role, broadcasts_seen: 0, waits_given_up: 0 };
        self.clients.insert(connection, client);
        self.look();
        Ok(Welcome { board, desk, slot: slot as u32 })
    }

    /// An experiment that a newer one has replaced is not listened to any more.
    fn check_newest(&self, connection: ConnectionId) -> Result<(), Refusal> {
        match (self.clients.get(&connection).map(|client| &client.role), self.arbiter.epoch()) {
            (Some(Role::Experiment { epoch }), Some(winner)) if *epoch < winner => {
                Err(Refusal::OtherExperiment { winner })
            }
            _ => Ok(()),
        }
    }

    fn publish(&mut self, connection: ConnectionId, finding: Finding) -> Result<Answer, Refusal> {
        self.check_newest(connection)?;
        let target = finding.target();
        let epoch = match self.clients.get(&connection).map(|client| &client.role) {
            Some(Role::Experiment { epoch }) => *epoch,
            // By hand: as good as the job that found the plan that stands.
            _ => self.knowledge.epoch(target).unwrap_or(0),
        };
        let published = self.knowledge.publish(finding, epoch)?;
        debug!(%target, ?published);
        match published {
            Published::NewPlan => {
                self.demand.plan_changed(target);
                self.publish_book();
            }
            Published::SamePlan => self.publish_book(),
            Published::Slower => {}
        }
        Ok(Answer::Done)
    }

    /// Puts the plans on the board: where not all fit, those that were used last.
    fn publish_book(&self) {
        let mut entries = self.knowledge.book();
        let rank = |target: &Target| self.demand.iter().position(|u| u.target == *target);
        entries.sort_by_key(|(target, _)| rank(target).unwrap_or(usize::MAX));
        let all = entries.len();
        loop {
            let plans =
                entries.iter().map(|(target, entry): &(Target, BookEntry)| (*target, entry));
            match self.board.publish(plans) {
                Ok(()) => break,
                Err(full) => {
                    debug!("{full}");
                    entries.truncate(entries.len() - entries.len().div_ceil(8));
                }
            }
        }
        if entries.len() < all {
            warn!(
                "{} of {all} plans fit on the board; `arborcast forget` makes room",
                entries.len()
            );
        }
    }

    fn set_paused(&mut self, paused: bool) -> Answer {
        self.paused = paused;
        self.arbiter.set_paused(paused);
        self.look();
        Answer::Done
    }

    fn forget(&mut self, target: Option<Target>) -> Answer {
        for target in self.knowledge.forget(target) {
            self.demand.plan_changed(target);
        }
        self.publish_book();
        Answer::Done
    }
}

/// What only the daemon's own user or root may ask.
fn needs_trust(ask: &Ask) -> bool {
    match ask {
        Ask::Hello(Role::Experiment { .. })
        | Ask::Publish(_)
        | Ask::Trial(_)
        | Ask::Links(..)
        | Ask::Pause
        | Ask::Resume
        | Ask::Forget(_) => true,
        Ask::Hello(Role::Application)
        | Ask::Ring
        | Ask::Register(_)
        | Ask::Demand
        | Ask::Status
        | Ask::Targets
        | Ask::History(_)
        | Ask::Matrices => false,
    }
}

/// The clock that clients write into their slots.
fn now() -> Moment {
    Moment::from_nanos(arborcast_proto::monotonic_ns())
}
