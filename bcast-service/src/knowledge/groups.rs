//! Which nodes a group's hash stands for. Any client may register groups, so the number of names
//! is bounded: the group that was registered longest ago goes first.

use arborcast_proto::{Group, GroupHash};
use std::collections::{HashMap, VecDeque};

/// About 20 MB of names.
const MAX_NAMES: usize = 1 << 18;

#[derive(Debug, Default)]
pub struct Groups {
    groups: HashMap<GroupHash, Group>,
    /// Oldest first.
    order: VecDeque<GroupHash>,
    names: usize,
}

impl Groups {
    pub fn register(&mut self, group: &Group) {
        let hash = group.hash();
        if self.groups.contains_key(&hash) {
            self.order.retain(|&other| other != hash);
            self.order.push_back(hash);
            return;
        }
        self.names += group.len();
        self.groups.insert(hash, group.clone());
        self.order.push_back(hash);
        while self.names > MAX_NAMES {
            let Some(oldest) = self.order.pop_front() else { return };
            self.names -= self.groups.remove(&oldest).map_or(0, |group| group.len());
        }
    }

    pub fn get(&self, hash: GroupHash) -> Option<&Group> {
        self.groups.get(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::NodeName;

    #[test]
    fn the_oldest_groups_make_room() {
        let mut groups = Groups::default();
        let group = |number: usize| {
            let name = |i| NodeName::new(format!("g{number}n{i}")).unwrap();
            Group::new((0..1000).map(name).collect()).unwrap()
        };
        let all: Vec<Group> = (0..300).map(group).collect();
        for group in &all {
            groups.register(group);
            groups.register(&all[0]);
        }
        assert!(groups.names <= MAX_NAMES);
        assert_eq!(groups.order.len(), groups.groups.len());
        assert_eq!(groups.get(all[299].hash()), Some(&all[299]));
        assert_eq!(groups.get(all[0].hash()), Some(&all[0]), "it was registered again and again");
        assert_eq!(groups.get(all[1].hash()), None);
    }
}
