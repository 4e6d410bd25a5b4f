//! Writes the daemon's metrics into a file for node_exporter's textfile collector, now and then and off the
//! thread that serves clients. The file is replaced atomically, so that none is read half written; it goes
//! with the daemon, so that nothing stale is told after an orderly end.

use crate::config::MetricsConfig;
use arborcast_proto::replace::replace;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

/// The file, if one is configured, and when it is due.
pub struct Textfile {
    config: MetricsConfig,
    due: Instant,
    /// Where to, and what comes of it.
    writing: Option<(PathBuf, JoinHandle<io::Result<()>>)>,
    /// Whether the last attempt failed: only changes are worth a line of the log.
    fails: bool,
}

impl Textfile {
    pub fn new(config: MetricsConfig) -> Self {
        Textfile { config, due: Instant::now(), writing: None, fails: false }
    }

    /// Takes over other settings. A file that is no longer named is removed.
    pub fn reload(&mut self, config: MetricsConfig) {
        if config.textfile != self.config.textfile {
            self.remove();
        }
        self.config = config;
        self.due = Instant::now();
    }

    /// Waits until there is something to do; for `select!`. Then call [`Textfile::step`].
    pub async fn wait(&mut self) -> Option<io::Result<()>> {
        match &mut self.writing {
            // A panic in the writing thread: as good as a file that could not be written.
            Some((_, writing)) => Some(writing.await.unwrap_or(Err(io::ErrorKind::Other.into()))),
            None if self.config.textfile.is_some() => {
                sleep_until(self.due).await;
                None
            }
            None => std::future::pending().await,
        }
    }

    /// Begins or ends a writing, as [`Textfile::wait`] said; `text` is asked with the number of targets to
    /// tell of.
    pub fn step(&mut self, done: Option<io::Result<()>>, text: impl FnOnce(usize) -> String) {
        if let Some((path, _)) = self.writing.take() {
            if Some(&path) != self.config.textfile.as_ref() {
                let _ = fs::remove_file(&path);
            }
            let failed = done.and_then(Result::err);
            match &failed {
                Some(error) if !self.fails => {
                    warn!(
                        "the metrics cannot be written to {}: {error}; trying on",
                        path.display()
                    );
                }
                None if self.fails => info!("the metrics can be written again"),
                _ => {}
            }
            self.fails = failed.is_some();
        } else if let Some(path) = self.config.textfile.clone() {
            self.due = Instant::now() + self.config.interval;
            let (text, file) = (text(self.config.targets), path.clone());
            self.writing = Some((path, tokio::task::spawn_blocking(move || write(&file, &text))));
        }
    }

    /// At the daemon's end.
    pub async fn finish(mut self) {
        if let Some((_, writing)) = self.writing.take() {
            let _ = writing.await;
        }
        self.remove();
    }

    fn remove(&self) {
        if let Some(path) = &self.config.textfile {
            let _ = fs::remove_file(path);
        }
    }
}

/// Readable for everybody, whatever the umask: node_exporter has a user of its own, and reads what ends in
/// .prom.
fn write(path: &Path, text: &str) -> io::Result<()> {
    replace(path, |file| {
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())
    })
}
