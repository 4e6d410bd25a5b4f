//! Trees as text, DOT and SVG; curves and tables of numbers as SVG. Pure functions from values to
//! strings: an SVG carries everything it needs and can stand alone or inside an HTML page.

pub mod chart;
pub mod heat_map;
mod svg;
pub mod tree;

pub use svg::escape;

/// Seconds as people read them: `1.24 ms`, `38.1 µs`, three significant digits.
pub fn seconds(value_s: f64) -> String {
    let (scaled, unit) = match value_s.abs() {
        size if size >= 1.0 || size == 0.0 => (value_s, "s"),
        size if size >= 1e-3 => (value_s * 1e3, "ms"),
        size if size >= 1e-6 => (value_s * 1e6, "µs"),
        _ => (value_s * 1e9, "ns"),
    };
    format!("{} {unit}", three_digits(scaled))
}

/// Bytes per second in the units of network equipment: `12.5 Mbit/s`.
pub fn rate(bytes_per_s: f64) -> String {
    let bits = 8.0 * bytes_per_s;
    if bits.is_infinite() {
        return "unlimited".into();
    }
    let (scaled, unit) = match bits {
        bits if bits >= 1e9 => (bits / 1e9, "Gbit/s"),
        bits if bits >= 1e6 => (bits / 1e6, "Mbit/s"),
        bits if bits >= 1e3 => (bits / 1e3, "kbit/s"),
        bits => (bits, "bit/s"),
    };
    format!("{} {unit}", three_digits(scaled))
}

/// Bytes in powers of two where that is exact: `64 KiB`, `1000 B`.
pub fn bytes(count: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| count >= *unit && count.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", count / unit),
        None => format!("{count} B"),
    }
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
        assert_eq!(rate(1.25e6), "10.0 Mbit/s");
        assert_eq!(rate(f64::INFINITY), "unlimited");
        assert_eq!(
            (bytes(1 << 20), bytes(65536), bytes(1000)),
            ("1 MiB".into(), "64 KiB".into(), "1000 B".into())
        );
    }
}
