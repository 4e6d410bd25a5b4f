//! Broadcasts along random plans with the engine itself, every rank a node of its own, over all ranks and over some of
//! them on the same carrier, and checks every byte on every rank: `mpirun -n N engine-check SEED BROADCASTS [MAX_BYTES [LARGEST_TAG]]`. No
//! daemon takes part. Rank 0 prints a line at the end; a wrong byte ends the job with an error.

use arborcast_proto::{GroupHash, SizeClass, Target, monotonic_ns};
use arborcast_shim::header::Decision;
use arborcast_shim::pmpi::Comm;
use arborcast_shim::tree_bcast::{Buffer, Call, Carrier, Engine, Options};
use arborcast_tests::random_striping;
use mpi::raw::AsRaw;
use mpi::traits::Communicator;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The byte at `index` of broadcast `number`.
fn expected(number: u32, index: usize) -> u8 {
    (index as u32).wrapping_mul(2_654_435_761).wrapping_add(number.wrapping_mul(97)).to_le_bytes()
        [2]
}

fn main() {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|a| a.parse().expect("arguments are numbers")).collect();
    let [seed, broadcasts, rest @ ..] = arguments.as_slice() else {
        panic!("usage: engine-check SEED BROADCASTS [MAX_BYTES [LARGEST_TAG]]");
    };
    let max_bytes = rest.first().copied().unwrap_or(1 << 20) as usize;
    let universe = mpi::initialize().expect("MPI starts once");
    let world = universe.world();
    let (rank, nodes) = (world.rank() as usize, world.size() as usize);
    // All ranks draw the same numbers, so that receivers know what must come.
    let mut random = ChaCha8Rng::seed_from_u64(*seed);
    let traffic = Comm::from_raw(world.as_raw()).split(0).expect("a communicator can be split");
    let carrier = match rest.get(1) {
        Some(&largest_tag) => Ok(Carrier::with_tags(traffic, nodes, largest_tag as u32)),
        None => Carrier::new(traffic, nodes),
    };
    let carrier = carrier.expect("tags have a bound");
    // Of all, and of all but the first third, from the last on.
    let members = [(0..nodes as i32).collect(), (nodes as i32 / 3..nodes as i32).rev().collect()];
    let channels = members.map(|members: Vec<i32>| {
        let node_of_member: Vec<u16> = (0..members.len() as u16).collect();
        let channel = carrier.clone().channel_of(members.clone(), &node_of_member);
        (members, channel.expect("a rank is known"))
    });
    let mut engine = Engine::default();
    let (mut acked, mut abandoned, mut native, mut reported) = (0, 0, 0, 0);
    // With few tags, one rank is late now and then, so that broadcasts from other parents overtake.
    let late = |number: u32| {
        if rest.len() > 1 && rank == nodes / 2 && number.is_multiple_of(16) {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    for number in 1..=*broadcasts as u32 {
        late(number);
        let of_some = random.random_range(0..3) == 0 && nodes > 2;
        let (members, channel) = &channels[usize::from(of_some)];
        let root_node = random.random_range(0..members.len());
        let root = members[root_node] as usize;
        let striping = random_striping(&mut random, members.len(), root_node, max_bytes as u64);
        let segment = striping.segment_bytes() as usize;
        let lengths = [0, 1, segment - 1, segment, segment + 1, random.random_range(0..=max_bytes)];
        let len = lengths[random.random_range(0..lengths.len())];
        let leaf_acks = random.random_range(0..2) == 0;
        let give_up_after = (random.random_range(0..8) == 0).then(|| random.random_range(0..20));
        let announce = random.random_range(0..16) == 0;
        let wanted = if random.random_range(0..2) == 0 { number } else { 0 };
        let target =
            Target { group: GroupHash(1), root: root as u16, class: SizeClass::of(len as u64) };
        let Some(own_node) = members.iter().position(|&member| member as usize == rank) else {
            continue;
        };
        let began_ns = monotonic_ns();
        let sequence = u64::from(number) | u64::from(of_some) << 63;
        let call = Call { sequence, root_node, root_rank: root as i32 };
        let mut message: Vec<u8> = match rank == root {
            true => (0..len).map(|index| expected(number, index)).collect(),
            false => vec![0xee; len],
        };
        let buffer = Buffer { data: message.as_mut_ptr(), len };
        if rank != root {
            // SAFETY: the message is this rank's own and outlives the call.
            let arrived = unsafe { engine.receive(channel, call, buffer, &mut || {}) };
            let arrived = arrived.unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            assert_eq!(arrived.decision != Decision::Trees, announce, "broadcast {number}");
            native += u32::from(announce);
            abandoned += u32::from(arrived.abandoned);
            if !arrived.abandoned && !announce {
                let wrong = (0..len).find(|&index| message[index] != expected(number, index));
                assert_eq!(
                    wrong, None,
                    "rank {rank}, broadcast {number}: {striping:?}, {len} bytes"
                );
            }
        } else if announce {
            engine.announce_native(channel, call, len as u64, 3, 0).expect("MPI works");
            native += 1;
        } else {
            let mut looks = 0;
            let mut give_up = || {
                looks += 1;
                give_up_after.is_some_and(|after| looks > after)
            };
            let options = Options { leaf_acks, report: wanted, abandon: Some(&mut give_up) };
            // SAFETY: the message is this rank's own and outlives the call.
            let sent = unsafe { engine.send(channel, call, &striping, buffer, options) };
            let sent = sent.unwrap_or_else(|error| panic!("root {rank}: {error}"));
            assert_eq!(sent.until_acked.is_some(), leaf_acks);
            acked += u32::from(leaf_acks);
        }
        if let Some(report) = engine.report(channel, call, target) {
            assert!(report.makes_sense() && wanted != 0 && !announce, "{report:?}");
            assert_eq!((report.broadcast, report.bytes), (wanted, len as u64));
            assert_eq!(usize::from(report.node), own_node);
            assert_eq!(report.acknowledged, leaf_acks && rank == root);
            assert_eq!(report.stripes.iter().map(|stripe| stripe.bytes).sum::<u64>(), len as u64);
            let times = report.stripes.iter().flat_map(|stripe| [stripe.first_ns, stripe.last_ns]);
            assert!(times.into_iter().all(|ns| (began_ns..=monotonic_ns()).contains(&ns)));
            reported += 1;
        }
    }
    // What nobody received would be left in this communicator, and its end would not come.
    traffic.free();
    if rank == 0 {
        println!(
            "{broadcasts} broadcasts over {nodes} nodes are right; \
             rank 0 timed {acked}, reported on {reported}, saw {abandoned} abandoned and {native} native"
        );
    }
}
