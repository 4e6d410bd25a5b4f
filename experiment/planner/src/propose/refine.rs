//! Trees over sites refined for one message size: [simulated annealing](crate::model::annealing) of the parents in
//! each tree and of the trees' shares, judged by the [closed form](super::closed_form).
//!
//! A packing carries as much as possible to all sites alike. A far site needs its bytes at a higher rate than
//! a near one to have them in time, and one that can receive little should not hold up what is before it.

use super::Proposer;
use super::closed_form::{ClosedForm, Scratch, Shares};
use super::packing::{RatedTree, latency_s};
use super::site_plan::{Inside, most_lanes};
use crate::measurement::Seconds;
use crate::model::annealing::{Cooling, is_taken};
use crate::model::network::Network;
use arborcast_proto::Tree;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Refined is what spends more than this part of its time on bytes.
const WORTH_REFINING: f64 = 0.05;
/// A further tree must save this part of the time.
const WORTH_A_TREE: f64 = 0.005;
/// More trees than this gain hardly more.
const MAX_TREES: usize = 6;
/// Sites looked at in all moves of one run: some tens of milliseconds.
const SITES_TO_LOOK_AT: usize = 3_000_000;
const MOVES: std::ops::RangeInclusive<usize> = 2_000..=40_000;
/// As parts of the time.
const COOLING: Cooling = Cooling { hot: 0.03, cold: 0.0003 };
/// Weight of the mean over the sites beside the last of them, so that moves of what is not last count too.
const MEAN_WEIGHT: f64 = 0.05;
/// A tree that carries less than this part of the message is not worth its messages.
const LEAST_SHARE: f64 = 0.01;
/// One move in this number changes shares.
const SHARES_OF_MOVES: u32 = 4;
/// What the closed form supposes of the messages inside sites.
const SEGMENT_BYTES: u32 = 16 << 10;

/// The best that annealing makes of `packings`: of one tree, of two and so on, as long as more trees help; nothing where hardly any time goes by on bytes.
pub(super) fn refine(
    proposer: &Proposer<'_>,
    packings: &[Vec<RatedTree>],
    random: &mut ChaCha8Rng,
) -> Vec<Vec<RatedTree>> {
    let Proposer { root, bytes, effort, .. } = *proposer;
    let network = proposer.network_of(SEGMENT_BYTES);
    let mut refined: Vec<Vec<RatedTree>> = Vec::new();
    if network.sites().len() == 1 {
        return refined; // one tree is all there is
    }
    let mut last: Option<(Shares, Seconds)> = None;
    for trees in 1..=MAX_TREES {
        let shape = (Inside::Chains(1), SEGMENT_BYTES, most_lanes(network, trees));
        let model_of = |bytes| ClosedForm::new(network, root, bytes, shape);
        let (model, no_bytes) = (model_of(bytes), model_of(0));
        let mut scratch = model.scratch();
        let of_size = packings.iter().filter(|packing| packing.len() == trees);
        let packed = of_size.map(|packing| by_rate(packing));
        let grown = last.iter().map(|(plan, _)| with_another_tree(plan));
        let seeds = packed.chain(grown).map(|plan| (cost_s(&model, &plan, &mut scratch), plan));
        let Some((_, seed)) = seeds.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        if cost_s(&no_bytes, &seed, &mut scratch)
            > (1.0 - WORTH_REFINING) * cost_s(&model, &seed, &mut scratch)
        {
            break;
        }
        let moves = SITES_TO_LOOK_AT / (model.sites() * seed.shares.len());
        let moves = effort.of(moves.clamp(*MOVES.start(), *MOVES.end()));
        let plan = anneal(&model, seed, moves, &mut scratch, random);
        let seconds = model.time_s(&plan, &mut scratch);
        if last.as_ref().is_some_and(|(_, before_s)| seconds > before_s * (1.0 - WORTH_A_TREE)) {
            break;
        }
        refined.push(rated(network, &plan, bytes, seconds));
        last = Some((plan, seconds));
    }
    refined
}

fn by_rate(packing: &[RatedTree]) -> Shares {
    let all: f64 = packing.iter().map(|tree| tree.rate).sum();
    let alike = 1.0 / packing.len() as f64;
    let share = |tree: &RatedTree| if all.is_finite() { tree.rate / all } else { alike };
    Shares::new(packing, &packing.iter().map(share).collect::<Vec<_>>())
}

/// The tree that carries most, in two halves.
fn with_another_tree(plan: &Shares) -> Shares {
    let mut grown = plan.clone();
    let by_share = |&a: &usize, &b: &usize| plan.shares[a].total_cmp(&plan.shares[b]);
    let most = (0..plan.shares.len()).max_by(by_share).unwrap_or(0);
    grown.shares[most] /= 2.0;
    grown.shares.push(grown.shares[most]);
    grown.parents.push(grown.parents[most].clone());
    grown
}

/// What annealing minimises: the time of the last site, and a little of all others'.
fn cost_s(model: &ClosedForm<'_>, plan: &Shares, scratch: &mut Scratch) -> Seconds {
    let (mut last_s, mut sum_s, mut count) = (0.0, 0.0, 0u32);
    model.arrivals(plan, scratch, |arrival| {
        last_s = f64::max(last_s, arrival.end_s);
        sum_s += arrival.end_s;
        count += 1;
    });
    last_s + MEAN_WEIGHT * sum_s / f64::from(count)
}

fn anneal(
    model: &ClosedForm<'_>,
    seed: Shares,
    moves: usize,
    scratch: &mut Scratch,
    random: &mut ChaCha8Rng,
) -> Shares {
    let mut now_s = cost_s(model, &seed, scratch);
    let mut now = seed;
    let (mut best, mut best_s) = (now.clone(), now_s);
    for number in 0..moves {
        let temperature_s = best_s * COOLING.temperature(number as f64 / moves as f64);
        let Some(before) = step(model, &mut now, random) else { continue };
        let next_s = cost_s(model, &now, scratch);
        if !is_taken(now_s, next_s, temperature_s, random) {
            before.restore(&mut now);
            continue;
        }
        now_s = next_s;
        if now_s < best_s {
            (best, best_s) = (now.clone(), now_s);
        }
    }
    best
}

/// What a step has changed, as it was.
enum Before {
    Parents(usize, [(usize, usize); 2]),
    Shares([(usize, f64); 2]),
}

impl Before {
    fn restore(self, plan: &mut Shares) {
        match self {
            Before::Parents(tree, sites) => {
                sites.into_iter().for_each(|(site, parent)| plan.parents[tree][site] = parent);
            }
            Before::Shares(trees) => {
                trees.into_iter().for_each(|(tree, share)| plan.shares[tree] = share);
            }
        }
    }
}

/// Another parent for a site, or another share for two trees; `None` where the draw changes nothing.
fn step(model: &ClosedForm<'_>, plan: &mut Shares, random: &mut ChaCha8Rng) -> Option<Before> {
    let trees = plan.shares.len();
    let tree = random.random_range(0..trees);
    if trees > 1 && random.random_ratio(1, SHARES_OF_MOVES) {
        let to = random.random_range(0..trees);
        let (own, other) = (plan.shares[tree], plan.shares[to]);
        let moved = own * random.random_range(0.01..0.5);
        if to == tree || own - moved < LEAST_SHARE {
            return None;
        }
        (plan.shares[tree], plan.shares[to]) = (own - moved, other + moved);
        return Some(Before::Shares([(tree, own), (to, other)]));
    }
    let sites = model.sites();
    let (site, parent) = (random.random_range(0..sites), random.random_range(0..sites));
    let parents = &mut plan.parents[tree];
    if site == model.home() || site == parent || parents[site] == parent {
        return None;
    }
    let before = Before::Parents(tree, [(site, parents[site]), (parent, parents[parent])]);
    let mut above = parent;
    while above != site && above != model.home() {
        above = parents[above];
    }
    if above == site {
        // What hangs below takes the site's place.
        parents[parent] = parents[site];
    }
    parents[site] = parent;
    Some(before)
}

/// With the rates at which all trees end together after `seconds`.
fn rated(network: &Network, plan: &Shares, bytes: u64, seconds: Seconds) -> Vec<RatedTree> {
    let trees = plan.parents.iter().zip(&plan.shares);
    trees
        .map(|(parents, share)| {
            let parent = |(site, &parent): (usize, &usize)| (site != parent).then_some(parent);
            let parents: Vec<Option<usize>> = parents.iter().enumerate().map(parent).collect();
            let sites = Tree::from_parents(&parents).expect("a step keeps a tree a tree");
            let rate = share * bytes as f64 / (seconds - latency_s(network, &sites));
            RatedTree { sites, rate }
        })
        .collect()
}
