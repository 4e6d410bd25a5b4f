//! The strategies by name.

use super::fixed::{self, Fixed, Needs};
use super::{Annealing, Config, Guided, RandomTransform, Strategy};

/// One line of `--help`.
#[derive(Clone, Copy)]
pub struct Description {
    pub name: &'static str,
    pub about: &'static str,
    make: fn(Config) -> Box<dyn Strategy>,
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
        about: "from a flat tree by random single steps, as told in the slides",
        make: |config| Box::new(RandomTransform::new(config)),
    },
    Description {
        name: "annealing",
        about: "clusters by bandwidth, then simulated annealing over trees, as in the paper",
        make: |config| Box::new(Annealing::new(config)),
    },
    Description {
        name: "flat",
        about: "the root sends to every node itself",
        make: |config| Box::new(Fixed::new("flat", Needs::Nothing, fixed::flat, config)),
    },
    Description {
        name: "binomial",
        about: "the MPIs' usual tree for short messages, over the nodes in their order",
        make: |config| Box::new(Fixed::new("binomial", Needs::Nothing, fixed::binomial, config)),
    },
    Description {
        name: "chain",
        about: "each node sends to the next one",
        make: |config| Box::new(Fixed::new("chain", Needs::Nothing, fixed::chain, config)),
    },
    Description {
        name: "magpie",
        about: "one coordinator a site, reached from the root; binomial inside",
        make: |config| Box::new(Fixed::new("magpie", Needs::Sites, fixed::magpie, config)),
    },
    Description {
        name: "multilevel",
        about: "MPICH-G2's trees: flat between the farthest clusters, binomial below",
        make: |config| Box::new(Fixed::new("multilevel", Needs::Links, fixed::multilevel, config)),
    },
];

/// There is no strategy of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no strategy {0:?}; choose one of {names}", names = names())]
pub struct UnknownStrategy(String);

fn names() -> String {
    STRATEGIES.iter().map(|strategy| strategy.name).collect::<Vec<_>>().join(", ")
}

/// The strategy called `name`, ready for `config`.
///
/// # Errors
/// Where there is none of that name.
pub fn strategy(name: &str, config: Config) -> Result<Box<dyn Strategy>, UnknownStrategy> {
    let found = STRATEGIES.iter().find(|strategy| strategy.name == name);
    found.map(|strategy| (strategy.make)(config)).ok_or_else(|| UnknownStrategy(name.to_string()))
}
