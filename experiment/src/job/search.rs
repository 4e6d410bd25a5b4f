//! The search for one target: a strategy, the samples of the trial that is going on, and what of it
//! is worth telling. No MPI and no clock: seconds and results are handed in.

use super::standings::Standings;
use super::wire::BroadcastResult;
use arborcast_planner::{Config, Knowledge, Outcome, Request, Strategy, Trial, UnknownStrategy};
use arborcast_planner::{limit_s, strategy};
use arborcast_proto::message::{Finding, Times, TrialRecord};
use arborcast_proto::{Group, LinkMatrix, Plan, Target};

/// A round of link measurements is made again so often where it was disturbed.
const DISTURBED_ROUNDS: u32 = 3;
/// A trial whose broadcasts were disturbed so often in a row is put off: they don't fit between those of
/// the applications.
const DISTURBED_BROADCASTS: u32 = 10;
/// Broadcasts at a time of a plan and of the MPI's own, where it takes more of them to tell which is faster.
const CONTEST_REPETITIONS: u32 = 5;

/// A table of the links of all pairs is told to operators up to this many nodes.
const LINKS_TOLD_UP_TO: usize = 512;

/// What the job is to do for a target now.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Broadcast { plan: Plan, bytes: u64, give_up_after_s: Option<f64> },
    Links(Vec<arborcast_planner::Transfer>),
}

/// What has to be told after a step.
#[derive(Debug, Default)]
pub struct Report {
    pub record: Option<TrialRecord>,
    pub finding: Option<Finding>,
}

pub struct Search {
    pub target: Target,
    pub group: Group,
    /// What is measured.
    pub bytes: u64,
    /// What was asked for, which may be more.
    asked_bytes: u64,
    strategy: Box<dyn Strategy>,
    request: Option<Request>,
    /// The request is not the strategy's, but this search's own.
    is_own: bool,
    samples_s: Vec<f64>,
    /// Rounds of link measurements that are done.
    rounds_s: Vec<Vec<f64>>,
    /// How often in a row what was asked for was disturbed, and what a round has come to meanwhile.
    disturbances: u32,
    disturbed_s: Vec<f64>,
    trials: u32,
    search_s: f64,
    standings: Standings,
    /// The plan that was told of last, with its median then.
    told: Option<(Plan, f64)>,
}

impl Search {
    /// Measures `plan` first of all, if there is one. For messages of `asked_bytes`, which the configuration
    /// may cap: what is told then, is told of the size that was asked for.
    ///
    /// # Errors
    /// Where there is no strategy of that name.
    pub fn new(
        name: &str,
        target: Target,
        group: Group,
        config: Config,
        asked_bytes: u64,
        plan: Option<Plan>,
    ) -> Result<Self, UnknownStrategy> {
        let bytes = config.bytes;
        // What the MPI's own broadcast takes, each strategy asks itself.
        let first = plan.filter(|plan| *plan != Plan::Native).map(|plan| Trial::new(plan, bytes));
        Ok(Search {
            target,
            group,
            bytes,
            asked_bytes,
            strategy: strategy(name, config)?,
            is_own: first.is_some(),
            request: first.map(Request::Broadcast),
            samples_s: Vec::new(),
            rounds_s: Vec::new(),
            disturbances: 0,
            disturbed_s: Vec::new(),
            trials: 0,
            search_s: 0.0,
            standings: Standings::default(),
            told: None,
        })
    }

    /// Whether applications leave no time for what is next; if so, it is forgotten that they did.
    pub fn is_crowded_out(&mut self) -> bool {
        let is_crowded_out = self.disturbances >= DISTURBED_BROADCASTS;
        if is_crowded_out {
            self.disturbances = 0;
        }
        is_crowded_out
    }

    /// What to do next; the same again until a result has been taken. `None`: the strategy has
    /// nothing left to try.
    pub fn step(&mut self) -> Option<Step> {
        if self.request.is_none() {
            self.request = self.strategy.next();
            if self.request.is_none() {
                self.request = self.contest().map(Request::Broadcast);
                self.is_own = self.request.is_some();
            }
            self.samples_s.clear();
            self.rounds_s.clear();
        }
        match self.request.as_ref()? {
            Request::Broadcast(Trial { plan, bytes, give_up_after_s, .. }) => {
                Some(Step::Broadcast {
                    plan: plan.clone(),
                    bytes: *bytes,
                    give_up_after_s: *give_up_after_s,
                })
            }
            Request::Links(rounds) => match rounds.get(self.rounds_s.len()) {
                Some(round) => Some(Step::Links(round.clone())),
                None => {
                    self.settle(Outcome::Links(Vec::new()));
                    self.step()
                }
            },
        }
    }

    /// What tells whether the fastest tree is faster than the MPI's own broadcast.
    fn contest(&self) -> Option<Trial> {
        let trial = Trial::new(self.standings.undecided()?.clone(), self.bytes);
        let repetitions = CONTEST_REPETITIONS;
        Some(Trial { min_repetitions: repetitions, max_repetitions: repetitions, ..trial })
    }

    /// Time that went by and gave nothing.
    pub fn spend(&mut self, spent_s: f64) {
        self.search_s += spent_s;
    }

    /// Takes a round of link measurements that took `spent_s`, in the order of its transfers. One that was
    /// disturbed is made again, up to a point: then the least times count.
    pub fn take_links(&mut self, mut seconds: Vec<f64>, disturbed: bool, spent_s: f64) {
        self.search_s += spent_s;
        if disturbed {
            for (least_s, before_s) in seconds.iter_mut().zip(&self.disturbed_s) {
                *least_s = least_s.min(*before_s);
            }
            if self.disturbances < DISTURBED_ROUNDS {
                self.disturbances += 1;
                self.disturbed_s = seconds;
                return;
            }
        }
        self.disturbances = 0;
        self.disturbed_s.clear();
        self.rounds_s.push(seconds);
        if let Some(Request::Links(rounds)) = &self.request
            && rounds.len() == self.rounds_s.len()
        {
            let outcome = Outcome::Links(std::mem::take(&mut self.rounds_s));
            self.settle(outcome);
        }
    }

    /// Takes one broadcast, which with all around it took `spent_s`; `now_unix_s` is for the record.
    pub fn take_broadcast(
        &mut self,
        result: BroadcastResult,
        spent_s: f64,
        now_unix_s: f64,
    ) -> Report {
        self.search_s += spent_s;
        let Some(Request::Broadcast(trial)) = &self.request else { return Report::default() };
        let trial = trial.clone();
        if result.disturbed {
            // The samples that are there are good: the trial goes on with the next one.
            self.disturbances += 1;
            return Report::default();
        }
        self.disturbances = 0;
        let mut abandoned_after_s = None;
        if result.abandoned {
            abandoned_after_s = Some(result.seconds);
        } else {
            self.samples_s.push(result.seconds);
            if !trial.is_known_well_enough(&self.samples_s) {
                return Report::default();
            }
        }
        self.trials += 1;
        let times = Times::of(&self.samples_s).filter(|_| abandoned_after_s.is_none());
        let samples_s = std::mem::take(&mut self.samples_s);
        if trial.bytes == self.bytes && times.is_some() {
            self.standings.add(&trial.plan, &samples_s);
        }
        self.settle(Outcome::Broadcast { samples_s, abandoned_after_s });
        self.report(trial, times, now_unix_s)
    }

    fn settle(&mut self, outcome: Outcome) {
        self.request = None;
        if !std::mem::take(&mut self.is_own) {
            self.strategy.observe(outcome);
        }
    }

    fn report(&mut self, trial: Trial, times: Option<Times>, now_unix_s: f64) -> Report {
        let best_s = self.standings.best().map(|(_, times)| times.median_s);
        let record = TrialRecord {
            target: self.target,
            bytes: if trial.bytes == self.bytes { self.asked_bytes } else { trial.bytes },
            number: self.trials,
            plan: trial.plan,
            times,
            predicted_s: trial.predicted_s,
            best_s,
            strategy: self.strategy.name().into(),
            search_s: self.search_s,
            unix_s: now_unix_s,
        };
        Report { record: Some(record), finding: self.news() }
    }

    /// The finding to be told now: a faster plan, or the plan that was told of last, with its new times,
    /// where it has fallen behind the MPI's own broadcast.
    fn news(&mut self) -> Option<Finding> {
        let (best, Times { median_s, .. }) = self.standings.best()?;
        let best = best.clone();
        let finding = match &self.told {
            None => self.finding_of(&best),
            Some((told, told_s)) if *told == best => {
                self.finding_of(&best).filter(|_| median_s < *told_s)
            }
            Some((told, told_s)) => {
                let of_told = self.finding_of(told);
                let now_s = of_told.as_ref().map_or(*told_s, |finding| finding.times.median_s);
                let has_fallen = best == Plan::Native;
                let news = of_told.filter(|_| has_fallen).or_else(|| self.finding_of(&best));
                news.filter(|_| median_s < now_s)
            }
        }?;
        self.told = Some((best, median_s));
        Some(finding)
    }

    /// The plan that stands.
    pub fn finding(&self) -> Option<Finding> {
        let (plan, _) = self.standings.best()?;
        self.finding_of(plan)
    }

    fn finding_of(&self, plan: &Plan) -> Option<Finding> {
        let times = self.standings.times(plan)?;
        let network = self.strategy.knowledge().network.as_ref();
        Some(Finding {
            group: self.group.clone(),
            root: self.target.root,
            bytes: self.asked_bytes,
            plan: plan.clone(),
            times,
            native: self.standings.native(),
            limit_s: network.map(|network| limit_s(network, self.target.root.into(), self.bytes)),
            strategy: self.strategy.name().into(),
            trials: self.trials,
            search_s: self.search_s,
        })
    }

    /// The links as measured, where they have been, for a group small enough that a table of all
    /// pairs is of use.
    pub fn links(&self) -> Option<LinkMatrix> {
        let network = self.strategy.knowledge().network.as_ref()?;
        let nodes = network.len();
        let cells = || (0..nodes * nodes).map(|cell| (cell / nodes, cell % nodes));
        let latencies_s = || cells().map(|(from, to)| network.latency_s(from, to)).collect();
        let rates = || cells().map(|(from, to)| network.rate(from, to)).collect();
        (nodes <= LINKS_TOLD_UP_TO).then(|| LinkMatrix::new(nodes, latencies_s(), rates()).ok())?
    }

    pub fn knowledge(&self) -> &Knowledge {
        self.strategy.knowledge()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{NodeName, SizeClass};

    fn search() -> Search {
        search_after(None)
    }

    fn search_after(plan: Option<Plan>) -> Search {
        let names = ["a", "b", "c", "d"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let target = Target { group: group.hash(), root: 0, class: SizeClass::of(1000) };
        Search::new("random-transform", target, group, Config::new(4, 0, 1000), 1000, plan).unwrap()
    }

    fn result(seconds: f64) -> BroadcastResult {
        BroadcastResult { seconds, abandoned: false, disturbed: false }
    }

    #[test]
    fn a_trial_is_repeated_until_it_is_known() {
        let mut search = search();
        let first = search.step();
        let mut reports = Vec::new();
        while reports.last().is_none_or(|report: &Report| report.record.is_none()) {
            assert_eq!(search.step(), first, "one trial after the other");
            reports.push(search.take_broadcast(result(0.1), 0.2, 0.0));
        }
        let report = reports.last().unwrap();
        assert_eq!(report.record.as_ref().unwrap().times.unwrap().median_s, 0.1);
        assert_eq!(report.finding.as_ref().unwrap().trials, 1);
        assert!(reports.len() > 1);
    }

    #[test]
    fn a_disturbed_broadcast_leaves_no_trace() {
        let mut search = search();
        let first = search.step();
        for count in 1..50 {
            let disturbed = BroadcastResult { seconds: 9.0, abandoned: true, disturbed: true };
            assert!(search.take_broadcast(disturbed, 0.0, 0.0).record.is_none());
            assert_eq!(search.is_crowded_out(), count % DISTURBED_BROADCASTS == 0);
            assert_eq!(search.step(), first);
        }
    }

    #[test]
    fn a_disturbed_round_is_made_again() {
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let target = Target { group: group.hash(), root: 0, class: SizeClass::of(1000) };
        let mut search =
            Search::new("guided", target, group, Config::new(2, 0, 1000), 1000, None).unwrap();
        let first = search.step().unwrap();
        assert!(matches!(first, Step::Links(_)));
        search.take_links(vec![5.0], true, 0.1);
        assert_eq!(search.step().as_ref(), Some(&first));
        search.take_links(vec![1e-4], false, 0.1);
        assert_ne!(search.step(), Some(first), "one that was not disturbed is enough");
        for _ in 0..100 * (1 + DISTURBED_ROUNDS) {
            match search.step() {
                Some(Step::Links(round)) => {
                    search.take_links(vec![1e-3; round.len()], true, 0.1);
                }
                _ => return,
            }
        }
        panic!("disturbances are borne in the end");
    }

    #[test]
    fn a_plan_that_falls_behind_the_mpis_own_is_told_of_once_more() {
        let tree = Plan::single(arborcast_proto::Tree::flat(4, 0).unwrap(), 1024).unwrap();
        let mut search = search_after(Some(tree.clone()));
        let mut told = Vec::new();
        for _ in 0..100 {
            let Some(Step::Broadcast { plan, .. }) = search.step() else { break };
            let seconds = if plan == tree { 0.1 } else { 0.05 };
            told.extend(search.take_broadcast(result(seconds), 0.0, 0.0).finding);
        }
        let told: Vec<_> = told.iter().map(|f| (&f.plan, f.native.map(|t| t.median_s))).collect();
        assert_eq!(told, [(&tree, None), (&tree, Some(0.05))]);
        assert_eq!(search.finding().unwrap().plan, Plan::Native);
    }

    #[test]
    fn only_better_plans_are_told() {
        let mut search = search();
        let mut told = Vec::new();
        for trial in 0..200 {
            if search.step().is_none() {
                break;
            }
            let seconds = if trial < 9 { 0.1 } else { 0.05 };
            told.extend(search.take_broadcast(result(seconds), 0.0, 0.0).finding);
        }
        let medians: Vec<_> = told.iter().map(|finding| finding.times.median_s).collect();
        assert_eq!(medians, [0.1, 0.05]);
    }
}
