//! How an operator names a target: `ROOT`, `ROOT/SIZE` or `GROUP/ROOT/SIZE`. ROOT is a node's name
//! or index, SIZE a message size or class (`1MiB`, `≤1MiB`, `65536`), GROUP the first digits of a
//! group's hash. What is left out matches all.

use arborcast_proto::message::TargetStatus;
use arborcast_proto::{NodeName, SizeClass};
use std::str::FromStr;

/// A pattern of targets.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetName {
    text: String,
    group: Option<String>,
    root: String,
    class: Option<SizeClass>,
}

/// Why a name does not name a target.
#[derive(Debug, thiserror::Error)]
pub enum NoSuchTarget {
    #[error("no target {0}; see `arborcast targets`")]
    None(String),
    #[error("{name} may be any of {candidates}; say which")]
    Several { name: String, candidates: String },
}

impl FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let (group, root, size) = match parts[..] {
            [root] => (None, root, None),
            [root, size] => (None, root, Some(size)),
            [group, root, size] => (Some(group), root, Some(size)),
            _ => return Err("a target is ROOT, ROOT/SIZE or GROUP/ROOT/SIZE".into()),
        };
        let class = size.map(parse_size).transpose()?.map(SizeClass::of);
        Ok(TargetName { text: text.into(), group: group.map(Into::into), root: root.into(), class })
    }
}

/// `1MiB`, `≤1 MiB`, `64k`, `65536`: units are powers of two, as size classes are.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let number = text.trim_start_matches('≤').trim();
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    let (count, unit) = number.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(format!("{text:?} is no size such as 64KiB or 1MiB")),
    };
    let count: u64 =
        count.parse().map_err(|_| format!("{text:?} is no size such as 64KiB or 1MiB"))?;
    count.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is too large"))
}

impl TargetName {
    fn matches(&self, status: &TargetStatus) -> bool {
        let target = status.target;
        let group = target.group.to_string();
        let root = status.group.nodes().get(usize::from(target.root)).map(NodeName::as_str);
        self.group.as_ref().is_none_or(|prefix| group.starts_with(prefix.as_str()))
            && (root == Some(&self.root) || self.root == target.root.to_string())
            && self.class.is_none_or(|class| class == target.class)
    }

    /// The targets that match.
    ///
    /// # Errors
    /// `None` where none does.
    pub fn all<'a>(
        &self,
        targets: &'a [TargetStatus],
    ) -> Result<Vec<&'a TargetStatus>, NoSuchTarget> {
        let found: Vec<_> = targets.iter().filter(|status| self.matches(status)).collect();
        if found.is_empty() { Err(NoSuchTarget::None(self.text.clone())) } else { Ok(found) }
    }

    /// The one target that matches.
    ///
    /// # Errors
    /// Where none does, or several do.
    pub fn only<'a>(&self, targets: &'a [TargetStatus]) -> Result<&'a TargetStatus, NoSuchTarget> {
        let found = self.all(targets)?;
        match found[..] {
            [one] => Ok(one),
            _ => {
                let candidates: Vec<String> =
                    found.iter().map(|status| full_name(status)).collect();
                Err(NoSuchTarget::Several {
                    name: self.text.clone(),
                    candidates: candidates.join(", "),
                })
            }
        }
    }
}

/// A name that only this target has.
pub fn full_name(status: &TargetStatus) -> String {
    format!("{}/{}/{}", status.target.group, root_name(status), status.target.class)
}

/// The root by its node's name.
pub fn root_name(status: &TargetStatus) -> String {
    let root = usize::from(status.target.root);
    status.group.nodes().get(root).map_or_else(|| root.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::{Group, Target};

    fn targets() -> Vec<TargetStatus> {
        let names = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        let group = Group::new(names.to_vec()).unwrap();
        let status = |root, bytes| TargetStatus {
            target: Target { group: group.hash(), root, class: SizeClass::of(bytes) },
            group: group.clone(),
            demand: None,
            finding: None,
            in_use: None,
        };
        vec![status(0, 1), status(0, 1 << 20), status(1, 1)]
    }

    #[test]
    fn targets_are_named_as_shortly_as_is_clear() {
        let targets = targets();
        let count = |name: &str| name.parse::<TargetName>().unwrap().all(&targets).unwrap().len();
        assert_eq!((count("a"), count("0"), count("b"), count("a/1MiB")), (2, 2, 1, 1));
        assert_eq!((count("a/600000"), count("a/≤1KiB"), count("a/1024k")), (1, 1, 1));
        for target in &targets {
            let name: TargetName = full_name(target).parse().unwrap();
            assert_eq!(name.only(&targets).unwrap(), target);
        }
    }

    #[test]
    fn a_name_that_is_not_clear_is_told_the_choices() {
        let targets = targets();
        let error = "a".parse::<TargetName>().unwrap().only(&targets).unwrap_err().to_string();
        assert!(error.contains("/a/≤1KiB") && error.contains("/a/≤1MiB"), "{error}");
        assert!("c".parse::<TargetName>().unwrap().all(&targets).is_err());
        for bad in ["a/b/c/d", "a/x", "a/1XB", "a/99999999999999TiB"] {
            assert!(bad.parse::<TargetName>().is_err(), "{bad}");
        }
    }
}
