//! Which programs of this node broadcast: how much, what carried it and what that took, as their slots tell.
//!
//! A slot shows the last 64 broadcasts of which its process was the root. What came between two looks beyond
//! these is counted as if it had been like those that are shown.

use super::push_newest;
use crate::arbiter::ClientId;
use crate::demand::weights;
use arborcast_proto::message::Times;
use arborcast_proto::segment::{Broadcast, HoldState};
use arborcast_proto::{SizeClass, Target};
use std::collections::{BTreeMap, VecDeque};

/// The most recent ones.
const MAX_PROGRAMS: usize = 64;
/// Times of one size that a median is made of.
const MAX_TIMES: usize = 64;

/// What the system says of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// The name of its program, at most 15 bytes of it.
    pub command: String,
    /// Of Slurm, where its control group names one.
    pub job: Option<String>,
}

/// What a look at a program's slot showed.
#[derive(Debug)]
pub struct Seen<'a> {
    pub state: &'a HoldState,
    /// The broadcasts that make sense, oldest first.
    pub shown: &'a [Broadcast],
    /// Those that the slot no longer shows included.
    pub total: u64,
}

/// Programs that are connected or were, the last to connect or to broadcast last.
#[derive(Debug, Default)]
pub struct Programs {
    programs: VecDeque<Program>,
    left_out: u64,
}

#[derive(Debug)]
struct Program {
    client: ClientId,
    process: Option<Process>,
    since_unix_s: f64,
    ended_unix_s: Option<f64>,
    used_unix_s: Option<f64>,
    holds: bool,
    claims: u64,
    hold_timeouts: u64,
    reports: u64,
    uses: BTreeMap<SizeClass, Use>,
}

/// Broadcasts of one size class.
#[derive(Debug, Default)]
struct Use {
    along_trees: u64,
    native: u64,
    bytes: u64,
    tree_times_s: VecDeque<f64>,
    native_times_s: VecDeque<f64>,
    gained_s: Option<f64>,
}

/// A program as it is told of.
#[derive(Debug, Clone)]
pub struct ProgramFacts {
    /// `None` where the system did not say.
    pub process: Option<Process>,
    /// Times in seconds since 1970. When it introduced itself, which is with its first broadcast.
    pub since_unix_s: f64,
    /// `None` while it is connected.
    pub ended_unix_s: Option<f64>,
    /// Its last broadcast as a root.
    pub used_unix_s: Option<f64>,
    pub holds: bool,
    pub claims: u64,
    pub hold_timeouts: u64,
    /// Broadcasts of others along trees that it told of.
    pub reports: u64,
    pub uses: Vec<UseFacts>,
}

/// A program's broadcasts of one size class as they are told of. Times in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct UseFacts {
    pub class: SizeClass,
    pub along_trees: u64,
    pub native: u64,
    pub bytes: u64,
    /// Until the root had all ACKs, of those that were timed: median and number.
    pub tree_time: Option<(f64, usize)>,
    /// What the root spent in native ones.
    pub native_time: Option<(f64, usize)>,
    /// Estimated: what native takes less what the plan took in the experiment; `None` where no plan that was used
    /// has both.
    pub gained_s: Option<f64>,
}

impl Programs {
    /// A client has introduced itself as an application.
    pub fn connected(&mut self, client: ClientId, unix_s: f64) {
        self.programs.push_back(Program {
            client,
            process: None,
            since_unix_s: unix_s,
            ended_unix_s: None,
            used_unix_s: None,
            holds: false,
            claims: 0,
            hold_timeouts: 0,
            reports: 0,
            uses: BTreeMap::new(),
        });
        if self.programs.len() > MAX_PROGRAMS {
            // Who has ended goes first, then who was never a root here.
            let rank = |p: &Program| (p.ended_unix_s.is_none(), !p.uses.is_empty());
            let least = (0..self.programs.len() - 1).min_by_key(|&i| rank(&self.programs[i]));
            self.programs.remove(least.unwrap_or(0));
            self.left_out += 1;
        }
    }

    /// What the system says of a program that is connected.
    pub fn named(&mut self, client: ClientId, process: Process) {
        if let Some(program) = self.find(client) {
            program.process = Some(process);
        }
    }

    /// One that was left out is not told of again.
    fn find(&mut self, client: ClientId) -> Option<&mut Program> {
        self.programs.iter_mut().rev().find(|p| p.client == client && p.ended_unix_s.is_none())
    }

    pub fn ended(&mut self, client: ClientId, unix_s: f64) {
        if let Some(program) = self.find(client) {
            program.ended_unix_s = Some(unix_s);
            program.holds = false;
        }
    }

    /// It has told of a broadcast along trees whose root is elsewhere.
    pub fn reported(&mut self, client: ClientId) {
        if let Some(program) = self.find(client) {
            program.reports += 1;
        }
    }

    /// `gain_s`: what a broadcast along the trees of a target gains, in seconds, where that is known.
    pub fn saw(
        &mut self,
        client: ClientId,
        seen: &Seen<'_>,
        gain_s: impl Fn(Target) -> Option<f64>,
        unix_s: f64,
    ) {
        let Some(program) = self.find(client) else { return };
        program.holds = seen.state.holds;
        program.claims = seen.state.claims;
        program.hold_timeouts = seen.state.hold_timeouts;
        if seen.total > 0 {
            program.used_unix_s = Some(unix_s);
        }
        for (broadcast, weight) in seen.shown.iter().zip(weights(seen.total, seen.shown.len())) {
            program
                .uses
                .entry(broadcast.target.class)
                .or_default()
                .note(broadcast, weight, &gain_s);
        }
    }

    /// The last to connect first, and how many are not told of any more.
    pub fn facts(&self) -> (Vec<ProgramFacts>, u64) {
        (self.programs.iter().rev().map(Program::facts).collect(), self.left_out)
    }
}

impl Use {
    fn note(&mut self, broadcast: &Broadcast, weight: u64, gain_s: impl Fn(Target) -> Option<f64>) {
        self.bytes = self.bytes.saturating_add(broadcast.bytes.saturating_mul(weight));
        if let Some(seconds) = broadcast.native_s {
            self.native = self.native.saturating_add(weight);
            return push_newest(&mut self.native_times_s, seconds, MAX_TIMES);
        }
        self.along_trees = self.along_trees.saturating_add(weight);
        if let Some(seconds) = broadcast.seconds {
            push_newest(&mut self.tree_times_s, seconds, MAX_TIMES);
        }
        if let Some(gain_s) = gain_s(broadcast.target) {
            *self.gained_s.get_or_insert(0.0) += gain_s * weight as f64;
        }
    }
}

impl Program {
    fn facts(&self) -> ProgramFacts {
        let time = |times_s: &VecDeque<f64>| {
            Times::median_of(times_s.iter().copied()).map(|median_s| (median_s, times_s.len()))
        };
        let of_class = |(class, of): (&SizeClass, &Use)| UseFacts {
            class: *class,
            along_trees: of.along_trees,
            native: of.native,
            bytes: of.bytes,
            tree_time: time(&of.tree_times_s),
            native_time: time(&of.native_times_s),
            gained_s: of.gained_s,
        };
        ProgramFacts {
            process: self.process.clone(),
            since_unix_s: self.since_unix_s,
            ended_unix_s: self.ended_unix_s,
            used_unix_s: self.used_unix_s,
            holds: self.holds,
            claims: self.claims,
            hold_timeouts: self.hold_timeouts,
            reports: self.reports,
            uses: self.uses.iter().map(of_class).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arborcast_proto::GroupHash;

    const STATE: HoldState =
        HoldState { holds: true, claims: 3, last_broadcast_ns: 1, hold_timeouts: 1 };

    fn broadcast(bytes: u64, seconds: Option<f64>, native_s: Option<f64>) -> Broadcast {
        let target = Target { group: GroupHash(1), root: 0, class: SizeClass::of(bytes) };
        Broadcast { target, bytes, seconds, pause_s: None, quiet_s: None, native_s }
    }

    #[test]
    fn what_carried_broadcasts_is_told_by_size() {
        let mut programs = Programs::default();
        programs.connected(7, 100.0);
        let shown = [
            broadcast(1 << 20, None, Some(2.0)),
            broadcast(1 << 20, Some(0.5), None),
            broadcast(1 << 20, None, None),
            broadcast(8, None, Some(1e-3)),
        ];
        let seen = Seen { state: &STATE, shown: &shown, total: 8 };
        programs.saw(7, &seen, |target| (target.class.index() > 0).then_some(1.5), 101.0);
        programs.ended(7, 102.0);
        programs.saw(7, &seen, |_| None, 103.0);
        let (facts, left_out) = programs.facts();
        let [program] = &facts[..] else { panic!("{facts:?}") };
        assert_eq!((left_out, program.claims, program.hold_timeouts), (0, 3, 1));
        assert_eq!((program.used_unix_s, program.ended_unix_s), (Some(101.0), Some(102.0)));
        let long = UseFacts {
            class: SizeClass::of(1 << 20),
            along_trees: 4,
            native: 2,
            bytes: 6 << 20,
            tree_time: Some((0.5, 1)),
            native_time: Some((2.0, 1)),
            gained_s: Some(6.0),
        };
        let short = UseFacts {
            class: SizeClass::of(8),
            along_trees: 0,
            native: 2,
            bytes: 16,
            tree_time: None,
            native_time: Some((1e-3, 1)),
            gained_s: None,
        };
        assert_eq!(program.uses, [short, long]);
    }

    #[test]
    fn programs_that_have_ended_make_room_for_those_that_run() {
        let mut programs = Programs::default();
        let seen = [broadcast(8, None, None)];
        for client in 0..1000 {
            programs.connected(client, client as f64);
            let seen = Seen { state: &STATE, shown: &seen, total: 1 };
            programs.saw(client, &seen, |_| None, 1.0);
            if client != 5 {
                programs.ended(client, client as f64);
            }
        }
        let (facts, left_out) = programs.facts();
        assert_eq!((facts.len(), left_out), (MAX_PROGRAMS, 1000 - MAX_PROGRAMS as u64));
        assert_eq!(facts[0].since_unix_s, 999.0);
        assert_eq!(facts[MAX_PROGRAMS - 1].since_unix_s, 5.0, "it runs still");
    }
}
