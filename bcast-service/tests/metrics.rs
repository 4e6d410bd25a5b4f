//! The file for node_exporter: what stands in it, by a reader that takes nothing amiss, and when.

mod harness;

use arborcast_proto::message::Ask;
use harness::*;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A sample's labels, in their order.
type Labels = Vec<(String, String)>;

#[derive(Debug)]
struct Family {
    kind: String,
    /// Name and labels, value.
    samples: Vec<((String, Labels), f64)>,
}

/// Reads Prometheus' text format 0.0.4 and panics at anything that is not as the format and Prometheus'
/// conventions have it.
fn read(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("HELP first: {line}"));
        let (name, help) = help.split_once(' ').unwrap();
        assert!(help.ends_with('.'), "HELP is a sentence: {line}");
        let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.unwrap_or_else(|| panic!("TYPE after HELP of {name}")).to_owned();
        check_name(name, &kind);
        let mut samples = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (key, value) = sample(line);
            let allowed =
                if kind == "histogram" { &["_bucket", "_sum", "_count"][..] } else { &[""] };
            assert!(
                allowed.iter().any(|suffix| key.0 == format!("{name}{suffix}")),
                "{line} in {name}"
            );
            assert!(samples.iter().all(|(other, _)| *other != key), "twice: {line}");
            samples.push((key, value));
        }
        assert!(!samples.is_empty(), "{name} has no sample");
        let family = Family { kind, samples };
        if family.kind == "histogram" {
            check_histogram(name, &family);
        }
        assert!(families.insert(name.into(), family).is_none(), "{name} twice");
    }
    families
}

fn check_name(name: &str, kind: &str) {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    assert!(name.starts_with("arborcast_") && name.bytes().all(allowed), "{name}");
    assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
    for word in ["_ms", "_milliseconds", "_kb", "_mib", "_percent"] {
        assert!(!name.contains(word), "{name}: base units only");
    }
    assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}");
}

fn sample(line: &str) -> ((String, Labels), f64) {
    let (key, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let number: f64 = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().unwrap_or_else(|_| panic!("{line}")),
    };
    assert!(!number.is_nan() && number >= 0.0, "{line}");
    let Some((name, rest)) = key.split_once('{') else { return ((key.into(), Vec::new()), number) };
    let mut rest = rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
    let mut labels = Labels::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
        // No value here needs an escape.
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{line}"));
        assert!(!value.contains('\\') && !value.is_empty(), "{line}");
        labels.push((label.into(), value.into()));
        rest = after.strip_prefix(',').unwrap_or(after);
        assert!(after.is_empty() || !rest.is_empty(), "{line}");
    }
    ((name.into(), labels), number)
}

/// Buckets rise to the count, and their ends to +Inf.
fn check_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((sample, labels), value) in &family.samples {
        if *sample == format!("{name}_bucket") {
            let (ends, others): (Labels, Labels) =
                labels.iter().cloned().partition(|(l, _)| l == "le");
            let end = if ends[0].1 == "+Inf" { f64::INFINITY } else { ends[0].1.parse().unwrap() };
            series.entry(others).or_default().push((end, *value));
        }
    }
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}: {buckets:?}");
        let (end, all) = *buckets.last().unwrap();
        let count = family
            .samples
            .iter()
            .find(|(key, _)| *key == (format!("{name}_count"), labels.clone()));
        assert_eq!((end, Some(all)), (f64::INFINITY, count.map(|(_, value)| *value)), "{name}");
    }
}

/// The value of the one sample with these labels.
fn value(families: &BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let family = families.iter().find(|(family, _)| name.starts_with(family.as_str()));
    let (_, family) = family.unwrap_or_else(|| panic!("no {name}"));
    let has = |found: &Labels| {
        labels.iter().all(|(l, v)| found.iter().any(|(label, value)| label == l && value == v))
    };
    let found: Vec<_> =
        family.samples.iter().filter(|((n, found), _)| n == name && has(found)).collect();
    assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
    found[0].1
}

/// A daemon that writes metrics each second, with a target, its plan, and two broadcasts of it.
fn informed(flags: &[&str]) -> (Daemon, Client, TempDir) {
    let place = tempfile::tempdir().unwrap();
    let file = file_in(&place);
    fs::create_dir(file.parent().unwrap()).unwrap();
    let own = ["--metrics-interval", "1s", "--metrics-textfile", file.to_str().unwrap()];
    let daemon = Daemon::start(&[&own[..], flags].concat());
    let mut application = Client::application(&daemon);
    application.connection.ask(&Ask::Register(group())).unwrap();
    let mut connection = daemon.connect();
    connection.ask(&Ask::Publish(Box::new(finding(1, 1 << 20, flat(1), 0.5)))).unwrap();
    application.release(Some(&broadcast(1, 1 << 20, Some(0.6))));
    application.release(Some(&broadcast(1, 1 << 20, None)));
    application.slot.count_hold_timeout();
    (daemon, application, place)
}

fn file_in(place: &TempDir) -> PathBuf {
    place.path().join("collector/arborcast.prom")
}

/// What the file says once it says that there were broadcasts, and that they are over: a hold stands for a moment
/// after the broadcast was told of.
fn read_when_told(file: &Path) -> (String, BTreeMap<String, Family>) {
    let mut text = String::new();
    wait_for("metrics of two broadcasts", || {
        text = fs::read_to_string(file).unwrap_or_default();
        let has = |line| text.lines().any(|found| found == line);
        has("arborcast_broadcasts_total 2") && has("arborcast_holds 0")
    });
    let families = read(&text);
    (text, families)
}

#[test]
fn the_file_says_what_the_daemon_knows() {
    let (daemon, _application, place) = informed(&[]);
    let file = file_in(&place);
    let (text, families) = read_when_told(&file);
    let of_target = [("root", "n1"), ("max_bytes", "1048576")];
    for (name, labels, expected) in [
        ("arborcast_build_info", &[("version", env!("CARGO_PKG_VERSION"))][..], 1.0),
        ("arborcast_node_info", &[("node", "n0"), ("site", "a")], 1.0),
        ("arborcast_clients", &[("role", "application")], 1.0),
        ("arborcast_clients", &[("role", "experiment")], 0.0),
        ("arborcast_hold_timeouts_total", &[], 1.0),
        ("arborcast_holds", &[], 0.0),
        ("arborcast_plans", &[], 1.0),
        ("arborcast_targets", &[], 1.0),
        ("arborcast_experiment_state", &[("state", "none")], 1.0),
        ("arborcast_experiment_state", &[("state", "running")], 0.0),
        ("arborcast_target_native_seconds", &of_target, 2.0),
        ("arborcast_target_plan_seconds", &of_target, 0.5),
        ("arborcast_target_in_use_seconds", &of_target, 0.6),
        ("arborcast_target_bound_seconds", &of_target, 0.1),
        ("arborcast_sampled_broadcast_duration_seconds_sum", &[("max_bytes", "1048576")], 0.6),
        ("arborcast_sampled_broadcast_duration_seconds_bucket", &[("le", "0.5")], 0.0),
        ("arborcast_sampled_broadcast_duration_seconds_bucket", &[("le", "1")], 1.0),
    ] {
        assert_eq!(value(&families, name, labels), expected, "{name}: {text}");
    }
    let age_s = |name: &str| {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        now - value(&families, name, &[])
    };
    for name in ["arborcast_newest_plan_timestamp_seconds", "arborcast_start_timestamp_seconds"] {
        assert!((0.0..LONG.as_secs_f64()).contains(&age_s(name)), "{name}: {}", age_s(name));
    }
    let experiment = Client::experiment(&daemon, 1);
    wait_for("the state to change", || {
        let families = read(&fs::read_to_string(&file).unwrap());
        let running = value(&families, "arborcast_experiment_state", &[("state", "running")]);
        running == value(&families, "arborcast_clients", &[("role", "experiment")])
            && running == 1.0
    });
    drop(experiment);
}

#[test]
fn series_stay_few_whatever_applications_do() {
    let (daemon, mut application, place) = informed(&["--metrics-targets", "2"]);
    let file = file_in(&place);
    read_when_told(&file);
    let series = |families: &BTreeMap<String, Family>| -> usize {
        families.values().map(|family| family.samples.len()).sum()
    };
    let before = series(&read_when_told(&file).1);
    let mut connection = daemon.connect();
    for class in 0..20 {
        let bytes = 1024 << class;
        connection.ask(&Ask::Publish(Box::new(finding(2, bytes, flat(2), 0.5)))).unwrap();
        application.release(Some(&broadcast(2, bytes, Some(0.6))));
        application.connection.tell_if_room(&Ask::Ring);
    }
    let mut families = BTreeMap::new();
    wait_for("21 targets", || {
        families = read(&fs::read_to_string(&file).unwrap());
        value(&families, "arborcast_targets", &[]) == 21.0
    });
    // Two targets of four times each, and five ranges of sizes.
    assert_eq!(families["arborcast_target_native_seconds"].samples.len(), 2);
    assert!(series(&families) - before <= 4 + 4 * 18, "{} and {before}", series(&families));
}

#[test]
fn the_file_is_for_everybody_and_goes_with_the_daemon() {
    let (mut daemon, _application, place) = informed(&[]);
    let file = file_in(&place);
    read_when_told(&file);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    let folder = file.parent().unwrap();
    daemon.terminate();
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0, "nothing is left");
    // Where it cannot be written, the daemon says so once, serves on, and tries on.
    fs::remove_dir(folder).unwrap();
    daemon.restart();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    fs::create_dir(folder).unwrap();
    wait_for("the file", || file.exists());
    assert_eq!(daemon.status().plans, 1);
    let log = daemon.terminate();
    assert_eq!(log.matches("the metrics cannot be written").count(), 1, "{log}");
}

#[test]
fn what_is_configured_anew_is_taken_over() {
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("arborcastd.toml");
    let file = place.path().join("a.prom");
    fs::write(&config, "").unwrap();
    let daemon = Daemon::start(&["--config", config.to_str().unwrap()]);
    for name in ["a.prom", "b.prom"] {
        let file = place.path().join(name);
        fs::write(&config, format!("[metrics]\ntextfile = {file:?}\n")).unwrap();
        daemon.signal(Signal::HUP);
        wait_for("the file", || file.exists());
    }
    assert!(!file.exists(), "the former file is gone");
}

/// Words of a text that are names of ours.
fn names_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    words.filter(|word| word.starts_with("arborcast_")).map(Into::into).collect()
}

#[test]
fn rules_and_dashboard_ask_for_what_is_told() {
    let (_daemon, mut application, place) = informed(&[]);
    let file = file_in(&place);
    read_when_told(&file);
    let native =
        arborcast_proto::segment::Broadcast { native_s: Some(1.0), ..broadcast(1, 1 << 20, None) };
    application.release(Some(&native));
    application.connection.tell_if_room(&Ask::Ring);
    let mut families = BTreeMap::new();
    wait_for("a native broadcast", || {
        families = read(&fs::read_to_string(&file).unwrap());
        families.contains_key("arborcast_sampled_native_root_duration_seconds")
    });
    let told: BTreeSet<String> = families
        .values()
        .flat_map(|family| family.samples.iter().map(|((name, _), _)| name.clone()))
        .collect();
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    let rules = fs::read_to_string(packaging.join("prometheus/arborcast.rules.yml")).unwrap();
    let dashboard = fs::read_to_string(packaging.join("grafana/arborcast.json")).unwrap();
    let panels: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(
        panels["panels"]
            .as_array()
            .unwrap()
            .iter()
            .all(|panel| panel["targets"][0]["expr"].is_string())
    );
    for text in [&rules, &dashboard] {
        let asked = names_in(text);
        assert!(asked.len() > 4, "{asked:?}");
        assert!(asked.is_subset(&told), "{:?} are not told", asked.difference(&told));
    }
}
