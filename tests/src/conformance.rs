//! Runs a table of rows (`programs/conformance`) natively and under Arborcast, and compares the lines.
//!
//! A row that ends its job, or has no end, costs only itself: the job is started again with the rows
//! behind it.

use crate::{Background, Grid, GridError, Run};
use std::path::Path;
use std::time::{Duration, Instant};

/// Above the limit that each row has of its own, in the program: a launcher may outlive its ranks.
const STALL_LIMIT: Duration = Duration::from_secs(60);
const LARGE_STALL_LIMIT: Duration = Duration::from_secs(660);

/// What a row's line says, or how the row ended the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    pub line: String,
}

/// All rows of a table, as one MPI with or without Arborcast runs them.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Row>,
    /// Broadcasts that were asked how they went, by ranks other than the root.
    pub asked: u64,
    pub along_trees: u64,
}

impl Table {
    fn line(&self, name: &str) -> Option<&str> {
        self.rows.iter().find(|row| row.name == name).map(|row| row.line.as_str())
    }

    /// Rows whose line says that something is wrong, with it.
    pub fn wrong(&self) -> Vec<&Row> {
        let is_wrong = |row: &&Row| row.line.contains("WRONG") || row.line.starts_with(ENDED);
        self.rows.iter().filter(is_wrong).collect()
    }
}

const ENDED: &str = "ended the job";
/// What follows the last row: MPI_Finalize, and the exit code.
const END: &str = "the end of the program";

/// Takes the lines of one job; returns the row that was open when they ended.
fn take(table: &mut Table, lines: &[String]) -> Option<String> {
    let mut open = None;
    for line in lines {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "begin" => open = Some(rest.to_owned()),
            "row" | "skip" => {
                let Some((name, said)) = rest.split_once(" |") else { continue };
                // Anything may stand on standard output; a row is one that has begun.
                if open.as_deref() == Some(name) {
                    let said = said.trim();
                    let line =
                        if kind == "skip" { format!("skipped: {said}") } else { said.into() };
                    table.rows.push(Row { name: name.into(), line });
                    open = None;
                }
            }
            "trees" => {
                let mut numbers =
                    rest.split(' ').skip(1).filter_map(|word| word.parse::<u64>().ok());
                table.asked += numbers.next().unwrap_or(0);
                table.along_trees += numbers.next().unwrap_or(0);
            }
            "all" if line == "all rows ended" => open = Some(END.into()),
            _ => {}
        }
    }
    open
}

/// Runs one job to its end, whatever that is.
fn job(
    grid: &Grid,
    run: &Run<'_>,
    application: &Path,
    arguments: &[&str],
) -> Result<(bool, Vec<String>), GridError> {
    let failed = |error| GridError::Start("conformance".into(), error);
    let command = grid.application(run, application, arguments)?;
    let mut running = Background::start(command, "conformance").map_err(failed)?;
    let is_large = arguments.contains(&"--large");
    let limit = if is_large { LARGE_STALL_LIMIT } else { STALL_LIMIT };
    let (mut lines, mut heard) = (Vec::new(), Instant::now());
    let status = loop {
        let fresh = running.lines();
        if !fresh.is_empty() {
            lines.extend(fresh);
            heard = Instant::now();
        }
        match running.ended() {
            Some(status) => break Some(status),
            None if heard.elapsed() > limit => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // The readers of the streams may still have something.
    std::thread::sleep(Duration::from_millis(100));
    lines.extend(running.lines());
    Ok((status.is_some_and(|status| status.success()), lines))
}

/// Runs the rows that `flags` choose, or only those of `names`.
///
/// # Errors
/// Where the program cannot be started.
pub fn table(
    grid: &Grid,
    run: &Run<'_>,
    application: &Path,
    flags: &[&str],
    names: &[String],
) -> Result<Table, GridError> {
    let mut table = Table::default();
    let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
    loop {
        let (good, lines) = job(grid, run, application, &[flags, &left].concat())?;
        let before = table.rows.len();
        let open = take(&mut table, &lines);
        let promises_broken = table.rows[before..].iter().any(|row| row.line.contains("WRONG"));
        if open.as_deref() == Some(END) {
            if !good && !promises_broken {
                table
                    .rows
                    .push(Row { name: END.into(), line: format!("{ENDED}: {}", last(&lines)) });
            }
            return Ok(table);
        }
        let name = open.unwrap_or_else(|| "the beginning".into());
        table.rows.push(Row { name: name.clone(), line: format!("{ENDED}: {}", last(&lines)) });
        let Some(at) = left.iter().position(|row| *row == name) else { return Ok(table) };
        left.drain(..=at);
        if left.is_empty() {
            return Ok(table);
        }
    }
}

/// The lines that may tell why a job ended.
fn last(lines: &[String]) -> String {
    let of_rows = ["begin ", "row ", "skip ", "trees "];
    let telling = lines.iter().filter(|line| !of_rows.iter().any(|start| line.starts_with(start)));
    let words = ["Abort", "rror", "panicked", "signal", "SIGNAL", "EXIT CODE", "larm clock"];
    let mut telling: Vec<&str> =
        telling.map(|l| l.trim()).filter(|l| words.iter().any(|word| l.contains(word))).collect();
    telling.truncate(2);
    telling.join(" / ")
}

/// Prints `row|native|arborcast` and returns the rows that differ.
pub fn compare(native: &Table, managed: &Table) -> Vec<String> {
    let mut differ = Vec::new();
    println!("row|native|arborcast");
    let names = native
        .rows
        .iter()
        .chain(managed.rows.iter().filter(|row| native.line(&row.name).is_none()));
    for Row { name, .. } in names {
        let (here, there) = (native.line(name), managed.line(name));
        let shown = if here == there { Some("the same") } else { there };
        println!("{name}|{}|{}", here.unwrap_or("-"), shown.unwrap_or("-"));
        if here != there {
            differ.push(format!(
                "{name}: {} natively, {}",
                here.unwrap_or("-"),
                there.unwrap_or("-")
            ));
        }
    }
    println!("{} of {} asked broadcasts went along trees", managed.along_trees, managed.asked);
    differ
}
