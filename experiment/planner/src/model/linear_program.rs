//! max Σx with A·x ≤ b, x ≥ 0 and all b > 0, by the simplex method (G. B. Dantzig, 1947) on a condensed tableau:
//! a column per variable that is zero, none for the slacks that are not. Small and dense, for the few
//! trees and resources of a packing.

/// A gain below this is rounding.
const EPSILON: f64 = 1e-9;
/// An entry below this is: it allows limits that differ by eight orders of magnitude.
const SMALLEST_PIVOT: f64 = 1e-11;

#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    pub value: f64,
    /// One a variable.
    pub x: Vec<f64>,
    /// What one more unit of each row's limit would add to the value.
    pub prices: Vec<f64>,
}

/// `columns[j]` has the entries of variable j as (row, amount), amounts positive. Every variable
/// needs an entry, else the program has no end.
pub fn maximise(columns: &[Vec<(usize, f64)>], limits: &[f64]) -> Solution {
    let (rows, vars) = (limits.len(), columns.len());
    let width = vars + 1;
    // Row i of the tableau is one of the program divided by its limit; the last is the objective.
    // Variables are counted in units between the least and the greatest limit.
    let least = limits.iter().copied().fold(f64::INFINITY, f64::min);
    let unit = (least * limits.iter().copied().fold(0.0, f64::max)).sqrt();
    let mut tableau = vec![0.0; (rows + 1) * width];
    for (j, column) in columns.iter().enumerate() {
        for &(row, amount) in column {
            tableau[row * width + j] += amount * unit / limits[row];
        }
        tableau[rows * width + j] = -1.0;
    }
    for row in 0..rows {
        tableau[row * width + vars] = 1.0;
    }
    // Variables below `vars` are those of the program, the others slacks.
    let mut at_zero: Vec<usize> = (0..vars).collect();
    let mut basic: Vec<usize> = (vars..vars + rows).collect();
    for _ in 0..50 * (vars + 10) {
        let objective = &tableau[rows * width..][..vars];
        let Some(enter) = (0..vars)
            .filter(|&j| objective[j] < -EPSILON)
            .min_by(|&a, &b| objective[a].total_cmp(&objective[b]))
        else {
            break;
        };
        let ratio = |row: usize| tableau[row * width + vars] / tableau[row * width + enter];
        let Some(leave) = (0..rows)
            .filter(|&row| tableau[row * width + enter] > SMALLEST_PIVOT)
            .min_by(|&a, &b| ratio(a).total_cmp(&ratio(b)).then(basic[a].cmp(&basic[b])))
        else {
            break;
        };
        pivot(&mut tableau, width, leave, enter);
        std::mem::swap(&mut at_zero[enter], &mut basic[leave]);
    }
    let mut x = vec![0.0; vars];
    for (row, &variable) in basic.iter().enumerate().filter(|(_, v)| **v < vars) {
        x[variable] = unit * tableau[row * width + vars].max(0.0);
    }
    let mut prices = vec![0.0; rows];
    for (j, &variable) in at_zero.iter().enumerate().filter(|(_, v)| **v >= vars) {
        let row = variable - vars;
        prices[row] = unit * tableau[rows * width + j].max(0.0) / limits[row];
    }
    Solution { value: x.iter().sum(), x, prices }
}

/// Exchanges the basic variable of `row` for that of `column`.
fn pivot(tableau: &mut [f64], width: usize, row: usize, column: usize) {
    let inverse = 1.0 / tableau[row * width + column];
    let pivot_row: Vec<f64> =
        tableau[row * width..][..width].iter().map(|value| value * inverse).collect();
    for (i, line) in tableau.chunks_exact_mut(width).enumerate() {
        let factor = line[column];
        if i == row {
            line.copy_from_slice(&pivot_row);
            line[column] = inverse;
        } else if factor != 0.0 {
            for (value, &pivot) in line.iter_mut().zip(&pivot_row) {
                *value -= factor * pivot;
            }
            line[column] = -factor * inverse;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_trees_share_a_link() {
        // x0 + x1 ≤ 10, x0 ≤ 6, 2·x1 ≤ 10.
        let columns = [vec![(0, 1.0), (1, 1.0)], vec![(0, 1.0), (2, 2.0)]];
        let solution = maximise(&columns, &[10.0, 6.0, 10.0]);
        assert!((solution.value - 10.0).abs() < 1e-9);
        assert!((solution.prices[0] - 1.0).abs() < 1e-9);
    }

    proptest! {
        /// Weak duality, met with equality only by an optimum: Σx = Σ price · limit, no row is
        /// exceeded, and no variable would pay at those prices.
        #[test]
        fn what_is_found_is_optimal(
            matrix in proptest::collection::vec(proptest::collection::vec(0u8..4, 6), 1..6),
            limits in proptest::collection::vec(1e3f64..1e9, 6),
        ) {
            let columns: Vec<Vec<(usize, f64)>> = matrix
                .iter()
                .map(|column| {
                    let entries = column.iter().enumerate().filter(|(_, a)| **a > 0);
                    let mut entries: Vec<_> = entries.map(|(i, a)| (i, f64::from(*a))).collect();
                    entries.push((0, 1.0));
                    entries
                })
                .collect();
            let solution = maximise(&columns, &limits);
            let mut used = [0.0; 6];
            for (column, x) in columns.iter().zip(&solution.x) {
                prop_assert!(*x >= 0.0);
                column.iter().for_each(|&(row, amount)| used[row] += amount * x);
                let cost: f64 = column.iter().map(|&(row, a)| a * solution.prices[row]).sum();
                prop_assert!(cost >= 1.0 - 1e-6, "{cost}");
            }
            for (used, limit) in used.iter().zip(&limits) {
                prop_assert!(*used <= limit * (1.0 + 1e-6));
            }
            let dual: f64 = solution.prices.iter().zip(&limits).map(|(p, l)| p * l).sum();
            prop_assert!((dual / solution.value - 1.0).abs() < 1e-6);
        }
    }
}
