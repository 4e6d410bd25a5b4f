//! Results of goptest. The document is written anew after each size, so that an interrupted run
//! leaves what it has, and so that smoothing can change a size that was written already.

use super::graph::Program;
use super::kind::{Calls, SURELY_BUFFERED_BYTES};
use super::options::Options;
use super::original;
use super::sweep::{Entry, Remeasured};
use crate::measure::failure::Failure;
use crate::measure::plot::{Curve, TimeChart, save};
use crate::measure::report::{Document, Format, csv_field};
use serde_json::json;
use std::fmt::Write;

/// One sweep over the sizes.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub broadcast: Option<&'static str>,
    /// Seconds that the ACKer method took off for each process.
    pub subtracted: Vec<f64>,
    pub note: Option<String>,
    pub entries: Vec<Entry>,
    pub remeasured: Vec<Remeasured>,
}

/// Collects the runs and keeps the file up to date.
pub struct Output<'a> {
    options: &'a Options,
    processes: i32,
    runs: Vec<Run>,
    document: Document,
    /// Of gnuplot, where the results are in a file of their own.
    commands: Option<Document>,
}

impl<'a> Output<'a> {
    pub fn open(options: &'a Options, processes: i32) -> Result<Self, Failure> {
        // Two JSON documents in one file would be none.
        let append = options.format != Format::Json;
        let named = Document::open(options.file.as_deref(), append)?;
        let (document, commands) = match options.gnuplot_results() {
            Some(results) => (Document::open(Some(&results), append)?, Some(named)),
            None => (named, None),
        };
        if options.calls == Calls::Blocking
            && options.sizes.last().is_some_and(|size| {
                options.calls_at(*size).is_some_and(|calls| calls != Calls::Blocking)
            })
        {
            eprintln!(
                "goptest: above {SURELY_BUFFERED_BYTES} bytes the receives of -head are \
                 non-blocking, as with -async: blocking ones would wait for ever where the MPI does \
                 not buffer the message"
            );
        }
        Ok(Self { options, processes, runs: Vec::new(), document, commands })
    }

    /// `subtracted` are the seconds that the operation takes off for each process, where it does.
    pub fn begin_run(&mut self, broadcast: Option<&'static str>, subtracted: &[f64]) {
        let subtracted = subtracted.to_vec();
        self.runs.push(Run { broadcast, subtracted, ..Run::default() });
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
            eprintln!("{}", original::remeasured_line(self.options.kind, again));
        }
        let text = self.text();
        self.document.update(&text)
    }

    pub fn finish(self) -> Result<(), Failure> {
        let text = self.text();
        if let Some(path) = &self.options.plot {
            let unit = if self.options.kind.unit_bytes() == 1 { "B" } else { "" };
            let chart = TimeChart {
                title: &self.title(),
                x_title: &format!("size ({} bytes each)", self.options.kind.unit_bytes()),
                x_unit: unit,
                y_title: "least time of a repetition",
                curves: &self.curves(),
            };
            save(&chart.svg(), path)?;
        }
        if let Some(commands) = self.commands {
            let head = original::commands_before(self.options, self.processes);
            commands.finish(&(head + &original::commands_after(self.options, &self.runs)))?;
        }
        self.document.finish(&text)
    }

    fn title(&self) -> String {
        original::title(self.options, self.processes)
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
            Format::Original => {
                let results = original::results(self.options, self.processes, &self.runs);
                match self.options.graph.program {
                    Program::Gnuplot => results,
                    Program::Cit => {
                        original::commands_before(self.options, self.processes)
                            + &results
                            + &original::commands_after(self.options, &self.runs)
                    }
                }
            }
        }
    }

    fn csv(&self) -> String {
        let mut out = String::new();
        if self.options.head && !self.document.has_history() {
            out += "title,operation,broadcast,processes,size,bytes,seconds,samples,repetitions,\
                    remeasured,process,process_seconds,calls\n";
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
                let calls = self.options.calls_at(entry.size).map_or("", Calls::name);
                if self.options.per_process {
                    for (process, seconds) in entry.per_process.iter().enumerate() {
                        let _ = writeln!(out, "{start},{process},{seconds:e},{calls}");
                    }
                } else {
                    let _ = writeln!(out, "{start},,,{calls}");
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
                "mean_seconds": entry.mean_seconds,
                "greatest_seconds": entry.greatest_seconds,
                "samples": entry.samples,
                "repetitions": entry.repetitions,
                "per_process_seconds": entry.per_process,
                "calls": self.options.calls_at(entry.size).map(Calls::name),
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
                "subtracted_seconds": run.subtracted,
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
        Entry {
            size,
            seconds,
            mean_seconds: seconds * 2.0,
            greatest_seconds: seconds * 4.0,
            per_process: vec![0.0, seconds],
            samples: 7,
            repetitions: 50,
        }
    }

    fn text_of(line: &str) -> String {
        let options = options(line);
        let mut output = Output::open(&options, 4).unwrap();
        output.begin_run(options.kind.is_broadcast().then_some("native"), &[]);
        let again = [Remeasured { size: 256, before: 3e-5, after: 2e-5 }];
        let entries = [entry(0, 1e-5), entry(256, 2e-5), entry(2048, 1e-2)];
        output.update(&entries, &again).unwrap();
        output.text()
    }

    #[test]
    fn collective_results_are_a_line_a_run() {
        let row = "4 10.000000 20.000000 10000.000000 \n";
        assert_eq!(text_of("-dsum -noinfo"), row);
        assert_eq!(text_of("-dsum -nohead -notail"), row);
        let text = text_of("-dsum -sizelist 0,256,2048");
        assert!(text.starts_with("set default\n"), "{text}");
        let results = format!("\n\n#np time (us) for various sizes\n{row}#");
        assert!(text.contains(&results), "{text}");
        assert!(text.contains("# sizes (8 bytes each): 0 256 2048\n"), "{text}");
        assert!(
            text.contains("# measured again: size 256, 30.000000 us before, 20.000000 us now\n")
        );
        assert!(text.ends_with("\nwait\nnew page\n"), "{text}");
    }

    #[test]
    fn partner_results_are_a_line_a_size_with_half_of_the_round() {
        let row = "0\t3\t3\t256\t10.000000\t25.600e+6\n";
        assert!(text_of("-roundtrip").contains(row), "{}", text_of("-roundtrip"));
        let text = text_of("-head -size 0 2048 1");
        let (head, rows) = text.split_once("\n#p0\tp1\tdist\tlen\tave time (us)\trate\n").unwrap();
        assert!(head.starts_with("set default\n"), "{head}");
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows[0], "0\t3\t3\t0\t5.000000\t0.00");
        assert_eq!(rows[1], row.trim_end());
        assert!(rows[2].starts_with("# above 1024 bytes"), "{text}");
        assert_eq!(rows[3], "0\t3\t3\t2048\t5000.000000\t409.600e+3");
        assert_eq!(text_of("-head -noinfo").lines().count(), 3);
        assert!(!text_of("-head -async").contains("# above"));
    }

    #[test]
    fn a_range_has_mean_least_and_greatest() {
        let text = text_of("-roundtrip -givedy -noinfo");
        let row = "0\t3\t3\t256\t20.000000\t25600000.00\t10.000000\t40.000000\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn a_fit_is_given_halved_and_whole() {
        let options = options("-dsum -fit -sizelist 0,10");
        let run = Run { entries: vec![entry(0, 4e-6), entry(10, 6e-6)], ..Run::default() };
        let after = original::commands_after(&options, &[run]);
        assert!(
            after.contains("# Model complexity is (2.000000e-6 + n * 1.000000e-7)\n"),
            "{after}"
        );
        assert!(after.contains("# whole time: 4.000000e-6 s + n * 2.000000e-7 s\n"), "{after}");
    }

    #[test]
    fn json_and_csv_are_in_seconds_with_every_process() {
        let json: serde_json::Value =
            serde_json::from_str(&text_of("-bcastalt -perproc -format json")).unwrap();
        assert_eq!(json["runs"][0]["entries"][1]["seconds"], 2e-5);
        assert_eq!(json["runs"][0]["entries"][1]["greatest_seconds"], 8e-5);
        assert_eq!(json["runs"][0]["entries"][1]["bytes"], 1024);
        assert_eq!(json["runs"][0]["remeasured"][0]["size"], 256);
        let csv = text_of("-bcastalt -perproc -format csv");
        assert_eq!(csv.lines().count(), 1 + 3 * 2);
        assert!(csv.lines().all(|line| line.split(',').count() == 13), "{csv}");
    }

    #[test]
    fn csv_and_json_tell_the_calls_of_each_size() {
        let csv = text_of("-head -format csv");
        let calls: Vec<&str> = csv.lines().filter_map(|line| line.rsplit(',').next()).collect();
        assert_eq!(calls, ["calls", "blocking", "blocking", "nonblocking"]);
        let json: serde_json::Value =
            serde_json::from_str(&text_of("-roundtrip -format json")).unwrap();
        assert_eq!(json["runs"][0]["entries"][2]["calls"], "blocking");
    }
}
