//! *Overhead*: what a message costs a node beside its bytes. Many short messages around each cluster,
//! everywhere at once, then the same bytes in fewer, longer ones.

use super::links::{Links, Pair, ring};
use super::rounds::Rounds;
use crate::measurement::{Seconds, Transfer, TransferResult};
use crate::model::network::DEFAULT_OVERHEAD_S;

/// Short enough that the processors are what limits them.
const SHORT_BYTES: u32 = 256;
const LONGER_BYTES: u32 = 32 << 10;
const TRAIN_BYTES: u64 = 128 << 10;
const MESSAGE_ROUNDS: usize = 3;

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

    /// What to measure next, around the clusters that the links are of; empty once it is known. All nodes
    /// are at work at once, as in a broadcast.
    pub fn ask(&self, links: &Links) -> Rounds {
        let pairs: Vec<Pair> = links.members.iter().flat_map(|members| ring(members)).collect();
        if pairs.is_empty() || self.is_measured {
            return Vec::new();
        }
        let round = |segment_bytes: u32| -> Vec<Transfer> {
            let transfer =
                |&pair| Transfer { segment_bytes, ..Transfer::new(pair, TRAIN_BYTES, 1) };
            pairs.iter().map(transfer).collect()
        };
        let lengths = [SHORT_BYTES, LONGER_BYTES].into_iter();
        lengths.flat_map(|bytes| vec![round(bytes); MESSAGE_ROUNDS]).collect()
    }

    /// The extra time of the short-message rounds is per-message overhead; slowest short minus fastest
    /// long includes contention for the processors.
    pub fn observe(&mut self, results: &[Vec<TransferResult>]) {
        let mean_s = |round: &Vec<TransferResult>| {
            round.iter().map(|result| result.seconds).sum::<Seconds>() / round.len() as f64
        };
        let (short, longer) = results.split_at(MESSAGE_ROUNDS);
        let messages = |bytes: u32| (TRAIN_BYTES / u64::from(bytes)) as f64;
        let more = messages(SHORT_BYTES) - messages(LONGER_BYTES);
        let slowest_s = short.iter().map(mean_s).fold(0.0, f64::max);
        let fastest_s = longer.iter().map(mean_s).fold(f64::INFINITY, f64::min);
        let each_s = (slowest_s - fastest_s) / more;
        if each_s.is_finite() {
            self.overhead_s = each_s.max(DEFAULT_OVERHEAD_S);
        }
        self.is_measured = true;
    }
}
