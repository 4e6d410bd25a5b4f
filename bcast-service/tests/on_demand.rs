//! Plans for programs that ask a daemon for one, by what the experiment has told it of the links.

mod harness;

use arborcast_planner::grids::four_site_mesh;
use arborcast_proto::message::Ask;
use arborcast_proto::{Group, NodeName, SizeClass, Target, codec};
use harness::*;

const BYTES: u64 = 1 << 20;

/// The first nodes of as many sites; the daemon's is the first.
fn names(count: usize) -> Group {
    Group::new((0..count).map(|i| NodeName::new(format!("n{i}")).unwrap()).collect()).unwrap()
}

fn target_of(group: &Group, node: &str) -> Target {
    let root = group.index_of(&NodeName::new(node).unwrap()).unwrap() as u16;
    Target { group: group.hash(), root, class: SizeClass::of(BYTES) }
}

/// An application asks; whether there is a plan then.
fn has_plan_when_asked(daemon: &Daemon, group: &Group, target: Target) -> bool {
    let mut application = Client::application(daemon);
    application.connection.ask(&Ask::Register(group.clone())).unwrap();
    application.connection.ask(&Ask::Plan(target, BYTES)).unwrap();
    let plan = application.board.plan(target);
    if let Some(entry) = &plan {
        let trees = entry.plan.striping().unwrap();
        assert_eq!((trees.len(), trees.root()), (group.len(), usize::from(target.root)));
        assert!(!entry.is_measured && entry.median_s > 0.0);
    }
    plan.is_some()
}

#[test]
fn any_group_among_nodes_with_known_links_has_a_plan_when_it_asks() {
    let daemon = Daemon::start(&[]);
    let (all, some) = (names(16), Group::new(names(16).nodes()[..11].to_vec()).unwrap());
    let asked = |group: &Group, node| has_plan_when_asked(&daemon, group, target_of(group, node));
    assert!(!asked(&all, "n0"), "nothing is known");

    let mut job = Client::experiment(&daemon, 1);
    let network = codec::encode(&four_site_mesh()).unwrap();
    job.connection.ask(&Ask::Network(all.clone(), network.clone())).unwrap();
    assert!(asked(&all, "n0"));
    assert!(asked(&some, "n0"), "some of its nodes");
    assert!(!asked(&all, "n3"), "the daemon plans for its own node");
    let strangers = Group::new([names(5).nodes(), &[NodeName::new("x").unwrap()]].concat());
    assert!(!asked(&strangers.unwrap(), "n0"), "of one node nothing is known");

    let found = String::from_utf8(daemon.arborcast(&["targets", "--json"]).stdout).unwrap();
    assert!(found.contains("on-demand"), "{found}");
    daemon.ask(&Ask::Forget(None));
    assert!(!asked(&all, "n0"), "nothing is known any more");
    job.connection.ask(&Ask::Network(all.clone(), network)).unwrap();
    drop(job);
    wait_for("the job to leave", || daemon.status().epoch.is_none());
    assert!(!asked(&all, "n0"), "nobody would see what comes of it");
}

#[test]
fn what_is_no_network_of_the_group_is_refused() {
    let daemon = Daemon::start(&[]);
    let mut job = Client::experiment(&daemon, 1);
    let network = codec::encode(&four_site_mesh()).unwrap();
    for (group, bytes) in [(names(4), &network[..]), (names(16), &network[1..]), (names(1), &[])] {
        assert!(job.connection.ask(&Ask::Network(group, bytes.to_vec())).is_err());
    }
    job.connection.ask(&Ask::Network(names(16), network)).unwrap();
}
