//! A matrix of summaries: rows are receiving processes, columns sending ones, the diagonal zero.

use crate::measure::statistics::Summary;

/// The number of a cell that a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    Average,
    Median,
    Deviation,
    Min,
}

impl Statistic {
    pub const ALL: [Self; 4] = [Self::Average, Self::Median, Self::Deviation, Self::Min];

    /// As in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Average => "average",
            Self::Median => "median",
            Self::Deviation => "deviation",
            Self::Min => "min",
        }
    }

    /// As in the text format.
    pub fn word(self) -> &'static str {
        match self {
            Self::Min => "minimum",
            other => other.name(),
        }
    }

    /// `data_type` in NetCDF files.
    pub fn code(self) -> i32 {
        match self {
            Self::Average => 1,
            Self::Median => 2,
            Self::Deviation => 3,
            Self::Min => 4,
        }
    }

    pub fn of(self, cell: &Summary) -> f64 {
        match self {
            Self::Average => cell.average,
            Self::Median => cell.median,
            Self::Deviation => cell.deviation,
            Self::Min => cell.min,
        }
    }
}

/// Seconds, for one message length.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    processes: usize,
    cells: Vec<Summary>,
}

impl Matrix {
    /// From average, median, deviation and minimum of each cell, row after row.
    pub fn from_rows(processes: usize, numbers: &[f64]) -> Self {
        let cells: Vec<Summary> = numbers
            .chunks_exact(4)
            .map(|n| Summary { average: n[0], median: n[1], deviation: n[2], min: n[3] })
            .collect();
        assert_eq!(cells.len(), processes * processes);
        Self { processes, cells }
    }

    pub fn processes(&self) -> usize {
        self.processes
    }

    pub fn cell(&self, receiver: usize, sender: usize) -> &Summary {
        &self.cells[receiver * self.processes + sender]
    }

    pub fn transposed(&self) -> Self {
        let n = self.processes;
        let cells = (0..n * n).map(|index| self.cells[index % n * n + index / n]).collect();
        Self { processes: n, cells }
    }

    /// One number of each cell, row after row.
    pub fn values(&self, statistic: Statistic) -> Vec<f64> {
        self.cells.iter().map(|cell| statistic.of(cell)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_swaps_sender_and_receiver() {
        let numbers: Vec<f64> = (0..16).map(f64::from).collect();
        let matrix = Matrix::from_rows(2, &numbers);
        assert_eq!(matrix.cell(0, 1).average, 4.0);
        assert_eq!(matrix.transposed().cell(1, 0), matrix.cell(0, 1));
        assert_eq!(matrix.values(Statistic::Min), [3.0, 7.0, 11.0, 15.0]);
    }
}
