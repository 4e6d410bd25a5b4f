//! Plans drawn at random: whatever the trees, a broadcast must be right.

use arborcast_proto::{MAX_STRIPES, MIN_SEGMENT_BYTES, Stripe, Striping, Tree};
use rand::{Rng, RngExt};
use std::num::NonZeroU64;

fn random_tree(random: &mut impl Rng, nodes: usize, root: usize) -> Tree {
    let mut order: Vec<usize> = (0..nodes).filter(|&node| node != root).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.random_range(0..=i));
    }
    let mut children = vec![Vec::new(); nodes];
    let mut reached = vec![root];
    for node in order {
        children[reached[random.random_range(0..reached.len())]].push(node);
        reached.push(node);
    }
    Tree::from_children(root, &children).expect("every node hangs below an earlier one")
}

/// More segments take minutes and show nothing more.
const MOST_SEGMENTS: u64 = 1 << 16;

/// For messages of `bytes`: up to four random trees, now and then as many as a plan may have, with random shares
/// and rates, one of four with TCP's pacing, and segments of 256 bytes to 128 KiB, not so short that they are too many.
///
/// # Panics
/// Where `root` is not below `nodes`.
pub fn random_striping(random: &mut impl Rng, nodes: usize, root: usize, bytes: u64) -> Striping {
    let most = if random.random_bool(0.2) { MAX_STRIPES } else { 4 };
    let stripes = (0..random.random_range(1..=most))
        .map(|_| Stripe {
            tree: random_tree(random, nodes, root),
            share: random.random_range(1..100),
            // None for one of eight, else no slower than what a test can wait for.
            bytes_per_s: NonZeroU64::new(random.random_range(0..8) * (32 << 20)),
        })
        .collect();
    let least = (bytes / MOST_SEGMENTS).min(128 << 10) as u32;
    let segment_bytes = (MIN_SEGMENT_BYTES << random.random_range(0..10)).max(least);
    let striping = Striping::new(stripes, segment_bytes).expect("within the limits of a plan");
    if random.random_bool(0.25) { striping.tcp_paced() } else { striping }
}
