//! A relay's or a leaf's part of a broadcast.

use super::channel::{EarlyHeader, TAG_HEADER};
use super::{Arrived, BroadcastError, Buffer, Call, Channel, Engine, RequestKind};
use crate::header::{Decision, Header, InvalidHeader, sequence_of};
use crate::pmpi::{MpiError, Received};
use arborcast_proto::Subtree;

impl Engine {
    /// A relay's or a leaf's part of a broadcast. `watch` is called again and again while it waits.
    ///
    /// # Errors
    /// Where MPI reports one, or what comes is not this broadcast.
    ///
    /// # Safety
    /// `buffer` must be valid for writing, and nobody else may look at it, until this returns. After
    /// an error, requests may still be in flight: the buffer must then stay valid until MPI is
    /// finalised.
    pub unsafe fn receive(
        &mut self,
        channel: &Channel,
        call: Call,
        buffer: Buffer,
        watch: &mut dyn FnMut(),
    ) -> Result<Arrived, BroadcastError> {
        self.begin();
        let mut taken = buffer;
        let mut headers_missing = 1;
        let mut decision = Decision::Trees;
        let (mut tests, mut listened_late) = (0u64, false);
        let mut is_expecting = false;
        loop {
            while headers_missing > 0 && !is_expecting {
                let Some(early) = channel.take_early(call.sequence) else {
                    self.expect_header(channel, call)?;
                    is_expecting = true;
                    break;
                };
                listened_late = true;
                // SAFETY: passed on from the caller, or memory of ours.
                let header = unsafe { self.take_header(channel, call, early, &mut taken)? };
                decision = header.decision;
                headers_missing = usize::from(header.stripes).saturating_sub(self.flows.len());
            }
            // SAFETY: passed on from the caller.
            unsafe { self.forward(channel, call, taken)? };
            if self.transfers.is_empty() && headers_missing == 0 {
                if taken.len != buffer.len {
                    // SAFETY: passed on from the caller.
                    unsafe { self.keep_what_fits(buffer) };
                    let (root, here) = (taken.len as u64, buffer.len as u64);
                    return Err(BroadcastError::Length { root, here });
                }
                self.listened_late = listened_late;
                self.starts.end();
                let abandoned = self.flows.iter().any(|flow| flow.abandoned_at.is_some());
                return Ok(Arrived { decision, abandoned, listened_late });
            }
            self.progress()?;
            tests += 1;
            watch();
            let mut completed = std::mem::take(&mut self.completed);
            for (kind, received) in completed.drain(..) {
                match kind {
                    RequestKind::Header => {
                        is_expecting = false;
                        let message = std::mem::take(&mut self.inbox);
                        let Received { source, bytes } = received;
                        let arrived = EarlyHeader { source, bytes, message };
                        if sequence_of(arrived.bytes())? != call.sequence {
                            channel.keep_early(arrived);
                            continue;
                        }
                        listened_late |= tests == 1;
                        // SAFETY: passed on from the caller, or memory of ours.
                        let header =
                            unsafe { self.take_header(channel, call, arrived, &mut taken)? };
                        decision = header.decision;
                        headers_missing =
                            usize::from(header.stripes).saturating_sub(self.flows.len());
                    }
                    RequestKind::Segment { stripe, index } => {
                        if let Some(flow) = self.flow(stripe) {
                            flow.take(index, received);
                        }
                    }
                    RequestKind::ToChild { child } => self.children[child].in_flight -= 1,
                    RequestKind::Ack | RequestKind::Sent => {}
                }
            }
            self.completed = completed;
        }
    }

    fn expect_header(&mut self, channel: &Channel, call: Call) -> Result<(), MpiError> {
        let tag = channel.tag(call.sequence, TAG_HEADER);
        self.inbox.resize(channel.most_header_bytes(), 0);
        let inbox = (self.inbox.as_mut_ptr(), self.inbox.len());
        // SAFETY: at most one header is expected at a time, and until it is there nothing else
        // touches the inbox.
        unsafe { self.transfers.receive(channel.comm(), inbox, (None, tag), RequestKind::Header) }
    }

    /// A header of this broadcast has arrived: takes over what came inside and passes the header on.
    ///
    /// What the root sends decides. Where it is not what this rank expects, `buffer` becomes memory of
    /// ours, so that the message is taken in and passed on whole before that is an error.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    unsafe fn take_header(
        &mut self,
        channel: &Channel,
        call: Call,
        arrived: EarlyHeader,
        buffer: &mut Buffer,
    ) -> Result<Header, BroadcastError> {
        let mut subtree = std::mem::take(&mut self.subtree);
        let bytes = arrived.bytes();
        let (header, data_start) = Header::read(bytes, &mut subtree)?;
        if header.decision == Decision::Trees && header.total_bytes != buffer.len as u64 {
            *buffer = self.misfit_of(header.total_bytes)?;
        }
        let (nodes, sizes) = subtree.split_at(subtree.len() / 2);
        if let Some(&node) = nodes.iter().find(|&&node| usize::from(node) >= channel.nodes()) {
            return Err(BroadcastError::Node(node.into()));
        }
        let inline = &bytes[data_start..];
        if !inline.is_empty() {
            // SAFETY: `Header::read` has checked that start + len lies within the total, which is
            // the buffer's length; the message is memory of our own.
            unsafe {
                let to = buffer.data.add(header.start as usize);
                std::ptr::copy_nonoverlapping(inline.as_ptr(), to, inline.len());
            }
        }
        let own = Subtree::new(nodes, sizes).map_err(InvalidHeader::from)?;
        // SAFETY: passed on from the caller.
        unsafe { self.open_flow(channel, call, header, own, Some(arrived.source), *buffer)? };
        self.subtree = subtree;
        self.inbox = arrived.message;
        Ok(header)
    }

    fn misfit_of(&mut self, bytes: u64) -> Result<Buffer, BroadcastError> {
        let too_long = |_| BroadcastError::Memory(bytes);
        let len = usize::try_from(bytes).map_err(too_long)?;
        self.misfit.clear();
        self.misfit.try_reserve_exact(len).map_err(|_| BroadcastError::Memory(bytes))?;
        self.misfit.resize(len, 0);
        Ok(Buffer { data: self.misfit.as_mut_ptr(), len })
    }

    /// As much of a message of another length as there is room for.
    ///
    /// # Safety
    /// `buffer` must be writable.
    unsafe fn keep_what_fits(&mut self, buffer: Buffer) {
        let misfit = std::mem::take(&mut self.misfit);
        let len = misfit.len().min(buffer.len);
        // SAFETY: both have `len` bytes.
        unsafe { std::ptr::copy_nonoverlapping(misfit.as_ptr(), buffer.data, len) };
    }
}
