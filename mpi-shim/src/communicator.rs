//! What is known of an application's communicator: whether its broadcasts are ours to carry, and
//! everything needed for it.
//!
//! Made collectively at one of the communicator's first broadcasts, from data that all ranks exchange, so
//! that all reach the same verdict. It is kept as an attribute of the communicator and goes with it.

use crate::agreement::Agreement;
use crate::daemon;
use crate::engine::{Channel, Engine};
use crate::header;
use crate::plan_cache::PlanCache;
use crate::raw::{Comm, MpiError, check};
use crate::sampling::Sampling;
use crate::settings::{say, settings, tell};
use crate::shortcut;
use arborcast_proto::{Group, GroupHash, NodeName};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Setting up takes several collective calls, over a wide area as long as a few short broadcasts. So a
/// communicator is set up at its first broadcast of so many bytes, or after so many shorter ones:
/// programs that make a communicator for a single broadcast don't pay for it.
const LONG_BYTES: u64 = 64 << 10;
const SHORT_ONES: u32 = 3;

/// An application's communicator.
pub enum Communicator {
    /// Not set up yet, after so many short broadcasts, which were the MPI's own.
    Young(u32),
    /// Broadcasts are the MPI's own, for ever.
    Native,
    Managed(Box<Managed>),
}

/// A communicator whose broadcasts may go along trees.
pub struct Managed {
    pub channel: Channel,
    /// The ranks of this node, where any node has more than one.
    pub node_ranks: Option<Comm>,
    pub group: Group,
    pub group_hash: GroupHash,
    pub node_of_rank: Vec<u16>,
    pub own_rank: usize,
    /// Counts the broadcasts that carry a header.
    pub sequence: u32,
    pub agreement: Agreement,
    pub plans: PlanCache,
    pub sampling: Sampling,
    pub engine: Engine,
    /// A message as it travels, where it lies otherwise in the application's memory.
    pub packed: Vec<u8>,
}

/// What each rank tells all others.
struct Introduction {
    has_daemon: bool,
    /// A GPU runtime is loaded: buffers may be memory that the processor cannot touch.
    has_device: bool,
    node: NodeName,
}

impl Introduction {
    const BYTES: usize = 4 + NodeName::MAX_BYTES + 1;

    fn own() -> Self {
        let from_daemon = daemon::with_link(|link| link.board().identity().node.clone());
        let host = || {
            let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
            NodeName::new(name).ok()
        };
        let has_daemon = from_daemon.is_some();
        let node = from_daemon.or_else(host).or_else(|| NodeName::new("unnamed").ok());
        Introduction {
            has_daemon: has_daemon && node.is_some(),
            has_device: crate::device::runtime_is_loaded(),
            node: node.unwrap_or_else(|| unreachable!("a constant name is valid")),
        }
    }

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Ranks of another byte order read our headers wrongly; they see another number here.
        bytes[..2].copy_from_slice(&u16::from(header::VERSION).to_ne_bytes());
        bytes[2] = u8::from(self.has_daemon);
        bytes[3] = u8::from(self.has_device);
        let name = self.node.as_str().as_bytes();
        bytes[4..4 + name.len()].copy_from_slice(name);
        bytes
    }

    /// `None` from a rank of another version.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let name = bytes[4..].split(|&byte| byte == 0).next()?;
        let same_version = bytes[..2] == u16::from(header::VERSION).to_ne_bytes();
        same_version.then_some(())?;
        Some(Introduction {
            has_daemon: bytes[2] != 0,
            has_device: bytes[3] != 0,
            node: NodeName::new(String::from_utf8(name.to_vec()).ok()?).ok()?,
        })
    }
}

/// Why a communicator stays native. The same on all its ranks.
fn verdict(ranks: &[Option<Introduction>]) -> Result<Group, String> {
    let Some(known) = ranks.iter().map(Option::as_ref).collect::<Option<Vec<_>>>() else {
        return Err("its ranks use different versions of Arborcast".into());
    };
    let mut names: Vec<_> = known.iter().map(|rank| rank.node.clone()).collect();
    names.sort();
    names.dedup();
    if names.len() < 2 {
        return Err("all its ranks are on one node".into());
    }
    if let Some(rank) = known.iter().find(|rank| !rank.has_daemon) {
        return Err(format!("node {} has no daemon", rank.node));
    }
    if let Some(rank) = known.iter().find(|rank| rank.has_device) {
        return Err(format!("node {} uses a GPU runtime", rank.node));
    }
    Group::new(names).map_err(|error| error.to_string())
}

impl Communicator {
    /// Collective over `comm`.
    fn set_up(comm: Comm) -> Result<Self, MpiError> {
        let mut inter = 0;
        // SAFETY: writes one int.
        check(unsafe { ffi::PMPI_Comm_test_inter(comm.0, &mut inter) })?;
        if inter != 0 || comm.size()? < 2 {
            return Ok(Communicator::Native);
        }
        let all = comm.all_gather(&Introduction::own().encode())?;
        let ranks: Vec<_> =
            all.chunks_exact(Introduction::BYTES).map(Introduction::decode).collect();
        let own_rank = comm.rank()?;
        let group = match verdict(&ranks) {
            Ok(group) => group,
            Err(reason) => {
                if own_rank == 0 {
                    say(|| {
                        format!("a communicator of {} ranks stays native: {reason}", ranks.len())
                    });
                    tell_once(&reason);
                }
                return Ok(Communicator::Native);
            }
        };
        let node_of_rank: Vec<u16> = ranks
            .iter()
            .flatten()
            .filter_map(|rank| group.index_of(&rank.node))
            .map(|node| node as u16)
            .collect();
        let mut leaders = vec![-1; group.len()];
        for (rank, &node) in node_of_rank.iter().enumerate().rev() {
            leaders[usize::from(node)] = rank as c_int;
        }
        let shares_nodes = node_of_rank.len() > group.len();
        let own_node = usize::from(node_of_rank[own_rank]);
        let node_ranks = shares_nodes.then(|| comm.split(own_node)).transpose()?;
        if own_rank == 0 {
            say(|| format!("a communicator of {} ranks on {} nodes", ranks.len(), group.len()));
        }
        Ok(Communicator::Managed(Box::new(Managed {
            channel: Channel::new(comm.duplicate()?, leaders)?,
            node_ranks,
            group_hash: group.hash(),
            group,
            node_of_rank,
            own_rank,
            sequence: 0,
            agreement: Agreement::default(),
            plans: PlanCache::default(),
            sampling: Sampling::default(),
            engine: Engine::default(),
            packed: Vec::new(),
        })))
    }

    /// What is known of `comm`, which is to broadcast `total_bytes`; found out now, collectively, if it is
    /// time. That depends only on what is the same on all ranks.
    ///
    /// # Errors
    /// Where MPI reports one.
    ///
    /// # Safety
    /// No other thread may use the result at the same time; MPI demands the same of two collective
    /// calls on one communicator.
    pub unsafe fn of<'a>(comm: Comm, total_bytes: u64) -> Result<&'a mut Communicator, MpiError> {
        let key = keyval()?;
        let mut value: *mut Communicator = std::ptr::null_mut();
        let mut found = 0;
        // SAFETY: under this key only pointers from `Box::into_raw` below are stored; they live
        // until the communicator is freed, which the caller's broadcast on it precludes.
        let communicator = unsafe {
            check(ffi::PMPI_Comm_get_attr(comm.0, key, (&raw mut value).cast(), &mut found))?;
            if found == 0 {
                value = Box::into_raw(Box::new(Communicator::Young(0)));
                check(ffi::PMPI_Comm_set_attr(comm.0, key, value.cast()))?;
            }
            &mut *value
        };
        if let Communicator::Young(short_ones) = communicator {
            if total_bytes < LONG_BYTES && *short_ones < SHORT_ONES {
                *short_ones += 1;
            } else {
                *communicator = Communicator::set_up(comm)?;
            }
        }
        Ok(communicator)
    }
}

/// The attribute key, made at first use.
fn keyval() -> Result<c_int, MpiError> {
    static KEY: OnceLock<Result<c_int, MpiError>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        let mut finalising_key = 0;
        let nothing = std::ptr::null_mut();
        // SAFETY: the callbacks have the signatures that MPI asks for and live for ever.
        unsafe {
            let (copy, delete) = (Some(do_not_copy as _), Some(free_attribute as _));
            check(ffi::PMPI_Comm_create_keyval(copy, delete, &mut key, nothing))?;
            let delete = Some(note_finalising as _);
            check(ffi::PMPI_Comm_create_keyval(copy, delete, &mut finalising_key, nothing))?;
            check(ffi::PMPI_Comm_set_attr(ffi::RSMPI_COMM_SELF, finalising_key, nothing))?;
        }
        Ok(key)
    })
}

/// MPI_Finalize has begun: communicators go by themselves, and may not be freed any more.
static FINALISING: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn note_finalising(
    _: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    FINALISING.store(true, Ordering::Relaxed);
    ffi::MPI_SUCCESS as c_int
}

/// A duplicate of a communicator starts anew.
unsafe extern "C" fn do_not_copy(
    _: ffi::MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI passes the address of its flag.
    unsafe { *flag = 0 };
    ffi::MPI_SUCCESS as c_int
}

unsafe extern "C" fn free_attribute(
    _: ffi::MPI_Comm,
    _: c_int,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    shortcut::forget_all();
    // SAFETY: stored by `Communicator::of`, and deleted once.
    let communicator = unsafe { Box::from_raw(value.cast::<Communicator>()) };
    if let Communicator::Managed(managed) = *communicator
        && !FINALISING.load(Ordering::Relaxed)
    {
        managed.channel.comm().free();
        if let Some(node_ranks) = managed.node_ranks {
            node_ranks.free();
        }
    }
    ffi::MPI_SUCCESS as c_int
}

/// Loading this library asks for managed broadcasts, so the user hears once, from one rank, why
/// there are none, where something can be done about it.
fn tell_once(reason: &str) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let can_be_mended = !reason.contains("on one node");
    if can_be_mended && !TOLD.swap(true, Ordering::Relaxed) && !settings().verbose {
        tell(&format!("broadcasts are the MPI's own: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(node: &str, has_daemon: bool) -> Option<Introduction> {
        let node = NodeName::new(node).unwrap();
        Some(Introduction { has_daemon, has_device: false, node })
    }

    #[test]
    fn an_introduction_survives_the_exchange() {
        let bytes = rank(&"n".repeat(63), true).unwrap().encode();
        let read = Introduction::decode(&bytes).unwrap();
        assert_eq!((read.node.as_str().len(), read.has_daemon, read.has_device), (63, true, false));
        let mut other_version = bytes;
        other_version[0] ^= 0x7f;
        assert!(Introduction::decode(&other_version).is_none());
    }

    #[test]
    fn only_a_group_of_daemons_is_managed() {
        let group = verdict(&[rank("b", true), rank("a", true), rank("b", true)]).unwrap();
        assert_eq!(group.len(), 2);
        assert!(verdict(&[rank("a", true), rank("b", false)]).unwrap_err().contains("no daemon"));
        assert!(verdict(&[rank("a", true), rank("a", true)]).unwrap_err().contains("one node"));
        assert!(verdict(&[rank("a", true), None]).unwrap_err().contains("versions"));
    }
}
