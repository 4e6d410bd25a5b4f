//! Times, rates, sizes and probabilities as people write them in a topology file or on the command
//! line: `40ms`, `100mbit`, `256kB`, `0.1%`. Rates count bits and decimal prefixes, as network
//! engineers do; everything is turned into seconds-based types and bytes at once.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};

/// The longest time a topology may name: a day.
const MAX_SECONDS: f64 = 86_400.0;
/// The highest rate a topology may name, 1 Tbit/s, in bytes per second.
const MAX_RATE: f64 = 1e12 / 8.0;
/// The lowest rate, 1 kbit/s: below it a single packet of 9000 bytes takes more than a minute.
const MIN_RATE: f64 = 1e3 / 8.0;
/// The largest size, 1 TiB.
const MAX_BYTES: f64 = (1u64 << 40) as f64;

/// What a text should have been; its display says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`")]
pub struct UnitError {
    expected: &'static str,
    found: String,
}

const TIME: &str = "a time such as \"40ms\", \"50us\" or \"1.5s\" (at most a day)";
const RATE: &str = "a rate such as \"100mbit\", \"1gbit\" or \"64kbit\" (1kbit to 1000gbit)";
const SIZE: &str = "a size such as \"64kB\", \"256KiB\" or \"1MB\" (1 byte to 1 TiB)";
const LOSS: &str = "a loss such as \"0.1%\" (0% to 100%)";

/// Splits `text` into a finite, non-negative number and its unit in lower case.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    number.is_finite().then(|| (number, text[end..].trim().to_ascii_lowercase()))
}

fn error(expected: &'static str, found: &str) -> UnitError {
    UnitError { expected, found: found.chars().take(60).collect() }
}

/// Reads a time: `ns`, `us` (or `µs`), `ms`, `s`, `m` or `min`; a bare `0` needs no unit.
pub fn parse_time(text: &str) -> Result<Duration, UnitError> {
    let wrong = || error(TIME, text);
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let seconds = match unit.as_str() {
        "ns" => number * 1e-9,
        "us" | "µs" | "μs" => number * 1e-6,
        "ms" => number * 1e-3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    if seconds > MAX_SECONDS {
        return Err(wrong());
    }
    Ok(Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// Reads a rate in bits per second (`bit`, `kbit`, `mbit`, `gbit`, `tbit`, each with an optional
/// `/s`, decimal prefixes) and returns bytes per second.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let wrong = || error(RATE, text);
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let unit = unit.strip_suffix("/s").or(unit.strip_suffix("ps")).unwrap_or(&unit);
    let bits = match unit {
        "bit" => number,
        "kbit" => number * 1e3,
        "mbit" => number * 1e6,
        "gbit" => number * 1e9,
        "tbit" => number * 1e12,
        _ => return Err(wrong()),
    };
    let bytes_per_s = bits / 8.0;
    if !(MIN_RATE..=MAX_RATE).contains(&bytes_per_s) {
        return Err(wrong());
    }
    Ok(bytes_per_s)
}

/// Reads a size in bytes: `B`, `kB`, `MB`, `GB` (decimal) or `KiB`, `MiB`, `GiB` (binary).
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let wrong = || error(SIZE, text);
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let bytes = number
        * match unit.as_str() {
            "b" | "" => 1.0,
            "kb" => 1e3,
            "mb" => 1e6,
            "gb" => 1e9,
            "kib" => 1024.0,
            "mib" => 1024.0 * 1024.0,
            "gib" => 1024.0 * 1024.0 * 1024.0,
            _ => return Err(wrong()),
        };
    if !(1.0..=MAX_BYTES).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes.round() as u64)
}

/// Reads a probability of loss: `0.1%`, or a bare number from 0 to 1.
pub fn parse_loss(text: &str) -> Result<f64, UnitError> {
    let wrong = || error(LOSS, text);
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    let loss = match unit.as_str() {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(wrong()),
    };
    if loss > 1.0 {
        return Err(wrong());
    }
    Ok(loss)
}

/// A rate as people read it: `100 Mbit/s`.
pub fn show_rate(bytes_per_s: f64) -> String {
    let bits = bytes_per_s * 8.0;
    let (scale, unit) = match bits {
        b if b >= 1e9 => (1e9, "Gbit/s"),
        b if b >= 1e6 => (1e6, "Mbit/s"),
        b if b >= 1e3 => (1e3, "kbit/s"),
        _ => (1.0, "bit/s"),
    };
    format!("{} {unit}", (bits / scale * 1000.0).round() / 1000.0)
}

/// A time as people read it: `40 ms`, `50 µs`.
pub fn show_time(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    let (scale, unit) = match ns {
        n if n >= 1e9 => (1e9, "s"),
        n if n >= 1e6 => (1e6, "ms"),
        n if n >= 1e3 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    format!("{} {unit}", (ns / scale * 100.0).round() / 100.0)
}

/// A visitor for a value written as a text, read by `parse`.
struct TextVisitor<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, UnitError>,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

/// A time in a topology file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Time(pub Duration);
/// A rate in a topology file, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub f64);
/// A size in a topology file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size(pub u64);
/// A probability of loss in a topology file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss(pub f64);

macro_rules! from_text {
    ($type:ident, $expected:expr, $parse:expr) => {
        impl<'de> de::Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_str(TextVisitor { expected: $expected, parse: $parse }).map($type)
            }
        }
    };
}
from_text!(Time, TIME, parse_time);
from_text!(Rate, RATE, parse_rate);
from_text!(Size, SIZE, parse_size);
from_text!(Loss, LOSS, parse_loss);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!(parse_time("40ms"), Ok(Duration::from_millis(40)));
        assert_eq!(parse_time(" 1.5 s "), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_time("50µs"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_time("0"), Ok(Duration::ZERO));
        assert_eq!(parse_rate("100mbit"), Ok(12.5e6));
        assert_eq!(parse_rate("1 Gbit/s"), Ok(125e6));
        assert_eq!(parse_size("256KiB"), Ok(256 * 1024));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        assert_eq!(parse_loss("0.5%"), Ok(0.005));
    }

    #[test]
    fn refuses_nonsense_and_says_what_it_expected() {
        for text in ["", "ms", "-4ms", "4", "1e3ms", "nan s", "9999999s", "4 parsecs"] {
            assert!(parse_time(text).is_err(), "{text:?}");
        }
        for text in ["", "0mbit", "100", "5mb", "1e99gbit", "99999999gbit"] {
            assert!(parse_rate(text).is_err(), "{text:?}");
        }
        for text in ["0B", "12 apples", ".", "99999999GiB"] {
            assert!(parse_size(text).is_err(), "{text:?}");
        }
        for text in ["101%", "1.5", "-1%", "some"] {
            assert!(parse_loss(text).is_err(), "{text:?}");
        }
        let message = parse_rate("fast").unwrap_err().to_string();
        assert!(message.contains("100mbit") && message.contains("fast"), "{message}");
    }

    #[test]
    fn shows_rates_and_times() {
        assert_eq!(show_rate(12.5e6), "100 Mbit/s");
        assert_eq!(show_rate(125e6), "1 Gbit/s");
        assert_eq!(show_time(Duration::from_micros(12_500)), "12.5 ms");
    }
}
