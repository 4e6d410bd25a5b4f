//! Broadcasts through the Rust API, which says how each broadcast went:
//! `mpirun -n 4 timed_broadcast`.

use mpi::traits::Communicator;

const COUNT: usize = 1 << 15;
const ROOT: mpi::Rank = 0;

fn main() -> Result<(), arborcast_shim::pmpi::MpiError> {
    let universe = mpi::initialize().expect("MPI starts once");
    let world = universe.world();
    let is_root = world.rank() == ROOT;
    let plan = arborcast_rsmpi::plan_in_use(&world, (COUNT * size_of::<f64>()) as u64)?;
    if is_root {
        println!("plan: {}", plan.map_or("native".into(), |plan| plan.to_string()));
    }
    for round in 1..=3 {
        let expected = |index: usize| f64::from(round) + index as f64 / 2.0;
        let mut values: Vec<f64> = match is_root {
            true => (0..COUNT).map(expected).collect(),
            false => vec![0.0; COUNT],
        };
        let timing = arborcast_rsmpi::broadcast_from(&world, ROOT, &mut values[..], true)?;
        assert!((0..COUNT).all(|index| values[index] == expected(index)));
        match timing.until_acked {
            Some(time) => println!("along trees in {:.6} s", time.as_secs_f64()),
            None if is_root => println!("by the native broadcast"),
            None => {}
        }
    }
    Ok(())
}
