//! A tree that is not searched for, measured once: what the searches are compared with.

use super::state::{Config, SearchState, Strategy, TrialResult};
use crate::measurement::Trial;
use crate::model::clusters::{self, LATENCIES_S};
use crate::trees::shapes;
use arborcast_proto::{Plan, Tree};

/// A tree by a rule.
pub struct Fixed {
    tree: fn(&Config) -> Tree,
    needs: Needs,
    is_measured: bool,
}

/// What a tree is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// The configured sites; where there are none, the links.
    Sites,
    Links,
}

impl Fixed {
    pub(super) fn new(needs: Needs, tree: fn(&Config) -> Tree) -> Self {
        Fixed { tree, needs, is_measured: false }
    }
}

impl Strategy for Fixed {
    fn needs_links(&self, state: &SearchState) -> bool {
        let needs = match self.needs {
            Needs::Nothing => false,
            Needs::Sites => state.config.sites.is_none(),
            Needs::Links => true,
        };
        needs && !self.is_measured
    }

    fn propose(&mut self, state: &mut SearchState) -> Option<Trial> {
        if self.is_measured {
            return None;
        }
        let tree = (self.tree)(&state.config);
        let segment_bytes = state.config.default_segment_bytes();
        let plan = Plan::single(tree, segment_bytes).expect("the segment size is in its range");
        Some(state.trial(plan))
    }

    fn learn(&mut self, _state: &mut SearchState, result: &TrialResult) {
        self.is_measured |= result.trial.plan != Plan::Native;
    }
}

pub(super) fn flat(config: &Config) -> Tree {
    shapes::flat(config.nodes, config.root)
}

pub(super) fn binomial(config: &Config) -> Tree {
    shapes::binomial(config.nodes, config.root)
}

pub(super) fn chain(config: &Config) -> Tree {
    shapes::chain(config.nodes, config.root)
}

/// By the configured sites; else by those that the measured latencies show; else one site.
pub(super) fn magpie(config: &Config) -> Tree {
    let configured = config.site_numbers();
    let sites = configured.or_else(|| {
        let network = config.knowledge.network.as_ref()?;
        let distance = |a, b| network.latency_s(a, b).max(network.latency_s(b, a));
        Some(clusters::clusters(config.nodes, LATENCIES_S, distance))
    });
    shapes::magpie(&sites.unwrap_or_else(|| vec![0; config.nodes]), config.root)
}

/// By the levels that the measured latencies show; else by the configured sites.
pub(super) fn multilevel(config: &Config) -> Tree {
    let Some(network) = &config.knowledge.network else { return magpie(config) };
    let distance = |a, b| network.latency_s(a, b).max(network.latency_s(b, a));
    let levels = clusters::levels(config.nodes, LATENCIES_S, distance);
    if levels.is_empty() { magpie(config) } else { shapes::multilevel(&levels, config.root) }
}
