//! A rank's link to the daemon of its node: may it broadcast, what do applications want, and where
//! findings go. A node without a daemon takes part and is never held.

use arborcast_planner::job::kept::Kept;
use arborcast_planner::job::told::Told;
use arborcast_planner::job::wire::News;
use arborcast_planner::search::InUse;
use arborcast_proto::Target;
use arborcast_proto::client::{ClientError, Connection, socket_path};
use arborcast_proto::hold::{self, Experiment, Phase};
use arborcast_proto::message::{Answer, Ask, Refusal, Role};
use arborcast_shim::daemon::{ANSWER_LIMIT, Link, LinkError};
use std::time::{Duration, Instant};

/// Between two questions for the demand, and between two attempts to find a missing daemon.
const ASK_EVERY: Duration = Duration::from_millis(250);
const CONNECT_EVERY: Duration = Duration::from_secs(2);

/// The link, as long as there is a daemon. Without a daemon nothing is held, wanted or kept.
pub struct DaemonLink {
    epoch: u64,
    link: Option<Link>,
    /// When the daemon was last looked for.
    connected_at: Instant,
    asked: Instant,
    told: Told,
    kept: Kept,
    /// This rank may be sending, or about to.
    holds: bool,
}

impl DaemonLink {
    /// # Errors
    /// Where the daemon refuses this job: another one runs, or the user may not.
    pub fn open(epoch: u64) -> Result<Self, Refusal> {
        let now = Instant::now();
        let link = connect(epoch)?;
        let (told, kept) = (Told::default(), Kept::default());
        Ok(DaemonLink { epoch, link, connected_at: now, asked: now, told, kept, holds: false })
    }

    /// Where the daemon wants experiments to be now.
    pub fn experiment(&self) -> Experiment {
        match &self.link {
            Some(link) => Experiment::load(link.board().experiment()),
            None => Experiment { phase: Phase::Running, grant: 0 },
        }
    }

    pub fn may_run(&self) -> bool {
        self.experiment().phase == Phase::Running
    }

    /// Holds the network for what this rank is to send, if it may; else programs need not wait for it.
    pub fn enter(&mut self) -> bool {
        self.holds = match &self.link {
            Some(link) => hold::enter(link.slot().request(), link.board().experiment()),
            None => true,
        };
        if !self.holds {
            self.leave();
        }
        self.holds
    }

    /// Programs need not wait for this rank any more, whatever it is at. Only where it is bound to nothing.
    pub fn leave(&mut self) {
        self.holds = false;
        if let Some(link) = &mut self.link
            && hold::leave(link.slot().request(), link.board().experiment())
        {
            // A daemon that does not hear the bell looks at the desk now and then.
            let _ = link.connection().tell(&Ask::Ring);
        }
    }

    /// Sleeps for `limit`, or until the daemon changes its mind.
    pub fn sleep(&self, limit: Duration) {
        match &self.link {
            Some(link) => {
                let seen = Experiment::load(link.board().experiment());
                link.board().wait_for_change(seen, limit);
            }
            None => std::thread::sleep(limit),
        }
    }

    /// Keeps the link alive, and returns what is new of the node's applications.
    ///
    /// # Errors
    /// Where the daemon refuses this job.
    pub fn poll(&mut self) -> Result<Vec<News>, Refusal> {
        if self.link.is_none() && self.connected_at.elapsed() >= CONNECT_EVERY {
            self.connected_at = Instant::now();
            self.link = connect(self.epoch)?;
            if self.holds
                && let Some(link) = &self.link
            {
                // It has not let this rank run, and tells it to stop if it may not.
                let _ = hold::enter(link.slot().request(), link.board().experiment());
            }
            for ask in self.kept.again().collect::<Vec<_>>() {
                self.ask(&ask);
            }
        }
        if self.asked.elapsed() < ASK_EVERY {
            return Ok(Vec::new());
        }
        self.asked = Instant::now();
        let mut news = Vec::new();
        if let Some(Answer::Demand(demand)) = self.ask(&Ask::Demand) {
            let in_use = |target| in_use(self.link.as_ref(), target);
            news.extend(self.told.news(demand, in_use));
        }
        if let Some(Answer::Deliveries(reports)) = self.ask(&Ask::Deliveries)
            && !reports.is_empty()
        {
            news.push(News::Deliveries(reports));
        }
        Ok(news)
    }

    /// Whether programs broadcast from this node.
    pub fn has_demand(&self) -> bool {
        self.told.has_demand()
    }

    /// What the daemon has in use, where that is along trees.
    pub fn in_use(&self, target: Target) -> Option<InUse> {
        in_use(self.link.as_ref(), target)
    }

    /// Submits something to the daemon. Plans and links are told again to one that comes back; all else is lost
    /// without one, as is what a daemon will not take.
    pub fn submit(&mut self, ask: &Ask) {
        self.kept.note(ask);
        self.ask(ask);
    }

    fn ask(&mut self, ask: &Ask) -> Option<Answer> {
        match self.link.as_mut()?.connection().ask(ask) {
            Ok(answer) => Some(answer),
            Err(ClientError::Refused(_)) => None,
            Err(_) => {
                self.link = None;
                self.connected_at = Instant::now();
                None
            }
        }
    }
}

fn in_use(link: Option<&Link>, target: Target) -> Option<InUse> {
    InUse::of(link?.board().plan(target)?)
}

/// Of the daemon of this node, where one runs: the epoch of the job that is connected to it or was last, 0 before the
/// first, and the node's and the site's names.
pub fn running() -> Option<(u64, String, String)> {
    let answer =
        Connection::open(&socket_path(), ANSWER_LIMIT).and_then(|mut c| c.ask(&Ask::Status));
    match answer {
        Ok(Answer::Status(status)) => {
            Some((status.epoch.unwrap_or(0), status.node.to_string(), status.site.to_string()))
        }
        _ => None,
    }
}

fn connect(epoch: u64) -> Result<Option<Link>, Refusal> {
    match Link::open(Role::Experiment { epoch }) {
        Ok(link) => Ok(Some(link)),
        Err(LinkError::Client(ClientError::Refused(refusal))) => Err(refusal),
        Err(_) => Ok(None),
    }
}
