//! The daemons of the grid as a service manager keeps them: one that ends is started again.

use crate::support::LIMIT;
use arborcast_tests::{Background, Grid};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

/// Below /run, which each node has for itself; a file system of its own, so that it can be full.
pub const STATE: &str = "/run/arborcast/state";
const START_AGAIN: Duration = Duration::from_millis(300);
/// For so long after its start a daemon may not answer a signal yet.
const NEW: Duration = Duration::from_secs(5);
const KEPT_LINES: usize = 40;

/// One node's daemon.
pub struct Daemon {
    node: String,
    flags: Vec<String>,
    running: Option<Background>,
    /// Was told to end.
    ending: Option<(Background, Instant)>,
    /// When it is to be started, or was.
    start_at: Instant,
    said: VecDeque<String>,
    /// The system is to refuse it what it needs: it may end with an error and try again.
    pub may_fail: bool,
    /// It is not to run now.
    pub is_off: bool,
    pub started: u32,
    pub refused: u32,
}

impl Daemon {
    pub fn new(node: &str, flags: &[String]) -> Self {
        Daemon {
            node: node.into(),
            flags: flags.into(),
            running: None,
            ending: None,
            start_at: Instant::now(),
            said: VecDeque::new(),
            may_fail: false,
            is_off: false,
            started: 0,
            refused: 0,
        }
    }

    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Background::id)
    }

    /// What it logged last.
    pub fn said(&mut self) -> String {
        self.listen();
        self.said.iter().map(|line| format!("{}: {line}\n", self.node)).collect()
    }

    fn listen(&mut self) {
        let ending = self.ending.iter().map(|(ending, _)| ending);
        self.said.extend(self.running.iter().chain(ending).flat_map(Background::lines));
        self.said.drain(..self.said.len().saturating_sub(KEPT_LINES));
    }

    /// Starts it where it is to run and does not.
    ///
    /// # Panics
    /// Where it ended and nobody had asked it to, or did not end as it was asked to.
    pub fn keep(&mut self, grid: &mut Grid) {
        self.listen();
        if let Some(status) = self.running.as_mut().and_then(Background::ended) {
            // The last lines may still be on their way.
            std::thread::sleep(Duration::from_millis(50));
            let said = self.said();
            assert!(
                self.may_fail && status.code() == Some(4),
                "the daemon ended: {status}\n{said}"
            );
            self.refused += 1;
            self.running = None;
            self.start_at = Instant::now() + START_AGAIN;
        }
        if let Some((ending, since)) = &mut self.ending {
            let Some(status) = ending.ended() else {
                let waited = since.elapsed();
                assert!(waited < LIMIT, "waited {waited:?} for its end\n{}", self.said());
                return;
            };
            // One that had hardly begun may not have come to where it ends by itself.
            let was_new = since.duration_since(self.start_at) < NEW;
            let is_of_signal = was_new && status.signal() == Some(libc::SIGTERM);
            let was_refused = self.may_fail && status.code() == Some(4);
            assert!(
                status.success() || is_of_signal || was_refused,
                "told to end: {status}\n{}",
                self.said()
            );
            self.ending = None;
        }
        if self.running.is_none() && !self.is_off && Instant::now() >= self.start_at {
            let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
            grid.start_daemon(&self.node, &flags).unwrap();
            self.running = grid.take_daemon(&self.node);
            self.start_at = Instant::now();
            self.started += 1;
        }
    }

    pub fn signal(&self, signal: i32) {
        if let Some(running) = &self.running {
            running.signal(signal);
        }
    }

    /// Kills it and leaves it off.
    pub fn kill(&mut self) {
        self.is_off = true;
        if let Some(mut running) = self.running.take() {
            running.signal(libc::SIGKILL);
            running.wait(LIMIT);
        }
    }

    /// Tells it to end and leaves it off.
    pub fn end(&mut self) {
        self.is_off = true;
        if let Some(running) = self.running.take() {
            running.signal(libc::SIGTERM);
            self.ending = Some((running, Instant::now()));
        }
    }

    pub fn has_ended(&self) -> bool {
        self.running.is_none() && self.ending.is_none()
    }
}
