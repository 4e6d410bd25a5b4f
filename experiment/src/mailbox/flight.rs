//! Single messages on their way: MPI's non-blocking requests together with the memory that they read or
//! write, which has to stay in place until they are done.

use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use std::mem::ManuallyDrop;
use std::rc::Rc;

/// A request that may be left alone where the job ends before it is done: the memory is left to it then.
type Open = ManuallyDrop<Request<'static, [u8]>>;

/// Asks once whether a request is done, and keeps it if it is not.
fn poll(request: &mut Option<Open>) {
    if let Some(open) = request.take()
        && let Err(still) = ManuallyDrop::into_inner(open).test()
    {
        *request = Some(ManuallyDrop::new(still));
    }
}

/// A message that goes out.
pub struct Going {
    request: Option<Open>,
    bytes: Rc<[u8]>,
    /// This message's part of the memory of its bytes, which others may share.
    pub share_bytes: usize,
}

impl Going {
    pub fn start(
        comm: &SimpleCommunicator,
        to: i32,
        tag: i32,
        bytes: Rc<[u8]>,
        share_bytes: usize,
    ) -> Self {
        // SAFETY: the bytes stay where they are and are not written to while an Rc of them lives; this
        // value has one, and leaks it where the request is not done.
        let lasting: &'static [u8] = unsafe { &*Rc::as_ptr(&bytes) };
        let request = comm.process_at_rank(to).immediate_send_with_tag(StaticScope, lasting, tag);
        Going { request: Some(ManuallyDrop::new(request)), bytes, share_bytes }
    }

    /// The MPI needs the bytes no more.
    pub fn is_done(&mut self) -> bool {
        poll(&mut self.request);
        self.request.is_none()
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if self.request.is_some() {
            std::mem::forget(self.bytes.clone());
        }
    }
}

/// A message that comes in.
pub struct Coming {
    pub from: i32,
    request: Option<Open>,
    /// Of a box that was leaked; this value's own again once the request is done.
    bytes: *mut [u8],
}

impl Coming {
    /// Begins to receive the message of `len` bytes that a probe has found.
    pub fn start(comm: &SimpleCommunicator, from: i32, tag: i32, len: usize) -> Self {
        let bytes = Box::into_raw(vec![0u8; len].into_boxed_slice());
        // SAFETY: a leaked box, to which nothing else refers until the request is done.
        let lasting: &'static mut [u8] = unsafe { &mut *bytes };
        let sender = comm.process_at_rank(from);
        let request = sender.immediate_receive_into_with_tag(StaticScope, lasting, tag);
        Coming { from, request: Some(ManuallyDrop::new(request)), bytes }
    }

    pub fn look(&mut self) {
        poll(&mut self.request);
    }

    pub fn is_whole(&self) -> bool {
        self.request.is_none()
    }

    /// Sender and bytes of a message that is whole.
    pub fn into_message(self) -> Option<(i32, Box<[u8]>)> {
        let coming = ManuallyDrop::new(self);
        // SAFETY: the request is done, so nothing else refers to the bytes; this value is not dropped.
        coming.is_whole().then(|| (coming.from, unsafe { Box::from_raw(coming.bytes) }))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if self.is_whole() {
            // SAFETY: as in `into_message`, which is the other way to end a value.
            drop(unsafe { Box::from_raw(self.bytes) });
        }
    }
}
