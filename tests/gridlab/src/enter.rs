//! Becoming a process of a node: `gridlab exec` and the remote-shell agent of MPI launchers.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::scheduling;
use crate::state::{self, Record, StateError};

const SSH_PORT: u16 = 22;
/// A host that does not answer for so long is down.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Why a node can't be entered.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    #[error(transparent)]
    State(#[from] StateError),
    #[error("cannot enter {node} ({step}): {source}")]
    Namespace { node: String, step: String, source: io::Error },
    #[error("cannot run `{program}`: {source}")]
    Run { program: String, source: io::Error },
    #[error("the remote-shell agent expects a host and a command, as ssh does")]
    AgentUsage,
    #[error("{host} does not answer: {source}")]
    Unreachable { host: String, source: io::Error },
}

/// Moves the calling process, which must have a single thread, into a node of a lab. Keeps the
/// working folder where it exists there.
pub fn enter(lab: &str, node: &str) -> Result<(), EnterError> {
    let record = Record::of(lab)?;
    let host = record.host(node)?;
    let failed = |step: String| {
        let node = node.to_owned();
        move |e: rustix::io::Errno| EnterError::Namespace { node, step, source: e.into() }
    };
    let open = |path: String| -> Result<OwnedFd, EnterError> {
        rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(failed(path))
    };
    let of_forwarder = |fd: i32| open(format!("/proc/{}/fd/{fd}", record.pid));
    let net = of_forwarder(host.net_fd)?;
    let uts = of_forwarder(host.uts_fd)?;
    let mnt = of_forwarder(host.mnt_fd)?;
    let user_path = format!("/proc/{}/ns/user", record.pid);
    let user = (fs::read_link(&user_path).ok() != fs::read_link("/proc/self/ns/user").ok())
        .then(|| open(user_path))
        .transpose()?;
    // Now, since a host has its own /sys.
    scheduling::join();
    let folder = std::env::current_dir();
    let join = |fd: &OwnedFd, kind: LinkNameSpaceType| {
        move_into_link_name_space(fd.as_fd(), Some(kind)).map_err(failed(format!("{kind:?}")))
    };
    if let Some(user) = user {
        join(&user, LinkNameSpaceType::User)?;
    }
    join(&net, LinkNameSpaceType::Network)?;
    join(&uts, LinkNameSpaceType::HostNameAndNISDomainName)?;
    join(&mnt, LinkNameSpaceType::Mount)?;
    if folder.is_ok_and(|f| std::env::set_current_dir(f).is_err()) {
        let _ = std::env::set_current_dir("/");
    }
    Ok(())
}

/// Runs a command inside a node in place of the calling process; returns only where that fails.
pub fn exec(lab: &str, node: &str, command: &[OsString]) -> EnterError {
    let state_root = state::root();
    if let Err(error) = enter(lab, node) {
        return error;
    }
    let Some((program, arguments)) = command.split_first() else { return EnterError::AgentUsage };
    let source = Command::new(program)
        .args(arguments)
        .env("GRIDLAB_LAB", lab)
        .env("GRIDLAB_NODE", node)
        .env("GRIDLAB_STATE", state_root)
        .exec();
    EnterError::Run { program: program.to_string_lossy().into_owned(), source }
}

/// What `ssh [options] HOST COMMAND…` does, for the launchers of MPIs: the command's words are
/// joined and read by a shell on the host. Options without a value are skipped.
pub fn agent(lab: &str, arguments: &[OsString]) -> EnterError {
    let mut words = arguments.iter().skip_while(|a| a.to_string_lossy().starts_with('-'));
    let (Some(host), rest) = (words.next(), words) else { return EnterError::AgentUsage };
    let mut line = OsString::new();
    for word in rest {
        if !line.is_empty() {
            line.push(" ");
        }
        line.push(word);
    }
    if line.is_empty() {
        return EnterError::AgentUsage;
    }
    let host = host.to_string_lossy();
    if let Err(source) = reach(&host) {
        return EnterError::Unreachable { host: host.into_owned(), source };
    }
    exec(lab, &host, &["/bin/sh".into(), "-c".into(), line])
}

/// Whether a host answers over the network, as that of ssh has to; nobody listens there.
fn reach(host: &str) -> io::Result<()> {
    let address = (host, SSH_PORT).to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
    match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => Err(error),
        _ => Ok(()),
    }
}
