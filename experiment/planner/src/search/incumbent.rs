//! What has been measured of a target, and which plan is in use: the incumbent. Native is what
//! applications have without us, so a tree takes its place only where it is faster beyond doubt: short
//! broadcasts on a busy node take now once and now three times as long, and of several plans that are
//! equally good one always seems better.

use crate::measurement::{Seconds, TRIAL_S, Trial};
use arborcast_proto::Plan;
use arborcast_proto::message::{Reason, Rival, Times};

/// The number of fastest trees that are remembered.
const TREES: usize = 4;
/// A tie that this many broadcasts of each plan have not broken, or as many as time allows a trial, is close
/// enough to keep native.
const ENOUGH: usize = 30;
/// Broadcasts of a plan at a time, where it takes more of them to tell which is faster.
const TIE_BREAK_REPETITIONS: u32 = 5;
/// Half of the width of a median's confidence interval, in ranks, is this times the root of the number
/// of samples: 90 % (the normal approximation of order statistics; H. A. David, H. N. Nagaraja, "Order
/// Statistics", 3rd ed., 2003, section 7.1).
const CONFIDENCE: f64 = 0.82;

/// Seconds of a plan's broadcasts.
#[derive(Debug, Default)]
struct Samples {
    /// In ascending order, at least one.
    seconds: Vec<Seconds>,
    /// What the strategy's model said the plan takes, if it has one.
    predicted_s: Option<Seconds>,
}

impl Samples {
    fn add(&mut self, samples_s: &[Seconds], predicted_s: Option<Seconds>) {
        self.seconds.extend(samples_s);
        self.seconds.sort_by(f64::total_cmp);
        self.predicted_s = predicted_s.or(self.predicted_s);
    }

    fn median_s(&self) -> Seconds {
        Times::of(&self.seconds).map_or(f64::INFINITY, |times| times.median_s)
    }

    /// The confidence interval of the median.
    fn interval_s(&self) -> (Seconds, Seconds) {
        let last = self.seconds.len() - 1;
        let middle = last as f64 / 2.0;
        let half_width = CONFIDENCE * (self.seconds.len() as f64).sqrt();
        let low = (middle - half_width).max(0.0) as usize;
        (self.seconds[low], self.seconds[last - low])
    }

    /// The one rule: its median is below the other's, whatever noise there was.
    fn is_faster_beyond_doubt(&self, other: &Samples) -> bool {
        self.interval_s().1 < other.interval_s().0
    }

    fn are_enough(&self) -> bool {
        self.seconds.len() >= ENOUGH || self.seconds.iter().sum::<Seconds>() > TRIAL_S
    }
}

/// The plans measured for a target at its own size, of which one is in use.
#[derive(Debug, Default)]
pub struct Incumbent {
    native: Option<Samples>,
    /// The fastest first.
    trees: Vec<(Plan, Samples)>,
}

impl Incumbent {
    /// Takes in the times of at least one broadcast.
    pub fn add(&mut self, plan: &Plan, samples_s: &[Seconds], predicted_s: Option<Seconds>) {
        if *plan == Plan::Native {
            self.native.get_or_insert_default().add(samples_s, predicted_s);
            return;
        }
        let known = self.trees.iter().position(|(tree, _)| tree == plan);
        let place = known.unwrap_or_else(|| {
            self.trees.push((plan.clone(), Samples::default()));
            self.trees.len() - 1
        });
        self.trees[place].1.add(samples_s, predicted_s);
        self.trees.sort_by(|(_, a), (_, b)| a.median_s().total_cmp(&b.median_s()));
        self.trees.truncate(TREES);
    }

    pub fn native(&self) -> Option<Times> {
        Times::of(&self.native.as_ref()?.seconds)
    }

    fn samples(&self, plan: &Plan) -> Option<&Samples> {
        if *plan == Plan::Native {
            return self.native.as_ref();
        }
        self.trees.iter().find(|(tree, _)| tree == plan).map(|(_, samples)| samples)
    }

    /// Of a plan that is remembered.
    pub fn times(&self, plan: &Plan) -> Option<Times> {
        Times::of(&self.samples(plan)?.seconds)
    }

    /// The plan in use: of the trees that are faster than native beyond doubt the one of the least median,
    /// else native.
    pub fn in_use(&self) -> Option<(&Plan, Times)> {
        let tree = self.trees.iter().find(|(_, samples)| self.beats_native(samples));
        let plan = tree.map(|(tree, _)| tree).or(self.native.as_ref().map(|_| &Plan::Native))?;
        Some((plan, self.times(plan)?))
    }

    /// Why a plan that is remembered is in use, or is not: what was predicted and measured of it, and what it
    /// is compared with. A tree is compared with native, or where that was not measured with the fastest
    /// other tree, native with the fastest tree.
    pub fn reason(&self, plan: &Plan) -> Option<Reason> {
        let samples = self.samples(plan)?;
        let native = self.native.as_ref().map(|samples| (&Plan::Native, samples));
        let trees = self.trees.iter().map(|(tree, samples)| (tree, samples));
        let rival = native.into_iter().chain(trees).find(|(other, _)| *other != plan);
        let against = rival.and_then(|(plan, samples)| {
            let (times, interval_s) = (Times::of(&samples.seconds)?, samples.interval_s());
            Some(Rival { plan: plan.clone(), times, interval_s })
        });
        let (predicted_s, interval_s) = (samples.predicted_s, samples.interval_s());
        Some(Reason { predicted_s, interval_s, against })
    }

    /// The least median of all, ties included; infinite where nothing was measured.
    pub fn least_median_s(&self) -> Seconds {
        let trees = self.trees.first().map(|(_, samples)| samples);
        self.native.iter().chain(trees).map(Samples::median_s).fold(f64::INFINITY, f64::min)
    }

    /// The trial that would say most about whether the tree that seems to be the fastest is faster than
    /// native, for messages of `bytes`. `None` where that is known as well as need be.
    pub fn tie_break(&self, bytes: u64) -> Option<Trial> {
        let trial = Trial::new(self.undecided()?.clone(), bytes);
        let repetitions = TIE_BREAK_REPETITIONS;
        Some(Trial { min_repetitions: repetitions, max_repetitions: repetitions, ..trial })
    }

    fn undecided(&self) -> Option<&Plan> {
        let native = self.native.as_ref()?;
        let (tree, samples) = self.trees.first()?;
        if self.beats_native(samples) || samples.median_s() >= native.median_s() {
            return None;
        }
        match (samples.are_enough(), native.are_enough()) {
            (true, true) => None,
            (true, false) => Some(&Plan::Native),
            (false, true) => Some(tree),
            // In turns: machines have better and worse seconds.
            (false, false) if native.seconds.len() <= samples.seconds.len() => Some(&Plan::Native),
            (false, false) => Some(tree),
        }
    }

    fn beats_native(&self, tree: &Samples) -> bool {
        self.native.as_ref().is_none_or(|native| tree.is_faster_beyond_doubt(native))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::Tree;

    const NATIVE: Plan = Plan::Native;

    fn tree(segment_bytes: u32) -> Plan {
        Plan::single(Tree::flat(4, 0).unwrap(), segment_bytes).unwrap()
    }

    /// Broadcasts of a busy node: from once to twice `least_s`.
    fn busy(least_s: f64, count: usize, turn: usize) -> Vec<f64> {
        let part = |i: usize| ((i + turn) * 7 % 16) as f64 / 15.0;
        (0..count).map(|i| least_s * (1.0 + part(i))).collect()
    }

    /// Makes the trials that are asked for; returns the number of broadcasts of native and of trees.
    fn break_tie(incumbent: &mut Incumbent, native_s: f64, tree_s: f64) -> (usize, usize) {
        let (mut native, mut trees) = (0, 0);
        while let Some(plan) = incumbent.undecided().cloned() {
            let (least_s, count) = match plan {
                Plan::Native => (native_s, &mut native),
                Plan::Trees(_) => (tree_s, &mut trees),
            };
            incumbent.add(&plan, &busy(least_s, 5, *count), None);
            *count += 5;
            assert!(*count < 100, "it has no end");
        }
        (native, trees)
    }

    #[test]
    fn what_is_clearly_faster_is_in_use_at_once() {
        let mut incumbent = Incumbent::default();
        incumbent.add(&NATIVE, &[0.30, 0.31, 0.33], None);
        incumbent.add(&tree(512), &[0.10, 0.11, 0.20], None);
        assert_eq!(incumbent.in_use().unwrap().0, &tree(512));
        assert_eq!(incumbent.undecided(), None);
        incumbent.add(&tree(256), &[0.40, 0.41, 0.42], None);
        assert_eq!(incumbent.in_use().unwrap().0, &tree(512));
    }

    #[test]
    fn a_lucky_tree_does_not_displace_native() {
        let mut incumbent = Incumbent::default();
        incumbent.add(&NATIVE, &[2.6e-3, 1.2e-3, 2.7e-3], None);
        incumbent.add(&tree(512), &[1.9e-3, 1.8e-3, 2.0e-3], None);
        assert_eq!(incumbent.in_use().unwrap().0, &NATIVE);
        let (native, trees) = break_tie(&mut incumbent, 1.2e-3, 1.5e-3);
        assert!(native > 0 && native + trees < 2 * ENOUGH, "{native} and {trees}");
        assert_eq!(incumbent.in_use().unwrap().0, &NATIVE);
        assert!(
            incumbent.native().unwrap().median_s < incumbent.times(&tree(512)).unwrap().median_s
        );
    }

    #[test]
    fn a_tree_that_is_faster_wins_the_tie_break() {
        let mut incumbent = Incumbent::default();
        incumbent.add(&NATIVE, &busy(1.5e-3, 3, 0), None);
        incumbent.add(&tree(512), &busy(1.0e-3, 3, 0), None);
        assert_eq!(incumbent.in_use().unwrap().0, &NATIVE);
        break_tie(&mut incumbent, 1.5e-3, 1.0e-3);
        assert_eq!(incumbent.in_use().unwrap().0, &tree(512));
    }

    #[test]
    fn equals_are_told_to_be_equal_after_a_while() {
        let mut incumbent = Incumbent::default();
        incumbent.add(&NATIVE, &busy(1.001e-3, 3, 0), None);
        incumbent.add(&tree(512), &busy(1e-3, 3, 0), None);
        let (native, trees) = break_tie(&mut incumbent, 1.001e-3, 1e-3);
        assert!(native.max(trees) <= ENOUGH);
        assert_eq!(incumbent.in_use().unwrap().0, &NATIVE);
    }

    #[test]
    fn a_lucky_tree_does_not_displace_the_one_in_use() {
        let mut incumbent = Incumbent::default();
        incumbent.add(&NATIVE, &busy(3e-3, 10, 0), None);
        incumbent.add(&tree(512), &busy(1e-3, 10, 0), None);
        incumbent.add(&tree(256), &[1.2e-3, 1.2e-3, 4.1e-3], None);
        assert_eq!(incumbent.in_use().unwrap().0, &tree(512));
        assert_eq!(incumbent.undecided(), Some(&tree(256)));
    }

    #[test]
    fn a_reason_tells_what_was_predicted_and_measured_and_against_what() {
        let mut incumbent = Incumbent::default();
        incumbent.add(&tree(512), &[0.1, 0.2, 0.3], Some(0.15));
        assert_eq!(incumbent.reason(&tree(512)).unwrap().against, None);
        incumbent.add(&tree(256), &[0.3, 0.4, 0.5], None);
        let rival = |incumbent: &Incumbent, plan: &Plan| {
            incumbent.reason(plan).unwrap().against.unwrap().plan
        };
        assert_eq!(rival(&incumbent, &tree(512)), tree(256));
        incumbent.add(&NATIVE, &[0.7; 3], None);
        let reason = incumbent.reason(&tree(512)).unwrap();
        assert_eq!((reason.predicted_s, reason.interval_s), (Some(0.15), (0.1, 0.3)));
        let native = reason.against.unwrap();
        assert_eq!((native.plan, native.interval_s), (NATIVE, (0.7, 0.7)));
        assert_eq!(rival(&incumbent, &NATIVE), tree(512));
    }

    #[test]
    fn without_native_the_fastest_tree_is_in_use() {
        let mut incumbent = Incumbent::default();
        assert_eq!(incumbent.in_use(), None);
        for segment_bytes in 256..266 {
            incumbent.add(&tree(segment_bytes), &[1.0 / f64::from(segment_bytes)], None);
        }
        assert_eq!(incumbent.in_use().unwrap().0, &tree(265));
        assert_eq!(incumbent.times(&tree(256)), None, "forgotten");
    }
}
