//! What a daemon does with each message and each look at the slots. Its only outside world is
//! the shared memory; sockets, clocks, timers and files belong to the modules around it.

mod metrics;
mod networks;
mod page;
mod record;
mod report;
mod wisdom;

use super::clock::Now;
use crate::arbiter::{Action, Arbiter, ClientId, Limits, Moment};
use crate::config::Config;
use crate::demand::DemandList;
use crate::events::{self, Events, Kind};
use crate::explanation::{because, describe};
use crate::knowledge::{Knowledge, Published};
use crate::metrics::Durations;
use crate::page::record::Record;
use arborcast_draw::units::seconds;
use arborcast_proto::hold;
use arborcast_proto::message::{Answer, Ask, Finding, Refusal, Role};
use arborcast_proto::segment::{
    Board, BookEntry, BookFull, Broadcast, Identity, SegmentError, SlotView,
};
use arborcast_proto::wisdom::MeasuredLinks;
use arborcast_proto::{DeliveryReport, Group, GroupHash, LinkMatrix, NodeName, Spending, Target};
use networks::Networks;
use record::Look;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tracing::{debug, info, warn};

/// Between two attempts to get the memory that plans need on the board.
const PUBLISH_AGAIN: Duration = Duration::from_secs(1);

/// Names a connection.
pub type ConnectionId = ClientId;

/// A message and who sent it.
#[derive(Debug)]
pub struct Question {
    pub connection: ConnectionId,
    /// Whether the sender is the daemon's own user or root.
    pub trusted: bool,
    pub ask: Ask,
}

/// What a message is answered with.
#[derive(Debug)]
pub struct Reply {
    pub answer: Answer,
    /// What the sender is to get with it: the memory of its slot.
    pub file: Option<OwnedFd>,
}

/// Reports that are kept while no experiment asks for them.
const MAX_DELIVERIES: usize = 256;

/// A client with a slot.
struct Client {
    slot: SlotView,
    role: Role,
    /// How many of the slot's broadcasts have been seen.
    broadcasts_seen: u64,
    hold_timeouts: u64,
}

/// One node's segments, clients and knowledge.
pub struct Node {
    name: NodeName,
    site: NodeName,
    board: Board,
    /// No buffer can have more bytes: the node's memory.
    max_message_bytes: u64,
    arbiter: Arbiter,
    demand: DemandList,
    durations: Durations,
    knowledge: Knowledge,
    networks: Networks,
    /// What applications said of broadcasts along trees, until the experiment asks for it.
    deliveries: VecDeque<DeliveryReport>,
    /// When a target got another plan last, in seconds since 1970.
    newest_plan_unix_s: Option<f64>,
    /// When the links of a group were measured last, where that was since the daemon's start.
    links_unix_s: BTreeMap<GroupHash, f64>,
    events: Events,
    /// `None` where no page is served.
    record: Option<Box<Record>>,
    clients: HashMap<ConnectionId, Client>,
    /// Connections that the arbiter wants closed.
    to_close: Vec<ConnectionId>,
    paused: bool,
    started: Moment,
    /// When the slots were looked at last.
    looked: Moment,
    started_unix_s: f64,
    broadcasts: u64,
    hold_timeouts: u64,
    /// How many targets the last demand had to leave out.
    demand_left_out: usize,
    /// The holds that were last found to be forgotten.
    forgotten_holds: usize,
    /// When to try again what the board had no memory for.
    publish_again: Option<Moment>,
    /// Of the experiment that is connected, or was last.
    spending: Option<Spending>,
}

impl Node {
    /// Creates the board.
    ///
    /// # Errors
    /// Where that fails.
    pub fn new(
        config: &Config,
        name: NodeName,
        board_name: &str,
        knowledge: Knowledge,
        now: Now,
    ) -> Result<Self, SegmentError> {
        let Config { site, hold_wait_max, hold_max, linger, .. } = config;
        let identity =
            Identity { node: name.clone(), site: site.clone(), hold_wait_max: *hold_wait_max };
        let board = Board::create(board_name, &identity)?;
        let limits = Limits { linger: *linger, hold_wait_max: *hold_wait_max, hold_max: *hold_max };
        let system = rustix::system::sysinfo();
        let mut node = Node {
            name,
            site: site.clone(),
            board,
            max_message_bytes: system.totalram.saturating_mul(system.mem_unit.into()),
            arbiter: Arbiter::new(limits),
            demand: DemandList::default(),
            durations: Durations::default(),
            newest_plan_unix_s: knowledge.newest_plan_unix_s(),
            knowledge,
            networks: Networks::default(),
            links_unix_s: BTreeMap::new(),
            events: Events::default(),
            record: config.page.listen.map(|_| Box::default()),
            deliveries: VecDeque::new(),
            clients: HashMap::new(),
            to_close: Vec::new(),
            paused: false,
            started: now.moment,
            looked: now.moment,
            started_unix_s: now.unix_s,
            broadcasts: 0,
            hold_timeouts: 0,
            demand_left_out: 0,
            forgotten_holds: 0,
            publish_again: None,
            spending: None,
        };
        node.publish_book(now);
        node.record_plans(None);
        let plans = node.knowledge.plan_count();
        node.tell(Kind::Daemon, None, format!("started with {plans} plans"), now);
        Ok(node)
    }

    /// Keeps an event for the page.
    fn tell(&mut self, kind: Kind, target: Option<Target>, text: String, now: Now) {
        self.events.add(now.unix_s, kind, target, text);
    }

    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    pub fn set_linger(&mut self, linger: Duration) {
        self.arbiter.set_linger(linger);
    }

    /// How long the slots may still be left alone, however much is asked meanwhile; `None` while nobody is
    /// connected.
    pub fn next_look(&self, now: Now) -> Option<Duration> {
        let interval = self.arbiter.next_look(now.moment)?;
        Some((self.looked + interval).saturating_sub(now.moment))
    }

    /// The connections to close, for which [`Node::gone`] has been done already.
    pub fn take_connections_to_close(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.to_close)
    }

    /// Reads the slots, and does what follows from it.
    pub fn look(&mut self, now: Now) {
        self.looked = now.moment;
        let mut fresh = Vec::new();
        let mut hold_timeouts = 0;
        for (&id, client) in &mut self.clients {
            let state = client.slot.hold_state();
            self.arbiter.saw(id, &state, now.moment);
            hold_timeouts += state.hold_timeouts.saturating_sub(client.hold_timeouts);
            client.hold_timeouts = state.hold_timeouts;
            let (shown, count) = client.slot.broadcasts_since(client.broadcasts_seen);
            let total = count.saturating_sub(client.broadcasts_seen);
            client.broadcasts_seen = count;
            let is_news = total > 0 || self.record.is_some();
            if client.role == Role::Application && is_news {
                let last = Moment::from_nanos(state.last_broadcast_ns).min(now.moment);
                fresh.push((last, Look { client: id, state, shown, total }));
            }
        }
        if hold_timeouts > 0 {
            let text = format!(
                "broadcasts that went ahead although the experiment had not stopped: {hold_timeouts}"
            );
            self.tell(Kind::Hold, None, text, now);
        }
        fresh.sort_by_key(|(last, ..)| *last);
        for (last, mut look) in fresh {
            self.broadcasts = self.broadcasts.saturating_add(look.total);
            look.shown.retain(|broadcast| self.makes_sense(broadcast));
            look.shown.iter().for_each(|broadcast| self.durations.note(broadcast));
            self.demand.note(&look.shown, look.total, last);
            self.record_look(&look, now);
        }
        if self.publish_again.is_some_and(|at| now.moment >= at) {
            self.publish_book(now);
        }
        self.arbitrate(now);
    }

    /// Whether a client can have broadcast this: a group that somebody has named, one of its nodes as
    /// the root, and a message that fits into memory. What cannot be must not take the place of what is.
    fn makes_sense(&self, broadcast: &Broadcast) -> bool {
        let Broadcast { target, bytes, .. } = *broadcast;
        let is_node = |group: &Group| usize::from(target.root) < group.len();
        bytes <= self.max_message_bytes && self.knowledge.group(target.group).is_some_and(is_node)
    }

    fn arbitrate(&mut self, now: Now) {
        let forgotten = self.arbiter.forgotten_holds(now.moment);
        if forgotten > self.forgotten_holds {
            let text = format!(
                "{forgotten} applications have held the network for longer than hold_max without a broadcast; they no longer count"
            );
            warn!("{text}");
            self.tell(Kind::Hold, None, text, now);
        }
        self.forgotten_holds = forgotten;
        while let Some(action) = self.arbiter.poll(now.moment) {
            debug!(?action, holds = self.arbiter.holds(now.moment));
            match action {
                Action::Start => {
                    let (clients, arbiter) = (&self.clients, &self.arbiter);
                    let holds = |id: ConnectionId| {
                        let state = clients.get(&id).map(|client| client.slot.hold_state());
                        state.is_some_and(|state| arbiter.holds_back(id, &state, now.moment))
                    };
                    let held = || arbiter.application_ids().any(holds);
                    let runs = hold::start(self.board.experiment(), held);
                    self.arbiter.started(runs);
                    self.see_holds(now);
                }
                Action::Stop => {
                    hold::stop(self.board.experiment());
                    self.see_holds(now);
                }
                Action::Quiet => self.quiet(),
                Action::Disconnect(id) => {
                    info!(connection = id, "a newer experiment takes the place of this one");
                    self.forget_client(id, now);
                    self.to_close.push(id);
                }
            }
        }
    }

    /// After the experiment word has changed: wakes all who wait for that, and sees who holds now.
    fn see_holds(&mut self, now: Now) {
        self.board.wake_all();
        for (&id, client) in &self.clients {
            self.arbiter.saw(id, &client.slot.hold_state(), now.moment);
        }
    }

    /// Makes the experiment word quiet and wakes all who wait, as at the daemon's end.
    pub fn quiet(&self) {
        hold::quiet(self.board.experiment());
        self.board.wake_all();
    }

    /// A connection has ended, or its process has died.
    pub fn gone(&mut self, connection: ConnectionId, now: Now) {
        if self.clients.contains_key(&connection) {
            // Its last broadcasts count.
            self.look(now);
            self.forget_client(connection, now);
            self.look(now);
        }
    }

    fn forget_client(&mut self, connection: ConnectionId, now: Now) {
        if let Some(client) = self.clients.remove(&connection) {
            debug!(connection, role = ?client.role, "gone");
            self.arbiter.disconnect(connection);
            if let Some(record) = &mut self.record {
                record.programs.ended(connection, now.unix_s);
            }
            if let Role::Experiment { epoch } = client.role {
                let text = format!("the job of epoch {epoch} has left");
                self.tell(Kind::Experiment, None, text, now);
            }
            self.hold_timeouts = self.hold_timeouts.saturating_add(client.hold_timeouts);
        }
    }

    /// Does what a client asks. [`Ask::Ring`] and [`Ask::Delivered`] have no answer.
    pub fn handle(&mut self, question: Question, now: Now) -> Option<Reply> {
        let connection = question.connection;
        match question.ask {
            Ask::Ring => {
                self.look(now);
                return None;
            }
            Ask::Delivered(report) => {
                self.note_delivery(connection, report);
                return None;
            }
            _ => {}
        }
        let mut file = None;
        let answer = self.answer(question, &mut file, now).unwrap_or_else(|refusal| {
            info!(connection, "refused: {refusal}");
            Answer::Refused(refusal)
        });
        Some(Reply { answer, file })
    }

    fn answer(
        &mut self,
        question: Question,
        file: &mut Option<OwnedFd>,
        now: Now,
    ) -> Result<Answer, Refusal> {
        let Question { connection, trusted, ask } = question;
        if needs_trust(&ask) && !trusted {
            return Err(Refusal::NotAllowed);
        }
        Ok(match ask {
            Ask::Hello(role) => {
                *file = Some(self.hello(connection, role, now)?);
                Answer::Welcome
            }
            Ask::Board => {
                let no_file =
                    |error| Refusal::Invalid(format!("no descriptor for the board: {error}"));
                *file = Some(self.board.file().map_err(no_file)?);
                Answer::Board
            }
            // What is planned, the event loop sees to.
            Ask::Ring | Ask::Delivered(_) | Ask::Plan(..) => Answer::Done,
            Ask::Register(group) => {
                self.knowledge.register(&group, trusted)?;
                Answer::Done
            }
            Ask::Demand => {
                self.look(now);
                Answer::Demand(self.recent_demand(now.moment))
            }
            Ask::Deliveries => {
                self.check_newest(connection)?;
                Answer::Deliveries(self.deliveries.drain(..).collect())
            }
            Ask::Publish(finding) => self.publish(connection, *finding, now)?,
            Ask::Trial(record) => {
                self.check_newest(connection)?;
                self.knowledge.add_trial(*record)?;
                Answer::Done
            }
            Ask::Links(group, matrix) => {
                self.check_newest(connection)?;
                let epoch = self.experiment_epoch(connection);
                let epoch = epoch.or_else(|| self.knowledge.links_epoch(group.hash()));
                self.set_links(group, matrix, epoch.unwrap_or(0), now)?;
                Answer::Done
            }
            Ask::Network(group, bytes) => {
                self.check_newest(connection)?;
                self.set_network(group, &bytes)?
            }
            Ask::Lateness(late) => {
                self.check_newest(connection)?;
                self.record_lateness(late);
                Answer::Done
            }
            Ask::Spending(spending) => {
                self.check_newest(connection)?;
                if !spending.is_valid() {
                    return Err(Refusal::Invalid("what was spent is no time".into()));
                }
                self.spending = Some(spending);
                Answer::Done
            }
            Ask::Status => {
                self.look(now);
                Answer::Status(Box::new(self.status(now.moment)))
            }
            Ask::Targets => {
                self.look(now);
                Answer::Targets(self.targets(now.moment))
            }
            Ask::History(target) => {
                let trials = self.knowledge.trials(target);
                Answer::History(trials.iter().map(|trial| (**trial).clone()).collect())
            }
            Ask::Matrices => {
                let pair = |links: &MeasuredLinks| (links.group.clone(), (*links.matrix).clone());
                Answer::Matrices(self.knowledge.matrices().map(pair).collect())
            }
            Ask::Pause => self.set_paused(true, now),
            Ask::Resume => self.set_paused(false, now),
            Ask::Forget(target) => self.forget(target, now),
            Ask::Export => {
                *file = Some(self.export()?);
                Answer::Exported
            }
            Ask::Import(bytes) => Answer::Imported(self.import(&bytes, now)?),
        })
    }

    /// Keeps what an application saw for the experiment, the last ones where nobody asks.
    fn note_delivery(&mut self, connection: ConnectionId, report: DeliveryReport) {
        if !report.makes_sense() {
            return;
        }
        self.record_delivery(connection, &report);
        if self.deliveries.len() >= MAX_DELIVERIES {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(report);
    }

    /// Makes the slot of a new client, and the file that it is to get.
    fn hello(
        &mut self,
        connection: ConnectionId,
        role: Role,
        now: Now,
    ) -> Result<OwnedFd, Refusal> {
        if self.clients.contains_key(&connection) {
            return Err(Refusal::Invalid("this connection has introduced itself already".into()));
        }
        let (slot, file) =
            SlotView::create().map_err(|error| Refusal::NoSlot(error.to_string()))?;
        match role {
            Role::Application => self.arbiter.connect_application(connection),
            Role::Experiment { epoch } => self.arbiter.connect_experiment(connection, epoch)?,
        }
        info!(connection, ?role, "hello");
        match role {
            Role::Experiment { epoch } => {
                let text = format!("the job of epoch {epoch} is connected");
                self.tell(Kind::Experiment, None, text, now);
            }
            Role::Application => {
                if let Some(record) = &mut self.record {
                    record.programs.connected(connection, now.unix_s);
                }
            }
        }
        let client = Client { slot, role, broadcasts_seen: 0, hold_timeouts: 0 };
        self.clients.insert(connection, client);
        self.look(now);
        Ok(file)
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

    /// How many ranks of experiments are connected.
    pub fn experiments(&self) -> usize {
        let is_experiment = |client: &&Client| matches!(client.role, Role::Experiment { .. });
        self.clients.values().filter(is_experiment).count()
    }

    fn experiment_epoch(&self, connection: ConnectionId) -> Option<u64> {
        match self.clients.get(&connection)?.role {
            Role::Experiment { epoch } => Some(epoch),
            Role::Application => None,
        }
    }

    fn set_links(
        &mut self,
        group: Group,
        matrix: LinkMatrix,
        epoch: u64,
        now: Now,
    ) -> Result<(), Refusal> {
        let hash = group.hash();
        let text = match group.len() == matrix.nodes() {
            true => events::links_measured(&group, self.knowledge.links(hash), &matrix),
            false => String::new(),
        };
        let links = Arc::new(matrix);
        self.knowledge.set_links(group.clone(), links.clone(), epoch)?;
        self.record_links(&group, &links, now);
        self.links_unix_s.insert(hash, now.unix_s);
        self.tell(Kind::Links, None, text, now);
        Ok(())
    }

    fn publish(
        &mut self,
        connection: ConnectionId,
        finding: Finding,
        now: Now,
    ) -> Result<Answer, Refusal> {
        self.check_newest(connection)?;
        self.take_in(finding, self.experiment_epoch(connection), now)?;
        Ok(Answer::Done)
    }

    /// A plan that was made for a program that asked for one, unless the experiment has found one meanwhile.
    pub fn planned(&mut self, finding: Finding, now: Now) {
        if self.knowledge.finding(finding.target()).is_some() {
            return;
        }
        if let Err(refusal) = self.take_in(finding, self.arbiter.epoch(), now) {
            warn!("a plan of this daemon's own is refused: {refusal}");
        }
    }

    fn take_in(&mut self, finding: Finding, epoch: Option<u64>, now: Now) -> Result<(), Refusal> {
        let target = finding.target();
        let before = self.knowledge.finding(target).map(|finding| describe(&finding.plan));
        let published = self.knowledge.publish(finding, epoch)?;
        debug!(%target, ?published);
        if published != Published::Slower {
            self.record_plan(target, now);
        }
        match published {
            Published::NewPlan => {
                self.tell_of_plan(target, before, now);
                self.newest_plan_unix_s = Some(now.unix_s);
                self.demand.plan_changed(target);
                self.publish_book(now);
            }
            Published::SamePlan => self.publish_book(now),
            Published::Slower => {}
        }
        Ok(())
    }

    fn tell_of_plan(&mut self, target: Target, before: Option<String>, now: Now) {
        let Some(finding) = self.knowledge.finding(target) else { return };
        let before = before.map_or_else(String::new, |plan| format!("{plan} → "));
        let time = seconds(finding.times.median_s);
        let is_predicted = if finding.times.is_measured() { "" } else { ", predicted" };
        let native = finding
            .native
            .map_or_else(String::new, |native| format!("; native {}", seconds(native.median_s)));
        let plan = describe(&finding.plan);
        let text = format!("{before}{plan}: {time}{is_predicted}{native}; {}", because(finding));
        self.tell(Kind::Plan, Some(target), text, now);
    }

    /// Puts the plans on the board: where not all fit, those that were used last.
    fn publish_book(&mut self, now: Now) {
        let mut entries = self.knowledge.book();
        let rank = |target: &Target| self.demand.iter().position(|u| u.target == *target);
        entries.sort_by_cached_key(|(target, _)| rank(target).unwrap_or(usize::MAX));
        let all = entries.len();
        let mut no_memory = None;
        loop {
            let plans =
                entries.iter().map(|(target, entry): &(Target, BookEntry)| (*target, entry));
            match self.board.publish(plans) {
                Ok(()) => break,
                Err(full @ BookFull::Room { .. }) => debug!("{full}"),
                Err(full @ BookFull::Memory { .. }) => no_memory = no_memory.or(Some(full)),
            }
            if entries.is_empty() {
                break;
            }
            entries.truncate(entries.len() - entries.len().div_ceil(8));
        }
        let is_news = self.publish_again.is_none();
        self.publish_again = no_memory.is_some().then(|| now.moment + PUBLISH_AGAIN);
        if let Some(full) = no_memory {
            if is_news {
                warn!("{full}; {} of {all} plans are on the board until there is", entries.len());
            }
            return;
        }
        if entries.len() < all {
            warn!(
                "{} of {all} plans fit on the board; `arborcast forget` makes room",
                entries.len()
            );
        }
    }

    fn set_paused(&mut self, paused: bool, now: Now) -> Answer {
        if paused != self.paused {
            let text = if paused { "paused by an operator" } else { "resumed by an operator" };
            self.tell(Kind::Experiment, None, text.into(), now);
        }
        self.paused = paused;
        self.arbiter.set_paused(paused);
        self.look(now);
        Answer::Done
    }

    fn forget(&mut self, target: Option<Target>, now: Now) -> Answer {
        for target in self.knowledge.forget(target) {
            self.demand.plan_changed(target);
            self.tell(Kind::Plan, Some(target), "forgotten by an operator".into(), now);
            self.record_plan(target, now);
        }
        if target.is_none() {
            self.networks.forget();
        }
        let has_links = |hash: GroupHash| self.knowledge.links(hash).is_some();
        self.links_unix_s.retain(|hash, _| has_links(*hash));
        if let Some(record) = &mut self.record {
            record.links.retain(has_links);
        }
        self.publish_book(now);
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
        | Ask::Network(..)
        | Ask::Lateness(_)
        | Ask::Spending(_)
        | Ask::Deliveries
        | Ask::Pause
        | Ask::Resume
        | Ask::Forget(_)
        // Of no use to others, and of more memory than a client may have.
        | Ask::Export
        | Ask::Import(_) => true,
        Ask::Hello(Role::Application)
        | Ask::Board
        | Ask::Ring
        | Ask::Register(_)
        | Ask::Delivered(_)
        | Ask::Plan(..)
        | Ask::Demand
        | Ask::Status
        | Ask::Targets
        | Ask::History(_)
        | Ask::Matrices => false,
    }
}

#[cfg(test)]
mod tests;
