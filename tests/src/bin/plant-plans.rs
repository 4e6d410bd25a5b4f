//! Gives the daemon of this node a random plan for every root and size of some groups, so that a test
//! of broadcasts need not wait for a search: `plant-plans SEED BYTES,... NODE,... [NODE,...]...`.
//! Prints how many plans the daemon took. Nodes need not have the same plans: give each another seed.

use arborcast_proto::client::{Connection, socket_path};
use arborcast_proto::message::{Answer, Ask, Finding, Times};
use arborcast_proto::{Group, NodeName, Plan};
use arborcast_tests::random_striping;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// So little that the library samples its broadcasts as often as it may.
const CLAIMED_MEDIAN_S: f64 = 1e-6;

fn group(names: &str) -> Group {
    let names = names.split(',').map(|name| NodeName::new(name).expect("a node's name"));
    Group::new(names.collect()).expect("nodes that differ")
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, sizes, groups @ ..] = arguments.as_slice() else {
        panic!("usage: plant-plans SEED BYTES,... NODE,... [NODE,...]...");
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed.parse().expect("the seed is a number"));
    let mut daemon = Connection::open(&socket_path(), Duration::from_secs(10)).expect("a daemon");
    let mut planted = 0;
    for group in groups.iter().map(|names| group(names)) {
        for root in 0..group.len() {
            for bytes in sizes.split(',').map(|size| size.parse().expect("a size in bytes")) {
                let finding = Finding {
                    group: group.clone(),
                    root: root as u16,
                    bytes,
                    plan: Plan::Trees(random_striping(&mut random, group.len(), root)),
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
