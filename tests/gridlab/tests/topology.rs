//! Topology files: the ready-made grids are what they promise, mistakes are named by line and key,
//! and nonsense is an error, never a panic.

use std::fs;
use std::path::Path;
use std::time::Duration;

use gridlab::topology::TcpSettings;
use gridlab::{Hosts, Topology};
use proptest::prelude::*;

fn grid_text(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("grids").join(name)).unwrap()
}

fn grid(name: &str) -> Topology {
    Topology::parse(&grid_text(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn ready_made_grids_have_the_promised_nodes() {
    for (name, sites, nodes) in [
        ("even.toml", 1, 16),
        ("two-sites.toml", 2, 16),
        ("mesh.toml", 4, 16),
        ("regions.toml", 5, 16),
        ("asymmetric.toml", 3, 16),
        ("thirty-two.toml", 4, 32),
        ("lossy.toml", 3, 16),
        ("busy.toml", 3, 16),
    ] {
        let t = grid(name);
        assert_eq!((t.sites.len(), t.nodes.len()), (sites, nodes), "{name}");
    }
    assert!(grid("regions.toml").sites.iter().all(|s| s.uplink_bytes_per_s.is_some()));
    assert!(grid("lossy.toml").links.iter().all(|link| link.loss == 1e-4));
    assert_eq!(grid("busy.toml").cross_traffic.len(), 2);
}

#[test]
fn hosts_are_the_usual_ones_unless_the_file_says_otherwise() {
    let text = grid_text("mesh.toml");
    let hosts = |table: &str| Topology::parse(&format!("{table}\n{text}")).unwrap().hosts;
    let usual = Hosts { tcp: TcpSettings::Default, congestion_control: None, mtu_bytes: 1500 };
    assert_eq!([hosts(""), hosts("[hosts]")], [usual.clone(), usual]);
    assert_eq!(hosts("hosts = { tcp = \"tuned\", mtu = 9000 }"), Hosts::tuned());
    let chosen = hosts("hosts = { congestion_control = \"bbr\" }").congestion_control;
    assert_eq!(chosen.as_deref(), Some("bbr"));
    for wrong in ["mtu = 100", "mtu = 70000", "tcp = \"fast\"", "speed = 1"] {
        let error = Topology::parse(&format!("hosts = {{ {wrong} }}\n{text}")).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{wrong}: {error}");
    }
}

#[test]
fn some_direct_links_of_the_mesh_are_slower_than_the_detour() {
    let t = grid("mesh.toml");
    let site = |name| t.site(name).unwrap();
    let link = |a, b| t.link(site(a), site(b)).unwrap();
    assert!(link("a", "b").latency + link("b", "c").latency < link("a", "c").latency);
    assert!(link("a", "c").rate_bytes_per_s < link("b", "c").rate_bytes_per_s);
}

#[test]
fn paths_are_described() {
    let t = grid("asymmetric.toml");
    let node = |name| t.node(name).unwrap();
    let (hub, shop, slow) = (node("hub1"), node("shop1"), node("shop5"));
    assert_eq!(t.one_way_latency(hub, shop), Duration::from_millis(15));
    assert_eq!(t.one_way_latency(shop, hub), Duration::from_millis(25));
    assert_eq!(t.one_way_latency(shop, slow), Duration::from_micros(150));
    assert_eq!(t.one_way_latency(hub, hub), Duration::ZERO);
    assert_eq!(t.path_servers(hub, shop), [125e6, 6.25e6, 7.5e6, 25e6]);
    assert_eq!(t.path_rate_bytes_per_s(hub, slow), 2.5e6);
    let ns: f64 = 15e6 + 1000.0 * (8.0 + 160.0 + 1e9 / 7.5e6 + 40.0);
    assert_eq!(t.packet_time(hub, shop, 1000).as_nanos() as f64, ns.round());
}

#[test]
fn mistakes_are_named_by_line_and_key() {
    let site = "[[site]]\nname = \"a\"\nnodes = 2\nnode_rate = \"1gbit\"\nlatency = \"50us\"\n";
    let other = site.replace("\"a\"", "\"b\"");
    let two = format!("{site}{other}");
    let link = "[[link]]\nbetween = [\"a\", \"b\"]\nlatency = \"1ms\"\nrate = \"1mbit\"\n";
    let others = |rate, more| {
        format!("[[cross_traffic]]\nrate = \"{rate}\"\nbetween = [\"a\", \"b\"]\n{more}\n")
    };
    let cases: &[(String, &[&str])] = &[
        (String::new(), &["site"]),
        ("site = 3".to_owned(), &["line 1", "site"]),
        (site.replace("50us", "50"), &["line 5", "latency", "40ms", "`50`"]),
        (site.replace("1gbit", "1 gigabit"), &["line 4", "node_rate", "100mbit"]),
        (site.replace("nodes = 2", "nodes = 0"), &["line 3", "nodes", "1 to 512", "0"]),
        (site.replace("nodes = 2", "nodes = -1"), &["line 3", "nodes", "a number of nodes"]),
        (site.replace("nodes = 2", "nodes = []"), &["line 3", "at least one node"]),
        (site.replace("nodes = 2", "nodes = [\"x\", \"x\"]"), &["line 3", "`x` exists already"]),
        (site.replace("nodes = 2", "nodes = [\"X\"]"), &["line 3", "lower-case"]),
        (site.replace("\"a\"", "\"../a\""), &["line 2", "name", "lower-case"]),
        (site.replace("latency", "latenzy"), &["line 5", "latenzy", "latency"]),
        (site.replace("latency = \"50us\"\n", ""), &["line 1", "latency"]),
        (two.clone(), &["line 2", "a → b", "[[link]]"]),
        (format!("{two}{link}{link}"), &["line 17", "a → b", "exists already"]),
        (format!("{two}{}", link.replace("\"b\"", "\"c\"")), &["line 12", "between", "`c`"]),
        (format!("{two}{}", link.replace("\"b\"", "\"a\"")), &["line 12", "two different"]),
        (format!("{two}{}", link.replace("between = [\"a\", \"b\"]", "from = \"a\"")), &["`to`"]),
        (format!("{two}{link}loss = \"200%\""), &["line 15", "loss", "0.1%"]),
        (
            format!("{two}{link}[[event]]\nat = \"1s\"\nbetween = [\"a\", \"b\"]\n"),
            &["line 16", "changes nothing"],
        ),
        (format!("{two}{link}{}", others("2mbit", "")), &["line 16", "less than the rate"]),
        (format!("{two}{link}{}", others("9kbit", "on = \"1s\"")), &["line 16", "`off`"]),
        (format!("{two}{link}{}", others("9kbit", "on = \"0s\"\noff = \"1s\"")), &["`on`"]),
    ];
    for (text, parts) in cases {
        let message = Topology::parse(text).expect_err(text).to_string();
        for part in *parts {
            assert!(message.contains(part), "no `{part}` in:\n{message}\nfor:\n{text}");
        }
    }
}

/// A text that is nearly a topology: a ready-made one, cut up and put together again.
fn nearly_a_topology() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), ".{0,12}", 0..40usize), 1..6);
    (prop::sample::select(vec!["mesh.toml", "asymmetric.toml", "busy.toml"]), edits).prop_map(
        |(name, edits)| {
            let mut text: Vec<char> = grid_text(name).chars().collect();
            for (place, new, cut) in edits {
                let at = place.index(text.len());
                let end = (at + cut).min(text.len());
                text.splice(at..end, new.chars());
                if text.is_empty() {
                    break;
                }
            }
            text.into_iter().collect()
        },
    )
}

/// Values that fit the grammar but not the world.
fn nonsense_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("\"{n}ms\"")),
        "\"[0-9.e+-]{1,30}(ns|us|ms|s|mbit|gbit|kB|%)\"",
        "\"[a-z]{0,40}\"",
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("1979-05-27".to_owned()),
    ]
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_panic(text in ".{0,400}") {
        let _ = Topology::parse(&text);
    }

    #[test]
    fn nearly_right_files_are_parsed_without_panic(text in nearly_a_topology()) {
        if let Ok(t) = Topology::parse(&text) {
            // What is accepted must be usable as it stands.
            prop_assert!(t.links.len() == t.sites.len() * (t.sites.len() - 1));
            for node in 0..t.nodes.len() {
                prop_assert!(t.path_rate_bytes_per_s(0, node) > 0.0);
                let _ = t.packet_time(0, node, 9000);
            }
        }
    }

    #[test]
    fn nonsense_values_are_parsed_without_panic(
        key in prop::sample::select(&["nodes", "node_rate", "latency", "uplink", "name"][..]),
        value in nonsense_value(),
    ) {
        let text = grid_text("regions.toml");
        let changed: Vec<String> = text.lines().map(|line| {
            if line.starts_with(&format!("{key} =")) { format!("{key} = {value}") } else { line.to_owned() }
        }).collect();
        let _ = Topology::parse(&changed.join("\n"));
    }
}
