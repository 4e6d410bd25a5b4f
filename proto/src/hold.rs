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
//!              the experiment does not hold, or not in time
//! ```
//!
//! An application goes ahead when it holds and sees `Quiet`; an experiment may send while it holds and
//! has seen `Running` since. One that holds nothing is waited for by nobody, however long it is at
//! something else. A claim costs two atomic operations when nothing runs. It is Dekker's pattern: the
//! client writes its request and then reads the phase, the daemon writes the phase and then reads
//! the requests, each with a sequentially consistent fence in between ([sync a] pairs with
//! [sync b]). So at least one of the two sees the other: either the client waits and rings, or the
//! daemon grants nothing, or waits for the experiment.
//!
//! The number of the grant travels in the word, so that who sleeps until it changes does not miss that it did.

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
    /// A broadcast is going on or about to; of an experiment, a step of it.
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
    /// The experiment has been told to stop, and may still hold; or it is being decided whether it may run.
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

/// Writes a client's request, and says in which phase the experiment is thereafter.
fn ask(request: &AtomicU32, what: Request, experiment: &AtomicU32) -> Phase {
    // Release: who sees `Free` sees what the client did while it held.
    request.store(what as u32, Ordering::Release);
    fence(Ordering::SeqCst); // [sync a], pairs with [sync b] in `tell`
    Experiment::load(experiment).phase
}

/// A client claims the network. True: go ahead. False: an experiment is running; ring the daemon
/// and wait for the experiment word to become quiet.
#[must_use]
pub fn claim(request: &AtomicU32, experiment: &AtomicU32) -> bool {
    ask(request, Request::Hold, experiment) == Phase::Quiet
}

/// An experiment is about to send, and holds if it may. Where it may not, it [`leave`]s again.
#[must_use]
pub fn enter(request: &AtomicU32, experiment: &AtomicU32) -> bool {
    ask(request, Request::Hold, experiment) == Phase::Running
}

/// An experiment sends no more until it [`enter`]s again. True: the daemon waits for that; ring it.
#[must_use]
pub fn leave(request: &AtomicU32, experiment: &AtomicU32) -> bool {
    ask(request, Request::Free, experiment) == Phase::Stopping
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
/// words. True: it runs. False: it is quiet as before, and who waits on the word must be woken.
#[must_use]
pub fn start(experiment: &AtomicU32, a_hold_stands: impl FnOnce() -> bool) -> bool {
    let before = Experiment::load(experiment);
    let grant = before.grant.wrapping_add(1) & (u32::MAX >> 2);
    // Nobody goes ahead while this is decided: who claims now waits, and an experiment may not run yet.
    tell(Experiment { phase: Phase::Stopping, grant }, experiment);
    let stands = !a_hold_stands();
    let phase = if stands { Phase::Running } else { Phase::Quiet };
    Experiment { phase, grant }.store(experiment);
    stands
}

/// The daemon tells the experiment to stop. [`quiet`] follows when its request word, which is to be read after this,
/// does not say hold.
pub fn stop(experiment: &AtomicU32) {
    let now = Experiment::load(experiment);
    if now.phase == Phase::Running {
        tell(Experiment { phase: Phase::Stopping, ..now }, experiment);
    }
}

/// Writes the daemon's word before it reads those of clients.
fn tell(now: Experiment, experiment: &AtomicU32) {
    now.store(experiment);
    fence(Ordering::SeqCst); // [sync b], pairs with [sync a] in `ask`
}

/// The daemon knows that the experiment does not hold, or that there is none any more. Who waits on
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
    fn nothing_runs_while_a_hold_stands() {
        let (request, word) = (AtomicU32::new(0), AtomicU32::new(0));
        assert!(claim(&request, &word));
        assert!(!start(&word, || holds(&request)));
        assert_eq!(Experiment::load(&word).phase, Phase::Quiet);
        release(&request);
        assert!(start(&word, || holds(&request)));
        assert_eq!(Experiment::load(&word), Experiment { phase: Phase::Running, grant: 2 });
        assert!(!claim(&request, &word));
    }

    #[test]
    fn an_experiment_holds_while_it_may_send_and_is_waited_for_only_then() {
        let (own, word) = (AtomicU32::new(0), AtomicU32::new(0));
        assert!(!enter(&own, &word), "it is quiet");
        assert!(!leave(&own, &word));
        assert!(start(&word, || false));
        assert!(enter(&own, &word));
        stop(&word);
        assert!(holds(&own) && !enter(&own, &word));
        assert!(leave(&own, &word), "the daemon waits for it");
        assert!(!holds(&own));
    }
}

/// Every interleaving of clients, daemon and experiment: `make loom`.
#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    /// The words, and a lock that stands in for the kernel's futex: a waiter that finds the word
    /// unchanged sleeps before anyone can wake.
    struct Node {
        requests: [AtomicU32; 2],
        /// The request word of the experiment.
        own: AtomicU32,
        experiment: AtomicU32,
        /// What an application and the experiment must never be in at once: loom finds where they are.
        networks: [UnsafeCell<()>; 2],
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
                own: AtomicU32::new(0),
                experiment: AtomicU32::new(0),
                networks: [UnsafeCell::new(()), UnsafeCell::new(())],
                futex: Mutex::new(()),
                woken: Condvar::new(),
                doorbell: Mutex::new(0),
                rung: Condvar::new(),
            })
        }

        fn a_hold_stands(&self) -> bool {
            self.requests.iter().any(holds)
        }

        fn wait_until_quiet(&self) {
            let mut guard = self.futex.lock().unwrap();
            while Experiment::load(&self.experiment).phase != Phase::Quiet {
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
                self.wait_until_quiet();
            }
            self.networks[client].with_mut(|_| {});
            release(&self.requests[client]);
        }

        /// One step, or none.
        fn experiment(&self) {
            if enter(&self.own, &self.experiment) {
                self.networks.iter().for_each(|network| network.with_mut(|_| {}));
            }
            if leave(&self.own, &self.experiment) {
                self.ring();
            }
        }

        /// Lets the experiment run once, and takes that back.
        fn daemon(&self) {
            if start(&self.experiment, || self.a_hold_stands()) {
                stop(&self.experiment);
                while holds(&self.own) {
                    self.hear();
                }
                quiet(&self.experiment);
            }
            self.wake();
        }
    }

    // SAFETY: loom's cell tells of each access that is not exclusive, which is what is asked here.
    unsafe impl Sync for Node {}

    fn check(applications: usize, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || {
            let node = Node::new();
            let clients = (0..applications).map(|client| {
                let node = node.clone();
                thread::spawn(move || node.application(client))
            });
            let mut threads: Vec<_> = clients.collect();
            let of_experiment = node.clone();
            threads.push(thread::spawn(move || of_experiment.experiment()));
            node.daemon();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    /// Never both at once, and all get to their end (loom reports a deadlock otherwise).
    #[test]
    fn an_application_and_an_experiment_exclude_each_other() {
        check(1, 3);
    }

    #[test]
    fn two_applications_are_never_left_asleep() {
        check(2, 2);
    }
}
