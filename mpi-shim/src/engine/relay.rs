//! A relay's or a leaf's part of a broadcast.

use super::channel::TAG_HEADER;
use super::{Arrived, BroadcastError, Buffer, Call, Channel, Engine, Meaning};
use crate::header::{self, Decision, Header, InvalidHeader};
use crate::raw::{MpiError, Received};
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
        self.inbox.resize(header::max_bytes(channel.nodes()), 0);
        self.expect_header(channel, call)?;
        let mut headers_missing = 1;
        let mut decision = Decision::Trees;
        let (mut tests, mut listened_late) = (0u64, false);
        loop {
            // SAFETY: passed on from the caller.
            unsafe { self.forward(channel, call, buffer)? };
            if self.transfers.is_empty() && headers_missing == 0 {
                let abandoned = self.flows.iter().any(|flow| flow.abandoned_at.is_some());
                return Ok(Arrived { decision, abandoned, listened_late });
            }
            self.progress()?;
            tests += 1;
            watch();
            let mut completed = std::mem::take(&mut self.completed);
            for (meaning, received) in completed.drain(..) {
                match meaning {
                    Meaning::Header => {
                        // SAFETY: passed on from the caller.
                        let header = unsafe { self.take_header(channel, call, received, buffer)? };
                        listened_late |= tests == 1;
                        decision = header.decision;
                        headers_missing = usize::from(header.stripes) - self.flows.len();
                        if headers_missing > 0 {
                            self.expect_header(channel, call)?;
                        }
                    }
                    Meaning::Segment { stripe, index } => {
                        if let Some(flow) = self.flow(stripe) {
                            flow.take(index, received);
                        }
                    }
                    Meaning::ToChild { stripe, child } => {
                        if let Some(flow) = self.flow(stripe) {
                            flow.children[child].in_flight -= 1;
                        }
                    }
                    Meaning::Ack | Meaning::Sent => {}
                }
            }
            self.completed = completed;
        }
    }

    fn expect_header(&mut self, channel: &Channel, call: Call) -> Result<(), MpiError> {
        let tag = channel.tag(call.sequence, TAG_HEADER);
        let inbox = (self.inbox.as_mut_ptr(), self.inbox.len());
        // SAFETY: at most one header is expected at a time, and until it is there nothing else
        // touches the inbox.
        unsafe { self.transfers.receive(channel.comm, inbox, (None, tag), Meaning::Header) }
    }

    /// A header has arrived in the inbox: takes over a short stripe and passes the header on.
    ///
    /// # Safety
    /// As for [`Engine::receive`].
    unsafe fn take_header(
        &mut self,
        channel: &Channel,
        call: Call,
        received: Received,
        buffer: Buffer,
    ) -> Result<Header, BroadcastError> {
        let mut subtree = std::mem::take(&mut self.subtree);
        let bytes = &self.inbox[..received.bytes];
        let (header, data_start) = Header::read(bytes, &mut subtree)?;
        if header.total_bytes != buffer.len as u64 {
            return Err(BroadcastError::Length {
                root: header.total_bytes,
                here: buffer.len as u64,
            });
        }
        let (nodes, sizes) = subtree.split_at(subtree.len() / 2);
        if let Some(&node) = nodes.iter().find(|&&node| usize::from(node) >= channel.nodes()) {
            return Err(BroadcastError::Node(node.into()));
        }
        let inline = &bytes[data_start..];
        if !inline.is_empty() {
            // SAFETY: `Header::read` has checked that start + len lies within the total, which is
            // the buffer's length; the inbox is memory of our own.
            unsafe {
                let to = buffer.data.add(header.start as usize);
                std::ptr::copy_nonoverlapping(inline.as_ptr(), to, inline.len());
            }
        }
        let own = Subtree::new(nodes, sizes).map_err(InvalidHeader::from)?;
        // SAFETY: passed on from the caller.
        unsafe { self.open_flow(channel, call, header, own, Some(received.source), buffer)? };
        self.subtree = subtree;
        Ok(header)
    }
}
