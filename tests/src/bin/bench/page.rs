//! `docs/figures.md`, made from `docs/figures.json`: rows as `bench.json` has them, what was measured
//! by other commands as tables, and how it was measured.

use arborcast_draw::units::bytes;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const DATA: &str = "docs/figures.json";
const PAGE: &str = "docs/figures.md";

/// What the page tells.
#[derive(Deserialize)]
struct Data {
    /// Which builds, and when.
    measured: String,
    /// Machine and method, a paragraph each.
    setup: Vec<String>,
    /// Names in `bench.json` and as people know them, in the order of the columns.
    mpis: Vec<(String, String)>,
    rows: Vec<Figure>,
    tables: Vec<Table>,
    known_limits: Vec<String>,
}

/// A row of `bench.json`, as far as the page shows it.
#[derive(Deserialize)]
struct Figure {
    grid: String,
    mpi: String,
    strategy: String,
    bytes: u64,
    median_s: Option<f64>,
    x_limit: Option<Ratio>,
    /// Until the best plan was within 10 % of the last.
    search_s: Option<f64>,
}

/// Times as multiples of the limit.
#[derive(Deserialize)]
struct Ratio {
    median: f64,
    min: f64,
    max: f64,
    repetitions: u32,
}

#[derive(Deserialize)]
struct Table {
    title: String,
    text: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Writes the page. With `rows`, the path of a `bench.json` and what to call it, those of its rows that
/// the lab kept up with replace the data's first.
pub fn write(rows: Option<(&Path, &str)>) -> std::io::Result<()> {
    let mut data: Value = serde_json::from_str(&std::fs::read_to_string(DATA)?)?;
    if let Some((path, measured)) = rows {
        let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path)?)?;
        data["rows"] = rows.into_iter().filter(|row| row["lab_was_good"] == true).collect();
        data["measured"] = measured.into();
        std::fs::write(DATA, text_of(&data))?;
    }
    std::fs::write(PAGE, page(&serde_json::from_value(data)?))
}

/// JSON with the items of each list on lines of their own.
fn text_of(data: &Value) -> String {
    let member = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| format!("\n  {item}")).collect();
                format!("[{}\n]", items.join(","))
            }
            other => other.to_string(),
        };
        format!("\"{key}\": {value}")
    };
    let members: Vec<_> = data.as_object().into_iter().flatten().map(member).collect();
    format!("{{\n{}\n}}\n", members.join(",\n"))
}

fn page(data: &Data) -> String {
    let mut page = format!(
        "# Figures\n\nMade by `make figures` from [figures.json](figures.json). {}\n\n{}\n",
        data.measured,
        data.setup.join("\n\n")
    );
    let plans = || data.rows.iter().filter(|row| row.strategy != "native");
    section(&mut page, "Distance to the limit", "Median (least–most; repetitions), × limit.");
    by_size(&mut page, plans(), |row| {
        let Ratio { median, min, max, repetitions } = row.x_limit.as_ref()?;
        Some(format!("{median:.2} ({min:.2}–{max:.2}; {repetitions})"))
    });
    section(
        &mut page,
        "Against the MPIs",
        "Median seconds; the last column is best native by guided.",
    );
    against_natives(&mut page, data);
    let text = "Seconds until the best plan is within 10 % of the last one; the first size includes the \
                survey of the links.";
    section(&mut page, "What the search takes", text);
    by_size(&mut page, plans().filter(|row| row.search_s.is_some()), |row| {
        Some(format!("{:.1}", row.search_s?))
    });
    for Table { title, text, head, rows } in &data.tables {
        section(&mut page, title, text);
        table(&mut page, head, rows);
    }
    page += "\n## Known limits\n\n";
    data.known_limits.iter().for_each(|limit| page += &format!("- {limit}\n"));
    page
}

fn section(page: &mut String, title: &str, text: &str) {
    let _ = write!(page, "\n## {title}\n\n{text}\n\n");
}

fn table(page: &mut String, head: &[String], rows: &[Vec<String>]) {
    let _ = writeln!(page, "|{}|\n|{}", head.join("|"), "---|".repeat(head.len()));
    rows.iter().for_each(|row| *page += &format!("|{}|\n", row.join("|")));
}

/// A row for each grid and strategy, a column for each size.
fn by_size<'a>(
    page: &mut String,
    figures: impl Iterator<Item = &'a Figure>,
    cell: impl Fn(&Figure) -> Option<String>,
) {
    let figures: Vec<&Figure> = figures.collect();
    let mut sizes: Vec<u64> = figures.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in &figures {
        if !names.contains(&(&row.grid, &row.strategy)) {
            names.push((&row.grid, &row.strategy));
        }
    }
    let line = |&(grid, strategy): &(&str, &str)| {
        let at = |size: &u64| {
            let found = figures
                .iter()
                .find(|row| (&*row.grid, &*row.strategy, row.bytes) == (grid, strategy, *size));
            found.and_then(|row| cell(row)).unwrap_or_default()
        };
        std::iter::once(format!("{grid}, {strategy}")).chain(sizes.iter().map(at)).collect()
    };
    let head: Vec<String> =
        std::iter::once("grid".to_owned()).chain(sizes.iter().map(|size| bytes(*size))).collect();
    table(page, &head, &names.iter().map(line).collect::<Vec<_>>());
}

/// A row for each grid and size with a native broadcast.
fn against_natives(page: &mut String, data: &Data) {
    let median = |grid: &str, bytes: u64, strategy: &str, mpi: Option<&str>| {
        let mut rows = data.rows.iter().filter(|row| row.grid == grid && row.bytes == bytes);
        let found =
            rows.find(|row| row.strategy == strategy && mpi.is_none_or(|mpi| row.mpi == mpi));
        found.and_then(|row| row.median_s)
    };
    let mut targets: Vec<(&str, u64)> = Vec::new();
    for row in data.rows.iter().filter(|row| row.strategy == "native") {
        if !targets.contains(&(&row.grid, row.bytes)) {
            targets.push((&row.grid, row.bytes));
        }
    }
    let line = |&(grid, size): &(&str, u64)| {
        let natives: Vec<_> =
            data.mpis.iter().map(|(mpi, _)| median(grid, size, "native", Some(mpi))).collect();
        let best = natives.iter().flatten().copied().reduce(f64::min);
        let guided = median(grid, size, "guided", None);
        let ratio = best.zip(guided).map(|(best, guided)| best / guided);
        let mut cells = vec![grid.to_owned(), bytes(size)];
        cells.extend(natives.into_iter().chain([guided]).map(|time| significant(time, 3)));
        cells.push(significant(ratio, 2));
        cells
    };
    let names = data.mpis.iter().map(|(_, name)| &**name);
    let head = ["grid", "size"].into_iter().chain(names).chain(["guided", "×"]);
    let head: Vec<String> = head.map(str::to_owned).collect();
    table(page, &head, &targets.iter().map(line).collect::<Vec<_>>());
}

/// A number with that many significant digits; nothing for none.
fn significant(value: Option<f64>, digits: i32) -> String {
    let Some(value) = value else { return String::new() };
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    format!("{value:.*}", decimals.clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_repository(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_page_is_what_its_data_says_and_short() {
        let data = of_repository(DATA);
        let page = page(&serde_json::from_str(&data).unwrap());
        assert_eq!(page, of_repository(PAGE), "call `make figures`");
        assert!(page.split_whitespace().count() < 800);
        assert_eq!(text_of(&serde_json::from_str(&data).unwrap()), data);
    }

    #[test]
    fn rows_of_a_benchmark_become_tables() {
        let row = |strategy, mpi, median_s, x_limit| crate::row::Row {
            grid: "mesh".into(),
            mpi,
            strategy,
            bytes: 1024,
            times_s: vec![median_s, median_s, 2.0 * median_s],
            limit_s: median_s / x_limit,
            trials: 1,
            search_s: 2.5,
            lab_late_p99_s: 0.0,
            lab_was_good: true,
        };
        let rows = [
            row("guided".into(), "openmpi".into(), 0.0838, 1.1),
            row("native".into(), "mpich".into(), 0.258, 3.0),
        ];
        let data = serde_json::json!({
            "measured": "Once.", "setup": [], "mpis": [["openmpi", "A"], ["mpich", "B"]],
            "rows": serde_json::from_str::<Value>(&crate::row::json(&rows)).unwrap(),
            "tables": [{ "title": "T", "text": "t", "head": ["a"], "rows": [["b"]] }],
            "known_limits": ["k"],
        });
        let page = page(&serde_json::from_value(data).unwrap());
        for line in [
            "|grid|1 KiB|",
            "|mesh, guided|1.10 (1.10–2.20; 3)|",
            "|mesh|1 KiB||0.258|0.0838|3.1|",
            "|mesh, guided|2.5|",
            "|b|",
            "- k",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}
