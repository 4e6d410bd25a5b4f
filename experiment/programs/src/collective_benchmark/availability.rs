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
    pub steps: Vec<Step>,
}

/// A call with work between its start and its completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Seconds of work that were asked for.
    pub nominal_work_seconds: f64,
    pub measured: Iteration,
}

/// Means over processes and iterations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Iteration {
    /// From the call's start to its completion.
    pub seconds: f64,
    /// Of that, what the work took. More than was asked for, since a busy wait ends late; what it
    /// ends late is no cost of the call.
    pub work_seconds: f64,
}

impl Iteration {
    pub fn overhead_seconds(&self) -> f64 {
        self.seconds - self.work_seconds
    }
}

/// First work time as a part of the base time.
const FIRST_WORK: f64 = 0.25;

/// Doublings after which the search ends even so; by then work is 10^8 times the base time.
const MOST_STEPS: usize = 30;

/// Lets the work grow until an iteration takes `threshold` times `base_seconds`, since only work
/// longer than the communication shows all that can be overlapped. `iteration` measures a call with
/// that many seconds of work.
pub fn availability(
    base_seconds: f64,
    threshold: f64,
    mut iteration: impl FnMut(f64) -> Iteration,
) -> Availability {
    let mut work = FIRST_WORK * base_seconds;
    let mut steps = Vec::new();
    loop {
        let measured = iteration(work);
        steps.push(Step { nominal_work_seconds: work, measured });
        if measured.seconds >= threshold * base_seconds || steps.len() == MOST_STEPS {
            let overhead_seconds = measured.overhead_seconds();
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

    /// An iteration whose work takes exactly as long as was asked for.
    fn exact(iteration: impl Fn(f64) -> f64) -> impl Fn(f64) -> Iteration {
        move |work| Iteration { seconds: iteration(work), work_seconds: work }
    }

    #[test]
    fn a_call_that_goes_on_by_itself_is_wholly_available() {
        let found = availability(BASE, 2.0, exact(|work| work.max(BASE)));
        assert_eq!(found.overhead_seconds, 0.0);
        assert_eq!(found.available, 1.0);
        let work: Vec<f64> =
            found.steps.iter().map(|step| step.nominal_work_seconds / BASE).collect();
        assert_eq!(work, [0.25, 0.5, 1.0, 2.0]);
    }

    #[test]
    fn a_call_that_goes_on_only_inside_of_mpi_is_not_available() {
        let found = availability(BASE, 2.0, exact(|work| work + BASE));
        assert!(found.available.abs() < 1e-12);
        assert!((found.overhead_seconds - BASE).abs() < 1e-12);
    }

    #[test]
    fn half_of_a_call_may_go_on_by_itself() {
        let found = availability(BASE, 2.0, exact(|work| work.max(BASE / 2.0) + BASE / 2.0));
        assert!((found.available - 0.5).abs() < 1e-12);
    }

    #[test]
    fn work_that_ends_late_is_no_overhead() {
        let late =
            |work: f64| Iteration { seconds: work + 0.25 * BASE, work_seconds: work + 0.2 * BASE };
        let found = availability(BASE, 2.0, late);
        assert!((found.available - 0.95).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn a_threshold_below_one_is_reached_by_the_first_step() {
        assert_eq!(availability(BASE, 0.5, exact(|work| work + BASE)).steps.len(), 1);
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_search() {
        assert_eq!(availability(BASE, 2.0, exact(|_| 0.0)).steps.len(), MOST_STEPS);
        assert_eq!(availability(0.0, 2.0, exact(|work| work)).available, 0.0);
    }
}
