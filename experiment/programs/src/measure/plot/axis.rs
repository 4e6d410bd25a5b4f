//! Round numbers along an axis, and numbers with an SI prefix.

/// About `wanted` round positions (1, 2 or 5 times a power of ten apart) within `low..=high`.
pub fn ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let span = high - low;
    if span.is_nan() || span <= 0.0 {
        return vec![low];
    }
    let raw = span / wanted as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// `0.0123` with `s` is `12.3 ms`.
pub fn with_prefix(value: f64, unit: &str) -> String {
    const PREFIXES: [(f64, &str); 6] =
        [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u")];
    if value == 0.0 {
        return format!("0 {unit}");
    }
    let found = PREFIXES.iter().find(|(size, _)| value.abs() >= *size * 0.9995);
    let (size, prefix) = found.unwrap_or(&(1e-9, "n"));
    let digits = format!("{:.3}", value / size);
    format!("{} {prefix}{unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let found = ticks(0.0, 1024.0, 5);
        assert_eq!(found, [0.0, 500.0, 1000.0]);
        assert_eq!(ticks(3.0, 3.0, 5), [3.0]);
        assert!(ticks(0.013, 0.041, 5).iter().all(|t| (0.013..=0.041).contains(t)));
    }

    #[test]
    fn prefixes_keep_three_digits() {
        assert_eq!(with_prefix(0.0123, "s"), "12.3 ms");
        assert_eq!(with_prefix(1_500_000.0, "B"), "1.5 MB");
        assert_eq!(with_prefix(0.0, "s"), "0 s");
        assert_eq!(with_prefix(3e-9, "s"), "3 ns");
    }
}
