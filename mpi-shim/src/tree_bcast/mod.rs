//! One broadcast over a plan: what a root and a relay do until their part is done.
//!
//! Every node of a stripe's tree but the root receives one header (from any source: only the sender
//! knows the tree) and then the stripe's segments from the same source, and passes both on to its
//! children as they come; so do the ranks of a node among themselves. Everything is non-blocking; a
//! rank works on all its stripes at once and sends the lowest segments first, so that no stripe
//! starves another.
//!
//! A header says which broadcast it belongs to. One that overtakes an earlier broadcast on its way from
//! a different parent is kept for later, so that it cannot be taken for the other however few tags
//! the MPI has. The rest of a stripe comes from the header's source, and within one tag MPI keeps the
//! order of two messages between the same pair, which is what numbers the segments.
//!
//! A root that gives up in the middle sends empty segments in place of as many of the next ones as
//! a receiver may be waiting for; since a segment is never empty otherwise, relays know.

mod channel;
mod flow;
mod relay;
mod root;

pub use channel::{Carrier, Channel};

use crate::backoff::Backoff;
use crate::delivery::{self, NativeWitness};
use crate::header::{Decision, Header, InvalidHeader};
use crate::host_tcp::{Start, Starts};
use crate::pmpi::{MpiError, Received, Transfers};
use arborcast_proto::{DeliveryReport, StripeDelivery, Subtree, Target, monotonic_ns};
use channel::{TAG_ACK, TAG_FIRST_STRIPE, TAG_HEADER};
use flow::{Child, Flow};
use std::ffi::c_int;
use std::time::Duration;

/// Receives posted ahead for each stripe. Part of the protocol: it is also how many empty segments
/// stand for an abandoned rest.
const MAX_RECV_REQUESTS: usize = 16;
/// Sends in flight to each child of each stripe.
const MAX_SEND_REQUESTS: usize = 8;

/// Why a broadcast could not be carried out. The ranks are out of step afterwards.
#[derive(Debug, thiserror::Error)]
pub enum BroadcastError {
    #[error(transparent)]
    Mpi(#[from] MpiError),
    #[error("a message that does not belong to this broadcast: {0}")]
    Header(#[from] InvalidHeader),
    #[error("the root broadcasts {root} bytes, this rank expects {here}")]
    Length { root: u64, here: u64 },
    #[error("a header names node {0}, which the group does not have")]
    Node(usize),
    #[error("no memory for {0} bytes of a message")]
    Memory(u64),
}

/// A broadcast among all the others on its channel.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Counts the broadcasts of a channel, from a number that no other channel of its carrier comes near to; equal on
    /// all ranks.
    pub sequence: u64,
    pub root_node: usize,
    pub root_rank: c_int,
}

/// A buffer of bytes. The pointer is not looked at where `len` is 0.
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    pub data: *mut u8,
    pub len: usize,
}

/// What the root learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sent {
    /// From the root's start until it had the ACKs of all leaves; `None` without ACKs.
    pub until_acked: Option<Duration>,
    pub abandoned: bool,
}

/// What a relay or leaf learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    pub decision: Decision,
    /// The root gave up; the buffer holds only part of the message.
    pub abandoned: bool,
    /// The first header was there before this rank listened: a time taken by the root may be longer
    /// for it.
    pub listened_late: bool,
}

/// How the root is to broadcast.
pub struct Options<'a> {
    pub leaf_acks: bool,
    /// See [`Header::report`].
    pub report: u32,
    /// Asked between segments; true makes the root give up.
    pub abandon: Option<&'a mut dyn FnMut() -> bool>,
}

#[derive(Debug, Clone, Copy)]
enum RequestKind {
    Header,
    Ack,
    Segment {
        stripe: usize,
        index: usize,
    },
    ToChild {
        child: usize,
    },
    /// A send that nothing waits for but its completion.
    Sent,
}

/// The state of one broadcast, with storage that is kept from one to the next.
#[derive(Default)]
pub struct Engine {
    transfers: Transfers<RequestKind>,
    completed: Vec<(RequestKind, Received)>,
    flows: Vec<Flow>,
    /// Those of all flows, one flow's after the other's.
    children: Vec<Child>,
    /// Where a header is received.
    inbox: Vec<u8>,
    /// Headers on their way to children.
    outbox: Vec<Vec<u8>>,
    /// How many entries of `outbox` this broadcast uses.
    outbox_used: usize,
    subtree: Vec<u16>,
    /// Where a message goes that is longer or shorter than what this rank expects.
    misfit: Vec<u8>,
    backoff: Backoff,
    /// The number under which this broadcast is reported on, and what [`delivery::processor_wait_ns`] said at
    /// its beginning.
    report: Option<(u32, u64)>,
    /// See [`Arrived::listened_late`].
    listened_late: bool,
    starts: Starts,
}

impl Engine {
    fn begin(&mut self) {
        self.flows.clear();
        self.children.clear();
        self.outbox_used = 0;
        self.report = None;
        self.listened_late = false;
    }

    /// After an error: nothing of ours writes to a buffer of the program's any more.
    pub fn give_up(&mut self) {
        self.transfers.give_up();
        self.starts.end();
        // Sends cannot be taken back: what they read must stay.
        std::mem::forget(std::mem::take(&mut self.outbox));
        std::mem::forget(std::mem::take(&mut self.misfit));
    }

    /// What this node saw of the broadcast of this target that has just ended here, where its root asks for
    /// reports and did not give up, and this rank took part for its node.
    pub fn report(&self, channel: &Channel, call: Call, target: Target) -> Option<DeliveryReport> {
        let (number, began_wait_ns) = self.report?;
        let is_acknowledged = |flow: &Flow| flow.parent.is_none() && flow.header.leaf_acks;
        let is_whole = self.flows.iter().all(|flow| flow.abandoned_at.is_none());
        if !is_whole || !channel.is_in_tree(call.root_rank) {
            return None;
        }
        let (own_node, now_ns) = (channel.own_node(), monotonic_ns());
        let stripe = |flow: &Flow| {
            let (from, last_ns) = match flow.parent {
                Some(rank) => (channel.node_of(rank) as u16, flow.last_ns),
                None => (own_node, now_ns),
            };
            let Header { stripe, len: bytes, .. } = flow.header;
            StripeDelivery { stripe, from, bytes, first_ns: flow.first_ns, last_ns }
        };
        Some(DeliveryReport {
            target,
            bytes: self.flows.first()?.header.total_bytes,
            broadcast: number,
            is_native: false,
            node: own_node,
            listened_late: self.listened_late,
            acknowledged: self.flows.iter().any(is_acknowledged),
            processor_wait_ns: delivery::processor_wait_ns().saturating_sub(began_wait_ns),
            stripes: self.flows.iter().map(stripe).collect(),
        })
    }

    /// For the broadcast that the MPI is to carry now, where its root asks for reports and this rank takes part for its
    /// node, which is another.
    pub fn native_witness(
        &self,
        channel: &Channel,
        call: Call,
        target: Target,
    ) -> Option<NativeWitness> {
        let (number, _) = self.report.filter(|_| channel.is_in_tree(call.root_rank))?;
        let &Flow { ref header, parent, first_ns: announced_ns, .. } = self.flows.first()?;
        let from = channel.node_of(parent?) as u16;
        let (bytes, node) = (header.total_bytes, channel.own_node());
        Some(NativeWitness { target, bytes, number, from, node, announced_ns })
    }

    fn flow(&mut self, stripe: usize) -> Option<&mut Flow> {
        self.flows.iter_mut().find(|flow| usize::from(flow.header.stripe) == stripe)
    }

    /// Waits a moment, or until something has completed.
    fn progress(&mut self) -> Result<(), MpiError> {
        self.transfers.test(&mut self.completed)?;
        self.starts.go_on();
        self.backoff.after_poll(!self.completed.is_empty());
        Ok(())
    }

    /// Starts a stripe at this node: its header goes to every child at once, with the first segment where
    /// that is short.
    ///
    /// # Safety
    /// `buffer` must be valid for reading where the header says that bytes follow.
    unsafe fn open_flow(
        &mut self,
        channel: &Channel,
        call: Call,
        header: Header,
        own: Subtree<'_>,
        parent: Option<c_int>,
        buffer: Buffer,
    ) -> Result<(), BroadcastError> {
        let first_child = self.children.len();
        let tag = channel.tag(call.sequence, TAG_HEADER);
        let is_in_tree = channel.is_in_tree(call.root_rank);
        let is_leaf = own.children().next().is_none();
        // Ranks of this node have no part in the tree: their subtree is the node alone.
        let (itself, alone) = ([channel.own_node()], [1]);
        let alone = Subtree::new(&itself, &alone).map_err(InvalidHeader::from)?;
        let nodes = own.children().map(|child| (channel.leader(child.root()), child));
        let ranks = channel.local_children(call.root_rank).map(|rank| (rank, alone));
        let start = match (header.is_tcp_paced, header.is_paced) {
            (true, _) => Some(Start::Paced),
            (false, true) => Some(Start::WithoutHyStart),
            (false, false) => None,
        };
        for (rank, child) in nodes.chain(ranks) {
            if let Some(start) = start {
                self.starts.expect((channel.comm(), rank), start);
            }
            let slot = self.outbox_used;
            if slot == self.outbox.len() {
                self.outbox.push(Vec::new());
            }
            self.outbox_used += 1;
            let message = &mut self.outbox[slot];
            message.clear();
            header.write(child, message);
            let inline_bytes = header.inline_bytes();
            if inline_bytes > 0 {
                // SAFETY: the stripe lies within the buffer, which is valid by the caller; a relay
                // has just copied these bytes there.
                message.extend_from_slice(unsafe {
                    let from = buffer.data.add(header.start as usize);
                    std::slice::from_raw_parts(from, inline_bytes)
                });
            }
            let bytes = (message.as_ptr(), message.len());
            // SAFETY: this entry of the outbox is not touched again before the next broadcast, which
            // starts only when all transfers of this one have completed.
            unsafe { self.transfers.send(channel.comm(), bytes, (rank, tag), RequestKind::Sent)? };
            self.children.push(Child { rank, sent: 0, in_flight: 0 });
        }
        let mut now_ns = 0;
        if header.report != 0 {
            now_ns = monotonic_ns();
            self.report.get_or_insert_with(|| (header.report, delivery::processor_wait_ns()));
        }
        let segments = header.segments();
        let acknowledges = header.leaf_acks && parent.is_some() && is_in_tree && is_leaf;
        self.flows.push(Flow {
            header,
            parent,
            children: first_child..self.children.len(),
            segments,
            ready: if parent.is_none() { segments } else { 0 },
            posted: 0,
            received: 0,
            early: 0,
            abandoned_at: None,
            acknowledged: !acknowledges,
            first_ns: now_ns,
            last_ns: now_ns,
        });
        Ok(())
    }

    /// Posts every receive and send that can be posted now: for each stripe the next receives, then
    /// sends in rounds, one segment to each child of each stripe a round, children in their order.
    ///
    /// # Safety
    /// As for [`Engine::send`] and [`Engine::receive`].
    unsafe fn forward(
        &mut self,
        channel: &Channel,
        call: Call,
        buffer: Buffer,
    ) -> Result<(), BroadcastError> {
        for flow in &mut self.flows {
            let stripe = usize::from(flow.header.stripe);
            let tag = channel.tag(call.sequence, TAG_FIRST_STRIPE + stripe as u32);
            while let Some(parent) = flow.parent {
                if flow.posted >= flow.messages()
                    || flow.posted >= flow.received + MAX_RECV_REQUESTS
                {
                    break;
                }
                let (offset, len) = flow.segment(flow.posted);
                // SAFETY: the segment lies within the stripe and so within the buffer; each segment
                // is received once and read only after it has come.
                unsafe {
                    let to = (buffer.data.add(offset), len);
                    let kind = RequestKind::Segment { stripe, index: flow.posted };
                    self.transfers.receive(channel.comm(), to, (Some(parent), tag), kind)?;
                }
                flow.posted += 1;
            }
            if !flow.acknowledged && flow.received_all() {
                flow.acknowledged = true;
                let tag = channel.tag(call.sequence, TAG_ACK);
                // SAFETY: a send of no bytes touches no memory.
                unsafe {
                    let nothing = (std::ptr::dangling(), 0);
                    let to = (call.root_rank, tag);
                    self.transfers.send(channel.comm(), nothing, to, RequestKind::Sent)?;
                }
            }
        }
        loop {
            let mut sent_any = false;
            for flow in &mut self.flows {
                let stripe = usize::from(flow.header.stripe);
                let tag = channel.tag(call.sequence, TAG_FIRST_STRIPE + stripe as u32);
                let (messages, abandoned_at) = (flow.messages(), flow.abandoned_at);
                let gave_up = abandoned_at.is_some_and(|at| flow.ready >= at);
                let ready = if gave_up { messages } else { flow.ready };
                for child in flow.children.clone() {
                    let Child { rank, sent, in_flight } = self.children[child];
                    if sent >= ready || in_flight >= MAX_SEND_REQUESTS {
                        continue;
                    }
                    let (offset, len) = flow.segment(sent);
                    let len = if abandoned_at.is_some_and(|at| sent >= at) { 0 } else { len };
                    // SAFETY: the segment lies within the buffer; at a relay it has come, and
                    // nobody writes to it again.
                    unsafe {
                        let from = (buffer.data.cast_const().add(offset), len);
                        let kind = RequestKind::ToChild { child };
                        self.transfers.send(channel.comm(), from, (rank, tag), kind)?;
                    }
                    self.children[child].sent += 1;
                    self.children[child].in_flight += 1;
                    sent_any = true;
                }
            }
            if !sent_any {
                return Ok(());
            }
        }
    }
}
