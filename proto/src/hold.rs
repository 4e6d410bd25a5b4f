//! Who may use the network: the words through which applications hold experiments back.
//!
//! Two kinds of words. Each client has a `request` word that it alone writes. The daemon has one
//! `experiment` word, which says in which phase the experiment on its node is:
//!
//! ```text
//!            start (no hold stands)          stop (a hold was seen)
//!   Quiet ─────────────────────▶ Running ─────────────────────▶ Stopping
//!     ▲                                                            │
//!     └────────────────────────────────────────────────────────────┘
//!                     the experiment says that it has stopped
//! ```
//!
//! An application goes ahead when it sees `Quiet`; the experiment broadcasts while it sees
//! `Running`. A claim costs two atomic operations when nothing runs. It is Dekker's pattern: the
//! client writes its request and then reads the phase, the daemon writes the phase and then reads
//! the requests, each with a sequentially consistent fence in between ([sync a] pairs with
//! [sync b]). So at least one of the two sees the other: either the client waits and rings, or the
//! daemon takes the grant back.
//!
//! The number of the grant travels in the word, so that a late "stopped" is not taken for an answer
//! to a newer grant.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// What a client's request word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Request {
    /// No broadcast now.
    Free = 0,
    /// A broadcast is going on or about to.
    Hold = 1,
}

/// The phase of the experiment on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// No experiment uses the network.
    Quiet = 0,
    /// The experiment may broadcast.
    Running = 1,
    /// The experiment has been told to stop and has not said that it did.
    Stopping = 2,
}

/// The daemon's word: phase and number of the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experiment {
    pub phase: Phase,
    /// Counts the starts, modulo 2³⁰.
    pub grant: u32,
}

impl Experiment {
    pub fn load(word: &AtomicU32) -> Self {
        // Acquire pairs with the Release in `store`: who sees `Quiet` sees that the experiment
        // stopped before.
        Self::decode(word.load(Ordering::Acquire))
    }

    pub fn decode(word: u32) -> Self {
        let phase = match word & 3 {
            1 => Phase::Running,
            2 => Phase::Stopping,
            _ => Phase::Quiet,
        };
        Experiment { phase, grant: word >> 2 }
    }

    pub fn encode(self) -> u32 {
        (self.grant << 2) | self.phase as u32
    }

    fn store(self, word: &AtomicU32) {
        word.store(self.encode(), Ordering::Release);
    }
}

/// A client claims the network. True: go ahead. False: an experiment is running; ring the daemon
/// and wait for the experiment word to become quiet.
#[must_use]
pub fn claim(request: &AtomicU32, experiment: &AtomicU32) -> bool {
    request.store(Request::Hold as u32, Ordering::Relaxed);
    fence(Ordering::SeqCst); // [sync a], pairs with [sync b] in `start`
    Experiment::load(experiment).phase == Phase::Quiet
}

/// A client's broadcast has ended.
pub fn release(request: &AtomicU32) {
    // Release: who sees `Free` sees the time of the broadcast that the client wrote before.
    request.store(Request::Free as u32, Ordering::Release);
}

/// Whether a client's request word says that it holds.
pub fn holds(request: &AtomicU32) -> bool {
    // Acquire pairs with `release`.
    request.load(Ordering::Acquire) == Request::Hold as u32
}

/// The daemon lets a quiet experiment run, unless `a_hold_stands`, which must read the request
/// words. True: it runs. False: the grant was taken back at once; since the experiment may have
/// seen it, the phase is now `Stopping`, and [`quiet`] follows when the experiment has stopped.
#[must_use]
pub fn start(experiment: &AtomicU32, a_hold_stands: impl FnOnce() -> bool) -> bool {
    let before = Experiment::load(experiment);
    let grant = before.grant.wrapping_add(1) & (u32::MAX >> 2);
    Experiment { phase: Phase::Running, grant }.store(experiment);
    fence(Ordering::SeqCst); // [sync b], pairs with [sync a] in `claim`
    if a_hold_stands() {
        Experiment { phase: Phase::Stopping, grant }.store(experiment);
        return false;
    }
    true
}

/// The daemon tells the experiment to stop; [`quiet`] follows when it has.
pub fn stop(experiment: &AtomicU32) {
    let now = Experiment::load(experiment);
    if now.phase == Phase::Running {
        Experiment { phase: Phase::Stopping, ..now }.store(experiment);
    }
}

/// The daemon knows that the experiment has stopped, or that there is none any more. Who waits on
/// the word must be woken.
pub fn quiet(experiment: &AtomicU32) {
    let now = Experiment::load(experiment);
    Experiment { phase: Phase::Quiet, ..now }.store(experiment);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_word_keeps_phase_and_grant() {
        for phase in [Phase::Quiet, Phase::Running, Phase::Stopping] {
            let word = Experiment { phase, grant: 12345 };
            assert_eq!(Experiment::decode(word.encode()), word);
        }
    }

    #[test]
    fn a_standing_hold_takes_the_grant_back() {
        let (request, word) = (AtomicU32::new(0), AtomicU32::new(0));
        assert!(claim(&request, &word));
        assert!(!start(&word, || holds(&request)));
        assert_eq!(Experiment::load(&word).phase, Phase::Stopping);
        quiet(&word);
        release(&request);
        assert!(start(&word, || holds(&request)));
        assert_eq!(Experiment::load(&word), Experiment { phase: Phase::Running, grant: 2 });
        assert!(!claim(&request, &word));
    }
}

/// Every interleaving of clients, daemon and experiment: `make loom`.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// The words, and a lock that stands in for the kernel's futex: a waiter that finds the word
    /// unchanged sleeps before anyone can wake.
    struct Node {
        requests: [AtomicU32; 2],
        experiment: AtomicU32,
        /// Says for which grant the experiment has stopped.
        stopped: AtomicU32,
        /// What an application and the experiment must never be in at once.
        broadcasting: [AtomicU32; 2],
        futex: Mutex<()>,
        woken: Condvar,
        /// The doorbell that makes the daemon look, with the number of times it rang unheard.
        doorbell: Mutex<u32>,
        rung: Condvar,
    }

    impl Node {
        fn new() -> Arc<Self> {
            Arc::new(Node {
                requests: [AtomicU32::new(0), AtomicU32::new(0)],
                experiment: AtomicU32::new(0),
                stopped: AtomicU32::new(0),
                broadcasting: [AtomicU32::new(0), AtomicU32::new(0)],
                futex: Mutex::new(()),
                woken: Condvar::new(),
                doorbell: Mutex::new(0),
                rung: Condvar::new(),
            })
        }

        fn a_hold_stands(&self) -> bool {
            self.requests.iter().any(holds)
        }

        fn wait_while(&self, phase: Phase) {
            let mut guard = self.futex.lock().unwrap();
            while Experiment::load(&self.experiment).phase == phase {
                guard = self.woken.wait(guard).unwrap();
            }
        }

        fn wake(&self) {
            let _guard = self.futex.lock().unwrap();
            self.woken.notify_all();
        }

        fn ring(&self) {
            *self.doorbell.lock().unwrap() += 1;
            self.rung.notify_one();
        }

        fn hear(&self) {
            let mut unheard = self.doorbell.lock().unwrap();
            while *unheard == 0 {
                unheard = self.rung.wait(unheard).unwrap();
            }
            *unheard -= 1;
        }

        fn application(&self, client: usize) {
            if !claim(&self.requests[client], &self.experiment) {
                self.ring();
                self.wait_while(Phase::Running);
                self.wait_while(Phase::Stopping);
            }
            self.broadcasting[client].store(1, Ordering::Relaxed);
            self.broadcasting[client].store(0, Ordering::Relaxed);
            release(&self.requests[client]);
        }
    }

    /// One application against a daemon that starts the experiment once: never both at once, and
    /// the application always gets to its end (loom reports a deadlock otherwise).
    #[test]
    fn an_application_and_an_experiment_exclude_each_other() {
        loom::model(|| {
            let node = Node::new();
            let application = {
                let node = node.clone();
                thread::spawn(move || node.application(0))
            };
            // Daemon and experiment in one thread: the experiment answers at once.
            if start(&node.experiment, || node.a_hold_stands()) {
                // The experiment broadcasts: a client that went ahead must have finished before.
                if node.broadcasting[0].load(Ordering::Relaxed) == 1 {
                    // The claim stands while the application broadcasts, so the daemon saw it.
                    panic!("the experiment was granted while an application broadcast");
                }
                let grant = Experiment::load(&node.experiment).grant;
                if node.a_hold_stands() {
                    // A client that claimed after the grant is waiting and rings.
                    node.hear();
                }
                stop(&node.experiment);
                node.stopped.store(grant, Ordering::Release);
            }
            quiet(&node.experiment);
            node.wake();
            application.join().unwrap();
        });
    }

    /// Two applications: the daemon takes back every grant under which a hold stands.
    #[test]
    fn two_applications_are_never_left_asleep() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let node = Node::new();
            let applications: Vec<_> = (0..2)
                .map(|client| {
                    let node = node.clone();
                    thread::spawn(move || node.application(client))
                })
                .collect();
            let _ = start(&node.experiment, || node.a_hold_stands());
            stop(&node.experiment);
            quiet(&node.experiment);
            node.wake();
            for application in applications {
                application.join().unwrap();
            }
        });
    }
}
