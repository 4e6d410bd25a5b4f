//! How well a strategy's model foretold the times of the plans that were then measured.

use arborcast_draw::units::{bytes, seconds};
use serde_json::{Value, json};
use std::fmt::Write;

pub struct Prediction {
    pub grid: String,
    pub bytes: u64,
    /// Trials of a target are counted from 1.
    pub trial: u64,
    pub predicted_s: f64,
    /// Median of the trial's repetitions.
    pub measured_s: f64,
}

impl Prediction {
    /// One trial of a daemon's history; `None` where no model was asked or the trial was dropped.
    pub fn of(grid: &str, trial: &Value) -> Option<Self> {
        Some(Prediction {
            grid: grid.into(),
            bytes: trial["bytes"].as_u64()?,
            trial: trial["number"].as_u64()?,
            predicted_s: trial["predicted_s"].as_f64()?,
            measured_s: trial["times"]["median_s"].as_f64()?,
        })
    }

    /// By what fraction the measured time differs from the predicted one.
    fn error(&self) -> f64 {
        self.measured_s / self.predicted_s - 1.0
    }
}

/// The predictions, the worst first, one object each.
pub fn json(predictions: &[Prediction]) -> String {
    let object = |p: &&Prediction| {
        json!({
            "grid": p.grid, "bytes": p.bytes, "trial": p.trial, "predicted_s": p.predicted_s,
            "measured_s": p.measured_s, "error": p.error(),
        })
    };
    format!("{:#}\n", Value::from_iter(worst_first(predictions).iter().map(object)))
}

/// Median and worst error, and the five worst.
pub fn summary(predictions: &[Prediction]) -> String {
    let sorted = worst_first(predictions);
    let (Some(worst), Some(median)) = (sorted.first(), sorted.get(sorted.len() / 2)) else {
        return "no plan was predicted".into();
    };
    let percent = |p: &Prediction| 100.0 * p.error().abs();
    let mut text = format!(
        "{} plans predicted and measured: median error {:.1} %, worst {:.1} %",
        sorted.len(),
        percent(median),
        percent(worst)
    );
    for p in &sorted[..sorted.len().min(5)] {
        let (predicted, measured) = (seconds(p.predicted_s), seconds(p.measured_s));
        let _ = write!(
            text,
            "\n  {} {}, trial {}: predicted {predicted}, measured {measured}",
            p.grid,
            bytes(p.bytes),
            p.trial
        );
    }
    text
}

fn worst_first(predictions: &[Prediction]) -> Vec<&Prediction> {
    let mut sorted: Vec<&Prediction> = predictions.iter().collect();
    sorted.sort_by(|a, b| b.error().abs().total_cmp(&a.error().abs()));
    sorted
}
