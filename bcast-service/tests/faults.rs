//! What happens when processes are killed, files are damaged and peers talk nonsense.

mod harness;

use arborcast_proto::client::Connection;
use arborcast_proto::hold::Phase;
use arborcast_proto::message::{
    Answer, Ask, ExperimentState, PROTOCOL_VERSION, Refusal, Role, to_frame,
};
use arborcast_proto::segment::BookEntry;
use arborcast_proto::wisdom::Wisdom;
use harness::*;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// This test program as a process of its own that claims the network and stays.
fn holder(daemon: &Daemon) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold_for_another_test", "--nocapture"])
        .env("HOLD_AT", daemon.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the other process to hold", || {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended");
        daemon.status().holds == 1
    });
    child
}

#[test]
fn hold_for_another_test() {
    let Some(socket) = std::env::var_os("HOLD_AT") else { return };
    let mut connection = Connection::open(socket.as_ref(), LONG).unwrap();
    let slot = connection.hello(Role::Application).unwrap();
    let slot = arborcast_proto::segment::Slot::open(&slot).unwrap();
    let board = arborcast_proto::segment::BoardView::open(connection.board().unwrap()).unwrap();
    let _ = slot.claim(board.experiment());
    connection.tell(&Ask::Ring).unwrap();
    // Until the other test closes the pipe, or kills this process.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_client_killed_while_it_holds_frees_its_hold() {
    let daemon = Daemon::start(&[]);
    let mut child = holder(&daemon);
    let experiment = Client::experiment(&daemon, 1);
    assert_eq!(experiment.phase(), Phase::Quiet);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the experiment to run", || experiment.phase() == Phase::Running);
    assert_eq!(daemon.status().applications, 0);
}

#[test]
fn a_killed_daemon_is_replaced_and_its_leavings_with_it() {
    let mut daemon = Daemon::start(&[]);
    let mut application = Client::application(&daemon);
    let experiment = Client::experiment(&daemon, 1);
    assert_eq!(experiment.phase(), Phase::Running);
    daemon.kill();
    assert!(!application.claim(Duration::from_millis(50)), "the old board says running for ever");
    wait_for("the application to notice", || application.connection.is_closed());
    assert!(daemon.socket().exists(), "a stale socket");
    daemon.restart();
    let mut again = Client::application(&daemon);
    assert!(again.claim(Duration::ZERO));
    assert_eq!(daemon.status().experiment, ExperimentState::None);
    daemon.terminate();
}

#[test]
fn the_end_of_a_daemon_wakes_waiters_and_leaves_nothing_behind() {
    let mut daemon = Daemon::start(&["--hold-wait-max", "60s"]);
    let mut experiment = Client::experiment(&daemon, 1);
    assert!(experiment.enter());
    let mut application = Client::application(&daemon);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| application.claim(LONG));
        wait_for("the stop", || experiment.phase() == Phase::Stopping);
        daemon.terminate();
        assert!(waiter.join().unwrap(), "the waiter was woken and found the word quiet");
    });
    assert_eq!(daemon.shared_memory(), Vec::<String>::new());
    let left = std::fs::read_dir(daemon.socket().parent().unwrap()).unwrap().count();
    assert_eq!(left, 0, "socket and lock are gone");
}

#[test]
fn a_second_daemon_is_refused_on_the_same_socket_and_on_the_same_wisdom() {
    let daemon = Daemon::start(&[]);
    let second = |change: &[&str]| {
        let output = daemon.command().args(change).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text) = second(&["--segment-prefix", "arborcast-test-other"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("another daemon"), "{text}");
    let elsewhere = daemon.directory.path().join("elsewhere");
    let (code, text) = second(&["--socket", elsewhere.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{text}");
    assert_eq!(daemon.status().daemon_pid, daemon.pid(), "the first one serves on");
    daemon.board();
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    format!("{}.{ending}", path.display()).into()
}

#[test]
fn a_daemon_whose_socket_lock_or_board_is_removed_starts_anew_with_what_it_knows() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut daemon = Daemon::start(&["--page-listen", &format!("127.0.0.1:{port}")]);
    let mut experiment = Client::experiment(&daemon, 1);
    let plan = Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5)));
    assert_eq!(experiment.connection.ask(&plan).unwrap(), Answer::Done);
    drop(experiment);
    let socket = daemon.socket();
    let beside = |ending| beside(&socket, ending);
    let board = |daemon: &Daemon| format!("/dev/shm/{}", daemon.shared_memory()[0]).into();
    for lost in [socket.clone(), beside("lock"), beside("board"), board(&daemon)] {
        let lost = if lost.starts_with("/dev/shm") { board(&daemon) } else { lost };
        let client = Client::application(&daemon);
        std::fs::remove_file(&lost).unwrap();
        wait_for("the connection to be closed", || client.connection.is_closed());
        wait_for("the daemon to answer", || Connection::open(&socket, LONG).is_ok());
        assert_eq!(daemon.status().daemon_pid, daemon.pid(), "{}", lost.display());
        assert_eq!(daemon.status().plans, 1);
        daemon.board();
        assert_eq!(daemon.shared_memory().len(), 1);
    }
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    daemon.terminate();
    assert_eq!(daemon.shared_memory(), Vec::<String>::new());
    assert_eq!(std::fs::read_dir(socket.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn a_daemon_in_whose_place_another_one_is_ends_and_leaves_it_alone() {
    let mut daemon = Daemon::start(&[]);
    daemon.signal(Signal::STOP);
    std::fs::remove_file(beside(&daemon.socket(), "lock")).unwrap();
    let state = daemon.directory.path().join("elsewhere");
    let mut second = daemon.command().arg("--state-directory").arg(&state).spawn().unwrap();
    let serves = || {
        let connection = Connection::open(&daemon.socket(), Duration::from_millis(100));
        let answer = connection.and_then(|mut connection| connection.ask(&Ask::Status));
        matches!(answer, Ok(Answer::Status(status)) if status.daemon_pid == second.id())
    };
    wait_for("the second daemon to serve", serves);
    daemon.signal(Signal::CONT);
    let status = daemon.wait();
    assert_eq!(status.code(), Some(3));
    assert_eq!(second.try_wait().unwrap(), None);
    assert_eq!(daemon.status().daemon_pid, second.id());
    daemon.board();
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_removed_lock_on_the_wisdom_is_taken_again() {
    let daemon = Daemon::start(&[]);
    let lock = beside(&daemon.wisdom(), "lock");
    std::fs::remove_file(&lock).unwrap();
    let mut experiment = Client::experiment(&daemon, 1);
    let plan = Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5)));
    assert_eq!(experiment.connection.ask(&plan).unwrap(), Answer::Done);
    wait_for("the lock", || lock.exists());
    wait_for("the plan in the file", || {
        Wisdom::load(&daemon.wisdom()).is_ok_and(|wisdom| wisdom.plans.len() == 1)
    });
}

#[test]
fn nobody_can_keep_a_daemon_from_starting_by_names_in_shared_memory() {
    let mut daemon = Daemon::prepare(&[]);
    // What even root does not remove as a file.
    let squatted =
        ["board", "desk", "lock"].map(|what| format!("/dev/shm/{}-{what}", daemon.prefix));
    squatted.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    daemon.restart();
    let first = daemon.shared_memory();
    assert_eq!(first.len(), 1);
    daemon.kill();
    daemon.restart();
    let second = daemon.shared_memory();
    squatted.iter().for_each(|path| std::fs::remove_dir(path).unwrap());
    assert_eq!(second.len(), 1, "the leftover of the first is gone: {second:?}");
    assert_ne!(first, second, "nobody can know the name beforehand");
}

#[test]
fn wisdom_survives_a_restart_and_a_kill() {
    let mut daemon = Daemon::start(&[]);
    let mut experiment = Client::experiment(&daemon, 9);
    let ask = |experiment: &mut Client, ask: Ask| experiment.connection.ask(&ask).unwrap();
    for number in 1..=3 {
        let trial = trial(0, 1 << 20, number, 1.0 / f64::from(number));
        ask(&mut experiment, Ask::Trial(Box::new(trial)));
    }
    ask(&mut experiment, Ask::Publish(Box::new(finding(0, 1 << 20, flat(0), 0.5))));
    let target = target(0, 1 << 20);
    let known = |daemon: &Daemon| {
        let Answer::History(trials) = daemon.ask(&Ask::History(target)) else { panic!() };
        (daemon.board().plan(target), trials.len(), daemon.status().plans)
    };
    let expected = (
        Some(BookEntry { plan: flat(0), median_s: 0.5, is_measured: true, native_s: Some(2.0) }),
        3,
        1,
    );
    assert_eq!(known(&daemon), expected);
    daemon.terminate();
    daemon.restart();
    assert_eq!(known(&daemon), expected);

    // A change, saved while running, then a kill.
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1 << 20, flat(0), 0.4))));
    wait_for("the save", || {
        Wisdom::load(&daemon.wisdom()).unwrap().plans[0].finding.times.median_s == 0.4
    });
    daemon.kill();
    daemon.restart();
    assert_eq!(known(&daemon).0.unwrap().median_s, 0.4);
}

#[test]
fn damaged_wisdom_is_set_aside_with_a_warning() {
    let mut daemon = Daemon::prepare(&[]);
    std::fs::create_dir_all(daemon.state_directory()).unwrap();
    std::fs::write(daemon.wisdom(), b"ARBWISDM and then nonsense").unwrap();
    daemon.restart();
    assert_eq!(daemon.status().plans, 0);
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    let log = daemon.terminate();
    assert!(log.contains("set aside"), "{log}");
    let names: Vec<String> = std::fs::read_dir(daemon.state_directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().any(|name| name.contains(".damaged-")), "{names:?}");
    assert_eq!(Wisdom::load(&daemon.wisdom()).unwrap().plans.len(), 1);
}

#[test]
fn wisdom_that_cannot_be_read_is_not_written_over() {
    let mut daemon = Daemon::start(&[]);
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    daemon.terminate();
    // A link to itself can be read by nobody, not even root, and replaced by everybody.
    let (wisdom, aside) = (daemon.wisdom(), daemon.directory.path().join("aside"));
    std::fs::rename(&wisdom, &aside).unwrap();
    std::os::unix::fs::symlink(&wisdom, &wisdom).unwrap();
    daemon.restart();
    daemon.ask(&Ask::Publish(Box::new(finding(1, 1, flat(1), 0.5))));
    assert_eq!(daemon.status().plans, 1, "it serves on");
    std::thread::sleep(Duration::from_millis(2500));
    let log = daemon.terminate();
    assert!(log.contains("cannot be read"), "{log}");
    assert!(wisdom.is_symlink(), "it has been written over");
    // When it can be read again before the end, what is new is added to it.
    daemon.restart();
    daemon.ask(&Ask::Publish(Box::new(finding(1, 1, flat(1), 0.5))));
    std::fs::rename(&aside, &wisdom).unwrap();
    daemon.terminate();
    let targets = |wisdom: Wisdom| -> Vec<_> {
        wisdom.plans.iter().map(|plan| plan.finding.target()).collect()
    };
    assert_eq!(targets(Wisdom::load(&wisdom).unwrap()), [target(0, 1), target(1, 1)]);
    // When it is gone, there is nothing to spare.
    std::fs::remove_file(&wisdom).unwrap();
    std::os::unix::fs::symlink(&wisdom, &wisdom).unwrap();
    daemon.restart();
    daemon.ask(&Ask::Publish(Box::new(finding(2, 1, flat(2), 0.5))));
    std::fs::remove_file(&wisdom).unwrap();
    daemon.terminate();
    assert_eq!(targets(Wisdom::load(&wisdom).unwrap()), [target(2, 1)]);
}

#[test]
fn without_the_lock_on_its_wisdom_a_daemon_saves_nothing_until_it_has_it() {
    let mut daemon = Daemon::prepare(&[]);
    let wisdom = daemon.wisdom();
    let lock = wisdom.with_added_extension("lock");
    // What nobody can open for writing, as if the directory were read-only.
    std::fs::create_dir_all(&lock).unwrap();
    daemon.restart();
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    let log = daemon.terminate();
    assert!(log.contains("nothing is saved"), "{log}");
    assert!(!wisdom.exists());
    daemon.restart();
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    std::fs::remove_dir(&lock).unwrap();
    // Meanwhile the file belongs to another daemon.
    let socket = daemon.directory.path().join("another/daemon.sock");
    let mut command = daemon.command();
    let mut other = command.args(["--socket", socket.to_str().unwrap()]).spawn().unwrap();
    wait_for("the other daemon", || {
        let published = Ask::Publish(Box::new(finding(1, 1, flat(1), 0.5)));
        let connection = Connection::open(&socket, LONG);
        connection.is_ok_and(|mut connection| connection.ask(&published).is_ok())
    });
    let pid = rustix::process::Pid::from_raw(other.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(other.wait().unwrap().success());
    daemon.terminate();
    let targets: Vec<_> =
        Wisdom::load(&wisdom).unwrap().plans.iter().map(|plan| plan.finding.target()).collect();
    assert_eq!(targets, [target(0, 1), target(1, 1)]);
    assert!(!lock.exists());
    // The lock of a daemon that was killed goes also where there is nothing to save.
    std::fs::create_dir(&lock).unwrap();
    daemon.restart();
    std::fs::remove_dir(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    daemon.terminate();
    assert!(!lock.exists());
}

#[test]
fn a_disk_that_takes_nothing_is_survived() {
    let mut daemon = Daemon::prepare(&[]);
    // A directory in the place of the file that is written before the rename: even root fails.
    let mut staged = daemon.wisdom().into_os_string();
    staged.push(".new");
    std::fs::create_dir_all(staged).unwrap();
    daemon.restart();
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(daemon.status().plans, 1, "it serves on");
    let log = daemon.terminate();
    assert!(log.contains("cannot be saved"), "{log}");
}

#[test]
fn nonsense_on_the_socket_ends_the_connection_and_nothing_else() {
    let daemon = Daemon::start(&[]);
    let mut wrong_version = to_frame(&Ask::Status).unwrap();
    wrong_version[4] ^= 0xff;
    let mut wrong_body = to_frame(&Ask::Status).unwrap();
    wrong_body.iter_mut().skip(6).for_each(|byte| *byte = 0xff);
    let [low, high] = PROTOCOL_VERSION.to_le_bytes();
    let too_long = [0xff, 0xff, 0xff, 0xff, low, high].to_vec();
    for bytes in [wrong_version, wrong_body, too_long, vec![0x55; 4096]] {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(&bytes).unwrap();
        // Closed, or reset where the daemon did not read all.
        assert!(!matches!(stream.read(&mut [0; 64]), Ok(1..)), "an answer to nonsense");
    }
    // A frame that never ends holds up nobody, and is not waited for without end. Nor is one that never
    // begins, but for who has said something before.
    let mut silent = Client::application(&daemon);
    let begun = [&[0, 0, 1, 0, low, high, 7][..], &[0], &[]];
    let unfinished = begun.map(|bytes| {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    });
    assert_eq!(daemon.status().plans, 0);
    for mut stream in unfinished {
        assert!(matches!(stream.read(&mut [0; 64]), Ok(0)), "still open");
    }
    assert!(silent.connection.ask(&Ask::Status).is_ok());
}

#[test]
fn invalid_findings_are_refused_with_a_reason() {
    let daemon = Daemon::start(&[]);
    let generation = daemon.board().generation();
    for (bad, word) in [
        (finding(0, 1, flat(1), 0.5), "root"),
        (finding(0, 1, flat(0), 3.0), "better"),
        (finding(7, 1, arborcast_proto::Plan::Native, 0.5), "root"),
    ] {
        match daemon.connect().ask(&Ask::Publish(Box::new(bad))) {
            Err(arborcast_proto::client::ClientError::Refused(Refusal::Invalid(text))) => {
                assert!(text.contains(word), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(daemon.board().generation(), generation, "the book is as it was");
}

#[test]
fn another_user_may_look_but_not_decide() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let daemon = Daemon::start(&["--group", "65534"]);
    let mode = std::fs::metadata(daemon.socket()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    std::fs::set_permissions(daemon.directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // A copy that another user may execute, wherever this tree lies.
    let program = daemon.directory.path().join("arborcast");
    std::fs::copy(env!("CARGO_BIN_EXE_arborcast"), &program).unwrap();
    let as_nobody = |group: u32, arguments: &[&str]| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&program);
        command.uid(65534).gid(group).args(arguments).current_dir("/");
        let output = command.arg("--socket").arg(daemon.socket()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(as_nobody(65534, &["status"]).0, Some(0));
    let (code, text) = as_nobody(65534, &["pause"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("root"), "{text}");
    let (code, text) = as_nobody(4711, &["status"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("group"), "{text}");
}

#[test]
fn a_log_that_nobody_takes_does_not_stop_the_daemon() {
    // Nobody reads the daemon's standard error: a line for each message fills the pipe soon.
    let daemon = Daemon::start(&["--log", "trace"]);
    let mut connection = daemon.connect();
    for _ in 0..3000 {
        connection.ask(&Ask::Pause).unwrap();
        let _ = connection.ask(&Ask::Publish(Box::new(finding(7, 1, flat(1), 0.5))));
    }
    assert_eq!(daemon.status().plans, 0, "it answers");
}

#[test]
fn nothing_that_the_caller_left_open_is_kept_open() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let launch = format!("ulimit -n > {}; sleep 1000", started.display());
    let mut daemon = Daemon::prepare(&["--experiment-launch", &launch]);
    daemon.limit_descriptors(1024);
    // As a shell leaves it: not closed when another program takes over.
    rustix::io::fcntl_setfd(&writer, rustix::io::FdFlags::empty()).unwrap();
    daemon.restart();
    drop(writer);
    let limit = || std::fs::read_to_string(&started).unwrap_or_default();
    wait_for("the job", || limit().ends_with('\n'));
    assert_eq!(limit(), "1024\n", "the daemon's own limit is not the job's");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(reader.read(&mut [0])));
    let end = receiver.recv_timeout(LONG).expect("the daemon or its job has the pipe open");
    assert_eq!(end.unwrap(), 0);
    daemon.terminate();
}

#[test]
fn a_launcher_that_only_sleeps_is_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let runs = directory.path().join("runs");
    let launch = format!("echo run >> {}; exec sleep 1000", runs.display());
    let limit = ["--experiment-start-wait-max", "100ms"];
    let mut daemon = Daemon::start(&[&["--experiment-launch", &launch], &limit[..]].concat());
    let count = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
    wait_for("another launch", || count() > 1);
    let log = daemon.terminate();
    assert!(log.contains("start_wait_max"), "{log}");
}

#[test]
fn sighup_reads_the_configuration_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("arborcastd.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("linger = \"1h\"\nlog = \"info\"");
    let mut daemon = Daemon::start(&["--config", file.to_str().unwrap()]);
    let experiment = Client::experiment(&daemon, 1);
    let mut application = Client::application(&daemon);
    daemon.ask(&Ask::Pause);
    assert!(application.claim(Duration::from_secs(2)));
    application.release(Some(&broadcast(0, 1, None)));
    daemon.ask(&Ask::Resume);
    assert_eq!(daemon.status().holds, 1, "it lingers for an hour");
    write("linger = \"nonsense\"");
    daemon.signal(Signal::HUP);
    write("linger = \"1ms\"\nlog = \"info\"");
    daemon.signal(Signal::HUP);
    wait_for("the shorter linger", || experiment.phase() == Phase::Running);
    let log = daemon.terminate();
    assert!(log.contains("read again"), "{log}");
}

#[test]
fn systemd_is_told_and_the_experiment_job_is_started_and_ended() {
    let directory = tempfile::tempdir().unwrap();
    let notify = directory.path().join("notify");
    let inbox = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    inbox.set_read_timeout(Some(LONG)).unwrap();
    let next = || {
        let mut bytes = [0; 256];
        let len = inbox.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let runs = directory.path().join("runs");
    let launch = format!("echo $$ >> {}; sleep 1000", runs.display());
    let mut daemon = Daemon::prepare(&["--experiment-launch", &launch]);
    daemon.set_variable("NOTIFY_SOCKET", notify.to_str().unwrap());
    daemon.set_variable("WATCHDOG_USEC", "200000");
    daemon.restart();
    assert!(next().contains("READY=1"));
    assert!(next().contains("WATCHDOG=1"));
    let job = || std::fs::read_to_string(&runs).unwrap_or_default();
    wait_for("the job", || job().ends_with('\n'));
    let pid = rustix::process::Pid::from_raw(job().trim().parse().unwrap()).unwrap();
    daemon.terminate();
    assert!(rustix::process::test_kill_process(pid).is_err(), "the job ended with the daemon");
    while !next().contains("STOPPING=1") {}
}
