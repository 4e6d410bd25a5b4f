//! `arborcast top`: what the daemon, its experiment and its targets are doing, drawn anew each second.

use super::select::root_name;
use super::{CommandError, Daemon, json};
use crate::explanation::describe;
use arborcast_draw::units;
use arborcast_proto::Target;
use arborcast_proto::message::{Status, TargetStatus, Times};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use std::collections::HashMap;
use std::io::{ErrorKind, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

/// Draws until `q`, Escape or ^C. A daemon that goes is looked for again.
///
/// # Errors
/// Where there is no terminal, or at first no daemon.
pub fn top(socket: &Path, interval: Duration) -> Result<(), CommandError> {
    if !std::io::stdout().is_terminal() {
        let error =
            "standard output is none; `arborcast status` and `targets` can be read by programs";
        return Err(CommandError::Terminal(std::io::Error::new(ErrorKind::Unsupported, error)));
    }
    let mut daemon = Some(Daemon::open(socket)?);
    let mut view = View::default();
    let begin = Instant::now();
    let mut terminal = ratatui::try_init().map_err(CommandError::Terminal)?;
    let ended = loop {
        let seen = match &mut daemon {
            Some(daemon) => look(daemon),
            None => Daemon::open(socket).and_then(|mut opened| {
                let seen = look(&mut opened);
                daemon = Some(opened);
                seen
            }),
        };
        match seen {
            Ok((status, targets)) => view.update(begin.elapsed(), status, targets),
            Err(error) => {
                daemon = None;
                view.missing = Some(error.to_string());
            }
        }
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(CommandError::Terminal(error));
        }
        match wants_to_end(interval) {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(CommandError::Terminal(error)),
        }
    };
    ratatui::restore();
    ended
}

fn look(daemon: &mut Daemon) -> Result<(Status, Vec<TargetStatus>), CommandError> {
    Ok((daemon.status()?, daemon.targets()?))
}

/// Waits for `interval`, or until a key is hit. Other keys, and another size, end the wait only.
fn wants_to_end(interval: Duration) -> std::io::Result<bool> {
    if !event::poll(interval)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(key) => {
            let is_interrupt =
                key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL;
            is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        }
        _ => false,
    })
}

/// What was seen last, and how fast it changes.
#[derive(Default)]
struct View {
    seen: Option<(Status, Vec<TargetStatus>)>,
    at: Duration,
    trials_per_s: f64,
    /// Broadcasts per second since the look before.
    rates: HashMap<Target, f64>,
    /// Why nothing newer is seen.
    missing: Option<String>,
}

/// By how much a counter has grown, per second; a counter that began anew has not.
fn per_s(now: u64, before: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { now.saturating_sub(before) as f64 / elapsed.as_secs_f64() }
}

fn broadcasts(status: &TargetStatus) -> u64 {
    status.demand.as_ref().map_or(0, |demand| demand.broadcasts)
}

impl View {
    /// `now` is the time since any fixed moment.
    fn update(&mut self, now: Duration, status: Status, targets: Vec<TargetStatus>) {
        let elapsed = now.saturating_sub(self.at);
        self.rates.clear();
        if let Some((before, targets_before)) = &self.seen {
            self.trials_per_s = per_s(status.trials, before.trials, elapsed);
            let before: HashMap<Target, u64> =
                targets_before.iter().map(|target| (target.target, broadcasts(target))).collect();
            self.rates.extend(targets.iter().map(|target| {
                let before = before.get(&target.target).copied().unwrap_or(0);
                (target.target, per_s(broadcasts(target), before, elapsed))
            }));
        }
        (self.at, self.missing, self.seen) = (now, None, Some((status, targets)));
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body, foot] =
            Layout::vertical([Constraint::Length(4), Constraint::Min(0), Constraint::Length(1)])
                .areas(frame.area());
        if let Some((status, targets)) = &self.seen {
            frame.render_widget(Paragraph::new(self.head(status)), head);
            frame.render_widget(self.table(targets), body);
        }
        let foot_line = match &self.missing {
            Some(missing) => Line::from(missing.as_str()).red(),
            None => Line::from("q: quit").dim(),
        };
        frame.render_widget(foot_line, foot);
    }

    fn head(&self, status: &Status) -> Vec<Line<'static>> {
        let Status {
            node, site, version, applications, holds, hold_timeouts, plans, trials, ..
        } = status;
        let uptime = humantime::format_duration(Duration::from_secs(status.uptime.as_secs()));
        let epoch = status.epoch.map_or_else(String::new, |epoch| format!(" (epoch {epoch})"));
        vec![
            Line::from(format!("{node} (site {site})  arborcastd {version}, up {uptime}")).bold(),
            Line::from(format!(
                "experiment {}{epoch}  trials {trials}, {:.1}/s  plans {plans}",
                json::state(status.experiment),
                self.trials_per_s
            )),
            Line::from(format!(
                "applications {applications}  holds {holds}  hold timeouts {hold_timeouts}"
            )),
        ]
    }

    fn table(&self, targets: &[TargetStatus]) -> Table<'static> {
        let names =
            ["ROOT", "SIZE", "PER S", "LAST", "NATIVE", "IN USE", "LIMIT", "× LIMIT", "PLAN"];
        let widths = [12, 9, 8, 9, 9, 9, 9, 7, 20];
        let rows: Vec<Row<'_>> = targets.iter().map(|target| self.row(target)).collect();
        Table::new(rows, widths.map(Constraint::Length))
            .header(Row::new(names).style(Style::new().reversed()))
    }

    fn row(&self, status: &TargetStatus) -> Row<'static> {
        let finding = status.finding.as_ref();
        let seconds = |time_s: Option<f64>| time_s.map_or_else(|| "-".into(), units::seconds);
        let median_s = |times: Times| times.median_s;
        let limit_s = finding.and_then(|finding| finding.limit_s);
        let in_use_s = status.in_use.map(median_s);
        // What was not sampled yet was measured by the experiment.
        let best_s =
            in_use_s.or(finding.and_then(|finding| finding.measured()).map(|times| times.median_s));
        let distance =
            best_s.zip(limit_s).map(|(best_s, limit_s)| format!("{:.2}", best_s / limit_s));
        let age_s = status.demand.as_ref().map(|demand| demand.age.as_secs_f64());
        let rate = self.rates.get(&status.target).filter(|rate| **rate > 0.0);
        let cells = [
            root_name(status),
            status.target.class.to_string(),
            rate.map_or_else(|| "-".into(), |rate| format!("{rate:.1}")),
            seconds(age_s),
            seconds(finding.and_then(|finding| finding.native).map(median_s)),
            seconds(in_use_s),
            seconds(limit_s),
            distance.unwrap_or_else(|| "-".into()),
            finding.map_or_else(|| "-".into(), |finding| describe(&finding.plan)),
        ];
        let row = Row::new(cells.map(Cell::from));
        if rate.is_some() { row.bold() } else { row }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::message::{Demand, ExperimentState, Finding};
    use arborcast_proto::{Group, NodeName, Plan, Tree};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn status(trials: u64) -> Status {
        let name = |text: &str| NodeName::new(text).unwrap();
        Status {
            node: name("n0"),
            site: name("a"),
            version: "0.1.0".into(),
            daemon_pid: 1,
            uptime: Duration::from_secs(61),
            experiment: ExperimentState::Waiting,
            epoch: Some(7),
            applications: 3,
            holds: 2,
            broadcasts: 0,
            hold_timeouts: 5,
            plans: 1,
            trials,
            spending: None,
        }
    }

    fn target(broadcasts: u64) -> TargetStatus {
        let group =
            Group::new(["n0", "n1"].map(|name| NodeName::new(name).unwrap()).to_vec()).unwrap();
        let finding = Finding {
            group: group.clone(),
            root: 1,
            bytes: 1 << 20,
            plan: Plan::single(Tree::flat(2, 1).unwrap(), 1024).unwrap(),
            times: Times::of(&[0.5]).unwrap(),
            native: Times::of(&[2.0]),
            limit_s: Some(0.4),
            strategy: "guided".into(),
            trials: 1,
            search_s: 1.0,
            reason: None,
        };
        let (target, age, bytes) = (finding.target(), Duration::from_millis(250), finding.bytes);
        let demand = Demand {
            target,
            group: group.clone(),
            bytes,
            age,
            broadcasts,
            pause_s: None,
            quiets_s: Vec::new(),
            native_s: None,
        };
        let (demand, finding, in_use) = (Some(demand), Some(finding), Times::of(&[0.6]));
        TargetStatus { target, group, demand, finding, in_use }
    }

    fn drawn(view: &View, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 8)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let cells = terminal.backend().buffer().content().iter().map(|cell| cell.symbol());
        let cells: Vec<&str> = cells.collect();
        cells.chunks(width.into()).map(|line| format!("{}\n", line.concat().trim_end())).collect()
    }

    #[test]
    fn what_changes_is_told_per_second() {
        let mut view = View::default();
        view.update(Duration::from_secs(10), status(100), vec![target(1000)]);
        let first = drawn(&view, 100);
        for words in [
            "n0 (site a)  arborcastd 0.1.0, up 1m 1s",
            "waiting (epoch 7)",
            "holds 2",
            "hold timeouts 5",
            "q: quit",
        ] {
            assert!(first.contains(words), "{words}: {first}");
        }
        assert!(first.contains("trials 100, 0.0/s"), "nothing is known of before: {first}");
        view.update(Duration::from_secs(12), status(103), vec![target(1050)]);
        let second = drawn(&view, 100);
        assert!(second.contains("trials 103, 1.5/s"), "{second}");
        let row = second.lines().find(|line| line.starts_with("n1")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let expected =
            ["n1", "≤1MiB", "25.0", "250", "ms", "2.00", "s", "600", "ms", "400", "ms", "1.50"];
        assert_eq!(words[..12], expected, "{row}");
        // The daemon began anew: its counters are smaller.
        view.update(Duration::from_secs(13), status(0), vec![target(1)]);
        assert!(drawn(&view, 100).contains("trials 0, 0.0/s"));
    }

    #[test]
    fn what_is_only_predicted_is_not_compared_with_the_limit() {
        let mut view = View::default();
        let mut target = target(1);
        target.in_use = None;
        let distance = |view: &View| drawn(view, 100).contains(" 1.25 ");
        view.update(Duration::from_secs(1), status(1), vec![target.clone()]);
        assert!(distance(&view));
        target.finding.as_mut().unwrap().times = Times::predicted(0.5);
        view.update(Duration::from_secs(2), status(1), vec![target]);
        assert!(!distance(&view));
    }

    #[test]
    fn a_daemon_that_is_gone_is_told_below_what_was_seen_last() {
        let mut view = View::default();
        view.update(Duration::from_secs(1), status(1), vec![target(1)]);
        view.missing = Some("no daemon at /run/d.sock".into());
        let text = drawn(&view, 100);
        assert!(text.contains("no daemon at /run/d.sock") && text.contains("≤1MiB"), "{text}");
        view.update(Duration::from_secs(2), status(1), Vec::new());
        assert!(!drawn(&view, 100).contains("no daemon"));
        // However narrow it is.
        assert!(drawn(&view, 10).starts_with("n0 (site"));
    }
}
