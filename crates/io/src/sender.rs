//! The sending interface that each kind of face implements.

use std::os::fd::BorrowedFd;

use crate::drops::DropCounters;
use rustix::io::Errno;

use crate::queue::FrameQueue;

/// The sending half of a transport. Any worker calls it, one at a time.
pub(crate) trait Sender<P>: Send {
    /// Writes frames from the front of the queue as far as the socket accepts them now, and pops
    /// the frames that were accepted or had to be dropped. It never blocks.
    ///
    /// # Errors
    /// The transport must end.
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno>;

    /// Returns the descriptor that becomes writable when the socket accepts more. Returns `None` if
    /// no descriptor reports this, and the kind of face flushes the port itself.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Returns true if the receiving half watches the same descriptor.
    fn shares_descriptor(&self) -> bool {
        true
    }
}

/// The progress of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushProgress {
    /// The queue is empty.
    All,
    /// Frames are left, and more can be written in the next turn.
    Some,
    /// The socket accepts no more now.
    Blocked,
    /// The device refused the first frame, and no event reports when it will accept it.
    Refused,
}

/// The results of one flush.
#[derive(Debug, Default)]
pub(crate) struct FlushReport {
    pub(crate) frames: u64,
    pub(crate) octets: u64,
    pub(crate) drops: DropCounters,
    /// The longest frame that reaches the peer in one piece, octets, if it has changed.
    pub(crate) path_octets: Option<usize>,
}
