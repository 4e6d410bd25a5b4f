//! The network machine on a virtual clock, against answers worked out by hand, to the nanosecond.

use std::time::Duration;

use gridlab::frame::Frame;
use gridlab::network::{Nanos, Network};
use gridlab::{LinkChange, Topology};

const MS: Nanos = 1_000_000;

/// Two sites with nodes of 1 Gbit/s: `a` with three, `b` with two; 10 ms and 80 Mbit/s between them,
/// 0.1 ms inside.
fn topology(more: &str) -> Topology {
    let site = |name, nodes| {
        format!(
            "[[site]]\nname = \"{name}\"\nnodes = {nodes}\nnode_rate = \"1gbit\"\nlatency = \"100us\"\n"
        )
    };
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\nlatency = \"10ms\"\nrate = \"80mbit\"\n";
    Topology::parse(&format!("{}{}{link}{more}", site("a", 3), site("b", 2))).unwrap()
}

/// All arrivals until `end`: node, time and the packet's first byte.
fn arrivals(network: &mut Network, end: Nanos) -> Vec<(usize, Nanos, u8)> {
    std::iter::from_fn(|| network.pop(end)).map(|a| (a.node, a.due, a.frame.packet()[0])).collect()
}

#[test]
fn a_packet_pays_each_server_and_the_latency() {
    let mut network = Network::new(topology(""), 0);
    network.send(0, 0, 3, Frame::of_packet(&[1; 1000]));
    // 1000 bytes: 8 µs at each interface, 100 µs on the link.
    assert_eq!(arrivals(&mut network, 100 * MS), [(3, 10 * MS + 116_000, 1)]);
    network.send(200 * MS, 0, 1, Frame::of_packet(&[2; 1000]));
    assert_eq!(arrivals(&mut network, 300 * MS), [(1, 200 * MS + 116_000, 2)]);
    assert_eq!(network.next_due(), None);
}

#[test]
fn a_packet_from_far_away_does_not_hold_up_one_from_next_door() {
    let mut network = Network::new(topology(""), 0);
    // Sent first, arrives last: the receiver's interface must be free until then.
    network.send(0, 3, 0, Frame::of_packet(&[1; 9000]));
    network.send(MS, 1, 0, Frame::of_packet(&[2; 1000]));
    let order: Vec<u8> = arrivals(&mut network, 100 * MS).iter().map(|a| a.2).collect();
    assert_eq!(order, [2, 1]);
    let mut alone = Network::new(topology(""), 0);
    alone.send(MS, 1, 0, Frame::of_packet(&[2; 1000]));
    let mut both = Network::new(topology(""), 0);
    both.send(0, 3, 0, Frame::of_packet(&[1; 9000]));
    both.send(MS, 1, 0, Frame::of_packet(&[2; 1000]));
    assert_eq!(arrivals(&mut alone, 100 * MS)[0], arrivals(&mut both, 100 * MS)[0]);
}

#[test]
fn packets_leave_a_link_at_its_rate_and_in_order() {
    let mut network = Network::new(topology(""), 0);
    for i in 0..10 {
        network.send(0, 0, 3, Frame::of_packet(&[i; 1000]));
    }
    let got = arrivals(&mut network, 100 * MS);
    assert_eq!(got.iter().map(|a| a.2).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    // The link is the narrowest: one packet each 100 µs.
    assert!(got.windows(2).all(|w| w[1].1 - w[0].1 == 100_000));
}

#[test]
fn cross_traffic_takes_its_share_of_a_link_while_it_is_on() {
    let others = "[[cross_traffic]]\nfrom = \"a\"\nto = \"b\"\nrate = \"40mbit\"\non = \"50ms\"\noff = \"30ms\"\n";
    let spacings = |from: usize, to: usize, start: Nanos| {
        let mut network = Network::new(topology(others), 0);
        // As fast as the link takes them: 1000 bytes each 100 µs.
        let mut got = Vec::new();
        for i in 0..50 {
            let now = start + i * 100_000;
            got.extend(std::iter::from_fn(|| network.pop(now)).map(|a| a.due));
            network.send(now, from, to, Frame::of_packet(&[1; 1000]));
        }
        got.extend(std::iter::from_fn(|| network.pop(Nanos::MAX)).map(|a| a.due));
        assert_eq!(got.len(), 50);
        got.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    // 500 bytes come between two packets: the link is theirs for a third of the time.
    assert_eq!(spacings(0, 3, 0), [150_000; 49]);
    assert_eq!(spacings(0, 3, 85 * MS), [150_000; 49]);
    // Off, and the other way: nobody is there.
    assert_eq!(spacings(0, 3, 52 * MS), [100_000; 49]);
    assert_eq!(spacings(3, 0, 0), [100_000; 49]);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let queue = "queue = \"10kB\"\n";
    let mut network = Network::new(topology(queue), 0);
    for i in 0..30 {
        network.send(0, 0, 3, Frame::of_packet(&[i; 1000]));
    }
    let got: Vec<u8> = arrivals(&mut network, 100 * MS).iter().map(|a| a.2).collect();
    let dropped = network.counters()[4].iter().map(|c| c.dropped).sum::<u64>();
    assert_eq!(got.len() as u64 + dropped, 30);
    // Twelve packets come while one leaves, so the queue is full after ten and a little.
    assert_eq!(got[..10], (0..10).collect::<Vec<u8>>());
    assert!(dropped >= 15, "{dropped}");
}

#[test]
fn all_nodes_of_a_site_share_its_uplink() {
    let mut t = topology("");
    t.sites[0].uplink_bytes_per_s = Some(5e6);
    let mut network = Network::new(t, 0);
    network.send(0, 0, 3, Frame::of_packet(&[1; 1000]));
    network.send(0, 1, 4, Frame::of_packet(&[2; 1000]));
    // Inside the site the uplink is not used.
    network.send(0, 2, 1, Frame::of_packet(&[3; 1000]));
    let got = arrivals(&mut network, 100 * MS);
    let time = |tag: u8| got.iter().find(|a| a.2 == tag).unwrap().1;
    assert_eq!(time(2) - time(1), 200_000);
    assert_eq!(time(3), 116_000);
}

#[test]
fn a_new_rate_holds_for_what_waits_in_the_queue() {
    let mut network = Network::new(topology(""), 0);
    for i in 0..11 {
        network.send(0, 0, 3, Frame::of_packet(&[i; 1000]));
    }
    assert!(arrivals(&mut network, MS / 2 + 8_000).is_empty());
    // Five packets of 100 µs are through; ten times the rate for the rest.
    let faster = LinkChange { rate_bytes_per_s: Some(100e6), ..Default::default() };
    network.change(MS / 2 + 8_000, 0, 1, &faster);
    let got = arrivals(&mut network, 100 * MS);
    assert_eq!(got.len(), 11);
    assert_eq!(got[10].1, MS / 2 + 8_000 + 6 * 10_000 + 10 * MS + 8_000);
}

#[test]
fn timed_events_change_the_link() {
    let event = "[[event]]\nat = \"1s\"\nbetween = [\"a\", \"b\"]\nlatency = \"30ms\"\n";
    let mut network = Network::new(topology(event), 0);
    network.send(999 * MS, 0, 3, Frame::of_packet(&[1; 1000]));
    assert!(arrivals(&mut network, 1001 * MS).is_empty());
    network.send(1001 * MS, 0, 3, Frame::of_packet(&[2; 1000]));
    let got = arrivals(&mut network, 2000 * MS);
    assert_eq!(got[0], (3, 1009 * MS + 116_000, 1));
    assert_eq!(got[1], (3, 1031 * MS + 116_000, 2));
    assert_eq!(network.topology().link(0, 1).unwrap().latency, Duration::from_millis(30));
}

#[test]
fn losses_come_as_often_as_configured_and_the_same_for_a_seed() {
    let run = |seed| {
        let mut network = Network::new(topology("loss = \"10%\"\n"), seed);
        let mut got = Vec::new();
        for i in 0..10_000 {
            network.send(i * MS, 0, 3, Frame::of_packet(&[(i % 251) as u8; 100]));
            got.extend(arrivals(&mut network, i * MS));
        }
        got
    };
    let got = run(1).len();
    assert!((8_800..=9_200).contains(&got), "{got}");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn jitter_makes_ways_longer_on_average_and_no_packet_overtakes_another() {
    let mut network = Network::new(topology("jitter = \"2ms\"\n"), 7);
    let (mut waits_ms, mut last) = (Vec::new(), 0);
    // One each millisecond: what is drawn holds for ten of them.
    for number in 0..100_000u64 {
        let sent = number * MS;
        for (_, due, first) in arrivals(&mut network, sent) {
            let before = number - u64::from((number as u8).wrapping_sub(first));
            assert!(due >= last);
            last = due;
            waits_ms.push((due - before * MS - 10 * MS - 116_000) as f64 / MS as f64);
        }
        network.send(sent, 0, 3, Frame::of_packet(&[number as u8; 1000]));
    }
    let mean_ms = waits_ms.iter().sum::<f64>() / waits_ms.len() as f64;
    // A little more than the mean: who comes behind a long wait waits for it.
    assert!((1.8..2.6).contains(&mean_ms), "{mean_ms} ms");
    assert!(waits_ms.iter().any(|wait| *wait > 6.0) && waits_ms.iter().any(|wait| *wait < 0.3));
}
