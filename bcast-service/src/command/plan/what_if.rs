//! `--set A-B=200mbit,10ms`: links as they are not. Between two sites all pairs are changed, since they
//! are taken to share the link.

use super::PlanError;
use super::matrix_file::MatrixFile;
use std::fmt;
use std::str::FromStr;

/// All nodes of other sites.
const ALL: &str = "*";
/// A bit per second is an eighth of a byte.
const BITS_PER_BYTE: f64 = 8.0;

/// Other numbers for the links between two nodes, in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    text: String,
    /// `A-B`; names may have dashes too, so only the nodes tell where one ends.
    link: String,
    rate: Option<Rate>,
    latency_s: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rate {
    BytesPerS(f64),
    Factor(f64),
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// A positive number and its unit, `None` where that is none of `units`.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<f64>().ok().map(|number| number * factor).filter(|value| value.is_finite())
}

impl FromStr for WhatIf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str =
            "a change is A-B=200mbit, A-B=20ms, A-B=x2 or several of them: A-B=200mbit,20ms";
        let (link, values) = text.split_once('=').ok_or(FORM)?;
        let mut change =
            WhatIf { text: text.into(), link: link.into(), rate: None, latency_s: None };
        for value in values.split(',') {
            let lower = value.to_ascii_lowercase();
            let bits = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
            let times = [("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
            if let Some(bits) = quantity(&lower, &bits).filter(|bits| *bits > 0.0) {
                change.rate = Some(Rate::BytesPerS(bits / BITS_PER_BYTE));
            } else if let Some(seconds) = quantity(&lower, &times) {
                change.latency_s = Some(seconds);
            } else if let Some(factor) =
                lower.strip_prefix('x').and_then(|f| quantity(f, &[("", 1.0)])).filter(|f| *f > 0.0)
            {
                change.rate = Some(Rate::Factor(factor));
            } else {
                return Err(format!("{value:?}: {FORM}"));
            }
        }
        Ok(change)
    }
}

impl WhatIf {
    /// Changes the links; `site_of` has the site of each node.
    ///
    /// # Errors
    /// `Change` where A or B is no node, or it is not clear where A ends.
    pub(super) fn apply(&self, file: &mut MatrixFile, site_of: &[usize]) -> Result<(), PlanError> {
        let error = |reason: String| PlanError::Change { change: self.text.clone(), reason };
        let (a, b) = self.ends(file).map_err(error)?;
        let is_meant = |from: usize, to: usize| match b {
            _ if from == to => false,
            None => site_of[from] == site_of[a] && site_of[to] != site_of[a],
            // Inside a site nothing is shared.
            Some(b) if site_of[a] == site_of[b] => (from, to) == (a, b),
            Some(b) => site_of[from] == site_of[a] && site_of[to] == site_of[b],
        };
        let links = file.links.clone();
        let other = |from: usize, to: usize| {
            let was = links.rate(from, to);
            let rate = match self.rate {
                Some(Rate::BytesPerS(rate)) => rate,
                Some(Rate::Factor(factor)) => was * factor,
                None => was,
            };
            (self.latency_s.unwrap_or(links.latency_s(from, to)), rate)
        };
        let change = |from, to| (is_meant(from, to) || is_meant(to, from)).then(|| other(from, to));
        file.change(change).map_err(error)
    }

    /// The nodes on both ends; `None` for all of other sites.
    fn ends(&self, file: &MatrixFile) -> Result<(usize, Option<usize>), String> {
        let mut found = Vec::new();
        for (at, _) in self.link.match_indices('-') {
            let (a, b) = (&self.link[..at], &self.link[at + 1..]);
            let (Ok(a), other) = (file.index_of(a), file.index_of(b).ok()) else { continue };
            if other.is_some() && other != Some(a) || b == ALL {
                found.push((a, other));
            }
        }
        match found[..] {
            [one] => Ok(one),
            [] => Err("A and B are nodes of the matrix that are not the same; B may be * for all other sites".into()),
            _ => Err("it is not clear where the name of A ends".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{Group, LinkMatrix, NodeName};

    /// a, a-1 and c, c-1 in two sites.
    fn file() -> (MatrixFile, Vec<usize>) {
        let names = ["a", "a-1", "c", "c-1"].map(|name| NodeName::new(name).unwrap());
        let links = LinkMatrix::new(4, vec![0.01; 16], vec![1e6; 16]).unwrap();
        (MatrixFile { group: Group::new(names.to_vec()).unwrap(), links }, vec![0, 0, 1, 1])
    }

    /// The pairs whose numbers are others after the change, and those numbers.
    fn changed(text: &str) -> Result<Vec<(usize, usize, f64, f64)>, String> {
        let (mut file, site_of) = file();
        let before = file.links.clone();
        text.parse::<WhatIf>()?.apply(&mut file, &site_of).map_err(|error| error.to_string())?;
        let pairs = (0..16).map(|cell| (cell / 4, cell % 4));
        let numbers = |links: &LinkMatrix, (a, b)| (links.latency_s(a, b), links.rate(a, b));
        let others = pairs.filter(|&pair| numbers(&before, pair) != numbers(&file.links, pair));
        Ok(others.map(|(a, b)| (a, b, file.links.latency_s(a, b), file.links.rate(a, b))).collect())
    }

    #[test]
    fn a_link_between_sites_changes_for_all_pairs_and_in_both_directions() {
        let all = changed("a-c-1=200mbit,20ms").unwrap();
        assert_eq!(all.len(), 8);
        assert!(all.iter().all(|&(a, b, latency_s, rate)| {
            (a < 2) != (b < 2) && latency_s == 20.0 * 1e-3 && rate == 25e6
        }));
        assert_eq!(changed("a-1-*=x2").unwrap().len(), 8);
        assert_eq!(changed("a-a-1=2.5ms").unwrap().len(), 2, "inside a site it is that pair alone");
        assert_eq!(changed("c-a=x0.5").unwrap()[0].3, 0.5e6);
        assert_eq!(changed("c-a=0s").unwrap()[0].2, 0.0);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "a-c",
            "a-c=",
            "a-c=fast",
            "a-c=0mbit",
            "a-c=x0",
            "a-c=-3ms",
            "a-x=1mbit",
            "a-a=1mbit",
            "*-a=1mbit",
        ] {
            assert!(changed(text).is_err(), "{text}");
        }
        let (mut file, site_of) = file();
        let names = ["a", "a-b", "b", "b-b"].map(|name| NodeName::new(name).unwrap());
        file.group = Group::new(names.to_vec()).unwrap();
        let error = "a-b-b=x2".parse::<WhatIf>().unwrap().apply(&mut file, &site_of).unwrap_err();
        assert!(error.to_string().contains("not clear"), "{error}");
    }
}
