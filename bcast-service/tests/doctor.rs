//! `arborcast doctor` on a node on which all is well, and on one with each fault that it is to find.

mod harness;

use arborcast_proto::hold::Phase;
use arborcast_proto::message::{Answer, Ask, FRAME_HEADER_BYTES, PROTOCOL_VERSION, Role, to_frame};
use arborcast_proto::segment::LAYOUT_VERSION;
use arborcast_proto::{LinkMatrix, Plan};
use harness::*;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A node that has all that Arborcast needs, and what a fault changes of it.
struct Node {
    daemon: Daemon,
    experiment: Option<Client>,
    application: Option<Client>,
    /// Below it: `root`, where /proc and the like are looked for; `bin`, the PATH; `lib`.
    place: TempDir,
    library: PathBuf,
    /// As whom, and of which group, `arborcast doctor` is called.
    uid: Option<u32>,
}

impl Node {
    fn healthy() -> Self {
        let daemon = Daemon::start(&[]);
        let experiment = Client::experiment(&daemon, 1);
        let place = tempfile::tempdir().unwrap();
        let library = place.path().join("libarborcast.so");
        let node = Node {
            daemon,
            experiment: Some(experiment),
            application: None,
            place,
            library,
            uid: None,
        };
        node.configure("group = \"0\"\n");
        for (name, text) in [
            ("proc/sys/net/ipv4/tcp_congestion_control", "bbr"),
            ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "0"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t67108864"),
            ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t67108864"),
            ("proc/sys/net/ipv4/tcp_mtu_probing", "0"),
            ("sys/class/net/eth0/operstate", "up"),
            ("sys/class/net/eth0/mtu", "1500"),
            ("sys/class/net/eth0/speed", "1000"),
        ] {
            node.set(name, text);
        }
        fs::create_dir_all(node.root().join("dev")).unwrap();
        symlink("/dev/shm", node.root().join("dev/shm")).unwrap();
        node.install_mpi("mpirun (Open MPI) 5.0.11");
        node.install_library(&versions(PROTOCOL_VERSION));
        node
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("root")
    }

    fn config(&self) -> PathBuf {
        self.place.path().join("arborcastd.toml")
    }

    /// What the configuration says beside where things are.
    fn configure(&self, text: &str) {
        self.configure_in(&self.daemon.state_directory(), &self.daemon.socket(), text);
    }

    fn configure_in(&self, state_directory: &Path, socket: &Path, text: &str) {
        let prefix = &self.daemon.prefix;
        let text = format!(
            "state_directory = {state_directory:?}\nsocket = {socket:?}\nsegment_prefix = {prefix:?}\n{text}"
        );
        fs::write(self.config(), text).unwrap();
    }

    /// Writes a file below the root.
    fn set(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn install_mpi(&self, version: &str) {
        let launcher = self.place.path().join("bin/mpirun");
        fs::create_dir_all(launcher.parent().unwrap()).unwrap();
        fs::write(&launcher, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        fs::set_permissions(launcher, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A library that says this of its versions.
    fn install_library(&self, versions: &str) {
        self.compile(&format!("const char *arborcast_versions(void) {{ return \"{versions}\"; }}"));
    }

    fn compile(&self, source: &str) {
        let file = self.place.path().join("library.c");
        fs::write(&file, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).args([&self.library, &file]);
        assert!(compiler.status().unwrap().success(), "cc links Rust programs, too");
    }

    fn doctor(&self, arguments: &[&str]) -> Output {
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_arborcast"));
        if self.uid.is_some() {
            // Where others may look.
            let copy = self.place.path().join("arborcast");
            fs::copy(program, &copy).unwrap();
            fs::set_permissions(self.place.path(), PermissionsExt::from_mode(0o755)).unwrap();
            program = copy;
        }
        let mut command = Command::new(program);
        command.env("ARBORCAST_SOCKET", self.daemon.socket());
        command.env("PATH", self.place.path().join("bin"));
        command.arg("doctor").arg("--root").arg(self.root());
        command.arg("--config").arg(self.config()).arg("--library").arg(&self.library);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command.args(arguments).output().unwrap()
    }

    /// The findings that are not `ok`, and the exit code.
    fn findings(&self) -> (Vec<Value>, i32) {
        let output = self.doctor(&["--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = answer["findings"].as_array().unwrap().clone();
        let count = |level: &str| findings.iter().filter(|f| f["level"] == level).count();
        assert_eq!(
            (&answer["faults"], &answer["advice"]),
            (&count("fault").into(), &count("advice").into())
        );
        let found = findings.into_iter().filter(|finding| finding["level"] != "ok").collect();
        (found, output.status.code().unwrap())
    }
}

fn versions(protocol: u16) -> String {
    format!(
        "arborcast {} header 4 layout {LAYOUT_VERSION} protocol {protocol}",
        env!("CARGO_PKG_VERSION")
    )
}

/// A fault, and what is to be said of it: the check and its level, words of the meaning, words of what is
/// to be done, the exit code.
struct Planted {
    plant: fn(&mut Node),
    check: &'static str,
    level: &'static str,
    meaning: &'static str,
    to_do: &'static str,
    exit_code: i32,
}

const fn fault(
    plant: fn(&mut Node),
    check: &'static str,
    meaning: &'static str,
    to_do: &'static str,
) -> Planted {
    Planted { plant, check, level: "fault", meaning, to_do, exit_code: 1 }
}

const fn advice(
    plant: fn(&mut Node),
    check: &'static str,
    meaning: &'static str,
    to_do: &'static str,
) -> Planted {
    Planted { level: "advice", exit_code: 0, ..fault(plant, check, meaning, to_do) }
}

/// Each alone on a node on which all else is well.
fn examine(all: &[Planted]) {
    for Planted { plant, check, level, meaning, to_do, exit_code } in all {
        let mut node = Node::healthy();
        plant(&mut node);
        let (findings, code) = node.findings();
        assert_eq!(findings.len(), 1, "{meaning}: {findings:#?}");
        let finding = &findings[0];
        assert_eq!((&finding["check"], &finding["level"]), (&(*check).into(), &(*level).into()));
        for (key, words) in [("meaning", meaning), ("to_do", to_do)] {
            assert!(finding[key].as_str().unwrap().contains(words), "{words}: {finding:#}");
        }
        assert_eq!(code, *exit_code, "{finding:#}");
    }
}

fn links(node: &Node, one_way_latency_s: f64, bytes_per_s: f64) {
    let matrix = LinkMatrix::new(4, vec![one_way_latency_s; 16], vec![bytes_per_s; 16]).unwrap();
    node.daemon.ask(&Ask::Links(group(), matrix));
}

#[test]
fn where_all_is_well_nothing_is_advised() {
    let node = Node::healthy();
    let (findings, code) = node.findings();
    assert_eq!((findings.len(), code), (0, 0), "{findings:#?}");
    let text = String::from_utf8(node.doctor(&[]).stdout).unwrap();
    assert!(text.ends_with("faults: 0, advice: 0\n"), "{text}");
    for words in ["arborcastd", "Open MPI 5.0.11", "headers 4", "congestion control is bbr"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    node.set("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1");
    let text = String::from_utf8(node.doctor(&[]).stdout).unwrap();
    let line = text.lines().find(|line| line.trim_start().starts_with("advice")).unwrap();
    assert!(line.contains("→ sysctl -w net.ipv4.tcp_slow_start_after_idle=0"), "{line}");
}

#[test]
fn a_daemon_that_does_not_serve_is_found() {
    examine(&[
        Planted {
            exit_code: 3,
            ..fault(
                |node| drop(node.daemon.terminate()),
                "daemon",
                "no daemon runs here",
                "systemctl enable --now arborcastd",
            )
        },
        Planted {
            exit_code: 3,
            ..fault(|node| node.daemon.kill(), "daemon", "it was killed", "journalctl")
        },
        Planted {
            exit_code: 5,
            ..fault(
                |node| node.daemon.signal(Signal::STOP),
                "daemon",
                "stopped, frozen or overloaded",
                "systemctl restart arborcastd",
            )
        },
        Planted {
            exit_code: 5,
            ..fault(
                |node| {
                    node.daemon.terminate();
                    answer_in_another_version(&node.daemon.socket());
                },
                "daemon",
                "speaks version 99",
                "restart the daemon after an upgrade",
            )
        },
    ]);
}

/// One connection at `socket`, whose every message is of version 99.
fn answer_in_another_version(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut frame = to_frame(&Answer::Done).unwrap();
        frame[FRAME_HEADER_BYTES - 2..FRAME_HEADER_BYTES].copy_from_slice(&99u16.to_le_bytes());
        stream.read_exact(&mut [0; FRAME_HEADER_BYTES]).unwrap();
        stream.write_all(&frame).unwrap();
    });
}

#[test]
fn who_may_not_use_the_daemon_is_told_so() {
    let mut node = Node::healthy();
    // Permissions do not hold root up.
    match rustix::process::geteuid().is_root() {
        true => node.uid = Some(65534),
        false => {
            fs::set_permissions(node.daemon.socket(), PermissionsExt::from_mode(0o000)).unwrap();
        }
    }
    let (findings, code) = node.findings();
    let found = findings.iter().find(|finding| finding["check"] == "daemon").unwrap();
    assert!(found["meaning"].as_str().unwrap().contains("this user may not use"), "{found:#}");
    assert!(found["to_do"].as_str().unwrap().contains("member of that group"), "{found:#}");
    assert_eq!(code, 3);
}

#[test]
fn configuration_and_rights() {
    examine(&[
        fault(
            |node| node.configure("lingr = \"1s\"\n"),
            "configuration",
            "lingr",
            "arborcastd --check-config --config",
        ),
        fault(
            |node| fs::remove_file(node.config()).unwrap(),
            "configuration",
            "cannot be read",
            "--check-config",
        ),
        advice(
            |node| {
                let state_directory = node.daemon.state_directory();
                node.configure_in(
                    &state_directory,
                    Path::new("/run/other.sock"),
                    "group = \"0\"\n",
                );
            },
            "configuration",
            "/run/other.sock",
            "ARBORCAST_SOCKET=/run/other.sock",
        ),
        advice(
            |node| node.configure(""),
            "configuration",
            "no `group` is set",
            "restart the daemon",
        ),
    ]);
}

#[test]
fn shared_memory_and_batch_system() {
    examine(&[
        fault(
            |node| {
                fs::remove_file(node.root().join("dev/shm")).unwrap();
                // A file system that has room for nothing.
                symlink("/proc", node.root().join("dev/shm")).unwrap();
            },
            "shared memory",
            "too little for a board",
            "mount -o remount,size=",
        ),
        fault(
            |node| fs::remove_file(node.root().join("dev/shm")).unwrap(),
            "shared memory",
            "cannot be used",
            "mount a tmpfs",
        ),
        fault(
            |node| {
                node.set("etc/slurm/slurm.conf", "JobContainerType=job_container/tmpfs");
                let socket = node.daemon.socket();
                let folder = socket.parent().unwrap().display();
                let text = format!("BasePath=/var/nvme Dirs=/dev/shm,{folder}");
                node.set("etc/slurm/job_container.conf", &text);
            },
            "batch system",
            "of its own (job_container/tmpfs): programs do not see",
            "out of Dirs in job_container.conf",
        ),
    ]);
    let node = Node::healthy();
    node.set("etc/slurm/slurm.conf", "JobContainerType=job_container/tmpfs");
    node.set("etc/slurm/job_container.conf", "AutoBasePath=true BasePath=/var/nvme Dirs=/dev/shm");
    assert_eq!(node.findings().1, 0, "the board needs no name that programs see");
}

#[test]
fn library_and_mpi() {
    examine(&[
        fault(|node| node.library = "/no/such.so".into(), "library", "does not exist", "--library"),
        fault(
            |node| fs::write(&node.library, "no library").unwrap(),
            "library",
            "libarborcast.so",
            "`arborcast run` starts no program",
        ),
        fault(
            |node| node.compile("int another_library;"),
            "library",
            "does not tell its versions",
            "of one version",
        ),
        fault(
            |node| node.install_library(&versions(PROTOCOL_VERSION + 1)),
            "library",
            "broadcast natively",
            "of one version",
        ),
        advice(
            |node| fs::remove_dir_all(node.place.path().join("bin")).unwrap(),
            "MPI",
            "cannot be asked",
            "module",
        ),
        advice(|node| node.install_mpi("Some MPI 7"), "MPI", "not known", "ARBORCAST_VERBOSE=1"),
        fault(
            |node| node.install_mpi("mpirun (Open MPI) 1.10.7"),
            "MPI",
            "another ABI",
            "Open MPI 4 or newer",
        ),
    ]);
}

#[test]
fn the_experiment() {
    examine(&[
        fault(
            |node| {
                node.experiment = None;
                node.configure("group = \"0\"\n[experiment]\nlaunch = \"mpirun job\"\n");
                wait_for("the experiment to be gone", || node.daemon.status().epoch.is_none());
            },
            "experiment",
            "`mpirun job`",
            "journalctl",
        ),
        advice(
            |node| {
                node.experiment = None;
                wait_for("the experiment to be gone", || node.daemon.status().epoch.is_none());
            },
            "experiment",
            "no job is connected",
            "[experiment] launch",
        ),
        advice(
            |node| {
                node.daemon.ask(&Ask::Pause);
                let experiment = node.experiment.as_ref().unwrap();
                wait_for("the stop", || experiment.phase() == Phase::Quiet);
            },
            "experiment",
            "paused",
            "arborcast resume",
        ),
        advice(
            |node| {
                let application = Client::hello(&node.daemon, Role::Application);
                application.slot.count_hold_timeout();
                node.application = Some(application);
            },
            "experiment",
            "1 of 0 broadcasts",
            "stuck or overloaded",
        ),
    ]);
    let node = Node::healthy();
    let mut connection = node.daemon.connect();
    connection.ask(&Ask::Trial(Box::new(trial(1, 1 << 20, 1, 0.5)))).unwrap();
    connection.ask(&Ask::Publish(Box::new(finding(1, 1 << 20, flat(1), 0.5)))).unwrap();
    connection.ask(&Ask::Publish(Box::new(finding(1, 1, Plan::Native, 2.0)))).unwrap();
    let text = String::from_utf8(node.doctor(&[]).stdout).unwrap();
    // The trial says that it is of 2001.
    assert!(text.contains("2 plans, the newest found 2"), "{text}");
    assert!(text.contains("years"), "{text}");
}

#[test]
fn wisdom_and_its_disk() {
    examine(&[
        fault(
            |node| fs::write(node.daemon.wisdom(), "ARBWISDM and then?").unwrap(),
            "wisdom",
            "this program reads version",
            "sets the file aside",
        ),
        fault(
            |node| fs::create_dir(node.daemon.wisdom()).unwrap(),
            "wisdom",
            "nothing that is learned is saved",
            "every 30 s",
        ),
        fault(
            |node| {
                let socket = node.daemon.socket();
                node.configure_in(Path::new("/no/such"), &socket, "group = \"0\"\n");
            },
            "wisdom",
            "plans do not survive",
            "StateDirectory=",
        ),
        fault(
            |node| {
                let socket = node.daemon.socket();
                // A file system that has room for nothing.
                node.configure_in(Path::new("/proc"), &socket, "group = \"0\"\n");
            },
            "wisdom",
            "too little for another wisdom file",
            "make room",
        ),
        advice(
            |node| {
                let wisdom = node.daemon.wisdom();
                fs::write(format!("{}.damaged-17", wisdom.display()), "").unwrap();
            },
            "wisdom",
            ".damaged-17",
            "disk's health",
        ),
    ]);
}

#[test]
fn what_tcp_could_do_better() {
    examine(&[
        advice(
            |node| node.set("proc/sys/net/ipv4/tcp_congestion_control", "cubic"),
            "TCP",
            "cubic",
            "tcp_congestion_control=bbr",
        ),
        advice(
            |node| node.set("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1"),
            "TCP",
            "after a pause",
            "tcp_slow_start_after_idle=0",
        ),
        advice(
            |node| node.set("proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456"),
            "TCP",
            "windows of 3.146 MB, and 1 Gbit/s over 100 ms",
            "tcp_rmem=\"4096 131072 33554432\"",
        ),
        advice(
            |node| node.set("proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304"),
            "TCP",
            "windows of 2.097 MB",
            "tcp_wmem=\"4096 16384 33554432\"",
        ),
        // 100 MB/s over 1 s there and back, and a quarter more. Both buffers are too small for that.
        advice(
            |node| {
                links(node, 0.5, 100e6);
                node.set("proc/sys/net/ipv4/tcp_rmem", "4096 131072 268435456");
            },
            "TCP",
            "the measured links need 125 MB",
            "tcp_wmem=\"4096 16384 268435456\"",
        ),
        advice(|node| node.set("sys/class/net/eth0/mtu", "1400"), "TCP", "1400 bytes", "mtu 1500"),
        advice(
            |node| node.set("sys/class/net/eth0/speed", "25000"),
            "TCP",
            "25000 Mbit/s",
            "mtu 9000",
        ),
        advice(
            |node| node.set("sys/class/net/eth0/mtu", "9000"),
            "TCP",
            "connections hang",
            "tcp_mtu_probing=1",
        ),
    ]);
    let node = Node::healthy();
    node.set("proc/sys/net/ipv4/tcp_congestion_control", "cubic");
    links(&node, 50e-6, 1e9);
    assert_eq!(node.findings().0.len(), 0, "a grid of short links needs nothing");
}
