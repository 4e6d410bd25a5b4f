//! Random transforms, the search of R. Gupta and S. Vadhiyar ("MPI collective communications for grids",
//! slides; see also "Application-oriented adaptive MPI_Bcast for grids", IPDPS 2006):
//!
//! Start from a flat tree; `bad_link_list` is empty, `Tree_list` has the flat tree. Again and again:
//! draw (a, b) that is not in `bad_link_list` and a tree ti of `Tree_list`; tj = trans(a, b) of ti. If
//! time(tj) > time(ti), (a, b) joins `bad_link_list`. If time(tj) < the least time of `Tree_list` +
//! threshold, tj takes the place of the slowest tree of the list.
//!
//! The authors leave open how long the list is, how large the threshold, and when performance is
//! satisfactory. Here it is once every pair is bad, or once as many trials in a row as there are pairs have
//! found nothing faster in this run: then the search says that nothing is left. Asked again, it starts anew
//! from the flat tree, since networks change and another order of draws leads elsewhere.

use super::state::{Config, HOPELESS, SearchState, Strategy, TrialResult};
use crate::measurement::{Seconds, Trial};
use crate::trees::shapes;
use crate::trees::transform::transform;
use arborcast_proto::{Plan, Tree};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::HashSet;

/// A tree joins the list where it is slower than the list's best by less than this fraction of the best
/// time.
const THRESHOLD: f64 = 0.05;
/// Trees are added until there are this many; from then on the slowest is replaced. The authors' own list
/// starts with one tree and never grows; it also reached the exhaustive optimum of small networks in fewer
/// trials than lists of 4 and 16.
const LIST_SIZE: usize = 1;
/// Fruitless draws before the pairs that are left are looked through one by one.
const DRAWS: usize = 64;

/// The state of the search between trials.
pub struct RandomTransform {
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
        Some(HOPELESS * slowest * (1.0 + THRESHOLD))
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
        if known || !first && seconds >= least * (1.0 + THRESHOLD) {
            return;
        }
        if self.trees.len() >= LIST_SIZE {
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
        let segment_bytes = state.config.default_segment_bytes();
        let plan = Plan::single(tree, segment_bytes).expect("the segment size is in its range");
        Some(Trial { give_up_after_s: self.hopeless_s(), ..state.trial(plan) })
    }

    fn learn(&mut self, _state: &mut SearchState, result: &TrialResult) {
        if let Plan::Trees(striping) = &result.trial.plan {
            self.judge(striping.stripes()[0].tree.clone(), result.median_s());
        }
    }
}
