//! A rank's link to the daemon of its node: may it broadcast, what do applications want, and where
//! findings go. A node without a daemon takes part and is never held.

use arborcast_proto::client::ClientError;
use arborcast_proto::hold::{Experiment, Phase};
use arborcast_proto::message::{Answer, Ask, Demand, Refusal, Role};
use arborcast_shim::daemon::{Link, LinkError};
use std::time::{Duration, Instant};

/// How often the daemon is asked for its demand, and a missing daemon looked for.
const ASK_EVERY: Duration = Duration::from_millis(250);
const LOOK_EVERY: Duration = Duration::from_secs(2);

pub struct Station {
    epoch: u64,
    link: Option<Link>,
    looked: Instant,
    asked: Instant,
    /// Targets and broadcast counts of the demand last told.
    told: Vec<(arborcast_proto::Target, u64)>,
    /// The grant for which the daemon was told that we have stopped.
    stopped_grant: u32,
}

impl Station {
    /// # Errors
    /// Where the daemon refuses this job: another one runs, or the user may not.
    pub fn open(epoch: u64) -> Result<Self, Refusal> {
        let now = Instant::now();
        let link = connect(epoch)?;
        let told = Vec::new();
        Ok(Station { epoch, link, looked: now, asked: now, told, stopped_grant: 0 })
    }

    /// The node's and the site's name as the daemon knows them.
    pub fn names(&self) -> Option<(String, String)> {
        let identity = self.link.as_ref()?.board().identity();
        Some((identity.node.to_string(), identity.site.to_string()))
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

    /// Tells the daemon that this job has stopped, if it waits for that. Only for a rank that is
    /// bound to nothing.
    pub fn confirm_stop(&mut self) {
        let seen = self.experiment();
        let Some(link) = &mut self.link else { return };
        // Also when the daemon has given up waiting: it starts us again once it knows.
        if seen.phase != Phase::Running && self.stopped_grant != seen.grant {
            self.stopped_grant = seen.grant;
            link.slot().set_stopped_grant(seen.grant);
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

    /// Keeps the link alive, and returns the node's demand when it has changed.
    ///
    /// # Errors
    /// Where the daemon refuses this job.
    pub fn tend(&mut self) -> Result<Option<Vec<Demand>>, Refusal> {
        if self.link.is_none() && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.link = connect(self.epoch)?;
            self.stopped_grant = 0;
        }
        if self.asked.elapsed() < ASK_EVERY {
            return Ok(None);
        }
        self.asked = Instant::now();
        match self.ask(&Ask::Demand) {
            Some(Answer::Demand(demand)) => {
                let summary: Vec<_> = demand.iter().map(|d| (d.target, d.broadcasts)).collect();
                Ok((std::mem::replace(&mut self.told, summary) != self.told).then_some(demand))
            }
            _ => Ok(None),
        }
    }

    /// Hands something to the daemon; without one it is lost, as is what a daemon will not take.
    pub fn hand_in(&mut self, ask: &Ask) {
        self.ask(ask);
    }

    fn ask(&mut self, ask: &Ask) -> Option<Answer> {
        match self.link.as_mut()?.connection().ask(ask) {
            Ok(answer) => Some(answer),
            Err(ClientError::Refused(_)) => None,
            Err(_) => {
                self.link = None;
                self.looked = Instant::now();
                None
            }
        }
    }
}

fn connect(epoch: u64) -> Result<Option<Link>, Refusal> {
    match Link::open(Role::Experiment { epoch }) {
        Ok(link) => Ok(Some(link)),
        Err(LinkError::Client(ClientError::Refused(refusal))) => Err(refusal),
        Err(_) => Ok(None),
    }
}
