//! Keeps a virtual machine's processors awake while packets flow.
//!
//! An idle virtual processor is given back to the host, and a timer or a packet that wakes it waits
//! until the host gives it again: on some hosts a large part of a millisecond, at each packet. So one
//! thread a processor spins, at a priority (SCHED_IDLE, see sched(7)) that gives way to every other
//! process at once. A machine of its own wakes in microseconds and is left alone.
//!
//! Where the kernel has groups (see [`scheduling`]), a priority counts only within its group: the threads would
//! get as much as a rank. So they join that of the ranks, or, where they can't, the whole session of this process is
//! put last; its other threads have real-time priority and do not belong to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::thread::{Pid, gettid};

use crate::network::Nanos;
use crate::{scheduling, sys};

/// Spinning ends so long after the last packet.
const LINGER: Duration = Duration::from_secs(2);
/// Packets are told at most this often.
const RENEWAL: Duration = Duration::from_millis(500);

/// Some microseconds.
const TURNS: u32 = 10_000;

pub struct Awake {
    until_ns: Arc<AtomicU64>,
    renew_ns: Nanos,
    spinners: Vec<(Thread, Pid)>,
}

impl Awake {
    /// Starts the threads where they are needed; they sleep until a packet comes.
    pub fn start(start: Instant) -> std::io::Result<Self> {
        let until_ns = Arc::new(AtomicU64::new(0));
        let processors = thread::available_parallelism().map_or(1, |count| count.get());
        let count = if is_virtual_machine() { processors } else { 0 };
        let spinner = |_| {
            let until_ns = until_ns.clone();
            let (sender, own) = sync_channel(1);
            let spin = move || {
                let _ = sender.send(gettid());
                spin(start, &until_ns);
            };
            let handle = thread::Builder::new().name("awake".into()).spawn(spin)?;
            let own = own.recv().map_err(std::io::Error::other)?;
            Ok((handle.thread().clone(), own))
        };
        let spinners: Vec<_> = (0..count).map(spinner).collect::<std::io::Result<_>>()?;
        let all_joined = spinners.iter().all(|&(_, own)| scheduling::join_thread(own));
        if !all_joined {
            // Where there are no groups, there is no such file, and nothing to do.
            let _ = std::fs::write("/proc/self/autogroup", "19");
        }
        Ok(Self { until_ns, renew_ns: 0, spinners })
    }

    /// A packet came; `now` is counted from the start.
    pub fn packet(&mut self, now: Nanos) {
        if now < self.renew_ns {
            return;
        }
        self.renew_ns = now + RENEWAL.as_nanos() as Nanos;
        // Relaxed: the value stands for itself, and unpark orders it before what follows a park.
        self.until_ns.store(now + LINGER.as_nanos() as Nanos, Ordering::Relaxed);
        self.spinners.iter().for_each(|(thread, _)| thread.unpark());
    }
}

impl Drop for Awake {
    /// The threads end with the process; the group, which goes first, must be without them.
    fn drop(&mut self) {
        self.spinners.iter().for_each(|&(_, own)| scheduling::leave_thread(own));
    }
}

/// Spins while there were packets lately and sleeps otherwise, for the rest of the process.
fn spin(start: Instant, until_ns: &AtomicU64) {
    // At a normal priority it would take from those it is there for.
    if sys::idle_priority().is_err() {
        return;
    }
    loop {
        if start.elapsed().as_nanos() as Nanos >= until_ns.load(Ordering::Relaxed) {
            thread::park();
        }
        // The scheduler lets even the lowest priority end its turn; a rank that polls would wait for it.
        thread::yield_now();
        for turn in 0..TURNS {
            std::hint::black_box(turn);
        }
    }
}

/// Processors tell whether they are a hypervisor's.
fn is_virtual_machine() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}
