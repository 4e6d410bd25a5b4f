//! The hosts' kernels are set as the topology says, whatever the machine's are.

use std::fs;
use std::path::Path;

use gridlab::{Hosts, Lab, Options, Topology};

use crate::support::*;

/// What a host of a lab with these `hosts` says of itself.
fn settings(hosts: Option<Hosts>) -> Vec<String> {
    let topology = Topology::load(grid_file("two-sites.toml")).unwrap();
    let hosts = hosts.unwrap_or_else(|| topology.hosts.clone());
    let lab = Lab::up(Topology { hosts, ..topology }, Options::default()).unwrap();
    let tcp = |name: &str| format!("/proc/sys/net/ipv4/tcp_{name}");
    let files = ["rmem", "wmem", "slow_start_after_idle", "no_metrics_save"].map(tcp);
    let mut cat = lab.exec("east1", "cat").unwrap();
    cat.args(files).arg("/sys/class/net/tun0/mtu");
    let output = cat.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    String::from_utf8(output.stdout).unwrap().lines().map(words).collect()
}

#[test]
fn hosts_are_as_the_kernel_comes_unless_the_file_says_otherwise() {
    let _alone = Alone::wait();
    let usual = ["4096 131072 6291456", "4096 16384 4194304", "1", "0", "1500"];
    assert_eq!(settings(None), usual);
    let tuned = ["4096 524288 33554432", "4096 524288 33554432", "0", "1", "9000"];
    assert_eq!(settings(Some(Hosts::tuned())), tuned);
}

/// Of a lab that is asked for `tcp`: what it says it has, and what a connection has.
fn said_and_used(tcp: &str) -> [String; 2] {
    let options = Options { tcp: Some(tcp.to_owned()), ..Options::default() };
    let lab = Lab::up(grid("two-sites.toml"), options).unwrap_or_else(|e| panic!("{e}"));
    let stream = finish_stream(start_stream(&lab, "east1", "west1", 0.1));
    [lab.status().unwrap().tcp, stream.tcp]
}

#[test]
fn connections_have_the_congestion_control_that_was_asked_for() {
    let _alone = Alone::wait();
    // Reno is in every kernel, CUBIC in nearly all; no machine prefers both.
    for tcp in ["reno", "cubic"] {
        assert_eq!(said_and_used(tcp), [tcp; 2]);
    }
}

/// The scheduler's groups of a process that a host starts in a session of its own, as launchers of MPI do.
fn groups_of_a_session(lab: &Lab) -> String {
    let output = lab
        .exec("east1", "setsid")
        .unwrap()
        .args(["-w", "cat", "/proc/self/cgroup"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn processes_of_all_hosts_are_one_group_of_the_scheduler() {
    let _alone = Alone::wait();
    let own = ["/sys/fs/cgroup/cpu/gridlab", "/sys/fs/cgroup/gridlab"].map(Path::new);
    let parents = own.map(|group| group.parent().unwrap());
    let lab = Lab::up(grid("two-sites.toml"), Options::default()).unwrap();
    let groups = groups_of_a_session(&lab);
    let may = parents.iter().any(|parent| {
        let weight = ["cpu.shares", "cpu.weight"].map(|file| parent.join(file));
        let of_the_scheduler = weight.iter().any(|file| file.exists());
        of_the_scheduler && rustix::fs::access(*parent, rustix::fs::Access::WRITE_OK).is_ok()
    });
    assert!(!may || groups.lines().any(|line| line.ends_with(":/gridlab")), "{groups}");
    lab.down().unwrap();
    let left = own.into_iter().filter(|group| group.exists());
    // Those of other labs may be in it.
    let empty = |group: &&Path| fs::read_to_string(group.join("cgroup.procs")).unwrap().is_empty();
    assert_eq!(left.filter(empty).count(), 0);
}
