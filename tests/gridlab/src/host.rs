//! A node as a host of its own: network, UTS and mount namespace with a TUN interface, private
//! /run and /dev/shm, and an /etc/hosts that knows every node.
//!
//! Nothing but descriptors of the forwarding process keeps a host in being: no bind mount, no holder
//! process. So when the forwarder dies, however it dies, its hosts vanish with the last process
//! that runs inside them.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;

use crate::congestion;
use crate::sys;
use crate::topology::{Hosts, TcpSettings, Topology};

/// The name of every node's network interface.
pub const INTERFACE: &str = "tun0";
/// All nodes of a lab are in one network, as MPIs expect of hosts that reach each other directly.
pub const PREFIX: u8 = 8;
/// Tells which lab a process belongs to: a file in every node's private /run.
pub const MARK: &str = "/run/gridlab.lab";
/// Where MPI launchers find their remote-shell agent, a link to the `gridlab` program.
pub const AGENT: &str = "/run/gridlab-agent";

/// The namespaces of a node and the queue of its interface.
pub struct Host {
    pub tun: OwnedFd,
    pub net: OwnedFd,
    pub uts: OwnedFd,
    pub mnt: OwnedFd,
    /// The congestion control of its TCP.
    pub tcp: String,
}

/// What all hosts of a lab have in common.
pub struct Common {
    pub mark: String,
    /// The folder of all labs' state, visible in every host so that `gridlab` works there.
    pub state_root: PathBuf,
    pub exe: PathBuf,
    pub hosts_file: String,
}

/// A step that failed while a host was made.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
pub struct HostError {
    pub step: String,
    pub source: io::Error,
}

trait Step<T> {
    fn step(self, step: impl Into<String>) -> Result<T, HostError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T, HostError> {
        self.map_err(|source| HostError { step: step.into(), source: source.into() })
    }
}

/// The address of a node: `10.site.high.low`, counted from 1.
pub fn address(topology: &Topology, node: usize) -> Ipv4Addr {
    let site = topology.nodes[node].site;
    let place = topology.nodes[..node].iter().filter(|n| n.site == site).count();
    Ipv4Addr::new(10, site as u8 + 1, (place / 250) as u8, (place % 250) as u8 + 1)
}

/// The lab's /etc/hosts.
pub fn hosts_file(topology: &Topology) -> String {
    let mut text = String::from("127.0.0.1 localhost\n");
    for (index, node) in topology.nodes.iter().enumerate() {
        text.push_str(&format!("{} {}\n", address(topology, index), node.name));
    }
    text
}

/// Puts the calling process into a user namespace of its own, as its root, in which it may make
/// hosts. The process must have a single thread.
pub fn enter_user_namespace() -> Result<(), HostError> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    sys::unshare(UnshareFlags::NEWUSER).step(
        "cannot make a user namespace (run as root, or allow them: see \
         /proc/sys/user/max_user_namespaces, /proc/sys/kernel/unprivileged_userns_clone and \
         /proc/sys/kernel/apparmor_restrict_unprivileged_userns)",
    )?;
    let write = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    write("setgroups", "deny".into()).step("writing /proc/self/setgroups")?;
    write("uid_map", format!("0 {uid} 1")).step("writing /proc/self/uid_map")?;
    write("gid_map", format!("0 {gid} 1")).step("writing /proc/self/gid_map")
}

/// Makes the host of one node. Runs on a thread of its own, since the thread stays in the host.
pub fn make(topology: &Topology, node: usize, common: &Common) -> Result<Host, HostError> {
    let spawned =
        std::thread::scope(|scope| scope.spawn(|| make_here(topology, node, common)).join());
    spawned.unwrap_or_else(|_| {
        Err(HostError { step: "making a host".into(), source: io::Error::other("panicked") })
    })
}

fn make_here(topology: &Topology, node: usize, common: &Common) -> Result<Host, HostError> {
    let name = &topology.nodes[node].name;
    sys::unshare(UnshareFlags::NEWNET | UnshareFlags::NEWUTS | UnshareFlags::NEWNS).step(
        "cannot make network, UTS and mount namespaces (run as root, or where user \
             namespaces are allowed)",
    )?;
    rustix::system::sethostname(name.as_bytes()).step("setting the host name")?;
    mounts(common)?;
    let (tun, tcp) = network(address(topology, node), &topology.hosts)?;
    let open = |kind: &str| {
        let path = format!("/proc/thread-self/ns/{kind}");
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).step(path)
    };
    Ok(Host { tun, net: open("net")?, uts: open("uts")?, mnt: open("mnt")?, tcp })
}

/// Gives the host its own /run, /dev/shm, /sys and /etc/hosts.
fn mounts(common: &Common) -> Result<(), HostError> {
    let private = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).step("making mounts private")?;
    let state = rustix::fs::open(
        &common.state_root,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .step(common.state_root.display().to_string())?;
    sys::mount("tmpfs", "/run", "tmpfs", "mode=0755").step("mounting a private /run")?;
    sys::mount("tmpfs", "/dev/shm", "tmpfs", "mode=1777").step("mounting a private /dev/shm")?;
    if common.state_root.starts_with("/run") {
        fs::create_dir_all(&common.state_root).step(common.state_root.display().to_string())?;
        rustix::mount::mount_bind(fd_path(&state).as_path(), &common.state_root)
            .step("showing the labs' state in the host")?;
    }
    // Programs list interfaces in /sys/class/net, which shows the namespace it was mounted in.
    // Without root this may be refused, and only such programs miss it.
    let _ = sys::mount("sysfs", "/sys", "sysfs", "");
    fs::create_dir_all("/run/lock").step("/run/lock")?;
    fs::write(MARK, &common.mark).step(MARK)?;
    std::os::unix::fs::symlink(&common.exe, AGENT).step(AGENT)?;
    fs::write("/run/hosts", &common.hosts_file).step("/run/hosts")?;
    rustix::mount::mount_bind("/run/hosts", "/etc/hosts").step("replacing /etc/hosts")
}

fn fd_path(fd: &OwnedFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    Path::new("/proc/thread-self/fd").join(fd.as_raw_fd().to_string())
}

/// Settings of TCP, below /proc/sys/net/ipv4. A new namespace has some of the machine's, not the kernel's.
fn tcp_settings(tcp: TcpSettings) -> [(&'static str, &'static str); 4] {
    match tcp {
        TcpSettings::Default => [
            ("tcp_rmem", "4096 131072 6291456"),
            ("tcp_wmem", "4096 16384 4194304"),
            ("tcp_no_metrics_save", "0"),
            ("tcp_slow_start_after_idle", "1"),
        ],
        // Room for a window of 100 Mbit/s × 300 ms and more, at once. Each connection starts alike: no
        // memory of earlier ones, and no restart after a pause.
        TcpSettings::Tuned => [
            ("tcp_rmem", "4096 524288 33554432"),
            ("tcp_wmem", "4096 524288 33554432"),
            ("tcp_no_metrics_save", "1"),
            ("tcp_slow_start_after_idle", "0"),
        ],
    }
}

/// Sets up the host's interfaces and its TCP.
fn network(address: Ipv4Addr, hosts: &Hosts) -> Result<(OwnedFd, String), HostError> {
    sys::configure_interface("lo", Ipv4Addr::LOCALHOST, 8, None).step("switching lo on")?;
    let setting = |name: &str, value: &str| {
        // A kernel built without one of these is still a usable host.
        let _ = fs::write(format!("/proc/sys/net/{name}"), value);
    };
    setting("ipv6/conf/default/disable_ipv6", "1");
    for (name, value) in tcp_settings(hosts.tcp) {
        setting(&format!("ipv4/{name}"), value);
    }
    setting("ipv4/ping_group_range", "0 0");
    let tun = sys::open_tun(INTERFACE).step(
        "cannot make a TUN device (is /dev/net/tun there, readable and writable for you, and is \
         the kernel's `tun` module loaded?)",
    )?;
    let mtu_bytes = Some(hosts.mtu_bytes);
    sys::configure_interface(INTERFACE, address, PREFIX, mtu_bytes).step("configuring tun0")?;
    let chosen = hosts.congestion_control.as_deref();
    let name = chosen.unwrap_or(congestion::USUAL);
    let own = match (congestion::choose(INTERFACE, address, PREFIX, name), chosen) {
        (Ok(()), _) => name.to_owned(),
        (refused, Some(_)) => {
            refused.step(format!("TCP cannot have the congestion control `{name}`"))?;
            name.to_owned()
        }
        (Err(_), None) => congestion::of_namespace().step("asking for TCP's congestion control")?,
    };
    Ok((tun, own))
}
