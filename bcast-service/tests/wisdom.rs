//! What daemons learned, carried from one to another as files.

mod harness;

use arborcast_proto::message::{Ask, Finding, Role};
use arborcast_proto::wisdom::Wisdom;
use arborcast_proto::{LinkMatrix, Plan};
use harness::*;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

/// A daemon that a job with this epoch has told of a plan, its trials and links.
fn informed(epoch: u64, finding: Finding) -> Daemon {
    let daemon = Daemon::start(&[]);
    let mut job = Client::hello(&daemon, Role::Experiment { epoch });
    let matrix = LinkMatrix::new(4, vec![0.01; 16], vec![1e6 * epoch as f64; 16]).unwrap();
    job.connection.ask(&Ask::Links(group(), matrix)).unwrap();
    for number in [1, 2] {
        let mut trial = trial(finding.root, finding.bytes, number, 0.5);
        trial.unix_s = epoch as f64;
        job.connection.ask(&Ask::Trial(Box::new(trial))).unwrap();
    }
    job.connection.ask(&Ask::Publish(Box::new(finding))).unwrap();
    daemon
}

fn done(output: Output) -> Value {
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {stderr}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn failed(output: Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

fn file(daemon: &Daemon, name: &str) -> PathBuf {
    daemon.directory.path().join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn what_one_daemon_exports_another_one_knows_at_once() {
    let old = informed(1, finding(0, 1, flat(0), 0.4));
    let new = informed(2, finding(1, 1, flat(1), 0.5));
    let path = file(&old, "export");
    let exported = done(old.arborcast(&["export", text(&path), "--json"]));
    assert_eq!(exported, json!({ "plans": 1, "links": 1, "trials": 2 }));

    let board = new.board();
    assert_eq!(board.plan(target(0, 1)), None);
    let import = || done(new.arborcast(&["import", text(&path), "--json"]));
    let taken = json!({ "plans": 1, "links": 0, "trials": 2 });
    assert_eq!(import(), json!({ "taken": taken, "known": 1, "refused": 0 }), "older links");
    assert_eq!(board.plan(target(0, 1)).unwrap().plan, flat(0));
    assert_eq!(board.plan(target(1, 1)).unwrap().plan, flat(1));
    let generation = board.generation();
    let taken = json!({ "plans": 0, "links": 0, "trials": 0 });
    assert_eq!(import(), json!({ "taken": taken, "known": 4, "refused": 0 }));
    assert!(board.generation() >= generation);
    assert_eq!(new.status().trials, 4, "nothing is there twice");
}

#[test]
fn what_was_imported_survives_a_restart() {
    let old = informed(1, finding(0, 1, flat(0), 0.4));
    let path = file(&old, "export");
    done(old.arborcast(&["export", text(&path), "--json"]));
    let mut new = Daemon::start(&[]);
    done(new.arborcast(&["import", text(&path), "--json"]));
    new.terminate();
    assert_eq!(Wisdom::load(&new.wisdom()).unwrap(), Wisdom::read(&path).unwrap());
}

#[test]
fn files_are_merged_as_a_daemon_would_merge_them() {
    let (old, new) =
        (informed(1, finding(0, 1, flat(0), 0.4)), informed(2, finding(0, 1, flat(0), 0.5)));
    let (a, b, c) = (file(&old, "a"), file(&old, "b"), file(&old, "c"));
    done(old.arborcast(&["export", text(&a), "--json"]));
    done(new.arborcast(&["export", text(&b), "--json"]));
    let merged = done(old.arborcast(&["merge", text(&a), text(&b), "-o", text(&c), "--json"]));
    assert_eq!(merged, json!({ "plans": 1, "links": 1, "trials": 4 }));
    assert_eq!(Wisdom::read(&c).unwrap().plans, Wisdom::read(&b).unwrap().plans, "the newer one");
    done(old.arborcast(&["import", text(&b), "--json"]));
    let d = file(&old, "d");
    done(old.arborcast(&["export", text(&d), "--json"]));
    assert_eq!(Wisdom::read(&d).unwrap(), Wisdom::read(&c).unwrap());
    // Into one of the two.
    done(old.arborcast(&["merge", text(&a), text(&b), "--output", text(&a), "--json"]));
    assert_eq!(Wisdom::read(&a).unwrap(), Wisdom::read(&c).unwrap());
}

#[test]
fn files_of_every_version_are_imported() {
    let daemon = Daemon::start(&[]);
    for version in 2..=4 {
        let kept = format!("../proto/tests/kept/version-{version}.wisdom");
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(kept);
        let imported = done(daemon.arborcast(&["import", text(&kept), "--json"]));
        assert_eq!(imported["refused"], 0, "version {version}");
        assert_eq!(daemon.status().plans, 1, "version {version}");
    }
}

#[test]
fn a_file_that_cannot_be_used_changes_nothing() {
    let daemon = informed(1, finding(0, 1, flat(0), 0.4));
    let (good, bad) = (file(&daemon, "good"), file(&daemon, "bad"));
    done(daemon.arborcast(&["export", text(&good), "--json"]));
    let bytes = std::fs::read(&good).unwrap();
    let cut = bytes[..bytes.len() - 1].to_vec();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let mut newer = bytes.clone();
    newer[8] = 99;
    let generation = daemon.board().generation();
    for (bytes, word) in [
        (b"nonsense".to_vec(), "not a wisdom file"),
        (Vec::new(), "not a wisdom file"),
        (cut, "damaged"),
        (flipped, "damaged"),
        (newer, "version 99"),
    ] {
        std::fs::write(&bad, &bytes).unwrap();
        let (code, words) = failed(daemon.arborcast(&["import", text(&bad)]));
        assert_eq!(code, 2, "{words}");
        assert!(words.contains(word) && words.contains("arborcast export"), "{words}");
        let onto = file(&daemon, "onto");
        std::fs::write(&onto, "as it was").unwrap();
        let merge = ["merge", text(&good), text(&bad), "-o", text(&onto)];
        assert_eq!(failed(daemon.arborcast(&merge)).0, 2);
        assert_eq!(std::fs::read(&onto).unwrap(), b"as it was");
    }
    assert_eq!(failed(daemon.arborcast(&["import", "/nowhere"])).0, 2);
    assert_eq!(failed(daemon.arborcast(&["export", "/nowhere/file"])).0, 2);
    assert_eq!(daemon.board().generation(), generation, "the book is as it was");
    // A client that does not look at the file itself.
    let import = Ask::Import(b"nonsense".to_vec());
    assert!(daemon.connect().ask(&import).is_err());
    assert_eq!((daemon.status().plans, daemon.status().trials), (1, 2));
}

#[test]
fn what_makes_no_sense_is_left_out_and_counted() {
    let daemon = informed(1, finding(0, 1, Plan::Native, 2.0));
    let path = file(&daemon, "file");
    done(daemon.arborcast(&["export", text(&path), "--json"]));
    let mut wisdom = Wisdom::read(&path).unwrap();
    let mut slower = (*wisdom.plans[0].finding).clone();
    (slower.plan, slower.times) = (flat(0), arborcast_proto::message::Times::of(&[3.0]).unwrap());
    wisdom.plans[0].finding = slower.into();
    wisdom.plans[0].epoch = 9;
    wisdom.save(&path).unwrap();
    let imported = done(daemon.arborcast(&["import", text(&path), "--json"]));
    assert_eq!((&imported["taken"]["plans"], &imported["refused"]), (&json!(0), &json!(1)));
    assert_eq!(daemon.board().plan(target(0, 1)).unwrap().plan, Plan::Native);
}
