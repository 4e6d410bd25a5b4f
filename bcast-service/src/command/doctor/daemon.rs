//! Whether the daemon runs, may be used, answers, and is of this version; and what it says.

use super::Finding;
use arborcast_proto::client::{ClientError, Connection};
use arborcast_proto::message::{
    Answer, Ask, FrameError, PROTOCOL_VERSION, Status, TargetStatus, TrialRecord,
};
use arborcast_proto::{Group, LinkMatrix};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

const CHECK: &str = "daemon";
/// A daemon that is not stuck answers in milliseconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// What a daemon says of itself.
pub struct Answers {
    pub status: Status,
    /// What it hands over as its board.
    pub board: OwnedFd,
    pub matrices: Vec<(Group, LinkMatrix)>,
    /// When the plan that was found last was measured first, in seconds since 1970, where it is known.
    pub newest_plan_unix_s: Option<f64>,
}

/// What was found, what the daemon says, and the exit code where it says nothing.
pub fn examine(socket: &Path) -> (Vec<Finding>, Option<Answers>, Option<u8>) {
    match ask(socket) {
        Ok(answers) => (vec![running(socket, &answers.status)], Some(answers), None),
        Err(error) => {
            let (meaning, to_do, exit_code) = explain(socket, &error);
            (vec![Finding::fault(CHECK, meaning, to_do)], None, Some(exit_code))
        }
    }
}

fn running(socket: &Path, status: &Status) -> Finding {
    let Status { version, daemon_pid, uptime, .. } = status;
    let uptime = humantime::format_duration(Duration::from_secs(uptime.as_secs()));
    let at = socket.display();
    let meaning =
        format!("arborcastd {version} answers at {at}, process {daemon_pid}, up {uptime}");
    match version.as_str() {
        env!("CARGO_PKG_VERSION") => Finding::ok(CHECK, meaning),
        _ => Finding::advice(
            CHECK,
            format!("{meaning}; this program is of version {}", env!("CARGO_PKG_VERSION")),
            "restart the daemon after an upgrade: systemctl restart arborcastd",
        ),
    }
}

fn ask(socket: &Path) -> Result<Answers, ClientError> {
    let mut connection = Connection::open(socket, ANSWER_LIMIT)?;
    let Answer::Status(status) = connection.ask(&Ask::Status)? else {
        return Err(ClientError::Unexpected);
    };
    let board = connection.board()?;
    let Answer::Matrices(matrices) = connection.ask(&Ask::Matrices)? else {
        return Err(ClientError::Unexpected);
    };
    let Answer::Targets(targets) = connection.ask(&Ask::Targets)? else {
        return Err(ClientError::Unexpected);
    };
    let mut newest_plan_unix_s: Option<f64> = None;
    for target in targets {
        let Answer::History(trials) = connection.ask(&Ask::History(target.target))? else {
            return Err(ClientError::Unexpected);
        };
        let found_s = found_unix_s(&target, &trials);
        newest_plan_unix_s = newest_plan_unix_s.into_iter().chain(found_s).reduce(f64::max);
    }
    Ok(Answers { status: *status, board, matrices, newest_plan_unix_s })
}

fn found_unix_s(target: &TargetStatus, trials: &[TrialRecord]) -> Option<f64> {
    let plan = &target.finding.as_ref()?.plan;
    Some(trials.iter().find(|trial| trial.plan == *plan)?.unix_s)
}

/// What it means that the daemon could not be asked, what to do, and the exit code.
fn explain(socket: &Path, error: &ClientError) -> (String, String, u8) {
    let at = socket.display();
    let no_daemon = |meaning: String, to_do: &str| (meaning, to_do.to_owned(), 3);
    match error {
        error if error.is_time_out() => (
            format!("nothing answers at {at} within {ANSWER_LIMIT:?}: the daemon is stopped, frozen or overloaded"),
            "see what holds it (`systemctl status arborcastd`, its process's state), then `systemctl restart arborcastd`; plans are kept".into(),
            5,
        ),
        ClientError::Connect { source, .. } => match source.kind() {
            ErrorKind::NotFound => no_daemon(
                format!("there is no socket at {at}: no daemon runs here, or it uses another socket"),
                "systemctl enable --now arborcastd, or name its socket with --socket or ARBORCAST_SOCKET",
            ),
            ErrorKind::ConnectionRefused => no_daemon(
                format!("the daemon that made {at} is gone without removing it: it was killed"),
                "systemctl restart arborcastd; `journalctl -u arborcastd` tells why it ended",
            ),
            ErrorKind::PermissionDenied => no_daemon(
                format!("this user may not use {at}{}", owner(socket)),
                "become a member of that group and log in anew, or have the daemon's `group` set to one of yours",
            ),
            _ => no_daemon(format!("{at}: {source}"), "name the daemon's socket with --socket"),
        },
        ClientError::Frame(FrameError::Version(version)) => (
            format!("the daemon at {at} speaks version {version} of the protocol, this program {PROTOCOL_VERSION}"),
            "restart the daemon after an upgrade (systemctl restart arborcastd), or use the programs of its installation".into(),
            5,
        ),
        error => (
            format!("what answers at {at} is no daemon of this version: {error}"),
            "restart the daemon after an upgrade (systemctl restart arborcastd), or use the programs of its installation".into(),
            5,
        ),
    }
}

/// Whose a socket is; nothing where its folder may not be looked into.
fn owner(socket: &Path) -> String {
    let Ok(metadata) = socket.metadata() else {
        return ", and not look into its folder".into();
    };
    let group = nix::unistd::Group::from_gid(metadata.gid().into()).ok().flatten();
    let group = group.map_or_else(|| metadata.gid().to_string(), |group| group.name);
    format!(" (mode {:o}, group {group})", metadata.permissions().mode() & 0o777)
}
