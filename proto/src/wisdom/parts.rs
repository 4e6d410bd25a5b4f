//! Wisdom in pieces that fit into messages.

use super::Wisdom;
use crate::codec;
use serde::Serialize;

/// Parts of about `max_bytes` at most, which [`super::merge`] puts together again; an entry that is longer alone
/// is a part of its own. Groups come first, since trials are checked against them.
#[must_use]
pub fn parts(wisdom: Wisdom, max_bytes: usize) -> Vec<Wisdom> {
    let mut parts = Parts { done: Vec::new(), open: Wisdom::default(), bytes: 0, max_bytes };
    for group in wisdom.groups {
        parts.room_for(&group).groups.push(group);
    }
    for links in wisdom.matrices {
        parts.room_for(&links).matrices.push(links);
    }
    for plan in wisdom.plans {
        parts.room_for(&plan).plans.push(plan);
    }
    for trial in wisdom.trials {
        parts.room_for(&trial).trials.push(trial);
    }
    parts.done.push(parts.open);
    parts.done
}

struct Parts {
    done: Vec<Wisdom>,
    open: Wisdom,
    bytes: usize,
    max_bytes: usize,
}

impl Parts {
    fn room_for(&mut self, entry: &impl Serialize) -> &mut Wisdom {
        let bytes = codec::encode(entry).map_or(usize::MAX, |bytes| bytes.len());
        if self.bytes > 0 && self.bytes.saturating_add(bytes) > self.max_bytes {
            self.done.push(std::mem::take(&mut self.open));
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        &mut self.open
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge;
    use super::*;
    use crate::{Group, NodeName};

    #[test]
    fn parts_are_small_and_together_the_whole() {
        let group = |i| Group::new(vec![NodeName::new(format!("n{i}")).unwrap()]).unwrap();
        let mut groups: Vec<Group> = (0..100).map(group).collect();
        groups.sort_by_key(Group::hash);
        let whole = Wisdom { groups, ..Wisdom::default() };
        let parts = parts(whole.clone(), 200);
        assert!(parts.len() > 5);
        assert!(parts.iter().all(|part| part.to_bytes().unwrap().len() < 300));
        assert_eq!(parts.into_iter().reduce(merge), Some(whole));
    }
}
