//! What a kind of face brings to send by.

use std::os::fd::BorrowedFd;

use crate::drops::DropCounters;
use rustix::io::Errno;

use crate::queue::FrameQueue;

/// The sending half of a transport. Any worker calls it, one at a time.
pub(crate) trait Sender<P>: Send {
    /// Writes frames from the front of the queue, as far as they are taken now, and pops what was
    /// taken or had to be dropped. It never waits.
    ///
    /// # Errors
    /// The transport can go on no more.
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno>;

    /// What becomes writable when more is taken; `None` if the receiving half notices that and
    /// flushes the port itself.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Returns true if the receiving half watches the same descriptor.
    fn shares_descriptor(&self) -> bool {
        true
    }
}

/// How far a queue was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Nothing is left.
    All,
    /// More can be written in the next turn.
    Some,
    /// No more is taken now.
    Blocked,
    /// The device did not take the first frame, and nothing tells when it will.
    Refused,
}

/// What one flush did.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub(crate) frames: u64,
    pub(crate) octets: u64,
    pub(crate) drops: DropCounters,
    /// The longest frame that reaches the peer in one piece, octets, when it has become another
    /// one.
    pub(crate) path_octets: Option<usize>,
}
