//! Plans by what programs' own broadcasts show of links that the survey has not come to: where programs leave no room
//! for it, that is all there is. The first plan is one by links as they were hours ago, by latencies, or where there
//! was not even room to measure these, by the configured sites. Of links that nobody has seen the best is assumed, so
//! that they are tried where they could be of use; a plan takes the place of the one in use as after a change of the
//! network.

use super::adapt::Adaptation;
use super::foresee::MOST_NODES;
use super::{Running, Schedule};
use crate::change::sightings::{Sighting, Sightings, SiteLink};
use crate::measurement::Seconds;
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use arborcast_proto::{DeliveryReport, GroupHash, Plan, Target};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

/// A rate that differs by less from what was assumed changes nothing.
const ANOTHER_RATE: f64 = 1.1;
/// Programs try at most so many plans for a target in this way, some of which will turn out slower.
const MOST_PLANS: u32 = 12;

/// In shorter pauses TCP keeps at least a part of its windows.
const LONG_PAUSE_S: Seconds = 1.0;

/// A program whose nodes' latencies could not be measured for so long leaves no room.
const NO_ROOM: Duration = Duration::from_secs(10);
/// A plan is looked for again once native takes so many times as long: the first messages go into empty buffers.
const LONGER: f64 = 1.25;

/// What has been seen of the links of groups that are being surveyed, and by what broadcasts.
#[derive(Debug, Default)]
pub(super) struct Sighted {
    groups: HashMap<GroupHash, Seen>,
    targets: HashMap<Target, (Sightings, u32)>,
    /// For which a plan was looked for before anything was measured, and what native seemed to take then.
    unmeasured: HashMap<Target, Seconds>,
}

impl Sighted {
    /// Forgets what is known of other targets.
    pub fn keep(&mut self, targets: &HashSet<Target>) {
        self.targets.retain(|target, _| targets.contains(target));
        self.unmeasured.retain(|target, _| targets.contains(target));
        self.groups.retain(|group, _| targets.iter().any(|target| target.group == *group));
    }

    /// The group's links are known now, or nobody wants them.
    pub fn forget(&mut self, group: GroupHash) {
        self.groups.remove(&group);
        self.targets.retain(|target, _| target.group != group);
        self.unmeasured.retain(|target, _| target.group != group);
    }
}

/// Of the links of one group.
#[derive(Debug, Default, Clone)]
struct Seen {
    /// Of each node; a survey may find others than were configured.
    site_of: Vec<usize>,
    links: BTreeMap<SiteLink, Sighting>,
    /// What left sites, and came to them, at least.
    sites: HashMap<Parameter, f64>,
}

impl Seen {
    fn add(&mut self, told: &BTreeMap<SiteLink, Sighting>) {
        let mut sites: HashMap<Parameter, f64> = HashMap::new();
        for (&(from, to), &sighting) in told {
            let (Sighting::Rate(now) | Sighting::AtLeast(now)) = sighting;
            for site in [Parameter::Egress(from), Parameter::Ingress(to)] {
                *sites.entry(site).or_default() += now;
            }
            let before = self.links.get(&(from, to)).copied();
            // Who passes no more than that passes no less than it does now.
            let sighting = match before {
                Some(Sighting::Rate(before)) if sighting == Sighting::AtLeast(now) => {
                    Sighting::Rate(before.max(now))
                }
                _ => sighting,
            };
            self.links.insert((from, to), sighting);
        }
        for (site, rate) in sites {
            let most = self.sites.entry(site).or_default();
            *most = most.max(rate);
        }
    }

    /// A network with what was seen of it. A link of which nothing tells the directions apart is as fast in the other
    /// one as in that which was seen.
    fn correct(&self, assumed: &Network) -> Network {
        let mut network = assumed.clone();
        for (&(from, to), &sighting) in &self.links {
            let (link, back) =
                (Parameter::LinkRate { from, to }, Parameter::LinkRate { from: to, to: from });
            network = with(&network, link, sighting);
            if !self.links.contains_key(&(to, from)) && link.of(assumed) == back.of(assumed) {
                network = with(&network, back, sighting);
            }
        }
        let sites = self.sites.iter();
        sites.fold(network, |network, (&site, &rate)| with(&network, site, Sighting::AtLeast(rate)))
    }
}

fn with(network: &Network, parameter: Parameter, sighting: Sighting) -> Network {
    let value = match sighting {
        Sighting::Rate(rate) => rate,
        Sighting::AtLeast(rate) => rate.max(parameter.of(network)),
    };
    parameter.set(network, value)
}

/// Whether a link is faster or slower on another network by what matters.
fn differ(network: &Network, other: &Network) -> bool {
    let sites = network.sites().len();
    let links = (0..sites).flat_map(|from| (0..sites).map(move |to| (from, to)));
    links.filter(|(from, to)| from != to).any(|(from, to)| {
        let link = Parameter::LinkRate { from, to };
        (link.of(network) / link.of(other)).ln().abs() > ANOTHER_RATE.ln()
    })
}

impl Schedule {
    /// Takes in what a node saw of a broadcast where the links are not known.
    pub(super) fn note_sighting(&mut self, report: DeliveryReport) {
        let target = report.target;
        // Connections that begin anew tell of TCP more than of links, and so long pauses have room for a survey.
        let shown = self.wanted.iter().find(|wanted| wanted.target == target);
        let is_told = |running: &Running| {
            let config = running.search.config();
            let pause_s = shown.and_then(|wanted| wanted.pause_s).unwrap_or(config.pause_s);
            pause_s < LONG_PAUSE_S && config.nodes <= MOST_NODES
        };
        let Some(running) = self.running.get(&target).filter(|running| is_told(running)) else {
            return;
        };
        let Some(plan) = running.findings.plan().and_then(Plan::striping) else { return };
        let (sightings, _) = self.production.sighted.targets.entry(target).or_default();
        let native_s = running.search.config().native_in_use_s();
        let Some(along) = sightings.note(report, plan, native_s) else { return };
        let Some(assumed) = self.assumed_network(target) else { return };
        let links = along.links(&assumed, plan);
        let sighted = &mut self.production.sighted;
        let seen = sighted.groups.entry(target.group).or_default();
        let site_of: Vec<usize> = assumed.nodes().iter().map(|node| node.site).collect();
        if seen.site_of != site_of {
            *seen = Seen { site_of, ..Seen::default() };
        }
        let before = seen.correct(&assumed);
        seen.add(&links);
        let network = seen.correct(&assumed);
        let (_, plans) = sighted.targets.entry(target).or_default();
        let Some(running) = self.running.get_mut(&target) else { return };
        let mut findings = Vec::new();
        if *plans < MOST_PLANS && differ(&before, &network) {
            findings = running.findings.on_sight(running.search.on(&network), &network);
            *plans += u32::from(findings.len() > 1);
        }
        if findings.len() < 2 {
            // What the plan in use should take is no news.
            let fallen = |took_s| running.findings.on_production(&running.search, took_s);
            findings = Vec::from_iter(along.took_s().and_then(fallen));
        }
        if !findings.is_empty() {
            let what = format!("{} links have been seen in programs' broadcasts", links.len());
            self.production.tell([Adaptation::of(what, findings)]);
        }
    }

    /// Plans before the links are measured: by what they were when that was last known, or where a program has left no
    /// room even for latencies, by the configured sites.
    pub(super) fn foresee_unmeasured(&mut self, now: Instant) {
        for wanted in &self.wanted {
            let target = wanted.target;
            let Some(running) = self.running.get_mut(&target) else { continue };
            let Running { search, findings, since, .. } = running;
            let Some(native_s) = search.config().native_in_use_s() else { continue };
            let tried = self.production.sighted.unmeasured.get(&target);
            let is_open = search.knowledge().network.is_none()
                && findings.plan().is_none()
                && tried.is_none_or(|before_s| native_s > LONGER * before_s);
            if !is_open {
                continue;
            }
            let old = self.known.among(&wanted.group, |_| true);
            let old = old.and_then(|known| known.knowledge.network);
            let has_no_room = now.saturating_duration_since(*since) >= NO_ROOM
                && search.assumed_network().is_none();
            if old.is_none() && !has_no_room {
                continue;
            }
            self.production.sighted.unmeasured.insert(target, native_s);
            if let Some(finding) = findings.unmeasured(search, old.as_ref()) {
                let by =
                    if old.is_some() { "the links as they were" } else { "the configured sites" };
                let what = format!("nothing has been measured yet: a plan by {by}");
                self.production.tell([Adaptation::of(what, vec![finding])]);
                return;
            }
        }
    }

    /// Of a target's group, while its links are not known: as they were, as far as the survey has come, or by sites.
    fn assumed_network(&self, target: Target) -> Option<Network> {
        let Running { search, findings, .. } = self.running.get(&target)?;
        let old = self.known.among(&findings.group, |_| true);
        let of_group = self.running.iter().filter(|(other, _)| other.group == target.group);
        let mut surveyed = of_group.filter_map(|(_, other)| other.search.assumed_network());
        old.and_then(|known| known.knowledge.network)
            .or_else(|| search.assumed_network())
            .or_else(|| surveyed.next())
            .or_else(|| search.network_of_sites())
    }
}

#[cfg(test)]
mod tests;
