//! Messages between the ranks of the job, on a communicator of their own.

use arborcast_proto::codec;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use serde::{Serialize, de::DeserializeOwned};

const MESSAGE: i32 = 1;
/// No content: a rank of the running broadcast asks its root to give it up.
const GIVE_UP: i32 = 2;

/// A rank's end of the job's correspondence.
pub struct Post {
    comm: SimpleCommunicator,
}

impl Post {
    /// Collective.
    pub fn new(world: &SimpleCommunicator) -> Self {
        Post { comm: world.duplicate() }
    }

    pub fn rank(&self) -> i32 {
        self.comm.rank()
    }

    pub fn size(&self) -> i32 {
        self.comm.size()
    }

    pub fn send(&self, to: i32, message: &impl Serialize) {
        // Only a message above 64 MiB does not encode; ours are plans and records.
        if let Ok(bytes) = codec::encode(message) {
            self.comm.process_at_rank(to).send_with_tag(&bytes[..], MESSAGE);
        }
    }

    /// The next message that has come, if any. One that does not decode is from another version and
    /// is passed over.
    pub fn receive<T: DeserializeOwned>(&self) -> Option<(i32, T)> {
        loop {
            let status = self.comm.any_process().immediate_probe_with_tag(MESSAGE)?;
            let from = status.source_rank();
            let mut bytes = vec![0u8; status.count(u8::equivalent_datatype()) as usize];
            self.comm.process_at_rank(from).receive_into_with_tag(&mut bytes[..], MESSAGE);
            if let Ok(message) = codec::decode(&bytes) {
                return Some((from, message));
            }
        }
    }

    pub fn ask_to_give_up(&self, root: i32) {
        self.comm.process_at_rank(root).send_with_tag(&[0u8; 0], GIVE_UP);
    }

    /// Whether somebody has asked to give up since this was last asked.
    pub fn is_asked_to_give_up(&self) -> bool {
        let mut asked = false;
        while let Some(status) = self.comm.any_process().immediate_probe_with_tag(GIVE_UP) {
            let from = self.comm.process_at_rank(status.source_rank());
            from.receive_into_with_tag(&mut [0u8; 0], GIVE_UP);
            asked = true;
        }
        asked
    }

    /// What every rank has to say, in the order of ranks. Collective.
    pub fn all_gather(&self, own: &str) -> Vec<String> {
        const BYTES: usize = 256;
        let mut block = [0u8; BYTES];
        let kept = own.len().min(BYTES);
        block[..kept].copy_from_slice(&own.as_bytes()[..kept]);
        let mut all = vec![0u8; BYTES * self.size() as usize];
        self.comm.all_gather_into(&block[..], &mut all[..]);
        let text = |block: &[u8]| {
            let end = block.iter().position(|&byte| byte == 0).unwrap_or(BYTES);
            String::from_utf8_lossy(&block[..end]).into_owned()
        };
        all.chunks_exact(BYTES).map(text).collect()
    }

    /// Rank 0's number, on all ranks. Collective.
    pub fn number_of_rank_0(&self, mut number: u64) -> u64 {
        self.comm.process_at_rank(0).broadcast_into(&mut number);
        number
    }
}
