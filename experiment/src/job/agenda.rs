//! What the job works on: the targets that are wanted, the search for each, and what they have learnt
//! together. No MPI; the time is handed in.

use super::options::Options;
use super::search::{Search, Step};
use arborcast_planner::{Config, Knowledge};
use arborcast_proto::message::Demand;
use arborcast_proto::{Group, GroupHash, LinkMatrix, NodeName, SizeClass, Target};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A search that has nothing left to try is asked again after a rest, each longer than the last: some
/// strategies find more when asked again.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// The most recent targets are worked on, and what was learnt of them is kept.
const TARGETS: usize = 256;

/// A target that applications or the command line want a plan for.
#[derive(Debug)]
struct Wanted {
    group: Group,
    root: u16,
    bytes: u64,
}

impl Wanted {
    fn target(&self) -> Target {
        let Wanted { group, root, bytes } = self;
        Target { group: group.hash(), root: *root, class: SizeClass::of(*bytes) }
    }

    /// Where it makes sense, in a job of these nodes.
    fn of(demand: Demand, ranks: &HashMap<NodeName, usize>) -> Option<Self> {
        let Demand { group, target, bytes, .. } = demand;
        let wanted = Wanted { group, root: target.root, bytes };
        // A group with nodes outside the job is another job's.
        let is_ours = wanted.group.nodes().iter().all(|node| ranks.contains_key(node));
        let has_root = usize::from(target.root) < wanted.group.len() && wanted.group.len() > 1;
        (is_ours && has_root && wanted.target() == target).then_some(wanted)
    }
}

/// When a target was last used; `None`: before anything that is known.
type Used = Option<Instant>;

/// A search, and since when what it goes by has been known.
struct Running {
    search: Search,
    since: Instant,
    resting_until: Option<Instant>,
    next_rest: Duration,
    /// It has had nothing left to try, at least once.
    is_exhausted: bool,
}

/// See the module's text.
pub struct Agenda<'a> {
    options: &'a Options,
    /// Of the job's ranks.
    names: Vec<NodeName>,
    /// The rank of each name.
    ranks: HashMap<NodeName, usize>,
    sites: Vec<String>,
    /// Larger messages are measured at this size.
    max_bytes: u64,
    /// What each rank's applications have asked for.
    demand: Vec<HashMap<Target, (Used, Rc<Wanted>)>>,
    /// What to search for, most recent first, each target once.
    wanted: Vec<Rc<Wanted>>,
    running: HashMap<Target, Running>,
    /// Of each group and root, and since when.
    knowledge: HashMap<(GroupHash, u16), (Knowledge, Instant)>,
}

impl<'a> Agenda<'a> {
    /// `names` and `sites` of the job's ranks.
    pub fn new(options: &'a Options, names: Vec<NodeName>, sites: Vec<String>) -> Self {
        let ranks = names.iter().cloned().enumerate().map(|(rank, name)| (name, rank)).collect();
        let wanted = wanted_by(options, &names);
        Agenda {
            options,
            demand: vec![HashMap::new(); names.len()],
            names,
            ranks,
            sites,
            max_bytes: options.max_bytes,
            wanted,
            running: HashMap::new(),
            knowledge: HashMap::new(),
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
        }
        for news in news {
            let used = now.checked_sub(news.age);
            if let Some(wanted) = Wanted::of(news, &self.ranks) {
                demand.insert(wanted.target(), (used, Rc::new(wanted)));
            }
        }
        // The command line goes before the applications.
        if self.options.root.is_none() {
            self.wanted = most_recent(&self.demand);
            self.forget();
        }
    }

    /// Drops what was learnt of targets that are wanted no more, where it has become too much.
    fn forget(&mut self) {
        if self.running.len() > TARGETS {
            let wanted: HashSet<_> = self.wanted.iter().map(|wanted| wanted.target()).collect();
            self.running.retain(|target, _| wanted.contains(target));
        }
        if self.knowledge.len() > TARGETS {
            let target = |wanted: &Rc<Wanted>| (wanted.target().group, wanted.root);
            let wanted: HashSet<_> = self.wanted.iter().map(target).collect();
            self.knowledge.retain(|key, _| wanted.contains(key));
        }
    }

    /// From now on larger messages are measured at this size; the searches that measured more begin anew.
    pub fn cap(&mut self, max_bytes: u64) {
        self.max_bytes = self.max_bytes.min(max_bytes);
        self.running.retain(|_, running| running.search.bytes <= max_bytes);
    }

    /// The target to work on and what to do for it: the most recent demand for which there is
    /// something left to try.
    pub fn choose(&mut self, now: Instant) -> Option<(Target, Step)> {
        for place in 0..self.wanted.len() {
            let wanted = self.wanted[place].clone();
            let target = wanted.target();
            let must_begin = match self.running.get_mut(&target) {
                None => true,
                Some(running) if running.resting_until.is_some_and(|until| now < until) => continue,
                Some(running) => {
                    let has_woken = running.resting_until.take().is_some();
                    has_woken && now - running.since >= self.options.refresh
                }
            };
            if must_begin {
                self.begin(target, &wanted, now)?;
            }
            let running = self.running.get_mut(&target)?;
            if running.search.is_crowded_out() {
                running.resting_until = Some(now + self.options.rest);
                continue;
            }
            if let Some(step) = running.search.step() {
                return Some((target, step));
            }
            running.is_exhausted = true;
            running.resting_until = Some(now + running.next_rest);
            running.next_rest = (2 * running.next_rest).min(LONGEST_REST);
        }
        None
    }

    /// Whether every search that is wanted has come to an end. One that applications leave no time for
    /// has not.
    pub fn is_exhausted(&self) -> bool {
        self.wanted
            .iter()
            .all(|wanted| self.running.get(&wanted.target()).is_some_and(|r| r.is_exhausted))
    }

    /// Begins a search, with what is known already unless that is old: networks change. The plan of a
    /// search that was there before is measured first.
    fn begin(&mut self, target: Target, wanted: &Wanted, now: Instant) -> Option<()> {
        let Wanted { group, root, bytes } = wanted;
        let key = (target.group, target.root);
        let fresh = |known: &&(Knowledge, Instant)| now - known.1 < self.options.refresh;
        let (knowledge, since) =
            self.knowledge.get(&key).filter(fresh).cloned().unwrap_or((Knowledge::default(), now));
        let measured_bytes = (*bytes).min(self.max_bytes);
        let config = Config { knowledge, ..self.config(group, *root, measured_bytes) };
        let before = self.running.remove(&target);
        let finding = before.as_ref().and_then(|before| before.search.finding());
        let plan = finding.map(|finding| finding.plan);
        let next_rest = before.map_or(self.options.rest, |before| before.next_rest);
        // The name was checked with the options.
        let search =
            Search::new(&self.options.strategy, target, group.clone(), config, *bytes, plan)
                .ok()?;
        let running =
            Running { search, since, resting_until: None, next_rest, is_exhausted: false };
        self.running.insert(target, running);
        Some(())
    }

    pub fn search(&self, target: Target) -> Option<&Search> {
        Some(&self.running.get(&target)?.search)
    }

    pub fn search_mut(&mut self, target: Target) -> Option<&mut Search> {
        Some(&mut self.running.get_mut(&target)?.search)
    }

    /// Takes over what the search for a target has learnt, for the other targets of its group and root;
    /// returns the links if they are new.
    pub fn learn(&mut self, target: Target) -> Option<(Group, LinkMatrix)> {
        let Running { search, since, .. } = self.running.get(&target)?;
        let key = (target.group, target.root);
        let known = self.knowledge.get(&key);
        if known.is_some_and(|(_, known_since)| known_since > since) {
            return None;
        }
        let knew_links = known.is_some_and(|(known, at)| at == since && known.network.is_some());
        let links = if knew_links { None } else { search.links() };
        let news = links.map(|links| (search.group.clone(), links));
        self.knowledge.insert(key, (search.knowledge().clone(), *since));
        news
    }

    fn config(&self, group: &Group, root: u16, bytes: u64) -> Config {
        let sites = group.nodes().iter().map(|node| self.sites[self.rank_of(node)].clone());
        let mut config = Config::new(group.len(), root.into(), bytes);
        config.seed = self.options.seed;
        config.eager_bytes = self.options.eager;
        config.sites = Some(sites.collect());
        config
    }

    /// The rank in the job of a node that is one of its own.
    pub fn rank_of(&self, node: &NodeName) -> usize {
        self.ranks.get(node).copied().unwrap_or(0)
    }
}

/// What the command line asks for: its sizes, over all nodes of the job.
fn wanted_by(options: &Options, names: &[NodeName]) -> Vec<Rc<Wanted>> {
    let Some(root) = &options.root else { return Vec::new() };
    let Ok(group) = Group::new(names.to_vec()) else { return Vec::new() };
    let root = group.nodes().iter().position(|name| name.as_str() == root);
    let root = root.unwrap_or(0) as u16;
    let wanted = |&bytes| Rc::new(Wanted { group: group.clone(), root, bytes });
    options.bytes.iter().map(wanted).collect()
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
    use crate::job::wire::BroadcastResult;
    use arborcast_proto::Plan;
    use clap::Parser;

    const LATER: Duration = Duration::from_secs(LONGEST_REST.as_secs() + 1);

    /// Answers everything until nothing is left, each broadcast with `seconds`; returns how many rounds of
    /// link measurements were asked for, and the plans that were measured.
    fn work(agenda: &mut Agenda, now: Instant, seconds: f64) -> (usize, Vec<Plan>) {
        let (mut rounds, mut plans) = (0, Vec::new());
        while let Some((target, step)) = agenda.choose(now) {
            let search = agenda.search_mut(target).unwrap();
            match step {
                Step::Links(round) => {
                    rounds += 1;
                    let second = |t: &arborcast_planner::Transfer| 0.01 + t.bytes as f64 * 1e-8;
                    search.take_links(round.iter().map(second).collect(), false, 0.1);
                }
                Step::Broadcast { plan, .. } => {
                    plans.push(plan);
                    let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
                    search.take_broadcast(result, 0.1, 0.0);
                }
            }
            agenda.learn(target);
        }
        (rounds, plans)
    }

    #[test]
    fn old_links_are_measured_again_and_the_old_plan_first() {
        let arguments = ["", "--root", "b", "--bytes", "1,1Mi", "--refresh", "2h"];
        let options = Options::parse_from(arguments);
        let names = ["a", "b", "c", "d"].map(|name| NodeName::new(name).unwrap());
        let mut agenda = Agenda::new(&options, names.to_vec(), vec![String::new(); 4]);
        let start = Instant::now();
        let (survey, plans) = work(&mut agenda, start, 0.5);
        assert!(survey > 0 && plans.len() > 1);
        assert_eq!(work(&mut agenda, start, 0.5), (0, vec![]), "at rest");
        assert_eq!(work(&mut agenda, start + LATER, 0.5).0, 0, "the links are not old yet");

        let best = |running: &Running| running.search.finding().unwrap().plan;
        let standing: Vec<Plan> = agenda.running.values().map(best).collect();
        let (rounds, plans) = work(&mut agenda, start + 3 * LATER, 0.7);
        assert_eq!(rounds, survey, "once for both sizes");
        let missing: Vec<_> = standing.iter().filter(|plan| !plans.contains(plan)).collect();
        assert!(missing.is_empty(), "{missing:?} are not among {plans:?}");
        for running in agenda.running.values() {
            assert_eq!(running.search.finding().unwrap().times.median_s, 0.7, "not the old time");
        }
    }

    #[test]
    fn a_search_at_rest_is_not_woken_by_those_who_broadcast() {
        let options = Options::parse_from([""]);
        let names = ["a", "b", "c"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let target = Target { group: group.hash(), root: 0, class: SizeClass::of(64) };
        let mut agenda = Agenda::new(&options, names.to_vec(), vec![String::new(); 3]);
        let start = Instant::now();
        let used = |broadcasts| Demand {
            target,
            group: group.clone(),
            bytes: 64,
            broadcasts,
            age: Duration::ZERO,
        };
        agenda.note_demand(1, vec![used(1)], &[], start);
        assert!(!work(&mut agenda, start, 0.5).1.is_empty());
        agenda.note_demand(1, vec![used(1000)], &[], start);
        assert_eq!(agenda.choose(start + options.rest / 2), None);
    }

    #[test]
    fn a_search_that_is_crowded_out_is_not_over() {
        let options = Options::parse_from(["", "--root", "b", "--bytes", "1"]);
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let mut agenda = Agenda::new(&options, names.to_vec(), vec![String::new(); 2]);
        let start = Instant::now();
        while let Some((target, step)) = agenda.choose(start) {
            let search = agenda.search_mut(target).unwrap();
            match step {
                Step::Links(round) => search.take_links(vec![0.01; round.len()], false, 0.1),
                Step::Broadcast { .. } => {
                    let disturbed =
                        BroadcastResult { seconds: 9.0, abandoned: true, disturbed: true };
                    search.take_broadcast(disturbed, 0.1, 0.0);
                }
            }
        }
        assert!(!agenda.is_exhausted());
        work(&mut agenda, start + options.rest, 0.5);
        assert!(agenda.is_exhausted());
    }

    fn pair(name: &str) -> Group {
        Group::new(["a", name].map(|name| NodeName::new(name).unwrap()).to_vec()).unwrap()
    }

    fn demand(group: &Group, root: u16, bytes: u64) -> Demand {
        let target = Target { group: group.hash(), root, class: SizeClass::of(bytes) };
        Demand { target, group: group.clone(), bytes, age: Duration::ZERO, broadcasts: 1 }
    }

    #[test]
    fn a_demand_that_makes_no_sense_is_passed_over() {
        let options = Options::parse_from([""]);
        let names = ["a", "b", "c"].map(|name| NodeName::new(name).unwrap());
        let mut agenda = Agenda::new(&options, names.to_vec(), vec![String::new(); 3]);
        let ours = pair("b");
        let mut senseless = [0, 1, 2, 3].map(|_| demand(&ours, 0, 1));
        senseless[0] = demand(&pair("elsewhere"), 0, 1);
        senseless[1].target.root = 2;
        senseless[2].bytes = 1 << 20;
        senseless[3].target.group = pair("c").hash();
        let start = Instant::now();
        agenda.note_demand(0, senseless.to_vec(), &[], start);
        assert_eq!(agenda.choose(start), None);
        agenda.note_demand(0, vec![demand(&ours, 1, 1)], &[], start);
        assert!(agenda.choose(start).is_some());
    }

    #[test]
    fn a_huge_demand_is_measured_at_the_cap_and_told_of_its_own_size() {
        let options = Options::parse_from(["", "--max-bytes", "1Mi"]);
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let mut agenda = Agenda::new(&options, names.to_vec(), vec![String::new(); 2]);
        let start = Instant::now();
        let huge = demand(&pair("b"), 0, 1 << 60);
        let class = huge.target.class;
        agenda.note_demand(1, vec![huge], &[], start);
        let (mut largest, mut told) = (0, Vec::new());
        while let Some((target, step)) = agenda.choose(start) {
            assert_eq!(target.class, class);
            let search = agenda.search_mut(target).unwrap();
            match step {
                Step::Links(round) => {
                    largest = round.iter().map(|transfer| transfer.bytes).fold(largest, u64::max);
                    search.take_links(vec![0.01; round.len()], false, 0.1);
                }
                Step::Broadcast { bytes, .. } => {
                    largest = largest.max(bytes);
                    let result =
                        BroadcastResult { seconds: 0.1, abandoned: false, disturbed: false };
                    let report = search.take_broadcast(result, 0.1, 0.0);
                    told.extend(report.record.map(|record| record.bytes));
                    told.extend(report.finding.map(|finding| finding.bytes));
                }
            }
        }
        assert!(largest <= 64 << 20, "{largest}");
        assert!(!told.is_empty() && told.iter().all(|&bytes| SizeClass::of(bytes) == class));
        // A node that has no memory even for that.
        agenda.cap(1000);
        let (target, _) = agenda.choose(start).expect("it begins anew");
        assert_eq!(agenda.search(target).unwrap().bytes, 1000);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let options = Options::parse_from([""]);
        let names: Vec<_> = (0..60).map(|i| NodeName::new(format!("n{i}")).unwrap()).collect();
        let mut agenda = Agenda::new(&options, names.clone(), vec![String::new(); 60]);
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
            // As a station tells it, which has its own bound.
            let gone: Vec<_> = last.replace(news[0].target).into_iter().collect();
            agenda.note_demand(number % 60, news, &[], now);
            agenda.note_demand(number % 60, vec![], if number % 3 == 0 { &gone } else { &[] }, now);
            let (target, _) = agenda.choose(now).expect("there is something new");
            assert_eq!(Some(target), last, "the most recent first");
            agenda.learn(target);
        }
        assert!(agenda.wanted.len() <= TARGETS, "{}", agenda.wanted.len());
        assert!(agenda.running.len() <= TARGETS + 1, "{}", agenda.running.len());
        assert!(agenda.knowledge.len() <= TARGETS + 1, "{}", agenda.knowledge.len());
        assert!(agenda.running.len() > TARGETS / 2, "and not forgotten at once");
    }
}
