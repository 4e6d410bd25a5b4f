//! What broadcasts have shown of links between sites, and a network with it.

use crate::change::sightings::{Sighting, SiteLink};
use crate::model::network::Network;
use crate::model::parameter::Parameter;
use arborcast_proto::GroupHash;
use std::collections::{BTreeMap, HashMap};

/// A rate that differs by less from what was assumed changes nothing.
const ANOTHER_RATE: f64 = 1.1;
/// The sites that links are seen between.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sites {
    /// As they are configured, by the first rank of each: what one group's broadcasts show holds for all groups.
    Configured,
    /// As a group's survey has found them so far, by the site of each node.
    Found(GroupHash, Vec<usize>),
}

/// Where the sites of a group's network are among those that links are seen between.
pub struct Places {
    pub sites: Sites,
    /// Of each site of the network.
    pub of_site: Vec<usize>,
}

/// Of the links between some sites.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    links: BTreeMap<SiteLink, Sighting>,
    /// What left sites, and came to them, at least.
    sites: HashMap<Parameter, f64>,
}

impl Seen {
    pub fn add(&mut self, told: &BTreeMap<SiteLink, Sighting>, of_site: &[usize]) {
        let mut sites: HashMap<Parameter, f64> = HashMap::new();
        for (&(from, to), &sighting) in told {
            let (from, to) = (of_site[from], of_site[to]);
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

    /// A network with what was seen of it; `None` where nothing was. A link of which nothing tells the directions apart is
    /// as fast in the other one as in that which was seen.
    pub fn correct(&self, assumed: &Network, of_site: &[usize]) -> Option<Network> {
        let mut network = assumed.clone();
        let mut is_corrected = false;
        let count = of_site.len();
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        for (from, to) in pairs {
            let seen = |from, to| self.links.get(&(of_site[from], of_site[to]));
            let Some(&sighting) = seen(from, to) else { continue };
            is_corrected = true;
            let (link, back) =
                (Parameter::LinkRate { from, to }, Parameter::LinkRate { from: to, to: from });
            network = with(&network, link, sighting);
            if seen(to, from).is_none() && link.of(assumed) == back.of(assumed) {
                network = with(&network, back, sighting);
            }
        }
        for (site, &key) in of_site.iter().enumerate() {
            let pairs = [
                (Parameter::Egress(key), Parameter::Egress(site)),
                (Parameter::Ingress(key), Parameter::Ingress(site)),
            ];
            for (key, parameter) in pairs {
                if let Some(&rate) = self.sites.get(&key) {
                    network = with(&network, parameter, Sighting::AtLeast(rate));
                }
            }
        }
        is_corrected.then_some(network)
    }
}

fn with(network: &Network, parameter: Parameter, sighting: Sighting) -> Network {
    let value = match sighting {
        Sighting::Rate(rate) => rate,
        Sighting::AtLeast(rate) => rate.max(parameter.of(network)),
    };
    parameter.set(network, value)
}

/// Whether a link is faster or slower on another network of the same nodes by what matters, or the sites are others.
pub fn differ(network: &Network, other: &Network) -> bool {
    let sites = network.sites().len();
    if other.sites().len() != sites {
        return true;
    }
    let links = (0..sites).flat_map(|from| (0..sites).map(move |to| (from, to)));
    links.filter(|(from, to)| from != to).any(|(from, to)| {
        let link = Parameter::LinkRate { from, to };
        (link.of(network) / link.of(other)).ln().abs() > ANOTHER_RATE.ln()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grids;
    use crate::survey::of_sites;

    #[test]
    fn networks_of_other_sites_differ_and_links_by_what_matters() {
        let mesh = grids::four_site_mesh();
        let link = Parameter::LinkRate { from: 0, to: 1 };
        let times = |by: f64| link.set(&mesh, by * link.of(&mesh));
        assert!(!differ(&mesh, &times(1.05)) && differ(&mesh, &times(1.2)));
        let two = of_sites(&(0..16).map(|node| node / 8).collect::<Vec<_>>()).unwrap();
        assert!(differ(&mesh, &two) && differ(&two, &mesh));
    }

    #[test]
    fn what_was_seen_between_other_sites_changes_nothing() {
        let mesh = grids::four_site_mesh();
        let mut seen = Seen::default();
        seen.add(&BTreeMap::from([((0, 1), Sighting::Rate(1e6))]), &[4, 8]);
        assert!(seen.correct(&mesh, &[0, 1, 2, 3]).is_none());
        let corrected = seen.correct(&mesh, &[0, 4, 8, 12]).unwrap();
        for (from, to) in [(1, 2), (2, 1)] {
            assert_eq!(Parameter::LinkRate { from, to }.of(&corrected), 1e6, "{from} to {to}");
        }
    }
}
