//! Stores what the daemon knows in its wisdom file, off the thread that serves clients.

use super::clock::Now;
use super::lock::Lock;
use super::node::Node;
use super::{DaemonError, make_directory, take_lock, with_suffix};
use crate::knowledge::Knowledge;
use arborcast_proto::wisdom::{self, Wisdom, WisdomError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

/// From the first change to the writing, so that many changes are written once.
const SAVE_DELAY: Duration = Duration::from_secs(2);
/// After a failure.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// The wisdom file and what of the knowledge is in it.
pub struct WisdomStore {
    path: PathBuf,
    /// What is in the file, only one daemon can know. `None` where the directory takes no lock: then
    /// nothing is saved until it does.
    lock: Option<Lock>,
    /// Whether the file is there and what it says is not known: then it is not written over.
    is_unread: bool,
    /// How many changes the file has.
    saved: u64,
    due: Option<Instant>,
    saving: Option<(u64, JoinHandle<Result<(), WisdomError>>)>,
}

impl WisdomStore {
    /// What the file at `path` says. A damaged file is set aside with a warning; one that cannot be
    /// read, or not be set aside, stays as it is, and nothing is saved until it can be read or somebody
    /// has removed it.
    ///
    /// # Errors
    /// `AnotherDaemon` where one has this file.
    pub fn open(path: PathBuf) -> Result<(Self, Knowledge), DaemonError> {
        let lock = match lock(&path) {
            Ok(lock) => Some(lock),
            Err(error @ DaemonError::AnotherDaemon(_)) => return Err(error),
            Err(error) => {
                warn!("{error}; nothing is saved until that can be done");
                None
            }
        };
        let mut is_unread = false;
        let wisdom = match Wisdom::load(&path) {
            Ok(wisdom) => wisdom,
            Err(error @ WisdomError::Io { .. }) => {
                is_unread = true;
                warn!("the wisdom cannot be read: {error}; nothing is saved until it can be");
                Wisdom::default()
            }
            Err(error) => {
                let unix_s =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
                match wisdom::set_aside(&path, unix_s) {
                    Ok(aside) => {
                        warn!("{}: {error}; it is set aside as {}", path.display(), aside.display())
                    }
                    Err(io) => {
                        is_unread = true;
                        warn!("{}: {error}, and it cannot be renamed: {io}", path.display())
                    }
                }
                Wisdom::default()
            }
        };
        let (knowledge, refused) = Knowledge::from_wisdom(wisdom);
        if refused > 0 {
            warn!("{}: {refused} entries make no sense and are left out", path.display());
        }
        info!("{} plans known from {}", knowledge.plan_count(), path.display());
        let due = lock.is_none().then(|| Instant::now() + RETRY_DELAY);
        Ok((WisdomStore { path, lock, is_unread, saved: 0, due, saving: None }, knowledge))
    }

    /// To be called after anything that may have changed the knowledge.
    pub fn note(&mut self, knowledge: &Knowledge) {
        if self.due.is_none() && self.saving.is_none() && knowledge.changes() != self.saved {
            self.due = Some(Instant::now() + SAVE_DELAY);
        }
    }

    /// How many changes the file does not have.
    pub fn unsaved_changes(&self, knowledge: &Knowledge) -> u64 {
        knowledge.changes().saturating_sub(self.saved)
    }

    /// Waits until there is something to do; for `select!`. Then call [`WisdomStore::step`].
    pub async fn wait(&mut self) -> Option<Result<(), WisdomError>> {
        match (&mut self.saving, self.due) {
            (Some((_, saving)), _) => Some(flatten(saving.await)),
            (None, Some(due)) => {
                sleep_until(due).await;
                None
            }
            (None, None) => std::future::pending().await,
        }
    }

    /// Begins or ends a save, as [`WisdomStore::wait`] said. Gives what a file says that could not be read
    /// before.
    pub fn step(
        &mut self,
        done: Option<Result<(), WisdomError>>,
        knowledge: &Knowledge,
    ) -> Option<Wisdom> {
        self.due = None;
        if self.saving.is_none() && !self.may_save() {
            self.due = Some(Instant::now() + RETRY_DELAY);
            return None;
        }
        if self.is_unread {
            let found = self.read_again();
            if found.is_none() {
                self.due = Some(Instant::now() + RETRY_DELAY);
            }
            return found;
        }
        match (done, self.saving.take()) {
            (Some(result), Some((changes, _))) => {
                if let Err(error) = result {
                    warn!("the wisdom cannot be saved: {error}; serving on, and trying again");
                    self.due = Some(Instant::now() + RETRY_DELAY);
                } else {
                    self.saved = changes;
                    self.note(knowledge);
                }
            }
            (_, saving @ Some(_)) => self.saving = saving,
            (_, None) => {
                let (wisdom, path) = (knowledge.to_wisdom(), self.path.clone());
                let save = tokio::task::spawn_blocking(move || wisdom.save(&path));
                self.saving = Some((knowledge.changes(), save));
            }
        }
        None
    }

    /// Whether this daemon is the one that has the file. It may become that only now; then another one
    /// may have written to it.
    fn may_save(&mut self) -> bool {
        // Somebody may have removed its name.
        if self.lock.as_ref().is_none_or(|lock| !lock.is_named().unwrap_or(true)) {
            self.lock = None;
            match lock(&self.path) {
                Ok(lock) => (self.lock, self.is_unread) = (Some(lock), true),
                Err(error) => warn!("the wisdom cannot be saved: {error}"),
            }
        }
        self.lock.is_some()
    }

    /// What the file says that could not be read at first; nothing where it is gone.
    fn read_again(&mut self) -> Option<Wisdom> {
        match Wisdom::load(&self.path) {
            Ok(wisdom) => {
                info!("{} can be read or is gone: saving again", self.path.display());
                self.is_unread = false;
                Some(wisdom)
            }
            Err(error) => {
                warn!("the wisdom still cannot be read: {error}; nothing is saved");
                None
            }
        }
    }

    /// Saves what is not saved yet, at the daemon's end.
    pub async fn finish(mut self, node: &mut Node) {
        if !self.may_save() {
            return;
        }
        if self.is_unread {
            if node.knowledge().changes() == 0 {
                return;
            }
            let Some(wisdom) = self.read_again() else { return };
            node.absorb(wisdom, Now::read());
        }
        let knowledge = node.knowledge();
        if let Some((changes, saving)) = self.saving.take()
            && flatten(saving.await).is_ok()
        {
            self.saved = changes;
        }
        if knowledge.changes() != self.saved
            && let Err(error) = knowledge.to_wisdom().save(&self.path)
        {
            warn!("the wisdom cannot be saved: {error}");
        }
    }
}

/// Takes the lock on the wisdom file at `path`, in a directory that is made where it is not there.
fn lock(path: &Path) -> Result<Lock, DaemonError> {
    make_directory(path.parent().unwrap_or(Path::new("/")))?;
    take_lock(&with_suffix(path, ".lock"))
}

fn flatten(
    joined: Result<Result<(), WisdomError>, tokio::task::JoinError>,
) -> Result<(), WisdomError> {
    // A panic in the saving thread: as good as a file that could not be written.
    joined.unwrap_or(Err(WisdomError::Damaged))
}
