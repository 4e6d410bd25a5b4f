//! How to broadcast: natively, or along trees that share the message.

use crate::{InvalidTree, Tree};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

/// The most trees a plan stripes a message over: as many connections between two sites, whose first windows leave
/// at once.
pub const MAX_STRIPES: usize = 32;
/// Segments below this cost more in headers than they gain in overlap.
pub const MIN_SEGMENT_BYTES: u32 = 256;
/// Larger segments than this no longer overlap anything.
pub const MAX_SEGMENT_BYTES: u32 = 1 << 30;
/// No link that is worth a broadcast is slower; a slower rate is a mistake that would hold a program up.
pub const MIN_BYTES_PER_S: u64 = 1000;
/// What a root may send at once of a stripe with a rate, beside the segment that follows: about what TCP
/// itself sends before the first answer.
pub const BURST_BYTES: u64 = 64 << 10;

/// Why a description is not a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPlan {
    #[error("a plan has 1 to {MAX_STRIPES} trees, not {0}")]
    Stripes(usize),
    #[error("the trees of a plan must span the same nodes from the same root")]
    Mixed,
    #[error("every tree of a plan must carry a share above zero")]
    Share,
    #[error("a segment has {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES} bytes, not {0}")]
    Segment(u32),
    #[error("a tree is paced at {MIN_BYTES_PER_S} B/s or more, not {0}")]
    Rate(u64),
    #[error(transparent)]
    Tree(#[from] InvalidTree),
}

/// How one target's messages are broadcast.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Plan {
    /// `PMPI_Bcast`.
    Native,
    /// Along trees of our own.
    Trees(Striping),
}

/// As plans are written, in the order in which the forms came, so that what was written before is still read.
#[derive(Serialize, Deserialize)]
enum Form {
    Native,
    Trees(Parts),
    TcpPacedTrees(Parts),
}

#[derive(Serialize, Deserialize)]
struct Parts {
    stripes: Vec<Stripe>,
    segment_bytes: u32,
}

impl TryFrom<Form> for Plan {
    type Error = InvalidPlan;

    fn try_from(form: Form) -> Result<Self, InvalidPlan> {
        let trees = |parts: Parts| Striping::new(parts.stripes, parts.segment_bytes);
        Ok(match form {
            Form::Native => Plan::Native,
            Form::Trees(parts) => Plan::Trees(trees(parts)?),
            Form::TcpPacedTrees(parts) => Plan::Trees(trees(parts)?.tcp_paced()),
        })
    }
}

impl From<Plan> for Form {
    fn from(plan: Plan) -> Self {
        let Plan::Trees(Striping { stripes, segment_bytes, is_tcp_paced }) = plan else {
            return Form::Native;
        };
        let form = if is_tcp_paced { Form::TcpPacedTrees } else { Form::Trees };
        form(Parts { stripes, segment_bytes })
    }
}

/// A tree and its share of the message, relative to the shares of the plan's other trees.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stripe {
    pub tree: Tree,
    pub share: u16,
    /// The root's pacing rate; `None`: not paced, as fast as its connections take it. Connections that
    /// are given all at once fill the queues on their way until packets are lost, and then stand still
    /// for a round trip or more, and with them all that is below.
    pub bytes_per_s: Option<NonZeroU64>,
}

impl Stripe {
    /// A tree that is not paced.
    pub fn new(tree: Tree, share: u16) -> Self {
        Stripe { tree, share, bytes_per_s: None }
    }
}

/// How long after its start the root may begin to send a stripe's segment of this number, counted from
/// 0, where it paces the stripe at this rate.
pub fn pacing_delay(
    bytes_per_s: Option<NonZeroU64>,
    segment: usize,
    segment_bytes: u32,
) -> Duration {
    let Some(rate) = bytes_per_s else { return Duration::ZERO };
    let bytes_before = segment as u64 * u64::from(segment_bytes);
    Duration::from_secs_f64(bytes_before.saturating_sub(BURST_BYTES) as f64 / rate.get() as f64)
}

/// One to [`MAX_STRIPES`] trees over the same nodes and root, and the size of the pieces in which
/// the message travels along each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Striping {
    stripes: Vec<Stripe>,
    segment_bytes: u32,
    is_tcp_paced: bool,
}

impl Striping {
    /// # Errors
    /// Where the trees differ in their nodes or root, or a number is out of its range.
    pub fn new(stripes: Vec<Stripe>, segment_bytes: u32) -> Result<Self, InvalidPlan> {
        let Some(first) = stripes.first().filter(|_| stripes.len() <= MAX_STRIPES) else {
            return Err(InvalidPlan::Stripes(stripes.len()));
        };
        let (len, root) = (first.tree.len(), first.tree.root());
        if stripes.iter().any(|s| s.tree.len() != len || s.tree.root() != root) {
            return Err(InvalidPlan::Mixed);
        }
        if stripes.iter().any(|s| s.share == 0) {
            return Err(InvalidPlan::Share);
        }
        let rates = stripes.iter().filter_map(|s| s.bytes_per_s.map(NonZeroU64::get));
        if let Some(rate) = rates.min().filter(|&rate| rate < MIN_BYTES_PER_S) {
            return Err(InvalidPlan::Rate(rate));
        }
        if !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&segment_bytes) {
            return Err(InvalidPlan::Segment(segment_bytes));
        }
        Ok(Striping { stripes, segment_bytes, is_tcp_paced: false })
    }

    /// The same trees over connections whose TCP spreads what it sends over the round trip.
    #[must_use]
    pub fn tcp_paced(self) -> Self {
        Striping { is_tcp_paced: true, ..self }
    }

    /// Whether each node has its TCP spread what it sends over the round trip, for as long as the connection lives. TCP
    /// sends a window's packets as fast as its host can, and queues on the way that are shorter than windows lose them.
    pub fn is_tcp_paced(&self) -> bool {
        self.is_tcp_paced
    }

    pub fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// The pacing rates of all trees together; `None` where one is not paced.
    pub fn bytes_per_s(&self) -> Option<u64> {
        self.stripes.iter().map(|stripe| stripe.bytes_per_s.map(NonZeroU64::get)).sum()
    }

    pub fn root(&self) -> usize {
        self.stripes[0].tree.root()
    }

    /// The number of nodes that every tree spans.
    #[allow(clippy::len_without_is_empty)] // a tree is never empty
    pub fn len(&self) -> usize {
        self.stripes[0].tree.len()
    }

    /// The bytes of a message of `total_bytes` that each tree carries: contiguous, in the order of
    /// the trees, together the whole message. A range may be empty when the message is short.
    pub fn ranges(&self, total_bytes: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let shares: u64 = self.stripes.iter().map(|s| u64::from(s.share)).sum();
        let mut share_so_far = 0u64;
        self.stripes.iter().map(move |stripe| {
            let boundary = |share: u64| {
                (u128::from(total_bytes) * u128::from(share) / u128::from(shares)) as u64
            };
            let start = boundary(share_so_far);
            share_so_far += u64::from(stripe.share);
            start..boundary(share_so_far)
        })
    }
}

impl Plan {
    /// One tree carrying the whole message.
    ///
    /// # Errors
    /// `Segment` where `segment_bytes` is out of range.
    pub fn single(tree: Tree, segment_bytes: u32) -> Result<Self, InvalidPlan> {
        Ok(Plan::Trees(Striping::new(vec![Stripe::new(tree, 1)], segment_bytes)?))
    }

    /// The trees, where the plan has any.
    pub fn striping(&self) -> Option<&Striping> {
        match self {
            Plan::Native => None,
            Plan::Trees(striping) => Some(striping),
        }
    }
}

/// `native`, or `60% 0(1 2) + 40% 0(2(1)), segments of 32768 B, paced at 16.2 MB/s, with TCP's pacing`.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan::Trees(striping) = self else { return f.write_str("native") };
        let shares: u32 = striping.stripes.iter().map(|s| u32::from(s.share)).sum();
        for (i, stripe) in striping.stripes.iter().enumerate() {
            let percent = 100.0 * f64::from(stripe.share) / f64::from(shares);
            let plus = if i > 0 { " + " } else { "" };
            write!(f, "{plus}{percent:.0}% {}", stripe.tree)?;
        }
        write!(f, ", segments of {} B", striping.segment_bytes)?;
        if let Some(rate) = striping.bytes_per_s() {
            write!(f, ", paced at {:.1} MB/s", rate as f64 / 1e6)?;
        }
        if striping.is_tcp_paced { f.write_str(", with TCP's pacing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plan_is_written_as_it_was_before_there_was_tcp_pacing() {
        let Plan::Trees(trees) = Plan::single(Tree::flat(3, 0).unwrap(), 1024).unwrap() else {
            panic!("a plan of trees")
        };
        let (plain, paced) = (Plan::Trees(trees.clone()), Plan::Trees(trees.clone().tcp_paced()));
        let written = |plan: &Plan| crate::codec::encode(plan).unwrap();
        let before = crate::codec::encode(&(1u32, (trees.stripes(), trees.segment_bytes())));
        assert_eq!(written(&plain), before.unwrap());
        for plan in [Plan::Native, plain, paced] {
            assert_eq!(crate::codec::decode::<Plan>(&written(&plan)).unwrap(), plan);
        }
    }

    proptest! {
        #[test]
        fn ranges_cover_the_message_in_order(
            shares in proptest::collection::vec(1u16.., 1..=MAX_STRIPES),
            total in prop_oneof![0u64..100, 0u64..=(1 << 45)],
        ) {
            let tree = Tree::flat(3, 0).unwrap();
            let stripes =
                shares.into_iter().map(|share| Stripe::new(tree.clone(), share)).collect();
            let striping = Striping::new(stripes, 1024).unwrap();
            let mut end = 0;
            for range in striping.ranges(total) {
                prop_assert_eq!(range.start, end);
                prop_assert!(range.end >= range.start);
                end = range.end;
            }
            prop_assert_eq!(end, total);
        }
    }

    #[test]
    fn a_fed_stripe_is_released_at_its_rate() {
        let after_ms = |rate, segment| pacing_delay(rate, segment, 32 << 10).as_millis();
        assert_eq!(after_ms(None, usize::MAX), 0);
        let paced = NonZeroU64::new(1 << 20);
        assert_eq!(after_ms(paced, 2), 0);
        assert_eq!(after_ms(paced, 2 + 16), 500);
    }

    #[test]
    fn trees_of_one_plan_share_their_root() {
        let stripe = |root| Stripe::new(Tree::flat(3, root).unwrap(), 1);
        assert_eq!(Striping::new(vec![stripe(0), stripe(1)], 1024), Err(InvalidPlan::Mixed));
        assert_eq!(Striping::new(vec![], 1024), Err(InvalidPlan::Stripes(0)));
        assert_eq!(Striping::new(vec![stripe(0)], 1), Err(InvalidPlan::Segment(1)));
        let starved = Stripe { bytes_per_s: NonZeroU64::new(1), ..stripe(0) };
        assert_eq!(Striping::new(vec![starved], 1024), Err(InvalidPlan::Rate(1)));
    }
}
