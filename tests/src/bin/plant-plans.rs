//! Gives the daemon of this node plans for some sizes and groups, so that a test of broadcasts need not wait for a
//! search: `plant-plans SEED|TOPOLOGY BYTES,... NODE,... [NODE,...]...`. With a seed, random plans from every root:
//! nodes need not have the same, so give each another one. With the file of a topology, for some of its nodes, what the
//! planner proposes from the first of them by name. Prints how many plans the daemon took.

use arborcast_planner::propose::propose;
use arborcast_planner::propose::site_plan::USUAL_PACING;
use arborcast_proto::client::{Connection, socket_path};
use arborcast_proto::message::{Answer, Ask, Finding, Times};
use arborcast_proto::{Group, NodeName, Plan};
use arborcast_tests::{limit, random_striping};
use gridlab::Topology;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::Path;
use std::time::Duration;

/// So little that the library samples its broadcasts as often as it may.
const CLAIMED_MEDIAN_S: f64 = 1e-6;

fn group(names: &str) -> Group {
    let names = names.split(',').map(|name| NodeName::new(name).expect("a node's name"));
    Group::new(names.collect()).expect("nodes that differ")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, sizes, groups @ ..] = arguments.as_slice() else {
        panic!("usage: plant-plans SEED|TOPOLOGY BYTES,... NODE,... [NODE,...]...");
    };
    let seed = source.parse().ok();
    let topology = seed
        .is_none()
        .then(|| Topology::load(Path::new(source)).expect("a seed, or a topology's file"));
    let mut random = ChaCha8Rng::seed_from_u64(seed.unwrap_or(1));
    let mut plan = |group: &Group, root, bytes| match &topology {
        None => Plan::Trees(random_striping(&mut random, group.len(), root, bytes)),
        Some(topology) => {
            // A group has its nodes in the order of their names.
            let place =
                |name: &NodeName| topology.node(name.as_str()).expect("a node of the topology");
            let order: Vec<usize> = group.nodes().iter().map(place).collect();
            let network = limit::network(topology).subset(&order);
            propose(&network, root, bytes, USUAL_PACING, &mut random).swap_remove(0).plan
        }
    };
    let mut daemon = Connection::open(&socket_path(), Duration::from_secs(10)).expect("a daemon");
    let mut planted = 0;
    for group in groups.iter().map(|names| group(names)) {
        let roots = if seed.is_some() { group.len() } else { 1 };
        for root in 0..roots {
            for bytes in sizes.split(',').map(|size| size.parse().expect("a size in bytes")) {
                let finding = Finding {
                    group: group.clone(),
                    root: root as u16,
                    bytes,
                    plan: plan(&group, root, bytes),
                    times: Times::of(&[CLAIMED_MEDIAN_S]).expect("one sample"),
                    native: None,
                    limit_s: None,
                    strategy: "planted".into(),
                    trials: 1,
                    search_s: 0.0,
                    reason: None,
                };
                let answer = daemon.ask(&Ask::Publish(Box::new(finding)));
                assert_eq!(answer.expect("the daemon takes the plan"), Answer::Done);
                planted += 1;
            }
        }
    }
    println!("{planted}");
}
