//! Of plans that the model can't tell apart, the one of the fewest messages: what a message costs processors that others
//! use too, the model does not see. Without this, half a percent is worth ten times as many messages to it.

use crate::measurement::Seconds;

/// Times that differ by less than this fraction are the same: the model errs by more.
pub const ALIKE: f64 = 0.02;

/// The place of the one with the fewest messages among those that take about the least time; of equally few, of the
/// fastest. `None` where there is none.
pub fn simplest(plans: impl Iterator<Item = (Seconds, u64)> + Clone) -> Option<usize> {
    let least_s = plans.clone().map(|(seconds, _)| seconds).fold(f64::INFINITY, f64::min);
    let alike = plans.enumerate().filter(|(_, (s, _))| *s <= least_s * (1.0 + ALIKE));
    let first = alike.min_by(|(_, (a_s, a)), (_, (b_s, b))| a.cmp(b).then(a_s.total_cmp(b_s)));
    first.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_messages_are_worth_a_little_time_and_no_more() {
        let place = |plans: &[(Seconds, u64)]| simplest(plans.iter().copied());
        assert_eq!(place(&[]), None);
        assert_eq!(place(&[(1.0, 512), (1.01, 32), (1.05, 1)]), Some(1));
        assert_eq!(place(&[(1.015, 32), (1.01, 32), (1.0, 33)]), Some(1));
        assert_eq!(place(&[(f64::INFINITY, 1)]), Some(0));
    }
}
