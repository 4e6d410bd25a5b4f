//! The benchmark as a page that needs nothing but itself: for each grid, time against size.

use crate::row::Row;
use arborcast_draw::chart::{Axis, Chart, Join, Scale, Series};
use arborcast_draw::svg::escape;
use arborcast_draw::units::{bytes, seconds};

/// `predictions`: how well the model did.
pub fn html(rows: &[Row], predictions: &str) -> String {
    let mut grids: Vec<&str> = rows.iter().map(|row| row.grid.as_str()).collect();
    grids.dedup();
    let charts: Vec<_> = grids.iter().map(|grid| chart(grid, rows)).collect();
    let table: Vec<_> =
        std::iter::once(Row::heading()).chain(rows.iter().map(Row::to_string)).collect();
    let table: Vec<_> = table.iter().map(|line| escape(line)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Arborcast: \
         benchmark</title>\n<style>body{{font:16px/1.5 sans-serif;max-width:70em;margin:2em auto}}\
         pre{{overflow-x:auto;font-size:13px}}</style></head><body>\n<h1>Broadcasts on emulated \
         grids</h1>\n<p>Median time of single broadcasts until the root has an answer from every \
         rank; the limit is what the grid's description allows.</p>\n{}\n<pre>{}</pre>\n\
         <h2>Model and measurement</h2>\n<pre>{}</pre>\n\
         <p>Made by <code>make bench</code>.</p></body></html>\n",
        charts.join("\n"),
        table.join("\n"),
        escape(predictions)
    )
}

fn chart(grid: &str, rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.grid == grid).collect();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in &rows {
        if !names.contains(&(&row.strategy, &row.mpi)) {
            names.push((&row.strategy, &row.mpi));
        }
    }
    let labels: Vec<_> = names
        .iter()
        .map(|(strategy, mpi)| match *strategy {
            "native" => format!("{mpi} native"),
            _ => (*strategy).to_owned(),
        })
        .collect();
    let curve = |value: &dyn Fn(&Row) -> f64, keep: &dyn Fn(&Row) -> bool| {
        let mut points: Vec<_> = rows
            .iter()
            .filter(|row| keep(row))
            .map(|row| (row.bytes.max(1) as f64, value(row)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup();
        points
    };
    let mut series: Vec<_> = names
        .iter()
        .zip(&labels)
        .map(|((strategy, mpi), name)| Series {
            name,
            points: curve(&Row::median_s, &|row| row.strategy == *strategy && row.mpi == *mpi),
            join: Join::Line,
        })
        .collect();
    let points = curve(&|row| row.limit_s, &|_| true);
    series.push(Series { name: "limit", points, join: Join::Line });
    let size = |value: f64| bytes(value.round() as u64);
    Chart {
        title: grid,
        x: Axis { label: "message", scale: Scale::Log, format: &size },
        y: Axis { label: "median time", scale: Scale::Log, format: &seconds },
        series,
        references: vec![],
    }
    .svg()
}
