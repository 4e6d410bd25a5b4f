//! A tree that is not searched for, measured once: what the searches are compared with.

use super::bench::Bench;
use super::{Config, Knowledge, Measured, Outcome, Request, Strategy};
use crate::model::clusters;
use crate::trees::shapes;
use arborcast_proto::{Plan, Tree};

/// Latencies above this, one way and in seconds, are not those of one site.
const FAR_S: f64 = 1e-3;

/// See the module's text.
pub struct Fixed {
    name: &'static str,
    bench: Bench,
    tree: fn(&Config) -> Tree,
    needs: Needs,
    measured: bool,
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
    pub(super) fn new(
        name: &'static str,
        needs: Needs,
        tree: fn(&Config) -> Tree,
        config: Config,
    ) -> Self {
        Fixed { name, bench: Bench::new(config), tree, needs, measured: false }
    }
}

impl Strategy for Fixed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn next(&mut self) -> Option<Request> {
        if let Some(request) = self.bench.pending() {
            return Some(request);
        }
        if self.bench.native_is_due() {
            let trial = self.bench.trial(Plan::Native);
            return self.bench.ask(trial);
        }
        if self.measured {
            return None;
        }
        let has_sites = self.bench.config.sites.is_some();
        if (self.needs == Needs::Links || self.needs == Needs::Sites && !has_sites)
            && let Some(request) = self.bench.ask_links()
        {
            return Some(request);
        }
        let tree = (self.tree)(&self.bench.config);
        let segment_bytes = self.bench.config.default_segment_bytes();
        let plan = Plan::single(tree, segment_bytes).expect("the segment size is in its range");
        let trial = self.bench.trial(plan);
        self.bench.ask(trial)
    }

    fn observe(&mut self, outcome: Outcome) {
        if let Some(settled) = self.bench.settle(outcome) {
            self.measured |= settled.trial.plan != Plan::Native;
        }
    }

    fn best(&self) -> Option<&Measured> {
        self.bench.best.as_ref()
    }

    fn knowledge(&self) -> &Knowledge {
        self.bench.knowledge()
    }
}

pub(crate) fn flat(config: &Config) -> Tree {
    shapes::flat(config.nodes, config.root)
}

pub(crate) fn binomial(config: &Config) -> Tree {
    shapes::binomial(config.nodes, config.root)
}

pub(crate) fn chain(config: &Config) -> Tree {
    shapes::chain(config.nodes, config.root)
}

/// By the configured sites; else by those that the measured latencies show; else one site.
pub(crate) fn magpie(config: &Config) -> Tree {
    let configured = config.site_numbers();
    let sites = configured.or_else(|| {
        let network = config.knowledge.network.as_ref()?;
        let distance = |a, b| network.latency_s(a, b).max(network.latency_s(b, a));
        Some(clusters::clusters(config.nodes, FAR_S, distance))
    });
    shapes::magpie(&sites.unwrap_or_else(|| vec![0; config.nodes]), config.root)
}

/// By the levels that the measured latencies show; else by the configured sites.
pub(crate) fn multilevel(config: &Config) -> Tree {
    let Some(network) = &config.knowledge.network else { return magpie(config) };
    let distance = |a, b| network.latency_s(a, b).max(network.latency_s(b, a));
    let levels = clusters::levels(config.nodes, distance);
    if levels.is_empty() { magpie(config) } else { shapes::multilevel(&levels, config.root) }
}
