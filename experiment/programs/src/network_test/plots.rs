//! The two plots of a run: the matrix of the longest messages, and cells against message length.

use super::matrix::Matrix;
use super::options::Options;
use crate::measure::failure::Failure;
use crate::measure::plot::{Curve, TimeChart, save};
use crate::measure::report::with_suffix;
use arborcast_draw::heat_map::HeatMap;
use arborcast_draw::units;
use arborcast_proto::message::Times;

/// Collects what the plots need while lengths are measured; nothing without `--plot`.
pub struct Plots<'a> {
    options: &'a Options,
    names: Vec<String>,
    last: Option<(usize, Matrix)>,
    curves: Vec<Curve>,
}

impl<'a> Plots<'a> {
    pub fn new(options: &'a Options, hosts: &[String]) -> Self {
        let names: Vec<String> = if options.plot_cell.is_empty() {
            ["slowest", "median", "fastest"].map(str::to_owned).to_vec()
        } else {
            let name = |(from, to): &(usize, usize)| format!("{} to {}", hosts[*from], hosts[*to]);
            options.plot_cell.iter().map(name).collect()
        };
        let curves = names.into_iter().map(|name| Curve { name, points: Vec::new() }).collect();
        // Ranks on one host are told apart by their number.
        let names = hosts.iter().enumerate().map(|(rank, host)| format!("{rank} {host}")).collect();
        Self { options, names, last: None, curves }
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
        for (curve, value) in self.curves.iter_mut().zip(values) {
            curve.points.push((length as f64, value));
        }
        self.last = Some((length, matrix.clone()));
    }

    /// Draws both.
    pub fn save(&self) -> Result<(), Failure> {
        let (Some(path), Some((length, matrix))) = (&self.options.plot, &self.last) else {
            return Ok(());
        };
        let name = self.options.test_type.name();
        let map = HeatMap {
            title: &format!("{name}, {length} bytes: median time to row from column"),
            names: self.names.clone(),
            arrow: '←',
            value: &|to, from| (to != from).then(|| matrix.cell(to, from).median),
            format: &units::seconds,
        };
        save(&map.svg(), path)?;
        let chart = TimeChart {
            title: &format!("{name}: time against message length"),
            x_title: "message length",
            x_unit: "B",
            y_title: "median time",
            curves: &self.curves,
        };
        save(&chart.svg(), &with_suffix(path, "lengths"))
    }
}

/// Slowest, median and fastest cell off the diagonal.
fn extremes(matrix: &Matrix) -> [f64; 3] {
    let n = matrix.processes();
    let medians: Vec<f64> = (0..n * n)
        .filter(|index| index / n != index % n)
        .map(|index| matrix.cell(index / n, index % n).median)
        .collect();
    Times::of(&medians).map_or([0.0; 3], |times| [times.max_s, times.median_s, times.min_s])
}
