//! What a broadcast pays to learn that its plan has not changed: `PlanCache::refresh` and `get` on a
//! daemon's board in shared memory. Prints nanoseconds, the median and the least of many rounds.
//! Beside it, what a changed board costs, which happens when a plan has been found.

use arborcast_proto::segment::{Board, BoardView, BookEntry, Identity};
use arborcast_proto::{GroupHash, NodeName, Plan, SizeClass, Target, Tree};
use arborcast_shim::plan_cache::PlanCache;
use std::hint::black_box;
use std::time::{Duration, Instant};

const NODES: usize = 16;
const ROUNDS: usize = 201;
const READS_PER_ROUND: u32 = 100_000;

/// Median and least nanoseconds of one call.
fn nanoseconds(calls: u32, mut call: impl FnMut()) -> (f64, f64) {
    let mut round = || {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
    };
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[ROUNDS / 2], rounds[0])
}

fn main() {
    let segment = format!("arborcast-bench-{}", std::process::id());
    let name = |name| NodeName::new(name).expect("a valid name");
    let identity =
        Identity { node: name("n0"), site: name("a"), hold_wait_max: Duration::from_millis(250) };
    let board = Board::create(&segment, &identity).expect("a segment in /dev/shm");
    let view = BoardView::open(board.file().expect("a descriptor")).expect("the board just made");
    let target = |class| Target { group: GroupHash(1), root: 0, class };
    let sizes = (0..20).map(|doublings| SizeClass::of(1024 << doublings));
    let plan = Plan::single(Tree::flat(NODES, 0).expect("a tree"), 32 << 10).expect("a plan");
    let entry = BookEntry { plan, median_s: 0.1, is_measured: true, native_s: None };
    let publish = || {
        let plans = sizes.clone().map(|class| (target(class), &entry));
        board.publish(plans).expect("room for twenty plans");
    };
    publish();

    let wanted = target(SizeClass::of(1 << 20));
    let mut cache = PlanCache::default();
    let mut read = || {
        cache.refresh(black_box(&view), black_box(wanted));
        assert!(black_box(cache.get(wanted.class)).is_some());
    };
    let (median, least) = nanoseconds(READS_PER_ROUND, &mut read);
    println!("an unchanged plan: {median:.1} ns (least {least:.1} ns)");
    let (with_publishing, _) = nanoseconds(20, || {
        publish();
        read();
    });
    let (publishing, _) = nanoseconds(20, publish);
    println!("a plan of {NODES} nodes read anew: {:.0} ns", with_publishing - publishing);
}
