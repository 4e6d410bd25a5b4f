//! What comes from wisdom files while the daemon runs, and what goes into them when it is asked for.

use super::Node;
use crate::daemon::clock::Now;
use arborcast_proto::message::{Imported, Refusal};
use arborcast_proto::wisdom::Wisdom;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use tracing::{info, warn};

impl Node {
    /// Takes in what a wisdom file says beside what has been learned since.
    pub fn absorb(&mut self, wisdom: Wisdom, now: Now) {
        let refused = self.knowledge.absorb(wisdom);
        if refused > 0 {
            warn!("{refused} entries of the wisdom make no sense and are left out");
        }
        self.publish_book(now);
        self.record_plans(Some(now));
    }

    /// Everything that is known, as a wisdom file in memory.
    pub(super) fn export(&self) -> Result<OwnedFd, Refusal> {
        let bytes = self.knowledge.to_wisdom().to_bytes();
        let bytes = bytes.map_err(|error| Refusal::Invalid(error.to_string()))?;
        let in_memory = || -> io::Result<OwnedFd> {
            let mut file = File::from(memfd_create("arborcast-export", MemfdFlags::CLOEXEC)?);
            file.write_all(&bytes)?;
            Ok(file.into())
        };
        in_memory().map_err(|error| Refusal::Invalid(format!("no memory for the file: {error}")))
    }

    /// Merges a wisdom file, or a part of one, with what is known. Where it is damaged nothing changes.
    pub(super) fn import(&mut self, file: &[u8], now: Now) -> Result<Imported, Refusal> {
        let file = Wisdom::from_bytes(file).map_err(|error| Refusal::Invalid(error.to_string()))?;
        let (imported, changed) = self.knowledge.import(file);
        info!(?imported);
        for target in changed {
            self.demand.plan_changed(target);
            self.record_plan(target, now);
        }
        self.newest_plan_unix_s = self.knowledge.newest_plan_unix_s();
        self.publish_book(now);
        Ok(imported)
    }
}
