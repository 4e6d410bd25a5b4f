//! What a daemon keeps of the past for the page alone, since its start and in memory only: how links and plans
//! were, which programs broadcast and how pieces came to this node. Without I/O or clock. Nothing of it is kept
//! where no page is served; each part says what it takes at most, all together less than 20 MB.

mod deliveries;
mod lateness;
mod links;
mod plans;
mod programs;

use super::sites::Sites;
pub use deliveries::{Deliveries, ParentFacts, ReceivedFacts};
pub use lateness::GridLateness;
pub use links::{LinkHistory, LinkSample};
pub use plans::{PlanHistory, PlanInUse};
pub use programs::{Process, ProgramFacts, Programs, Seen, UseFacts};
use std::collections::VecDeque;

/// All parts.
#[derive(Debug, Default)]
pub struct Record {
    pub links: LinkHistory,
    pub plans: PlanHistory,
    pub programs: Programs,
    pub deliveries: Deliveries,
    pub lateness: GridLateness,
}

/// The newest of something, up to a number.
fn push_newest<T>(newest_last: &mut VecDeque<T>, value: T, most: usize) {
    if newest_last.len() >= most {
        newest_last.pop_front();
    }
    newest_last.push_back(value);
}
