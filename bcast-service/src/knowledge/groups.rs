//! Which nodes a group's hash stands for. Any client may register groups, so the number of names
//! is bounded: the group that was registered longest ago goes first.

use arborcast_proto::{Group, GroupHash};
use std::collections::{BTreeMap, HashMap};

/// About 20 MB of names.
const MAX_NAMES: usize = 1 << 18;

#[derive(Debug, Default)]
pub struct Groups {
    groups: HashMap<GroupHash, Registered>,
    /// By the number of the registration.
    order: BTreeMap<u64, GroupHash>,
    registrations: u64,
    names: usize,
}

#[derive(Debug)]
struct Registered {
    group: Group,
    /// The last registration.
    number: u64,
}

impl Groups {
    /// Where other nodes are known under the hash, those stand.
    pub fn register(&mut self, group: &Group) {
        let hash = group.hash();
        let known = self.remove(hash).unwrap_or_else(|| group.clone());
        self.insert(hash, known);
    }

    /// Whatever was known under the hash.
    pub fn replace(&mut self, group: &Group) {
        let hash = group.hash();
        self.remove(hash);
        self.insert(hash, group.clone());
    }

    pub fn get(&self, hash: GroupHash) -> Option<&Group> {
        self.groups.get(&hash).map(|registered| &registered.group)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.order.values().filter_map(|hash| self.get(*hash))
    }

    pub(super) fn insert(&mut self, hash: GroupHash, group: Group) {
        self.registrations += 1;
        self.names += group.len();
        self.order.insert(self.registrations, hash);
        self.groups.insert(hash, Registered { group, number: self.registrations });
        while self.names > MAX_NAMES {
            let Some((_, &oldest)) = self.order.first_key_value() else { return };
            self.remove(oldest);
        }
    }

    fn remove(&mut self, hash: GroupHash) -> Option<Group> {
        let Registered { group, number } = self.groups.remove(&hash)?;
        self.order.remove(&number);
        self.names -= group.len();
        Some(group)
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
