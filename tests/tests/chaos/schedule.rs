//! What goes wrong and when: drawn from the seed alone, so that a seed that found something finds it
//! again. No two faults have the same thing at a time.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// What can be out of order. `number` of the fault chooses what the name leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// SIGKILL; another daemon is started at the end of the fault.
    DaemonKilled,
    /// SIGTERM; as an operator who upgrades.
    DaemonEnded,
    /// SIGSTOP and SIGCONT.
    DaemonStopped,
    /// The daemon is killed, and its successor finds a wisdom file with wrong bytes, or with a part.
    WisdomDamaged,
    /// Nothing can be written into the state directory.
    StateFull,
    StateReadOnly,
    /// /dev/shm takes nothing more, while the daemon runs or before it is started.
    SharedMemoryFull,
    /// One rank of the experiment gets SIGKILL.
    RankKilled,
    /// One rank of the experiment gets SIGSTOP, and SIGCONT.
    RankStopped,
    /// The experiment's mpirun gets SIGKILL.
    JobKilled,
    /// Another experiment is started while the first one runs, and ended.
    SecondJob,
    /// An application that broadcasts gets SIGKILL on all ranks, or on one.
    ApplicationKilled,
    LinkSlow,
    LinkLossy,
    LinkCut,
    /// The wall clock of a node, as daemon and experiment see it, jumps by hours, and back.
    ClockJump,
    /// All processes on a node get SIGKILL, and it sends nothing until the end of the fault.
    HostKilled,
    /// The daemon is killed, and one of another version is there until the end of the fault.
    OtherVersion,
    /// What the daemon has in the file system is removed: socket, lock, board, or all of it.
    NamesRemoved,
    /// Programs on a node take all the processor time they can get.
    ProcessorsTaken,
}

/// What only one fault at a time can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Node(usize),
    Job,
    Victim,
    Link,
    Clock(usize),
    Processors,
}

impl Kind {
    pub const ALL: [Kind; 20] = [
        Kind::DaemonKilled,
        Kind::DaemonEnded,
        Kind::DaemonStopped,
        Kind::WisdomDamaged,
        Kind::StateFull,
        Kind::StateReadOnly,
        Kind::SharedMemoryFull,
        Kind::RankKilled,
        Kind::RankStopped,
        Kind::JobKilled,
        Kind::SecondJob,
        Kind::ApplicationKilled,
        Kind::LinkSlow,
        Kind::LinkLossy,
        Kind::LinkCut,
        Kind::ClockJump,
        Kind::HostKilled,
        Kind::OtherVersion,
        Kind::NamesRemoved,
        Kind::ProcessorsTaken,
    ];

    fn thing(self, node: usize) -> Thing {
        match self {
            Kind::DaemonKilled
            | Kind::DaemonEnded
            | Kind::DaemonStopped
            | Kind::WisdomDamaged
            | Kind::StateFull
            | Kind::StateReadOnly
            | Kind::SharedMemoryFull
            | Kind::HostKilled
            | Kind::OtherVersion
            | Kind::NamesRemoved => Thing::Node(node),
            Kind::RankKilled | Kind::RankStopped | Kind::JobKilled | Kind::SecondJob => Thing::Job,
            Kind::ApplicationKilled => Thing::Victim,
            Kind::LinkSlow | Kind::LinkLossy | Kind::LinkCut => Thing::Link,
            Kind::ClockJump => Thing::Clock(node),
            Kind::ProcessorsTaken => Thing::Processors,
        }
    }

    /// The longest it lasts. A cut is short enough for TCP to take it as lost packets.
    fn longest(self) -> Duration {
        Duration::from_millis(match self {
            Kind::LinkCut => 3000,
            Kind::LinkLossy | Kind::RankStopped | Kind::DaemonStopped => 4000,
            Kind::ApplicationKilled | Kind::SecondJob => 10_000,
            // After these the thing is left alone for a while, so that it can come back.
            Kind::RankKilled | Kind::JobKilled => 15_000,
            _ => 6000,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    pub node: usize,
    pub number: u64,
    pub from: Duration,
    pub until: Duration,
}

/// Faults on `nodes` nodes in the order in which they begin; all have ended after `length`.
pub fn draw(seed: u64, nodes: usize, length: Duration) -> Vec<Fault> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut faults: Vec<Fault> = Vec::new();
    let mut from = Duration::from_secs(2);
    while from < length {
        let kind = Kind::ALL[random.random_range(0..Kind::ALL.len())];
        let node = random.random_range(0..nodes);
        let share = random.random_range(0.1..1.0);
        let number = random.random();
        let until = from + kind.longest().mul_f64(share);
        let thing = kind.thing(node);
        // A host takes the programs on it with it: others are to have the time to finish.
        let is_too_often = kind == Kind::HostKilled && random.random_bool(0.7);
        let is_free = faults.iter().all(|f| f.kind.thing(f.node) != thing || f.until < from);
        if is_free && !is_too_often && until < length {
            faults.push(Fault { kind, node, number, from, until });
        }
        from += Duration::from_millis(random.random_range(50..800));
    }
    faults
}

#[test]
fn the_seed_alone_draws_faults_of_every_kind() {
    let five_minutes = Duration::from_secs(300);
    let faults = draw(7, 4, five_minutes);
    assert_eq!(faults, draw(7, 4, five_minutes));
    assert_ne!(faults, draw(8, 4, five_minutes));
    assert!(Kind::ALL.iter().all(|kind| faults.iter().any(|fault| fault.kind == *kind)));
    assert!(faults.iter().all(|fault| fault.until < five_minutes));
}
