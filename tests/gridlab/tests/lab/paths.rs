//! Round trips and TCP streams on every ready-made grid, against the topology.

use std::process::Child;
use std::time::Duration;

use gridlab::congestion::tested_with;
use gridlab::probe::{PING_PACKET_BYTES, Stream};
use gridlab::quality::near;
use gridlab::{Lab, Limits, Topology};

use crate::support::*;

/// TCP has found the path's rate by then, on the longest path of the grids too.
const WARM_UP: Duration = Duration::from_secs(2);
/// Payload of a full packet: without the headers of IPv4 and of TCP with time stamps.
const PAYLOAD_SHARE: f64 = (9000.0 - 52.0) / 9000.0;

/// The median of 50 round trips between the first nodes of any two sites, and between two nodes of
/// each site, is within 100 µs and 1 % of what the topology says.
fn round_trips(file: &str) {
    let _alone = Alone::wait();
    let lab = up(grid(file), "ping");
    let t = lab.topology();
    let mut pairs = Vec::new();
    for a in 0..t.sites.len() {
        pairs.push((t.nodes_of(a)[0], t.nodes_of(a)[1]));
        pairs.extend((a + 1..t.sites.len()).map(|b| (t.nodes_of(a)[0], t.nodes_of(b)[0])));
    }
    for (a, b) in pairs {
        let (from, to) = (&t.nodes[a].name, &t.nodes[b].name);
        let expected =
            t.packet_time(a, b, PING_PACKET_BYTES) + t.packet_time(b, a, PING_PACKET_BYTES);
        let expected = expected.as_secs_f64();
        let check = |median: &f64| {
            let off = (median - expected).abs();
            if off <= 100e-6 + expected / 100.0 {
                return Ok(());
            }
            Err(format!("{file}: {from} → {to} took {median} s, expected {expected} s"))
        };
        let measure = || ping(&lab, from, to, 50).median_s().unwrap();
        lab.believed(&Limits::default(), measure, check);
    }
}

#[test]
fn round_trips_on_even() {
    round_trips("even.toml");
}

#[test]
fn round_trips_on_two_sites() {
    round_trips("two-sites.toml");
}

#[test]
fn round_trips_on_mesh() {
    round_trips("mesh.toml");
}

#[test]
fn round_trips_on_regions() {
    round_trips("regions.toml");
}

#[test]
fn round_trips_on_asymmetric() {
    round_trips("asymmetric.toml");
}

#[test]
fn round_trips_on_thirty_two() {
    round_trips("thirty-two.toml");
}

/// Streams that share nothing, all at once, so that each should get its path's whole rate.
fn disjoint_pairs(t: &Topology) -> Vec<(usize, usize)> {
    if t.sites.len() == 1 {
        return vec![(0, 1)];
    }
    let mut used = vec![0; t.sites.len()];
    let mut pairs = Vec::new();
    for l in &t.links {
        let shared = |s: usize| t.sites[s].uplink_bytes_per_s.is_some() && used[s] > 0;
        let (a, b) = (t.nodes_of(l.from), t.nodes_of(l.to));
        let room = used[l.from] < a.len() && used[l.to] < b.len();
        if l.from < l.to && room && !shared(l.from) && !shared(l.to) {
            pairs.push((a[used[l.from]], b[used[l.to]]));
            used[l.from] += 1;
            used[l.to] += 1;
        }
    }
    pairs
}

/// The rates of streams until the sender stops writing. What its buffer holds then can take as long
/// again, and after ten seconds BBR sends hardly anything for a while, to see the shortest round trip.
fn finish_streams(streams: Vec<Child>, seconds: f64) -> Vec<f64> {
    let rate = |stream: Stream| {
        let start = stream.start_s();
        stream.rate_between(start + WARM_UP.as_secs_f64(), start + seconds)
    };
    streams.into_iter().map(finish_stream).map(rate).collect()
}

/// A TCP stream of 6 s gets its path's rate within this share. BBR sends at 99 % of the rate it has seen, and where
/// the round trip is short, so that few packets are on their way at once, a late acknowledgement leaves a gap.
const CUBIC_WITHIN: f64 = 0.03;
const BBR_WITHIN: f64 = 0.06;

fn streams(tcp: &str, within: f64, file: &str) {
    tested_with(tcp, |tcp| streams_with(tcp, within, file));
}

fn streams_with(tcp: Option<String>, within: f64, file: &str) {
    let _alone = Alone::wait();
    let lab = up_with(tcp, grid(file), "stream");
    let t = lab.topology();
    let pairs = disjoint_pairs(t);
    let check = |rates: &Vec<f64>| {
        for (&(a, b), &rate) in pairs.iter().zip(rates) {
            let what = format!("{file}: {} → {}", t.nodes[a].name, t.nodes[b].name);
            near(&what, rate, t.path_rate_bytes_per_s(a, b) * PAYLOAD_SHARE, within)?;
        }
        Ok(())
    };
    let measure = || {
        let started = pairs.iter().map(|&(a, b)| stream(&lab, a, b, 6.0));
        finish_streams(started.collect(), 6.0)
    };
    lab.believed(&Limits::default(), measure, check);
}

fn stream(lab: &Lab, a: usize, b: usize, seconds: f64) -> Child {
    let t = lab.topology();
    start_stream(lab, &t.nodes[a].name, &t.nodes[b].name, seconds)
}

/// Tests with CUBIC, as nearly everywhere, and those with BBR, which `make test-links` runs as well.
macro_rules! streams {
    ($($(#[$ignore:meta])* $name:ident: $file:literal,)*) => {
        mod cubic {
            $(#[test] $(#[$ignore])* fn $name() { super::streams("cubic", super::CUBIC_WITHIN, $file) })*
        }
        mod bbr {
            $(#[test] #[ignore = "another congestion control: make test-links"]
              fn $name() { super::streams("bbr", super::BBR_WITHIN, $file) })*
        }
    };
}

streams! {
    streams_on_even: "even.toml",
    #[ignore = "long: make test-lab"]
    streams_on_two_sites: "two-sites.toml",
    #[ignore = "long: make test-lab"]
    streams_on_mesh: "mesh.toml",
    #[ignore = "long: make test-lab"]
    streams_on_regions: "regions.toml",
    #[ignore = "long: make test-lab"]
    streams_on_asymmetric: "asymmetric.toml",
    #[ignore = "long: make test-lab"]
    streams_on_thirty_two: "thirty-two.toml",
}

/// Two streams that together want more than an uplink share it: in sum its rate, none starved.
fn two_streams(tcp: Option<String>) {
    let _alone = Alone::wait();
    let lab = up_with(tcp, grid("asymmetric.toml"), "uplink");
    let t = lab.topology();
    let node = |name: &str| t.node(name).unwrap();
    let (first, second) = ((node("hub1"), node("shop1")), (node("lab1"), node("shop2")));
    let uplink = t.sites[t.site("shop").unwrap()].uplink_bytes_per_s.unwrap();
    let wanted =
        t.path_rate_bytes_per_s(first.0, first.1) + t.path_rate_bytes_per_s(second.0, second.1);
    assert!(wanted > 1.2 * uplink, "the uplink must be the narrowest");
    let check = |rates: &Vec<f64>| {
        near("both streams", rates.iter().sum(), uplink * PAYLOAD_SHARE, 0.03)?;
        match rates.iter().find(|&&rate| rate < 0.15 * uplink) {
            Some(rate) => Err(format!("one stream got only {rate} of {uplink} bytes per second")),
            None => Ok(()),
        }
    };
    let measure = || {
        let pairs = [first, second];
        finish_streams(pairs.map(|(a, b)| stream(&lab, a, b, 8.0)).into(), 8.0)
    };
    lab.believed(&Limits::default(), measure, check);
}

#[test]
#[ignore = "long: make test-lab"]
fn two_streams_share_an_uplink() {
    tested_with("cubic", two_streams);
}

#[test]
#[ignore = "another congestion control"]
fn two_streams_with_bbr_share_an_uplink() {
    tested_with("bbr", two_streams);
}
