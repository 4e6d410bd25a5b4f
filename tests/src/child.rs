//! A child process that ends when its value goes, and can be waited for with a limit.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A program that runs in the background. Its standard error is read line by line.
pub struct Background {
    child: Child,
    what: String,
    lines: Receiver<String>,
}

impl Background {
    /// # Errors
    /// Where it cannot be started.
    pub fn start(mut command: Command, what: impl Into<String>) -> std::io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C in the terminal is for the program that has started this one, and no child
        // outlives that.
        gridlab::die_with_parent(&mut command);
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as _),
            child.stderr.take().map(|stream| Box::new(stream) as _),
        ];
        for stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Ok(Background { child, what: what.into(), lines })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The lines of its output since this was last asked.
    pub fn lines(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Waits for a line that contains `text`, and returns it.
    ///
    /// # Panics
    /// Where it does not come within `limit`, with what came instead.
    pub fn wait_for_line(&mut self, text: &str, limit: Duration) -> String {
        let until = Instant::now() + limit;
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(_) => {
                    panic!("{}: waited for {text:?}, got:\n{}", self.what, seen.join("\n"));
                }
            }
        }
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// Where it does not within `limit`; it is then ended.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < until, "{} did not end within {limit:?}", self.what);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill(2) touches no memory; the child has not been waited for, so the number is
        // still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Background {
    /// Asks it to end, waits a while, and kills it.
    fn drop(&mut self) {
        self.signal(libc::SIGTERM);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
