//! Ranges of message sizes that share a plan: up to 1 KiB, then one class for each doubling.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A range of message sizes. Class 0 holds 0 to 1024 bytes, where time is all latency; class `c`
/// holds `2^(9+c) + 1` to `2^(10+c)` bytes; the last is open above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct SizeClass(u8);

impl SizeClass {
    pub const COUNT: usize = 32;
    const FIRST_MAX_BYTES_LOG2: u32 = 10;

    /// The class of a message of `bytes`.
    pub fn of(bytes: u64) -> Self {
        // How often 1 must be doubled to reach `bytes`.
        let doublings = u64::BITS - (bytes.max(1) - 1).leading_zeros();
        let class = doublings.saturating_sub(Self::FIRST_MAX_BYTES_LOG2);
        SizeClass(class.min(Self::COUNT as u32 - 1) as u8)
    }

    /// 0 to `COUNT - 1`.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The largest message of the class; of the last class, the largest that is meant.
    pub fn max_bytes(self) -> u64 {
        1 << (Self::FIRST_MAX_BYTES_LOG2 + u32::from(self.0))
    }
}

impl TryFrom<u8> for SizeClass {
    type Error = String;

    fn try_from(class: u8) -> Result<Self, String> {
        if (class as usize) < Self::COUNT {
            Ok(SizeClass(class))
        } else {
            Err(format!("size classes are numbered 0 to {}, not {class}", Self::COUNT - 1))
        }
    }
}

impl From<SizeClass> for u8 {
    fn from(class: SizeClass) -> Self {
        class.0
    }
}

/// `≤1KiB`, `≤64MiB`.
impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let (unit, count) = (self.0 / 10, 1u32 << (self.0 % 10));
        f.pad(&format!("≤{count}{}", units[unit as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_meet_without_gap() {
        assert_eq!(SizeClass::of(0).index(), 0);
        for class in 0..SizeClass::COUNT as u8 - 1 {
            let class = SizeClass::try_from(class).unwrap();
            assert_eq!(SizeClass::of(class.max_bytes()), class);
            assert_eq!(SizeClass::of(class.max_bytes() + 1).index(), class.index() + 1);
        }
        assert_eq!(SizeClass::of(u64::MAX).index(), SizeClass::COUNT - 1);
    }

    #[test]
    fn reads_as_its_largest_message() {
        assert_eq!(SizeClass::of(1).to_string(), "≤1KiB");
        assert_eq!(SizeClass::of(1 << 20).to_string(), "≤1MiB");
        assert_eq!(SizeClass::of((8 << 20) + 1).to_string(), "≤16MiB");
    }
}
