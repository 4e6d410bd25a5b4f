//! The hosts' TCP has the congestion control that was asked for, whatever the machine prefers.

use gridlab::{Lab, Options};

use crate::support::*;

/// Of a lab that is asked for `tcp`: what it says it has, and what a connection has.
fn said_and_used(tcp: &str) -> [String; 2] {
    let options = Options { tcp: Some(tcp.to_owned()), ..Options::default() };
    let lab = Lab::up(grid("two-sites.toml"), options).unwrap_or_else(|e| panic!("{e}"));
    let stream = finish_stream(start_stream(&lab, "east1", "west1", 0.1));
    [lab.status().unwrap().tcp, stream.tcp]
}

#[test]
fn connections_have_the_congestion_control_that_was_asked_for() {
    let _alone = Alone::wait();
    // Reno is in every kernel, CUBIC in nearly all; no machine prefers both.
    for tcp in ["reno", "cubic"] {
        assert_eq!(said_and_used(tcp), [tcp; 2]);
    }
}
