//! What of a search is worth telling the daemons: every trial, and the plan in use where it changes.

use super::search::Search;
use super::strategy::FAR_BETTER;
use super::strategy::state::TrialResult;
use crate::measurement::Seconds;
use crate::model::bounds::limit_s;
use crate::model::network::Network;
use arborcast_proto::message::{Finding, Reason, Times, TrialRecord};
use arborcast_proto::segment::BookEntry;
use arborcast_proto::{Group, NodeName, Plan, Target};
use serde::{Deserialize, Serialize};

/// A plan that has not been measured takes the place of another that is expected to take this many times as long; less
/// than that the model does not tell.
pub(super) const FASTER: f64 = 1.15;
/// Of two plans by the same model, neither of which was measured, one has just been looked for longer.
const LOOKED_FOR_LONGER: f64 = 1.02;

/// A plan that programs have, and the search for it has not found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InUse {
    pub plan: Plan,
    /// Else it is one that a daemon made for who waited for it.
    pub is_measured: bool,
}

impl InUse {
    /// By the daemon's book; `None` where that is native.
    pub fn of(BookEntry { plan, is_measured, .. }: BookEntry) -> Option<Self> {
        (plan != Plan::Native).then_some(InUse { plan, is_measured })
    }

    /// Whether it can be the plan of a target in this group.
    pub fn fits(&self, target: Target, group: &Group) -> bool {
        let shape = (group.len(), usize::from(target.root));
        self.plan.striping().is_some_and(|trees| (trees.len(), trees.root()) == shape)
    }
}

/// What has to be told after a trial.
#[derive(Debug)]
pub struct Report {
    pub record: TrialRecord,
    /// In the order in which daemons are to hear of them.
    pub findings: Vec<Finding>,
}

/// What was told of last.
#[derive(Debug)]
struct Told {
    plan: Plan,
    median_s: Seconds,
    /// Where nobody has measured it.
    expected_s: Option<Seconds>,
    /// See [`known_beside`].
    known_beside: usize,
    /// How much faster another plan must be expected for it to take this one's place at once, when the links are
    /// first known; `None` where they were, so far as they ever are.
    gives_way: Option<f64>,
}

impl Told {
    fn of(search: &Search, plan: Plan, median_s: Seconds) -> Self {
        let gives_way = search.knowledge().network.is_none().then_some(FASTER);
        let known_beside = known_beside(search);
        Told { plan, median_s, expected_s: None, known_beside, gives_way }
    }
}

/// How many of the two things were known that a finding says beside its plan: native's time and the limit.
fn known_beside(search: &Search) -> usize {
    let knows_native = search.incumbent().native().is_some();
    let knows_network = search.knowledge().network.is_some();
    usize::from(knows_native) + usize::from(knows_network)
}

/// Names what a search finds for the daemons.
#[derive(Debug)]
pub(super) struct Findings {
    pub target: Target,
    pub group: Group,
    /// What was asked for, which may be more than what is measured: so it is told.
    pub asked_bytes: u64,
    told: Option<Told>,
    /// The limit by the network as an earlier search knew it, for as long as this one knows none.
    limit_before_s: Option<Seconds>,
}

impl Findings {
    pub fn new(target: Target, group: Group, asked_bytes: u64) -> Self {
        Findings { target, group, asked_bytes, told: None, limit_before_s: None }
    }

    /// Where programs have a plan already. One that was measured is not replaced before that is done again, or it shows
    /// what it takes.
    pub fn note_in_use(&mut self, InUse { plan, is_measured }: InUse) {
        let gives_way = (!is_measured).then_some(LOOKED_FOR_LONGER);
        let (median_s, expected_s) = (f64::INFINITY, None);
        self.told = Some(Told { plan, median_s, expected_s, known_beside: 0, gives_way });
    }

    /// Those of a search that begins anew after `search`, with nothing told.
    pub fn after(self, search: &Search) -> Self {
        Findings { told: None, limit_before_s: self.limit_s(search), ..self }
    }

    /// Whether this node is the target's root.
    pub fn is_of_root(&self, node: &NodeName) -> bool {
        self.group.nodes().get(usize::from(self.target.root)) == Some(node)
    }

    /// The plan that was told of last.
    pub fn plan(&self) -> Option<&Plan> {
        self.told.as_ref().map(|told| &told.plan)
    }

    /// What it was expected to take, if it was told of so.
    pub fn expected_s(&self) -> Option<Seconds> {
        self.told.as_ref()?.expected_s
    }

    /// After a trial of `search`; `now_unix_s` is for the record.
    pub fn report(&mut self, search: &Search, result: TrialResult, now_unix_s: f64) -> Report {
        let TrialResult { trial, times } = result;
        let is_own_size = trial.bytes == search.config().bytes;
        let record = TrialRecord {
            target: self.target,
            bytes: if is_own_size { self.asked_bytes } else { trial.bytes },
            number: search.trials,
            plan: trial.plan,
            times,
            predicted_s: trial.predicted_s,
            best_s: search.incumbent().in_use().map(|(_, times)| times.median_s),
            strategy: search.strategy_name().into(),
            search_s: search.search_s,
            unix_s: now_unix_s,
        };
        Report { record, findings: self.news(search) }
    }

    /// What is to be told where the network has become another and `search` has begun anew: what the plan that was
    /// told of is expected to take now, and the one that takes its place at once if that is expected to be
    /// faster by more than the model errs. Nothing of either is measured.
    pub fn on_change(&mut self, search: &mut Search, network: &Network) -> Vec<Finding> {
        self.replace(search, network, FASTER)
    }

    /// As [`Findings::on_change`], with what is expected to be faster by this factor.
    fn replace(&mut self, search: &mut Search, network: &Network, by: f64) -> Vec<Finding> {
        let foreseen = search.foresee(f64::INFINITY);
        let Some(told) = self.told.take() else { return Vec::new() };
        let is_along_trees = told.plan != Plan::Native;
        let before_s = is_along_trees.then(|| search.expected_s(&told.plan, network));
        let mut expected: Vec<(Plan, Seconds)> =
            before_s.map(|before_s| (told.plan.clone(), before_s)).into_iter().collect();
        let faster = |(_, now_s): &(Plan, Seconds)| before_s.is_some_and(|s| s > by * now_s);
        expected.extend(foreseen.filter(faster));
        if expected.is_empty() {
            self.told = Some(Told { median_s: f64::INFINITY, known_beside: 0, ..told });
        }
        let predicted = |(plan, seconds)| self.predicted(search, plan, seconds);
        expected.into_iter().map(predicted).collect()
    }

    /// As [`Findings::on_change`], where the network is again as `search` knew it: what that measured holds once more.
    pub fn on_return(&mut self, search: &mut Search, network: &Network) -> Vec<Finding> {
        let measured = search.incumbent().in_use().map(|(plan, _)| plan.clone());
        let Some(best) = measured else { return self.on_change(search, network) };
        let Some(told) = self.told.take() else { return Vec::new() };
        // What is only expected gives way to what is measured.
        let another = Some(told.plan).filter(|plan| *plan != best && *plan != Plan::Native);
        let expected = another.map(|plan| {
            let seconds = search.expected_s(&plan, network);
            self.predicted(search, plan, seconds)
        });
        self.told = None;
        expected.into_iter().chain(self.news(search)).collect()
    }

    /// What is to be told before any tree is measured on a network that is known: the plan that would be measured
    /// first, if it is expected to be far better than native, where applications have that now, or faster than what
    /// was found before the network was known.
    pub fn foresee(&mut self, search: &mut Search) -> Vec<Finding> {
        if search.knowledge().network.is_none() {
            return Vec::new();
        }
        let tree = self.told.as_mut().filter(|told| told.plan != Plan::Native);
        if let Some(told) = tree {
            let Some(by) = told.gives_way.take() else { return Vec::new() };
            let Some(network) = search.knowledge().network.clone() else { return Vec::new() };
            let before_s = search.expected_s(&told.plan, &network);
            let is_faster = search.foresee(before_s / by).is_some();
            return if is_faster { self.replace(search, &network, by) } else { Vec::new() };
        }
        let native = search.incumbent().native();
        let has_tried_trees = search.trials > u32::from(native.is_some());
        if has_tried_trees {
            return Vec::new();
        }
        // A root leaves an eager broadcast long before the others do.
        let measured_s = native.map(|times| times.median_s);
        let in_use_s = search.config().native_in_use_s();
        let native_s = measured_s.into_iter().chain(in_use_s).reduce(f64::max);
        let foreseen = native_s.and_then(|native_s| search.foresee(FAR_BETTER * native_s));
        foreseen.map(|(plan, seconds)| self.predicted(search, plan, seconds)).into_iter().collect()
    }

    /// What programs use, as far as this search knows, and what it takes: as measured, else as the model expects or they
    /// have shown.
    pub fn in_use(&self, search: &Search) -> Option<(Plan, Seconds)> {
        let Some(plan) = self.plan().filter(|plan| **plan != Plan::Native) else {
            return Some((Plan::Native, search.config().native_in_use_s()?));
        };
        let measured_s = search.incumbent().times(plan).map(|times| times.median_s);
        let network = search.knowledge().network.as_ref();
        let expected_s = || Some(search.expected_s(plan, network?));
        Some((plan.clone(), measured_s.or_else(expected_s)?))
    }

    /// What is to be told so that programs use `plan`, which takes `seconds` as far as is known, in place of `other`: what
    /// is only expected takes the place of what is only expected.
    pub fn instead(
        &mut self,
        search: &Search,
        other: (Plan, Seconds),
        (plan, seconds): (Plan, Seconds),
    ) -> Vec<Finding> {
        [other, (plan, seconds)].map(|(plan, seconds)| self.predicted(search, plan, seconds)).into()
    }

    /// What is to be told before the links are known: a plan by links as they once were, or where that is not known by
    /// what is `assumed` of them, if it should be far better than native.
    pub fn unmeasured(
        &mut self,
        search: &mut Search,
        old: Option<&Network>,
        assumed: &Network,
    ) -> Option<Finding> {
        let native_s = search.config().native_in_use_s().filter(|_| self.told.is_none())?;
        let (plan, seconds) = match old {
            Some(old) => search.on(old).foresee(FAR_BETTER * native_s)?,
            None => search.early_plan(assumed)?,
        };
        Some(self.predicted(search, plan, seconds))
    }

    /// What is to be told where broadcasts along the plan that was told of take so long: that it has fallen behind
    /// native, if it has.
    pub fn on_production(&mut self, search: &Search, took_s: Seconds) -> Option<Finding> {
        let native_s = search.config().native_in_use_s().filter(|&native_s| took_s > native_s)?;
        let plan = self.plan().filter(|plan| **plan != Plan::Native)?.clone();
        let native = Some(Times::predicted(native_s));
        self.told = Some(Told::of(search, Plan::Native, native_s));
        let finding = self.finding(search, plan, Times::predicted(took_s), None);
        Some(Finding { native, ..finding })
    }

    /// Nothing counts as told: what is expected to be far better than native is tried once more.
    pub fn begin_again(&mut self) {
        self.told = None;
    }

    /// As [`Findings::on_change`], where `search` has begun on a network of which a part is only assumed.
    pub fn on_sight(&mut self, mut search: Search, network: &Network) -> Vec<Finding> {
        let mut findings = self.on_change(&mut search, network);
        if let Some(told) = &mut self.told {
            told.gives_way = Some(FASTER);
        }
        // What the network allows nobody has measured.
        findings.iter_mut().for_each(|finding| finding.limit_s = self.limit_before_s);
        findings
    }

    /// Whatever is measured of a plan that was told of so is news.
    fn predicted(&mut self, search: &Search, plan: Plan, seconds: Seconds) -> Finding {
        let told = Told::of(search, plan.clone(), f64::INFINITY);
        self.told = Some(Told { known_beside: 0, expected_s: Some(seconds), ..told });
        self.finding(search, plan, Times::predicted(seconds), None)
    }

    /// What is to be told now: a faster plan, or the plan that was told of last, where it has become faster, has been
    /// compared with native or with what the network allows, or has fallen behind native. Where it takes longer than
    /// was told, that comes before another plan: what is believed of it may be faster than that.
    fn news(&mut self, search: &Search) -> Vec<Finding> {
        let Some((in_use, Times { median_s, .. })) = search.incumbent().in_use() else {
            return Vec::new();
        };
        let known_beside = known_beside(search);
        let now = self.finding_of(search, in_use);
        let findings: Vec<Finding> = match &self.told {
            None => now.into_iter().collect(),
            Some(told) if told.plan == *in_use => {
                let is_news = median_s < told.median_s || known_beside > told.known_beside;
                now.into_iter().filter(|_| is_news).collect()
            }
            Some(told) => {
                let of_told = self.finding_of(search, &told.plan);
                let now_s = of_told.as_ref().map_or(told.median_s, |told| told.times.median_s);
                let has_fallen = *in_use == Plan::Native;
                let tells_more = has_fallen || now_s > told.median_s;
                let of_told = of_told.filter(|_| tells_more);
                // A plan that falls behind native makes way for it.
                let now = now.filter(|_| !has_fallen || of_told.is_none());
                of_told.into_iter().chain(now).filter(|_| median_s < now_s).collect()
            }
        };
        if !findings.is_empty() {
            self.told = Some(Told::of(search, in_use.clone(), median_s));
        }
        findings
    }

    fn finding_of(&self, search: &Search, plan: &Plan) -> Option<Finding> {
        let times = search.incumbent().times(plan)?;
        Some(self.finding(search, plan.clone(), times, search.incumbent().reason(plan)))
    }

    fn finding(
        &self,
        search: &Search,
        plan: Plan,
        times: Times,
        reason: Option<Reason>,
    ) -> Finding {
        Finding {
            group: self.group.clone(),
            root: self.target.root,
            bytes: self.asked_bytes,
            plan,
            times,
            native: search.incumbent().native(),
            limit_s: self.limit_s(search),
            strategy: search.strategy_name().into(),
            trials: search.trials,
            search_s: search.search_s,
            reason,
        }
    }

    fn limit_s(&self, search: &Search) -> Option<Seconds> {
        let network = search.knowledge().network.as_ref();
        let of = |network| limit_s(network, self.target.root.into(), search.config().bytes);
        network.map(of).or(self.limit_before_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{BroadcastResult, Outcome, Request};
    use crate::model::grids::{four_site_mesh, random};
    use crate::model::simulate::transfers;
    use crate::search::strategy::state::{Config, Knowledge};
    use crate::search::strategy::strategy;
    use arborcast_proto::{SizeClass, Tree};

    fn findings() -> Findings {
        let names = ["a", "b", "c", "d"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let target = Target { group: group.hash(), root: 0, class: SizeClass::of(1000) };
        Findings::new(target, group, 1000)
    }

    fn search_after(plan: Option<Plan>) -> Search {
        Search::new(strategy("random-transform").unwrap(), Config::new(4, 0, 1000), plan)
    }

    /// The findings of a search whose broadcasts take as long as `seconds` says of each plan.
    fn told(search: &mut Search, mut seconds: impl FnMut(&Plan) -> f64) -> Vec<Finding> {
        let (mut findings, mut told) = (findings(), Vec::new());
        for _ in 0..200 {
            let Some(Request::Broadcast { plan, .. }) = search.next() else { break };
            let result =
                BroadcastResult { seconds: seconds(&plan), abandoned: false, disturbed: false };
            if let Some(result) = search.answer(Outcome::Broadcast(result), 0.0) {
                told.extend(findings.report(search, result, 0.0).findings);
            }
        }
        told
    }

    #[test]
    fn a_plan_that_falls_behind_native_is_told_of_once_more() {
        let tree = Plan::single(Tree::flat(4, 0).unwrap(), 1024).unwrap();
        let mut search = search_after(Some(tree.clone()));
        let told = told(&mut search, |plan| if *plan == tree { 0.1 } else { 0.05 });
        let told: Vec<_> = told.iter().map(|f| (&f.plan, f.native.map(|t| t.median_s))).collect();
        assert_eq!(told, [(&tree, None), (&tree, Some(0.05))]);
        assert_eq!(search.incumbent().in_use().unwrap().0, &Plan::Native);
    }

    #[test]
    fn a_plan_is_told_of_again_once_it_is_compared_with_native() {
        let tree = Plan::single(Tree::flat(4, 0).unwrap(), 1024).unwrap();
        let told =
            told(
                &mut search_after(Some(tree.clone())),
                |plan| {
                    if *plan == tree { 0.05 } else { 0.1 }
                },
            );
        let against = |finding: &Finding| Some(finding.reason.clone()?.against?.plan);
        assert_eq!(told.iter().map(against).collect::<Vec<_>>(), [None, Some(Plan::Native)]);
        assert!(told.iter().all(|finding| finding.plan == tree));
    }

    #[test]
    fn the_limit_is_kept_while_the_links_are_measured_anew_and_then_told() {
        let tree = Plan::single(Tree::flat(16, 0).unwrap(), 1024).unwrap();
        let mut search = search_of_mesh(None);
        let before = limit_s(&four_site_mesh(), 0, 1000);
        let mut findings = findings().after(&search);
        let network = random(4, 4, 7);
        search = Search::new(strategy("guided").unwrap(), Config::new(16, 0, 1000), Some(tree));
        let mut limits = Vec::new();
        while limits.last().is_none_or(|limit_s| *limit_s == before) {
            let asked = search.next().expect("the network is not known");
            let outcome = match asked {
                Request::Transfers(round) => {
                    Outcome::Transfers { results: transfers(&network, &round), disturbed: false }
                }
                Request::Broadcast { plan, .. } => Outcome::Broadcast(BroadcastResult {
                    seconds: if plan == Plan::Native { 0.5 } else { 0.4 },
                    abandoned: false,
                    disturbed: false,
                }),
            };
            let Some(result) = search.answer(outcome, 0.0) else { continue };
            let told = findings.report(&search, result, 0.0).findings;
            limits.extend(told.iter().map(|finding| finding.limit_s.expect("one is known")));
        }
        assert!(limits.len() > 1, "{limits:?}");
        let last = *limits.last().unwrap();
        assert!((last / limit_s(&network, 0, 1000) - 1.0).abs() < 0.1, "{limits:?}");
    }

    /// A search for 1,000 bytes in the mesh, whose links are known; native takes programs so long.
    fn search_of_mesh(native_at_least_s: Option<Seconds>) -> Search {
        let knowledge = Knowledge { network: Some(four_site_mesh()), ..Knowledge::default() };
        let config = Config { knowledge, native_at_least_s, ..Config::new(16, 0, 1000) };
        Search::new(strategy("guided").unwrap(), config, None)
    }

    /// The plan that is measured next, which takes so long.
    fn measure(search: &mut Search, findings: &mut Findings, seconds: Seconds) -> Plan {
        let asked = search.next();
        while search.next() == asked {
            let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
            if let Some(result) = search.answer(Outcome::Broadcast(result), 0.0) {
                findings.report(search, result, 0.0);
                break;
            }
        }
        let Some(Request::Broadcast { plan, .. }) = asked else { panic!("{asked:?}") };
        plan
    }

    #[test]
    fn what_is_far_better_than_native_is_told_and_measured_before_it() {
        let (mut search, mut findings) = (search_of_mesh(Some(9.0)), findings());
        let Some(Request::Broadcast { plan: Plan::Native, .. }) = search.next() else {
            panic!("native is short enough to be measured first")
        };
        let told = findings.foresee(&mut search).pop().expect("a tree takes less than a second");
        assert!(findings.foresee(&mut search).is_empty(), "it is told once");
        assert_eq!(measure(&mut search, &mut findings, 0.5), told.plan);
        assert_eq!(measure(&mut search, &mut findings, 9.0), Plan::Native);
        assert!(findings.foresee(&mut search).is_empty(), "it is measured");
    }

    #[test]
    fn the_last_answer_of_the_survey_tells_what_is_far_better() {
        let native_at_least_s = Some(9.0);
        let config = Config { native_at_least_s, ..Config::new(16, 0, 1000) };
        let mut search = Search::new(strategy("guided").unwrap(), config, None);
        let (mut findings, network) = (findings(), four_site_mesh());
        let mut has_surveyed = false;
        while search.is_surveying() || !has_surveyed {
            let outcome = match search.next().expect("the network is not known") {
                Request::Transfers(round) => {
                    Outcome::Transfers { results: transfers(&network, &round), disturbed: false }
                }
                // The program leaves no room for early trials.
                Request::Broadcast { .. } => Outcome::Broadcast(BroadcastResult {
                    seconds: 9.0,
                    abandoned: false,
                    disturbed: true,
                }),
            };
            has_surveyed |= search.is_surveying();
            assert!(search.answer(outcome, 0.0).is_none());
        }
        let told = findings.foresee(&mut search).pop().expect("a tree takes less than a second");
        assert_eq!(measure(&mut search, &mut findings, 0.5), told.plan, "native waits");
    }

    #[test]
    fn what_is_far_better_than_native_turns_out_to_be_is_told() {
        // A root that sends eagerly sees next to nothing of its broadcasts.
        let (mut search, mut findings) = (search_of_mesh(Some(1e-6)), findings());
        assert!(findings.foresee(&mut search).is_empty());
        let Some(Request::Broadcast { plan: Plan::Native, .. }) = search.next() else {
            panic!("native is short enough to be measured first")
        };
        let first = BroadcastResult { seconds: 0.5, abandoned: false, disturbed: false };
        assert!(search.answer(Outcome::Broadcast(first), 0.0).is_none(), "two more are to come");
        let told = findings.foresee(&mut search).pop().expect("a tree takes less than a second");
        assert_eq!(measure(&mut search, &mut findings, 20.0), told.plan);
        assert_eq!(measure(&mut search, &mut findings, 9.0), Plan::Native);
        assert_eq!(findings.plan(), Some(&Plan::Native), "it does not");
        assert!(findings.foresee(&mut search).is_empty(), "the model has been wrong");
    }

    #[test]
    fn what_is_not_far_better_waits_for_native() {
        let (mut search, mut findings) = (search_of_mesh(Some(1e-6)), findings());
        assert!(findings.foresee(&mut search).is_empty());
        assert_eq!(measure(&mut search, &mut findings, 1e-6), Plan::Native);
        assert!(findings.foresee(&mut search).is_empty());
    }

    #[test]
    fn only_better_plans_are_told() {
        let mut broadcasts = 0;
        let told = told(&mut search_after(None), |_| {
            broadcasts += 1;
            if broadcasts <= 9 { 0.1 } else { 0.05 }
        });
        let medians: Vec<_> = told.iter().map(|finding| finding.times.median_s).collect();
        assert_eq!(medians, [0.1, 0.05]);
    }
}
