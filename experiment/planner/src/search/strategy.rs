//! The strategies: each is one file and one row of [`STRATEGIES`], and implements [`Strategy`]. The search
//! that drives it owns the pending request, the survey and the incumbent.

pub mod state;

mod annealing;
mod fixed;
mod guided;
pub mod random_transform;

use annealing::Annealing;
use fixed::{Fixed, Needs};
use guided::Guided;
use random_transform::RandomTransform;
use state::{Config, Strategy};

/// What takes less than this part of what native takes at least is better beyond doubt after one broadcast, and by
/// a model of measured links after none.
pub(super) const FAR_BETTER: f64 = 0.5;

/// A strategy by name, with its line of `--help`.
#[derive(Debug, Clone, Copy)]
pub struct Description {
    pub name: &'static str,
    pub about: &'static str,
    pub(super) make: fn(&Config) -> Box<dyn Strategy>,
}

/// Every strategy there is; the first is the default.
pub const STRATEGIES: &[Description] = &[
    Description {
        name: "guided",
        about: "measures the links, proposes from a model, measures the best few",
        make: |config| Box::new(Guided::new(config)),
    },
    Description {
        name: "random-transform",
        about: "from a flat tree by random single steps (Gupta and Vadhiyar)",
        make: |config| Box::new(RandomTransform::new(config)),
    },
    Description {
        name: "annealing",
        about: "clusters by bandwidth, then simulated annealing over trees (IPDPS 2006)",
        make: |config| Box::new(Annealing::new(config)),
    },
    Description {
        name: "flat",
        about: "the root sends to every node itself",
        make: |_| Box::new(Fixed::new(Needs::Nothing, fixed::flat)),
    },
    Description {
        name: "binomial",
        about: "the MPIs' usual tree for short messages, over the nodes in their order",
        make: |_| Box::new(Fixed::new(Needs::Nothing, fixed::binomial)),
    },
    Description {
        name: "chain",
        about: "each node sends to the next one",
        make: |_| Box::new(Fixed::new(Needs::Nothing, fixed::chain)),
    },
    Description {
        name: "magpie",
        about: "one coordinator a site, reached from the root; binomial inside",
        make: |_| Box::new(Fixed::new(Needs::Sites, fixed::magpie)),
    },
    Description {
        name: "multilevel",
        about: "MPICH-G2's trees: flat between the farthest clusters, binomial below",
        make: |_| Box::new(Fixed::new(Needs::Links, fixed::multilevel)),
    },
];

/// There is no strategy of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {0:?}; choose one of {names}", names = names())]
pub struct UnknownStrategy(String);

fn names() -> String {
    STRATEGIES.iter().map(|strategy| strategy.name).collect::<Vec<_>>().join(", ")
}

/// The strategy called `name`.
///
/// # Errors
/// Where there is none of that name.
pub fn strategy(name: &str) -> Result<&'static Description, UnknownStrategy> {
    let found = STRATEGIES.iter().find(|strategy| strategy.name == name);
    found.ok_or_else(|| UnknownStrategy(name.to_string()))
}
