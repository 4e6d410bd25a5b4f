//! What is known of the links between the nodes of a group.

use serde::{Deserialize, Serialize};

/// Latency and rate of each ordered pair of nodes, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct LinkMatrix {
    nodes: usize,
    one_way_latency_s: Vec<f64>,
    bytes_per_s: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
struct Parts {
    nodes: usize,
    one_way_latency_s: Vec<f64>,
    bytes_per_s: Vec<f64>,
}

/// Why numbers are not a link matrix.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidMatrix {
    #[error("{0} nodes need {0} × {0} latencies and rates")]
    Shape(usize),
    #[error("from node {0} to node {1}: a latency is finite and not negative, a rate positive")]
    Value(usize, usize),
}

impl LinkMatrix {
    /// Both lists have `nodes × nodes` entries, row = sender, column = receiver. Latencies are one
    /// way, in seconds; rates in bytes per second, infinite where nothing is known to limit them.
    /// The diagonal is not looked at.
    ///
    /// # Errors
    /// Where a list has another length or a value is out of range.
    pub fn new(
        nodes: usize,
        one_way_latency_s: Vec<f64>,
        bytes_per_s: Vec<f64>,
    ) -> Result<Self, InvalidMatrix> {
        let cells = nodes.checked_mul(nodes).filter(|_| nodes <= crate::MAX_NODES);
        if cells != Some(one_way_latency_s.len()) || cells != Some(bytes_per_s.len()) {
            return Err(InvalidMatrix::Shape(nodes));
        }
        for from in 0..nodes {
            for to in (0..nodes).filter(|&to| to != from) {
                let cell = from * nodes + to;
                let (latency, rate) = (one_way_latency_s[cell], bytes_per_s[cell]);
                let rate_is_usable = rate > 0.0; // false for NaN
                if !latency.is_finite() || latency < 0.0 || !rate_is_usable {
                    return Err(InvalidMatrix::Value(from, to));
                }
            }
        }
        Ok(LinkMatrix { nodes, one_way_latency_s, bytes_per_s })
    }

    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Ordered pairs of nodes whose rate something is known to limit.
    pub fn known_rates(&self) -> usize {
        let pairs = (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to)));
        pairs.filter(|&(from, to)| from != to && self.rate(from, to).is_finite()).count()
    }

    /// Seconds from `from` to `to`, one way.
    pub fn latency_s(&self, from: usize, to: usize) -> f64 {
        self.one_way_latency_s[from * self.nodes + to]
    }

    /// Bytes per second that `from` can send to `to` when nothing else is sent.
    pub fn rate(&self, from: usize, to: usize) -> f64 {
        self.bytes_per_s[from * self.nodes + to]
    }
}

impl TryFrom<Parts> for LinkMatrix {
    type Error = InvalidMatrix;

    fn try_from(parts: Parts) -> Result<Self, InvalidMatrix> {
        LinkMatrix::new(parts.nodes, parts.one_way_latency_s, parts.bytes_per_s)
    }
}

impl From<LinkMatrix> for Parts {
    fn from(matrix: LinkMatrix) -> Self {
        Parts {
            nodes: matrix.nodes,
            one_way_latency_s: matrix.one_way_latency_s,
            bytes_per_s: matrix.bytes_per_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(LinkMatrix::new(2, vec![0.0; 3], vec![1.0; 4]), Err(InvalidMatrix::Shape(2)));
        let nan = vec![0.0, f64::NAN, 0.0, 0.0];
        assert_eq!(LinkMatrix::new(2, nan, vec![1.0; 4]), Err(InvalidMatrix::Value(0, 1)));
        assert_eq!(LinkMatrix::new(2, vec![0.0; 4], vec![0.0; 4]), Err(InvalidMatrix::Value(0, 1)));
        assert!(LinkMatrix::new(usize::MAX, vec![], vec![]).is_err());
        assert!(LinkMatrix::new(2, vec![0.0; 4], vec![f64::INFINITY; 4]).is_ok());
    }
}
