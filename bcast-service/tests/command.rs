//! The operator's command against real daemons: what it prints and how it ends.

mod harness;

use arborcast_proto::message::{Ask, Finding, Reason, Rival, Times};
use arborcast_proto::{LinkMatrix, Plan, Spending, Spent};
use harness::*;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// A daemon that knows a plan, its history, links and demand.
fn informed() -> (Daemon, Client) {
    let daemon = Daemon::start(&[]);
    let mut application = Client::application(&daemon);
    application.connection.ask(&Ask::Register(group())).unwrap();
    application.release(Some(&broadcast(1, 1 << 20, Some(0.6))));
    let mut connection = daemon.connect();
    let matrix = LinkMatrix::new(4, vec![0.01; 16], vec![1.25e6; 16]).unwrap();
    connection.ask(&Ask::Links(group(), matrix)).unwrap();
    for (number, best) in [(1, 2.0), (2, 2.0), (3, 0.5)] {
        connection.ask(&Ask::Trial(Box::new(trial(1, 1 << 20, number, best)))).unwrap();
    }
    let native = Rival {
        plan: Plan::Native,
        times: Times::of(&[2.0, 2.0, 2.1]).unwrap(),
        interval_s: (2.0, 2.1),
    };
    let reason = Reason { predicted_s: Some(0.4), interval_s: (0.45, 0.6), against: Some(native) };
    let finding_with_reason = Finding { reason: Some(reason), ..finding(1, 1 << 20, flat(1), 0.5) };
    connection.ask(&Ask::Publish(Box::new(finding_with_reason))).unwrap();
    connection.ask(&Ask::Publish(Box::new(finding(1, 1, Plan::Native, 2.0)))).unwrap();
    let spending = Spending {
        job_s: 200.0,
        links: Spent { seconds: 1.5, bytes: 2_000_000 },
        trials: Spent { seconds: 4.5, bytes: 10_000_000 },
        programs: Spent { seconds: 0.2, bytes: 0 },
        time_share: Some(0.05),
        ..Spending::default()
    };
    connection.ask(&Ask::Spending(spending)).unwrap();
    let nonsense = Spending { job_s: f64::NAN, ..spending };
    assert!(connection.ask(&Ask::Spending(nonsense)).is_err());
    (daemon, application)
}

fn text(output: Output) -> String {
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn json(output: Output) -> Value {
    serde_json::from_str(&text(output)).unwrap()
}

fn failure(output: Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn status_and_targets_say_what_is_known() {
    let (daemon, _application) = informed();
    let status = text(daemon.arborcast(&["status"]));
    let spent = "links 1.5 s, 2.0 MB; trials 4.5 s, 10.0 MB; suspects 0.0 s, 0.0 MB; programs 0.2 s, 0.0 MB";
    let all = "3.1 % of its time (at most 5.0 %), 216.0 MB an hour";
    for words in ["n0 (site a)", "none", "1, holds", "2, from 3 trials", spent, all] {
        assert!(status.contains(words), "{words}: {status}");
    }
    let status = json(daemon.arborcast(&["status", "--json"]));
    assert_eq!((&status["node"], &status["plans"]), (&"n0".into(), &2.into()));
    assert_eq!((&status["experiment"], &status["epoch"]), (&"none".into(), &Value::Null));
    assert_eq!(status["broadcasts"], 1);
    let trials = serde_json::json!({ "seconds": 4.5, "bytes": 10_000_000 });
    assert_eq!(status["spending"]["spent"]["trials"], trials);
    assert_eq!(status["spending"]["time_share"], 0.05);

    let targets = text(daemon.arborcast(&["targets"]));
    for words in ["n1", "≤1MiB", "1 tree, depth 1", "native", "500 ms", "2.00 s", "100 ms"] {
        assert!(targets.contains(words), "{words}: {targets}");
    }
    let targets = json(daemon.arborcast(&["targets", "--json"]));
    assert_eq!(targets.as_array().unwrap().len(), 2);
    let first = &targets[0];
    assert_eq!(first["demand"]["broadcasts"], 1, "the one that is used comes first");
    assert_eq!(first["finding"]["times"]["median_s"], 0.5);
    let parents = &first["finding"]["plan"]["trees"][0]["parents"];
    assert_eq!(*parents, serde_json::json!(["n1", null, "n1", "n1"]));
    assert_eq!(targets[1]["finding"]["plan"]["kind"], "native");
}

#[test]
fn trees_are_drawn_in_every_form() {
    let (daemon, _application) = informed();
    let tree = text(daemon.arborcast(&["trees", "n1/1MiB"]));
    assert!(tree.contains("n1\n├─ n0  10.0 ms, 10.0 Mbit/s\n├─ n2"), "{tree}");
    assert!(text(daemon.arborcast(&["trees"])).contains("the native broadcast is best"));
    let dot = text(daemon.arborcast(&["trees", "n1/1MiB", "--dot"]));
    assert!(dot.starts_with("digraph") && dot.contains("1 -> 0"), "{dot}");
    let svg = text(daemon.arborcast(&["trees", "n1/1MiB", "--svg"]));
    assert!(svg.starts_with("<svg") && svg.contains(">n3</text>"), "{svg}");
    let all = json(daemon.arborcast(&["trees", "--json"]));
    assert_eq!(all.as_array().unwrap().len(), 2);
}

#[test]
fn history_shows_the_steps_and_the_matrix_the_links() {
    let (daemon, _application) = informed();
    let history = text(daemon.arborcast(&["history", "n1/1MiB"]));
    assert!(history.contains("3 trials") && history.contains("500 ms"), "{history}");
    assert_eq!(history.lines().count(), 4, "a title, a header and two steps: {history}");
    let trials = json(daemon.arborcast(&["history", "n1/1MiB", "--json"]));
    assert_eq!((trials.as_array().unwrap().len(), &trials[2]["best_s"]), (3, &0.5.into()));
    let svg = text(daemon.arborcast(&["history", "n1/1MiB", "--svg"]));
    assert!(svg.contains("native: 2.00 s") && svg.contains("limit: 100 ms"), "{svg}");

    let matrix = text(daemon.arborcast(&["matrix"]));
    assert!(matrix.contains("10.0 Mbit/s") && matrix.contains("10.0 ms"), "{matrix}");
    let matrix = json(daemon.arborcast(&["matrix", "--json"]));
    assert_eq!(matrix[0]["bytes_per_s"][0], serde_json::json!([null, 1.25e6, 1.25e6, 1.25e6]));
    let svg = text(daemon.arborcast(&["matrix", "--svg"]));
    assert_eq!(svg.matches("<svg").count(), 2);
}

#[test]
fn a_plan_is_explained_by_what_was_predicted_and_measured() {
    let (daemon, _application) = informed();
    let why = text(daemon.arborcast(&["explain", "n1/1MiB"]));
    for words in [
        "1 tree, depth 1, by random-transform after 2 trials",
        "400 ms",
        "500 ms, median of 1, 90 % interval 450 ms to 600 ms",
        "native: 2.00 s, median of 3, 90 % interval 2.00 s to 2.10 s",
        "100 ms (5.00 ×)",
        "faster than native beyond doubt",
    ] {
        assert!(why.contains(words), "{words}: {why}");
    }
    let why = json(daemon.arborcast(&["explain", "n1/1MiB", "--json"]));
    assert_eq!(why["because"], "faster than native beyond doubt");
    let reason = &why["finding"]["reason"];
    assert_eq!(reason["interval_s"], serde_json::json!([0.45, 0.6]));
    assert_eq!(reason["against"]["plan"]["kind"], "native");
    let targets = json(daemon.arborcast(&["targets", "--json"]));
    assert_eq!(targets[0]["finding"]["reason"], *reason);
    let unknown = text(daemon.arborcast(&["explain", "n1/1"]));
    assert!(unknown.contains("not known"), "{unknown}");
}

#[test]
fn pause_resume_and_forget_act() {
    let (daemon, _application) = informed();
    assert_eq!(text(daemon.arborcast(&["pause"])), "");
    let state = || json(daemon.arborcast(&["status", "--json"]))["experiment"].clone();
    assert_eq!(state(), "paused");
    assert_eq!(json(daemon.arborcast(&["resume", "--json"]))["done"], true);
    assert_eq!(state(), "none");

    let (code, message) = failure(daemon.arborcast(&["forget", "n1"]));
    assert_eq!(code, 1);
    assert!(message.contains("n1/≤1KiB") && message.contains("n1/≤1MiB"), "{message}");
    text(daemon.arborcast(&["forget", "n1/1MiB"]));
    assert_eq!(daemon.board().plan(target(1, 1 << 20)), None);
    assert_eq!(daemon.status().plans, 1);
    text(daemon.arborcast(&["forget", "--all"]));
    assert_eq!(daemon.status().plans, 0);
    assert!(text(daemon.arborcast(&["matrix"])).contains("no links"));
}

#[test]
fn mistakes_have_their_exit_codes_and_say_what_to_do() {
    let (daemon, _application) = informed();
    let (code, message) = failure(daemon.arborcast(&["history", "n9"]));
    assert_eq!(code, 1);
    assert!(message.contains("arborcast targets"), "{message}");
    assert_eq!(failure(daemon.arborcast(&["forget"])).0, 2);
    assert_eq!(failure(daemon.arborcast(&["trees", "a/b/c/d"])).0, 2);
    assert_eq!(failure(daemon.arborcast(&["history", "n1", "--svg", "--json"])).0, 2);
    let (code, message) = failure(arborcast(Path::new("/no/such/socket"), &["status"]));
    assert_eq!(code, 3);
    assert!(message.contains("systemctl start arborcastd"), "{message}");
}

#[test]
fn top_needs_a_terminal() {
    let (daemon, _application) = informed();
    let (code, message) = failure(daemon.arborcast(&["top"]));
    assert_eq!(code, 2);
    assert!(message.contains("a terminal is needed"), "{message}");
    assert_eq!(failure(daemon.arborcast(&["top", "--interval", "1ms"])).0, 2);
}

#[test]
fn settings_need_no_daemon() {
    let nowhere = Path::new("/no/such/socket");
    let settings = text(arborcast(nowhere, &["settings"]));
    assert!(settings.contains("hold_wait_max") && settings.contains("ARBORCAST_DISABLE"));
    let settings = json(arborcast(nowhere, &["settings", "--json"]));
    let linger = settings.as_array().unwrap().iter().find(|s| s["name"] == "linger").unwrap();
    assert_eq!(linger["default"], "100ms");
}

#[test]
fn run_preloads_the_library_and_becomes_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let arborcast = |environment: &[(&str, &str)], arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_arborcast"));
        command.env_remove("LD_PRELOAD").env_remove("ARBORCAST_LIBRARY");
        command.envs(environment.iter().copied()).args(arguments).output().unwrap()
    };
    let run = |environment: &[(&str, &str)], arguments: &[&str]| {
        arborcast(environment, &[&["run"], arguments].concat())
    };
    let print = ["sh", "-c", "printf %s \"$LD_PRELOAD\""];

    // Any library that can be loaded will do: one that is there on every Linux.
    let library = directory.path().join("libarborcast.so");
    let libc =
        ["/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6", "/lib64/libm.so.6"];
    let libc = libc.into_iter().find(|path| Path::new(path).exists()).expect("a system library");
    std::os::unix::fs::symlink(libc, &library).unwrap();
    let library = library.to_str().unwrap();
    assert_eq!(text(run(&[], &[&["--library", library, "--"][..], &print].concat())), library);
    let output = run(&[("ARBORCAST_LIBRARY", library), ("LD_PRELOAD", libc)], &print);
    assert_eq!(text(output), format!("{libc}:{library}"), "what was there stays in front");
    let named = ["env", "--library", library];
    assert_eq!(text(arborcast(&[], &named)), format!("LD_PRELOAD={library}\n"), "env tells it");
    let output = arborcast(&[("LD_PRELOAD", libc)], &[&named[..], &["--json"]].concat());
    assert_eq!(json(output)["LD_PRELOAD"], format!("{libc}:{library}"));
    let output = arborcast(&[], &["env", "--library", "/no/such.so"]);
    assert_eq!(output.stdout, b"", "nothing to be taken for a variable");
    assert_eq!(failure(output), (125, "arborcast: /no/such.so does not exist\n".into()));

    let (code, message) =
        failure(run(&[], &["--library", "/no/such.so", "--", "sh", "-c", "true"]));
    assert_eq!(code, 125, "a rank without the library is not started");
    assert!(message.contains("/no/such.so does not exist"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    let named = ["--library", library, "--"];
    let run = |arguments: &[&str]| run(&[], &[&named[..], arguments].concat());
    assert_eq!(failure(run(&["sh", "-c", "exit 7"])).0, 7, "it ends as the program does");
    assert_eq!(failure(run(&["/no/such/program"])).0, 127);
    assert_eq!(failure(run(&["/dev/null"])).0, 126);
}

#[test]
fn the_daemon_s_own_flags() {
    let daemon = Daemon::prepare(&[]);
    let with = |arguments: &[&str]| daemon.command().args(arguments).output().unwrap();
    assert!(text(with(&["--print-default-config"])).contains("hold_wait_max = \"250ms\""));
    assert!(text(with(&["--check-config"])).contains("can be used"));
    assert!(!daemon.socket().exists(), "checking starts nothing");

    let file = daemon.directory.path().join("bad.toml");
    std::fs::write(&file, "site = \"a\"\nlingr = \"1s\"\n").unwrap();
    let (code, message) = failure(with(&["--check-config", "--config", file.to_str().unwrap()]));
    assert_eq!(code, 2);
    assert!(message.contains("lingr") && message.contains("line 2"), "{message}");
    assert!(message.contains("--print-default-config"), "{message}");
    assert_eq!(failure(with(&["--config", "/no/such/file"])).0, 2);
    assert_eq!(failure(with(&["--hold-wait-max", "soon"])).0, 2);
    assert_eq!(failure(with(&["--group", "no-such-group"])).0, 2);
    assert_eq!(failure(with(&["--no-such-flag"])).0, 2);
    let (code, message) = failure(with(&["--socket", "/proc/no/daemon.sock"]));
    assert_eq!(code, 4, "{message}");
}
