//! What another account of the machine can do to a daemon and its clients, as docs/security.md says. A
//! thread of the test program takes that account: the kernel asks who a thread is, and so does the daemon.
//! Only root can do so; for others each test steps aside with a line.

mod harness;

use arborcast_proto::LinkMatrix;
use arborcast_proto::client::{ClientError, Connection};
use arborcast_proto::hold::Phase;
use arborcast_proto::message::{
    Ask, ExperimentState, MAX_APPLICATION_BODY_BYTES, PROTOCOL_VERSION, Refusal, Role,
};
use arborcast_proto::segment::Slot;
use arborcast_proto::{Group, NodeName, Spending};
use harness::*;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MEMBERS: u32 = 4711;

#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

/// Of the daemon's `group`.
const MEMBER: Account = Account { uid: 65_533, gid: MEMBERS };
const OTHER_MEMBER: Account = Account { uid: 65_532, gid: MEMBERS };
/// Just somebody on the machine.
const STRANGER: Account = Account { uid: 65_534, gid: 65_534 };

/// Does something as another account, in a thread that has that account alone.
fn as_account<T: Send>(account: Account, act: impl FnOnce() -> T + Send) -> T {
    let run = || {
        let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// A daemon for the members' group, in folders that everybody can look into.
fn prepare(flags: &[&str]) -> Option<Daemon> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let group = MEMBERS.to_string();
    let daemon = Daemon::prepare(&[&["--group", &group], flags].concat());
    fs::set_permissions(daemon.directory.path(), Permissions::from_mode(0o755)).unwrap();
    Some(daemon)
}

fn start(flags: &[&str]) -> Option<Daemon> {
    let mut daemon = prepare(flags)?;
    daemon.restart();
    Some(daemon)
}

/// Another process of root's that has a slot; the tests' own threads may look at one another.
fn client_process(daemon: &Daemon) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "be_a_client_for_another_test", "--nocapture"])
        .env("CLIENT_AT", daemon.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the other process", || daemon.status().applications == 1);
    child
}

#[test]
fn be_a_client_for_another_test() {
    let Some(socket) = std::env::var_os("CLIENT_AT") else { return };
    let mut connection = Connection::open(socket.as_ref(), LONG).unwrap();
    let _slot = connection.hello(Role::Application).unwrap();
    // Until the other end is closed.
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn is_denied<T>(result: std::io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn to_write(path: &Path) -> std::io::Result<File> {
    File::options().write(true).open(path)
}

/// Everything that is for the daemon's user and root.
fn decisions() -> Vec<Ask> {
    let matrix = LinkMatrix::new(4, vec![0.01; 16], vec![1e6; 16]).unwrap();
    vec![
        Ask::Hello(Role::Experiment { epoch: u64::MAX }),
        Ask::Publish(Box::new(finding(0, 1, flat(0), 0.1))),
        Ask::Trial(Box::new(trial(0, 1, 1, 0.1))),
        Ask::Links(group(), matrix),
        Ask::Network(group(), Vec::new()),
        Ask::Lateness(Vec::new()),
        Ask::Spending(Spending::default()),
        Ask::Deliveries,
        Ask::Pause,
        Ask::Resume,
        Ask::Forget(None),
        Ask::Export,
        Ask::Import(Vec::new()),
    ]
}

#[test]
fn another_user_cannot_change_a_plan() {
    let Some(mut daemon) = start(&[]) else { return };
    daemon.ask(&Ask::Publish(Box::new(finding(0, 1, flat(0), 0.5))));
    // With its wisdom on disk.
    daemon.terminate();
    daemon.restart();
    let board = daemon.board();
    let (plan, generation) = (board.plan(target(0, 1)), board.generation());
    assert!(plan.is_some());
    let segment = Path::new("/dev/shm").join(&daemon.shared_memory()[0]);
    for account in [STRANGER, MEMBER] {
        as_account(account, || {
            assert!(is_denied(File::open(&segment)), "who may read it is handed it");
            for path in [segment.as_path(), &daemon.wisdom()] {
                assert!(is_denied(to_write(path)), "{}", path.display());
                assert!(fs::remove_file(path).is_err(), "{}", path.display());
                let mode = Permissions::from_mode(0o666);
                assert!(fs::set_permissions(path, mode).is_err(), "{}", path.display());
            }
            let run = daemon.socket();
            assert!(is_denied(fs::write(run.with_file_name("daemon.sock.board"), "forged")));
            assert!(is_denied(fs::remove_file(&run)));
        });
    }
    let refused = as_account(STRANGER, || Connection::open(&daemon.socket(), LONG).err());
    assert!(
        matches!(&refused, Some(ClientError::Connect { source, .. })
            if source.kind() == ErrorKind::PermissionDenied),
        "{refused:?}"
    );
    as_account(MEMBER, || {
        for ask in decisions() {
            let answer = daemon.connect().ask(&ask);
            assert!(
                matches!(answer, Err(ClientError::Refused(Refusal::NotAllowed))),
                "{ask:?}: {answer:?}"
            );
        }
    });
    assert_eq!((board.plan(target(0, 1)), board.generation()), (plan, generation));
    assert_eq!(daemon.status().experiment, ExperimentState::None, "neither a job nor paused");
    assert_eq!((daemon.status().plans, daemon.status().trials), (1, 0));
}

#[test]
fn another_user_cannot_look_into_a_program_or_its_slot() {
    let Some(daemon) = start(&[]) else { return };
    let mut client = client_process(&daemon);
    assert_eq!(daemon.shared_memory().len(), 1, "a slot has no name that could be opened");
    let processes = [client.id(), daemon.pid()];
    for account in [STRANGER, MEMBER] {
        as_account(account, || {
            for pid in processes {
                let process = Path::new("/proc").join(pid.to_string());
                for folder in ["fd", "map_files"] {
                    assert!(is_denied(fs::read_dir(process.join(folder))), "{pid}/{folder}");
                }
                for file in ["mem", "environ"] {
                    assert!(is_denied(File::open(process.join(file))), "{pid}/{file}");
                }
            }
        });
    }
    client.stdin.take();
    assert!(client.wait().unwrap().success());
}

#[test]
fn another_user_cannot_stop_a_daemon() {
    let Some(mut daemon) = prepare(&[]) else { return };
    // Room for a hundred connections.
    daemon.limit_descriptors_for_good(264);
    daemon.restart();
    let pid = Pid::from_raw(daemon.pid().cast_signed()).unwrap();
    for account in [STRANGER, MEMBER] {
        as_account(account, || {
            for signal in [Signal::TERM, Signal::KILL, Signal::STOP, Signal::HUP] {
                assert_eq!(kill_process(pid, signal), Err(rustix::io::Errno::PERM));
            }
        });
    }
    let hoard = |account| {
        as_account(account, || {
            let mut kept = Vec::new();
            for _ in 0..200 {
                let mut connection = daemon.connect();
                if connection.hello(Role::Application).is_ok() {
                    kept.push(connection);
                }
            }
            kept
        })
    };
    let kept = hoard(MEMBER);
    assert!((10..=60).contains(&kept.len()), "{} of 100 connections", kept.len());
    let of_another = hoard(OTHER_MEMBER);
    assert!(of_another.len() >= 10, "{} are left for another one", of_another.len());
    assert_eq!(daemon.status().applications as usize, kept.len() + of_another.len());
    drop((kept, of_another));
    wait_for("the slots to be given back", || daemon.status().applications == 0);
}

#[test]
fn another_user_cannot_hold_experiments_for_ever() {
    let Some(daemon) = start(&["--hold-max", "300ms", "--linger", "1ms"]) else { return };
    let experiment = Client::experiment(&daemon, 1);
    let (_connection, slot) = as_account(MEMBER, || {
        let mut connection = daemon.connect();
        let slot = connection.hello(Role::Application).unwrap();
        (connection, Slot::open(&slot).unwrap())
    });
    wait_for("the experiment", || experiment.phase() == Phase::Running);
    // Claimed, and said to be used at a time that never passes.
    let _ = slot.claim(experiment.board.experiment());
    slot.record(&broadcast(0, 1, None), u64::MAX);
    daemon.connect().tell(&Ask::Ring).unwrap();
    wait_for("the stop", || experiment.phase() == Phase::Quiet);
    wait_for("the hold to be forgotten", || experiment.phase() == Phase::Running);
}

/// The most memory that a process has had, in bytes.
fn peak_bytes(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[test]
fn another_user_cannot_make_the_daemon_take_memory_without_limit() {
    const CONNECTIONS: usize = 64;
    let Some(daemon) = start(&[]) else { return };
    let before = peak_bytes(daemon.pid());
    as_account(MEMBER, || {
        // Messages of the longest kind that never end: 288 MB of them.
        let body = vec![0; MAX_APPLICATION_BODY_BYTES - 1];
        let mut header = (MAX_APPLICATION_BODY_BYTES as u32).to_le_bytes().to_vec();
        header.extend(PROTOCOL_VERSION.to_le_bytes());
        let hello = arborcast_proto::message::to_frame(&Ask::Hello(Role::Application)).unwrap();
        let streams: Vec<UnixStream> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = UnixStream::connect(daemon.socket()).unwrap();
                stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
                stream.write_all(&hello).unwrap();
                stream
            })
            .collect();
        wait_for("the welcomes", || daemon.status().applications as usize == CONNECTIONS);
        for mut stream in &streams {
            // Fails where the daemon has closed it, which is what most come to.
            let _ = stream.write_all(&header).and_then(|()| stream.write_all(&body));
        }
        wait_for("most to be closed", || (daemon.status().applications as usize) < CONNECTIONS / 4);
    });
    as_account(MEMBER, || {
        // More names than are kept: 60 MB of them.
        let mut connection = daemon.connect();
        connection.hello(Role::Application).unwrap();
        for number in 0..250 {
            let name = |i| NodeName::new(format!("{number:030}{i:030}")).unwrap();
            let group = Group::new((0..4000).map(name).collect()).unwrap();
            connection.ask(&Ask::Register(group)).unwrap();
        }
    });
    let taken = peak_bytes(daemon.pid()) - before;
    assert!(taken < 64 << 20, "{} MB", taken >> 20);
    assert_eq!(daemon.status().plans, 0, "it serves on");
}
