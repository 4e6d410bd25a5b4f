//! What an experiment works on: the targets that are wanted, the search for each, and what they have
//! learnt together. The time is handed in.

mod adapt;
mod courtesy;
mod demand;
mod foresee;
mod in_production;
mod known;
mod late_nodes;
mod ledger;
mod natives;
mod pauses;
mod rounds;
mod settings;
mod sighted;
mod suspects;
mod unasked;

use super::findings::{Findings, InUse, Report};
use super::search::Search;
use super::strategy::state::{Config, Knowledge};
use crate::measurement::{Outcome, Request, Seconds};
use crate::model::network::Network;
pub use adapt::Adaptation;
use adapt::Production;
use arborcast_proto::{Group, NodeName, Target};
use courtesy::{Courtesy, Permission};
pub use demand::fixed_targets;
use demand::{Used, Wanted, wanted_by};
use foresee::Foresight;
use in_production::InProduction;
use known::{Known, Knowns};
use late_nodes::LateNodes;
pub use ledger::Ceilings;
use ledger::{Ledger, Purpose, bytes_of};
use natives::Natives;
use rounds::Rounds;
pub use settings::Settings;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A search that has nothing left to try is asked again after a rest, each longer than the last: some
/// strategies find more when asked again.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// From one word to the daemons to the next, of what is for who watches: it goes to all nodes, and programs share
/// the network with it.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// The most recent targets are worked on, and what was learnt of them is kept.
const TARGETS: usize = 256;
/// Who takes turns among more has a plan for another at its turn.
const RECENT_TARGETS: usize = 32;

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
    natives: Natives,
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
            natives: Natives::default(),
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

    /// Drops what was learnt of targets that are wanted no more, where it has become too much.
    fn forget(&mut self) {
        let wanted = || self.wanted.iter().map(|wanted| wanted.target).collect::<HashSet<_>>();
        if self.natives.len() > TARGETS {
            self.natives.keep(&wanted());
        }
        if self.running.len() > TARGETS {
            let wanted = wanted();
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

    /// A program has waited so long for the end of what was chosen.
    pub fn note_wait(&mut self, waited_s: Seconds, now: Instant) {
        self.courtesy.note_wait(waited_s, now);
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
            let in_passing = self.asks_in_passing(target);
            let expected_s = if in_passing { 0.0 } else { self.expected_s(target, &request) };
            let pauses = self.pauses(now);
            let fitted = |left_s| match &request {
                Request::Transfers(round) if !in_passing => self.rounds.fitted(round, left_s),
                _ => (expected_s <= left_s).then(Vec::new),
            };
            let fits = |left_s| fitted(left_s).is_some();
            // Of a round of transfers what has come counts.
            let is_lost_if_met = matches!(request, Request::Broadcast { .. });
            match self.courtesy.may_begin(expected_s, pauses.as_ref(), now, is_lost_if_met, fits) {
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
            Request::Broadcast { .. } => {
                self.rounds.least_s() + search.and_then(Search::pending_s).unwrap_or(0.0)
            }
            Request::Transfers(round) => self.rounds.expected_s(round),
        }
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
        let is_old = known.is_none() && self.known.among(group, |_| true).is_some();
        if is_old {
            self.production.forget(target.group);
        }
        let (knowledge, since) =
            known.map_or((Knowledge::default(), now), |known| (known.knowledge, known.since));
        let config = Config { knowledge, ..self.config(wanted) };
        let before = self.running.remove(target);
        let found = before.as_ref().and_then(|before| before.search.incumbent().in_use());
        let found = found.map(|(plan, _)| plan.clone());
        let in_use = match &found {
            Some(_) => None,
            None => self.take_in_use(wanted, before.as_ref()),
        };
        // What nobody has measured is no more to a search than what it would find itself.
        let by_others = in_use.as_ref().filter(|in_use| in_use.is_measured);
        let plan = found.or_else(|| by_others.map(|in_use| in_use.plan.clone()));
        let search = Search::new(self.settings.strategy, config, plan);
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
        if let Outcome::Transfers { disturbed, .. } = outcome {
            self.rounds.note_taken(spent_s, disturbed);
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
        let news =
            network.map(|network| (findings.group.clone(), self.settings.in_this_mpi(network)));
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

#[cfg(test)]
mod tests;
