//! Changes of a link while the lab runs act within 50 ms, by command and by timed event.

use std::time::Duration;

use gridlab::probe::{Ping, Stream, monotonic_s};
use gridlab::quality::{believed, near};
use gridlab::{Limits, LinkChange, Topology};

use crate::support::*;

const WITHIN_S: f64 = 0.05;

/// Two sites; after three seconds the rate falls to a quarter.
const TIMED: &str = r#"
hosts = { tcp = "tuned", mtu = 9000 }

[[site]]
name = "a"
nodes = 2
node_rate = "1gbit"
latency = "50us"

[[site]]
name = "b"
nodes = 2
node_rate = "1gbit"
latency = "50us"

[[link]]
between = ["a", "b"]
latency = "5ms"
rate = "40mbit"

[[event]]
at = "3s"
between = ["a", "b"]
rate = "10mbit"
"#;

/// The rates just before the change, and from 50 ms after it on.
fn check_rates(stream: &Stream, change_s: f64) -> Result<(), String> {
    let mbit = 1e6 / 8.0 * (9000.0 - 52.0) / 9000.0;
    let before = stream.rate_between(change_s - 0.6, change_s - 0.1);
    near("before the change", before, 40.0 * mbit, 0.1)?;
    let after = stream.rate_between(change_s + WITHIN_S, change_s + WITHIN_S + 0.6);
    near("after the change", after, 10.0 * mbit, 0.1)
}

#[test]
fn a_timed_event_acts_within_50_ms() {
    let _alone = Alone::wait();
    // The event comes once a lab, so each attempt takes a lab of its own.
    believed(&Limits::default(), || {
        let lab = up(Topology::parse(TIMED).unwrap(), "event");
        let mark = lab.mark().unwrap();
        let up_s = lab.status().unwrap().up_s;
        let event_s = monotonic_s() - up_s + 3.0;
        let stream = finish_stream(start_stream(&lab, "a1", "b1", 3.5));
        (lab.quality_since(&mark).unwrap(), check_rates(&stream, event_s))
    });
}

#[test]
fn a_rate_changed_by_link_acts_within_50_ms() {
    let _alone = Alone::wait();
    let text = TIMED.split("[[event]]").next().unwrap();
    let lab = up(Topology::parse(text).unwrap(), "rate");
    let to = |mbit: f64| {
        let change = LinkChange { rate_bytes_per_s: Some(mbit * 1e6 / 8.0), ..Default::default() };
        lab.link("a", "b", true, change).unwrap();
    };
    let measure = || {
        to(40.0);
        let stream = start_stream(&lab, "a1", "b1", 3.0);
        std::thread::sleep(Duration::from_millis(2500));
        let change_s = monotonic_s();
        to(10.0);
        (finish_stream(stream), change_s)
    };
    lab.believed(&Limits::default(), measure, |(stream, change_s)| check_rates(stream, *change_s));
}

#[test]
fn a_latency_changed_by_link_acts_within_50_ms() {
    let _alone = Alone::wait();
    let text = TIMED.split("[[event]]").next().unwrap();
    let lab = up(Topology::parse(text).unwrap(), "latency");
    let to = |millis: u64| {
        let change =
            LinkChange { latency: Some(Duration::from_millis(millis)), ..Default::default() };
        lab.link("a", "b", true, change).unwrap();
    };
    let measure = || -> (Ping, f64) {
        to(5);
        std::thread::scope(|scope| {
            let pinging = scope.spawn(|| ping(&lab, "a1", "b1", 200));
            std::thread::sleep(Duration::from_millis(500));
            let change_s = monotonic_s();
            to(30);
            (pinging.join().unwrap(), change_s)
        })
    };
    let check = |(ping, change_s): &(Ping, f64)| {
        let wrong = ping.round_trips_s.iter().find(|(at, time)| {
            let old = (*time - 0.010).abs() < 0.005;
            let new = (*time - 0.060).abs() < 0.005;
            let (before, after) = (*at < change_s - 0.010, *at > change_s + WITHIN_S);
            (before && !old) || (after && !new)
        });
        let late = ping.round_trips_s.iter().filter(|(at, _)| *at > change_s + WITHIN_S).count();
        match wrong {
            Some((at, time)) => Err(format!("{} s after the change: {time} s", at - change_s)),
            None if late < 20 => Err(format!("only {late} round trips after the change")),
            None => Ok(()),
        }
    };
    lab.believed(&Limits::default(), measure, check);
}
