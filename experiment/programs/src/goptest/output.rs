//! Results of goptest. The document is written anew after each size, so that an interrupted run
//! leaves what it has, and so that smoothing can change a size that was written already.

use super::options::Options;
use super::sweep::{Entry, Remeasured};
use crate::measure::failure::Failure;
use crate::measure::plot::{Curve, TimeChart, save};
use crate::measure::report::{Document, Format, csv_field};
use serde_json::json;
use std::fmt::Write;

const SECONDS_TO_MICROSECONDS: f64 = 1e6;

/// One sweep over the sizes.
#[derive(Debug, Clone, Default)]
struct Run {
    broadcast: Option<&'static str>,
    note: Option<String>,
    entries: Vec<Entry>,
    remeasured: Vec<Remeasured>,
}

/// Collects the runs and keeps the file up to date.
pub struct Output<'a> {
    options: &'a Options,
    processes: i32,
    runs: Vec<Run>,
    document: Document,
}

impl<'a> Output<'a> {
    pub fn open(options: &'a Options, processes: i32) -> Result<Self, Failure> {
        // Two JSON documents in one file would be none.
        let append = options.format != Format::Json;
        let document = Document::open(options.file.as_deref(), append)?;
        Ok(Self { options, processes, runs: Vec::new(), document })
    }

    pub fn begin_run(&mut self, broadcast: Option<&'static str>) {
        self.runs.push(Run { broadcast, ..Run::default() });
    }

    /// Adds what is known only at the end of a run.
    pub fn end_run(&mut self, note: Option<String>) {
        if let Some(run) = self.runs.last_mut() {
            run.note = note;
        }
    }

    /// All that is known of the present run.
    pub fn update(&mut self, entries: &[Entry], remeasured: &[Remeasured]) -> Result<(), Failure> {
        if let Some(run) = self.runs.last_mut() {
            run.entries = entries.to_vec();
            run.remeasured = remeasured.to_vec();
        }
        for again in remeasured {
            eprintln!("{}", remeasured_line(again));
        }
        let text = self.text();
        self.document.update(&text)
    }

    pub fn finish(self) -> Result<(), Failure> {
        let text = self.text();
        if let (true, Some(path)) = (self.options.gnuplot, &self.options.file) {
            let mut script = path.clone().into_os_string();
            script.push(".gpl");
            std::fs::write(&script, self.gnuplot_script())
                .map_err(|error| Failure::file(script.as_ref(), &error))?;
        }
        if let Some(path) = &self.options.plot {
            let unit = if self.options.kind.unit_bytes() == 1 { "B" } else { "" };
            let chart = TimeChart {
                title: &self.title(),
                x_title: &format!("size ({} bytes each)", self.options.kind.unit_bytes()),
                x_unit: unit,
                y_title: "least time",
                curves: &self.curves(),
            };
            save(&chart.svg(), path)?;
        }
        self.document.finish(&text)
    }

    fn title(&self) -> String {
        let default =
            || format!("goptest -{} on {} processes", self.options.kind.name(), self.processes);
        self.options.title.clone().unwrap_or_else(default)
    }

    fn curves(&self) -> Vec<Curve> {
        let one = |run: &Run| Curve {
            name: run.broadcast.unwrap_or(self.options.kind.name()).to_owned(),
            points: run.entries.iter().map(|e| (e.size as f64, e.seconds)).collect(),
        };
        self.runs.iter().map(one).collect()
    }

    fn text(&self) -> String {
        match self.options.format {
            Format::Json => self.json(),
            Format::Csv => self.csv(),
            Format::Original => self.original(),
        }
    }

    /// For collective operations a line a run, processes and then microseconds of each size; for
    /// partners a line a size, as mpptest has it.
    fn original(&self) -> String {
        let options = self.options;
        let mut out = String::new();
        // Writing to a String cannot fail.
        for run in &self.runs {
            if options.info {
                let _ = writeln!(out, "# {}", self.title());
                if let Some(name) = run.broadcast {
                    let note =
                        run.note.as_deref().map_or(String::new(), |note| format!(" ({note})"));
                    let _ = writeln!(out, "# broadcast: {name}{note}");
                }
                let sizes: Vec<String> = options.sizes.iter().map(ToString::to_string).collect();
                let unit = options.kind.unit_bytes();
                let _ = writeln!(out, "# sizes ({unit} bytes each): {}", sizes.join(" "));
            }
            if options.kind.is_between_partners() {
                self.partner_lines(run, &mut out);
            } else {
                if options.head && !self.document.has_history() {
                    out += "#np time (us) for various sizes\n";
                }
                let _ = write!(out, "{} ", self.processes);
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
                    let _ = writeln!(out, "# {}", remeasured_line(again));
                }
            }
        }
        out
    }

    fn partner_lines(&self, run: &Run, out: &mut String) {
        if self.options.head {
            *out += "#p0\tp1\tdist\tlen\tave time (us)\trate\n";
        }
        let last = self.processes - 1;
        for entry in &run.entries {
            let _ = writeln!(
                out,
                "0\t{last}\t{last}\t{}\t{:.6}\t{:.2}",
                entry.size,
                entry.seconds * SECONDS_TO_MICROSECONDS,
                self.rate(entry)
            );
        }
    }

    /// Bytes a second in one direction.
    fn rate(&self, entry: &Entry) -> f64 {
        let ways = if self.options.kind.name() == "roundtrip" { 2.0 } else { 1.0 };
        if entry.seconds > 0.0 { ways * entry.size as f64 / entry.seconds } else { 0.0 }
    }

    fn csv(&self) -> String {
        let mut out = String::new();
        if self.options.head && !self.document.has_history() {
            out += "title,operation,broadcast,processes,size,bytes,seconds,samples,repetitions,\
                    remeasured,process,process_seconds\n";
        }
        for run in &self.runs {
            for entry in &run.entries {
                let start = format!(
                    "{},{},{},{},{},{},{:e},{},{},{}",
                    csv_field(&self.title()),
                    self.options.kind.name(),
                    run.broadcast.unwrap_or(""),
                    self.processes,
                    entry.size,
                    entry.size * self.options.kind.unit_bytes(),
                    entry.seconds,
                    entry.samples,
                    entry.repetitions,
                    run.remeasured.iter().filter(|again| again.size == entry.size).count()
                );
                if self.options.per_process {
                    for (process, seconds) in entry.per_process.iter().enumerate() {
                        let _ = writeln!(out, "{start},{process},{seconds:e}");
                    }
                } else {
                    let _ = writeln!(out, "{start},,");
                }
            }
        }
        out
    }

    fn json(&self) -> String {
        let entry = |entry: &Entry| {
            json!({
                "size": entry.size,
                "bytes": entry.size * self.options.kind.unit_bytes(),
                "seconds": entry.seconds,
                "samples": entry.samples,
                "repetitions": entry.repetitions,
                "per_process_seconds": entry.per_process,
            })
        };
        let again = |again: &Remeasured| {
            json!({
                "size": again.size,
                "before_seconds": again.before,
                "after_seconds": again.after,
            })
        };
        let run = |run: &Run| {
            json!({
                "broadcast": run.broadcast,
                "note": run.note,
                "entries": run.entries.iter().map(entry).collect::<Vec<_>>(),
                "remeasured": run.remeasured.iter().map(again).collect::<Vec<_>>(),
            })
        };
        let document = json!({
            "program": "goptest",
            "version": env!("CARGO_PKG_VERSION"),
            "title": self.title(),
            "operation": self.options.kind.name(),
            "processes": self.processes,
            "unit_bytes": self.options.kind.unit_bytes(),
            "statistic": "least sample",
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }

    fn gnuplot_script(&self) -> String {
        let file =
            self.options.file.as_deref().map_or_else(String::new, |f| f.display().to_string());
        let mut out = format!("set title \"{}\"\nset ylabel \"time (us)\"\n", self.title());
        if self.options.kind.is_between_partners() {
            out += "set xlabel \"bytes\"\n";
            let _ = writeln!(out, "plot \"{file}\" using 4:5 with linespoints notitle");
            return out;
        }
        out += "set xlabel \"processes\"\n";
        let columns: Vec<String> = self
            .options
            .sizes
            .iter()
            .enumerate()
            .map(|(index, size)| {
                let column = index + 2;
                format!("\"{file}\" using 1:{column} with linespoints title \"size {size}\"")
            })
            .collect();
        let _ = writeln!(out, "plot {}", columns.join(", \\\n     "));
        out
    }
}

fn per_process_lines(run: &Run, out: &mut String) {
    for entry in &run.entries {
        let _ = write!(out, "# size {} OL_i (us):", entry.size);
        for seconds in &entry.per_process {
            let _ = write!(out, " {:.6}", seconds * SECONDS_TO_MICROSECONDS);
        }
        out.push('\n');
    }
}

fn remeasured_line(again: &Remeasured) -> String {
    format!(
        "measured again: size {}, {:.6} us before, {:.6} us now",
        again.size,
        again.before * SECONDS_TO_MICROSECONDS,
        again.after * SECONDS_TO_MICROSECONDS
    )
}

#[cfg(test)]
mod tests {
    use super::super::options::parse;
    use super::*;
    use crate::measure::command_line::Parsed;

    fn options(line: &str) -> Options {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&arguments).unwrap() {
            Parsed::Options(options) => options,
            Parsed::Text(text) => panic!("{text}"),
        }
    }

    fn entry(size: usize, seconds: f64) -> Entry {
        Entry { size, seconds, per_process: vec![0.0, seconds], samples: 3, repetitions: 50 }
    }

    fn text_of(line: &str) -> String {
        let options = options(line);
        let mut output = Output::open(&options, 4).unwrap();
        output.begin_run(options.kind.is_broadcast().then_some("native"));
        let again = [Remeasured { size: 256, before: 3e-5, after: 2e-5 }];
        output.update(&[entry(0, 1e-5), entry(256, 2e-5)], &again).unwrap();
        output.text()
    }

    #[test]
    fn collective_results_are_a_line_a_run() {
        let text = text_of("-dsum -noinfo -notail");
        assert_eq!(text, "#np time (us) for various sizes\n4 10.000000 20.000000 \n");
        assert_eq!(text_of("-dsum -noinfo -notail -nohead"), "4 10.000000 20.000000 \n");
        assert!(text_of("-dsum").contains("# measured again: size 256, 30.000000 us before"));
    }

    #[test]
    fn partner_results_are_a_line_a_size() {
        let text = text_of("-head -noinfo -notail");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "#p0\tp1\tdist\tlen\tave time (us)\trate");
        assert_eq!(lines[2], "0\t3\t3\t256\t20.000000\t12800000.00");
        assert!(text_of("-roundtrip -noinfo").contains("\t25600000.00\n"));
    }

    #[test]
    fn json_and_csv_are_in_seconds_with_every_process() {
        let json: serde_json::Value =
            serde_json::from_str(&text_of("-bcastalt -perproc -format json")).unwrap();
        assert_eq!(json["runs"][0]["entries"][1]["seconds"], 2e-5);
        assert_eq!(json["runs"][0]["entries"][1]["bytes"], 1024);
        assert_eq!(json["runs"][0]["remeasured"][0]["size"], 256);
        let csv = text_of("-bcastalt -perproc -format csv");
        assert_eq!(csv.lines().count(), 1 + 2 * 2);
        assert!(csv.lines().all(|line| line.split(',').count() == 12), "{csv}");
    }
}
