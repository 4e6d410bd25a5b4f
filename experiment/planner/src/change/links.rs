//! What broadcasts of all roots and sizes say together of the links between sites: where roots take turns, the plan of
//! each is used too seldom to tell of a change by itself.

use super::cusum::Cusum;
use super::{Edge, History};
use crate::model::network::Network;
use arborcast_proto::message::Times;
use std::collections::{BTreeMap, HashMap};

/// How far above what is usual an edge was in one broadcast, where it told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deviation {
    pub slower: Option<f64>,
    pub later: Option<f64>,
}

/// By the sites from and to which a link leads.
#[derive(Debug, Default)]
pub struct Links(HashMap<(usize, usize), Link>);

#[derive(Debug, Default)]
struct Link {
    slower: Cusum,
    later: Cusum,
}

impl Links {
    /// Takes in what the edges of one broadcast have told. What half of those of a link say, the link does; and of an edge
    /// that says so too it is as sure as the link is.
    pub(super) fn note(
        &mut self,
        told: &[(Edge, Deviation)],
        edges: &mut BTreeMap<Edge, History>,
        network: &Network,
    ) {
        let mut passing: BTreeMap<(usize, usize), Vec<&(Edge, Deviation)>> = BTreeMap::new();
        for of_edge @ (edge, _) in told {
            let (from, to) = sites(edge, network);
            if from != to {
                passing.entry((from, to)).or_default().push(of_edge);
            }
        }
        for link in self.0.values_mut() {
            link.slower.fade();
            link.later.fade();
        }
        for (link, told) in passing {
            let Link { slower, later } = self.0.entry(link).or_default();
            let median = |of: fn(&Deviation) -> Option<f64>| {
                Times::median_of(told.iter().filter_map(|(_, deviation)| of(deviation)))
            };
            median(|deviation| deviation.slower).into_iter().for_each(|by| slower.add(by));
            median(|deviation| deviation.later).into_iter().for_each(|by| later.add(by));
            for (edge, _) in told {
                let Some(history) = edges.get_mut(edge) else { continue };
                history.slower.agree(*slower);
                history.later.agree(*later);
            }
        }
    }

    /// Whether what comes late over an edge may wait there behind what others have sent: its link may have become slower,
    /// or another one is suspected of it. One that no plan uses any more is not suspected for long.
    pub(super) fn may_queue(&self, edge: &Edge, network: &Network) -> bool {
        let link = self.0.get(&sites(edge, network));
        link.is_some_and(|link| link.slower.sum() > 0.0)
            || self.0.values().any(|link| link.slower.is_suspicious())
    }

    /// What these edges say of their links has been explained.
    pub(super) fn forget_slower<'a>(
        &mut self,
        edges: impl IntoIterator<Item = &'a Edge>,
        network: &Network,
    ) {
        for edge in edges {
            if let Some(link) = self.0.get_mut(&sites(edge, network)) {
                link.slower = Cusum::default();
            }
        }
    }

    /// What has raised an alarm was looked at.
    pub(super) fn forget_alarms(&mut self) {
        self.0.retain(|_, link| !link.slower.is_alarm() && !link.later.is_alarm());
    }
}

fn sites(edge: &Edge, network: &Network) -> (usize, usize) {
    (network.site_of(edge.from), network.site_of(edge.to))
}
