//! What the job has told a rank's daemon, to be told once more to one that has come back: it may have been gone
//! when a plan was found, or have been killed before it had saved it.

use crate::model::network::Network;
use arborcast_proto::codec;
use arborcast_proto::message::{Ask, Finding};
use arborcast_proto::{Group, GroupHash, Target};
use std::collections::VecDeque;
use std::mem::discriminant;

/// Those that were told last; a rank's memory is for messages.
const FINDINGS: usize = 512;
const LINKS: usize = 32;
/// A table of the links of all pairs is told to operators up to this number of nodes.
const LINKS_TOLD_UP_TO: usize = 512;

/// What a daemon is to be told of the network of a group: for operators, and to plan by.
pub fn of_network(group: &Group, network: &Network) -> Vec<Ask> {
    let is_told = network.len() <= LINKS_TOLD_UP_TO;
    let links = is_told.then(|| Ask::Links(group.clone(), network.to_links()));
    let network = codec::encode(network).ok().map(|bytes| Ask::Network(group.clone(), bytes));
    links.into_iter().chain(network).collect()
}

/// The last news of each target's plans, each of which such a daemon may have in use still, and each group's links.
#[derive(Debug, Default)]
pub struct Kept {
    findings: VecDeque<(Target, Box<Finding>)>,
    links: VecDeque<(GroupHash, Ask)>,
}

impl Kept {
    /// To be called with all that a daemon is told.
    pub fn note(&mut self, ask: &Ask) {
        match ask {
            Ask::Publish(finding) => {
                let target = finding.target();
                // What is only expected of a plan takes no other's place: a daemon that has lost everything has to hear
                // first what was measured of it.
                let is_measured = finding.times.is_measured();
                self.findings.retain(|(other, of)| {
                    let is_of_plan = *other == target && of.plan == finding.plan;
                    !is_of_plan || of.times.is_measured() && !is_measured
                });
                self.findings.push_back((target, finding.clone()));
                keep_last(&mut self.findings, FINDINGS);
            }
            Ask::Links(group, _) | Ask::Network(group, _) => {
                let hash = group.hash();
                let is_old = |(of, other): &(GroupHash, Ask)| {
                    *of == hash && discriminant(other) == discriminant(ask)
                };
                self.links.retain(|other| !is_old(other));
                self.links.push_back((hash, ask.clone()));
                keep_last(&mut self.links, LINKS);
            }
            _ => {}
        }
    }

    /// In the order in which it was told.
    pub fn again(&self) -> impl Iterator<Item = Ask> + '_ {
        let links = self.links.iter().map(|(_, ask)| ask.clone());
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
    use arborcast_proto::{NodeName, Plan, Tree};

    fn finding(root: u16, plan: Plan, median_s: f64) -> Finding {
        let names = (0..1000).map(|i| NodeName::new(format!("n{i:04}")).unwrap());
        Finding {
            group: Group::new(names.collect()).unwrap(),
            root,
            bytes: 1,
            plan,
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
    fn what_was_measured_of_a_plan_is_told_before_what_is_expected_of_it() {
        let tree = Plan::single(Tree::flat(1000, 0).unwrap(), 1024).unwrap();
        let measured = |plan: &Plan, median_s| {
            let times = Times::of(&[median_s]).unwrap();
            Finding { times, ..finding(0, plan.clone(), median_s) }
        };
        let mut kept = Kept::default();
        let mut tell = |finding: &Finding| kept.note(&Ask::Publish(Box::new(finding.clone())));
        let native = measured(&Plan::Native, 1.0);
        let (tree_measured, tree_expected) = (measured(&tree, 0.5), finding(0, tree.clone(), 0.8));
        for news in [&native, &tree_measured, &finding(0, tree, 0.7), &tree_expected] {
            tell(news);
        }
        let all = [native, tree_measured, tree_expected];
        assert!(kept.again().eq(all.map(|finding| Ask::Publish(Box::new(finding)))));
    }

    #[test]
    fn the_last_news_of_each_plan_are_told_again_in_order_and_not_too_many() {
        let (native, tree) =
            (Plan::Native, Plan::single(Tree::flat(1000, 0).unwrap(), 1024).unwrap());
        let mut kept = Kept::default();
        let mut tell = |finding: &Finding| kept.note(&Ask::Publish(Box::new(finding.clone())));
        let mut last = Vec::new();
        for root in 0..1000 {
            last.push(finding(root, native.clone(), 1.0));
            tell(&last[last.len() - 1]);
        }
        tell(&finding(0, tree.clone(), 0.5));
        let news = [finding(0, native, 0.8), finding(0, tree, 0.9)];
        news.iter().for_each(&mut tell);
        last.extend(news);
        kept.note(&Ask::Ring);
        let last = last.split_off(last.len() - FINDINGS);
        let last = last.into_iter().map(|finding| Ask::Publish(Box::new(finding)));
        assert!(kept.again().eq(last));
    }
}
