//! One figure of the benchmark, as a line of the table and as JSON.

use arborcast_draw::units::{bytes, seconds};
use arborcast_proto::message::Times;
use std::fmt;

pub struct Row {
    pub grid: String,
    pub mpi: String,
    /// `native`: `MPI_Bcast` without Arborcast.
    pub strategy: String,
    pub bytes: u64,
    pub times_s: Vec<f64>,
    /// What the grid's description allows.
    pub limit_s: f64,
    /// Trials and seconds until the search was within 10 % of its end.
    pub trials: u64,
    pub search_s: f64,
    pub lab_late_p99_s: f64,
    /// The emulated grid kept its word while this was measured.
    pub lab_was_good: bool,
}

impl Row {
    pub fn median_s(&self) -> f64 {
        Times::of(&self.times_s).map_or(f64::NAN, |times| times.median_s)
    }

    pub fn heading() -> String {
        format!(
            "{:<12}{:<9}{:<18}{:>8}{:>10}{:>22}{:>6}{:>9}{:>8}{:>10}",
            "grid",
            "mpi",
            "strategy",
            "size",
            "median",
            "least … most",
            "reps",
            "× limit",
            "trials",
            "search"
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(times) = Times::of(&self.times_s) else { return Ok(()) };
        let spread = format!("{} … {}", seconds(times.min_s), seconds(times.max_s));
        let Row { grid, mpi, strategy, limit_s, trials, search_s, .. } = self;
        write!(
            f,
            "{grid:<12}{mpi:<9}{strategy:<18}{:>8}{:>10}{spread:>22}{:>6}{:>9.2}{trials:>8}{:>10}",
            bytes(self.bytes),
            seconds(times.median_s),
            times.repetitions,
            times.median_s / limit_s,
            seconds(*search_s),
        )?;
        if !self.lab_was_good {
            write!(f, "  (the machine was too busy)")?;
        }
        Ok(())
    }
}

/// All rows, one object each.
pub fn json(rows: &[Row]) -> String {
    let object = |row: &Row| {
        let times = Times::of(&row.times_s);
        serde_json::json!({
            "grid": row.grid, "mpi": row.mpi, "strategy": row.strategy, "bytes": row.bytes,
            "median_s": times.map(|t| t.median_s), "min_s": times.map(|t| t.min_s),
            "max_s": times.map(|t| t.max_s), "reps": times.map(|t| t.repetitions),
            "limit_s": row.limit_s,
            "x_limit": times.map(|t| serde_json::json!({
                "median": t.median_s / row.limit_s, "min": t.min_s / row.limit_s,
                "max": t.max_s / row.limit_s, "repetitions": t.repetitions,
            })),
            "trials": row.trials, "search_s": row.search_s,
            "lab_late_p99_s": row.lab_late_p99_s, "lab_was_good": row.lab_was_good,
        })
    };
    format!("{:#}\n", serde_json::Value::from_iter(rows.iter().map(object)))
}
