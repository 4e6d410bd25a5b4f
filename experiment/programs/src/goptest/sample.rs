//! What one timed stretch of repetitions gave.

/// Meaningful on rank 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Of one repetition, what the operation reports.
    pub seconds: f64,
    /// What the clock saw, for judging whether that is well above its resolution.
    pub elapsed_seconds: f64,
    /// For each process, where the operation knows.
    pub per_process: Vec<f64>,
}

impl Sample {
    /// Of `repetitions` that took `elapsed_seconds` together.
    pub fn mean(elapsed_seconds: f64, repetitions: u64) -> Self {
        let seconds = elapsed_seconds / repetitions as f64;
        Self { seconds, elapsed_seconds, per_process: Vec::new() }
    }
}
