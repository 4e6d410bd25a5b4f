//! The straight line through times of message sizes.

/// Start-up seconds and seconds for each unit of size, by least squares over (size, seconds). Where
/// one of them came out negative, the line through 0. `None` unless two sizes differ.
pub fn line(times: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = times.len() as f64;
    let sum = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).sum::<f64>();
    let (sizes, seconds) = (sum(|time| time.0), sum(|time| time.1));
    let (squares, products) = (sum(|time| time.0 * time.0), sum(|time| time.0 * time.1));
    let spread = count * squares - sizes * sizes;
    if spread <= 0.0 {
        return None;
    }
    let slope = (count * products - sizes * seconds) / spread;
    let start = (seconds - slope * sizes) / count;
    if start < 0.0 || slope < 0.0 { Some((0.0, products / squares)) } else { Some((start, slope)) }
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_is_found_and_never_negative() {
        let (start, slope) = line(&[(0.0, 1.0), (10.0, 3.0), (20.0, 5.0)]).unwrap();
        assert!((start - 1.0).abs() < 1e-12 && (slope - 0.2).abs() < 1e-12);
        // Through (0, -1) and (10, 19): the line through 0 that is nearest to (10, 19) and (1, 1).
        let (start, slope) = line(&[(1.0, 1.0), (10.0, 19.0)]).unwrap();
        assert_eq!((start, slope), (0.0, 191.0 / 101.0));
        assert_eq!(line(&[(5.0, 1.0), (5.0, 2.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
