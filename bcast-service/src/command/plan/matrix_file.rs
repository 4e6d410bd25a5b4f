//! The links that `arborcast matrix --json` wrote, read again.

use super::PlanError;
use arborcast_proto::{Group, LinkMatrix, NodeName};
use serde::Deserialize;
use std::path::Path;

/// The links of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixFile {
    pub group: Group,
    pub links: LinkMatrix,
}

/// One of the answer's elements; see `json::matrix`.
#[derive(Deserialize)]
struct Element {
    nodes: Vec<NodeName>,
    one_way_latency_s: Vec<Vec<Option<f64>>>,
    bytes_per_s: Vec<Vec<Option<f64>>>,
}

impl MatrixFile {
    /// # Errors
    /// `Read` and `Form`; also where there are several groups and `group` does not begin one of them.
    pub fn read(path: &Path, group: Option<&str>) -> Result<Self, PlanError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| PlanError::Read { path: path.into(), source })?;
        Self::parse(&text, group).map_err(|reason| PlanError::Form { path: path.into(), reason })
    }

    fn parse(text: &str, group: Option<&str>) -> Result<Self, String> {
        let elements: Vec<Element> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let files: Result<Vec<MatrixFile>, String> =
            elements.into_iter().map(Element::read).collect();
        let mut files = files?;
        let wanted = group.unwrap_or("");
        files.retain(|file| file.group.hash().to_string().starts_with(wanted));
        match files.len() {
            1 => Ok(files.remove(0)),
            0 => Err(format!("it has no links of a group {wanted}")),
            _ => {
                let hashes: Vec<String> =
                    files.iter().map(|file| file.group.hash().to_string()).collect();
                Err(format!("it has several groups; say which with --group: {}", hashes.join(", ")))
            }
        }
    }

    /// The place of a node.
    ///
    /// # Errors
    /// `NoNode`.
    pub fn index_of(&self, name: &str) -> Result<usize, PlanError> {
        let found = self.group.nodes().iter().position(|node| node.as_str() == name);
        found.ok_or_else(|| {
            let nodes: Vec<&str> = self.group.nodes().iter().map(NodeName::as_str).collect();
            PlanError::NoNode { name: name.into(), nodes: nodes.join(", ") }
        })
    }

    /// Puts other numbers, latency and rate, in place of those for which `change` has some.
    ///
    /// # Errors
    /// What is wrong with the numbers.
    pub fn change(
        &mut self,
        change: impl Fn(usize, usize) -> Option<(f64, f64)>,
    ) -> Result<(), String> {
        let n = self.links.nodes();
        let cells = (0..n * n).map(|cell| (cell / n, cell % n));
        let numbers = cells.map(|(from, to)| {
            let as_is = || (self.links.latency_s(from, to), self.links.rate(from, to));
            change(from, to).unwrap_or_else(as_is)
        });
        let (latencies, rates) = numbers.unzip();
        self.links = LinkMatrix::new(n, latencies, rates).map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl Element {
    /// Nodes in the order of a group, whatever theirs is.
    fn read(self) -> Result<MatrixFile, String> {
        let group = Group::new(self.nodes.clone()).map_err(|error| error.to_string())?;
        let n = self.nodes.len();
        let is_square =
            |table: &[Vec<Option<f64>>]| table.len() == n && table.iter().all(|row| row.len() == n);
        if !is_square(&self.one_way_latency_s) || !is_square(&self.bytes_per_s) {
            return Err(format!("{n} nodes need tables of {n} × {n}"));
        }
        let places: Vec<usize> = group
            .nodes()
            .iter()
            .filter_map(|name| self.nodes.iter().position(|node| node == name))
            .collect();
        let ordered = |table: &[Vec<Option<f64>>], missing: f64| -> Vec<f64> {
            let cells = places.iter().flat_map(|&from| places.iter().map(move |&to| (from, to)));
            cells.map(|(from, to)| table[from][to].unwrap_or(missing)).collect()
        };
        // A rate that nothing limits is null; a latency that is missing is none, but on the diagonal.
        let latencies = ordered(&self.one_way_latency_s, f64::NAN);
        let rates = ordered(&self.bytes_per_s, f64::INFINITY);
        let links = LinkMatrix::new(n, latencies, rates).map_err(|error| error.to_string())?;
        Ok(MatrixFile { group, links })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::json;

    fn file() -> MatrixFile {
        let names = ["b", "a", "c"].map(|name| NodeName::new(name).unwrap());
        let latencies = vec![0.0, 0.01, 0.1 + 0.2, 0.02, 0.0, 1.0 / 3.0, 0.03, 0.04, 0.0];
        let mut rates: Vec<f64> = (1..=9).map(|i| 1e6 / f64::from(i)).collect();
        rates[1] = f64::INFINITY;
        let links = LinkMatrix::new(3, latencies, rates).unwrap();
        MatrixFile { group: Group::new(names.to_vec()).unwrap(), links }
    }

    /// Whether both have the same nodes and the same numbers, but for the diagonal.
    fn assert_same(a: &MatrixFile, b: &MatrixFile) {
        assert_eq!(a.group, b.group);
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            assert_eq!(a.links.latency_s(from, to), b.links.latency_s(from, to));
            assert_eq!(a.links.rate(from, to), b.links.rate(from, to));
        }
    }

    #[test]
    fn what_the_matrix_command_writes_is_read_again() {
        let file = file();
        let text = json::print(&serde_json::json!([json::matrix(&file.group, &file.links)]));
        assert_same(&MatrixFile::parse(&text, None).unwrap(), &file);
    }

    #[test]
    fn nodes_may_stand_in_any_order() {
        let text = r#"[{ "nodes": ["z", "y"], "one_way_latency_s": [[null, 0.1], [0.2, null]],
                         "bytes_per_s": [[null, 1.0], [2.0, null]] }]"#;
        let file = MatrixFile::parse(text, None).unwrap();
        assert_eq!(file.index_of("z").unwrap(), 1);
        assert_eq!((file.links.latency_s(1, 0), file.links.rate(1, 0)), (0.1, 1.0));
        assert!(matches!(file.index_of("x"), Err(PlanError::NoNode { .. })));
    }

    #[test]
    fn what_is_no_matrix_is_refused_with_the_reason() {
        let element = r#"{ "nodes": ["a", "b"], "one_way_latency_s": [[null, 0.1], [0.2, null]],
                           "bytes_per_s": [[null, 1.0], [2.0, null]] }"#;
        let other = element.replace("\"b\"", "\"c\"");
        for (text, group, reason) in [
            ("", None, "EOF"),
            ("[]", None, "no links"),
            (&format!("[{element}, {other}]"), None, "--group"),
            (&format!("[{element}]"), Some("zz"), "group zz"),
            (&format!("[{}]", element.replace("0.1", "null")), None, "latency"),
            (&format!("[{}]", element.replace("1.0", "-1.0")), None, "rate"),
            (&format!("[{}]", element.replace("[null, 1.0], ", "")), None, "2 × 2"),
            (&format!("[{}]", element.replace("\"b\"", "\"a\"")), None, "twice"),
        ] {
            let error = MatrixFile::parse(text, group).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
