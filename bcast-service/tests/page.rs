//! The page over HTTP: who is answered, what is sent and when, and that it bears being used badly.

mod harness;

use arborcast_planner::grids;
use arborcast_proto::message::{Answer, Ask};
use arborcast_proto::segment::Broadcast;
use harness::grid::Grid;
use harness::http::*;
use harness::*;
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// As in bcast-service/src/page/server.rs.
const MAX_CONNECTIONS: usize = 48;
const OBSERVED_S: u32 = 38;
/// Within which a viewer is to see a change.
const SEEN: Duration = Duration::from_secs(2);

fn with_page() -> (Daemon, SocketAddr) {
    let address = free_address();
    (Daemon::start(&["--page-listen", &address.to_string()]), address)
}

/// Of TCP, in /proc.
fn listening_sockets(daemon: &Daemon) -> usize {
    let of_daemon: BTreeSet<String> = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').into()))
        .collect();
    let tables = ["tcp", "tcp6"].map(|kind| std::fs::read_to_string(format!("/proc/net/{kind}")));
    let lines = tables.iter().flatten().flat_map(|table| table.lines().skip(1));
    let columns = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    // 0A: LISTEN.
    columns.filter(|c| c[3] == "0A" && of_daemon.contains(c[9])).count()
}

#[test]
fn nothing_listens_unless_it_is_told_to() {
    assert_eq!(listening_sockets(&Daemon::start(&[])), 0);
    assert_eq!(listening_sockets(&with_page().0), 1);
}

#[test]
fn the_page_has_all_it_needs_and_nothing_of_other_hosts() {
    let (_daemon, address) = with_page();
    let page = get(address, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let mut files = BTreeSet::new();
    let mut texts = vec![page.body];
    while let Some(text) = texts.pop() {
        for (place, quoted) in text.split('"').enumerate().filter(|(place, _)| place % 2 == 1) {
            let is_file = [".js", ".css", ".svg"].iter().any(|end| quoted.ends_with(end));
            let name = quoted.trim_start_matches("./").to_owned();
            if is_file && files.insert(name.clone()) {
                let file = get(address, &format!("/{name}"));
                assert_eq!(file.status, 200, "{name}, quotation {place}");
                texts.push(file.body);
            }
        }
        for address in text.split("://").skip(1) {
            assert!(address.starts_with("www.w3.org/2000/svg\""), "{}", &address[..20]);
        }
        assert!(
            !text.contains(" style=") && !text.contains(".innerHTML = "),
            "the policy forbids it"
        );
    }
    assert!(files.contains("page.js") && files.contains("page.css"), "{files:?}");
    assert_eq!(get(address, "/../config.rs").status, 404);
}

#[test]
fn only_this_host_s_names_are_answered_and_only_reading_is() {
    let (_daemon, address) = with_page();
    for (line, status) in [
        ("GET / HTTP/1.1\r\nhost: evil.example", 421),
        ("GET /metrics HTTP/1.1\r\nhost: localhost.evil.example:80", 421),
        ("GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil.example", 421),
        ("GET / HTTP/1.1\r\nx: y", 421),
        ("GET / HTTP/1.1\r\nhost: 127.0.0.1:1", 200),
        ("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0", 405),
        ("GET /nothing HTTP/1.1\r\nhost: localhost", 404),
        ("GET /target/0/0/0 HTTP/1.1\r\nhost: localhost", 404),
        ("GET /target/x/y/z HTTP/1.1\r\nhost: localhost", 400),
        ("GET /links/zz HTTP/1.1\r\nhost: localhost", 404),
    ] {
        let response = request(address, line);
        assert_eq!(response.status, status, "{line}: {response:?}");
        let policy = response.header("content-security-policy").unwrap();
        for word in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(word), "{line}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    }
}

#[test]
fn beyond_loopback_there_is_no_page_without_a_token() {
    let port = free_address().port();
    let listen = format!("0.0.0.0:{port}");
    let refused = Daemon::prepare(&["--page-listen", &listen]).command().output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("page.token_file"), "{message}");

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let flags = ["--page-listen", &listen, "--page-token-file", file.to_str().unwrap()];
    let missing = Daemon::prepare(&flags).command().output().unwrap();
    assert_eq!(missing.status.code(), Some(2));

    std::fs::write(&file, "correct-horse-battery\n").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let _daemon = Daemon::start(&flags);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    for path in ["/", "/updates", "/metrics", "/page.js"] {
        let get = |authorization: &str| {
            let line = format!("GET {path} HTTP/1.1\r\nhost: localhost{authorization}");
            request(address, &line)
        };
        let refused = get("");
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").unwrap().starts_with("basic"), "{refused:?}");
        assert!(refused.header("content-security-policy").is_some());
        assert_eq!(get("\r\nauthorization: Bearer correct-horse-batterx").status, 401);
        assert_eq!(get("\r\nauthorization: Bearer ").status, 401);
        if path != "/updates" {
            assert_eq!(get("\r\nauthorization: Bearer correct-horse-battery").status, 200);
            // operator:correct-horse-battery
            let basic = "\r\nauthorization: Basic b3BlcmF0b3I6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5";
            assert_eq!(get(basic).status, 200);
        }
    }
}

#[test]
fn an_address_that_is_taken_is_told() {
    let (_daemon, address) = with_page();
    let second = Daemon::prepare(&["--page-listen", &address.to_string()]);
    let output = second.command().output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("page.listen") && message.contains("in use"), "{message}");
}

#[test]
fn a_viewer_sees_a_plan_change_and_nothing_while_nothing_changes() {
    let (daemon, address) = with_page();
    let mesh = grids::four_site_mesh();
    let mut grid = Grid::of_mesh(&daemon, &mesh);
    grid.measure(&mesh);
    grid.search(0, 1 << 20, 5);
    let mut viewers = [Updates::open(address), Updates::open(address)];
    for viewer in &mut viewers {
        assert_eq!(viewer.next_of("status")["node"], "n0");
        assert_eq!(viewer.next_of("targets")["targets"][0]["plan"], serde_json::Value::Null);
        assert_eq!(viewer.next_of("groups")[0]["sites"], 4);
    }
    let published = Instant::now();
    grid.publish(0, 1 << 20, 0.5, false);
    for viewer in &mut viewers {
        let targets = viewer.next_of("targets");
        assert!(published.elapsed() < SEEN, "{:?}", published.elapsed());
        let plan = &targets["targets"][0]["plan"];
        assert_eq!((&plan["median_s"], &plan["is_measured"]), (&0.5.into(), &false.into()));
        let event = &viewer.next_of("events")[0];
        assert_eq!(event["kind"], "plan");
        let text = event["text"].as_str().unwrap();
        assert!(text.contains("500 ms, predicted") && text.contains("not measured yet"), "{text}");
    }
    let path = format!("/target/{}/0/10", grid.group.hash());
    let detail = get(address, &path).json();
    assert_eq!((&detail["is_measured"], &detail["trial_count"]), (&false.into(), &5.into()));
    assert_eq!(detail["flows"].as_array().unwrap().len(), 4, "{:#}", detail["flows"]);
    assert_eq!(detail["sites"][0]["name"], "a0…a3");

    grid.publish(0, 1 << 20, 0.25, true);
    let targets = viewers[0].next_of("targets");
    assert_eq!(targets["targets"][0]["plan"]["is_measured"], true);
    assert_eq!(get(address, &path).json()["median_s"], 0.25, "a detail is never an old one");

    // Of links that have not changed nothing is sent; what binds comes once it is computed.
    let (to_test, from_viewer) = std::sync::mpsc::channel();
    let [mut viewer, _] = viewers;
    std::thread::spawn(move || {
        while let Some((name, _)) = viewer.next() {
            let _ = to_test.send(name);
        }
    });
    std::thread::sleep(Duration::from_millis(2500));
    let names: Vec<String> = from_viewer.try_iter().collect();
    assert!(names.iter().all(|name| name != "groups" && name != "status"), "{names:?}");
    drop(grid);
    assert_eq!(daemon.status().plans, 1);
}

#[test]
fn a_link_s_history_has_its_measurements_and_the_plans_that_came_meanwhile() {
    let (daemon, address) = with_page();
    let mesh = grids::four_site_mesh();
    let mut grid = Grid::of_mesh(&daemon, &mesh);
    grid.measure(&mesh);
    grid.publish(0, 1 << 20, 0.5, false);
    grid.publish(0, 1 << 20, 0.4, true);
    grid.measure_fallen(&mesh, 0.1);
    let group = grid.group.hash();
    let past = |nodes: &str| get(address, &format!("/links/{group}/{nodes}"));
    let (fallen, other) = (past("a0/b3").json(), past("a0/c0").json());
    let rates = |past: &serde_json::Value| -> Vec<f64> {
        past["samples"].as_array().unwrap().iter().map(|s| s[1].as_f64().unwrap()).collect()
    };
    let (ab, ac) = (rates(&fallen), rates(&other));
    assert!(ab.len() == 2 && (ab[1] / ab[0] - 0.1).abs() < 1e-3, "{fallen:#}");
    assert!(ac.len() == 2 && ac[1] == ac[0], "{other:#}");
    let (first, last) = (&fallen["samples"][0], &fallen["samples"][1]);
    assert!(first[0].as_f64() <= last[0].as_f64() && first[3] == last[3], "{fallen:#}");
    let plans = fallen["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 2, "{plans:?}");
    assert_eq!(
        (&plans[0]["target"], &plans[0]["plan"]),
        (&"a0 ≤1MiB".into(), &"2 trees, depth 4".into())
    );
    assert_eq!(past("a0/nobody").status, 404);
    assert_eq!(get(address, &format!("/links/{group}/a0")).status, 404);
}

#[test]
fn the_trees_of_earlier_plans_can_be_looked_at() {
    let (mut daemon, address) = with_page();
    let mesh = grids::four_site_mesh();
    let mut grid = Grid::of_mesh(&daemon, &mesh);
    grid.measure(&mesh);
    for median_s in [0.5, 0.4, 0.3] {
        grid.publish(0, 1 << 20, median_s, true);
    }
    let path = format!("/target/{}/0/10", grid.group.hash());
    let detail = get(address, &path).json();
    let plans = detail["plans"].as_array().unwrap();
    let told: Vec<_> = plans.iter().map(|plan| (&plan["number"], &plan["median_s"])).collect();
    assert_eq!(
        told,
        [(&1.into(), &0.5.into()), (&2.into(), &0.4.into()), (&3.into(), &0.3.into())]
    );
    assert!(plans.iter().all(|plan| plan["since_unix_s"].is_f64()), "{plans:#?}");
    let segment = |trees: &serde_json::Value| trees["trees"][0]["segment_bytes"].as_u64().unwrap();
    let first = get(address, &format!("{path}/1")).json();
    assert_eq!((segment(&first), segment(&detail)), ((16 << 10) + 256, (16 << 10) + 768));
    assert_eq!(first["flows"].as_array().unwrap().len(), 4);
    assert_eq!(get(address, &format!("{path}/4")).status, 404);
    // What was saved is in use from before the next daemon's start on.
    drop(grid);
    daemon.terminate();
    daemon.restart();
    let plans = &get(address, &path).json()["plans"];
    assert_eq!(
        (&plans[0]["since_unix_s"], &plans[1]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

#[test]
fn programs_are_told_with_what_carried_their_broadcasts() {
    let (daemon, address) = with_page();
    let mesh = grids::four_site_mesh();
    let mut grid = Grid::of_mesh(&daemon, &mesh);
    grid.publish(0, 1 << 20, 0.25, true);
    let mut viewer = Updates::open(address);
    assert_eq!(viewer.next_of("programs")["programs"], serde_json::json!([]));
    assert_eq!(viewer.next_of("delays")["unmeasured"], serde_json::json!([]));
    let mut program = grid.program(&daemon, 1 << 20);
    let told = std::iter::repeat_with(|| viewer.next_of("programs")["programs"][0].clone())
        .find(|told| told["claims"] == 3);
    let told = told.unwrap();
    assert_eq!((&told["pid"], &told["holds"]), (&std::process::id().into(), &true.into()));
    assert!(!told["command"].as_str().unwrap().is_empty());
    let expected = serde_json::json!([{
        "size": "≤1MiB", "along_trees": 2, "native": 1, "bytes": 3 << 20,
        "tree_time": { "median_s": 0.26, "of": 1 }, "native_time": { "median_s": 4.5, "of": 1 },
        // Native took 4.5 s in the experiment, the plan 0.25 s.
        "gained_s": 8.5,
    }]);
    assert_eq!(told["uses"], expected);
    let unmeasured = viewer.next_of("delays")["unmeasured"].clone();
    assert_eq!(unmeasured.as_array().unwrap().len(), 16, "no experiment has measured its links");
    grid.measure(&mesh);
    for _ in 0..3 {
        let report = grid.delivery(1 << 20, 0.05);
        program.connection.tell(&Ask::Delivered(report)).unwrap();
    }
    let received = std::iter::repeat_with(|| viewer.next_of("delays"))
        .find(|told| told["received"][0]["reports"] == 3);
    let received = received.unwrap();
    assert_eq!(received["unmeasured"], serde_json::json!([]));
    let late = &received["received"][0]["parents"][0];
    assert_eq!(
        (&late["node"], &late["last"], &late["behind_s"]),
        (&"b0".into(), &3.into(), &0.05.into())
    );
    grid.say(&Ask::Lateness(vec![grid.lateness(1 << 20)]));
    let told = std::iter::repeat_with(|| viewer.next_of("delays"))
        .find_map(|told| Some(told["late"].get(0)?.clone()))
        .unwrap();
    let latest = serde_json::json!({
        "node": "c1", "reports": 15, "listened_late": 2, "took_s": 0.31, "processor_wait_s": 0.002,
    });
    assert_eq!((&told["nodes"], &told["latest"][0]), (&15.into(), &latest));
    drop(program);
    let ended = std::iter::repeat_with(|| viewer.next_of("programs")["programs"][0].clone())
        .find(|told| told["ended_unix_s"].is_f64());
    assert_eq!(ended.unwrap()["reports"], 3);
}

#[test]
fn time_gained_is_told_by_programs_where_no_experiment_has_measured_native() {
    let (daemon, address) = with_page();
    let mut experiment = Client::experiment(&daemon, 7);
    let mut found = finding(0, 1 << 20, flat(0), 0.25);
    found.native = None;
    assert_eq!(experiment.connection.ask(&Ask::Publish(Box::new(found))).unwrap(), Answer::Done);
    let mut program = Client::application(&daemon);
    assert_eq!(program.connection.ask(&Ask::Register(group())).unwrap(), Answer::Done);
    for native_s in [Some(4.0), Some(3.0), None, None] {
        let carried = Broadcast { native_s, ..broadcast(0, 1 << 20, None) };
        program.slot.record(&carried, arborcast_proto::monotonic_ns());
    }
    program.connection.tell(&Ask::Ring).unwrap();
    let mut viewer = Updates::open(address);
    let uses =
        std::iter::repeat_with(|| viewer.next_of("programs")["programs"][0]["uses"][0].clone())
            .find(|uses| uses["native"] == 2);
    assert_eq!(uses.unwrap()["gained_s"], 5.5);
}

#[test]
fn what_binds_is_told_of_every_target_with_links() {
    let (daemon, address) = with_page();
    let mesh = grids::four_site_mesh();
    let mut grid = Grid::of_mesh(&daemon, &mesh);
    grid.measure(&mesh);
    grid.publish(0, 32 << 20, 3.0, true);
    let mut viewer = Updates::open(address);
    let row = std::iter::repeat_with(|| viewer.next_of("binds")[0].clone())
        .find(|row| row["bound_s"].is_f64());
    let row = row.unwrap();
    assert_eq!(row["is_latency"], false);
    assert!(row["all_doubled"]["predicted_times"].as_f64() > Some(1.1), "{row:#}");
}

#[test]
fn metrics_are_those_of_the_textfile() {
    let address = free_address();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("arborcast.prom");
    let daemon = Daemon::start(&[
        "--page-listen",
        &address.to_string(),
        "--metrics-textfile",
        file.to_str().unwrap(),
    ]);
    let _client = Client::application(&daemon);
    wait_for("the textfile", || file.exists());
    let names = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("# TYPE")).map(Into::into).collect()
    };
    let metrics = get(address, "/metrics");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(names(&metrics.body), names(&std::fs::read_to_string(&file).unwrap()));
    assert!(
        metrics.body.contains("arborcast_clients{role=\"application\"} 1\n"),
        "{}",
        metrics.body
    );
}

#[test]
fn connections_are_bounded_and_the_daemon_serves_on() {
    let (daemon, address) = with_page();
    let viewers: Vec<Updates> = (0..MAX_CONNECTIONS).map(|_| Updates::open(address)).collect();
    let full = get(address, "/");
    assert_eq!((full.status, full.header("retry-after")), (503, Some("10")), "{full:?}");
    assert_eq!(daemon.status().node.as_str(), "n0");
    drop(viewers);
    wait_for("seats to be free again", || get(address, "/").status == 200);
}

#[test]
fn a_connection_that_says_nothing_loses_its_seat() {
    let (_daemon, address) = with_page();
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(LONG)).unwrap();
    let mut answer = Vec::new();
    let _ = silent.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
}

#[test]
fn a_large_grid_is_told_by_site() {
    let (daemon, address) = with_page();
    let (mut grid, sites) = Grid::large(&daemon);
    for root in 0..20 {
        grid.publish(root, 1 << 20, 0.5, true);
    }
    let opened = Instant::now();
    let mut viewer = Updates::open(address);
    let groups = viewer.next_of("groups");
    let links = get(address, &format!("/links/{}", grid.group.hash()));
    let detail = get(address, &format!("/target/{}/0/10", grid.group.hash()));
    println!(
        "{} nodes: first view after {:?}; links {} kB, a target {} kB",
        grid.group.len(),
        opened.elapsed(),
        links.body.len() / 1000,
        detail.body.len() / 1000
    );
    assert_eq!(
        (&groups[0]["nodes"], &groups[0]["sites"]),
        (&grid.group.len().into(), &sites.into())
    );
    assert_eq!(links.json()["cells"].as_array().unwrap().len(), sites);
    assert!(links.body.len() < 400_000, "{}", links.body.len());
    assert!(detail.body.len() < 400_000, "{}", detail.body.len());
    while !viewer.next_of("binds")[0]["bound_s"].is_f64() {}
    println!("what binds a target is told after {:?}", opened.elapsed());
    assert_eq!(detail.json()["trees"][0]["text"], serde_json::Value::Null, "by site only");
}

/// Four viewers who ask for the target's detail at each change, as a page does; a plan a second.
#[test]
#[ignore = "a minute of observation"]
fn the_page_costs_less_than_a_hundredth_of_a_core() {
    let (shown, address) = with_page();
    let unseen = with_page().0;
    let off = Daemon::start(&[]);
    let mesh = grids::four_site_mesh();
    let mut grids = [&shown, &unseen, &off].map(|daemon| {
        let mut grid = Grid::of_mesh(daemon, &mesh);
        grid.measure(&mesh);
        grid.search(0, 1 << 20, 40);
        grid
    });
    let path = format!("/target/{}/0/10", grids[0].group.hash());
    for _ in 0..4 {
        let path = path.clone();
        let mut viewer = Updates::open(address);
        std::thread::spawn(move || {
            while let Some((name, _)) = viewer.next() {
                if name == "targets" {
                    let _ = send(
                        address,
                        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close"),
                    )
                    .read_to_end(&mut Vec::new());
                }
            }
        });
    }
    std::thread::sleep(Duration::from_secs(2));
    let daemons = [&shown, &unseen, &off];
    let before = daemons.map(|daemon| processor_time(daemon.pid()));
    let start = Instant::now();
    for second in 1..=OBSERVED_S {
        for grid in &mut grids {
            grid.publish(0, 1 << 20, 2.0 - 0.01 * f64::from(second), true);
        }
        std::thread::sleep((start + Duration::from_secs(second.into())) - Instant::now());
    }
    let elapsed = start.elapsed();
    let share = |(daemon, before): (&Daemon, Duration)| {
        (processor_time(daemon.pid()) - before).as_secs_f64() / elapsed.as_secs_f64()
    };
    let shares: Vec<f64> = daemons.into_iter().zip(before).map(share).collect();
    for (name, share) in
        ["four viewers", "a page that nobody looks at", "no page"].iter().zip(&shares)
    {
        println!("a plan a second, {name}: {:.3} % of a core", 100.0 * share);
    }
    assert!(shares[0] - shares[2] < 0.01, "{shares:?}");
    assert!(shares[1] - shares[2] < 0.0005, "nothing is made up for nobody: {shares:?}");
}
