//! The two plots of a run: the matrix of the longest messages, and cells against message length.

use super::matrix::{Matrix, Statistic};
use super::options::Options;
use crate::measure::failure::Failure;
use crate::measure::plot::{HeatMap, LineChart, Series, heat_map, line_chart, save};
use crate::measure::report::with_suffix;

/// Collects what the plots need while lengths are measured; nothing without `--plot`.
pub struct Plots<'a> {
    options: &'a Options,
    names: Vec<String>,
    last: Option<(usize, Matrix)>,
    series: Vec<Series>,
}

impl<'a> Plots<'a> {
    pub fn new(options: &'a Options, hosts: &[String]) -> Self {
        let names: Vec<String> = if options.plot_cell.is_empty() {
            ["slowest", "median", "fastest"].map(str::to_owned).to_vec()
        } else {
            let name = |(from, to): &(usize, usize)| format!("{} to {}", hosts[*from], hosts[*to]);
            options.plot_cell.iter().map(name).collect()
        };
        let series = names.into_iter().map(|name| Series { name, points: Vec::new() }).collect();
        // Ranks on one host are told apart by their number.
        let names = hosts.iter().enumerate().map(|(rank, host)| format!("{rank} {host}")).collect();
        Self { options, names, last: None, series }
    }

    pub fn add(&mut self, length: usize, matrix: &Matrix) {
        if self.options.plot.is_none() {
            return;
        }
        let values = if self.options.plot_cell.is_empty() {
            extremes(matrix).to_vec()
        } else {
            let cells = self.options.plot_cell.iter();
            cells.map(|(sender, receiver)| matrix.cell(*receiver, *sender).median).collect()
        };
        for (series, value) in self.series.iter_mut().zip(values) {
            series.points.push((length as f64, value));
        }
        self.last = Some((length, matrix.clone()));
    }

    /// Draws both.
    pub fn save(&self) -> Result<(), Failure> {
        let (Some(path), Some((length, matrix))) = (&self.options.plot, &self.last) else {
            return Ok(());
        };
        let name = self.options.test_type.name();
        let map = heat_map(&HeatMap {
            title: &format!("{name}, {length} bytes: median seconds"),
            row_title: "receiving process",
            column_title: "sending process",
            names: &self.names,
            values: &matrix.values(Statistic::Median),
            unit: "s",
        });
        save(&map, path)?;
        let chart = line_chart(&LineChart {
            title: &format!("{name}: time against message length"),
            x_title: "message length",
            y_title: "median seconds",
            x_unit: "B",
            y_unit: "s",
            series: &self.series,
        });
        save(&chart, &with_suffix(path, "lengths"))
    }
}

/// Slowest, median and fastest cell off the diagonal.
fn extremes(matrix: &Matrix) -> [f64; 3] {
    let n = matrix.processes();
    let mut medians: Vec<f64> = (0..n * n)
        .filter(|index| index / n != index % n)
        .map(|index| matrix.cell(index / n, index % n).median)
        .collect();
    medians.sort_by(f64::total_cmp);
    [medians[medians.len() - 1], medians[medians.len() / 2], medians[0]]
}
