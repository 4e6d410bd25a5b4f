//! One stripe of a broadcast at one node: what has come, and what has been passed on.

use super::MAX_RECV_REQUESTS;
use crate::header::Header;
use crate::pmpi::Received;
use arborcast_proto::monotonic_ns;
use std::ffi::c_int;
use std::ops::Range;

pub(super) struct Child {
    pub rank: c_int,
    /// Segments handed to MPI so far.
    pub sent: usize,
    pub in_flight: usize,
}

/// One stripe as this node sees it.
pub(super) struct Flow {
    pub header: Header,
    /// Whom the segments come from; `None` at the root.
    pub parent: Option<c_int>,
    /// Its children among those of all stripes.
    pub children: Range<usize>,
    /// Those that come after the header.
    pub segments: usize,
    /// Segments that are here and may be passed on.
    pub ready: usize,
    /// Receives posted.
    pub posted: usize,
    /// Receives completed, counted up to the first that has not: MPI matches messages in order, but a
    /// short one may complete before a long one that was sent first.
    pub received: usize,
    /// Which receives after those have completed, the next one in the lowest bit.
    pub early: u64,
    /// The first segment that will never come.
    pub abandoned_at: Option<usize>,
    pub acknowledged: bool,
    /// CLOCK_MONOTONIC, where the header asks for a report: when the header came, and the last segment.
    pub first_ns: u64,
    pub last_ns: u64,
}

impl Flow {
    /// How many messages carry this stripe, those that only say "abandoned" included.
    pub fn messages(&self) -> usize {
        match self.abandoned_at {
            Some(at) => at + (self.segments - at).min(MAX_RECV_REQUESTS),
            None => self.segments,
        }
    }

    /// The place of a segment in the whole message.
    pub fn segment(&self, index: usize) -> (usize, usize) {
        let segment_bytes = self.header.segment_bytes as usize;
        let offset = self.header.inline_bytes() + index * segment_bytes;
        let len = segment_bytes.min(self.header.len as usize - offset);
        (self.header.start as usize + offset, len)
    }

    pub fn received_all(&self) -> bool {
        self.parent.is_none() || self.received >= self.messages()
    }

    /// All that will ever be sent to the stripe's children, which are among these, has been handed to
    /// MPI.
    pub fn is_passed_on(&self, children: &[Child]) -> bool {
        children[self.children.clone()].iter().all(|child| child.sent >= self.messages())
    }

    /// A segment has come, or the word that no more will.
    pub fn take(&mut self, index: usize, received: Received) {
        if received.bytes == 0 {
            self.abandoned_at = Some(self.abandoned_at.map_or(index, |at| at.min(index)));
        }
        self.early |= 1 << (index - self.received);
        let in_order = self.early.trailing_ones();
        self.received += in_order as usize;
        self.early = self.early.checked_shr(in_order).unwrap_or(0);
        self.ready = self.received;
        if self.header.report != 0 && self.received_all() {
            self.last_ns = monotonic_ns();
        }
    }

    /// The root gives up. Every child is told after what it has been sent already; children may
    /// differ in that, so the rest is abandoned at the furthest of them.
    pub fn abandon(&mut self, children: &[Child]) {
        let furthest =
            children[self.children.clone()].iter().map(|child| child.sent).max().unwrap_or(0);
        if furthest < self.segments {
            self.abandoned_at = Some(furthest);
        }
    }
}
