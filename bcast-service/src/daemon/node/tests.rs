//! A node on a clock of the test's own.

use super::*;
use arborcast_proto::message::PROTOCOL_VERSION;
use std::path::Path;

fn at(ms: u64) -> Now {
    Now { moment: Duration::from_millis(1_000_000 + ms), unix_s: 1.7e9 + ms as f64 / 1e3 }
}

fn node(test: &str) -> Node {
    let config = Config::parse("", Path::new("default")).unwrap();
    let board = format!("arborcast-node-{test}-{PROTOCOL_VERSION}-{}", std::process::id());
    let name = NodeName::new("a").unwrap();
    Node::new(&config, name, &board, Knowledge::default(), at(0)).unwrap()
}

#[test]
fn nothing_is_kept_of_the_past_where_no_page_is_served() {
    assert!(!node("unseen").keeps_record());
    let config = Config::parse("[page]\nlisten = \"127.0.0.1:1\"", Path::new("test")).unwrap();
    let board = format!("arborcast-node-seen-{PROTOCOL_VERSION}-{}", std::process::id());
    let name = NodeName::new("a").unwrap();
    let node = Node::new(&config, name, &board, Knowledge::default(), at(0)).unwrap();
    assert!(node.keeps_record());
}

#[test]
fn who_asks_all_the_time_does_not_keep_the_daemon_from_looking_at_the_slots() {
    let mut node = node("asked");
    let ask = |ask| Question { connection: 0, trusted: true, ask };
    node.handle(ask(Ask::Hello(Role::Application)), at(0)).unwrap();
    let interval = node.next_look(at(0)).unwrap();
    let group = Group::new(vec![NodeName::new("a").unwrap()]).unwrap();
    let half = interval.as_millis() as u64 / 2;
    node.handle(ask(Ask::Register(group)), at(half)).unwrap();
    assert_eq!(node.next_look(at(half)), Some(interval / 2));
    assert_eq!(node.next_look(at(3 * half)), Some(Duration::ZERO));
    node.look(at(3 * half));
    assert_eq!(node.next_look(at(3 * half)), Some(interval));
}
