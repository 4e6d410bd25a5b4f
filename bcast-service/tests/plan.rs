//! `arborcast plan` on what `arborcast matrix --json` wrote.

mod harness;

use arborcast_proto::LinkMatrix;
use arborcast_proto::message::Ask;
use harness::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// 10 ms and 10 Mbit/s from each node to each other, as a daemon tells them.
fn written() -> (TempDir, PathBuf) {
    let daemon = Daemon::start(&[]);
    let matrix = LinkMatrix::new(4, vec![0.01; 16], vec![1.25e6; 16]).unwrap();
    daemon.ask(&Ask::Links(group(), matrix));
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("links.json");
    std::fs::write(&file, daemon.arborcast(&["matrix", "--json"]).stdout).unwrap();
    (place, file)
}

/// Without a daemon.
fn plan(file: &Path, arguments: &[&str]) -> Output {
    let own = ["plan", "--matrix", file.to_str().unwrap()];
    arborcast(Path::new("/no/such/socket"), &[&own[..], arguments].concat())
}

fn json(output: Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_close(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() < 1e-6, "{value}, not {expected}");
}

#[test]
fn what_the_matrix_command_wrote_is_planned_for() {
    let (_place, file) = written();
    let answer = json(plan(&file, &["--root", "n1", "--bytes", "1MiB", "--json"]));
    assert_eq!(answer["sites"], serde_json::json!([["n0"], ["n1"], ["n2"], ["n3"]]));
    assert_eq!((&answer["what_if"], &answer["times_as_fast"]), (&Value::Null, &Value::Null));
    let found = &answer["as_measured"];
    // There and back, and the root's own rate.
    let transfer_s = (1 << 20) as f64 / 1.25e6;
    assert_close(&found["bound_s"], 0.02 + transfer_s);
    assert_eq!(found["binds"]["cut"][0]["kind"], "sender");
    assert_eq!(found["binds"]["cut"][0]["from"], "n1");
    let predicted_s = found["predicted_s"].as_f64().unwrap();
    let bound_s = found["bound_s"].as_f64().unwrap();
    assert!((bound_s..1.3 * bound_s).contains(&predicted_s), "{predicted_s} and {bound_s}");
    for tree in found["plan"]["trees"].as_array().unwrap() {
        assert_eq!(tree["parents"][1], Value::Null, "n1 is the root");
    }
}

#[test]
fn what_if_is_told_beside_what_is() {
    let (_place, file) = written();
    let question = ["--root", "n1", "--bytes", "1MiB", "--set", "n1-*=x2"];
    let answer = json(plan(&file, &[&question[..], &["--json"]].concat()));
    let transfer_s = (1 << 20) as f64 / 1.25e6;
    assert_close(&answer["as_measured"]["bound_s"], 0.02 + transfer_s);
    assert_close(&answer["what_if"]["bound_s"], 0.02 + transfer_s / 2.0);
    let faster = answer["times_as_fast"].as_f64().unwrap();
    assert!((1.5..2.2).contains(&faster), "{faster}");
    assert_eq!(answer["set"], serde_json::json!(["n1-*=x2"]));
    let text = String::from_utf8(plan(&file, &question).stdout).unwrap();
    for words in [
        "1 MiB from n1 to 4 nodes in 4 sites",
        "as measured",
        &format!("with n1-*=x2: {faster:.2} × as fast"),
        "859 ms",
        "what n1 sends: 10.0 Mbit/s",
        "what n1 sends: 20.0 Mbit/s",
        "├─",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Of a byte, the rate is no matter.
    let text = String::from_utf8(plan(&file, &["--root", "n1", "--bytes", "1"]).stdout).unwrap();
    assert!(text.contains("n1 → n") && !text.contains("what n1 sends"), "{text}");
}

#[test]
fn what_cannot_be_planned_is_told_with_exit_code_2() {
    let (place, file) = written();
    let of = |file: &Path, arguments: &[&str]| {
        let Output { status, stderr, .. } = plan(file, arguments);
        (status.code().unwrap(), String::from_utf8(stderr).unwrap())
    };
    let usual = ["--root", "n1", "--bytes", "1MiB"];
    let other = place.path().join("other.json");
    std::fs::write(&other, "{}").unwrap();
    for (file, arguments, words) in [
        (&file, &["--root", "x", "--bytes", "1"][..], "the nodes are n0, n1, n2, n3"),
        (&file, &["--root", "n1", "--bytes", "many"], "no size"),
        (&file, &["--root", "n1", "--bytes", "1", "--set", "n1-n9=x2"], "nodes of the matrix"),
        (&file, &["--root", "n1", "--bytes", "1", "--set", "n1-n2=fast"], "A-B=200mbit"),
        (&file, &["--root", "n1", "--bytes", "1", "--group", "zz"], "no links of a group zz"),
        (&other, &usual, "arborcast matrix --json"),
        (&place.path().join("none.json"), &usual, "none.json"),
    ] {
        let (code, message) = of(file, arguments);
        assert_eq!(code, 2, "{message}");
        assert!(message.contains(words), "{words}: {message}");
    }
}
