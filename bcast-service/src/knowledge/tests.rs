use super::*;
use arborcast_proto::{NodeName, Tree};

pub fn group() -> Group {
    Group::new(["a", "b", "c"].map(|n| NodeName::new(n).unwrap()).to_vec()).unwrap()
}

pub fn flat() -> Plan {
    Plan::single(Tree::flat(3, 0).unwrap(), 1024).unwrap()
}

pub fn chain() -> Plan {
    Plan::single(Tree::from_parents(&[None, Some(0), Some(1)]).unwrap(), 1024).unwrap()
}

pub fn finding(plan: Plan, median_s: f64) -> Finding {
    Finding {
        group: group(),
        root: 0,
        bytes: 1 << 20,
        plan,
        times: Times::of(&[median_s]).unwrap(),
        native: Times::of(&[1.0]),
        limit_s: Some(0.1),
        strategy: "guided".into(),
        trials: 1,
        search_s: 2.0,
        reason: None,
    }
}

pub fn plan_of(knowledge: &Knowledge) -> (&Plan, f64) {
    let finding = knowledge.finding(finding(Plan::Native, 1.0).target()).unwrap();
    (&finding.plan, finding.times.median_s)
}

#[test]
fn of_plans_published_by_hand_the_faster_one_stands() {
    let mut knowledge = Knowledge::default();
    assert_eq!(knowledge.publish(finding(Plan::Native, 1.0), None), Ok(Published::NewPlan));
    assert_eq!(knowledge.publish(finding(flat(), 0.5), None), Ok(Published::NewPlan));
    assert_eq!(knowledge.publish(finding(chain(), 0.6), None), Ok(Published::Slower));
    assert_eq!(plan_of(&knowledge), (&flat(), 0.5));
    assert!(knowledge.publish(finding(chain(), 1.5), None).is_err(), "slower than native");
    assert_eq!(plan_of(&knowledge), (&flat(), 0.5));
}

#[test]
fn a_fast_time_of_another_day_does_not_stand_against_what_a_job_measures() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.1), Some(1)).unwrap();
    assert_eq!(knowledge.publish(finding(chain(), 0.6), Some(2)), Ok(Published::NewPlan));
    assert_eq!(plan_of(&knowledge), (&chain(), 0.6));
    assert_eq!(knowledge.epoch(trial(1).target), Some(2));
    // Nor one of the same job, which has searched anew since.
    assert_eq!(knowledge.publish(finding(flat(), 0.7), Some(2)), Ok(Published::NewPlan));
    assert_eq!(knowledge.publish(finding(Plan::Native, 0.9), Some(2)), Ok(Published::NewPlan));
    assert_eq!(plan_of(&knowledge), (&Plan::Native, 0.9));
}

#[test]
fn where_another_plan_than_that_of_the_job_stands_native_takes_its_place_too() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.1), Some(1)).unwrap();
    assert_eq!(knowledge.publish(finding(chain(), 1.5), Some(2)), Ok(Published::NewPlan));
    assert_eq!(plan_of(&knowledge), (&Plan::Native, 1.0));
}

#[test]
fn what_is_only_predicted_gives_way_to_what_is_measured_and_never_replaces_it() {
    let predicted = |plan, seconds| {
        let times = Times::predicted(seconds);
        Finding { times, native: None, ..finding(plan, seconds) }
    };
    let mut knowledge = Knowledge::default();
    assert_eq!(knowledge.publish(predicted(flat(), 0.3), Some(1)), Ok(Published::NewPlan));
    assert_eq!(knowledge.publish(predicted(chain(), 0.2), Some(1)), Ok(Published::NewPlan));
    assert_eq!(knowledge.publish(finding(flat(), 0.5), Some(1)), Ok(Published::NewPlan));
    assert_eq!(knowledge.publish(predicted(chain(), 0.1), Some(1)), Ok(Published::Slower));
    assert_eq!(plan_of(&knowledge), (&flat(), 0.5));
    // What the plan in use is expected to take by now is news of it, and makes it doubtful.
    assert_eq!(knowledge.publish(predicted(flat(), 0.6), Some(1)), Ok(Published::SamePlan));
    assert_eq!(knowledge.publish(predicted(chain(), 0.1), Some(1)), Ok(Published::NewPlan));
}

#[test]
fn news_of_a_plan_replace_what_was_known_of_it() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.5), Some(3)).unwrap();
    assert_eq!(knowledge.publish(finding(flat(), 0.7), Some(3)), Ok(Published::SamePlan));
    assert_eq!(plan_of(&knowledge), (&flat(), 0.7));
    assert_eq!(knowledge.publish(finding(chain(), 0.6), Some(3)), Ok(Published::NewPlan));
}

#[test]
fn a_job_whose_clock_was_set_back_is_believed_and_what_it_says_counts_as_newer() {
    let mut knowledge = Knowledge::default();
    let matrix = |rate| Arc::new(LinkMatrix::new(3, vec![0.1; 9], vec![rate; 9]).unwrap());
    knowledge.publish(finding(flat(), 0.5), Some(9)).unwrap();
    knowledge.set_links(group(), matrix(1.0), 9).unwrap();
    let before = knowledge.to_wisdom();
    // The network has become slower: without the news, no other plan would ever be faster.
    assert_eq!(knowledge.publish(finding(flat(), 0.9), Some(2)), Ok(Published::SamePlan));
    assert_eq!(
        knowledge.publish(Finding { trials: 2, ..finding(chain(), 0.7) }, Some(2)),
        Ok(Published::NewPlan)
    );
    knowledge.set_links(group(), matrix(2.0), 2).unwrap();
    let target = finding(flat(), 0.5).target();
    assert_eq!(
        (knowledge.epoch(target), knowledge.links_epoch(group().hash())),
        (Some(9), Some(9))
    );
    // The file of before does not come first.
    knowledge.import(before);
    assert_eq!(plan_of(&knowledge), (&chain(), 0.7));
}

#[test]
fn a_plan_that_fell_behind_makes_way_for_the_mpi_s_own() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.5), Some(1)).unwrap();
    assert_eq!(knowledge.publish(finding(flat(), 1.5), Some(2)), Ok(Published::NewPlan));
    assert_eq!(plan_of(&knowledge), (&Plan::Native, 1.0));
}

#[test]
fn what_fell_behind_is_what_native_is_compared_with() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.5), Some(1)).unwrap();
    let against =
        Rival { plan: Plan::Native, times: Times::of(&[1.0]).unwrap(), interval_s: (0.9, 1.1) };
    let reason = Reason { predicted_s: Some(0.4), interval_s: (1.4, 1.6), against: Some(against) };
    let fallen = Finding { reason: Some(reason), ..finding(flat(), 1.5) };
    knowledge.publish(fallen, Some(1)).unwrap();
    let finding = knowledge.finding(finding(Plan::Native, 1.0).target()).unwrap();
    let Some(Reason { predicted_s: None, interval_s, against: Some(rival) }) = &finding.reason
    else {
        panic!("{:?}", finding.reason)
    };
    assert_eq!((*interval_s, &rival.plan), ((0.9, 1.1), &flat()));
    assert_eq!((rival.times.median_s, rival.interval_s), (1.5, (1.4, 1.6)));
}

#[test]
fn a_plan_is_compared_with_the_mpi_s_own_of_the_same_experiment() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(Plan::Native, 0.4), Some(1)).unwrap();
    assert_eq!(knowledge.publish(finding(flat(), 0.5), Some(1)), Ok(Published::NewPlan));
    assert_eq!(plan_of(&knowledge), (&flat(), 0.5));
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let mut knowledge = Knowledge::default();
    let valid = || finding(flat(), 0.5);
    let wide = Plan::single(Tree::flat(4, 0).unwrap(), 1024).unwrap();
    let other_root = Plan::single(Tree::flat(3, 1).unwrap(), 1024).unwrap();
    let backwards = Reason { predicted_s: None, interval_s: (0.6, 0.5), against: None };
    let nan = Times { median_s: f64::NAN, ..valid().times };
    let disordered = Times { min_s: 0.6, ..valid().times };
    for (bad, word) in [
        (finding(flat(), 1.5), "native"),
        (Finding { plan: wide, ..valid() }, "span"),
        (Finding { plan: other_root, ..valid() }, "root"),
        (Finding { plan: Plan::Native, root: 3, ..valid() }, "root"),
        (Finding { times: nan, ..valid() }, "finite"),
        (Finding { times: disordered, ..valid() }, "median"),
        (Finding { limit_s: Some(0.0), ..valid() }, "limit"),
        (Finding { search_s: f64::INFINITY, ..valid() }, "searching"),
        (Finding { strategy: String::new(), ..valid() }, "strategy"),
        (Finding { reason: Some(backwards), ..valid() }, "interval"),
    ] {
        let refusal = knowledge.publish(bad, Some(1)).unwrap_err().to_string();
        assert!(refusal.contains(word), "{refusal}");
    }
    let matrix = LinkMatrix::new(2, vec![0.0; 4], vec![1.0; 4]).unwrap();
    assert!(knowledge.set_links(group(), Arc::new(matrix), 1).is_err());
    assert_eq!(knowledge.changes(), 0);
}

pub fn trial(number: u32) -> TrialRecord {
    TrialRecord {
        target: finding(flat(), 0.5).target(),
        bytes: 1 << 20,
        number,
        plan: flat(),
        times: Times::of(&[0.5]),
        predicted_s: None,
        best_s: Some(0.5),
        strategy: "guided".into(),
        search_s: 1.0,
        unix_s: 1e9,
    }
}

#[test]
fn wisdom_brings_everything_back() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.5), Some(7)).unwrap();
    knowledge.add_trial(trial(1)).unwrap();
    knowledge.add_trial(trial(2)).unwrap();
    assert!(knowledge.add_trial(TrialRecord { bytes: 1, ..trial(3) }).is_err());
    let no_number = Some(f64::NAN);
    assert!(knowledge.add_trial(TrialRecord { predicted_s: no_number, ..trial(3) }).is_err());
    assert!(knowledge.add_trial(TrialRecord { best_s: no_number, ..trial(3) }).is_err());
    let matrix = LinkMatrix::new(3, vec![0.1; 9], vec![1e6; 9]).unwrap();
    knowledge.set_links(group(), Arc::new(matrix), 7).unwrap();
    let (again, refused) = Knowledge::from_wisdom(knowledge.to_wisdom());
    assert_eq!((again.to_wisdom(), refused), (knowledge.to_wisdom(), 0));
    assert_eq!(again.book(), knowledge.book());
    assert_eq!(again.group(group().hash()), Some(&group()));
    assert_eq!(again.changes(), 0);
}

#[test]
fn wisdom_that_makes_no_sense_is_left_out() {
    let slower = Learned { finding: Arc::new(finding(flat(), 2.0)), epoch: 1 };
    let wisdom = Wisdom {
        trials: vec![Arc::new(trial(1)), Arc::new(TrialRecord { bytes: 1, ..trial(2) })],
        plans: vec![slower],
        ..Wisdom::default()
    };
    let (knowledge, refused) = Knowledge::from_wisdom(wisdom);
    assert_eq!((knowledge.trial_count(), knowledge.plan_count(), refused), (1, 0, 2));
}

#[test]
fn what_is_forgotten_is_gone() {
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(flat(), 0.5), Some(1)).unwrap();
    knowledge.publish(Finding { bytes: 1, ..finding(flat(), 0.5) }, Some(1)).unwrap();
    knowledge.add_trial(trial(1)).unwrap();
    let target = trial(1).target;
    assert_eq!(knowledge.forget(Some(target)), [target]);
    assert_eq!((knowledge.plan_count(), knowledge.trials(target).len()), (1, 0));
    assert_eq!(knowledge.forget(Some(target)), []);
    assert_eq!(knowledge.forget(None).len(), 1);
    assert!(knowledge.targets().is_empty());
}

#[test]
fn everything_that_is_kept_fits_into_the_wisdom_file() {
    let mut knowledge = Knowledge::default();
    let group = |number: usize| {
        let name = |i| NodeName::new(format!("group{number}node{i}")).unwrap();
        Group::new((0..400).map(name).collect()).unwrap()
    };
    let mut refused = 0;
    for number in 0..1500 {
        let group = group(number);
        let plan = Plan::single(Tree::flat(400, 0).unwrap(), 1024).unwrap();
        let large = Finding { group: group.clone(), plan, ..finding(Plan::Native, 0.5) };
        let target = large.target();
        if knowledge.publish(large.clone(), Some(1)).is_err() {
            refused += 1;
        }
        for n in 1..=20 {
            knowledge
                .add_trial(TrialRecord { target, plan: large.plan.clone(), ..trial(n) })
                .unwrap();
        }
        if number < 20 {
            let matrix = LinkMatrix::new(400, vec![0.1; 160_000], vec![1e6; 160_000]).unwrap();
            refused += usize::from(knowledge.set_links(group, Arc::new(matrix), 1).is_err());
        }
    }
    assert!(refused > 0, "the limits were reached");
    let bytes = knowledge.to_wisdom().to_bytes().unwrap();
    assert_eq!(Wisdom::from_bytes(&bytes).unwrap(), knowledge.to_wisdom());
}

#[test]
fn a_group_s_hash_cannot_be_taken_by_other_nodes() {
    let forged = Group::new(["x", "y"].map(|n| NodeName::new(n).unwrap()).to_vec()).unwrap();
    let hash = group().hash();
    let mut knowledge = Knowledge::default();
    // As if their names had been chosen so that the hashes meet.
    knowledge.groups.insert(hash, forged.clone());
    assert!(
        knowledge.register(&group(), false).is_err(),
        "who comes second has to be believed less"
    );
    assert_eq!(knowledge.group(hash), Some(&forged));
    knowledge.register(&group(), true).unwrap();
    assert_eq!(knowledge.group(hash), Some(&group()));
    // What the experiment has found goes before what anybody registered before or after.
    knowledge.groups.insert(hash, forged.clone());
    knowledge.publish(finding(flat(), 0.5), Some(1)).unwrap();
    assert_eq!(knowledge.group(hash), Some(&group()));
    knowledge.groups.insert(hash, forged);
    assert_eq!(knowledge.group(hash), Some(&group()));
    assert!(knowledge.register(&group(), false).is_ok());
}

#[test]
fn wisdom_that_is_read_late_comes_before_what_was_learned_meanwhile() {
    let mut earlier = Knowledge::default();
    earlier.publish(finding(flat(), 0.5), Some(1)).unwrap();
    let other_root = Finding { root: 1, plan: Plan::Native, ..finding(Plan::Native, 1.0) };
    earlier.publish(other_root.clone(), Some(1)).unwrap();
    let mut knowledge = Knowledge::default();
    knowledge.publish(finding(chain(), 0.4), Some(2)).unwrap();
    let registered = Group::new(vec![NodeName::new("z").unwrap()]).unwrap();
    knowledge.register(&registered, false).unwrap();
    let changes = knowledge.changes();
    assert_eq!(knowledge.absorb(earlier.to_wisdom()), 0);
    assert_eq!(plan_of(&knowledge), (&chain(), 0.4), "the newer one");
    assert_eq!(knowledge.finding(other_root.target()), Some(&other_root));
    assert_eq!(knowledge.group(registered.hash()), Some(&registered));
    assert!(knowledge.changes() > changes, "it is to be saved");
}
