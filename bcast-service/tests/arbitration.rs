//! Both scenarios of the arbiter against a real daemon: applications and an experiment that speak
//! as the shim and the experiment job do.

mod harness;

use arborcast_proto::client::ClientError;
use arborcast_proto::hold::Phase;
use arborcast_proto::message::{Answer, Ask, ExperimentState, Refusal, Role};
use arborcast_proto::{DeliveryReport, Group, MAX_STRIPES, NodeName, StripeDelivery};
use harness::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const HOLD_WAIT_MAX: Duration = Duration::from_millis(250);

#[test]
fn an_application_stops_the_experiment_and_the_experiment_goes_on_afterwards() {
    let daemon = Daemon::start(&[]);
    let mut experiment = Client::experiment(&daemon, 1);
    assert!(experiment.enter(), "nobody holds");
    let mut application = Client::application(&daemon);

    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // A broadcast of the experiment: it looks at its word between two of them.
            while experiment.phase() != Phase::Stopping {
                thread::sleep(Duration::from_millis(10));
            }
            stopped.store(true, Ordering::SeqCst);
            assert!(experiment.leave());
        });
        assert!(application.claim(LONG));
        assert!(stopped.load(Ordering::SeqCst), "go ahead only when the experiment has stopped");
    });
    assert_eq!(experiment.phase(), Phase::Quiet);
    assert_eq!(daemon.status().holds, 1);

    // A group that nobody knows cannot be asked for; nor can a root that is none of its nodes.
    application.slot.record(&broadcast(2, 1 << 20, None), arborcast_proto::monotonic_ns());
    let Answer::Demand(demand) = experiment.connection.ask(&Ask::Demand).unwrap() else {
        panic!("no demand")
    };
    assert!(demand.is_empty(), "nobody has said which nodes the group has");
    application.connection.ask(&Ask::Register(group())).unwrap();
    application.slot.record(&broadcast(4, 1 << 20, None), arborcast_proto::monotonic_ns());
    let released = Instant::now();
    application.release(Some(&broadcast(2, 1 << 20, None)));
    wait_for("the experiment to go on", || experiment.phase() == Phase::Running);
    assert!(released.elapsed() >= Duration::from_millis(100), "it went on within the linger");
    let Answer::Demand(demand) = experiment.connection.ask(&Ask::Demand).unwrap() else {
        panic!("no demand")
    };
    assert_eq!(demand.len(), 1);
    assert_eq!((demand[0].target, demand[0].bytes), (target(2, 1 << 20), 1 << 20));
}

#[test]
fn two_applications_hold_the_experiment_until_both_are_quiet() {
    let daemon = Daemon::start(&[]);
    let mut applications = [Client::application(&daemon), Client::application(&daemon)];
    for application in &mut applications {
        assert!(application.claim(Duration::ZERO), "no experiment: no waiting");
    }
    let mut experiment = Client::experiment(&daemon, 1);
    assert_eq!(experiment.phase(), Phase::Quiet);
    experiment.connection.ask(&Ask::Register(group())).unwrap();

    applications[0].release(Some(&broadcast(1, 1 << 20, None)));
    // Longer than the linger, and than the daemon's slowest look.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(experiment.phase(), Phase::Quiet, "the second application still holds");
    assert_eq!(daemon.status().experiment, ExperimentState::Waiting);

    applications[1].release(Some(&broadcast(3, 1 << 20, None)));
    wait_for("the experiment to run", || experiment.phase() == Phase::Running);
    let Answer::Demand(demand) = experiment.connection.ask(&Ask::Demand).unwrap() else {
        panic!("no demand")
    };
    let roots: Vec<u16> = demand.iter().map(|demand| demand.target.root).collect();
    assert_eq!(roots, [3, 1], "most recent first");
}

#[test]
fn an_experiment_that_does_not_answer_holds_nobody_up_for_longer_than_promised() {
    let daemon = Daemon::start(&[]);
    let mut experiment = Client::experiment(&daemon, 1);
    let mut application = Client::application(&daemon);
    assert!(experiment.enter());
    let start = Instant::now();
    application.claim(HOLD_WAIT_MAX);
    assert!(start.elapsed() >= HOLD_WAIT_MAX - Duration::from_millis(20));
    wait_for("the daemon to give up", || application.phase() == Phase::Quiet);
    let again = Client::application(&daemon).claim(Duration::ZERO);
    assert!(again, "the next application does not wait for it again");
}

#[test]
fn nobody_waits_for_an_experiment_that_is_at_something_else() {
    let daemon = Daemon::start(&["--hold-wait-max", "60s"]);
    let mut experiment = Client::experiment(&daemon, 1);
    let mut application = Client::application(&daemon);
    for turn in 0..3 {
        wait_for("the experiment to run", || experiment.phase() == Phase::Running);
        // It looks at nothing meanwhile.
        assert!(application.claim(LONG), "turn {turn}");
        assert!(!experiment.enter(), "it finds that it may not");
        application.release(None);
    }
}

#[test]
fn the_experiment_s_death_wakes_who_waits() {
    let daemon = Daemon::start(&["--hold-wait-max", "60s"]);
    let mut experiment = Client::experiment(&daemon, 1);
    assert!(experiment.enter());
    let mut application = Client::application(&daemon);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| application.claim(LONG));
        wait_for("the stop", || experiment.phase() == Phase::Stopping);
        drop(experiment);
        assert!(waiter.join().unwrap());
    });
    assert_eq!(daemon.status().experiment, ExperimentState::None);
}

#[test]
fn a_newer_job_replaces_an_older_one_and_not_the_other_way_round() {
    let daemon = Daemon::start(&[]);
    let mut older = Client::experiment(&daemon, 5);
    assert!(older.enter());
    for epoch in [3, 4] {
        match Client::try_hello(&daemon, Role::Experiment { epoch }) {
            Err(ClientError::Refused(Refusal::OtherExperiment { winner: 5 })) => {}
            other => panic!("epoch {epoch}: {:?}", other.err()),
        }
    }
    let newer = Client::experiment(&daemon, 6);
    let refused = older.connection.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    assert!(matches!(refused, Err(ClientError::Refused(Refusal::OtherExperiment { winner: 6 }))));
    assert!(older.leave(), "it is waited for");
    wait_for("the older job to be disconnected", || older.connection.is_closed());
    wait_for("the newer job to run", || newer.phase() == Phase::Running);
    assert_eq!(daemon.status().epoch, Some(6));
}

#[test]
fn a_paused_experiment_stands_still_until_it_is_resumed() {
    let daemon = Daemon::start(&[]);
    let mut experiment = Client::experiment(&daemon, 1);
    assert!(experiment.enter());
    daemon.ask(&Ask::Pause);
    assert!(experiment.leave());
    wait_for("quiet", || experiment.phase() == Phase::Quiet);
    assert_eq!(daemon.status().experiment, ExperimentState::Paused);
    daemon.ask(&Ask::Resume);
    assert_eq!(experiment.phase(), Phase::Running);
}

#[test]
fn broadcasts_are_counted_and_sampled_times_shown_for_the_plan_in_use() {
    let daemon = Daemon::start(&[]);
    let mut application = Client::application(&daemon);
    application.connection.ask(&Ask::Register(group())).unwrap();
    for seconds in [Some(0.3), None, Some(0.1), Some(0.2)] {
        assert!(application.claim(Duration::ZERO));
        application.release(Some(&broadcast(0, 64 << 10, seconds)));
    }
    let in_use = || match daemon.ask(&Ask::Targets) {
        Answer::Targets(targets) => {
            assert_eq!(targets[0].demand.as_ref().unwrap().broadcasts, 4);
            targets[0].in_use
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(in_use().unwrap().median_s, 0.2);
    assert_eq!(daemon.status().broadcasts, 4);
    daemon.ask(&Ask::Publish(Box::new(finding(0, 64 << 10, flat(0), 0.05))));
    assert_eq!(in_use(), None, "those were times of another plan");
}

#[test]
fn a_thousand_and_more_applications_have_slots_at_once() {
    const APPLICATIONS: usize = 1200;
    allow_descriptors(2 * APPLICATIONS as u64);
    // As most systems start their services.
    let mut daemon = Daemon::prepare(&[]);
    daemon.limit_descriptors(1024);
    daemon.restart();
    let mut clients: Vec<Client> =
        (0..APPLICATIONS).map(|_| Client::application(&daemon)).collect();
    assert_eq!(daemon.status().applications as usize, APPLICATIONS);
    assert!(clients.last_mut().unwrap().claim(Duration::ZERO));
    assert_eq!(daemon.status().holds, 1, "each has words of its own");
    drop(clients);
    wait_for("the slots to be given back", || daemon.status().applications == 0);
}

#[test]
fn a_program_that_hangs_while_it_holds_does_not_stop_experiments_for_ever() {
    let daemon = Daemon::start(&["--hold-max", "300ms"]);
    let mut application = Client::application(&daemon);
    assert!(application.claim(Duration::ZERO));
    let experiment = Client::experiment(&daemon, 1);
    assert_eq!(experiment.phase(), Phase::Quiet);
    wait_for("the hold to be forgotten", || experiment.phase() == Phase::Running);
    assert_eq!(daemon.status().holds, 0);
    // It goes on: claimed anew, the hold stands again, though the word never said anything else.
    assert!(application.claim(LONG));
    assert_eq!(experiment.phase(), Phase::Quiet);
    assert_eq!(daemon.status().holds, 1);
}

#[test]
fn demand_that_does_not_fit_into_a_message_is_cut_to_the_most_recent() {
    const GROUPS: usize = 24;
    let mut daemon = Daemon::start(&[]);
    let mut application = Client::application(&daemon);
    let large = |group: usize| {
        let name = |node| NodeName::new(format!("{group:03}-{node:-<59}")).unwrap();
        Group::new((0..10_000).map(name).collect()).unwrap()
    };
    for number in 0..GROUPS {
        let group = large(number);
        application.connection.ask(&Ask::Register(group.clone())).unwrap();
        let mut broadcast = broadcast(0, 8, None);
        broadcast.target.group = group.hash();
        application.slot.record(&broadcast, arborcast_proto::monotonic_ns());
    }
    let ask = || match daemon.ask(&Ask::Demand) {
        Answer::Demand(demand) => demand,
        other => panic!("{other:?}"),
    };
    let demand = ask();
    assert_eq!(ask().len(), demand.len(), "and no more words are lost about it");
    assert!((10..GROUPS).contains(&demand.len()), "{}", demand.len());
    assert_eq!(demand[0].group, large(GROUPS - 1), "the most recent comes first");
    let Answer::Targets(targets) = daemon.ask(&Ask::Targets) else { panic!("no targets") };
    assert!((5..GROUPS).contains(&targets.len()), "{}", targets.len());
    let log = daemon.terminate();
    let lines = log.lines().filter(|line| line.contains("most recent targets")).count();
    assert_eq!(lines, 1, "{log}");
}

#[test]
fn what_nodes_see_of_broadcasts_comes_to_the_experiment_once() {
    let daemon = Daemon::start(&[]);
    let mut experiment = Client::experiment(&daemon, 1);
    let mut application = Client::application(&daemon);
    let stripe = StripeDelivery { stripe: 0, from: 0, bytes: 8, first_ns: 5, last_ns: 9 };
    let report = |broadcast: u32, stripes: Vec<StripeDelivery>| DeliveryReport {
        target: target(0, 8),
        bytes: 8,
        broadcast,
        is_native: false,
        node: 1,
        listened_late: false,
        acknowledged: false,
        processor_wait_ns: 0,
        stripes,
    };
    let mut seen = || match experiment.connection.ask(&Ask::Deliveries).unwrap() {
        Answer::Deliveries(reports) => reports,
        other => panic!("{other:?}"),
    };
    let good = report(1, vec![stripe]);
    let backwards = StripeDelivery { first_ns: 9, last_ns: 5, ..stripe };
    for report in
        [report(2, vec![]), report(3, vec![backwards]), report(4, vec![stripe; MAX_STRIPES + 1])]
    {
        application.connection.tell_if_room(&Ask::Delivered(report));
    }
    application.connection.tell_if_room(&Ask::Delivered(good.clone()));
    application.connection.ask(&Ask::Status).unwrap();
    assert_eq!(seen(), [good]);
    assert_eq!(seen(), [], "once");
    for number in 0..1000 {
        application.connection.tell_if_room(&Ask::Delivered(report(number, vec![stripe])));
        application.connection.ask(&Ask::Status).unwrap();
    }
    let last = seen();
    assert!((100..1000).contains(&last.len()), "{} are kept", last.len());
    assert_eq!(last.last().unwrap().broadcast, 999);
}
