//! Transfers between nodes that run at the same time, as a survey of the links asks for them.

use crate::member::{LOOK_EVERY, Member, wait};
use arborcast_planner::measurement::{Arrival, Transfer};
use arborcast_shim::backoff::Backoff;
use arborcast_shim::host_tcp::{self, Packets, Start, Starts};
use arborcast_shim::pmpi::{Comm, MpiError, Transfers};
use std::cmp::Reverse;
use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// A member's part of transfers at the same time, by their numbers: the least seconds of those that it
/// starts, and what came when of those that it receives.
#[derive(Default)]
pub struct Part {
    pub seconds: Vec<(usize, f64)>,
    pub arrivals: Vec<(usize, Vec<Arrival>)>,
    /// See [`TransferResult::lost`](arborcast_planner::measurement::TransferResult::lost).
    pub lost: f64,
}

/// Takes part in transfers at the same time. Once `is_over` says so, no more is sent: what is under way ends.
///
/// # Errors
/// Where the MPI has one.
pub fn carry_out(
    member: &Member,
    transfers: &[Transfer],
    start_after_s: f64,
    mut is_over: impl FnMut() -> bool,
) -> Result<Part, MpiError> {
    let begins = Instant::now() + Duration::from_secs_f64(start_after_s.max(0.0));
    let mut starts = Starts::default();
    let sends = transfers.iter().any(|transfer| transfer.from == member.own && transfer.bytes > 0);
    let packets = || if sends { host_tcp::packets() } else { Packets::default() };
    let before = packets();
    let mut pool = Transfers::default();
    let mine = transfers.iter().enumerate().filter(|(_, t)| [t.from, t.to].contains(&member.own));
    let mut ends: Vec<End> = mine
        .map(|(number, transfer)| {
            let sends = transfer.from == member.own;
            let bytes = if sends { u64::from(transfer.segment_bytes) } else { transfer.bytes };
            let partner = if sends { transfer.to } else { transfer.from };
            End {
                number,
                transfer: *transfer,
                sends,
                partner: member.channel.leader(partner),
                memory: vec![0; bytes as usize],
                repetitions_left: transfer.repetitions.max(1),
                in_flight: 0,
                next_segment: 0,
                stops: Duration::try_from_secs_f64(transfer.stop_after_s)
                    .ok()
                    .and_then(|after| begins.checked_add(after)),
                started: begins,
                least_s: f64::INFINITY,
                arrivals: Vec::new(),
            }
        })
        .collect();
    for (index, end) in ends.iter_mut().enumerate().filter(|(_, end)| !end.sends) {
        end.start(member.other, &mut pool, index)?;
    }
    for end in ends.iter().filter(|end| end.sends && end.transfer.is_tcp_paced) {
        starts.expect((member.other, end.partner), Start::Paced);
    }
    let mut waiting: Vec<(Instant, usize)> = ends
        .iter()
        .enumerate()
        .filter(|(_, end)| end.sends)
        .map(|(index, end)| (begins + Duration::from_secs_f64(end.transfer.delay_s), index))
        .collect();
    // The first to start stands last.
    waiting.sort_by_key(|start| Reverse(*start));
    let (mut completed, mut backoff) = (Vec::new(), Backoff::default());
    let mut is_stopped = false;
    while !pool.is_empty() || !waiting.is_empty() {
        // A far start is slept for, a near one polled for: what comes meanwhile is to be seen.
        if pool.is_empty()
            && let Some((due, _)) = waiting.last()
        {
            let left = due.saturating_duration_since(Instant::now());
            wait(left.min(LOOK_EVERY).as_secs_f64());
        }
        if !is_stopped && is_over() {
            is_stopped = true;
            let now = Instant::now();
            ends.iter_mut().for_each(|end| end.stops = Some(now));
            waiting.iter_mut().for_each(|(due, _)| *due = now);
        }
        while let Some((_, next)) = waiting.pop_if(|(due, _)| *due <= Instant::now()) {
            ends[next].start(member.other, &mut pool, next)?;
        }
        pool.test(&mut completed)?;
        starts.go_on();
        backoff.after_poll(!completed.is_empty());
        for (index, received) in completed.drain(..) {
            let end: &mut End = &mut ends[index];
            end.in_flight -= 1;
            end.note(received.bytes, begins);
            end.go_on(member.other, &mut pool, index)?;
            if end.in_flight == 0 {
                end.finish_repetition(member.other, &mut pool, index)?;
            }
        }
    }
    starts.end();
    let mut part = Part { lost: packets().lost_since(before), ..Part::default() };
    for end in ends {
        if end.sends {
            part.seconds.push((end.number, end.least_s));
        } else {
            part.arrivals.push((end.number, end.arrivals));
        }
    }
    Ok(part)
}

/// Of a transfer, how many segments are posted that the kernel has not taken yet, so that a connection never waits
/// for one: as many as go in a while, so that one that is stopped ends soon.
const SEGMENTS_AHEAD: RangeInclusive<usize> = 4..=32;
const AHEAD_S: f64 = 0.1;

/// One end of a transfer: the sender sends all segments and waits for the empty answer; the receiver
/// waits for all segments and sends it.
struct End {
    number: usize,
    transfer: Transfer,
    sends: bool,
    partner: c_int,
    memory: Vec<u8>,
    repetitions_left: u32,
    in_flight: usize,
    /// The first that has not been sent, or is not waited for.
    next_segment: usize,
    /// From then on only empty segments are sent.
    stops: Option<Instant>,
    started: Instant,
    least_s: f64,
    /// Of the last repetition.
    arrivals: Vec<Arrival>,
}

impl End {
    fn tags(&self) -> (c_int, c_int) {
        let tag = 2 + 2 * self.number as c_int;
        (tag, tag + 1)
    }

    fn start(
        &mut self,
        comm: Comm,
        pool: &mut Transfers<usize>,
        index: usize,
    ) -> Result<(), MpiError> {
        let (_, back) = self.tags();
        self.started = Instant::now();
        self.arrivals.clear();
        self.next_segment = 0;
        self.go_on(comm, pool, index)?;
        if self.sends {
            // SAFETY: a message without bytes touches no memory.
            unsafe {
                let nothing = (std::ptr::dangling_mut(), 0);
                pool.receive(comm, nothing, (Some(self.partner), back), index)?;
            }
            self.in_flight += 1;
        }
        Ok(())
    }

    /// Sends as many segments as may be under way at once, or waits for all.
    fn go_on(
        &mut self,
        comm: Comm,
        pool: &mut Transfers<usize>,
        index: usize,
    ) -> Result<(), MpiError> {
        let (forward, _) = self.tags();
        let bytes = self.transfer.bytes as usize;
        let segment_bytes = self.transfer.segment_bytes as usize;
        let at_once = if self.sends { self.segments_ahead() } else { usize::MAX };
        while self.next_segment < bytes.div_ceil(segment_bytes).max(1) && self.in_flight < at_once {
            let offset = self.next_segment * segment_bytes;
            let len = segment_bytes.min(bytes - offset);
            // SAFETY: the sender's memory is only read, the receiver's segments do not overlap;
            // both live until the pool is empty.
            unsafe {
                if self.sends {
                    let is_over = self.stops.is_some_and(|at| Instant::now() >= at);
                    let from = (self.memory.as_ptr(), if is_over { 0 } else { len });
                    pool.send(comm, from, (self.partner, forward), index)?;
                } else {
                    let to = (self.memory.as_mut_ptr().add(offset), len);
                    pool.receive(comm, to, (Some(self.partner), forward), index)?;
                }
            }
            self.in_flight += 1;
            self.next_segment += 1;
        }
        Ok(())
    }

    fn segments_ahead(&self) -> usize {
        let gone = self.next_segment.saturating_sub(self.in_flight) as f64;
        let in_a_while = gone / self.started.elapsed().as_secs_f64().max(AHEAD_S) * AHEAD_S;
        (in_a_while as usize).clamp(*SEGMENTS_AHEAD.start(), *SEGMENTS_AHEAD.end())
    }

    /// A message has come, or gone out, which brings nothing, in a round that began then.
    fn note(&mut self, bytes: usize, begins: Instant) {
        if !self.sends && bytes > 0 {
            let before = self.arrivals.last().map_or(0, |last| last.bytes);
            let seconds = Instant::now().saturating_duration_since(begins).as_secs_f64();
            self.arrivals.push(Arrival { bytes: before + bytes as u64, seconds });
        }
    }

    fn finish_repetition(
        &mut self,
        comm: Comm,
        pool: &mut Transfers<usize>,
        index: usize,
    ) -> Result<(), MpiError> {
        if self.repetitions_left == 0 {
            return Ok(());
        }
        self.repetitions_left -= 1;
        let again = self.repetitions_left > 0;
        if self.sends {
            self.least_s = self.least_s.min(self.started.elapsed().as_secs_f64());
            return if again { self.start(comm, pool, index) } else { Ok(()) };
        }
        // The next segments may come as soon as the answer is out.
        if again {
            self.start(comm, pool, index)?;
        }
        let (_, back) = self.tags();
        // SAFETY: a message without bytes touches no memory.
        unsafe { pool.send(comm, (std::ptr::dangling(), 0), (self.partner, back), index)? };
        self.in_flight += 1;
        Ok(())
    }
}
