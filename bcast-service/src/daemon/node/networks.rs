//! The networks that the experiment has told of: for plans that programs ask for.

use super::super::planning::Wanted;
use super::Node;
use arborcast_planner::Network;
use arborcast_proto::message::{Answer, Refusal};
use arborcast_proto::{Group, SizeClass, Target, codec};
use std::collections::VecDeque;

/// The last ones are kept.
const MOST: usize = 16;
/// In larger groups a plan takes longer than a program can wait for it, and is not good.
const MOST_NODES: usize = 1000;

/// Of different groups, the newest last.
#[derive(Default)]
pub struct Networks(VecDeque<(Group, Network)>);

impl Networks {
    fn insert(&mut self, group: Group, network: Network) {
        self.0.retain(|(other, _)| *other != group);
        self.0.push_back((group, network));
        if self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// That of a group, as a part of the newest one with all its nodes.
    fn of(&self, group: &Group) -> Option<Network> {
        let mut newest_first = self.0.iter().rev();
        let found = newest_first.find_map(|(all, network)| Some((network, group.places_in(all)?)));
        found.map(|(network, nodes)| network.subset(&nodes))
    }

    pub fn forget(&mut self) {
        self.0.clear();
    }
}

impl Node {
    /// # Errors
    /// `Invalid` where the bytes are no network, or one of other nodes.
    pub(super) fn set_network(&mut self, group: Group, bytes: &[u8]) -> Result<Answer, Refusal> {
        let invalid = |error: String| Refusal::Invalid(format!("no network: {error}"));
        let network: Network = codec::decode(bytes).map_err(|error| invalid(error.to_string()))?;
        if network.len() != group.len() {
            return Err(invalid(format!("{} nodes for {}", network.len(), group.len())));
        }
        self.networks.insert(group, network);
        Ok(Answer::Done)
    }

    /// What there is to be planned for a target that has no plan; `None` where too little is known, or nobody is
    /// there to see what comes of a plan that nobody has measured.
    pub fn to_plan(&self, target: Target, bytes: u64) -> Option<Wanted> {
        let is_watched = self.experiments() > 0 && !self.paused;
        let has_none = self.knowledge.finding(target).is_none();
        let is_possible = bytes <= self.max_message_bytes && SizeClass::of(bytes) == target.class;
        if !(is_watched && has_none && is_possible) {
            return None;
        }
        let group = self.knowledge.group(target.group).filter(|group| group.len() <= MOST_NODES)?;
        let is_own = group.nodes().get(usize::from(target.root)) == Some(&self.name);
        let network = self.networks.of(group).filter(|_| is_own)?;
        Some(Wanted { network, group: group.clone(), target, bytes })
    }
}
