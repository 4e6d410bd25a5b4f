//! What the job works on: the targets that are wanted, the search for each, and what they have learnt
//! together. No MPI; the time is handed in.

use super::options::Options;
use super::search::{Search, Step};
use arborcast_planner::{Config, Knowledge};
use arborcast_proto::message::Demand;
use arborcast_proto::{Group, GroupHash, LinkMatrix, NodeName, SizeClass, Target};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A search that has nothing left to try is asked again after a rest, each longer than the last: some
/// strategies find more when asked again.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// A target that applications or the command line want a plan for.
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
}

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
    sites: Vec<String>,
    /// What each rank's applications have asked for, and when it said so.
    demand: Vec<Vec<(Demand, Instant)>>,
    running: HashMap<Target, Running>,
    /// Of each group and root, and since when.
    knowledge: HashMap<(GroupHash, u16), (Knowledge, Instant)>,
}

impl<'a> Agenda<'a> {
    /// `names` and `sites` of the job's ranks.
    pub fn new(options: &'a Options, names: Vec<NodeName>, sites: Vec<String>) -> Self {
        Agenda {
            options,
            demand: vec![Vec::new(); names.len()],
            names,
            sites,
            running: HashMap::new(),
            knowledge: HashMap::new(),
        }
    }

    /// Of the job's ranks.
    pub fn names(&self) -> &[NodeName] {
        &self.names
    }

    /// All that a rank's applications ask for.
    pub fn note_demand(&mut self, rank: usize, demand: Vec<Demand>, now: Instant) {
        self.demand[rank] = demand.into_iter().map(|demand| (demand, now)).collect();
    }

    /// The target to work on and what to do for it: the most recent demand for which there is
    /// something left to try.
    pub fn choose(&mut self, now: Instant) -> Option<(Target, Step)> {
        for wanted in self.wanted(now) {
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
    pub fn is_exhausted(&self, now: Instant) -> bool {
        self.wanted(now)
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
        let config = Config { knowledge, ..self.config(group, *root, *bytes) };
        let before = self.running.remove(&target);
        let finding = before.as_ref().and_then(|before| before.search.finding());
        let plan = finding.map(|finding| finding.plan);
        let next_rest = before.map_or(self.options.rest, |before| before.next_rest);
        // The name was checked with the options.
        let search =
            Search::new(&self.options.strategy, target, group.clone(), config, plan).ok()?;
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

    /// What to search for, most recent first.
    fn wanted(&self, now: Instant) -> Vec<Wanted> {
        if let Some(root) = &self.options.root {
            let Ok(group) = Group::new(self.names.clone()) else { return Vec::new() };
            let root = group.nodes().iter().position(|name| name.as_str() == root);
            let root = root.unwrap_or(0) as u16;
            let wanted = |&bytes| Wanted { group: group.clone(), root, bytes };
            return self.options.bytes.iter().map(wanted).collect();
        }
        let mut demand: Vec<_> = self
            .demand
            .iter()
            .flatten()
            // A group with nodes outside the job is another job's.
            .filter(|(d, _)| d.group.nodes().iter().all(|node| self.names.contains(node)))
            .filter(|(d, _)| d.group.len() > 1 && usize::from(d.target.root) < d.group.len())
            .map(|(d, told)| (d.age + (now - *told), d))
            .collect();
        demand.sort_by_key(|(age, _)| *age);
        let wanted = |(_, d): (Duration, &Demand)| {
            let Demand { group, target, bytes, .. } = d;
            Wanted { group: group.clone(), root: target.root, bytes: *bytes }
        };
        demand.into_iter().map(wanted).collect()
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
        self.names.iter().position(|name| name == node).unwrap_or(0)
    }
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
        agenda.note_demand(1, vec![used(1)], start);
        assert!(!work(&mut agenda, start, 0.5).1.is_empty());
        agenda.note_demand(1, vec![used(1000)], start);
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
        assert!(!agenda.is_exhausted(start));
        work(&mut agenda, start + options.rest, 0.5);
        assert!(agenda.is_exhausted(start + options.rest));
    }
}
