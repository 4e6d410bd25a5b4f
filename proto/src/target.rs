//! What one plan is for.

use crate::{GroupHash, SizeClass};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Broadcasts of one size class from one root over one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    pub group: GroupHash,
    /// The root's index in the group.
    pub root: u16,
    pub class: SizeClass,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.root, self.class)
    }
}
