//! Results of mpi_collective_benchmark, written after each row.

use super::availability::Availability;
use super::method::Method;
use super::options::Options;
use crate::measure::failure::Failure;
use crate::measure::plot::{Curve, TimeChart, save};
use crate::measure::report::{Document, Format};
use serde_json::json;
use std::fmt::Write;

/// One method at one size on one communicator. Times are in seconds, means over processes and
/// iterations.
#[derive(Debug, Clone)]
pub struct Row {
    pub method: Method,
    pub bytes: usize,
    pub processes: i32,
    pub iterations: u64,
    pub blocking: f64,
    pub wait: f64,
    pub sleep: Availability,
    pub active: Availability,
}

/// Collects the rows and keeps the file up to date.
pub struct Output<'a> {
    options: &'a Options,
    rows: Vec<Row>,
    document: Document,
}

/// The original's; its NB_sleep and NB_active are the base times.
const COLUMNS: [(&str, usize); 8] = [
    ("commsize", 10),
    ("iterations", 12),
    ("Blocking", 16),
    ("NB_wait", 16),
    ("NB_sleep", 16),
    ("avail(%)", 12),
    ("NB_active", 16),
    ("avail(%)", 12),
];

/// With -overhead, behind the original's.
const OVERHEAD_COLUMNS: [(&str, usize); 2] = [("ovhd_sleep", 16), ("ovhd_active", 16)];

impl<'a> Output<'a> {
    pub fn open(options: &'a Options) -> Result<Self, Failure> {
        let document = Document::open(options.file.as_deref(), false)?;
        Ok(Self { options, rows: Vec::new(), document })
    }

    pub fn add(&mut self, row: Row) -> Result<(), Failure> {
        if self.options.verbose {
            print_steps(&row);
        }
        self.rows.push(row);
        let text = self.text();
        match self.options.format {
            // Not final before the last row: its list has to be closed.
            Format::Json => self.document.update(&text),
            _ => self.document.print(&text),
        }
    }

    pub fn finish(self) -> Result<(), Failure> {
        if let Some(path) = &self.options.plot {
            let by_bytes = self.options.bytes().len() > 1;
            let chart = TimeChart {
                title: "collective operations: blocking time, and overhead (ovhd) beside work",
                x_title: if by_bytes { "bytes of each process" } else { "processes" },
                x_unit: if by_bytes { "B" } else { "" },
                y_title: "mean time",
                curves: &self.curves(by_bytes),
            };
            save(&chart.svg(), path)?;
        }
        let text = self.text();
        self.document.finish(&text)
    }

    fn text(&self) -> String {
        match self.options.format {
            Format::Original => self.original(),
            Format::Csv => self.csv(),
            Format::Json => self.json(),
        }
    }

    fn original(&self) -> String {
        let mut out = String::new();
        let mut above: Option<(Method, usize)> = None;
        let more = if self.options.overhead { &OVERHEAD_COLUMNS[..] } else { &[] };
        let columns = || COLUMNS.iter().chain(more);
        for row in &self.rows {
            if !self.options.nohdr && above != Some((row.method, row.bytes)) {
                // The original knows one size only and does not name it.
                let bytes = match self.options.bytes().len() {
                    1 => String::new(),
                    _ => format!(" ({} bytes)", row.bytes),
                };
                let _ = writeln!(out, "Method: {}{bytes}", row.method.name());
                for (name, width) in columns() {
                    let _ = write!(out, "{name:<width$}");
                }
                out.push('\n');
            }
            above = Some((row.method, row.bytes));
            let cells = [
                row.processes.to_string(),
                row.iterations.to_string(),
                scientific(row.blocking),
                scientific(row.wait),
                scientific(row.sleep.base_seconds),
                format!("{:.2}", row.sleep.available * 100.0),
                scientific(row.active.base_seconds),
                format!("{:.2}", row.active.available * 100.0),
                scientific(row.sleep.overhead_seconds),
                scientific(row.active.overhead_seconds),
            ];
            for (cell, (_, width)) in cells.iter().zip(columns()) {
                let _ = write!(out, "{cell:<width$}");
            }
            out.push('\n');
        }
        out
    }

    fn csv(&self) -> String {
        let mut out = String::new();
        if !self.options.nohdr {
            out += "method,bytes,commsize,iterations,blocking_s,nb_wait_s,nb_sleep_base_s,\
                    nb_sleep_overhead_s,nb_sleep_available,nb_active_base_s,\
                    nb_active_overhead_s,nb_active_available\n";
        }
        for row in &self.rows {
            let _ = writeln!(
                out,
                "{},{},{},{},{:e},{:e},{:e},{:e},{:.4},{:e},{:e},{:.4}",
                row.method.name(),
                row.bytes,
                row.processes,
                row.iterations,
                row.blocking,
                row.wait,
                row.sleep.base_seconds,
                row.sleep.overhead_seconds,
                row.sleep.available,
                row.active.base_seconds,
                row.active.overhead_seconds,
                row.active.available
            );
        }
        out
    }

    fn json(&self) -> String {
        let mode = |found: &Availability| {
            json!({
                "base_seconds": found.base_seconds,
                "overhead_seconds": found.overhead_seconds,
                "available": found.available,
                "steps": found.steps.iter().map(|step| json!({
                    "nominal_work_seconds": step.nominal_work_seconds,
                    "work_seconds": step.measured.work_seconds,
                    "iteration_seconds": step.measured.seconds,
                })).collect::<Vec<_>>(),
            })
        };
        let row = |row: &Row| {
            json!({
                "method": row.method.name(),
                "bytes": row.bytes,
                "commsize": row.processes,
                "iterations": row.iterations,
                "blocking_seconds": row.blocking,
                "nb_wait_seconds": row.wait,
                "nb_sleep": mode(&row.sleep),
                "nb_active": mode(&row.active),
            })
        };
        let document = json!({
            "program": "mpi_collective_benchmark",
            "version": env!("CARGO_PKG_VERSION"),
            "threshold": self.options.threshold,
            "start": self.options.start.name(),
            "statistic": "mean over processes and iterations",
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }

    fn curves(&self, by_bytes: bool) -> Vec<Curve> {
        let mut curves: Vec<Curve> = Vec::new();
        for row in &self.rows {
            let modes = [
                ("Blocking", row.blocking),
                ("NB_wait", row.wait),
                ("ovhd_sleep", row.sleep.overhead_seconds),
                ("ovhd_active", row.active.overhead_seconds),
            ];
            for (mode, seconds) in modes {
                let name = match by_bytes {
                    true => format!("{} {mode}, {} processes", row.method.name(), row.processes),
                    false => format!("{} {mode}", row.method.name()),
                };
                let x = if by_bytes { row.bytes as f64 } else { f64::from(row.processes) };
                let point = (x, seconds);
                match curves.iter_mut().find(|curve| curve.name == name) {
                    Some(curve) => curve.points.push(point),
                    None => curves.push(Curve { name, points: vec![point] }),
                }
            }
        }
        curves
    }
}

fn print_steps(row: &Row) {
    for (mode, found) in [("NB_sleep", &row.sleep), ("NB_active", &row.active)] {
        eprintln!("{mode}: base_t {}", scientific(found.base_seconds));
        for step in &found.steps {
            eprintln!(
                "{mode}: iter_t {} work_t {} ovhd {}",
                scientific(step.measured.seconds),
                scientific(step.measured.work_seconds),
                scientific(step.measured.overhead_seconds())
            );
        }
    }
}

/// As C++ prints a scientific number with six digits: `1.234560e-05`.
fn scientific(value: f64) -> String {
    let text = format!("{value:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::super::availability::{Iteration, Step};
    use super::super::options::parse;
    use super::*;
    use crate::measure::command_line::Parsed;

    fn text_of(line: &str) -> String {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let Ok(Parsed::Options(options)) = parse(&arguments, || None) else { panic!("{line}") };
        let step = |nominal_work_seconds, work_seconds, seconds| Step {
            nominal_work_seconds,
            measured: Iteration { seconds, work_seconds },
        };
        let found = Availability {
            base_seconds: 4e-5,
            overhead_seconds: 1e-5,
            available: 0.75,
            steps: vec![step(1e-5, 1.1e-5, 4e-5), step(8e-5, 8.2e-5, 9.2e-5)],
        };
        let row = Row {
            method: Method::Gather,
            bytes: 4,
            processes: 4,
            iterations: 10_000,
            blocking: 1.23456e-5,
            wait: 12.5,
            sleep: found.clone(),
            active: Availability { available: -0.02, ..found },
        };
        let mut output = Output { options: &options, rows: vec![row], document: document() };
        output.rows.push(Row { processes: 8, ..output.rows[0].clone() });
        output.text()
    }

    fn document() -> Document {
        Document::open(None, false).unwrap()
    }

    #[test]
    fn columns_have_the_originals_widths() {
        let text = text_of("");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], "Method: gather");
        assert_eq!(
            lines[1],
            "commsize  iterations  Blocking        NB_wait         NB_sleep        avail(%)    \
             NB_active       avail(%)    "
        );
        assert_eq!(
            lines[2],
            "4         10000       1.234560e-05    1.250000e+01    4.000000e-05    75.00       \
             4.000000e-05    -2.00       "
        );
        assert!(lines[3].starts_with("8 "));
        assert_eq!(text_of("-nohdr 1").lines().count(), 2);
    }

    #[test]
    fn the_overhead_has_columns_of_its_own_behind_the_originals() {
        let (usual, longer) = (text_of(""), text_of("-overhead 1"));
        let added = |line: usize| {
            let usual = usual.lines().nth(line).unwrap();
            longer.lines().nth(line).unwrap().strip_prefix(usual).unwrap().to_owned()
        };
        assert_eq!(added(1), "ovhd_sleep      ovhd_active     ");
        assert_eq!(added(2), "1.000000e-05    1.000000e-05    ");
    }

    #[test]
    fn csv_and_json_hold_both_modes() {
        let csv = text_of("-format csv");
        assert!(csv.lines().all(|line| line.split(',').count() == 12), "{csv}");
        let json: serde_json::Value = serde_json::from_str(&text_of("-format json")).unwrap();
        assert_eq!(json["rows"][1]["commsize"], 8);
        assert_eq!(json["rows"][0]["nb_sleep"]["base_seconds"], 4e-5);
        assert_eq!(json["rows"][0]["nb_sleep"]["steps"][1]["work_seconds"], 8.2e-5);
        assert_eq!(json["start"], "barrier");
    }
}
