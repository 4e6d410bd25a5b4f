//! Numbers with their units, as people read them.

const PREFIXES: [(f64, &str); 7] =
    [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];

/// `value` over the greatest of `prefixes` that it reaches, else the last; and that prefix.
fn scaled<'a>(value: f64, prefixes: &[(f64, &'a str)]) -> (f64, &'a str) {
    let found = prefixes.iter().find(|(size, _)| value.abs() >= *size).or(prefixes.last());
    found.map_or((value, ""), |(size, prefix)| (value / size, *prefix))
}

/// Seconds: `1.24 ms`, `38.1 µs`, three significant digits.
pub fn seconds(value_s: f64) -> String {
    let (value, prefix) = if value_s == 0.0 { (0.0, "") } else { scaled(value_s, &PREFIXES[3..]) };
    format!("{} {prefix}s", three_digits(value))
}

/// Bytes per second in the units of network equipment: `12.5 Mbit/s`.
pub fn rate(bytes_per_s: f64) -> String {
    if bytes_per_s.is_infinite() {
        return "unlimited".into();
    }
    let (value, prefix) = scaled(8.0 * bytes_per_s, &PREFIXES[..4]);
    format!("{} {prefix}bit/s", three_digits(value))
}

/// Bytes in powers of two where that is exact: `64 KiB`, `1000 B`.
pub fn bytes(count: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| count >= *unit && count.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", count / unit),
        None => format!("{count} B"),
    }
}

/// A count in powers of ten, without the zeros at its end: `1.5 kB` for 1500 and `B`.
pub fn count(value: f64, unit: &str) -> String {
    let (value, prefix) = scaled(value, &PREFIXES[..4]);
    let digits = format!("{value:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits} {prefix}{unit}").trim_end().to_owned()
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(seconds(0.001_241), "1.24 ms");
        assert_eq!(seconds(38.14e-6), "38.1 µs");
        assert_eq!(seconds(12.0), "12.0 s");
        assert_eq!(seconds(0.0), "0.00 s");
        assert_eq!(seconds(3e-10), "0.30 ns");
        assert_eq!(rate(1.25e6), "10.0 Mbit/s");
        assert_eq!(rate(f64::INFINITY), "unlimited");
        assert_eq!([bytes(1 << 20), bytes(65536), bytes(1000)], ["1 MiB", "64 KiB", "1000 B"]);
        let counts = [count(0.0, "B"), count(1500.0, "B"), count(2e6, ""), count(7.0, "")];
        assert_eq!(counts, ["0 B", "1.5 kB", "2 M", "7"]);
    }
}
