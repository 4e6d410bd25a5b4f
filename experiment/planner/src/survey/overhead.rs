//! *Overhead*: what a message costs a node beside its bytes. Many short messages inside some of the clusters,
//! then the same bytes in fewer, longer ones. One cluster after the other: nodes that are at work at once slow each
//! other down where they share processors, as those of emulated grids do, far more than in a broadcast.

use super::links::{Links, Pair};
use super::rounds::Rounds;
use crate::measurement::{Seconds, Transfer, TransferResult};
use crate::model::network::DEFAULT_OVERHEAD_S;

/// Short enough that the processors are what limits them.
const SHORT_BYTES: u32 = 256;
const LONGER_BYTES: u32 = 32 << 10;
const TRAIN_BYTES: u64 = 128 << 10;
const REPETITIONS: u32 = 3;
/// So many clusters speak for all.
const CLUSTERS: usize = 3;

/// The overhead of a message, in seconds.
#[derive(Debug)]
pub(super) struct Overhead {
    pub overhead_s: Seconds,
    is_measured: bool,
}

impl Overhead {
    pub fn new() -> Self {
        Overhead { overhead_s: DEFAULT_OVERHEAD_S, is_measured: false }
    }

    /// What to measure next, in the clusters that the links are of; empty once it is known.
    pub fn ask(&self, links: &Links) -> Rounds {
        let pair = |members: &Vec<usize>| Some((*members.first()?, *members.get(1)?));
        let pairs: Vec<Pair> = links.members.iter().filter_map(pair).take(CLUSTERS).collect();
        if pairs.is_empty() || self.is_measured {
            return Vec::new();
        }
        let round = |&pair: &Pair, segment_bytes: u32| {
            let transfer = Transfer::new(pair, TRAIN_BYTES, REPETITIONS);
            vec![Transfer { segment_bytes, ..transfer }]
        };
        let lengths = [SHORT_BYTES, LONGER_BYTES].into_iter();
        lengths.flat_map(|bytes| pairs.iter().map(move |pair| round(pair, bytes))).collect()
    }

    /// The extra time of the short messages is per-message overhead.
    pub fn observe(&mut self, results: &[Vec<TransferResult>]) {
        let mean_s = |rounds: &[Vec<TransferResult>]| {
            let seconds = rounds.iter().flatten().map(|result| result.seconds);
            seconds.sum::<Seconds>() / rounds.len() as f64
        };
        let (short, longer) = results.split_at(results.len() / 2);
        let messages = |bytes: u32| (TRAIN_BYTES / u64::from(bytes)) as f64;
        let more = messages(SHORT_BYTES) - messages(LONGER_BYTES);
        let each_s = (mean_s(short) - mean_s(longer)) / more;
        if each_s.is_finite() {
            self.overhead_s = each_s.max(DEFAULT_OVERHEAD_S);
        }
        self.is_measured = true;
    }
}
