//! `arborcast matrix`: the links as the experiment measured them.

use super::{CommandError, Daemon, json, print_table, right, table};
use arborcast_draw::heat_map::HeatMap;
use arborcast_draw::units;
use arborcast_proto::message::{Answer, Ask};
use arborcast_proto::{Group, LinkMatrix};

/// Latencies and rates of every group that was measured.
///
/// # Errors
/// Where the daemon does not answer.
pub fn matrix(daemon: &mut Daemon, as_json: bool, as_svg: bool) -> Result<String, CommandError> {
    let matrices = daemon.ask(&Ask::Matrices, |answer| match answer {
        Answer::Matrices(matrices) => Some(matrices),
        _ => None,
    })?;
    if as_json {
        let matrices = matrices.iter().map(|(group, matrix)| json::matrix(group, matrix));
        return Ok(json::print(&matrices.collect()));
    }
    if matrices.is_empty() {
        return Ok("no links measured yet\n".into());
    }
    let draw = if as_svg { svg } else { text };
    Ok(matrices.iter().map(|(group, matrix)| draw(group, matrix)).collect())
}

type Measure<'a> = (&'a str, &'a dyn Fn(usize, usize) -> f64, &'a dyn Fn(f64) -> String);

fn measures<T>(matrix: &LinkMatrix, use_them: impl FnOnce([Measure<'_>; 2]) -> T) -> T {
    use_them([
        ("one-way latency", &|from, to| matrix.latency_s(from, to), &units::seconds),
        ("rate", &|from, to| matrix.rate(from, to), &units::rate),
    ])
}

fn text(group: &Group, matrix: &LinkMatrix) -> String {
    measures(matrix, |both| {
        let draw = |(name, value, format): Measure<'_>| {
            let names = group.nodes().iter().map(|name| name.as_str());
            let header: Vec<&str> = ["from \\ to"].into_iter().chain(names).collect();
            let mut table = table(&header);
            for (from, node) in group.nodes().iter().enumerate() {
                let cell = |to: usize| {
                    right(if from == to { "·".into() } else { format(value(from, to)) })
                };
                let cells = (0..matrix.nodes()).map(cell);
                table.add_row([node.as_str().into()].into_iter().chain(cells));
            }
            format!("{name}, group {}\n{}\n", group.hash(), print_table(&table))
        };
        both.map(draw).concat()
    })
}

fn svg(group: &Group, matrix: &LinkMatrix) -> String {
    measures(matrix, |both| {
        let draw = |(name, value, format): Measure<'_>| {
            let title = format!("{name} from row to column");
            let names = group.nodes().iter().map(ToString::to_string).collect();
            let value = |from: usize, to: usize| (from != to).then(|| value(from, to));
            HeatMap { title: &title, names, arrow: '→', value: &value, format }.svg()
        };
        both.map(draw).concat()
    })
}
