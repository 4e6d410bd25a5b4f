use super::settings::LONGEST_PAUSE_S;
use super::*;
use crate::measurement::{Arrival, BroadcastResult, Transfer, TransferResult, are_pings};
use arborcast_proto::message::Demand;
use arborcast_proto::{Plan, SizeClass, Spent, Tree};

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
    let (mut schedule, start) = (schedule(settings, names(["a", "b", "c", "d"])), Instant::now());
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
        quiets_s: Vec::new(),
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
    let (mut schedule, start) = (schedule(Settings::default(), names(["a", "b"])), Instant::now());
    const PAUSE_S: Seconds = 0.8;
    let used = Demand { quiets_s: vec![PAUSE_S], ..demand(&pair("b"), 0, 1 << 20) };
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
        let longest_s = |seconds: f64, t: &Transfer| seconds.max(whole_s(t).min(t.stop_after_s));
        let spent_s = round.iter().fold(0.0, longest_s);
        assert!(spent_s < PAUSE_S, "{round:?}");
        cut += u32::from(round.iter().any(|t| whole_s(t) > t.stop_after_s));
        let result = |t: &Transfer| {
            let seconds = whole_s(t).min(t.stop_after_s);
            let bytes = (t.bytes as f64 * seconds / whole_s(t)) as u64;
            let arrivals = vec![Arrival { bytes, seconds }];
            TransferResult { arrivals, ..TransferResult::timed(seconds) }
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
fn what_a_program_met_and_hardly_waited_for_is_soon_made_again() {
    let (mut schedule, start) = (schedule(Settings::default(), names(["a", "b"])), Instant::now());
    // Pauses into which nothing fits.
    let used = Demand { quiets_s: vec![0.05], ..demand(&pair("b"), 0, 1 << 20) };
    schedule.note_demand(0, vec![used], &[], start);
    let (target, round) = loop {
        match schedule.choose(start).unwrap() {
            (target, Request::Transfers(round)) if !are_pings(&round) => break (target, round),
            (target, pings) => schedule.answer(target, outcome(&pings, 0.5), 0.1, 0.0, start),
        };
    };
    let results = vec![TransferResult::timed(0.4); round.len()];
    let disturbed = Outcome::Transfers { results, disturbed: true };
    schedule.answer(target, disturbed, 0.4, 0.0, start);
    schedule.note_wait(0.02, start);
    schedule.note_free(start);
    assert_eq!(schedule.choose(start), None, "it may wait for a hundredth of its time");
    assert!(schedule.choose(start + Duration::from_secs(3)).is_some());
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

pub(super) fn demand(group: &Group, root: u16, bytes: u64) -> Demand {
    let target = Target { group: group.hash(), root, class: SizeClass::of(bytes) };
    let (age, group) = (Duration::ZERO, group.clone());
    Demand {
        target,
        group,
        bytes,
        age,
        broadcasts: 1,
        pause_s: None,
        quiets_s: Vec::new(),
        native_s: None,
    }
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
        schedule.note_demand(number % 60, vec![], if number % 3 == 0 { &gone } else { &[] }, now);
        let (target, _) = schedule.choose(now).expect("there is something new");
        assert_eq!(Some(target), last, "the most recent first");
        schedule.learn(target);
    }
    assert!(schedule.wanted.len() <= TARGETS, "{}", schedule.wanted.len());
    assert!(schedule.running.len() <= TARGETS + 1, "{}", schedule.running.len());
    assert!(schedule.known.len() <= TARGETS + 1, "{}", schedule.known.len());
    assert!(schedule.running.len() > TARGETS / 2, "and not forgotten at once");
}
