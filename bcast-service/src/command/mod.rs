//! The operator's command: each submodule answers one kind of question, as text or as JSON.

pub mod doctor;
mod explain;
mod history;
pub(crate) mod json;
mod matrix;
pub mod plan;
pub mod run;
mod select;
pub mod settings;
mod targets;
pub mod top;
mod trees;
mod wisdom;

use arborcast_proto::client::{ClientError, Connection};
use arborcast_proto::message::{Answer, Ask, Status, TargetStatus};
use arborcast_proto::{Spending, Spent};
use comfy_table::{Cell, CellAlignment, Table, presets};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use doctor::{Doctor, doctor};
pub use explain::explain;
pub use history::history;
pub use matrix::matrix;
pub use plan::{PlanError, plan};
pub use select::{NoSuchTarget, TargetName, parse_size};
pub use targets::targets;
pub use top::top;
pub use trees::{TreeFormat, trees};
pub use wisdom::{FileError, export, import, merge};

/// No operator waits longer for a daemon.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error(
        "no daemon at {path}: {source}; start it with `systemctl start arborcastd` or \
         `arborcastd --socket {path}`, or name another socket with --socket"
    )]
    NoDaemon { path: PathBuf, source: std::io::Error },
    #[error(
        "the daemon at {path} may not be used by this user: {source}; join the group that its \
         configuration names, or be root"
    )]
    NoAccess { path: PathBuf, source: std::io::Error },
    #[error(
        "the daemon does not answer: it is stopped, frozen or overloaded; see `systemctl status arborcastd`, or \
         restart it"
    )]
    Silent,
    #[error("the daemon refuses: {0}")]
    Refused(arborcast_proto::message::Refusal),
    #[error(transparent)]
    Target(#[from] NoSuchTarget),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("a terminal is needed: {0}")]
    Terminal(std::io::Error),
    #[error(transparent)]
    Other(ClientError),
}

impl CommandError {
    /// 1: there is no such target; 2: the command line, or a file it names, cannot be used; 3: no daemon; 4: the daemon refuses; 5: it does not answer, or
    /// is of another version.
    pub fn exit_code(&self) -> u8 {
        match self {
            CommandError::Target(_) => 1,
            CommandError::Plan(_) | CommandError::File(_) | CommandError::Terminal(_) => 2,
            CommandError::NoDaemon { .. } | CommandError::NoAccess { .. } => 3,
            CommandError::Refused(_) => 4,
            CommandError::Silent | CommandError::Other(_) => 5,
        }
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(refusal) => CommandError::Refused(refusal),
            silent if silent.is_time_out() => CommandError::Silent,
            ClientError::Connect { path, source }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                CommandError::NoAccess { path, source }
            }
            ClientError::Connect { path, source } => CommandError::NoDaemon { path, source },
            other => CommandError::Other(other),
        }
    }
}

/// The daemon, as commands see it.
pub struct Daemon {
    connection: Connection,
}

impl Daemon {
    /// # Errors
    /// `NoDaemon` or `NoAccess`.
    pub fn open(socket: &Path) -> Result<Self, CommandError> {
        Ok(Daemon { connection: Connection::open(socket, ANSWER_LIMIT)? })
    }

    fn ask<T>(
        &mut self,
        ask: &Ask,
        take: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<T, CommandError> {
        let answer = self.connection.ask(ask)?;
        Ok(take(answer).ok_or(ClientError::Unexpected)?)
    }

    fn status(&mut self) -> Result<Status, CommandError> {
        self.ask(&Ask::Status, |answer| match answer {
            Answer::Status(status) => Some(*status),
            _ => None,
        })
    }

    fn targets(&mut self) -> Result<Vec<TargetStatus>, CommandError> {
        self.ask(&Ask::Targets, |answer| match answer {
            Answer::Targets(targets) => Some(targets),
            _ => None,
        })
    }

    /// Asks for something to be done.
    ///
    /// # Errors
    /// Where the daemon refuses.
    pub fn tell(&mut self, ask: &Ask) -> Result<(), CommandError> {
        self.ask(ask, |answer| (answer == Answer::Done).then_some(()))
    }
}

/// What the daemon and its experiment are doing.
///
/// # Errors
/// Where the daemon does not answer.
pub fn status(daemon: &mut Daemon, as_json: bool) -> Result<String, CommandError> {
    let status = daemon.status()?;
    if as_json {
        return Ok(json::print(&json::status(&status)));
    }
    let Status { node, site, version, daemon_pid, .. } = &status;
    let experiment = match (json::state(status.experiment), status.epoch) {
        (state, Some(epoch)) => format!("{state} (epoch {epoch})"),
        (state, None) => state.to_owned(),
    };
    let uptime = humantime::format_duration(Duration::from_secs(status.uptime.as_secs()));
    let mut table = table(&[]);
    for (name, value) in [
        ("node", format!("{node} (site {site})")),
        ("daemon", format!("arborcastd {version}, process {daemon_pid}, up {uptime}")),
        ("experiment", experiment),
        ("applications", format!("{}, holds {}", status.applications, status.holds)),
        ("broadcasts", status.broadcasts.to_string()),
        ("hold timeouts", status.hold_timeouts.to_string()),
        ("plans", format!("{}, from {} trials", status.plans, status.trials)),
    ] {
        table.add_row([name, &value]);
    }
    for (name, value) in status.spending.iter().flat_map(spending) {
        table.add_row([name, &value]);
    }
    Ok(print_table(&table))
}

/// What the experiment's measurements have cost, and what of that an operator allows.
fn spending(spending: &Spending) -> [(&'static str, String); 2] {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let cost = |spent: Spent| format!("{:.1} s, {}", spent.seconds, megabytes(spent.bytes));
    let kinds = spending.kinds().map(|(kind, spent)| format!("{kind} {}", cost(spent)));
    let Spent { seconds, bytes } = spending.all();
    let part = |all: f64| if spending.job_s > 0.0 { all / spending.job_s } else { 0.0 };
    let at_most =
        |limit: Option<String>| limit.map_or(String::new(), |limit| format!(" (at most {limit})"));
    let time_share = at_most(spending.time_share.map(|share| format!("{:.1} %", 100.0 * share)));
    let bytes_per_hour = at_most(spending.bytes_per_hour.map(megabytes));
    let an_hour = megabytes((part(bytes as f64) * 3600.0) as u64);
    let share = 100.0 * part(seconds);
    let all = format!("{share:.1} % of its time{time_share}, {an_hour} an hour{bytes_per_hour}");
    [("measured", kinds.join("; ")), ("in all", all)]
}

/// Forgets one target, or all.
///
/// # Errors
/// Where there is no such target, or the daemon refuses.
pub fn forget(daemon: &mut Daemon, target: Option<&TargetName>) -> Result<(), CommandError> {
    let target = match target {
        Some(name) => Some(name.only(&daemon.targets()?)?.target),
        None => None,
    };
    daemon.tell(&Ask::Forget(target))
}

/// A table without lines; columns after the first are numbers more often than not.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !header.is_empty() {
        table.set_header(header.iter().map(Cell::new));
    }
    table
}

/// With a line end, and without blanks before each.
fn print_table(table: &Table) -> String {
    format!("{}\n", table.trim_fmt())
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}
