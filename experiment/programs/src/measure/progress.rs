//! How far a long measurement is and how long it still takes: a bar in a terminal, and now and then
//! a line where a launcher has put a pipe in its place.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Least time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub struct Progress {
    shown: Shown,
    done: u64,
    total: u64,
    begin: Instant,
}

enum Shown {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    /// `total` steps are ahead. Only the rank that `speaks` shows anything, on standard error.
    pub fn new(total: u64, speaks: bool) -> Self {
        let begin = Instant::now();
        let shown = if !speaks {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}  {eta} left");
            let bar = ProgressBar::new(total);
            Shown::Bar(style.map_or(bar.clone(), |style| bar.with_style(style)))
        } else {
            Shown::Lines { last: begin }
        };
        Self { shown, done: 0, total, begin }
    }

    /// One more step is done; `what` says what is being measured.
    pub fn step(&mut self, what: &str) {
        self.done += 1;
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_message(what.to_owned());
                bar.inc(1);
            }
            Shown::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                let part = self.done as f64 / self.total as f64;
                let left = left_seconds(self.begin.elapsed().as_secs_f64(), part);
                eprintln!("{:3.0} %  {what}  {left:.0} s left", part * 100.0);
            }
            _ => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

/// Seconds still to go when `part` of the work has taken `elapsed` seconds.
fn left_seconds(elapsed: f64, part: f64) -> f64 {
    if part > 0.0 { elapsed * (1.0 - part) / part } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::left_seconds;

    #[test]
    fn a_quarter_done_leaves_three_times_as_much() {
        assert_eq!(left_seconds(10.0, 0.25), 30.0);
    }
}
