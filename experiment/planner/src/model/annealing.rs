//! Simulated annealing (S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by simulated annealing", Science
//! 220, 1983): how it cools down, and which steps it takes (N. Metropolis et al., 1953).

use crate::measurement::Seconds;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Temperatures at the beginning and the end, as parts of what is minimised.
pub(crate) struct Cooling {
    pub hot: f64,
    pub cold: f64,
}

impl Cooling {
    /// After a part of all steps, 0 to 1.
    pub fn temperature(&self, progress: f64) -> f64 {
        self.hot * (self.cold / self.hot).powf(progress)
    }
}

/// Always one for the better, and the worse at a temperature, the more rarely.
pub(crate) fn is_taken(
    now_s: Seconds,
    next_s: Seconds,
    temperature_s: Seconds,
    random: &mut ChaCha8Rng,
) -> bool {
    next_s <= now_s || random.random_range(0.0..1.0) < ((now_s - next_s) / temperature_s).exp()
}
