//! The form in which all phases ask: rounds of transfers.

use crate::measurement::Transfer;
use std::cmp::Reverse;

/// Repetitions of an empty message, of which the fastest counts: between nodes that may be near more of
/// them, since one that met a busy processor may not make a near node look far.
pub(super) const PINGS: u32 = 3;
pub(super) const NEAR_PINGS: u32 = 16;

/// Rounds one after the other; the transfers of a round run at the same time.
pub type Rounds = Vec<Vec<Transfer>>;

/// Distinct pairs in rounds in which no node occurs twice. Nodes with the most pairs left come first, so that
/// none of them is left to go on alone.
pub(super) fn rounds_of_pairs(pairs: &[(usize, usize)], nodes: usize) -> Vec<Vec<(usize, usize)>> {
    let mut rounds: Vec<Vec<(usize, usize)>> = Vec::new();
    let mut left: Vec<(usize, usize)> = pairs.to_vec();
    // The round in which a node was last used.
    let mut used = vec![usize::MAX; nodes];
    while !left.is_empty() {
        let round = rounds.len();
        let mut chosen = Vec::new();
        let mut pairs_of = vec![0usize; nodes];
        left.iter().for_each(|&(a, b)| [a, b].into_iter().for_each(|node| pairs_of[node] += 1));
        left.sort_by_key(|&(a, b)| Reverse(pairs_of[a] + pairs_of[b]));
        left.retain(|&(a, b)| {
            if used[a] == round || used[b] == round {
                return true;
            }
            (used[a], used[b]) = (round, round);
            chosen.push((a, b));
            false
        });
        rounds.push(chosen);
    }
    rounds
}

/// Distinct pairs of senders and receivers in rounds in which no node sends twice or receives twice: what one
/// sends leaves alone what it receives.
pub(super) fn rounds_one_way(pairs: &[(usize, usize)], nodes: usize) -> Vec<Vec<(usize, usize)>> {
    let ends: Vec<_> = pairs.iter().map(|&(from, to)| (from, nodes + to)).collect();
    let mut rounds = rounds_of_pairs(&ends, 2 * nodes);
    rounds.iter_mut().flatten().for_each(|(_, to)| *to -= nodes);
    rounds
}
