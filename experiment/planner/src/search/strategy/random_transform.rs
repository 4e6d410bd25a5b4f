//! The search of the slides (Gupta and Vadhiyar, MPI collective communications for grids):
//!
//! Start from a flat tree; `bad_link_list` is empty, `Tree_list` has the flat tree. Again and again:
//! draw (a, b) that is not in `bad_link_list` and a tree ti of `Tree_list`; tj = trans(a, b) of ti. If
//! time(tj) > time(ti), (a, b) joins `bad_link_list`. If time(tj) < the least time of `Tree_list` +
//! threshold, tj takes the place of the slowest tree of the list.
//!
//! The slides leave open how long the list is and how large the threshold, see [`Options`], and
//! when performance is satisfactory. Here it is once every pair is bad, or once as many trials in a row
//! as there are pairs have found nothing faster in this run: then the search says that nothing is left.
//! Asked again, it starts anew from the flat tree, since networks change and another order of draws
//! leads elsewhere.

use super::bench::{Bench, HOPELESS, Settled};
use super::{Config, Knowledge, Measured, Outcome, Request, Strategy, Trial};
use crate::measurement::Seconds;
use crate::trees::transform::transform;
use arborcast_proto::{Plan, Tree};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::HashSet;

/// What the slides leave open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// A tree joins the list where it is slower than the list's best by less than this fraction of
    /// the best time.
    pub threshold: f64,
    /// Trees are added until there are so many; from then on the slowest is replaced.
    pub list_size: usize,
    /// `None`: as [`Config::default_segment_bytes`] says. The slides send each message whole, which
    /// is a segment as large as the message.
    pub segment_bytes: Option<u32>,
}

impl Default for Options {
    /// The slides' own list starts with one tree and never grows: what is added takes a place. It also
    /// reached the exhaustive optimum of small networks in fewer trials than lists of 4 and 16 did.
    fn default() -> Self {
        Options { threshold: 0.05, list_size: 1, segment_bytes: None }
    }
}

/// See the module's text.
pub struct RandomTransform {
    bench: Bench,
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

/// Fruitless draws before the pairs that are left are looked through one by one.
const DRAWS: usize = 64;

impl RandomTransform {
    pub fn new(config: Config) -> Self {
        RandomTransform {
            random: ChaCha8Rng::seed_from_u64(config.seed),
            bench: Bench::new(config),
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

    fn plan(&self, tree: Tree) -> Plan {
        let config = &self.bench.config;
        let chosen = config.random_transform.segment_bytes;
        let segment_bytes = chosen.unwrap_or_else(|| config.default_segment_bytes());
        let allowed = arborcast_proto::MIN_SEGMENT_BYTES..=arborcast_proto::MAX_SEGMENT_BYTES;
        let segment_bytes = segment_bytes.clamp(*allowed.start(), *allowed.end());
        Plan::single(tree, segment_bytes).expect("the segment size is in its range")
    }

    /// A pair that is not bad, applied to a tree of the list; `None` where no pair changes any tree.
    fn draw(&mut self) -> Option<((usize, usize), Tree, Seconds)> {
        let n = self.bench.config.nodes;
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
        Some(HOPELESS * slowest * (1.0 + self.bench.config.random_transform.threshold))
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
        let options = self.bench.config.random_transform;
        let least = self.trees.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
        let first = self.trees.is_empty();
        let known = self.trees.iter().any(|(other, _)| *other == tree);
        if known || !first && seconds >= least * (1.0 + options.threshold) {
            return;
        }
        if self.trees.len() >= options.list_size.max(1) {
            let slowest = (0..self.trees.len())
                .max_by(|&a, &b| self.trees[a].1.total_cmp(&self.trees[b].1))
                .unwrap_or(0);
            self.trees.swap_remove(slowest);
        }
        self.trees.push((tree, seconds));
    }
}

impl Strategy for RandomTransform {
    fn name(&self) -> &'static str {
        "random-transform"
    }

    fn next(&mut self) -> Option<Request> {
        if let Some(request) = self.bench.pending() {
            return Some(request);
        }
        if self.bench.native_is_due() {
            let trial = self.bench.trial(Plan::Native);
            return self.bench.ask(trial);
        }
        let tree = if self.trees.is_empty() {
            self.step = None;
            crate::trees::shapes::flat(self.bench.config.nodes, self.bench.config.root)
        } else {
            let pairs = (self.bench.config.nodes - 1).pow(2);
            let drawn = if self.fruitless > pairs { None } else { self.draw() };
            let Some((pair, tree, before)) = drawn else {
                self.start_anew();
                return None;
            };
            self.step = Some((pair, before));
            tree
        };
        let trial = self.bench.trial(self.plan(tree));
        self.bench.ask(Trial { give_up_after_s: self.hopeless_s(), ..trial })
    }

    fn observe(&mut self, outcome: Outcome) {
        let Some(Settled { trial, median_s }) = self.bench.settle(outcome) else { return };
        if let Plan::Trees(striping) = trial.plan {
            self.judge(striping.stripes()[0].tree.clone(), median_s);
        }
    }

    fn best(&self) -> Option<&Measured> {
        self.bench.best.as_ref()
    }

    fn knowledge(&self) -> &Knowledge {
        self.bench.knowledge()
    }
}
