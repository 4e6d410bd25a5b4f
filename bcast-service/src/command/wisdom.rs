//! `arborcast export`, `import` and `merge`: what has been learned, as a file.

use super::{CommandError, Daemon, json, print_table, table};
use arborcast_proto::client::ClientError;
use arborcast_proto::message::{Answer, Ask, Imported};
use arborcast_proto::wisdom::{self, Wisdom, WisdomError};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

/// What is sent of a file at once; a message may be twice as long.
const PART_BYTES: usize = 8 << 20;

/// Why a wisdom file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{0}")]
    Io(WisdomError),
    #[error("{path}: {source}; give a file that a daemon or `arborcast export` has written")]
    NoWisdom { path: PathBuf, source: WisdomError },
    #[error(
        "{path}: together they would be too long for a wisdom file ({source}); `arborcast forget` what \
         is no longer used, and export again"
    )]
    TooLong { path: PathBuf, source: WisdomError },
}

fn read(path: &Path) -> Result<Wisdom, FileError> {
    Wisdom::read(path).map_err(|source| match source {
        WisdomError::Io { .. } => FileError::Io(source),
        source => FileError::NoWisdom { path: path.into(), source },
    })
}

fn save(wisdom: &Wisdom, path: &Path) -> Result<(), FileError> {
    wisdom.save(path).map_err(|source| match source {
        WisdomError::Io { .. } => FileError::Io(source),
        source => FileError::TooLong { path: path.into(), source },
    })
}

/// Writes everything that the daemon knows into a file.
///
/// # Errors
/// Where the daemon refuses or does not answer, or the file cannot be written; an old file then stands.
pub fn export(daemon: &mut Daemon, to: &Path, as_json: bool) -> Result<String, CommandError> {
    let (answer, memory) = daemon.connection.ask_for_file(&Ask::Export)?;
    let (Answer::Exported, Some(memory)) = (answer, memory) else {
        return Err(ClientError::Unexpected.into());
    };
    let (mut memory, mut bytes) = (File::from(memory), Vec::new());
    memory.rewind().and_then(|()| memory.read_to_end(&mut bytes)).map_err(ClientError::from)?;
    let known = Wisdom::from_bytes(&bytes)
        .map_err(|source| FileError::NoWisdom { path: to.into(), source })?;
    save(&known, to)?;
    Ok(summary(&known, as_json))
}

/// Merges a file with what the daemon knows.
///
/// # Errors
/// Where the file cannot be read, is damaged or of another version: nothing has changed then. Where the
/// daemon refuses or does not answer: what it has taken until then stays, and the import can be repeated.
pub fn import(daemon: &mut Daemon, from: &Path, as_json: bool) -> Result<String, CommandError> {
    let mut sum = Imported::default();
    for part in wisdom::parts(read(from)?, PART_BYTES) {
        let too_long = |source| FileError::TooLong { path: from.into(), source };
        let part = part.to_bytes().map_err(too_long)?;
        let imported = daemon.ask(&Ask::Import(part), |answer| match answer {
            Answer::Imported(imported) => Some(imported),
            _ => None,
        })?;
        let Imported { plans, links, trials, known, refused } = imported;
        sum.plans += plans;
        sum.links += links;
        sum.trials += trials;
        sum.known += known;
        sum.refused += refused;
    }
    Ok(told(&sum, as_json))
}

/// Writes what two files say together into a third one, which may be one of them.
///
/// # Errors
/// Where a file cannot be read or written, is damaged or of another version; no file has changed then.
pub fn merge(one: &Path, other: &Path, to: &Path, as_json: bool) -> Result<String, CommandError> {
    let merged = wisdom::merge(read(one)?, read(other)?);
    save(&merged, to)?;
    Ok(summary(&merged, as_json))
}

fn summary(wisdom: &Wisdom, as_json: bool) -> String {
    let (plans, links, trials) = (wisdom.plans.len(), wisdom.matrices.len(), wisdom.trials.len());
    if as_json {
        return json::print(&json!({ "plans": plans, "links": links, "trials": trials }));
    }
    print(&[("plans", plans as u64), ("links of groups", links as u64), ("trials", trials as u64)])
}

fn told(imported: &Imported, as_json: bool) -> String {
    let Imported { plans, links, trials, known, refused } = *imported;
    if as_json {
        let taken = json!({ "plans": plans, "links": links, "trials": trials });
        let value: Value = json!({ "taken": taken, "known": known, "refused": refused });
        return json::print(&value);
    }
    let mut rows = vec![
        ("plans", plans.into()),
        ("links of groups", links.into()),
        ("trials", trials.into()),
        ("known, or better known", known.into()),
    ];
    if refused > 0 {
        rows.push(("refused: no sense, or no room", refused.into()));
    }
    print(&rows)
}

fn print(rows: &[(&str, u64)]) -> String {
    let mut table = table(&[]);
    for (name, count) in rows {
        table.add_row([(*name).into(), super::right(count)]);
    }
    print_table(&table)
}
