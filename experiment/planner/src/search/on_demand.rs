//! A plan for who waits for it: a program that broadcasts from a root or in a group of which nothing has been measured,
//! on links that are known.

use super::strategy::FAR_BETTER;
use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::model::simulate::simulate;
use crate::propose::propose_at_once;
use arborcast_proto::Plan;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// Native is not improved upon where it should take less: planning takes some hundredths of a second itself.
const LEAST_NATIVE_S: Seconds = 0.1;
/// Equal questions have equal answers.
const SEED: u64 = 1;

/// A plan that should be far better than native, and what it should take; `None` where the model knows none. Its
/// connections are taken for new, as they are where nothing was broadcast before.
pub fn plan(network: &Network, root: usize, bytes: u64) -> Option<(Plan, Seconds)> {
    let network = network.clone().after_pause(f64::INFINITY);
    let native_s = simulate(&network, &Plan::Native, root, bytes);
    if native_s < LEAST_NATIVE_S || network.sites().len() < 2 {
        return None;
    }
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let best = propose_at_once(&network, root, bytes, &mut random).into_iter().next()?;
    let seconds = best.predicted.acknowledged_s;
    (seconds < FAR_BETTER * native_s).then_some((best.plan, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::propose::propose;
    use crate::propose::site_plan::USUAL_PACING;

    #[test]
    fn plans_that_are_waited_for_are_nearly_as_good_as_others() {
        let mut ratios = Vec::new();
        for (network, name) in [
            (grids::four_site_mesh(), "mesh"),
            (grids::five_regions(), "regions"),
            (grids::random(6, 4, 1), "random"),
        ] {
            for bytes in [64 << 10, 1 << 20, 8 << 20] {
                for root in [0, network.len() - 1] {
                    let Some((found, seconds)) = plan(&network, root, bytes) else { continue };
                    let cold = network.clone().after_pause(f64::INFINITY);
                    assert_eq!(found.striping().unwrap().root(), root);
                    let mut random = ChaCha8Rng::seed_from_u64(SEED);
                    let whole =
                        propose(&cold, root, bytes, USUAL_PACING, &mut random).swap_remove(0);
                    let ratio = seconds / whole.predicted.acknowledged_s;
                    println!(
                        "{name}, root {root}, {bytes} B: {seconds:.3} s, {ratio:.2} of a whole planning"
                    );
                    ratios.push(ratio);
                }
            }
        }
        ratios.sort_by(f64::total_cmp);
        assert!(ratios.len() > 12 && ratios[ratios.len() / 2] < 1.1, "{ratios:?}");
        assert!(ratios[ratios.len() - 1] < 1.5, "{ratios:?}");
    }

    #[test]
    fn where_native_is_as_good_nobody_waits_for_a_plan() {
        let one_site = grids::four_site_mesh().subset(&[0, 1, 2, 3]);
        assert_eq!(plan(&one_site, 0, 64 << 20), None);
        assert_eq!(plan(&grids::four_site_mesh(), 0, 1), None);
        let pair = grids::four_site_mesh().subset(&[0, 15]);
        assert_eq!(plan(&pair, 0, 1 << 20), None);
    }
}
