//! What the job has told a rank's daemon, to be told once more to one that has come back: it may have been gone
//! when a plan was found, or have been killed before it had saved it.

use arborcast_proto::message::{Ask, Finding};
use arborcast_proto::{Group, GroupHash, LinkMatrix, Target};
use std::collections::VecDeque;

/// Those that were told last; a rank's memory is for messages.
const FINDINGS: usize = 256;
const LINKS: usize = 16;

/// The last of each target's findings and each group's links.
#[derive(Debug, Default)]
pub struct Kept {
    findings: VecDeque<(Target, Box<Finding>)>,
    links: VecDeque<(GroupHash, Group, LinkMatrix)>,
}

impl Kept {
    /// To be called with all that a daemon is told.
    pub fn note(&mut self, ask: &Ask) {
        match ask {
            Ask::Publish(finding) => {
                let target = finding.target();
                self.findings.retain(|(other, _)| *other != target);
                self.findings.push_back((target, finding.clone()));
                keep_last(&mut self.findings, FINDINGS);
            }
            Ask::Links(group, links) => {
                let hash = group.hash();
                self.links.retain(|(other, ..)| *other != hash);
                self.links.push_back((hash, group.clone(), links.clone()));
                keep_last(&mut self.links, LINKS);
            }
            _ => {}
        }
    }

    /// In the order in which it was told.
    pub fn again(&self) -> impl Iterator<Item = Ask> + '_ {
        let links = self.links.iter();
        let links = links.map(|(_, group, links)| Ask::Links(group.clone(), links.clone()));
        links.chain(self.findings.iter().map(|(_, finding)| Ask::Publish(finding.clone())))
    }
}

fn keep_last<T>(kept: &mut VecDeque<T>, most: usize) {
    if kept.len() > most {
        kept.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::message::Times;
    use arborcast_proto::{NodeName, Plan};

    fn finding(root: u16, median_s: f64) -> Finding {
        let names = (0..1000).map(|i| NodeName::new(format!("n{i:04}")).unwrap());
        Finding {
            group: Group::new(names.collect()).unwrap(),
            root,
            bytes: 1,
            plan: Plan::Native,
            times: Times::predicted(median_s),
            native: None,
            limit_s: None,
            strategy: "test".into(),
            trials: 1,
            search_s: 0.0,
            reason: None,
        }
    }

    #[test]
    fn the_last_of_each_target_is_told_again_and_not_too_many() {
        let mut kept = Kept::default();
        for median_s in [2.0, 1.0] {
            for root in 0..1000 {
                kept.note(&Ask::Publish(Box::new(finding(root, median_s))));
            }
        }
        kept.note(&Ask::Publish(Box::new(finding(999, 0.5))));
        kept.note(&Ask::Ring);
        let again: Vec<Ask> = kept.again().collect();
        assert_eq!(again.len(), FINDINGS);
        assert_eq!(again[0], Ask::Publish(Box::new(finding(744, 1.0))));
        assert_eq!(again[FINDINGS - 1], Ask::Publish(Box::new(finding(999, 0.5))));
    }
}
