//! Where the daemon's log goes: to standard error, but never so that the daemon waits for whoever reads
//! it. Lines go through a short queue to a thread of their own; what comes while that is full is
//! dropped, and how much is said once there is room again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written.
const QUEUE_LINES: usize = 1024;
/// At its end, the daemon waits for its last lines to be taken no longer than this.
const FINISH_LIMIT: Duration = Duration::from_millis(500);

/// Makes writers for one line each.
#[derive(Debug, Clone)]
pub struct Log {
    queue: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// Waits for the last lines when it is dropped.
#[derive(Debug)]
pub struct Finish {
    queue: SyncSender<Vec<u8>>,
    written: Receiver<()>,
}

/// A log that is written to `out`.
///
/// # Errors
/// Where no thread can be had.
pub fn start(out: impl Write + Send + 'static) -> io::Result<(Log, Finish)> {
    let (queue, lines) = sync_channel(QUEUE_LINES);
    let (done, written) = sync_channel(0);
    let dropped = Arc::new(AtomicU64::new(0));
    let to_tell = dropped.clone();
    std::thread::Builder::new().name("log".into()).spawn(move || {
        write_lines(out, &lines, &to_tell);
        drop(done);
    })?;
    Ok((Log { queue: queue.clone(), dropped }, Finish { queue, written }))
}

/// Until an empty line comes, the end.
fn write_lines(mut out: impl Write, lines: &Receiver<Vec<u8>>, dropped: &AtomicU64) {
    while let Ok(line) = lines.recv() {
        // A log that cannot be written to is no reason not to serve.
        let _ = out.write_all(&line);
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(out, "{lost} lines of this log are missing: nobody took them");
        }
        if line.is_empty() {
            return;
        }
    }
}

impl Drop for Finish {
    fn drop(&mut self) {
        // Where the queue is full, whoever reads it is not waiting for the last lines.
        if self.queue.try_send(Vec::new()).is_ok() {
            // Ends with the thread, or with the limit.
            let _ = self.written.recv_timeout(FINISH_LIMIT);
        }
    }
}

/// A line being put together; queued when it is dropped.
#[derive(Debug)]
pub struct Line {
    log: Log,
    text: Vec<u8>,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() && self.log.queue.try_send(text).is_err() {
            self.log.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { log: self.clone(), text: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_full_pipe_costs_lines_and_no_time() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (log, finish) = start(writer).unwrap();
        // Far more than a pipe and the queue hold; a writer that waits would wait for ever.
        for number in 0..20 * QUEUE_LINES {
            writeln!(log.make_writer(), "line {number} {}", "x".repeat(100)).unwrap();
        }
        let taker = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        // Once some are written there is room for more, sooner or later.
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            writeln!(log.make_writer(), "the last").unwrap();
        }
        drop((log, finish));
        let text = taker.join().unwrap();
        assert!(text.starts_with("line 0 "), "{}", &text[..50]);
        assert!(text.contains(" lines of this log are missing"));
        assert!(text.ends_with("the last\n"), "what came when there was room is there");
    }
}
