//! How much of a call's time is left for other work. Free of MPI and clocks: times come from a
//! function.

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Availability {
    /// Seconds of the call without work between its start and its completion.
    pub base_seconds: f64,
    /// Seconds that the call adds to the work.
    pub overhead_seconds: f64,
    /// 1 − overhead / base. Below 0 where the call costs more with work than without.
    pub available: f64,
    /// Work and iteration seconds of each step.
    pub steps: Vec<(f64, f64)>,
}

/// First work time as a part of the base time.
const FIRST_WORK: f64 = 0.25;

/// Doublings after which the search ends even so; by then work is 10^8 times the base time.
const MOST_STEPS: usize = 30;

/// Lets the work grow until an iteration takes `threshold` times `base_seconds`, since only work
/// longer than the communication shows all that can be overlapped. `iteration` gives the seconds of
/// a call with that much work.
pub fn availability(
    base_seconds: f64,
    threshold: f64,
    mut iteration: impl FnMut(f64) -> f64,
) -> Availability {
    let mut work = FIRST_WORK * base_seconds;
    let mut steps = Vec::new();
    loop {
        let seconds = iteration(work);
        steps.push((work, seconds));
        if seconds >= threshold * base_seconds || steps.len() == MOST_STEPS {
            let overhead_seconds = seconds - work;
            let available =
                if base_seconds > 0.0 { 1.0 - overhead_seconds / base_seconds } else { 0.0 };
            return Availability { base_seconds, overhead_seconds, available, steps };
        }
        work *= 2.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: f64 = 0.040;

    #[test]
    fn a_call_that_goes_on_by_itself_is_wholly_available() {
        let found = availability(BASE, 2.0, |work| work.max(BASE));
        assert_eq!(found.overhead_seconds, 0.0);
        assert_eq!(found.available, 1.0);
        let work: Vec<f64> = found.steps.iter().map(|step| step.0 / BASE).collect();
        assert_eq!(work, [0.25, 0.5, 1.0, 2.0]);
    }

    #[test]
    fn a_call_that_goes_on_only_inside_of_mpi_is_not_available() {
        let found = availability(BASE, 2.0, |work| work + BASE);
        assert!(found.available.abs() < 1e-12);
        assert!((found.overhead_seconds - BASE).abs() < 1e-12);
    }

    #[test]
    fn half_of_a_call_may_go_on_by_itself() {
        let found = availability(BASE, 2.0, |work| work.max(BASE / 2.0) + BASE / 2.0);
        assert!((found.available - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_search() {
        assert_eq!(availability(BASE, 2.0, |_| 0.0).steps.len(), MOST_STEPS);
        assert_eq!(availability(0.0, 2.0, |work| work).available, 0.0);
    }
}
