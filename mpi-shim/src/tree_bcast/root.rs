//! The root's part of a broadcast.

use super::channel::TAG_ACK;
use super::{BroadcastError, Buffer, Call, Channel, Engine, Options, RequestKind, Sent};
use crate::header::{Decision, Header};
use crate::pmpi::MpiError;
use arborcast_proto::{Striping, Tree, pacing_delay};
use std::ops::Range;
use std::time::{Duration, Instant};

impl Engine {
    /// The root's part of a broadcast along trees.
    ///
    /// # Errors
    /// Where MPI reports one.
    ///
    /// # Safety
    /// `buffer` must be valid for reading until this returns. After an error, requests may still be
    /// in flight: the buffer must then stay valid until MPI is finalised.
    pub unsafe fn send(
        &mut self,
        channel: &Channel,
        call: Call,
        striping: &Striping,
        buffer: Buffer,
        mut options: Options<'_>,
    ) -> Result<Sent, BroadcastError> {
        self.begin();
        let total_bytes = buffer.len as u64;
        let carried = || {
            let ranges = striping.ranges(total_bytes).zip(striping.stripes()).enumerate();
            // An empty message still has to arrive: its first stripe stands for it.
            let is_carried =
                |range: &Range<u64>, i| !range.is_empty() || (total_bytes == 0 && i == 0);
            ranges.filter(move |(i, (range, _))| is_carried(range, *i)).map(|(_, carried)| carried)
        };
        let stripes = carried().count() as u8;
        let is_paced = carried().any(|(_, stripe)| stripe.bytes_per_s.is_some());
        // Reading the clock is a good part of what a short broadcast costs.
        let started = (is_paced || options.leaf_acks).then(Instant::now);
        let elapsed = || started.map_or(Duration::ZERO, |started| started.elapsed());
        let mut acks_missing = 0;
        for (index, (range, stripe)) in carried().enumerate() {
            let tree = &stripe.tree;
            let header = Header {
                decision: Decision::Trees,
                leaf_acks: options.leaf_acks,
                is_tcp_paced: striping.is_tcp_paced(),
                is_paced,
                report: options.report,
                stripe: index as u8,
                stripes,
                root: call.root_node as u16,
                sequence: call.sequence,
                segment_bytes: striping.segment_bytes(),
                total_bytes,
                start: range.start,
                len: range.end - range.start,
            };
            if options.leaf_acks && tree.len() > 1 {
                acks_missing += tree.leaves().count();
            }
            // SAFETY: passed on from the caller.
            unsafe { self.open_flow(channel, call, header, tree.as_subtree(), None, buffer)? };
        }
        if acks_missing > 0 {
            self.expect_ack(channel, call)?;
        }

        if is_paced {
            self.flows.iter_mut().for_each(|flow| flow.ready = 0);
        }
        let mut abandoned = false;
        loop {
            if is_paced {
                let elapsed = elapsed();
                for (flow, (_, stripe)) in self.flows.iter_mut().zip(carried()) {
                    let after =
                        |next| pacing_delay(stripe.bytes_per_s, next, striping.segment_bytes());
                    let sent = usize::from(flow.header.inline_bytes() > 0);
                    while flow.ready < flow.segments && after(sent + flow.ready) <= elapsed {
                        flow.ready += 1;
                    }
                }
            }
            // SAFETY: passed on from the caller.
            unsafe { self.forward(channel, call, buffer)? };
            let nothing_missing = self.transfers.is_empty() && acks_missing == 0;
            if nothing_missing && self.flows.iter().all(|flow| flow.is_passed_on(&self.children)) {
                let until_acked = options.leaf_acks.then(elapsed);
                self.starts.end();
                return Ok(Sent { until_acked, abandoned });
            }
            self.progress()?;
            let mut completed = std::mem::take(&mut self.completed);
            for (kind, _) in completed.drain(..) {
                match kind {
                    RequestKind::Ack => {
                        acks_missing -= 1;
                        if acks_missing > 0 {
                            self.expect_ack(channel, call)?;
                        }
                    }
                    RequestKind::ToChild { child } => self.children[child].in_flight -= 1,
                    RequestKind::Header | RequestKind::Segment { .. } | RequestKind::Sent => {}
                }
            }
            self.completed = completed;
            if !abandoned && options.abandon.as_mut().is_some_and(|abandon| abandon()) {
                abandoned = true;
                self.flows.iter_mut().for_each(|flow| flow.abandon(&self.children));
            }
        }
    }

    /// The root's part where it decides that this and the next broadcasts of the size class, in all
    /// `broadcasts`, are native: one header to every node. `report`: see [`Header::report`].
    ///
    /// # Errors
    /// Where MPI reports one.
    pub fn announce_native(
        &mut self,
        channel: &Channel,
        call: Call,
        total_bytes: u64,
        broadcasts: u32,
        report: u32,
    ) -> Result<(), BroadcastError> {
        self.begin();
        let header = Header {
            decision: Decision::Native { broadcasts },
            leaf_acks: false,
            is_tcp_paced: false,
            is_paced: false,
            report,
            stripe: 0,
            stripes: 1,
            root: call.root_node as u16,
            sequence: call.sequence,
            segment_bytes: 1,
            total_bytes,
            start: 0,
            len: 0,
        };
        // Along the connections that most MPIs' own short broadcasts make; a flat tree would connect every
        // root with every node.
        if let Ok(tree) = Tree::binomial(channel.nodes(), call.root_node) {
            let nothing = Buffer { data: std::ptr::null_mut(), len: 0 };
            // SAFETY: the header says that no bytes follow, so the buffer is not looked at.
            unsafe {
                self.open_flow(channel, call, header, tree.as_subtree(), None, nothing)?;
            }
        }
        while !self.transfers.is_empty() {
            self.progress()?;
            self.completed.clear();
        }
        Ok(())
    }

    fn expect_ack(&mut self, channel: &Channel, call: Call) -> Result<(), MpiError> {
        let tag = channel.tag(call.sequence, TAG_ACK);
        // SAFETY: a receive of no bytes touches no memory.
        unsafe {
            let nothing = (std::ptr::dangling_mut(), 0);
            self.transfers.receive(channel.comm(), nothing, (None, tag), RequestKind::Ack)
        }
    }
}
