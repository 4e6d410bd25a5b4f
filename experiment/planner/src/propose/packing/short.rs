//! Trees with short ways, for messages that the linear program's trees would be too deep for.

use super::{MAX_TREES, Packer, Resource, parents_to_tree};
use crate::measurement::Seconds;
use crate::model::linear_program::maximise;
use arborcast_proto::Tree;

/// Rates that short trees are asked to carry, as fractions of what all trees together can.
const FRACTIONS: [f64; 8] = [0.999, 0.8, 0.65, 0.5, 0.35, 0.25, 0.15, 0.08];

impl Packer<'_> {
    /// Adds trees with short ways that carry a given rate, and those that still fit beside them: the
    /// program above doesn't tell a detour from a straight way where both have room.
    pub(super) fn generate_short(&mut self) {
        if self.columns.iter().any(Vec::is_empty) {
            return;
        }
        let all = maximise(&self.columns, &self.limits).value;
        self.first_short = self.trees.len();
        for first in FRACTIONS {
            let mut left = Room::new(self);
            let mut least = first;
            for _ in 0..MAX_TREES {
                let fitting = FRACTIONS.iter().filter(|&&f| f <= least);
                let found = fitting
                    .map(|f| f * all)
                    .find_map(|rate| Some((self.earliest_arrival(rate, &left)?, rate)));
                let Some((tree, rate)) = found else { break };
                least = rate / all;
                left.take(self, &tree, rate);
                self.add(tree);
            }
        }
    }

    /// The tree that reaches every site as early as can be over what has room for `rate` (Prim's way
    /// of growing, with Dijkstra's distances).
    fn earliest_arrival(&self, rate: f64, room: &Room) -> Option<Tree> {
        let sites = self.count.len();
        let mut room = room.clone();
        for site in 0..sites {
            room.send[site] -= rate * (self.count[site] - 1) as f64;
        }
        if room.send.iter().any(|&left| left < 0.0) {
            return None;
        }
        let mut parents = vec![None; sites];
        let mut reached = vec![(self.home, 0.0)];
        let mut open: Vec<usize> = (0..sites).filter(|&site| site != self.home).collect();
        while !open.is_empty() {
            let mut best: Option<(Seconds, usize, usize)> = None;
            for &(a, reach_s) in &reached {
                if room.egress[a] < rate || room.send[a] < rate {
                    continue;
                }
                for (place, &b) in open.iter().enumerate() {
                    let seconds = reach_s + self.network.site_link(a, b).latency_s;
                    let has_room = room.link[a * sites + b] >= rate
                        && room.ingress[b] >= rate
                        && self.network.site_link(a, b).pair_rate >= rate;
                    if has_room && best.is_none_or(|(least, ..)| seconds < least) {
                        best = Some((seconds, a, place));
                    }
                }
            }
            let (seconds, a, place) = best?;
            let b = open.swap_remove(place);
            parents[b] = Some(a);
            room.egress[a] -= rate;
            room.send[a] -= rate;
            reached.push((b, seconds));
        }
        Some(parents_to_tree(&parents))
    }
}

/// Capacities that are not taken yet.
#[derive(Clone)]
struct Room {
    link: Vec<f64>,
    egress: Vec<f64>,
    ingress: Vec<f64>,
    send: Vec<f64>,
}

impl Room {
    fn new(packer: &Packer) -> Self {
        let sites = packer.count.len();
        let each = |resource: fn(usize) -> Resource| {
            (0..sites).map(|site| packer.capacity(resource(site))).collect()
        };
        let link = |i: usize| packer.capacity(Resource::Link(i / sites, i % sites));
        let mut send: Vec<f64> = each(Resource::Send);
        // Rounding must not forbid what just fits.
        send.iter_mut().for_each(|rate| *rate *= 1.001);
        Room {
            link: (0..sites * sites).map(link).collect(),
            egress: each(Resource::Egress),
            ingress: each(Resource::Ingress),
            send,
        }
    }

    fn take(&mut self, packer: &Packer, tree: &Tree, rate: f64) {
        let sites = packer.count.len();
        tree.for_each_edge(|a, b| {
            self.link[a * sites + b] -= rate;
            self.egress[a] -= rate;
            self.ingress[b] -= rate;
            self.send[a] -= rate;
        });
        for (site, send) in self.send.iter_mut().enumerate() {
            *send -= rate * (packer.count[site] - 1) as f64;
        }
    }
}
