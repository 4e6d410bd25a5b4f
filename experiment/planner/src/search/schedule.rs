//! What an experiment works on: the targets that are wanted, the search for each, and what they have
//! learnt together. The time is handed in.

mod adapt;
mod courtesy;
mod foresee;
mod in_production;
mod known;
mod late_nodes;
mod ledger;
mod rounds;
mod sighted;
mod suspects;
mod unasked;

use super::findings::{Findings, InUse, Report};
use super::search::Search;
use super::strategy::random_transform::Parameters;
use super::strategy::state::{Config, Knowledge, LEAST_EAGER_BYTES};
use super::strategy::{Description, STRATEGIES};
use crate::measurement::{Outcome, Request, Seconds};
use crate::model::network::{FIRST_WINDOW_BYTES, Network};
pub use adapt::Adaptation;
use adapt::Production;
use arborcast_proto::message::Demand;
use arborcast_proto::{Group, NodeName, Plan, SizeClass, Target};
use courtesy::{Courtesy, Permission, WAIT_S};
use foresee::Foresight;
use in_production::InProduction;
use known::{Known, Knowns};
use late_nodes::LateNodes;
pub use ledger::Ceilings;
use ledger::{Ledger, Purpose, bytes_of};
use rounds::Rounds;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A search that has nothing left to try is asked again after a rest, each longer than the last: some
/// strategies find more when asked again.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// In a shorter pause TCP forgets nothing; after a longer one, on nearly all ways, there is nothing left to
/// forget.
const SHORTEST_PAUSE_S: Seconds = 0.2;
const LONGEST_PAUSE_S: Seconds = 2.0;
/// A pause that differs by this factor is another one: medians of few pauses come and go.
const ANOTHER_PAUSE: f64 = 2.5;

/// A program that has not broadcast for so long is at work on something else, or has ended.
const RECENT: Duration = Duration::from_secs(60);

/// From one word to the daemons to the next, of what is for who watches: it goes to all nodes, and programs share
/// the network with it.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The most recent targets are worked on, and what was learnt of them is kept.
const TARGETS: usize = 256;

/// How to search, and for what.
#[derive(Debug, Clone)]
pub struct Settings {
    pub strategy: &'static Description,
    /// Equal seeds draw equal random numbers.
    pub seed: u64,
    /// The first rest of a search that has nothing left to try.
    pub rest: Duration,
    /// What is known is measured again once it is this old.
    pub refresh: Duration,
    /// Larger messages are measured at this size.
    pub max_bytes: u64,
    /// Larger messages use rendezvous.
    pub eager_bytes: u64,
    /// What programs pause before a broadcast where they have not shown it; `None`: the hosts' TCP keeps its
    /// windows, so that pauses don't matter.
    pub pause_s: Option<Seconds>,
    /// Of the strategy of that name.
    pub random_transform: Parameters,
    /// On what measurements cost.
    pub ceilings: Ceilings,
    /// The part of the time of programs' broadcasts that trials in them may cost.
    pub explore_max: f64,
    /// A root and the sizes to search for, over all nodes, in place of what applications ask for.
    pub fixed: Option<(String, Vec<u64>)>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            strategy: &STRATEGIES[0],
            seed: 1,
            rest: Duration::from_secs(30),
            refresh: Duration::from_secs(600),
            max_bytes: 64 << 20,
            eager_bytes: LEAST_EAGER_BYTES,
            pause_s: None,
            random_transform: Parameters::default(),
            ceilings: Ceilings::default(),
            explore_max: 0.01,
            fixed: None,
        }
    }
}

impl Settings {
    /// How long trials pause before a broadcast for programs that pause for so long: less is as none, more as
    /// the longest.
    fn pause_before_s(&self, pause_s: Option<Seconds>) -> Seconds {
        match self.pause_s.map(|usual_s| pause_s.unwrap_or(usual_s)) {
            Some(pause_s) if pause_s >= SHORTEST_PAUSE_S => pause_s.min(LONGEST_PAUSE_S),
            _ => 0.0,
        }
    }

    /// Whether a search goes by quite another pause than programs make.
    fn has_another_pause(&self, wanted: &Wanted, running: &Running) -> bool {
        let (now_s, before_s) =
            (self.pause_before_s(wanted.pause_s), running.search.config().pause_s);
        let (shorter_s, longer_s) = (now_s.min(before_s), now_s.max(before_s));
        let matters = wanted.bytes as f64 > FIRST_WINDOW_BYTES;
        matters && longer_s >= ANOTHER_PAUSE * shorter_s.max(SHORTEST_PAUSE_S)
    }
}

/// A target that applications or the command line want a plan for.
#[derive(Debug)]
struct Wanted {
    target: Target,
    group: Group,
    bytes: u64,
    /// What applications pause before it, where they have shown it.
    pause_s: Option<Seconds>,
    /// What native broadcasts of applications have taken at least, where known.
    native_s: Option<Seconds>,
}

impl Wanted {
    /// Where it makes sense, in a job of these nodes.
    fn of(demand: Demand, ranks: &HashMap<NodeName, usize>) -> Option<Self> {
        let Demand { group, target, bytes, pause_s, native_s, .. } = demand;
        // A group with nodes outside the job is another job's.
        let is_ours = group.nodes().iter().all(|node| ranks.contains_key(node));
        let has_root = usize::from(target.root) < group.len() && group.len() > 1;
        let is_named_right = target.group == group.hash() && target.class == SizeClass::of(bytes);
        let wanted = Wanted { target, group, bytes, pause_s, native_s };
        (is_ours && has_root && is_named_right).then_some(wanted)
    }
}

/// When a target was last used; `None`: before anything that is known.
type Used = Option<Instant>;

/// A search, and since when what it goes by has been known.
struct Running {
    search: Search,
    /// The search on the network as it was before it changed, for when it is so again.
    before_change: Option<Search>,
    findings: Findings,
    since: Instant,
    resting_until: Option<Instant>,
    next_rest: Duration,
    /// It has had nothing left to try, at least once.
    is_exhausted: bool,
}

/// The searches of an experiment job, the most recently demanded first.
pub struct Schedule {
    settings: Settings,
    /// Of the job's ranks.
    names: Vec<NodeName>,
    /// The rank of each name.
    ranks: HashMap<NodeName, usize>,
    sites: Vec<String>,
    /// What each rank's applications have asked for.
    demand: Vec<HashMap<Target, (Used, Rc<Wanted>)>>,
    /// What to search for, most recent first, each target once.
    wanted: Vec<Rc<Wanted>>,
    /// What is surveyed where nothing is left to do for what is wanted; `None` once that is done.
    unasked: Option<Rc<Wanted>>,
    running: HashMap<Target, Running>,
    /// What each rank's daemon has in use for targets that no search was begun for.
    in_use: Vec<HashMap<Target, InUse>>,
    known: Knowns,
    production: Production,
    in_production: InProduction,
    late_nodes: LateNodes,
    foresight: Foresight,
    courtesy: Courtesy,
    ledger: Ledger,
    /// What was asked for last, and the bytes it takes.
    asked: (Purpose, u64),
    asked_pause_s: Seconds,
    rounds: Rounds,
}

impl Schedule {
    /// `names` and `sites` of the job's ranks.
    pub fn new(settings: Settings, names: Vec<NodeName>, sites: Vec<String>) -> Self {
        let ranks = names.iter().cloned().enumerate().map(|(rank, name)| (name, rank)).collect();
        let wanted = wanted_by(&settings, &names);
        let unasked = unasked::all_nodes(&settings, &names);
        let ledger = Ledger::new(settings.ceilings);
        let in_production = InProduction::new(settings.explore_max);
        Schedule {
            settings,
            demand: vec![HashMap::new(); names.len()],
            in_use: vec![HashMap::new(); names.len()],
            names,
            ranks,
            sites,
            wanted,
            unasked,
            running: HashMap::new(),
            known: Knowns::default(),
            production: Production::default(),
            in_production,
            late_nodes: LateNodes::default(),
            foresight: Foresight::default(),
            courtesy: Courtesy::default(),
            ledger,
            asked: (Purpose::Links, 0),
            asked_pause_s: 0.0,
            rounds: Rounds::default(),
        }
    }

    /// Of the job's ranks.
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// What a rank's applications ask for anew, and what they no longer ask for. What makes no sense is
    /// passed over.
    pub fn note_demand(&mut self, rank: usize, news: Vec<Demand>, gone: &[Target], now: Instant) {
        let demand = &mut self.demand[rank];
        for target in gone {
            demand.remove(target);
            self.in_use[rank].remove(target);
        }
        for news in news {
            let target = news.target;
            let used = now.checked_sub(news.age);
            if let Some(wanted) = Wanted::of(news, &self.ranks) {
                self.courtesy.note_native(wanted.native_s.unwrap_or(0.0));
                used.iter().for_each(|ended| self.courtesy.note_broadcast(*ended));
                demand.insert(target, (used, Rc::new(wanted)));
            }
        }
        // The command line goes before the applications.
        if self.settings.fixed.is_none() {
            self.wanted = most_recent(&self.demand);
            self.forget();
        }
    }

    /// What a rank's daemon has in use for targets whose root it is: jobs before this one or operators have left it, or
    /// the daemon has made it. To be called before their demand is noted.
    pub fn note_in_use(&mut self, rank: usize, plans: Vec<(Target, InUse)>) {
        for (target, in_use) in plans {
            // Of the target that all links were surveyed for, nothing has been found yet.
            match self.running.get_mut(&target).map(|running| &mut running.findings) {
                Some(of) if of.plan().is_none() && in_use.fits(target, &of.group) => {
                    of.note_in_use(in_use);
                }
                _ => drop(self.in_use[rank].insert(target, in_use)),
            }
        }
    }

    /// What the root's daemon has in use before the first search for a target.
    fn take_in_use(&mut self, wanted: &Wanted) -> Option<InUse> {
        let Wanted { target, ref group, .. } = *wanted;
        let rank = self.rank_of(&group.nodes()[usize::from(target.root)]);
        self.in_use[rank].remove(&target).filter(|in_use| in_use.fits(target, group))
    }

    /// Drops what was learnt of targets that are wanted no more, where it has become too much.
    fn forget(&mut self) {
        if self.running.len() > TARGETS {
            let wanted: HashSet<_> = self.wanted.iter().map(|wanted| wanted.target).collect();
            self.running.retain(|target, _| wanted.contains(target));
            self.production.keep(&wanted);
            self.in_production.keep(&wanted);
            self.foresight.forget();
        }
        if self.known.len() > TARGETS {
            let target = |wanted: &Rc<Wanted>| (wanted.target.group, wanted.target.root);
            let wanted: HashSet<_> = self.wanted.iter().map(target).collect();
            self.known.retain(|group, root| wanted.contains(&(group, root)));
        }
    }

    /// From now on larger messages are measured at this size; the searches that measured more begin anew.
    pub fn cap(&mut self, max_bytes: u64) {
        self.settings.max_bytes = self.settings.max_bytes.min(max_bytes);
        self.running.retain(|_, running| running.search.config().bytes <= max_bytes);
    }

    /// No program holds the network any more.
    pub fn note_free(&mut self, now: Instant) {
        self.courtesy.note_free(now);
    }

    /// How long the job takes from choosing something until that begins.
    pub fn note_lead(&mut self, lead_s: Seconds) {
        self.courtesy.note_lead(lead_s);
    }

    /// The target to work on and what to do for it: the most recent demand for which there is
    /// something left to try, if that may begin now.
    pub fn choose(&mut self, now: Instant) -> Option<(Target, Request)> {
        if !self.ledger.has_room(now) {
            return None;
        }
        let (target, request) = loop {
            let (target, request) = self.choose_any(now)?;
            let expected_s = self.expected_s(target, &request);
            let pause_s = self.shortest_pause_s(now);
            let fitted = |left_s| match &request {
                Request::Transfers(round) => self.rounds.fitted(round, left_s),
                Request::Broadcast { .. } => (expected_s <= left_s).then(Vec::new),
            };
            let fits = |left_s| fitted(left_s).is_some();
            // A broadcast that a program comes into is lost, and of a round of transfers the fastest count.
            let ends = |pause_s| expected_s <= pause_s + WAIT_S;
            let of_use = matches!(request, Request::Transfers(_)) || pause_s.is_none_or(ends);
            match self.courtesy.may_begin(expected_s, pause_s, now, of_use, fits) {
                Permission::Begin => break (target, request),
                Permission::Fit(left_s) => {
                    let running = self.running.get_mut(&target)?;
                    let request = match (&request, fitted(left_s)) {
                        (Request::Transfers(round), Some(fitted))
                            if running.search.change_round(round, &fitted) =>
                        {
                            Request::Transfers(fitted)
                        }
                        _ => request,
                    };
                    break (target, request);
                }
                Permission::Wait => return None,
                Permission::NoRoom if self.running.get_mut(&target)?.search.drop_early() => {}
                Permission::NoRoom => {
                    self.try_in_production(target, now);
                    return None;
                }
            }
        };
        if let Request::Transfers(round) = &request {
            self.rounds.note_asked(round);
        }
        let purpose = match &request {
            Request::Broadcast { .. } => Purpose::Trials,
            Request::Transfers(_) if self.has_asked_suspects(target) => Purpose::Suspects,
            Request::Transfers(_) => Purpose::Links,
        };
        let nodes = self.group(target).map_or(0, Group::len);
        self.asked = (purpose, bytes_of(&request, nodes));
        self.asked_pause_s = request.pause_s();
        Some((target, request))
    }

    /// What a request takes, roughly. A pause before it counts from the experiment's last one, mostly before the
    /// program's broadcast.
    fn expected_s(&self, target: Target, request: &Request) -> Seconds {
        let search = self.running.get(&target).map(|running| &running.search);
        match request {
            Request::Broadcast { .. } => search.and_then(Search::pending_s).unwrap_or(0.0),
            Request::Transfers(round) => self.rounds.expected_s(round),
        }
    }

    /// The shortest that programs pause which have broadcast of late, if there are any.
    fn shortest_pause_s(&self, now: Instant) -> Option<Seconds> {
        self.recent(now).filter_map(|wanted| wanted.pause_s).reduce(f64::min)
    }

    /// What programs have broadcast of late.
    fn recent(&self, now: Instant) -> impl Iterator<Item = &Wanted> {
        let is_recent = move |used: &Used| used.is_some_and(|used| now - used < RECENT);
        let all = self.demand.iter().flat_map(HashMap::values);
        all.filter(move |(used, _)| is_recent(used)).map(|(_, wanted)| &**wanted)
    }

    fn choose_any(&mut self, now: Instant) -> Option<(Target, Request)> {
        if let Some(asked) = self.ask_suspects(now) {
            return Some(asked);
        }
        for place in 0..self.wanted.len() {
            let wanted = self.wanted[place].clone();
            let target = wanted.target;
            let must_begin = match self.running.get_mut(&target) {
                None => true,
                Some(running) if self.settings.has_another_pause(&wanted, running) => {
                    let pause_s = self.settings.pause_before_s(wanted.pause_s);
                    !running.search.change_pause(pause_s)
                }
                Some(running) if running.resting_until.is_some_and(|until| now < until) => continue,
                Some(running) => {
                    let has_woken = running.resting_until.take().is_some();
                    has_woken && now - running.since >= self.settings.refresh
                }
            };
            if must_begin {
                self.begin(&wanted, now);
            }
            self.take_over(&wanted, now);
            self.foresee(&wanted);
            let target = self.surveyor(target);
            let running = self.running.get_mut(&target)?;
            if running.resting_until.is_some_and(|until| now < until) {
                continue;
            }
            if self.in_production.is_trying(target, now) {
                continue;
            }
            if running.search.is_starved() {
                running.resting_until = Some(now + self.settings.rest);
                self.try_in_production(target, now);
                continue;
            }
            if let Some(request) = running.search.next() {
                return Some((target, request));
            }
            running.is_exhausted = true;
            running.resting_until = Some(now + running.next_rest);
            running.next_rest = (2 * running.next_rest).min(LONGEST_REST);
            self.foresee_other_roots(&wanted);
        }
        self.survey_unasked(now)
    }

    /// Whether every search that is wanted has come to an end. One that applications leave no time for
    /// has not.
    pub fn is_exhausted(&self) -> bool {
        self.wanted
            .iter()
            .all(|wanted| self.running.get(&wanted.target).is_some_and(|r| r.is_exhausted))
    }

    /// Begins a search, with what is known already unless that is old: networks change. The plan in use is
    /// measured first: what it took when it was found says little of what it takes now.
    fn begin(&mut self, wanted: &Wanted, now: Instant) {
        let Wanted { target, group, bytes, .. } = wanted;
        let known = self.fresh(group, *target, now);
        if known.is_none() {
            self.production.forget(target.group);
        }
        let (knowledge, since) =
            known.map_or((Knowledge::default(), now), |known| (known.knowledge, known.since));
        let config = Config { knowledge, ..self.config(wanted) };
        let before = self.running.remove(target);
        let in_use = before.as_ref().and_then(|before| before.search.incumbent().in_use());
        let measured = in_use.map(|(plan, _)| plan.clone());
        let expected = before.as_ref().and_then(|before| before.findings.plan());
        let expected = expected.filter(|plan| measured.is_none() && **plan != Plan::Native);
        let expected = expected.map(|plan| InUse { plan: plan.clone(), is_measured: false });
        let of_others = if measured.is_none() { self.take_in_use(wanted) } else { None };
        let in_use = expected.or(of_others);
        // What nobody has measured is no more to a search than what it would find itself.
        let by_others = in_use.as_ref().filter(|in_use| in_use.is_measured);
        let by_others = by_others.map(|in_use| in_use.plan.clone());
        let search = Search::new(self.settings.strategy, config, measured.or(by_others));
        let next_rest = before.as_ref().map_or(self.settings.rest, |before| before.next_rest);
        let mut findings = match before.filter(|before| before.findings.asked_bytes == *bytes) {
            Some(before) => before.findings.after(&before.search),
            None => Findings::new(*target, group.clone(), *bytes),
        };
        in_use.into_iter().for_each(|in_use| findings.note_in_use(in_use));
        let running = Running {
            search,
            before_change: None,
            next_rest,
            findings,
            since,
            resting_until: None,
            is_exhausted: false,
        };
        self.running.insert(*target, running);
    }

    /// The group of a target that is worked on.
    pub fn group(&self, target: Target) -> Option<&Group> {
        Some(&self.running.get(&target)?.findings.group)
    }

    /// Takes what came of a request of [`Schedule::choose`], which with all around it took `spent_s`; gives
    /// what has to be told of it. `now_unix_s` is for the record.
    pub fn answer(
        &mut self,
        target: Target,
        outcome: Outcome,
        spent_s: Seconds,
        now_unix_s: f64,
        now: Instant,
    ) -> Option<Report> {
        let is_disturbed = match &outcome {
            Outcome::Broadcast(result) => result.disturbed,
            Outcome::Transfers { disturbed, .. } => {
                self.rounds.note_taken(spent_s, *disturbed);
                *disturbed
            }
        };
        if is_disturbed {
            self.courtesy.note_wait(spent_s - self.asked_pause_s, now);
        }
        self.note_spent(spent_s);
        if self.answer_suspects(target, &outcome, now) {
            return None;
        }
        let Running { search, findings, .. } = self.running.get_mut(&target)?;
        let result = search.answer(outcome, spent_s)?;
        Some(findings.report(search, result, now_unix_s))
    }

    /// Time that was spent on a target and gave nothing.
    pub fn spend(&mut self, target: Target, spent_s: Seconds) {
        self.note_spent(spent_s);
        if let Some(running) = self.running.get_mut(&target) {
            running.search.spend(spent_s);
        }
    }

    /// What the last request has cost; nothing is sent in its pause.
    fn note_spent(&mut self, spent_s: Seconds) {
        let (purpose, bytes) = self.asked;
        self.ledger.note(purpose, (spent_s - self.asked_pause_s).max(0.0), bytes);
    }

    /// Takes over what the search for a target has learnt, for the other targets of its group and root;
    /// returns the network if it is new.
    pub fn learn(&mut self, target: Target) -> Option<(Group, Network)> {
        let Running { search, findings, since, .. } = self.running.get(&target)?;
        let newer = |known: &Known| known.since > *since;
        if self.known.get(target.group, target.root).is_some_and(newer) {
            return None;
        }
        let knew_links = self.known.knows_links(target.group, *since);
        let network = search.knowledge().network.as_ref().filter(|_| !knew_links);
        let news = network.map(|network| {
            let network = network.clone().with_eager_bytes(self.settings.eager_bytes);
            (findings.group.clone(), network)
        });
        let (group, knowledge) = (findings.group.clone(), search.knowledge().clone());
        self.known.insert(target.root, Known { group, knowledge, since: *since });
        if let Some((group, _)) = &news {
            self.foresee_all(group);
        }
        news
    }

    fn config(&self, wanted: &Wanted) -> Config {
        let Wanted { ref group, target, bytes, pause_s, .. } = *wanted;
        let sites = group.nodes().iter().map(|node| self.sites[self.rank_of(node)].clone());
        let bytes = bytes.min(self.settings.max_bytes);
        let mut config = Config::new(group.len(), target.root.into(), bytes);
        config.pause_s = self.settings.pause_before_s(pause_s);
        config.seed = self.settings.seed;
        config.eager_bytes = self.settings.eager_bytes;
        config.random_transform = self.settings.random_transform;
        config.sites = Some(sites.collect());
        config
    }

    /// The rank in the job of a node that is one of its own.
    pub fn rank_of(&self, node: &NodeName) -> usize {
        self.ranks.get(node).copied().unwrap_or(0)
    }
}

/// Those of the settings' targets, over all nodes of the job, whose root a node is.
pub fn fixed_targets(settings: &Settings, names: &[NodeName], own: &NodeName) -> Vec<Target> {
    let is_own =
        |wanted: &Rc<Wanted>| wanted.group.nodes()[usize::from(wanted.target.root)] == *own;
    let wanted = wanted_by(settings, names).into_iter();
    wanted.filter(is_own).map(|wanted| wanted.target).collect()
}

/// What the settings ask for, over all nodes of the job.
fn wanted_by(settings: &Settings, names: &[NodeName]) -> Vec<Rc<Wanted>> {
    let Some((root, sizes)) = &settings.fixed else { return Vec::new() };
    let Ok(group) = Group::new(names.to_vec()) else { return Vec::new() };
    let root = group.nodes().iter().position(|name| name.as_str() == root);
    let (hash, root) = (group.hash(), root.unwrap_or(0) as u16);
    let wanted = |&bytes| {
        let target = Target { group: hash, root, class: SizeClass::of(bytes) };
        let (group, pause_s, native_s) = (group.clone(), None, None);
        Rc::new(Wanted { target, group, bytes, pause_s, native_s })
    };
    sizes.iter().map(wanted).collect()
}

/// The most recent targets of all ranks.
fn most_recent(demand: &[HashMap<Target, (Used, Rc<Wanted>)>]) -> Vec<Rc<Wanted>> {
    let mut all: Vec<_> = demand.iter().flatten().collect();
    // Equally recent ones in any order, but always in the same.
    let place = |target: &Target| (target.group.0, target.root, target.class);
    all.sort_by_key(|(target, (used, _))| (std::cmp::Reverse(*used), place(target)));
    let mut seen = HashSet::new();
    all.retain(|(target, _)| seen.insert(**target));
    all.truncate(TARGETS);
    all.into_iter().map(|(_, (_, wanted))| wanted.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Arrival, BroadcastResult, Transfer, TransferResult};
    use arborcast_proto::{Spent, Tree};

    const LATER: Duration = Duration::from_secs(LONGEST_REST.as_secs() + 1);

    fn names<const N: usize>(names: [&str; N]) -> Vec<NodeName> {
        names.map(|name| NodeName::new(name).unwrap()).to_vec()
    }

    fn schedule(settings: Settings, names: Vec<NodeName>) -> Schedule {
        let sites = vec![String::new(); names.len()];
        // What is asked for is looked at here.
        Schedule { unasked: None, ..Schedule::new(settings, names, sites) }
    }

    fn fixed(sizes: &[u64]) -> Settings {
        Settings { fixed: Some(("b".into(), sizes.to_vec())), ..Settings::default() }
    }

    /// What an undisturbed network answers: transfers by their bytes, each broadcast after `seconds`.
    fn outcome(request: &Request, seconds: Seconds) -> Outcome {
        let of_transfer = |t: &Transfer| TransferResult::timed(0.01 + t.bytes as f64 * 1e-8);
        match request {
            Request::Transfers(round) => {
                let results = round.iter().map(of_transfer).collect();
                Outcome::Transfers { results, disturbed: false }
            }
            Request::Broadcast { .. } => {
                Outcome::Broadcast(BroadcastResult { seconds, abandoned: false, disturbed: false })
            }
        }
    }

    /// Answers everything until nothing is left; returns the number of rounds of link measurements that
    /// were asked for, and the plans that were measured.
    fn work(schedule: &mut Schedule, now: Instant, seconds: f64) -> (usize, Vec<Plan>) {
        let (mut rounds, mut plans) = (0, Vec::new());
        while let Some((target, request)) = schedule.choose(now) {
            schedule.answer(target, outcome(&request, seconds), 0.1, 0.0, now);
            match request {
                Request::Transfers(_) => rounds += 1,
                Request::Broadcast { plan, .. } => plans.push(plan),
            }
            schedule.learn(target);
        }
        (rounds, plans)
    }

    #[test]
    fn old_links_are_measured_again_and_the_old_plan_first() {
        let settings = Settings { refresh: Duration::from_secs(7200), ..fixed(&[1, 1 << 20]) };
        let mut schedule = schedule(settings, names(["a", "b", "c", "d"]));
        let start = Instant::now();
        let (survey, plans) = work(&mut schedule, start, 0.5);
        assert!(survey > 0 && plans.len() > 1);
        assert_eq!(work(&mut schedule, start, 0.5), (0, vec![]), "at rest");
        assert_eq!(work(&mut schedule, start + LATER, 0.5).0, 0, "the links are not old yet");

        let best = |running: &Running| running.search.incumbent().in_use().unwrap().0.clone();
        let in_use: Vec<Plan> = schedule.running.values().map(best).collect();
        let (rounds, plans) = work(&mut schedule, start + 3 * LATER, 0.7);
        assert_eq!(rounds, survey, "once for both sizes");
        let missing: Vec<_> = in_use.iter().filter(|plan| !plans.contains(plan)).collect();
        assert!(missing.is_empty(), "{missing:?} are not among {plans:?}");
        for running in schedule.running.values() {
            let (_, times) = running.search.incumbent().in_use().unwrap();
            assert_eq!(times.median_s, 0.7, "not the old time");
        }
    }

    #[test]
    fn the_plan_in_use_at_the_root_is_measured_first_in_a_new_job() {
        let (names, group) = (names(["a", "b"]), pair("b"));
        let plan = |root: usize| Plan::single(Tree::flat(2, root).unwrap(), 777).unwrap();
        let wide = Plan::single(Tree::flat(3, 1).unwrap(), 777).unwrap();
        let wanted = demand(&group, 1, 1 << 20);
        let first = |rank: usize, plan: Plan| {
            let mut schedule = schedule(Settings::default(), names.clone());
            let start = Instant::now();
            schedule.note_in_use(rank, vec![(wanted.target, InUse { plan, is_measured: true })]);
            schedule.note_demand(1, vec![wanted.clone()], &[], start);
            match schedule.choose(start) {
                Some((_, Request::Broadcast { plan, .. })) => Some(plan),
                _ => None,
            }
        };
        assert_eq!(first(1, plan(1)), Some(plan(1)));
        assert_ne!(first(0, plan(1)), Some(plan(1)), "it is not the root's");
        for other in [plan(0), wide] {
            assert_ne!(first(1, other.clone()), Some(other), "it is not the target's");
        }
    }

    #[test]
    fn nothing_is_measured_above_what_an_operator_allows() {
        let ceilings = Ceilings { time_share: Some(0.001), bytes_per_hour: None };
        let settings = Settings { ceilings, ..fixed(&[1 << 20]) };
        let (mut schedule, start) =
            (schedule(settings, names(["a", "b", "c", "d"])), Instant::now());
        let (rounds, plans) = work(&mut schedule, start, 0.5);
        assert_eq!((rounds, plans.len()), (4, 0), "0.36 s are saved up, and each round takes 0.1");
        assert!(!schedule.is_exhausted());
        let spending = schedule.spending(start).expect("something was spent");
        assert!((spending.links.seconds - 0.4).abs() < 1e-9, "{spending:?}");
        assert_eq!((spending.trials, spending.time_share), (Spent::default(), Some(0.001)));
        let hour = Duration::from_secs(3600);
        assert_eq!(work(&mut schedule, start + hour, 0.5).0, 4, "no more is saved up than before");
    }

    #[test]
    fn a_search_at_rest_is_not_woken_by_those_who_broadcast() {
        let names = names(["a", "b", "c"]);
        let group = Group::new(names.clone()).unwrap();
        let target = Target { group: group.hash(), root: 0, class: SizeClass::of(64) };
        let mut schedule = schedule(Settings::default(), names);
        let start = Instant::now();
        let used = |broadcasts| Demand {
            target,
            group: group.clone(),
            bytes: 64,
            broadcasts,
            age: Duration::ZERO,
            pause_s: None,
            native_s: None,
        };
        schedule.note_demand(1, vec![used(1)], &[], start);
        assert!(!work(&mut schedule, start, 0.5).1.is_empty());
        schedule.note_demand(1, vec![used(1000)], &[], start);
        assert_eq!(schedule.choose(start + Settings::default().rest / 2), None);
    }

    #[test]
    fn trials_pause_as_the_programs_do() {
        let names = names(["a", "b"]);
        let settings = Settings { pause_s: Some(1.0), ..Settings::default() };
        let mut schedule = schedule(settings, names);
        let start = Instant::now();
        let used = |pause_s| Demand { pause_s, ..demand(&pair("b"), 0, 1 << 20) };
        let mut goes_by = |pause_s: Option<Seconds>| {
            schedule.note_demand(0, vec![used(pause_s)], &[], start);
            let (target, _) = schedule.choose(start).unwrap();
            schedule.running[&target].search.config().pause_s
        };
        assert_eq!(goes_by(None), 1.0);
        assert_eq!(goes_by(Some(1.9)), 1.0, "about the same");
        assert_eq!(goes_by(Some(0.01)), 0.0);
        assert_eq!(goes_by(Some(0.2)), 0.0, "about the same");
        assert_eq!(goes_by(Some(0.6)), 0.6);
        assert_eq!(goes_by(Some(3600.0)), LONGEST_PAUSE_S);
    }

    #[test]
    fn rounds_of_a_survey_fit_into_the_pauses_of_programs() {
        let (mut schedule, start) =
            (schedule(Settings::default(), names(["a", "b"])), Instant::now());
        const PAUSE_S: Seconds = 0.8;
        let used = Demand { pause_s: Some(PAUSE_S), ..demand(&pair("b"), 0, 1 << 20) };
        schedule.note_demand(0, vec![used], &[], start);
        let (mut now, mut cut) = (start, 0);
        for _ in 0..1000 {
            schedule.note_free(now);
            let Some((target, request)) = schedule.choose(now) else {
                now += Duration::from_secs_f64(PAUSE_S);
                continue;
            };
            let Request::Transfers(round) = &request else { break };
            // A slow network: whole rounds take longer than any pause.
            let whole_s = |t: &Transfer| 0.01 + t.delay_s + t.bytes as f64 * 5e-6;
            let longest_s =
                |seconds: f64, t: &Transfer| seconds.max(whole_s(t).min(t.stop_after_s));
            let spent_s = round.iter().fold(0.0, longest_s);
            assert!(spent_s < PAUSE_S, "{round:?}");
            cut += u32::from(round.iter().any(|t| whole_s(t) > t.stop_after_s));
            let result = |t: &Transfer| {
                let seconds = whole_s(t).min(t.stop_after_s);
                let bytes = (t.bytes as f64 * seconds / whole_s(t)) as u64;
                TransferResult { seconds, arrivals: vec![Arrival { bytes, seconds }] }
            };
            let results = round.iter().map(result).collect();
            let outcome = Outcome::Transfers { results, disturbed: false };
            schedule.answer(target, outcome, spent_s, 0.0, now);
            schedule.learn(target);
            now += Duration::from_secs_f64(PAUSE_S);
        }
        assert!(cut > 0, "some were too long");
        let search = &schedule.running.values().next().unwrap().search;
        assert!(search.knowledge().network.is_some(), "the survey ends");
    }

    #[test]
    fn a_starved_search_is_not_over() {
        let mut schedule = schedule(fixed(&[1]), names(["a", "b"]));
        let start = Instant::now();
        while let Some((target, request)) = schedule.choose(start) {
            let outcome = match outcome(&request, 9.0) {
                Outcome::Broadcast(result) => {
                    Outcome::Broadcast(BroadcastResult { disturbed: true, ..result })
                }
                transfers => transfers,
            };
            schedule.answer(target, outcome, 0.1, 0.0, start);
        }
        assert!(!schedule.is_exhausted());
        work(&mut schedule, start + Settings::default().rest, 0.5);
        assert!(schedule.is_exhausted());
    }

    fn pair(name: &str) -> Group {
        Group::new(["a", name].map(|name| NodeName::new(name).unwrap()).to_vec()).unwrap()
    }

    fn demand(group: &Group, root: u16, bytes: u64) -> Demand {
        let target = Target { group: group.hash(), root, class: SizeClass::of(bytes) };
        let (age, group) = (Duration::ZERO, group.clone());
        Demand { target, group, bytes, age, broadcasts: 1, pause_s: None, native_s: None }
    }

    #[test]
    fn a_demand_that_makes_no_sense_is_passed_over() {
        let mut schedule = schedule(Settings::default(), names(["a", "b", "c"]));
        let ours = pair("b");
        let mut senseless = [0, 1, 2, 3].map(|_| demand(&ours, 0, 1));
        senseless[0] = demand(&pair("elsewhere"), 0, 1);
        senseless[1].target.root = 2;
        senseless[2].bytes = 1 << 20;
        senseless[3].target.group = pair("c").hash();
        let start = Instant::now();
        schedule.note_demand(0, senseless.to_vec(), &[], start);
        assert_eq!(schedule.choose(start), None);
        schedule.note_demand(0, vec![demand(&ours, 1, 1)], &[], start);
        assert!(schedule.choose(start).is_some());
    }

    #[test]
    fn a_huge_demand_is_measured_at_the_cap_and_told_of_its_own_size() {
        let settings = Settings { max_bytes: 1 << 20, ..Settings::default() };
        let mut schedule = schedule(settings, names(["a", "b"]));
        let start = Instant::now();
        let huge = demand(&pair("b"), 0, 1 << 60);
        let class = huge.target.class;
        schedule.note_demand(1, vec![huge], &[], start);
        let (mut largest, mut told) = (0, Vec::new());
        while let Some((target, request)) = schedule.choose(start) {
            assert_eq!(target.class, class);
            let bytes = match &request {
                Request::Transfers(round) => round.iter().map(|t| t.bytes).max().unwrap_or(0),
                Request::Broadcast { bytes, .. } => *bytes,
            };
            largest = largest.max(bytes);
            if let Some(report) = schedule.answer(target, outcome(&request, 0.1), 0.1, 0.0, start) {
                told.push(report.record.bytes);
                told.extend(report.findings.iter().map(|finding| finding.bytes));
            }
        }
        assert!(largest <= 64 << 20, "{largest}");
        assert!(!told.is_empty() && told.iter().all(|&bytes| SizeClass::of(bytes) == class));
        // A node that has no memory even for that.
        schedule.cap(1000);
        let (target, _) = schedule.choose(start).expect("it begins anew");
        assert_eq!(schedule.running[&target].search.config().bytes, 1000);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let names: Vec<_> = (0..60).map(|i| NodeName::new(format!("n{i}")).unwrap()).collect();
        let mut schedule = schedule(Settings::default(), names.clone());
        let start = Instant::now();
        let mut last = None;
        for (number, pair) in names
            .iter()
            .enumerate()
            .flat_map(|(i, a)| names[..i].iter().map(move |b| (a, b)))
            .enumerate()
        {
            let group = Group::new(vec![pair.0.clone(), pair.1.clone()]).unwrap();
            let now = start + Duration::from_secs(number as u64);
            let news = vec![demand(&group, 0, 1)];
            // As a rank tells it, which has its own bound.
            let gone: Vec<_> = last.replace(news[0].target).into_iter().collect();
            schedule.note_demand(number % 60, news, &[], now);
            schedule.note_demand(
                number % 60,
                vec![],
                if number % 3 == 0 { &gone } else { &[] },
                now,
            );
            let (target, _) = schedule.choose(now).expect("there is something new");
            assert_eq!(Some(target), last, "the most recent first");
            schedule.learn(target);
        }
        assert!(schedule.wanted.len() <= TARGETS, "{}", schedule.wanted.len());
        assert!(schedule.running.len() <= TARGETS + 1, "{}", schedule.running.len());
        assert!(schedule.known.len() <= TARGETS + 1, "{}", schedule.known.len());
        assert!(schedule.running.len() > TARGETS / 2, "and not forgotten at once");
    }
}
