//! Rank 0 of the job: leads all ranks through the steps of the schedule. Time, messages and steps are those of
//! the [`Ranks`] it is given.

use super::wire::{BroadcastWork, News, Order, StepResult, Work};
use super::{IDLE_NAP, KEPT_BYTES, SHORT_NAP};
use crate::measurement::{Outcome, Request, Transfer, TransferResult};
use crate::search::Report;
use crate::search::schedule::{Adaptation, Schedule};
use arborcast_proto::message::{Refusal, TrialRecord};
use arborcast_proto::{GroupHash, Plan, Target};
use std::time::{Duration, Instant};

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

/// The ranks of a job as rank 0 has them: its own, and ways to the others.
pub trait Ranks {
    fn now(&self) -> Instant;

    /// Seconds since 1970, for the records.
    fn unix_s(&self) -> f64;

    /// Gives an order to each of these ranks, of which none is this one. Each gets its orders in the order of
    /// sending.
    fn send(&mut self, ranks: &[usize], order: &Order);

    /// What has come from another rank, and its number.
    fn receive(&mut self) -> Option<(usize, News)>;

    /// Whether mail is on its way that moves only when this rank looks for mail.
    fn is_busy(&self) -> bool;

    /// This rank carries out an order itself, and gives its answer, if there is one.
    fn obey(&mut self, order: Order) -> Option<News>;

    /// What this rank has to say of its daemon.
    ///
    /// # Errors
    /// Where the daemon refuses this job.
    fn poll(&mut self) -> Result<Vec<News>, Refusal>;

    /// Sleeps for `limit`, or until this rank's daemon changes its mind.
    fn rest(&mut self, limit: Duration);

    /// Sleeps for `limit`.
    fn sleep(&mut self, limit: Duration);

    /// A line for who watches the job.
    fn say(&mut self, line: String);

    /// A line that is to be seen whoever watches.
    fn warn(&mut self, line: String);
}

/// Why a job ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("the daemon refuses this job: {0}")]
    Refused(Refusal),
    #[error("node {0}")]
    Rank(String),
}

/// When the job is over.
#[derive(Debug, Clone, Copy, Default)]
pub struct Until {
    /// After this time.
    pub duration: Option<Duration>,
    /// Once there is nothing left to try.
    pub is_exhausted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    Free,
    Asked,
    Ready,
    Held,
}

/// The whole job, seen from rank 0.
pub struct Coordinator<R> {
    job: R,
    until: Until,
    schedule: Schedule,
    ranks: Vec<Rank>,
    /// How long an order takes to each rank and its answer back, of several the least.
    round_trip_s: Vec<f64>,
    /// What roots wait beyond half a round trip.
    start_margin_s: f64,
    /// How long the ranks took last to get ready.
    lead_s: f64,
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

impl<R: Ranks> Coordinator<R> {
    /// Of a job with a rank for each of the schedule's names.
    pub fn new(job: R, schedule: Schedule, until: Until) -> Self {
        let (size, now) = (schedule.names().len(), job.now());
        Coordinator {
            job,
            until,
            schedule,
            ranks: vec![Rank::Free; size],
            round_trip_s: vec![f64::INFINITY; size],
            start_margin_s: START_MARGIN_S,
            lead_s: 0.0,
            step: 1,
            asked: None,
            results: vec![StepResult::default(); size],
            groups: Vec::new(),
            formed: 0,
            room_bytes: 0,
            started: now,
            last_sent: now,
            failure: None,
        }
    }

    /// Searches until the job is over, and tells all ranks so.
    ///
    /// # Errors
    /// Where the job cannot go on.
    pub fn run(mut self) -> Result<(), Failure> {
        let outcome = self.search();
        self.tell_all(&Order::End);
        outcome
    }

    fn search(&mut self) -> Result<(), Failure> {
        let mut nap = SHORT_NAP;
        for _ in 0..ROUND_TRIPS {
            self.make_ready()?;
            self.release_all();
        }
        loop {
            if self.until.duration.is_some_and(|limit| self.since(self.started) >= limit) {
                return Ok(());
            }
            if self.take_news()? {
                nap = SHORT_NAP;
            }
            self.adapt();
            let is_ready = self.ranks.iter().all(|rank| *rank == Rank::Ready);
            // One that took longer than usual is no reason to see no room any more.
            let lead_s = self.lead_s.min(2.0 * self.longest_s());
            self.schedule.note_lead(if is_ready { 0.0 } else { lead_s });
            let Some((target, request)) = self.schedule.choose(self.job.now()) else {
                self.release_all();
                if self.until.is_exhausted && self.schedule.is_exhausted() {
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
            let chosen = self.job.now();
            if self.make_ready()? {
                if !is_ready {
                    self.lead_s = self.since(chosen).as_secs_f64();
                }
                self.carry_out(target, request)?;
            }
        }
    }

    /// Follows what applications' broadcasts say of the network, and makes at most one of the plans that wait.
    fn adapt(&mut self) {
        let (unix_s, now) = (self.job.unix_s(), self.job.now());
        let news = self.schedule.adapt(unix_s, now);
        self.tell_news(news);
        if self.schedule.has_plans_to_make() {
            // A program would wait for them.
            self.release_all();
        }
        let news = self.schedule.plan(self.job.now());
        self.tell_news(news);
        let late = self.schedule.late_nodes(self.job.now());
        if !late.is_empty() {
            self.tell_all(&Order::Lateness(late));
        }
        if let Some(spending) = self.schedule.spending(self.job.now()) {
            self.tell_all(&Order::Spending(spending));
        }
    }

    fn tell_news(&mut self, news: Vec<Adaptation>) {
        for Adaptation { what, network, trial, findings } in news {
            self.job.say(what);
            if let Some(record) = trial {
                self.record(record);
            }
            if let Some((group, network)) = network {
                self.tell_all(&Order::Network(group, Box::new(network)));
            }
            for finding in findings {
                let (plan, seconds) = (&finding.plan, finding.times.median_s);
                let how = if finding.times.is_measured() { "measured" } else { "expected" };
                let line = format!("{}: {seconds:.4} s {how} of {plan}", finding.target());
                self.job.say(line);
                self.tell_all(&Order::Publish(Box::new(finding)));
            }
        }
    }

    fn since(&self, moment: Instant) -> Duration {
        self.job.now().saturating_duration_since(moment)
    }

    /// What is left of the pause that a request asks for.
    fn pause_left(&self, request: &Request) -> Duration {
        Duration::from_secs_f64(request.pause_s()).saturating_sub(self.since(self.last_sent))
    }

    /// Sleeps for a while; returns how long to sleep next time.
    fn rest(&mut self, nap: Duration) -> Duration {
        let nap = if self.job.is_busy() { SHORT_NAP } else { nap };
        self.job.rest(nap);
        (nap * 2).min(IDLE_NAP)
    }

    /// The number of the target's group where all is there that the step needs; else a part of that is
    /// done, and somebody may have become held meanwhile.
    fn prepare(&mut self, target: Target, request: &Request) -> Result<Option<usize>, Failure> {
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
                self.job.say(format!("a node has no memory for messages of {bytes} B"));
                self.schedule.cap(bytes / 2);
            }
            return Ok(None);
        }
        Ok(Some(used.1))
    }

    /// Carries a request of a search out with all ranks, which are ready.
    fn carry_out(&mut self, target: Target, request: Request) -> Result<(), Failure> {
        let Some(group) = self.prepare(target, &request)? else { return Ok(()) };
        let started = self.job.now();
        let pause_s = request.pause_s();
        let outcome = match request {
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
            Request::Transfers(transfers) => {
                let in_passing = self.schedule.asks_in_passing(target);
                Some(self.transfers(group, &transfers, in_passing)?)
            }
        };
        self.last_sent = self.job.now();
        let spent_s = pause_s + self.since(started).as_secs_f64();
        match outcome {
            Some(outcome) => {
                let (unix_s, now) = (self.job.unix_s(), self.job.now());
                let waited_s = self.results.iter().map(|result| result.waited_s);
                self.schedule.note_wait(waited_s.fold(0.0, f64::max), now);
                let report = self.schedule.answer(target, outcome, spent_s, unix_s, now);
                if let Some(report) = report {
                    self.tell(report);
                }
            }
            None => self.schedule.spend(target, spent_s),
        }
        if let Some((group, network)) = self.schedule.learn(target) {
            self.tell_all(&Order::Network(group, Box::new(network)));
        }
        Ok(())
    }

    /// The longest that an order takes to a rank and its answer back, in seconds.
    fn longest_s(&self) -> f64 {
        self.round_trip_s.iter().copied().filter(|s| s.is_finite()).fold(0.0, f64::max)
    }

    /// One broadcast; what came of it, if it counts.
    fn broadcast(
        &mut self,
        target: Target,
        work: &BroadcastWork,
        plan: &Plan,
    ) -> Result<Option<Outcome>, Failure> {
        let root_rank = self.root_rank(target);
        self.go(|rank| {
            let plan = (rank == root_rank && !work.native).then(|| plan.clone());
            Work::Broadcast(BroadcastWork { plan, ..work.clone() })
        })?;
        let result = self.results.iter().find_map(|result| result.broadcast);
        let is_late = self.results.iter().any(|result| result.listened_late);
        if is_late && self.start_margin_s < LATE_MAX_S {
            self.start_margin_s += LATE_STEP_S;
            return Ok(None);
        }
        Ok(result.map(Outcome::Broadcast))
    }

    /// The rank of the node that a target's broadcasts start from.
    fn root_rank(&self, target: Target) -> usize {
        let root =
            self.schedule.group(target).map(|group| &group.nodes()[usize::from(target.root)]);
        root.map_or(0, |root| self.schedule.rank_of(root))
    }

    /// One round of link measurements.
    fn transfers(
        &mut self,
        group: usize,
        transfers: &[Transfer],
        in_passing: bool,
    ) -> Result<Outcome, Failure> {
        // The order comes to near ranks first, and all are to start at once.
        let longest_s = self.longest_s();
        let start_after_s =
            |own_s: &f64| longest_s / 2.0 + self.start_margin_s - own_s.min(longest_s) / 2.0;
        let start_after_s: Vec<f64> = self.round_trip_s.iter().map(start_after_s).collect();
        self.go(|rank| Work::Transfers {
            group,
            transfers: transfers.to_vec(),
            start_after_s: start_after_s[rank],
            in_passing,
        })?;
        let mut results = vec![TransferResult::timed(f64::INFINITY); transfers.len()];
        for StepResult { transfers, lost, .. } in &self.results {
            for (number, seconds) in transfers {
                if let Some(result) = results.get_mut(*number) {
                    (result.seconds, result.lost) = (*seconds, *lost);
                }
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
    fn tell(&mut self, Report { record, findings }: Report) {
        self.record(record);
        for finding in findings {
            self.tell_all(&Order::Publish(Box::new(finding)));
        }
    }

    /// Submits what came of a trial to the daemons that keep it.
    fn record(&mut self, record: TrialRecord) {
        let time = |s: Option<f64>| s.map_or("dropped".into(), |s| format!("{s:.4} s"));
        let median = record.times.map(|times| times.median_s);
        let TrialRecord { target, number, bytes, ref plan, best_s, .. } = record;
        let (median, best) = (time(median), time(best_s));
        let line = format!("{target} trial {number}: {bytes} B in {median} (best {best}) {plan}");
        self.job.say(line);
        let root_rank = self.root_rank(target);
        let order = Order::Record(Box::new(record));
        if root_rank != 0 {
            self.job.send(&[root_rank], &order);
        }
        self.job.obey(order);
    }

    fn tell_all(&mut self, order: &Order) {
        let others: Vec<_> = (1..self.ranks.len()).collect();
        self.job.send(&others, order);
        self.job.obey(order.clone());
    }

    /// Asks every rank that is not ready; true when all are.
    fn make_ready(&mut self) -> Result<bool, Failure> {
        self.asked = Some(self.job.now());
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
    fn go(&mut self, work: impl Fn(usize) -> Work) -> Result<(), Failure> {
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

    /// A rank that is released gives memory above this back.
    fn note_release(&mut self) {
        self.room_bytes = self.room_bytes.min(KEPT_BYTES);
    }

    /// Gives an order to a rank, which may be this one.
    fn order(&mut self, rank: usize, order: Order) {
        if order == Order::Release {
            self.note_release();
        }
        if rank > 0 {
            self.job.send(&[rank], &order);
        } else if let Some(news) = self.job.obey(order) {
            self.note(0, news);
        }
    }

    /// Waits until no rank owes an answer; true when all are ready.
    fn wait_for_answers(&mut self) -> Result<bool, Failure> {
        let (mut said, mut nap) = (self.job.now(), SHORT_NAP / 8);
        while self.ranks.contains(&Rank::Asked) {
            if self.take_news()? {
                nap = SHORT_NAP / 8;
                continue;
            }
            if self.since(said) >= SAY_AFTER {
                said = self.job.now();
                let missing = self
                    .ranks
                    .iter()
                    .zip(self.schedule.names())
                    .filter(|(r, _)| **r == Rank::Asked);
                let missing: Vec<_> = missing.map(|(_, name)| name.as_str()).collect();
                let line = format!("still waiting for {}", missing.join(", "));
                self.job.warn(line);
            }
            self.job.sleep(nap);
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
    fn take_news(&mut self) -> Result<bool, Failure> {
        let mut any = false;
        let own = self.job.poll().map_err(Failure::Refused)?;
        for news in own {
            any = true;
            self.note(0, news);
        }
        while let Some((from, news)) = self.job.receive() {
            any = true;
            self.note(from, news);
        }
        match self.failure.take() {
            Some(failure) => Err(Failure::Rank(failure)),
            None => Ok(any),
        }
    }

    fn note(&mut self, rank: usize, news: News) {
        match news {
            News::Ready { step, result } if step == self.step => {
                if let Some(asked) = self.asked {
                    let seconds = self.since(asked).as_secs_f64();
                    self.round_trip_s[rank] = self.round_trip_s[rank].min(seconds);
                }
                self.results[rank] = result;
                self.ranks[rank] = Rank::Ready;
            }
            News::Held { step, result } if step == self.step => {
                self.results[rank] = result;
                self.ranks[rank] = Rank::Held;
            }
            News::Unbound { step, result } if step == self.step => {
                self.results[rank] = result;
                self.ranks[rank] = Rank::Free;
                self.note_release();
            }
            News::Withdraw { step } if step == self.step && self.ranks[rank] != Rank::Asked => {
                self.ranks[rank] = Rank::Held;
                self.order(rank, Order::Release);
            }
            // The step has begun, or its answer is on its way: that will say the same.
            News::Ready { .. }
            | News::Held { .. }
            | News::Unbound { .. }
            | News::Withdraw { .. } => {}
            News::Available => {
                if self.ranks[rank] == Rank::Held {
                    self.ranks[rank] = Rank::Free;
                }
                self.schedule.note_free(self.job.now());
            }
            News::Demand { news, gone } => {
                self.schedule.note_demand(rank, news, &gone, self.job.now());
            }
            News::InUse(plans) => self.schedule.note_in_use(rank, plans),
            News::Deliveries(reports) => self.schedule.note_deliveries(rank, reports),
            News::Failed(reason) => {
                self.failure = Some(format!("{}: {reason}", self.schedule.names()[rank]));
                self.ranks[rank] = Rank::Held;
            }
        }
    }
}
