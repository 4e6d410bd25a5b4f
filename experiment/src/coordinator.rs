//! Rank 0 of the job: leads all ranks through the steps of the schedule.

use crate::error::JobError;
use crate::groups::KEPT_BYTES;
use crate::mailbox::{IDLE_NAP, Mailbox, SHORT_NAP};
use crate::options::Options;
use crate::wire::{BroadcastWork, News, Order, StepResult, Work};
use crate::worker::Worker;
use arborcast_planner::measurement::{Outcome, Request, Transfer, TransferResult};
use arborcast_planner::search::Report;
use arborcast_planner::search::schedule::{Adaptation, Schedule};
use arborcast_proto::{GroupHash, NodeName, Plan, Target};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How much later than the slowest order takes the root of a broadcast starts: other ranks look at their
/// mailbox within it while they are bound to a step.
const START_MARGIN_S: f64 = 0.004;
/// Where a broadcast came before somebody listened, since the way there is longer than the way back,
/// the next roots start later by this, up to the limit; the time taken does not count.
const LATE_STEP_S: f64 = 0.005;
const LATE_MAX_S: f64 = 0.25;
/// Measurements of the way to each rank before anything else, the first with connections still to be made.
const ROUND_TRIPS: u32 = 3;
/// After this long without an answer it is said for whom the job waits.
const SAY_AFTER: Duration = Duration::from_secs(60);
/// Groups that have communicators; an MPI has a limited number of them, and each group takes two.
const FORMED_GROUPS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Free,
    Asked,
    Ready,
    Held,
}

/// The whole job, seen from rank 0.
pub struct Coordinator<'a> {
    options: &'a Options,
    mailbox: &'a Mailbox,
    worker: Worker,
    schedule: Schedule,
    ranks: Vec<Rank>,
    /// How long an order takes to each rank and its answer back, of several the least.
    round_trip_s: Vec<f64>,
    /// What roots wait beyond half a round trip.
    start_margin_s: f64,
    step: u64,
    /// When the ranks were asked whether they are ready, while nothing else is asked of them.
    asked: Option<Instant>,
    results: Vec<StepResult>,
    /// The groups that are formed, the one used last at the end, and the number each is known by.
    groups: Vec<(GroupHash, usize)>,
    /// How many were formed, ever.
    formed: usize,
    /// All ranks have memory for messages of this size.
    room_bytes: u64,
    started: Instant,
    /// The end of the last step that sent messages.
    last_sent: Instant,
    failure: Option<String>,
}

impl<'a> Coordinator<'a> {
    pub fn new(
        options: &'a Options,
        mailbox: &'a Mailbox,
        worker: Worker,
        names: Vec<NodeName>,
        sites: Vec<String>,
        begins_anew: bool,
    ) -> Self {
        let size = names.len();
        Coordinator {
            options,
            mailbox,
            worker,
            schedule: Schedule::new(options.settings(begins_anew), names, sites),
            ranks: vec![Rank::Free; size],
            round_trip_s: vec![f64::INFINITY; size],
            start_margin_s: START_MARGIN_S,
            step: 1,
            asked: None,
            results: vec![StepResult::default(); size],
            groups: Vec::new(),
            formed: 0,
            room_bytes: 0,
            started: Instant::now(),
            last_sent: Instant::now(),
            failure: None,
        }
    }

    /// Searches until the time is up, or there is nothing left where `--once` says so.
    pub fn run(mut self) -> Result<(), JobError> {
        let names = self.schedule.names();
        if let Some(root) = &self.options.root
            && !names.iter().any(|name| name.as_str() == root)
        {
            let nodes: Vec<_> = names.iter().map(NodeName::as_str).collect();
            let problem = format!("--root {root}: the job's nodes are {}", nodes.join(", "));
            self.tell_all(&Order::End);
            return Err(JobError::Usage(problem));
        }
        let outcome = self.search();
        self.tell_all(&Order::End);
        if outcome.is_ok() {
            self.mailbox.close();
        }
        outcome
    }

    fn search(&mut self) -> Result<(), JobError> {
        let mut nap = SHORT_NAP;
        for _ in 0..ROUND_TRIPS {
            self.make_ready()?;
            self.release_all();
        }
        loop {
            if self.options.duration.is_some_and(|limit| self.started.elapsed() >= limit) {
                return Ok(());
            }
            if self.take_news()? {
                nap = SHORT_NAP;
            }
            self.adapt();
            let Some((target, request)) = self.schedule.choose(Instant::now()) else {
                self.release_all();
                if self.options.once && self.schedule.is_exhausted() {
                    return Ok(());
                }
                nap = self.rest(nap);
                continue;
            };
            if self.ranks.contains(&Rank::Held) {
                self.release_all();
                nap = self.rest(nap);
                continue;
            }
            nap = SHORT_NAP;
            let pause_left = self.pause_left(&request);
            if !pause_left.is_zero() {
                self.release_all();
                self.rest(pause_left.min(IDLE_NAP));
                continue;
            }
            if self.make_ready()? {
                self.carry_out(target, request)?;
            }
        }
    }

    /// Follows what applications' broadcasts say of the network.
    fn adapt(&mut self) {
        for Adaptation { what, findings } in self.schedule.adapt(Instant::now()) {
            self.say(|| what);
            for finding in findings {
                self.say(|| {
                    let (plan, expected_s) = (&finding.plan, finding.times.median_s);
                    format!("{}: {expected_s:.4} s expected of {plan}", finding.target())
                });
                self.tell_all(&Order::Publish(Box::new(finding)));
            }
        }
    }

    /// What is left of the pause that a request asks for.
    fn pause_left(&self, request: &Request) -> Duration {
        Duration::from_secs_f64(request.pause_s()).saturating_sub(self.last_sent.elapsed())
    }

    /// Sleeps for a while; returns how long to sleep next time.
    fn rest(&self, nap: Duration) -> Duration {
        let nap = if self.mailbox.is_busy() { SHORT_NAP } else { nap };
        self.worker.daemon.sleep(nap);
        (nap * 2).min(IDLE_NAP)
    }

    /// The number of the target's group where all is there that the step needs; else a part of that is
    /// done, and somebody may have become held meanwhile.
    fn prepare(&mut self, target: Target, request: &Request) -> Result<Option<usize>, JobError> {
        let Some(place) = self.groups.iter().position(|(group, _)| *group == target.group) else {
            if self.groups.len() >= FORMED_GROUPS {
                let (_, group) = self.groups.remove(0);
                self.go(|_| Work::Free { group })?;
                return Ok(None);
            }
            let Some(group) = self.schedule.group(target) else { return Ok(None) };
            let nodes = group.nodes();
            let members = nodes.iter().map(|node| self.schedule.rank_of(node) as i32).collect();
            let group = self.formed;
            self.formed += 1;
            self.go(|_| Work::Form { group, members: Vec::clone(&members) })?;
            self.groups.push((target.group, group));
            return Ok(None);
        };
        // The least recently used come first.
        let used = self.groups.remove(place);
        self.groups.push(used);
        if let Request::Broadcast { bytes, .. } = *request
            && (bytes > self.room_bytes || (bytes <= KEPT_BYTES && self.room_bytes > KEPT_BYTES))
        {
            self.go(|_| Work::Reserve { bytes })?;
            self.room_bytes = bytes;
            if self.results.iter().any(|result| result.has_no_room) {
                self.room_bytes = 0;
                self.say(|| format!("a node has no memory for messages of {bytes} B"));
                self.schedule.cap(bytes / 2);
            }
            return Ok(None);
        }
        Ok(Some(used.1))
    }

    /// Carries a request of a search out with all ranks, which are ready.
    fn carry_out(&mut self, target: Target, request: Request) -> Result<(), JobError> {
        let Some(group) = self.prepare(target, &request)? else { return Ok(()) };
        let started = Instant::now();
        let pause_s = request.pause_s();
        let (root_rank, outcome) = match request {
            Request::Broadcast { plan, bytes, give_up_after_s, .. } => {
                let work = BroadcastWork {
                    group,
                    root: target.root.into(),
                    bytes,
                    native: plan == Plan::Native,
                    plan: None,
                    start_after_s: self.longest_s() / 2.0 + self.start_margin_s,
                    give_up_after_s,
                };
                self.broadcast(target, &work, &plan)?
            }
            Request::Transfers(transfers) => (0, Some(self.transfers(group, &transfers)?)),
        };
        self.last_sent = Instant::now();
        let spent_s = pause_s + started.elapsed().as_secs_f64();
        match outcome {
            Some(outcome) => {
                let report =
                    self.schedule.answer(target, outcome, spent_s, unix_s(), Instant::now());
                if let Some(report) = report {
                    self.tell(target, root_rank, report);
                }
            }
            None => self.schedule.spend(target, spent_s),
        }
        if let Some((group, links)) = self.schedule.learn(target) {
            self.tell_all(&Order::Links(group, Box::new(links)));
        }
        Ok(())
    }

    /// The longest that an order takes to a rank and its answer back, in seconds.
    fn longest_s(&self) -> f64 {
        self.round_trip_s.iter().copied().filter(|s| s.is_finite()).fold(0.0, f64::max)
    }

    /// One broadcast; the root's rank, and what came of it, if it counts.
    fn broadcast(
        &mut self,
        target: Target,
        work: &BroadcastWork,
        plan: &Plan,
    ) -> Result<(usize, Option<Outcome>), JobError> {
        let root = self.schedule.group(target).map(|group| &group.nodes()[work.root]);
        let root_rank = root.map_or(0, |root| self.schedule.rank_of(root));
        self.go(|rank| {
            let plan = (rank == root_rank && !work.native).then(|| plan.clone());
            Work::Broadcast(BroadcastWork { plan, ..work.clone() })
        })?;
        let result = self.results.iter().find_map(|result| result.broadcast);
        let is_late = self.results.iter().any(|result| result.listened_late);
        if is_late && self.start_margin_s < LATE_MAX_S {
            self.start_margin_s += LATE_STEP_S;
            return Ok((root_rank, None));
        }
        Ok((root_rank, result.map(Outcome::Broadcast)))
    }

    /// One round of link measurements.
    fn transfers(&mut self, group: usize, transfers: &[Transfer]) -> Result<Outcome, JobError> {
        // The order comes to near ranks first, and all are to start at once.
        let longest_s = self.longest_s();
        let start_after_s =
            |own_s: &f64| longest_s / 2.0 + self.start_margin_s - own_s.min(longest_s) / 2.0;
        let start_after_s: Vec<f64> = self.round_trip_s.iter().map(start_after_s).collect();
        self.go(|rank| Work::Transfers {
            group,
            transfers: transfers.to_vec(),
            start_after_s: start_after_s[rank],
        })?;
        let mut results = vec![TransferResult::timed(f64::INFINITY); transfers.len()];
        for (number, seconds) in self.results.iter().flat_map(|r| &r.transfers) {
            if let Some(result) = results.get_mut(*number) {
                result.seconds = *seconds;
            }
        }
        for (number, arrivals) in self.results.iter_mut().flat_map(|r| r.arrivals.drain(..)) {
            if let Some(result) = results.get_mut(number) {
                result.arrivals = arrivals;
            }
        }
        let disturbed = self.results.iter().any(|result| result.disturbed);
        Ok(Outcome::Transfers { results, disturbed })
    }

    /// Submits records and findings to the daemons.
    fn tell(&mut self, target: Target, root_rank: usize, Report { record, finding }: Report) {
        self.say(|| {
            let time = |s: Option<f64>| s.map_or("dropped".into(), |s| format!("{s:.4} s"));
            let median = record.times.map(|times| times.median_s);
            let (number, bytes, plan) = (record.number, record.bytes, &record.plan);
            let (median, best) = (time(median), time(record.best_s));
            format!("{target} trial {number}: {bytes} B in {median} (best {best}) {plan}")
        });
        let order = Order::Record(Box::new(record));
        if root_rank != 0 {
            self.mailbox.send(root_rank as i32, &order);
        }
        self.worker.obey(order, self.mailbox);
        if let Some(finding) = finding {
            self.tell_all(&Order::Publish(Box::new(finding)));
        }
    }

    fn say(&self, line: impl FnOnce() -> String) {
        if !self.options.quiet {
            eprintln!("[{:8.3}] {}", self.started.elapsed().as_secs_f64(), line());
        }
    }

    fn tell_all(&mut self, order: &Order) {
        let others: Vec<_> = (1..self.mailbox.size()).collect();
        self.mailbox.send_to_each(&others, order);
        self.worker.obey(order.clone(), self.mailbox);
    }

    /// Asks every rank that is not ready; true when all are.
    fn make_ready(&mut self) -> Result<bool, JobError> {
        self.asked = Some(Instant::now());
        for rank in 0..self.ranks.len() {
            if self.ranks[rank] == Rank::Free {
                self.ranks[rank] = Rank::Asked;
                self.order(rank, Order::Prepare { step: self.step });
            }
        }
        self.wait_for_answers()
    }

    /// Lets all ranks, which are ready, carry out their work; afterwards each is ready for the next
    /// step or held.
    fn go(&mut self, work: impl Fn(usize) -> Work) -> Result<(), JobError> {
        let step = self.step;
        self.step += 1;
        self.asked = None;
        self.results.fill(StepResult::default());
        self.ranks.fill(Rank::Asked);
        // This rank's own part last: it takes until the step is over.
        for rank in (0..self.ranks.len()).rev() {
            self.order(rank, Order::Go { step, work: work(rank) });
        }
        self.wait_for_answers()?;
        Ok(())
    }

    /// Gives an order to a rank, which may be this one.
    fn order(&mut self, rank: usize, order: Order) {
        if order == Order::Release {
            // A rank that is released gives memory above this back.
            self.room_bytes = self.room_bytes.min(KEPT_BYTES);
        }
        if rank > 0 {
            self.mailbox.send(rank as i32, &order);
        } else if let Some(news) = self.worker.obey(order, self.mailbox) {
            self.note(0, news);
        }
    }

    /// Waits until no rank owes an answer; true when all are ready.
    fn wait_for_answers(&mut self) -> Result<bool, JobError> {
        let (mut said, mut nap) = (Instant::now(), SHORT_NAP / 8);
        while self.ranks.contains(&Rank::Asked) {
            if self.take_news()? {
                nap = SHORT_NAP / 8;
                continue;
            }
            if said.elapsed() >= SAY_AFTER {
                said = Instant::now();
                let missing = self
                    .ranks
                    .iter()
                    .zip(self.schedule.names())
                    .filter(|(r, _)| **r == Rank::Asked);
                let missing: Vec<_> = missing.map(|(_, name)| name.as_str()).collect();
                eprintln!("arborcast-experiment: still waiting for {}", missing.join(", "));
            }
            std::thread::sleep(nap);
            nap = (nap * 2).min(SHORT_NAP);
        }
        Ok(self.ranks.iter().all(|rank| *rank == Rank::Ready))
    }

    fn release_all(&mut self) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank] == Rank::Ready {
                self.ranks[rank] = Rank::Free;
                self.order(rank, Order::Release);
            }
        }
    }

    /// Takes in what has come from all ranks, this one included; true if there was anything.
    fn take_news(&mut self) -> Result<bool, JobError> {
        let mut any = false;
        let own = self.worker.poll().map_err(JobError::Refused)?;
        for news in own {
            any = true;
            self.note(0, news);
        }
        while let Some((from, news)) = self.mailbox.receive() {
            any = true;
            self.note(from as usize, news);
        }
        match self.failure.take() {
            Some(failure) => Err(JobError::Rank(failure)),
            None => Ok(any),
        }
    }

    fn note(&mut self, rank: usize, news: News) {
        match news {
            News::Ready { step, result } if step == self.step => {
                if let Some(asked) = self.asked {
                    let seconds = asked.elapsed().as_secs_f64();
                    self.round_trip_s[rank] = self.round_trip_s[rank].min(seconds);
                }
                self.results[rank] = result;
                self.ranks[rank] = Rank::Ready;
            }
            News::Held { step, result } if step == self.step => {
                self.results[rank] = result;
                self.ranks[rank] = Rank::Held;
            }
            News::Withdraw { step } if step == self.step && self.ranks[rank] != Rank::Asked => {
                self.ranks[rank] = Rank::Held;
                self.order(rank, Order::Release);
            }
            // The step has begun, or its answer is on its way: that will say the same.
            News::Ready { .. } | News::Held { .. } | News::Withdraw { .. } => {}
            News::Available => {
                if self.ranks[rank] == Rank::Held {
                    self.ranks[rank] = Rank::Free;
                }
                self.schedule.note_free(Instant::now());
            }
            News::Demand { news, gone } => {
                self.schedule.note_demand(rank, news, &gone, Instant::now());
            }
            News::Deliveries(reports) => self.schedule.note_deliveries(rank, reports),
            News::Failed(reason) => {
                self.failure = Some(format!("{}: {reason}", self.schedule.names()[rank]));
                self.ranks[rank] = Rank::Held;
            }
        }
    }
}

fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
