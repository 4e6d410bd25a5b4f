//! The time a broadcast takes on a [`Network`]: a discrete-event simulation of the messages.
//!
//! Every interface, uplink and link is a server that its messages share in the order of arrival. A
//! message is cut through: its first byte enters a server as soon as it has left the one before, and
//! its last byte is as late as the slowest server on the way makes it. Segments are forwarded once
//! they have arrived whole. TCP's slow start is modelled where the network says so; what is not: losses.

mod events;

use crate::measurement::{Arrival, Seconds, Transfer, TransferResult};
use crate::model::network::Network;
use crate::trees::shapes;
use arborcast_proto::{DeliveryReport, Plan, StripeDelivery, Striping, Subtree, Target, Tree};
use events::Simulation;
use std::num::NonZeroU64;

/// More messages than this are not simulated one by one: the pipeline's steady state goes on.
const MAX_MESSAGES: usize = 20_000;
/// The same of connections that begin anew, which have no steady state before their windows are as wide as the way.
const MAX_START_MESSAGES: usize = 40_000;
/// A pipeline of this many segments is in its steady state at the latest.
const STEADY_SEGMENTS: usize = 256;
const MIN_SEGMENTS: usize = 24;
/// Of each flow, so that none is cut down to where its steady state can't be seen.
const MIN_SEGMENTS_OF_EACH: usize = 6;
/// What an `int` counts, and with its header and the rest of its last packet 32 bits hold.
const LONGEST_MESSAGE_BYTES: u64 = i32::MAX as u64;

/// Bytes that travel from the root of `tree` to all its nodes in segments; each leaf then answers to
/// the root with an empty message.
#[derive(Debug, Clone, Copy)]
pub struct Flow<'a> {
    pub tree: Subtree<'a>,
    pub bytes: u64,
    /// Of which these bytes are the beginning, or all.
    pub of_bytes: u64,
    pub segment_bytes: u32,
    /// The root's pacing rate; `None`: not paced.
    pub bytes_per_s: Option<NonZeroU64>,
    /// When the root starts.
    pub start_s: Seconds,
}

impl<'a> Flow<'a> {
    /// Starts at once, and is not paced.
    pub fn new(tree: Subtree<'a>, bytes: u64, segment_bytes: u32) -> Self {
        Flow { tree, bytes, of_bytes: bytes, segment_bytes, bytes_per_s: None, start_s: 0.0 }
    }
}

/// When a broadcast is over, from the root's start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Finish {
    /// The root has the ACKs of all leaves: what can be measured.
    pub acknowledged_s: Seconds,
    /// The root would have the ACKs of all nodes, if inner nodes sent one too. A tree that makes a far
    /// node an inner one saves the wait for its ACK, but no node has the message any sooner; planned
    /// for is this, so that nothing is won by hiding.
    pub every_ack_s: Seconds,
    /// The last node has the whole message.
    pub delivered_s: Seconds,
}

impl Finish {
    /// By as much as `all` is later than `part`.
    fn later(self, all: Finish, part: Finish) -> Finish {
        let later = |own: Seconds, all: Seconds, part: Seconds| own + (all - part).max(0.0);
        Finish {
            acknowledged_s: later(self.acknowledged_s, all.acknowledged_s, part.acknowledged_s),
            every_ack_s: later(self.every_ack_s, all.every_ack_s, part.every_ack_s),
            delivered_s: later(self.delivered_s, all.delivered_s, part.delivered_s),
        }
        .ordered()
    }

    /// An ACK follows the last delivery, whatever the rounding of the two.
    fn ordered(mut self) -> Finish {
        self.acknowledged_s = self.acknowledged_s.max(self.delivered_s);
        self.every_ack_s = self.every_ack_s.max(self.acknowledged_s);
        self
    }
}

/// The time a broadcast of `bytes` along `plan` takes until the root has the ACKs of all leaves.
/// `Plan::Native` is taken for what MPIs do that know nothing of the network: a binomial tree over
/// the nodes in their order, each message sent whole, up to what an MPI message may count.
///
/// # Panics
/// Where the plan spans other nodes than the network has.
pub fn simulate(network: &Network, plan: &Plan, root: usize, bytes: u64) -> Seconds {
    finish(network, plan, root, bytes).acknowledged_s
}

/// As [`simulate`], with the time of the last delivery.
///
/// # Panics
/// As [`simulate`].
pub fn finish(network: &Network, plan: &Plan, root: usize, bytes: u64) -> Finish {
    let native: Tree;
    let flows = match plan {
        Plan::Native => {
            native = shapes::binomial(network.len(), root);
            let segment_bytes = bytes.clamp(1, LONGEST_MESSAGE_BYTES) as u32;
            vec![Flow::new(native.as_subtree(), bytes, segment_bytes)]
        }
        Plan::Trees(striping) => {
            assert_eq!(striping.len(), network.len(), "the plan is for other nodes");
            flows_of(striping, bytes)
        }
    };
    let each = finish_flows(network, &flows);
    each.into_iter().fold(Finish::default(), |all, one| Finish {
        acknowledged_s: all.acknowledged_s.max(one.acknowledged_s),
        every_ack_s: all.every_ack_s.max(one.every_ack_s),
        delivered_s: all.delivered_s.max(one.delivered_s),
    })
}

/// What a plan's trees carry of a broadcast.
fn flows_of(striping: &Striping, bytes: u64) -> Vec<Flow<'_>> {
    let carried = striping.stripes().iter().zip(striping.ranges(bytes));
    let mut flows: Vec<Flow> = carried
        .map(|(stripe, range)| {
            let (tree, bytes) = (stripe.tree.as_subtree(), range.end - range.start);
            let flow = Flow::new(tree, bytes, striping.segment_bytes());
            Flow { bytes_per_s: stripe.bytes_per_s, ..flow }
        })
        .collect();
    if bytes > 0 {
        flows.retain(|flow| flow.bytes > 0);
    } else {
        flows.truncate(1);
    }
    flows
}

/// What the nodes would say of a broadcast along trees (see [`DeliveryReport`]), by one clock that begins with the
/// broadcast; each is as if its program had listened and its processor been idle.
///
/// # Panics
/// As [`simulate`].
pub fn reports(
    network: &Network,
    striping: &Striping,
    target: Target,
    bytes: u64,
) -> Vec<DeliveryReport> {
    let flows = flows_of(striping, bytes);
    let simulation = Simulation::new(network, &flows).simulated();
    let ns = |s: Seconds| (s * 1e9) as u64;
    let report = |node: usize| DeliveryReport {
        target,
        bytes,
        broadcast: 0,
        is_native: false,
        node: node as u16,
        listened_late: false,
        acknowledged: false,
        processor_wait_ns: 0,
        stripes: Vec::new(),
    };
    let mut reports: Vec<DeliveryReport> = (0..network.len()).map(report).collect();
    let root = striping.root();
    for (number, flow) in flows.iter().enumerate() {
        let (stripe, from, last_ns) = (number as u8, root as u16, 0);
        let all = StripeDelivery { stripe, from, bytes: flow.bytes, first_ns: 0, last_ns };
        reports[root].stripes.push(all);
    }
    for (number, from, to, first_s, last_s) in simulation.edge_times() {
        let (stripe, from, bytes) = (number as u8, from as u16, flows[number].bytes);
        let (first_ns, last_ns) = (ns(first_s), ns(last_s));
        reports[to].stripes.push(StripeDelivery { stripe, from, bytes, first_ns, last_ns });
    }
    reports
}

/// When each of several flows is over. A long pipeline is simulated until it is in its steady state,
/// which then goes on for the rest of the bytes. Connections that begin anew have none for a long time: what their
/// start adds is taken from the beginning, of which far more is simulated.
pub fn finish_flows(network: &Network, flows: &[Flow]) -> Vec<Finish> {
    let edges: usize = flows.iter().map(|flow| flow.tree.len() - 1).max().unwrap_or(0);
    let segments: usize = flows.iter().map(segment_count).sum();
    let whole = segments_to_simulate(network, edges).max(2 * MIN_SEGMENTS_OF_EACH * flows.len());
    if segments <= whole {
        return Simulation::new(network, flows).simulated().finish;
    }
    let part = whole as f64 / segments as f64;
    if network.pause_s() > 0.0 {
        let warm = network.clone().after_pause(0.0);
        let start = shortened(flows, part);
        let (all, of_start) = (finish_flows(&warm, flows), finish_flows(&warm, &start));
        let starts = Simulation::new(network, &start).simulated().finish;
        let parts = starts.into_iter().zip(all.into_iter().zip(of_start));
        return parts.map(|(start, (all, of_start))| start.later(all, of_start)).collect();
    }
    let (half, full) = (shortened(flows, part / 4.0), shortened(flows, part / 2.0));
    let before = Simulation::new(network, &half).simulated();
    let after = Simulation::new(network, &full).simulated();
    let go_on = |i: usize| {
        let step = full[i].bytes - half[i].bytes;
        let rest = (flows[i].bytes - full[i].bytes) as f64;
        let times = if step == 0 { 0.0 } else { rest / step as f64 };
        after.go_on(&before, i, times)
    };
    (0..flows.len()).map(go_on).collect()
}

/// A part of the bytes of each flow, in whole segments, so that no odd last one disturbs the steady state.
fn shortened<'a>(flows: &[Flow<'a>], part: f64) -> Vec<Flow<'a>> {
    let shorter = |flow: &Flow<'a>| {
        let count = (segment_count(flow) as f64 * part).ceil();
        let bytes = count as u64 * u64::from(flow.segment_bytes);
        Flow { bytes: bytes.min(flow.bytes), ..*flow }
    };
    flows.iter().map(shorter).collect()
}

/// What comes of transfers that run at once: their times, each until its sender has the answer, and when
/// what arrived.
pub fn transfers(network: &Network, round: &[Transfer]) -> Vec<TransferResult> {
    let pairs: Vec<[u16; 2]> = round.iter().map(|t| [t.from as u16, t.to as u16]).collect();
    let flows: Vec<Flow> = round
        .iter()
        .zip(&pairs)
        .map(|(transfer, pair)| {
            let tree = Subtree::new(pair, &[2, 1]).expect("two nodes are a tree");
            let flow = Flow::new(tree, transfer.bytes, transfer.segment_bytes);
            Flow { start_s: transfer.delay_s, ..flow }
        })
        .collect();
    let simulation = Simulation::new(network, &flows).with_arrivals().simulated();
    let over = simulation.finish.into_iter().zip(simulation.arrivals);
    let result = |((finish, mut arrivals), transfer): ((Finish, Vec<Arrival>), &Transfer)| {
        let Transfer { from, to, delay_s, stop_after_s, .. } = *transfer;
        let last_s = stop_after_s + network.latency_s(from, to);
        arrivals.retain(|arrival| arrival.seconds <= last_s);
        let acknowledged_s = finish.acknowledged_s.min(last_s + network.latency_s(to, from));
        TransferResult { seconds: acknowledged_s - delay_s, arrivals, lost: 0.0 }
    };
    over.zip(round).map(result).collect()
}

/// Pipelines that are no longer are simulated whole.
fn segments_to_simulate(network: &Network, edges: usize) -> usize {
    let each = |messages: usize| messages / edges.max(1);
    if network.pause_s() > 0.0 {
        each(MAX_START_MESSAGES).max(2 * MIN_SEGMENTS)
    } else {
        2 * each(MAX_MESSAGES).clamp(MIN_SEGMENTS, STEADY_SEGMENTS)
    }
}

/// About how many messages [`simulate`] looks at for a plan whose segments are as long as told: what
/// its time is proportional to.
pub(crate) fn messages(network: &Network, bytes: u64, segment_bytes: u32) -> usize {
    let edges = network.len().saturating_sub(1).max(1);
    let segments = bytes.div_ceil(u64::from(segment_bytes)).max(1) as usize;
    edges * segments.min(segments_to_simulate(network, edges))
}

fn segment_count(flow: &Flow) -> usize {
    flow.bytes.div_ceil(u64::from(flow.segment_bytes)).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::bounds::Limits;
    use crate::model::grids;
    use crate::model::network::{Link, Node, Site};
    use crate::trees::samples::{any_tree, chains_between_sites};
    use arborcast_proto::{Stripe, Striping};
    use proptest::prelude::*;

    const OVERHEAD_S: f64 = 10e-6;

    /// Nodes that are sites of their own, every link 10 ms and 1 MB/s, interfaces of 2 MB/s.
    fn even(n: usize) -> Network {
        let node = |site| Node { site, send_rate: 2e6, receive_rate: 2e6, overhead_s: OVERHEAD_S };
        let link = Link { latency_s: 10e-3, pair_rate: 1e6, shared_rate: f64::INFINITY };
        Network::new((0..n).map(node).collect(), vec![Site::UNLIMITED; n], vec![link; n * n])
            .unwrap()
    }

    fn single(tree: Tree, segment_bytes: u32) -> Plan {
        Plan::single(tree, segment_bytes).unwrap()
    }

    fn assert_close(found: Seconds, expected: Seconds, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} s, not {expected} s");
    }

    #[test]
    fn a_byte_along_a_chain_and_a_star() {
        let network = even(16);
        let chain = single(shapes::chain(16, 0), 1024);
        // 15 hops and the ACK; the header takes up to 109 B / 1 MB/s on each hop.
        assert_close(simulate(&network, &chain, 0, 1), 16.0 * 10e-3 + 15.0 * 85e-6, 0.02);
        let star = single(shapes::flat(16, 0), 1024);
        assert_close(simulate(&network, &star, 0, 1), 20e-3 + 15.0 * 37e-6, 0.02);
    }

    #[test]
    fn a_large_message_over_one_link_takes_its_bytes_over_the_rate() {
        let plan = single(shapes::flat(2, 0), 32 << 10);
        assert_close(simulate(&even(2), &plan, 0, 8 << 20), 8.388608 + 20e-3, 0.003);
    }

    #[test]
    fn an_interface_is_shared_by_what_it_sends() {
        // Four links of 1 MB/s behind an interface of 2 MB/s.
        let plan = single(shapes::flat(5, 0), 32 << 10);
        assert_close(simulate(&even(5), &plan, 0, 8 << 20), 2.0 * 8.388608 + 20e-3, 0.005);
    }

    #[test]
    fn a_far_sender_does_not_hold_up_a_near_one() {
        // Two far senders and a near one into one receiver, all of whom start at once.
        let mut links = vec![Link::LOCAL; 16];
        for (from, latency_s) in [(0, 50e-3), (1, 50e-3), (2, 1e-3)] {
            links[from * 4 + 3] = Link { latency_s, pair_rate: 1e9, shared_rate: 1e9 };
        }
        let node = |site| Node { site, send_rate: 1e9, receive_rate: 1e6, overhead_s: 0.0 };
        let nodes = (0..4).map(node).collect();
        let network = Network::new(nodes, vec![Site::UNLIMITED; 4], links).unwrap();
        let pairs = [[0u16, 3], [1, 3], [2, 3]];
        let flows: Vec<Flow> = pairs
            .iter()
            .map(|pair| Flow::new(Subtree::new(pair, &[2, 1]).unwrap(), 10_000, 1_000))
            .collect();
        let times = finish_flows(&network, &flows);
        assert_close(times[2].delivered_s, 1e-3 + 10e-3, 0.02);
        assert_close(times[0].delivered_s.max(times[1].delivered_s), 50e-3 + 20e-3, 0.02);
    }

    #[test]
    fn a_connection_begins_with_a_small_window() {
        // 10 ms one way; 64 KiB are 14.6 kB, 29.2 kB and the rest: three windows.
        let cold = even(2).after_pause(f64::INFINITY);
        let whole = single(shapes::flat(2, 0), 64 << 10);
        let more_s = simulate(&cold, &whole, 0, 64 << 10) - simulate(&even(2), &whole, 0, 64 << 10);
        assert_close(more_s, 2.0 * 20e-3, 1e-6);
        // In small messages it takes as many windows, and in the end the link is what limits.
        let small = single(shapes::flat(2, 0), 1 << 10);
        let seconds = |network, bytes| simulate(network, &small, 0, bytes);
        let lost_s = seconds(&cold, 8 << 20) - seconds(&even(2), 8 << 20);
        assert!((0.0..40e-3).contains(&lost_s), "{lost_s} s");
    }

    #[test]
    fn trees_over_the_same_two_nodes_have_one_window() {
        // 14.6 kB at once: two stripes of 6 kB, or one and a part of another one that is larger.
        let cold = even(2).after_pause(f64::INFINITY);
        let seconds = |network: &Network, stripe_bytes: u64, stripes: usize| {
            let stripe = Stripe::new(shapes::flat(2, 0), 1);
            let plan = Plan::Trees(Striping::new(vec![stripe; stripes], 32 << 10).unwrap());
            simulate(network, &plan, 0, stripe_bytes * stripes as u64)
        };
        let more_s =
            |bytes, stripes| seconds(&cold, bytes, stripes) - seconds(&even(2), bytes, stripes);
        assert_close(1.0 + more_s(6_000, 2), 1.0, 1e-6);
        // 8 ms of the round trip go by on the first, or on what is sent of the two.
        assert!((8e-3..20e-3).contains(&more_s(8_000, 2)), "{}", more_s(8_000, 2));
        assert_close(1.0 + more_s(8_000, 1), 1.0, 1e-6);
        // Ten packets: five stripes of two, or three of three and not all of the fourth.
        assert_close(1.0 + more_s(2_800, 5), 1.0, 1e-6);
        assert_close(1.0 + more_s(3_300, 3), 1.0, 1e-6);
        assert!(more_s(3_300, 4) > 8e-3, "{}", more_s(3_300, 4));
    }

    #[test]
    fn a_native_broadcast_may_be_longer_than_32_bits_count() {
        for network in [even(2), even(2).after_pause(f64::INFINITY)] {
            let seconds = simulate(&network, &Plan::Native, 0, 8 << 30);
            assert_close(seconds, (8u64 << 30) as f64 / network.rate(0, 1), 0.01);
        }
    }

    #[test]
    fn messages_above_the_eager_limit_use_rendezvous() {
        let plan = single(shapes::flat(2, 0), 64 << 10);
        let network = even(2);
        let eager = simulate(&network, &plan, 0, 64 << 10);
        let late = simulate(&network.with_eager_bytes(32 << 10), &plan, 0, 64 << 10);
        assert_close(late - eager, 20e-3, 1e-6);
    }

    /// Measured on an emulated grid of this description with plans made by hand: 0.69 s to 0.81 s
    /// with three trees, 1.2 to 1.4 s with one.
    #[test]
    fn the_hand_made_plan_of_the_mesh_takes_what_was_measured() {
        let mesh = grids::four_site_mesh();
        let tree = |sites: [usize; 4]| chains_between_sites(&sites, 4);
        let stripe = |sites, share| Stripe::new(tree(sites), share);
        let stripes =
            vec![stripe([0, 1, 3, 2], 60), stripe([0, 1, 2, 3], 50), stripe([0, 3, 2, 1], 10)];
        let plan = Plan::Trees(Striping::new(stripes, 32 << 10).unwrap());
        let three = simulate(&mesh, &plan, 0, 8 << 20);
        assert!((0.66..0.81).contains(&three), "{three}");
        let one = simulate(&mesh, &single(tree([0, 1, 3, 2]), 32 << 10), 0, 8 << 20);
        assert!((1.15..1.40).contains(&one), "{one}");
    }

    #[test]
    fn a_shortened_pipeline_takes_what_the_whole_one_takes() {
        let mesh = grids::four_site_mesh();
        let stripe = |sites: [usize; 4], share| Stripe::new(chains_between_sites(&sites, 4), share);
        let stripes =
            vec![stripe([0, 1, 3, 2], 60), stripe([0, 1, 2, 3], 50), stripe([0, 3, 2, 1], 10)];
        let striping = Striping::new(stripes, 8 << 10).unwrap();
        let flows: Vec<Flow> = striping
            .stripes()
            .iter()
            .zip(striping.ranges(32 << 20))
            .map(|(stripe, range)| {
                Flow::new(stripe.tree.as_subtree(), range.end - range.start, 8 << 10)
            })
            .collect();
        for (network, tolerance) in [(mesh.clone(), 0.02), (mesh.after_pause(1.0), 0.04)] {
            let shortened = finish_flows(&network, &flows);
            let whole = Simulation::new(&network, &flows).simulated();
            for (short, whole) in shortened.iter().zip(whole.finish) {
                assert_close(short.acknowledged_s, whole.acknowledged_s, tolerance);
                assert_close(short.delivered_s, whole.delivered_s, tolerance);
            }
        }
    }

    #[test]
    fn small_segments_over_small_windows_take_what_all_of_them_take() {
        for seed in 10..20 {
            let network = grids::random(6, 3, seed).after_pause(1.0);
            for (tree, segment_bytes) in [
                (shapes::chain(18, 0), 1 << 10),
                (shapes::binomial(18, 0), 2 << 10),
                (shapes::flat(18, 0), 4 << 10),
            ] {
                let flows = [Flow::new(tree.as_subtree(), 16 << 20, segment_bytes)];
                let short = finish_flows(&network, &flows)[0];
                let whole = Simulation::new(&network, &flows).simulated().finish[0];
                println!(
                    "seed {seed}, {segment_bytes} B: {:.3} of {:.3} s",
                    short.every_ack_s, whole.every_ack_s
                );
                assert_close(short.every_ack_s, whole.every_ack_s, 0.15);
            }
        }
    }

    #[test]
    fn many_nodes_are_no_faster_than_the_limit_either() {
        for seed in 0..3 {
            let network = grids::random(20, 20, seed);
            let limits = Limits::new(&network, 0);
            for tree in [shapes::chain(400, 0), shapes::binomial(400, 0)] {
                let plan = single(tree, 16 << 10);
                let finish = finish(&network, &plan, 0, 16 << 20);
                assert!(finish.every_ack_s >= limits.limit_s(16 << 20), "seed {seed}");
                let tree = plan.striping().unwrap().stripes()[0].tree.as_subtree();
                let flows = [Flow::new(tree, 16 << 20, 16 << 10)];
                let whole = Simulation::new(&network, &flows).simulated();
                assert_close(finish.acknowledged_s, whole.finish[0].acknowledged_s, 0.02);
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_is_faster_than_the_limit(
            trees in proptest::collection::vec(any_tree(12), 12..13),
            bytes in prop_oneof![0u64..4, 0u64..3_000_000],
            segment in 1024u32..100_000,
            stripes in 1usize..4,
            seed in 0u64..1000,
            scattered: bool,
        ) {
            let first = &trees[0];
            let same = trees.iter().filter(|t| t.len() == first.len() && t.root() == first.root());
            let stripes = same.take(stripes).map(|t| Stripe::new(t.clone(), 1)).collect();
            let plan = Plan::Trees(Striping::new(stripes, segment).unwrap());
            let n = first.len();
            let network = match n {
                n if scattered => grids::scattered(n, seed),
                n if n % 3 == 0 => grids::random(n / 3, 3, seed),
                n => grids::random(1, n, seed),
            };
            let limits = Limits::new(&network, first.root());
            let finish = finish(&network, &plan, first.root(), bytes);
            prop_assert!(finish.acknowledged_s >= limits.relayed_s(bytes) * (1.0 - 1e-9));
            prop_assert!(finish.every_ack_s >= limits.limit_s(bytes) * (1.0 - 1e-9));
            prop_assert!(finish.every_ack_s >= finish.acknowledged_s);
            prop_assert!(finish.delivered_s >= limits.delivered_s(bytes) * (1.0 - 1e-9));
            prop_assert!(finish.acknowledged_s >= finish.delivered_s || n == 1);
        }
    }
}
