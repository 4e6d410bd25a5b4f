//! Rank 0, with the ways to the other ranks: what the coordinator leads.

use crate::error::JobError;
use crate::mailbox::Mailbox;
use crate::options::Options;
use crate::worker::Worker;
use arborcast_planner::job::coordinator::{Coordinator, Failure, Ranks, Until};
use arborcast_planner::job::wire::{News, Order};
use arborcast_planner::search::schedule::{Schedule, Settings};
use arborcast_proto::NodeName;
use arborcast_proto::message::Refusal;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Leader<'a> {
    mailbox: &'a Mailbox,
    worker: Worker,
    started: Instant,
    is_quiet: bool,
}

/// Leads the job until it is over: its time is up, or there is nothing left where `--once` says so.
pub fn lead(
    options: &Options,
    settings: Settings,
    mailbox: &Mailbox,
    mut worker: Worker,
    (names, sites): (Vec<NodeName>, Vec<String>),
) -> Result<(), JobError> {
    if let Some(root) = &options.root
        && !names.iter().any(|name| name.as_str() == root)
    {
        let nodes: Vec<_> = names.iter().map(NodeName::as_str).collect();
        let problem = format!("--root {root}: the job's nodes are {}", nodes.join(", "));
        let others: Vec<_> = (1..mailbox.size()).collect();
        mailbox.send_to_each(&others, &Order::End);
        worker.obey(Order::End, mailbox);
        return Err(JobError::Usage(problem));
    }
    let schedule = Schedule::new(settings, names, sites);
    let until = Until { duration: options.duration, is_exhausted: options.once };
    let leader = Leader { mailbox, worker, started: Instant::now(), is_quiet: options.quiet };
    Coordinator::new(leader, schedule, until).run().map_err(|failure| match failure {
        Failure::Refused(refusal) => JobError::Refused(refusal),
        Failure::Rank(reason) => JobError::Rank(reason),
    })?;
    mailbox.close();
    Ok(())
}

impl Ranks for Leader<'_> {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn unix_s(&self) -> f64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    }

    fn send(&mut self, ranks: &[usize], order: &Order) {
        let ranks: Vec<_> = ranks.iter().map(|&rank| rank as i32).collect();
        self.mailbox.send_to_each(&ranks, order);
    }

    fn receive(&mut self) -> Option<(usize, News)> {
        self.mailbox.receive().map(|(from, news)| (from as usize, news))
    }

    fn is_busy(&self) -> bool {
        self.mailbox.is_busy()
    }

    fn obey(&mut self, order: Order) -> Option<News> {
        self.worker.obey(order, self.mailbox)
    }

    fn poll(&mut self) -> Result<Vec<News>, Refusal> {
        self.worker.poll(self.mailbox)
    }

    fn rest(&mut self, limit: Duration) {
        self.worker.daemon.sleep(limit);
    }

    fn sleep(&mut self, limit: Duration) {
        std::thread::sleep(limit);
    }

    fn say(&mut self, line: String) {
        if !self.is_quiet {
            eprintln!("[{:8.3}] {line}", self.started.elapsed().as_secs_f64());
        }
    }

    fn warn(&mut self, line: String) {
        eprintln!("arborcast-experiment: {line}");
    }
}
