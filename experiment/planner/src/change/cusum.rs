//! When a quantity has become larger for good: the cumulative sum of E. S. Page, "Continuous inspection schemes",
//! Biometrika 41, 1954.

/// What is added is in units in which noise is well below [`ALLOWED`], and a change that matters above it.
const ALLOWED: f64 = 0.22;
/// A single measurement counts at most this, so that no fewer than three make an alarm.
const MOST: f64 = 1.0;
const ALARM: f64 = 2.0;
/// Of what is not measured any more so much is forgotten with each measurement of something else.
const FADING: f64 = 0.05;

/// The sum of how far measurements were above what is allowed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cusum(f64);

impl Cusum {
    pub fn add(&mut self, deviation: f64) {
        self.0 = (self.0 + deviation.min(MOST) - ALLOWED).max(0.0);
    }

    pub fn sum(self) -> f64 {
        self.0
    }

    pub fn fade(&mut self) {
        self.0 = (self.0 - FADING).max(0.0);
    }

    /// Where this one speaks for a change too, it does so as much as another of the same does.
    pub fn agree(&mut self, other: Self) {
        if self.0 > 0.0 {
            self.0 = self.0.max(other.0);
        }
    }

    pub fn is_alarm(self) -> bool {
        self.0 > ALARM
    }

    /// It may become one.
    pub fn is_suspicious(self) -> bool {
        self.0 > ALARM / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    /// How many measurements it takes until an alarm.
    fn until_alarm(deviation: impl Fn() -> f64) -> usize {
        let mut cusum = Cusum::default();
        (1..)
            .find(|_| {
                cusum.add(deviation());
                cusum.is_alarm()
            })
            .unwrap()
    }

    #[test]
    fn a_fall_to_a_tenth_is_told_after_three_and_to_half_after_five() {
        assert_eq!(until_alarm(|| 10f64.ln()), 3);
        assert_eq!(until_alarm(|| 2f64.ln()), 5);
    }

    #[test]
    fn noise_of_ten_percent_and_single_outliers_are_no_alarm() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut cusum = Cusum::default();
        // A day of broadcasts, two a second.
        for number in 0..2 * 86_400 {
            let noise: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            let outlier = if number % 10 == 0 { 3.0 } else { 0.0 };
            cusum.add(0.1 * noise + outlier);
            assert!(!cusum.is_alarm(), "{number}");
        }
    }
}
