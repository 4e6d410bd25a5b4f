//! What the demo has to show: a table for the terminal, and a page that needs nothing but itself.

use super::change::ChangeRun;
use arborcast_draw::chart::{Axis, Chart, Join, Reference, Scale, Series};
use arborcast_draw::svg::escape;
use arborcast_draw::tree;
use arborcast_draw::units::seconds;
use arborcast_planner::trees::shapes;
use arborcast_proto::Tree;
use arborcast_proto::message::Times;
use std::fmt::Write;

/// One run of the program under Arborcast.
pub struct RunRow {
    pub number: usize,
    /// The plan that the daemon had at the run's end.
    pub plan: String,
    pub times_s: Vec<f64>,
}

impl RunRow {
    pub fn median_s(&self) -> f64 {
        super::median(&self.times_s)
    }
}

pub struct Report {
    pub nodes: Vec<String>,
    pub limit_s: f64,
    pub native_s: Vec<f64>,
    pub rows: Vec<RunRow>,
    pub change: ChangeRun,
    pub tree_text: String,
    pub tree_svg: String,
    pub history_svg: String,
    /// How well the emulated grid kept its word.
    pub lab: String,
    pub log: Vec<String>,
}

/// Of what `arborcast trees` prints: up to the second of several trees, which look much alike.
fn first_tree(text: &str) -> String {
    let mut trees = text.match_indices("\ntree ").skip(1).peekable();
    let Some(&(end, _)) = trees.peek() else { return text.to_owned() };
    format!("{}\n({} more in the report)\n", &text[..end], trees.count())
}

impl Report {
    fn last_s(&self) -> f64 {
        self.rows.last().map_or(f64::NAN, RunRow::median_s)
    }

    fn gain(&self) -> String {
        let native = super::median(&self.native_s);
        format!(
            "{:.1} times as fast as native at the end: {} against {}; the network allows {}",
            native / self.last_s(),
            seconds(self.last_s()),
            seconds(native),
            seconds(self.limit_s)
        )
    }

    /// As many lines as there were runs, and what it came to.
    pub fn table(&self) -> String {
        let mut text = format!(
            "\n{:>6}  {:>10} {:>21}  {:>7}  plan\n",
            "run", "median", "least … most", "× limit"
        );
        let mut row = |run: &str, times_s: &[f64], plan: &str| {
            let Some(times) = Times::of(times_s) else { return };
            let spread = format!("{} … {}", seconds(times.min_s), seconds(times.max_s));
            let (median, ratio) = (seconds(times.median_s), times.median_s / self.limit_s);
            let _ = writeln!(text, "{run:>6}  {median:>10} {spread:>21}  {ratio:>7.2}  {plan}");
        };
        row("native", &self.native_s, "Open MPI's broadcast");
        for run in &self.rows {
            row(&run.number.to_string(), &run.times_s, &run.plan);
        }
        let _ = writeln!(text, "\nThe plan in use now:\n{}", first_tree(&self.tree_text));
        let _ = writeln!(text, "{}", self.gain());
        let _ = writeln!(text, "A link falls and heals: {}", self.change.summary());
        let _ = writeln!(text, "The emulated grid: {}", self.lab);
        text
    }

    /// Time against run number: what the i-th run of a program gains over the first.
    fn runs_svg(&self) -> String {
        let number = |value: f64| format!("{value:.0}");
        let points = self.rows.iter().map(|row| (row.number as f64, row.median_s())).collect();
        let native = super::median(&self.native_s);
        Chart {
            title: "Time of a 1 MiB broadcast against the number of the run",
            x: Axis { label: "run of the program", scale: Scale::Linear, format: &number },
            y: Axis { label: "median time until all ACKs", scale: Scale::Log, format: &seconds },
            series: vec![Series { name: "under arborcast run", points, join: Join::Line }],
            references: vec![
                Reference { name: "native", value: native },
                Reference { name: "limit", value: self.limit_s },
            ],
        }
        .svg()
    }

    /// The time of each broadcast while a link falls and heals.
    fn change_svg(&self) -> String {
        let number = |value: f64| format!("{value:.0}");
        let ChangeRun { broadcasts, fell_s, healed_s } = &self.change;
        let ends_s = broadcasts.last().map_or(*healed_s, |(at_s, _)| *at_s);
        let level = self.limit_s / 2.0;
        Chart {
            title: "Time of each 1 MiB broadcast while a link falls to a tenth and heals",
            x: Axis { label: "seconds", scale: Scale::Linear, format: &number },
            y: Axis { label: "until all ACKs", scale: Scale::Log, format: &seconds },
            series: vec![
                Series { name: "broadcasts", points: broadcasts.clone(), join: Join::Line },
                Series {
                    name: "the link at a tenth",
                    points: vec![(*fell_s, level), (healed_s.min(ends_s), level)],
                    join: Join::Line,
                },
            ],
            references: vec![Reference { name: "native", value: super::median(&self.native_s) }],
        }
        .svg()
    }

    fn binomial_svg(&self) -> String {
        let name = |node: usize| self.nodes[node].clone();
        let nothing = |_: usize, _: usize| None;
        let labels = tree::Labels { node: &name, edge: &nothing };
        let binomial = shapes::binomial(self.nodes.len(), 0);
        let title = "A binomial tree over the ranks";
        Tree::from_parents(&binomial.parents())
            .map_or(String::new(), |t| tree::svg(&t, &labels, title))
    }

    /// A page without scripts, styles or pictures from elsewhere.
    pub fn html(&self) -> String {
        // Line by line: escaping is for text in one line.
        let lines = |text: &str| text.lines().map(escape).collect::<Vec<_>>().join("\n");
        let (table, log) = (lines(&self.table()), lines(&self.log.join("\n")));
        let (runs, change, before) = (self.runs_svg(), self.change_svg(), self.binomial_svg());
        let (after, history) = (&self.tree_svg, &self.history_svg);
        let gain = escape(&self.gain());
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>Arborcast: the demo's report</title>\n<style>body{{font:16px/1.5 sans-serif;\
             max-width:60em;margin:2em auto;padding:0 1em}}pre{{overflow-x:auto;background:#f4f4f4;\
             padding:1em;font-size:13px}}svg{{max-width:100%;height:auto}}</style></head><body>\n\
             <h1>Arborcast: from run to run</h1>\n<p>{gain}.</p>\n{runs}\n\
             <p>Each run is the same MPI program, not recompiled, on an emulated grid of 16 nodes on \
             four sites; a point is the median of its broadcasts, each checked byte by byte. Between \
             two runs the experiment searches.</p>\n\
             <h2>A link falls</h2>\n{change}\n<p>One run of the program: the link between sites a and b falls \
             to a tenth of its rate and heals. The program's own broadcasts tell the experiment.</p>\n\
             <h2>Before</h2>\n<p>What ranks alone suggest, blind to the network.</p>\n{before}\n\
             <h2>After</h2>\n<p>What the experiment found.</p>\n{after}\n\
             <h2>How the search went</h2>\n{history}\n<h2>All figures</h2>\n<pre>{table}</pre>\n\
             <h2>The experiment's log</h2>\n<pre>{log}</pre>\n\
             <p>Made by <code>make demo</code>.</p></body></html>\n"
        )
    }
}
