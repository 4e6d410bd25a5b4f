//! An experiment job: the coordinator that users run leads ranks that have the job's own state machine; only the
//! ways between them, and the network, are simulated.

use crate::host::Link;
use crate::world::{Event, Key, World};
use arborcast_planner::job::binding::Binding;
use arborcast_planner::job::coordinator::Ranks;
use arborcast_planner::job::kept::{Kept, of_network};
use arborcast_planner::job::told::Told;
use arborcast_planner::job::wire::{News, Order, StepResult};
use arborcast_planner::search::InUse;
use arborcast_proto::hold::{self, Experiment, Phase};
use arborcast_proto::message::{Answer, Ask, Refusal, Role};
use arborcast_service::arbiter::Moment;
use rand::RngExt;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// As the job's own: between two attempts to find a missing daemon.
const CONNECT_EVERY: Duration = Duration::from_secs(2);

pub struct Job {
    pub epoch: u64,
    pub ranks: Vec<Rank>,
    pub step: Option<crate::step::Step>,
    /// The members of the groups that are formed, by number.
    pub groups: std::collections::BTreeMap<usize, Vec<usize>>,
    /// For rank 0.
    inbox: VecDeque<(usize, News)>,
    /// Rank 0's answer to the step that it took part in.
    answer: Option<News>,
    /// The daemon's word of rank 0's node has changed.
    woken: bool,
}

pub struct Rank {
    binding: Binding,
    told: Told,
    kept: Kept,
    link: Option<Link>,
    connected_at: Moment,
    asked: Moment,
    /// It may be sending, or about to.
    holds: bool,
    /// The daemon that let it run when it bound itself; without one nobody holds it.
    bound_by: Option<u64>,
    mail: VecDeque<Order>,
    /// Takes part in a step.
    pub is_busy: bool,
    next: Option<Key>,
    /// Of the last message to it, and from it.
    last_mail: Moment,
    last_news: Moment,
}

impl World {
    pub fn start_job(&mut self) {
        self.epochs += 1;
        let (epoch, now) = (self.epochs, self.now);
        self.note(20, epoch);
        let mut ranks = Vec::new();
        for host in 0..self.hosts.len() {
            let link = self.connect(host, Role::Experiment { epoch });
            let link = link.expect("a newer job is not refused");
            ranks.push(Rank {
                binding: Binding::default(),
                told: Told::default(),
                kept: Kept::default(),
                link,
                connected_at: now,
                asked: now,
                holds: false,
                bound_by: None,
                mail: VecDeque::new(),
                is_busy: false,
                next: None,
                last_mail: now,
                last_news: now,
            });
        }
        self.job = Some(Job::new(epoch, ranks));
        self.waits_begin();
        for rank in 1..self.hosts.len() {
            self.wake(rank, Duration::ZERO);
        }
    }

    /// The launcher ends all ranks at once; daemons notice it in their time.
    pub fn kill_job(&mut self) {
        let Some(job) = self.job.take() else { return };
        self.note(21, job.epoch);
        for (host, rank) in job.ranks.into_iter().enumerate() {
            self.cancel(rank.next);
            if let Some(Link { life, connection, .. }) = rank.link {
                self.hang_up(host, life, connection);
            }
        }
    }

    /// The daemon has closed the connection of an experiment that was replaced.
    pub fn closed(&mut self, host: usize, life: u64, connection: u64) {
        self.figures.replaced += 1;
        let now = self.now;
        let rank = self.job.as_mut().and_then(|job| job.ranks.get_mut(host));
        let is_its = |link: &Link| (link.life, link.connection) == (life, connection);
        if let Some(rank) = rank.filter(|rank| rank.link.as_ref().is_some_and(is_its)) {
            (rank.link, rank.connected_at) = (None, now);
        }
    }

    pub fn rank(&mut self, rank: usize) -> &mut Rank {
        &mut self.job.as_mut().expect("a job").ranks[rank]
    }

    fn wake(&mut self, rank: usize, after: Duration) {
        let epoch = self.job.as_ref().expect("a job").epoch;
        let key = self.after(after, Event::Wake { rank, epoch });
        let next = &mut self.rank(rank).next;
        let (old, new) = match *next {
            Some(sooner) if sooner < key => (Some(key), sooner),
            later => (later, key),
        };
        *next = Some(new);
        self.cancel(old);
    }

    pub fn word_changed(&mut self, host: usize, word: Experiment) {
        let Some(daemon) = &self.hosts[host].daemon else { return };
        let life = daemon.life;
        self.say(&format!("node {host}: {:?} {}", word.phase, word.grant));
        if word.phase != Phase::Running {
            self.disturb(host);
        }
        self.wake_programs(host, life);
        let Some(job) = &mut self.job else { return };
        if host == 0 {
            job.woken = true;
        } else if job.ranks.len() > host {
            let after = self.lag();
            self.wake(host, after);
        }
    }

    /// Where the daemon wants experiments to be, as a rank sees it.
    pub fn word(&self, rank: usize) -> Experiment {
        let link = self.job.as_ref().and_then(|job| job.ranks[rank].link.as_ref());
        link.map_or(Experiment { phase: Phase::Running, grant: 0 }, Link::word)
    }

    /// Whether the rank of a node is bound to a step, as the daemon that lives there has let it. One that was not
    /// answered in time goes on as without a daemon, and the daemon takes it to be gone.
    pub fn job_may_send(&self, host: usize) -> bool {
        let rank = self.job.as_ref().and_then(|job| job.ranks.get(host));
        rank.is_some_and(|rank| {
            rank.binding.is_bound()
                && rank.link.is_some()
                && rank.bound_by.is_some_and(|life| self.lives(host, life))
        })
    }

    /// As the job's follower: news first, then an order.
    pub fn follow(&mut self, rank: usize) {
        self.rank(rank).next = None;
        if self.rank(rank).is_busy {
            return;
        }
        match self.poll(rank) {
            Ok(news) => news.into_iter().for_each(|news| self.send_news(rank, news)),
            Err(refusal) => panic!("the newest job is refused: {refusal}"),
        }
        if let Some(order) = self.rank(rank).mail.pop_front()
            && let Some(news) = self.obey(rank, order)
        {
            self.send_news(rank, news);
        }
        if !self.rank(rank).mail.is_empty() {
            return self.wake(rank, self.rules.nap.min(Duration::from_millis(1)));
        }
        let (now, asks) = (self.now, self.rules.ask_every);
        let rank_ = self.rank(rank);
        let next = match rank_.link {
            Some(_) => rank_.asked + asks,
            None => (rank_.connected_at + CONNECT_EVERY).min(rank_.asked + asks),
        };
        self.wake(rank, next.saturating_sub(now) + Duration::from_millis(1));
    }

    /// As `DaemonLink::poll` and `Worker::poll`.
    fn poll(&mut self, rank: usize) -> Result<Vec<News>, Refusal> {
        let (now, epoch) = (self.now, self.job.as_ref().expect("a job").epoch);
        let this = self.rank(rank);
        if this.link.is_none() && now >= this.connected_at + CONNECT_EVERY {
            this.connected_at = now;
            let link = self.connect(rank, Role::Experiment { epoch })?;
            self.rank(rank).link = link;
            if let Rank { holds: true, link: Some(link), .. } = self.rank(rank) {
                let _ = hold::enter(link.slot.request(), link.board.experiment());
            }
            for ask in self.rank(rank).kept.again().collect::<Vec<_>>() {
                self.ask_daemon(rank, ask);
            }
        }
        let mut news = Vec::new();
        if now >= self.rank(rank).asked + self.rules.ask_every {
            self.rank(rank).asked = now;
            if let Some(Answer::Demand(demand)) = self.submit(rank, Ask::Demand) {
                let Rank { told, link, .. } = self.rank(rank);
                let in_use = |target| InUse::of(link.as_ref()?.board.plan(target)?);
                news.extend(told.news(demand, in_use));
            }
            if let Some(Answer::Deliveries(reports)) = self.submit(rank, Ask::Deliveries)
                && !reports.is_empty()
            {
                news.push(News::Deliveries(reports));
            }
        }
        let word = self.word(rank);
        let Rank { binding, told, .. } = self.rank(rank);
        news.extend(binding.look(word.phase, told.has_demand()));
        Ok(news)
    }

    /// As `DaemonLink::enter`.
    fn enter(&mut self, rank: usize) -> bool {
        let this = self.rank(rank);
        let enter = |link: &Link| hold::enter(link.slot.request(), link.board.experiment());
        this.holds = this.link.as_ref().is_none_or(enter);
        let holds = this.holds;
        if !holds {
            self.leave(rank);
        }
        holds
    }

    /// As `DaemonLink::leave`.
    fn leave(&mut self, rank: usize) {
        let this = self.rank(rank);
        this.holds = false;
        let Some(link) = &this.link else { return };
        let is_waited_for = hold::leave(link.slot.request(), link.board.experiment());
        let (life, connection) = (link.life, link.connection);
        if let Some(daemon) = self.daemon(rank, life) {
            daemon.is_unanswered = false;
        }
        if is_waited_for {
            self.tell(rank, life, connection, Ask::Ring);
        }
    }

    fn submit(&mut self, rank: usize, ask: Ask) -> Option<Answer> {
        self.rank(rank).kept.note(&ask);
        self.ask_daemon(rank, ask)
    }

    fn ask_daemon(&mut self, rank: usize, ask: Ask) -> Option<Answer> {
        let link = self.rank(rank).link.as_ref()?;
        let (life, connection) = (link.life, link.connection);
        let answer = self.ask(rank, life, connection, ask);
        if answer.is_none() {
            let now = self.now;
            self.hang_up(rank, life, connection);
            self.rank(rank).link = None;
            self.rank(rank).connected_at = now;
        }
        answer.filter(|answer| !matches!(answer, Answer::Refused(_)))
    }

    fn obey(&mut self, rank: usize, order: Order) -> Option<News> {
        match order {
            Order::Prepare { step } => Some(self.answer(rank, step, StepResult::default())),
            Order::Go { step, work } => {
                if work.is_in_passing() {
                    self.release(rank);
                }
                self.join(rank, step, work);
                None
            }
            Order::Release => {
                self.release(rank);
                None
            }
            Order::Publish(finding) => {
                if rank == 0 {
                    self.published(&finding);
                }
                self.submit(rank, Ask::Publish(finding));
                None
            }
            Order::Record(record) => {
                self.figures.trials += 1;
                self.submit(rank, Ask::Trial(record));
                None
            }
            Order::Network(group, network) => {
                for ask in of_network(&group, &network) {
                    self.submit(rank, ask);
                }
                None
            }
            Order::Lateness(late) => {
                self.submit(rank, Ask::Lateness(late));
                None
            }
            Order::Spending(spending) => {
                self.submit(rank, Ask::Spending(spending));
                None
            }
            Order::End => None,
        }
    }

    /// As `Worker::release`.
    fn release(&mut self, rank: usize) {
        self.rank(rank).binding.release();
        self.leave(rank);
        self.say(&format!("rank {rank} is released"));
    }

    fn answer(&mut self, rank: usize, step: u64, result: StepResult) -> News {
        let may_run = self.enter(rank);
        let this = self.rank(rank);
        this.bound_by = this.link.as_ref().map(|link| link.life);
        let news = this.binding.answer(may_run, step, result);
        self.say(&format!("rank {rank}, next step {step}: bound {may_run}"));
        news
    }

    /// A rank's part of a step is over.
    pub fn done(&mut self, rank: usize, step: u64, result: StepResult) {
        self.rank(rank).is_busy = false;
        let news = if self.rank(rank).binding.is_bound() {
            self.answer(rank, step + 1, result)
        } else {
            News::Unbound { step: step + 1, result }
        };
        if rank == 0 {
            self.job.as_mut().expect("a job").answer = Some(news);
        } else {
            self.send_news(rank, news);
            self.wake(rank, Duration::ZERO);
        }
    }

    fn send_news(&mut self, rank: usize, news: News) {
        let (now, lag) = (self.now, self.lag());
        let epoch = self.job.as_ref().expect("a job").epoch;
        let last = &mut self.rank(rank).last_news;
        *last = (*last).max(now + lag) + Duration::from_nanos(1);
        let after = *last - now;
        self.after(after, Event::News { rank, epoch, news });
    }

    pub fn news(&mut self, rank: usize, news: News) {
        self.job.as_mut().expect("a job").inbox.push_back((rank, news));
    }

    pub fn mail(&mut self, rank: usize, order: Order) {
        self.rank(rank).mail.push_back(order);
        if !self.rank(rank).is_busy {
            let nap = self.rules.nap.min(Duration::from_millis(1)).as_secs_f64();
            let after = self.chance.random_range(0.0..=nap);
            self.wake(rank, Duration::from_secs_f64(after));
        }
    }

    pub fn is_led(&self, epoch: u64) -> bool {
        self.job.as_ref().is_some_and(|job| job.epoch == epoch)
    }
}

impl Job {
    fn new(epoch: u64, ranks: Vec<Rank>) -> Self {
        let (inbox, groups) = (VecDeque::new(), std::collections::BTreeMap::new());
        Job { epoch, ranks, step: None, groups, inbox, answer: None, woken: false }
    }
}

/// Rank 0: while the coordinator sleeps or takes part in a step, the world goes on.
pub struct Leader<'a> {
    world: &'a mut World,
    epoch: u64,
}

impl<'a> Leader<'a> {
    pub fn of(world: &'a mut World) -> Option<Self> {
        let epoch = world.job.as_ref()?.epoch;
        Some(Leader { world, epoch })
    }

    fn is_over(&self) -> bool {
        !self.world.is_led(self.epoch) || self.world.is_over()
    }

    fn nap(&mut self, limit: Duration, wakes: bool) {
        let world = &mut *self.world;
        let least = world.now + limit;
        let most = least.max(world.now + world.rules.nap);
        if let Some(job) = &mut world.job {
            job.woken = false;
        }
        loop {
            let Some(job) = &world.job else { return };
            let until = if job.inbox.is_empty() { most } else { least };
            let is_woken = wakes && job.woken;
            if is_woken || !world.is_led(self.epoch) || world.is_over() || !world.step_before(until)
            {
                return;
            }
        }
    }
}

impl Ranks for Leader<'_> {
    fn now(&self) -> Instant {
        self.world.instant()
    }

    fn unix_s(&self) -> f64 {
        self.world.clocks().unix_s
    }

    fn send(&mut self, ranks: &[usize], order: &Order) {
        if self.is_over() {
            return;
        }
        for &rank in ranks {
            let (now, lag) = (self.world.now, self.world.lag());
            let last = &mut self.world.rank(rank).last_mail;
            *last = (*last).max(now + lag) + Duration::from_nanos(1);
            let after = *last - now;
            let (epoch, order) = (self.epoch, order.clone());
            self.world.after(after, Event::Mail { rank, epoch, order });
        }
    }

    fn receive(&mut self) -> Option<(usize, News)> {
        self.world.job.as_mut()?.inbox.pop_front()
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn obey(&mut self, order: Order) -> Option<News> {
        if self.is_over() {
            return None;
        }
        let is_step = matches!(order, Order::Go { .. });
        let answer = self.world.obey(0, order);
        while is_step && !self.is_over() {
            if let Some(news) = self.world.job.as_mut().and_then(|job| job.answer.take()) {
                return Some(news);
            }
            self.world.step_before(Moment::MAX);
        }
        answer
    }

    fn poll(&mut self) -> Result<Vec<News>, Refusal> {
        if self.is_over() {
            return Err(Refusal::Invalid("it was killed".into()));
        }
        let polled = self.world.poll(0);
        assert!(polled.is_ok(), "the newest job is refused: {polled:?}");
        polled
    }

    fn rest(&mut self, limit: Duration) {
        self.nap(limit, true);
    }

    fn sleep(&mut self, limit: Duration) {
        self.nap(limit, false);
    }

    fn say(&mut self, line: String) {
        self.world.say(&line);
    }

    fn warn(&mut self, line: String) {
        self.world.say(&line);
    }
}
