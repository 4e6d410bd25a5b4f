//! One number of a [`Network`], to be changed alone.

use super::network::Network;

/// What can be told to have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// Bytes per second between two sites, or inside one, of all pairs of nodes together.
    LinkRate { from: usize, to: usize },
    /// Seconds one way.
    LinkLatency { from: usize, to: usize },
    /// Bytes per second out of a site.
    Egress(usize),
    /// Bytes per second into a site.
    Ingress(usize),
    /// Bytes per second that a node sends.
    Send(usize),
    /// Bytes per second that a node receives.
    Receive(usize),
}

impl Parameter {
    /// Whether it is the rate of a link between sites, not of what many links of a node or a site share.
    pub fn is_link_rate(self) -> bool {
        matches!(self, Parameter::LinkRate { .. })
    }

    /// # Panics
    /// Where the network has no such site or node; so do the others.
    pub fn of(self, network: &Network) -> f64 {
        match self {
            Parameter::LinkRate { from, to } => {
                let link = network.site_link(from, to);
                let pairs = network.sites_pairs(from, to);
                link.shared_rate.min(link.pair_rate * pairs as f64)
            }
            Parameter::LinkLatency { from, to } => network.site_link(from, to).latency_s,
            Parameter::Egress(site) => network.sites()[site].egress_rate,
            Parameter::Ingress(site) => network.sites()[site].ingress_rate,
            Parameter::Send(node) => network.nodes()[node].send_rate,
            Parameter::Receive(node) => network.nodes()[node].receive_rate,
        }
    }

    /// The network with another value here: a rate above 0, or a latency not below.
    #[must_use]
    pub fn set(self, network: &Network, value: f64) -> Network {
        let mut network = network.clone();
        match self {
            Parameter::LinkRate { from, to } => {
                let link = network.site_link_mut(from, to);
                link.shared_rate = value;
                link.pair_rate = link.pair_rate.min(value);
            }
            Parameter::LinkLatency { from, to } => {
                network.site_link_mut(from, to).latency_s = value;
            }
            Parameter::Egress(site) => network.site_mut(site).egress_rate = value,
            Parameter::Ingress(site) => network.site_mut(site).ingress_rate = value,
            Parameter::Send(node) => network.node_mut(node).send_rate = value,
            Parameter::Receive(node) => network.node_mut(node).receive_rate = value,
        }
        network
    }

    /// The network with what another of the same shape has here.
    #[must_use]
    pub fn restore(self, network: &Network, before: &Network) -> Network {
        match self {
            Parameter::LinkRate { from, to } => {
                let mut network = network.clone();
                let latency_s = network.site_link(from, to).latency_s;
                *network.site_link_mut(from, to) = *before.site_link(from, to);
                network.site_link_mut(from, to).latency_s = latency_s;
                network
            }
            _ => self.set(network, self.of(before)),
        }
    }

    pub fn is_rate(self) -> bool {
        !matches!(self, Parameter::LinkLatency { .. })
    }
}
