//! The hosts' kernels are set as the topology says, whatever the machine's are.

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
