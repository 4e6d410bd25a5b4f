//! Random transforms, the search of R. Gupta and S. Vadhiyar ("MPI collective communications for grids",
//! slides; see also "Application-oriented adaptive MPI_Bcast for grids", IPDPS 2006):
//!
//! Start from a flat tree; `bad_link_list` is empty, `Tree_list` has the flat tree. Again and again:
//! draw (a, b) that is not in `bad_link_list` and a tree ti of `Tree_list`; tj = trans(a, b) of ti. If
//! time(tj) > time(ti), (a, b) joins `bad_link_list`. If time(tj) < the least time of `Tree_list` +
//! threshold, tj takes the place of the slowest tree of the list.
//!
//! The authors leave open how long the list is, how large the threshold ([`Parameters`]), and when performance
//! is satisfactory. Here it is once every pair is bad, or once as many trials in a row as there are pairs have
//! found nothing faster in this run: then the search says that nothing is left. Asked again, it starts anew
//! from the flat tree, since networks change and another order of draws leads elsewhere.

use super::state::{Config, HOPELESS, SearchState, Strategy, TrialResult};
use crate::measurement::{Seconds, Trial};
use crate::trees::shapes;
use crate::trees::transform::transform;
use arborcast_proto::{MIN_SEGMENT_BYTES, Plan, Tree};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::HashSet;

/// What the authors leave open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    pub threshold: Threshold,
    /// Trees are added until there are this many; from then on the slowest is replaced.
    pub list_length: usize,
    pub segments: Segments,
}

impl Default for Parameters {
    /// The authors' own list starts with one tree and never grows; it also reached the exhaustive optimum of
    /// small networks in fewer trials than lists of 4 and 16.
    fn default() -> Self {
        Parameters {
            threshold: Threshold::Part(0.05),
            list_length: 1,
            segments: Segments::BelowEager,
        }
    }
}

/// By how much a tree that joins the list may be slower than the list's best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Threshold {
    /// Of the best's time.
    Part(f64),
    /// As published.
    Seconds(Seconds),
}

impl Threshold {
    fn above(self, least_s: Seconds) -> Seconds {
        match self {
            Threshold::Part(part) => least_s * (1.0 + part),
            Threshold::Seconds(seconds) => least_s + seconds,
        }
    }
}

/// How messages are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// Not at all, as published.
    Whole,
    Bytes(u32),
    /// Short enough to be sent without rendezvous.
    BelowEager,
}

impl Segments {
    fn bytes(self, config: &Config) -> u32 {
        match self {
            Segments::Whole => config.bytes.clamp(MIN_SEGMENT_BYTES.into(), 1 << 30) as u32,
            Segments::Bytes(bytes) => bytes.max(MIN_SEGMENT_BYTES),
            Segments::BelowEager => config.default_segment_bytes(),
        }
    }
}

/// Fruitless draws before the pairs that are left are looked through one by one.
const DRAWS: usize = 64;

/// The state of the search between trials.
pub struct RandomTransform {
    parameters: Parameters,
    nodes: usize,
    random: ChaCha8Rng,
    bad_links: HashSet<(usize, usize)>,
    trees: Vec<(Tree, Seconds)>,
    /// The pair and the time of the tree that the trial under way was made from; none for the flat
    /// tree and for native.
    step: Option<((usize, usize), Seconds)>,
    /// The least time of this run, and the trials since it was found.
    least_s: Seconds,
    fruitless: usize,
}

impl RandomTransform {
    pub fn new(config: &Config) -> Self {
        RandomTransform {
            parameters: config.random_transform,
            nodes: config.nodes,
            random: ChaCha8Rng::seed_from_u64(config.seed),
            bad_links: HashSet::new(),
            trees: Vec::new(),
            step: None,
            least_s: f64::INFINITY,
            fruitless: 0,
        }
    }

    fn start_anew(&mut self) {
        self.bad_links.clear();
        self.trees.clear();
        (self.least_s, self.fruitless) = (f64::INFINITY, 0);
    }

    /// A pair that is not bad, applied to a tree of the list; `None` where no pair changes any tree.
    fn draw(&mut self) -> Option<((usize, usize), Tree, Seconds)> {
        let n = self.nodes;
        for _ in 0..DRAWS {
            let pair = (self.random.random_range(0..n), self.random.random_range(0..n));
            let chosen = self.random.random_range(0..self.trees.len());
            if !self.bad_links.contains(&pair)
                && let Some(found) = self.apply(pair, chosen)
            {
                return Some(found);
            }
        }
        let mut left: Vec<((usize, usize), usize)> = Vec::new();
        for a in 0..n {
            for b in (0..n).filter(|&b| !self.bad_links.contains(&(a, b))) {
                let changed = (0..self.trees.len()).filter(|&i| self.apply((a, b), i).is_some());
                left.extend(changed.map(|i| ((a, b), i)));
            }
        }
        if left.is_empty() {
            return None;
        }
        let (pair, chosen) = left[self.random.random_range(0..left.len())];
        self.apply(pair, chosen)
    }

    fn apply(
        &self,
        (a, b): (usize, usize),
        chosen: usize,
    ) -> Option<((usize, usize), Tree, Seconds)> {
        let (tree, seconds) = &self.trees[chosen];
        transform(tree, a, b).map(|moved| ((a, b), moved, *seconds))
    }

    /// A broadcast that takes this long is of a tree that would not be listed, whatever its median.
    fn hopeless_s(&self) -> Option<Seconds> {
        let slowest = self.trees.iter().map(|(_, seconds)| *seconds).reduce(f64::max)?;
        Some(HOPELESS * self.parameters.threshold.above(slowest))
    }

    fn judge(&mut self, tree: Tree, seconds: Seconds) {
        if let Some((pair, before)) = self.step.take()
            && seconds > before
        {
            self.bad_links.insert(pair);
        }
        self.fruitless += 1;
        if seconds < self.least_s {
            (self.least_s, self.fruitless) = (seconds, 0);
        }
        let least = self.trees.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
        let first = self.trees.is_empty();
        let known = self.trees.iter().any(|(other, _)| *other == tree);
        if known || !first && seconds >= self.parameters.threshold.above(least) {
            return;
        }
        if self.trees.len() >= self.parameters.list_length.max(1) {
            let slowest = (0..self.trees.len())
                .max_by(|&a, &b| self.trees[a].1.total_cmp(&self.trees[b].1))
                .unwrap_or(0);
            self.trees.swap_remove(slowest);
        }
        self.trees.push((tree, seconds));
    }
}

impl Strategy for RandomTransform {
    fn propose(&mut self, state: &mut SearchState) -> Option<Trial> {
        let tree = if self.trees.is_empty() {
            self.step = None;
            shapes::flat(self.nodes, state.config.root)
        } else {
            let pairs = (self.nodes - 1).pow(2);
            let drawn = if self.fruitless > pairs { None } else { self.draw() };
            let Some((pair, tree, before)) = drawn else {
                self.start_anew();
                return None;
            };
            self.step = Some((pair, before));
            tree
        };
        let segment_bytes = self.parameters.segments.bytes(&state.config);
        let plan = Plan::single(tree, segment_bytes).expect("the segment size is in its range");
        Some(Trial { give_up_after_s: self.hopeless_s(), ..state.trial(plan) })
    }

    fn learn(&mut self, _state: &mut SearchState, result: &TrialResult) {
        if let Plan::Trees(striping) = &result.trial.plan {
            self.judge(striping.stripes()[0].tree.clone(), result.median_s());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{BroadcastResult, Outcome, Request};
    use crate::search::Search;
    use crate::search::strategy::strategy;

    fn plans(parameters: Parameters, count: usize) -> Vec<Plan> {
        let config =
            Config { random_transform: parameters, native: false, ..Config::new(5, 0, 1 << 20) };
        let mut search = Search::new(strategy("random-transform").unwrap(), config, None);
        let mut plans = Vec::new();
        while plans.len() < count {
            let Some(Request::Broadcast { plan, .. }) = search.next() else { panic!("it goes on") };
            // Every tree after the first is a little slower.
            let seconds = if plans.is_empty() { 1.0 } else { 1.04 };
            let result = BroadcastResult { seconds, abandoned: false, disturbed: false };
            if search.answer(Outcome::Broadcast(result), 0.0).is_some() {
                plans.push(plan);
            }
        }
        plans
    }

    fn segment_bytes(segments: Segments) -> u32 {
        let parameters = Parameters { segments, ..Parameters::default() };
        plans(parameters, 1)[0].striping().unwrap().segment_bytes()
    }

    #[test]
    fn messages_are_cut_as_asked() {
        assert_eq!(segment_bytes(Segments::Whole), 1 << 20);
        assert_eq!(segment_bytes(Segments::Bytes(4096)), 4096);
        assert_eq!(segment_bytes(Segments::BelowEager), 16 << 10);
        for (eager_bytes, expected) in [(0, 1 << 10), (16 << 10, 8 << 10), (u64::MAX, 32 << 10)] {
            let config = Config { eager_bytes, ..Config::new(2, 0, 1 << 20) };
            assert_eq!(config.default_segment_bytes(), expected);
        }
    }

    #[test]
    fn a_threshold_is_a_part_or_a_time() {
        assert_eq!(Threshold::Part(0.05).above(2.0), 2.1);
        assert_eq!(Threshold::Seconds(0.05).above(2.0), 2.05);
        // A list of one takes the slower tree's place only within the threshold: what is drawn next differs.
        let with = |threshold| plans(Parameters { threshold, ..Parameters::default() }, 12);
        assert_eq!(with(Threshold::Part(0.05)), with(Threshold::Seconds(0.05)));
        assert_ne!(with(Threshold::Part(0.05)), with(Threshold::Seconds(0.03)));
    }

    #[test]
    fn the_list_has_as_many_trees_as_asked() {
        let listed = |list_length| {
            let random_transform = Parameters { list_length, ..Parameters::default() };
            let mut search =
                RandomTransform::new(&Config { random_transform, ..Config::new(5, 0, 1) });
            for tree in [shapes::flat(5, 0), shapes::chain(5, 0), shapes::binomial(5, 0)] {
                search.judge(tree, 1.0);
            }
            search.trees.len()
        };
        assert_eq!([1, 2, 8].map(listed), [1, 2, 3]);
    }
}
