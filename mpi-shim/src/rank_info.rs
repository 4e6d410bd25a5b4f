//! What each rank tells all others of itself when a communicator is set up.

use crate::daemon;
use crate::header;
use crate::pmpi::{has_threads, world_is_usable};
use crate::settings::settings;
use arborcast_proto::NodeName;
use arborcast_proto::segment::{BoardView, PlannedRoots};

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankInfo {
    /// `ARBORCAST_DISABLE` is set.
    pub is_disabled: bool,
    pub has_daemon: bool,
    /// A GPU runtime is loaded: buffers may be memory that the processor cannot touch.
    pub has_device: bool,
    /// MPI was started by a session alone.
    pub has_no_world: bool,
    /// As many communicators carry messages as may.
    pub is_out_of_budget: bool,
    /// Several threads may be in MPI at once.
    pub has_threads: bool,
    /// The job may go on where it has lost ranks.
    pub outlives_ranks: bool,
    pub planned: PlannedRoots,
    pub node: NodeName,
}

/// Version and flags.
const FIXED_BYTES: usize = 4;
const NODE_AT: usize = FIXED_BYTES + PlannedRoots::BYTES;

impl RankInfo {
    pub const BYTES: usize = NODE_AT + NodeName::MAX_BYTES + 1;

    pub fn new(node: NodeName, planned: PlannedRoots) -> Self {
        RankInfo {
            is_disabled: false,
            has_daemon: false,
            has_device: false,
            has_no_world: false,
            is_out_of_budget: false,
            has_threads: false,
            outlives_ranks: false,
            planned,
            node,
        }
    }

    pub fn own(is_out_of_budget: bool) -> Self {
        let is_disabled = settings().disabled;
        let told = |board: &BoardView| (board.identity().node.clone(), board.planned_roots());
        let from_daemon = (!is_disabled).then(|| daemon::with_board(told)).flatten();
        let host = || {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            NodeName::new(name).ok()
        };
        let has_daemon = from_daemon.is_some();
        let (node, planned) = from_daemon.unzip();
        let node = node.or_else(host).or_else(|| NodeName::new("unnamed").ok());
        let node = node.unwrap_or_else(|| unreachable!("a constant name is valid"));
        RankInfo {
            is_disabled,
            has_daemon,
            has_device: crate::device::runtime_is_loaded(),
            has_no_world: !world_is_usable().unwrap_or(false),
            is_out_of_budget,
            has_threads: has_threads().unwrap_or(true),
            outlives_ranks: settings().outlives_ranks,
            ..RankInfo::new(node, planned.unwrap_or_default())
        }
    }

    fn flags(&mut self) -> [&mut bool; 7] {
        [
            &mut self.is_disabled,
            &mut self.has_daemon,
            &mut self.has_device,
            &mut self.has_no_world,
            &mut self.is_out_of_budget,
            &mut self.has_threads,
            &mut self.outlives_ranks,
        ]
    }

    pub fn encode(mut self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Ranks of another byte order read our headers wrongly; they see another number here.
        bytes[..2].copy_from_slice(&u16::from(header::VERSION).to_ne_bytes());
        for (bit, flag) in self.flags().into_iter().enumerate() {
            bytes[2] |= u8::from(*flag) << bit;
        }
        bytes[FIXED_BYTES..NODE_AT].copy_from_slice(&self.planned.to_bytes());
        let name = self.node.as_str().as_bytes();
        bytes[NODE_AT..NODE_AT + name.len()].copy_from_slice(name);
        bytes
    }

    /// `None` from a rank of another version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let name = bytes[NODE_AT..].split(|&byte| byte == 0).next()?;
        let same_version = bytes[..2] == u16::from(header::VERSION).to_ne_bytes();
        same_version.then_some(())?;
        let planned = PlannedRoots::from_bytes(bytes[FIXED_BYTES..NODE_AT].try_into().ok()?);
        let node = NodeName::new(String::from_utf8(name.to_vec()).ok()?).ok()?;
        let mut info = RankInfo::new(node, planned);
        for (bit, flag) in info.flags().into_iter().enumerate() {
            *flag = bytes[2] >> bit & 1 != 0;
        }
        Some(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::GroupHash;

    #[test]
    fn what_a_rank_says_survives_the_exchange() {
        for flag in 0..7 {
            let node = NodeName::new("n".repeat(63)).unwrap();
            let mut said = RankInfo::new(node, PlannedRoots::default());
            *said.flags()[flag] ^= true;
            said.planned.insert(GroupHash(7), flag as u16);
            let bytes = said.clone().encode();
            assert_eq!(RankInfo::decode(&bytes), Some(said));
            let mut other_version = bytes;
            other_version[0] ^= 0x7f;
            assert_eq!(RankInfo::decode(&other_version), None);
        }
    }
}
