//! A node with the daemon's own state machine and shared memory, but for the socket: what clients say is handed
//! over by the world. A daemon that is killed leaves its words as they are to those who have mapped them.

use crate::world::{Event, Key, World};
use arborcast_proto::NodeName;
use arborcast_proto::hold::{Experiment, Phase};
use arborcast_proto::message::{Answer, Ask, Refusal, Role};
use arborcast_proto::segment::{BoardView, Slot};
use arborcast_proto::wisdom::Wisdom;
use arborcast_service::arbiter::Moment;
use arborcast_service::config::Config;
use arborcast_service::daemon::clock::Now;
use arborcast_service::daemon::node::{ConnectionId, Node, Question};
use arborcast_service::knowledge::Knowledge;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// As the daemon's own.
const SAVE_DELAY: Duration = Duration::from_secs(2);

pub struct Host {
    pub name: NodeName,
    pub daemon: Option<Daemon>,
    /// Counts the daemons that this node has had.
    pub lives: u64,
    /// The wisdom file.
    pub file: Vec<u8>,
}

pub struct Daemon {
    pub node: Node,
    pub board: BoardView,
    pub life: u64,
    connections: ConnectionId,
    look: Option<Key>,
    looked: Moment,
    word: Experiment,
    stopping_since: Moment,
    /// It is stopped, or swapped out, until then: what comes meanwhile waits.
    pub frozen_until: Moment,
    /// The daemon has given up waiting for its rank.
    pub is_unanswered: bool,
    /// How many changes the file has.
    saved: u64,
    saves: bool,
}

/// A client's end: as long as this life of the daemon lasts, it is connected.
pub struct Link {
    pub life: u64,
    pub connection: ConnectionId,
    pub slot: Slot,
    pub board: BoardView,
}

impl Daemon {
    /// How long it still is.
    fn frozen(&self, now: Moment) -> Option<Duration> {
        self.frozen_until.checked_sub(now).filter(|left| !left.is_zero())
    }
}

impl Link {
    pub fn word(&self) -> Experiment {
        Experiment::load(self.board.experiment())
    }
}

impl World {
    pub fn clocks(&self) -> Now {
        Now { moment: self.now, unix_s: 1.7e9 + self.now.as_secs_f64() }
    }

    pub fn config(&self) -> Config {
        let config = Config::parse("", Path::new("default")).expect("the default configuration");
        let crate::rules::Rules { hold_wait_max, hold_max, linger, .. } = self.rules;
        Config { hold_wait_max, hold_max, linger, ..config }
    }

    pub fn start_daemon(&mut self, host: usize) {
        if self.hosts[host].daemon.is_some() {
            return;
        }
        static SEGMENTS: AtomicU64 = AtomicU64::new(0);
        let number = SEGMENTS.fetch_add(1, Ordering::Relaxed);
        let drawn = arborcast_proto::monotonic_ns();
        let segment = format!("arborcast-simulation-{}-{drawn}-{number}", std::process::id());
        let file = &self.hosts[host].file;
        let wisdom = match file.is_empty() {
            true => Wisdom::default(),
            false => Wisdom::from_bytes(file).expect("a file that was written whole"),
        };
        let (knowledge, refused) = Knowledge::from_wisdom(wisdom);
        assert_eq!(refused, 0, "a daemon refuses what a daemon has saved");
        let name = self.hosts[host].name.clone();
        let node = Node::new(&self.config(), name, &segment, knowledge, self.clocks());
        let mut node = node.expect("shared memory for a board");
        let question = Question { connection: 0, trusted: true, ask: Ask::Board };
        let board = node.handle(question, self.clocks()).and_then(|reply| reply.file);
        let board = BoardView::open(board.expect("a file")).expect("the board that was made");
        self.hosts[host].lives += 1;
        let life = self.hosts[host].lives;
        let word = Experiment::load(board.experiment());
        let (saved, now) = (node.knowledge().changes(), self.now);
        self.hosts[host].daemon = Some(Daemon {
            node,
            board,
            life,
            connections: 0,
            look: None,
            looked: now,
            word,
            stopping_since: now,
            frozen_until: now,
            is_unanswered: false,
            saved,
            saves: false,
        });
        self.note(1, host as u64);
        self.after_daemon(host);
    }

    /// Who is connected finds out when it looks.
    pub fn kill_daemon(&mut self, host: usize) {
        if let Some(daemon) = self.hosts[host].daemon.take() {
            self.note(2, host as u64);
            self.cancel(daemon.look);
        }
    }

    /// The daemon, if it still lives this life.
    pub fn daemon(&mut self, host: usize, life: u64) -> Option<&mut Daemon> {
        self.hosts[host].daemon.as_mut().filter(|daemon| daemon.life == life)
    }

    pub fn lives(&self, host: usize, life: u64) -> bool {
        self.hosts[host].daemon.as_ref().is_some_and(|daemon| daemon.life == life)
    }

    /// # Errors
    /// Where the daemon refuses. `None`: there is no daemon.
    pub fn connect(&mut self, host: usize, role: Role) -> Result<Option<Link>, Refusal> {
        let now = self.clocks();
        let Some(daemon) = self.hosts[host].daemon.as_mut() else { return Ok(None) };
        daemon.connections += 1;
        let (connection, life) = (daemon.connections, daemon.life);
        if let Some(thaws) = daemon.frozen(now.moment) {
            let ask = Ask::Hello(role);
            self.after(thaws, Event::Told { host, life, connection, ask });
            self.hang_up(host, life, connection);
            return Ok(None);
        }
        let mut file = |ask| {
            let question = Question { connection, trusted: true, ask };
            let reply = daemon.node.handle(question, now).expect("an answer");
            match reply.answer {
                Answer::Welcome | Answer::Board => Ok(reply.file.expect("a file")),
                Answer::Refused(refusal) => Err(refusal),
                other => panic!("{other:?} to a hello"),
            }
        };
        let slot = Slot::open(&file(Ask::Hello(role))?).expect("a slot");
        let board = BoardView::open(file(Ask::Board)?).expect("the daemon's board");
        self.after_daemon(host);
        Ok(Some(Link { life, connection, slot, board }))
    }

    /// A question on a connection. `None`: that is broken, or nobody answers in time; in the end it is read all the
    /// same.
    pub fn ask(&mut self, host: usize, life: u64, connection: u64, ask: Ask) -> Option<Answer> {
        let now = self.clocks();
        let daemon = self.daemon(host, life)?;
        if let Some(thaws) = daemon.frozen(now.moment) {
            self.after(thaws, Event::Told { host, life, connection, ask });
            return None;
        }
        let question = Question { connection, trusted: true, ask };
        let reply = daemon.node.handle(question, now);
        self.after_daemon(host);
        Some(reply.map_or(Answer::Done, |reply| reply.answer))
    }

    /// What needs no answer takes its time, in the order of the connection.
    pub fn tell(&mut self, host: usize, life: u64, connection: u64, ask: Ask) {
        let after = self.lag();
        self.after(after, Event::Told { host, life, connection, ask });
    }

    /// The end of a connection is noticed in its time.
    pub fn hang_up(&mut self, host: usize, life: u64, connection: u64) {
        let late = self.late();
        let now = self.now;
        let thaws = self.daemon(host, life).and_then(|daemon| daemon.frozen(now));
        let after = thaws.map_or(late, |thaws| thaws + self.lag());
        self.after(after, Event::Gone { host, life, connection });
    }

    pub fn told(&mut self, host: usize, life: u64, connection: u64, ask: Ask) {
        self.ask(host, life, connection, ask);
    }

    pub fn gone(&mut self, host: usize, life: u64, connection: u64) {
        let now = self.clocks();
        let Some(daemon) = self.daemon(host, life) else { return };
        if let Some(thaws) = daemon.frozen(now.moment) {
            self.after(thaws, Event::Gone { host, life, connection });
            return;
        }
        daemon.node.gone(connection, now);
        self.after_daemon(host);
    }

    pub fn look(&mut self, host: usize) {
        let now = self.clocks();
        let Some(daemon) = self.hosts[host].daemon.as_mut() else { return };
        daemon.look = None;
        if let Some(thaws) = daemon.frozen(now.moment) {
            let key = self.after(thaws, Event::Look { host });
            self.hosts[host].daemon.as_mut().expect("it is frozen").look = Some(key);
            return;
        }
        daemon.looked = now.moment;
        daemon.node.look(now);
        self.after_daemon(host);
    }

    pub fn is_frozen(&self, host: usize) -> bool {
        let daemon = self.hosts[host].daemon.as_ref();
        daemon.is_some_and(|daemon| daemon.frozen(self.now).is_some())
    }

    pub fn freeze_daemon(&mut self, host: usize, for_: Duration) {
        let until = self.now + for_;
        if let Some(daemon) = self.hosts[host].daemon.as_mut() {
            daemon.frozen_until = until.max(daemon.frozen_until);
            self.note(4, host as u64);
        }
    }

    /// What the daemon's loop does after each event; and whether its word keeps the rules.
    fn after_daemon(&mut self, host: usize) {
        let (now, clocks, pace) = (self.now, self.clocks(), self.rules.look_pace);
        let daemon = self.hosts[host].daemon.as_mut().expect("it has just spoken");
        let to_close = daemon.node.take_connections_to_close();
        let word = Experiment::load(daemon.board.experiment());
        let before = std::mem::replace(&mut daemon.word, word);
        let soonest = (daemon.looked + pace).saturating_sub(now);
        let next = daemon.node.next_look(clocks).map(|next| next.max(soonest));
        let (old, life) = (daemon.look.take(), daemon.life);
        let changes = daemon.node.knowledge().changes();
        let is_news = daemon.saved != changes && !daemon.saves && self.rules.saves;
        daemon.saves |= is_news;
        if word != before {
            match (before.phase, word.phase) {
                (_, Phase::Stopping) => daemon.stopping_since = now,
                (Phase::Running, Phase::Quiet) => {
                    daemon.stopping_since = now;
                    self.check_quiet(host);
                }
                (Phase::Stopping, Phase::Quiet) => self.check_quiet(host),
                _ => {}
            }
            self.word_changed(host, word);
        }
        self.cancel(old);
        if let Some(next) = next {
            let late = self.lag();
            let key = self.after(next + late, Event::Look { host });
            self.hosts[host].daemon.as_mut().expect("it is there").look = Some(key);
        }
        if is_news {
            self.after(SAVE_DELAY, Event::Save { host, life });
        }
        for connection in to_close {
            self.closed(host, life, connection);
        }
    }

    /// Applications go ahead now: the experiment does not hold, or was given all the time that it may have.
    fn check_quiet(&mut self, host: usize) {
        let is_in_use = self.job_may_send(host);
        let (now, rules) = (self.now, self.rules.clone());
        let daemon = self.hosts[host].daemon.as_mut().expect("it has just spoken");
        let took = now - daemon.stopping_since;
        if is_in_use {
            assert!(
                took >= rules.hold_wait_max,
                "the daemon of node {host} lets programs go ahead after {took:?}, and a rank is bound"
            );
            daemon.is_unanswered = true;
            self.figures.overdue += 1;
        }
        if daemon.frozen_until > daemon.stopping_since {
            return;
        }
        let most = rules.hold_wait_max + rules.look_pace + rules.most_lag * 2 + rules.stopping_look;
        assert!(took <= most, "node {host} has been stopping for {took:?}");
    }

    /// Whether the experiment's rank may send by what the daemon of its node was told last.
    pub fn is_unanswered(&self, host: usize) -> bool {
        self.hosts[host].daemon.as_ref().is_some_and(|daemon| daemon.is_unanswered)
    }

    pub fn save(&mut self, host: usize, life: u64) {
        let Some(daemon) = self.daemon(host, life) else { return };
        daemon.saves = false;
        daemon.saved = daemon.node.knowledge().changes();
        let bytes = daemon.node.knowledge().to_wisdom().to_bytes();
        self.hosts[host].file = bytes.expect("what is known fits into the file");
    }
}
