//! The clock that measurements read. It is a trait, so that everything that waits or decides on
//! time can be tested against a clock that the test moves by hand.

use std::time::Duration;

/// Waits shorter than this are spun: a sleeping thread wakes tens of microseconds late.
const SPIN_SECONDS: f64 = 1e-3;

/// Seconds since an arbitrary moment; never decreasing.
pub trait Clock {
    /// The present moment in seconds.
    fn now(&self) -> f64;
}

/// `MPI_Wtime`. Readings of different ranks must not be compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct MpiClock;

impl Clock for MpiClock {
    fn now(&self) -> f64 {
        mpi::time()
    }
}

/// Seconds that `work` takes.
pub fn seconds_of(clock: &impl Clock, work: impl FnOnce()) -> f64 {
    let start = clock.now();
    work();
    clock.now() - start
}

/// The smallest step between two different readings of the clock, in seconds. What the clock claims
/// of itself (`MPI_Wtick`) may be finer than what it shows, so it is observed.
pub fn observed_resolution(clock: &impl Clock) -> f64 {
    const STEPS: usize = 50;
    let mut least = f64::INFINITY;
    for _ in 0..STEPS {
        let before = clock.now();
        let mut after = clock.now();
        while after <= before {
            after = clock.now();
        }
        least = least.min(after - before);
    }
    least
}

/// Waits until the clock shows `moment`: asleep while that is far, awake for the last millisecond.
pub fn wait_until(clock: &impl Clock, moment: f64) {
    let far = moment - clock.now() - SPIN_SECONDS;
    if far > 0.0 {
        std::thread::sleep(Duration::from_secs_f64(far));
    }
    while clock.now() < moment {
        std::thread::yield_now();
    }
}

/// A clock for tests: every reading moves it on by `tick` seconds.
#[cfg(test)]
pub(crate) struct FakeClock {
    now: std::cell::Cell<f64>,
    tick: f64,
    readings: std::cell::Cell<u32>,
    readings_a_tick: u32,
}

#[cfg(test)]
impl FakeClock {
    /// A clock that shows a new time on every `readings_a_tick`th reading only.
    pub(crate) fn coarse(tick: f64, readings_a_tick: u32) -> Self {
        Self { now: 0.0.into(), tick, readings: 0.into(), readings_a_tick }
    }
}

#[cfg(test)]
impl Clock for FakeClock {
    fn now(&self) -> f64 {
        self.readings.set(self.readings.get() + 1);
        if self.readings.get().is_multiple_of(self.readings_a_tick) {
            self.now.set(self.now.get() + self.tick);
        }
        self.now.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolution_is_the_step_seen_and_not_the_time_of_a_reading() {
        let resolution = observed_resolution(&FakeClock::coarse(0.01, 7));
        assert!((resolution - 0.01).abs() < 1e-9, "{resolution}");
    }

    #[test]
    fn waiting_ends_at_the_moment_and_not_before() {
        let clock = FakeClock::coarse(1e-4, 1);
        wait_until(&clock, 0.05);
        assert!(clock.now() >= 0.05);
    }
}
