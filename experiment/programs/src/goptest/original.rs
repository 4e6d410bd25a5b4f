//! The original's own format: for collective operations goptest's line a run, processes and then
//! microseconds of each size; for partners mpptest's line a size.

use super::fit;
use super::kind::{Kind, SURELY_BUFFERED_BYTES};
use super::options::Options;
use super::output::Run;
use super::sweep::{Entry, Remeasured};
use std::fmt::Write;

const SECONDS_TO_MICROSECONDS: f64 = 1e6;

pub fn title(options: &Options, processes: i32) -> String {
    let default = || format!("goptest -{} on {processes} processes", options.kind.name());
    options.title.clone().unwrap_or_else(default)
}

/// Commands of the plotting program ahead of the results.
pub fn commands_before(options: &Options, processes: i32) -> String {
    if options.head {
        options.graph.head(options, &title(options, processes))
    } else {
        String::new()
    }
}

/// Commands of the plotting program after the results, and the straight line through them.
pub fn commands_after(options: &Options, runs: &[Run]) -> String {
    if !options.tail {
        return String::new();
    }
    let mut out = String::new();
    if options.graph.fit {
        runs.iter().for_each(|run| fit_lines(run, &mut out));
    }
    out + &options.graph.tail(options)
}

/// Times, with comments on how they were measured.
pub fn results(options: &Options, processes: i32, runs: &[Run]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    if options.head {
        let _ = writeln!(out, "# {}", title(options, processes));
        if !options.kind.is_between_partners() {
            let sizes: Vec<String> = options.sizes.iter().map(ToString::to_string).collect();
            let unit = options.kind.unit_bytes();
            let _ = writeln!(out, "# sizes ({unit} bytes each): {}", sizes.join(" "));
        }
        out += if options.kind.is_between_partners() {
            "\n#p0\tp1\tdist\tlen\tave time (us)\trate\n"
        } else {
            "\n#np time (us) for various sizes\n"
        };
    }
    for run in runs {
        if let (true, Some(name)) = (options.head, run.broadcast) {
            let note = run.note.as_deref().map_or(String::new(), |note| format!(" ({note})"));
            let _ = writeln!(out, "# broadcast: {name}{note}");
        }
        if options.kind.is_between_partners() {
            partner_lines(options, processes, run, &mut out);
        } else {
            let _ = write!(out, "{processes} ");
            for entry in &run.entries {
                let _ = write!(out, "{:.6} ", entry.seconds * SECONDS_TO_MICROSECONDS);
            }
            out.push('\n');
        }
        if options.per_process {
            per_process_lines(run, &mut out);
        }
        if options.tail {
            for again in &run.remeasured {
                let _ = writeln!(out, "# {}", remeasured_line(options.kind, again));
            }
        }
    }
    out
}

fn partner_lines(options: &Options, processes: i32, run: &Run, out: &mut String) {
    let last = processes - 1;
    let microseconds =
        |seconds: f64| seconds * options.kind.original_share() * SECONDS_TO_MICROSECONDS;
    let mut calls = options.calls;
    for entry in &run.entries {
        let now = options.calls_at(entry.size).unwrap_or(calls);
        if now != calls && options.head {
            let _ = writeln!(out, "# above {SURELY_BUFFERED_BYTES} bytes as with -async");
        }
        calls = now;
        let _ = write!(out, "0\t{last}\t{last}\t{}\t", entry.size);
        let rate = rate(entry);
        let _ = if options.graph.range {
            let [mean, least, greatest] =
                [entry.mean_seconds, entry.seconds, entry.greatest_seconds].map(microseconds);
            writeln!(out, "{mean:.6}\t{rate:.2}\t{least:.6}\t{greatest:.6}")
        } else {
            writeln!(out, "{:.6}\t{}", microseconds(entry.seconds), short_rate(rate))
        };
    }
}

/// Bytes a second in both directions together.
fn rate(entry: &Entry) -> f64 {
    if entry.seconds > 0.0 { 2.0 * entry.size as f64 / entry.seconds } else { 0.0 }
}

fn short_rate(rate: f64) -> String {
    match rate {
        _ if rate > 1e6 => format!("{:.3}e+6", rate * 1e-6),
        _ if rate > 1e3 => format!("{:.3}e+3", rate * 1e-3),
        _ => format!("{rate:.2}"),
    }
}

fn per_process_lines(run: &Run, out: &mut String) {
    let list = |seconds: &[f64]| -> String {
        seconds.iter().map(|s| format!(" {:.6}", s * SECONDS_TO_MICROSECONDS)).collect()
    };
    let _ = writeln!(out, "# taken off (us):{}", list(&run.subtracted));
    for entry in &run.entries {
        let _ = writeln!(out, "# size {} OL_i (us):{}", entry.size, list(&entry.per_process));
    }
}

/// The original's line has half of the time, also for operations that are no round trips.
fn fit_lines(run: &Run, out: &mut String) {
    let times: Vec<(f64, f64)> =
        run.entries.iter().map(|entry| (entry.size as f64, entry.seconds)).collect();
    let Some((start, slope)) = fit::line(&times) else { return };
    let _ = writeln!(
        out,
        "# Model complexity is ({:.6e} + n * {:.6e})\n# whole time: {start:.6e} s + n * {slope:.6e} s",
        start / 2.0,
        slope / 2.0
    );
}

/// In the scale of the results.
pub fn remeasured_line(kind: Kind, again: &Remeasured) -> String {
    let microseconds = |seconds: f64| seconds * kind.original_share() * SECONDS_TO_MICROSECONDS;
    format!(
        "measured again: size {}, {:.6} us before, {:.6} us now",
        again.size,
        microseconds(again.before),
        microseconds(again.after)
    )
}
