//! What has been measured of a target, and which plan stands. The MPI's own broadcast is what
//! applications have without us, so a tree stands only where it is faster beyond doubt: short
//! broadcasts on a busy node take now once and now three times as long, and of several plans that are
//! equally good one always seems better.

use arborcast_planner::TRIAL_S;
use arborcast_proto::Plan;
use arborcast_proto::message::Times;

/// The fastest trees, so many, are remembered.
const TREES: usize = 4;
/// A contest that this many broadcasts of each have not decided, or as many as time allows a trial, is close
/// enough to keep the MPI's own.
const ENOUGH: usize = 30;
/// Half of the width of a median's interval of confidence, in ranks, is this times the root of the number
/// of samples: 90 % (the normal approximation of order statistics; David and Nagaraja, "Order
/// Statistics", 3rd ed., section 7.1).
const CONFIDENCE: f64 = 0.82;

/// Seconds of a plan's broadcasts, in ascending order.
#[derive(Debug, Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn add(&mut self, samples_s: &[f64]) {
        self.0.extend(samples_s);
        self.0.sort_by(f64::total_cmp);
    }

    fn median_s(&self) -> f64 {
        Times::of(&self.0).map_or(f64::INFINITY, |times| times.median_s)
    }

    /// Where the median is, very likely.
    fn interval_s(&self) -> (f64, f64) {
        let last = self.0.len() - 1;
        let middle = last as f64 / 2.0;
        let half_width = CONFIDENCE * (self.0.len() as f64).sqrt();
        let low = (middle - half_width).max(0.0) as usize;
        (self.0[low], self.0[last - low])
    }

    fn are_enough(&self) -> bool {
        self.0.len() >= ENOUGH || self.0.iter().sum::<f64>() > TRIAL_S
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Standings {
    native: Option<Samples>,
    /// The fastest first.
    trees: Vec<(Plan, Samples)>,
}

impl Standings {
    /// Takes in the times of at least one broadcast.
    pub fn add(&mut self, plan: &Plan, samples_s: &[f64]) {
        if *plan == Plan::Native {
            self.native.get_or_insert_default().add(samples_s);
            return;
        }
        let known = self.trees.iter().position(|(tree, _)| tree == plan);
        let place = known.unwrap_or_else(|| {
            self.trees.push((plan.clone(), Samples::default()));
            self.trees.len() - 1
        });
        self.trees[place].1.add(samples_s);
        self.trees.sort_by(|(_, a), (_, b)| a.median_s().total_cmp(&b.median_s()));
        self.trees.truncate(TREES);
    }

    pub fn native(&self) -> Option<Times> {
        Times::of(&self.native.as_ref()?.0)
    }

    /// Of a plan that is remembered.
    pub fn times(&self, plan: &Plan) -> Option<Times> {
        if *plan == Plan::Native {
            return self.native();
        }
        let (_, samples) = self.trees.iter().find(|(tree, _)| tree == plan)?;
        Times::of(&samples.0)
    }

    /// The plan that stands.
    pub fn best(&self) -> Option<(&Plan, Times)> {
        let tree = self.trees.iter().find(|(_, samples)| self.beats_native(samples));
        let plan = tree.map(|(tree, _)| tree).or(self.native.as_ref().map(|_| &Plan::Native))?;
        Some((plan, self.times(plan)?))
    }

    /// The plan whose next broadcasts would say most about whether a tree that seems to be the fastest is
    /// faster than the MPI's own broadcast. `None` where that is known as well as need be.
    pub fn undecided(&self) -> Option<&Plan> {
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
            (false, false) if native.0.len() <= samples.0.len() => Some(&Plan::Native),
            (false, false) => Some(tree),
        }
    }

    fn beats_native(&self, tree: &Samples) -> bool {
        self.native.as_ref().is_none_or(|native| tree.interval_s().1 < native.interval_s().0)
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

    /// Gives the undecided what it asks for; returns how often each was broadcast.
    fn contest(standings: &mut Standings, native_s: f64, tree_s: f64) -> (usize, usize) {
        let (mut native, mut trees) = (0, 0);
        while let Some(plan) = standings.undecided().cloned() {
            let (least_s, count) = match plan {
                Plan::Native => (native_s, &mut native),
                Plan::Trees(_) => (tree_s, &mut trees),
            };
            standings.add(&plan, &busy(least_s, 5, *count));
            *count += 5;
            assert!(*count < 100, "it has no end");
        }
        (native, trees)
    }

    #[test]
    fn what_is_clearly_faster_stands_at_once() {
        let mut standings = Standings::default();
        standings.add(&NATIVE, &[0.30, 0.31, 0.33]);
        standings.add(&tree(512), &[0.10, 0.11, 0.20]);
        assert_eq!(standings.best().unwrap().0, &tree(512));
        assert_eq!(standings.undecided(), None);
        standings.add(&tree(256), &[0.40, 0.41, 0.42]);
        assert_eq!(standings.best().unwrap().0, &tree(512));
    }

    #[test]
    fn a_lucky_tree_does_not_displace_the_mpis_own_broadcast() {
        let mut standings = Standings::default();
        standings.add(&NATIVE, &[2.6e-3, 1.2e-3, 2.7e-3]);
        standings.add(&tree(512), &[1.9e-3, 1.8e-3, 2.0e-3]);
        assert_eq!(standings.best().unwrap().0, &NATIVE);
        let (native, trees) = contest(&mut standings, 1.2e-3, 1.5e-3);
        assert!(native > 0 && native + trees < 2 * ENOUGH, "{native} and {trees}");
        assert_eq!(standings.best().unwrap().0, &NATIVE);
        assert!(
            standings.native().unwrap().median_s < standings.times(&tree(512)).unwrap().median_s
        );
    }

    #[test]
    fn a_tree_that_is_faster_wins_the_contest() {
        let mut standings = Standings::default();
        standings.add(&NATIVE, &busy(1.5e-3, 3, 0));
        standings.add(&tree(512), &busy(1.0e-3, 3, 0));
        assert_eq!(standings.best().unwrap().0, &NATIVE);
        contest(&mut standings, 1.5e-3, 1.0e-3);
        assert_eq!(standings.best().unwrap().0, &tree(512));
    }

    #[test]
    fn equals_are_told_to_be_equal_after_a_while() {
        let mut standings = Standings::default();
        standings.add(&NATIVE, &busy(1.001e-3, 3, 0));
        standings.add(&tree(512), &busy(1e-3, 3, 0));
        let (native, trees) = contest(&mut standings, 1.001e-3, 1e-3);
        assert!(native.max(trees) <= ENOUGH);
        assert_eq!(standings.best().unwrap().0, &NATIVE);
    }

    #[test]
    fn a_lucky_tree_does_not_displace_one_that_stands() {
        let mut standings = Standings::default();
        standings.add(&NATIVE, &busy(3e-3, 10, 0));
        standings.add(&tree(512), &busy(1e-3, 10, 0));
        standings.add(&tree(256), &[1.2e-3, 1.2e-3, 4.1e-3]);
        assert_eq!(standings.best().unwrap().0, &tree(512));
        assert_eq!(standings.undecided(), Some(&tree(256)));
    }

    #[test]
    fn without_the_mpis_own_the_fastest_tree_stands() {
        let mut standings = Standings::default();
        assert_eq!(standings.best(), None);
        for segment_bytes in 256..266 {
            standings.add(&tree(segment_bytes), &[1.0 / f64::from(segment_bytes)]);
        }
        assert_eq!(standings.best().unwrap().0, &tree(265));
        assert_eq!(standings.times(&tree(256)), None, "forgotten");
    }
}
