//! The second half: one run of the program goes on while a link falls to a tenth of its rate, and heals. Nothing
//! but the program's own broadcasts tells the experiment.

use super::{BYTES, DemoError, pause};
use arborcast_proto::message::Times;
use arborcast_tests::{Background, Grid, GridError, Run};
use gridlab::{LinkChange, Signals};
use std::path::Path;
use std::time::{Duration, Instant};

/// The sites of a link that the plans of this grid use.
const SITES: (&str, &str) = ("a", "b");
const FALLS_TO: f64 = 0.1;
const PAUSE_MS: &str = "200";
/// From the program's first broadcast on.
const FALLS_AFTER: Duration = Duration::from_secs(15);
const HEALS_AFTER: Duration = Duration::from_secs(40);
const ENDS_AFTER: Duration = Duration::from_secs(65);
/// What the program is waited for at most, until its first broadcast.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// The last broadcasts before a change show what has been reached.
const LAST: usize = 9;

/// What the program saw.
#[derive(Default)]
pub struct ChangeRun {
    /// Seconds from the first broadcast on, and what each took.
    pub broadcasts: Vec<(f64, f64)>,
    pub fell_s: f64,
    pub healed_s: f64,
}

impl ChangeRun {
    fn between(&self, from_s: f64, to_s: f64) -> Vec<f64> {
        let within = self.broadcasts.iter().filter(|(at_s, _)| (from_s..to_s).contains(at_s));
        within.map(|(_, seconds)| *seconds).collect()
    }

    /// The median of the last ones, the least and the most.
    fn last_before(&self, from_s: f64, to_s: f64) -> String {
        let times_s = self.between(from_s, to_s);
        let Some(times) = Times::of(&times_s[times_s.len().saturating_sub(LAST)..]) else {
            return "no time".to_owned();
        };
        format!("{:.3} s ({:.3} to {:.3})", times.median_s, times.min_s, times.max_s)
    }

    /// In a sentence.
    pub fn summary(&self) -> String {
        let fallen = self.between(self.fell_s, self.healed_s);
        let worst_s = fallen.iter().copied().fold(0.0, f64::max);
        format!(
            "{} a broadcast; {worst_s:.3} s where the link fell, {} by the other links, {} once it had healed",
            self.last_before(0.0, self.fell_s),
            self.last_before(self.fell_s, self.healed_s),
            self.last_before(self.healed_s, f64::INFINITY),
        )
    }
}

/// Runs the program through both changes, and ends it; `say` is told of each.
pub fn run(
    grid: &Grid,
    signals: &Signals,
    program: &Path,
    say: &dyn Fn(&str),
) -> Result<ChangeRun, DemoError> {
    let what = "the MPI program";
    let arguments = [&BYTES.to_string(), "1000000", "0", PAUSE_MS];
    let command = grid.application(&Run::default(), program, &arguments)?;
    let io = |source| DemoError::Io { what: what.into(), source };
    let mut running = Background::start(command, what).map_err(io)?;
    let started = Instant::now();
    let mut run = ChangeRun::default();
    let mut first: Option<Instant> = None;
    let mut said = Vec::new();
    loop {
        for line in running.lines() {
            match line.trim().parse() {
                Ok(seconds) => {
                    let first = first.get_or_insert_with(Instant::now);
                    run.broadcasts.push((first.elapsed().as_secs_f64(), seconds));
                }
                Err(_) => said.push(line),
            }
        }
        let elapsed = first.map_or(Duration::ZERO, |first| first.elapsed());
        if running.ended().is_some() || (first.is_none() && started.elapsed() > STARTS_WITHIN) {
            return Err(DemoError::NoTimes(said.join("\n")));
        }
        if elapsed > FALLS_AFTER && run.fell_s == 0.0 {
            run.fell_s = elapsed.as_secs_f64();
            set_rate(grid, FALLS_TO)?;
            say("the link between sites a and b falls to a tenth of its rate");
        }
        if elapsed > HEALS_AFTER && run.healed_s == 0.0 {
            run.healed_s = elapsed.as_secs_f64();
            set_rate(grid, 1.0)?;
            say("the link has its old rate again");
        }
        if elapsed > ENDS_AFTER {
            return Ok(run);
        }
        pause(signals, Duration::from_millis(20))?;
    }
}

/// To a part of what the grid's file says.
fn set_rate(grid: &Grid, part: f64) -> Result<(), DemoError> {
    let (topology, (from, to)) = (grid.lab().topology(), SITES);
    let link = topology.site(from).zip(topology.site(to));
    let usual =
        link.and_then(|(from, to)| topology.link(from, to)).map(|link| link.rate_bytes_per_s);
    let rate_bytes_per_s = usual.map(|usual| usual * part);
    let change = LinkChange { rate_bytes_per_s, ..LinkChange::default() };
    grid.lab().link(from, to, true, change).map_err(GridError::from)?;
    Ok(())
}
