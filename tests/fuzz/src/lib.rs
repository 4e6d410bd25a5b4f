//! Everything that reads what others wrote, given any bytes: it must neither panic nor take memory without
//! limit, and what it accepts must make sense. `make fuzz` searches for inputs with libFuzzer, guided by
//! what of the code they reach; `corpus` keeps what it found to be worth keeping, and `make test` replays it.

mod board;
mod configuration;
mod experiment;
mod frames;
mod header;
pub mod seeds;
mod slot;
mod topology;
mod wisdom;

use arborcast_proto::codec;
use serde::{Serialize, de::DeserializeOwned};

/// A reader and what has to hold of it.
pub struct Target {
    /// Also that of its folder in `corpus`.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

pub const TARGETS: [Target; 8] = [
    Target { name: "board", run: board::run },
    Target { name: "configuration", run: configuration::run },
    Target { name: "experiment", run: experiment::run },
    Target { name: "frames", run: frames::run },
    Target { name: "header", run: header::run },
    Target { name: "slot", run: slot::run },
    Target { name: "topology", run: topology::run },
    Target { name: "wisdom", run: wisdom::run },
];

/// Names the target that the program `fuzz` runs.
pub const TARGET_VARIABLE: &str = "ARBORCAST_FUZZ_TARGET";

/// What was read survives being sent on. Compared as bytes, since a number in it may be no number; and not
/// with the bytes that it was read from, where a group's names may have had another order.
fn assert_can_be_sent_on<T: Serialize + DeserializeOwned>(value: &T) {
    let sent = codec::encode(value).expect("what was read can be written");
    let received: T = codec::decode(&sent).expect("what was written can be read");
    assert_eq!(codec::encode(&received).ok(), Some(sent));
}
