//! What a kind of face must bring: two halves of a transport, and where peers can connect, an acceptor.

use std::os::fd::BorrowedFd;

use namely_wire::face_uri::FaceUri;
use rustix::io::Errno;

use crate::error::CloseReason;
use crate::options::Persistency;
use crate::port::{Sent, TransportState};
use crate::queue::FrameQueue;
use crate::transport::{Carrier, Credentials, Reach};
use crate::turn::{AcceptTurn, Turn};

/// The receiving half of a transport. It belongs to one worker, which calls it when its descriptor is ready.
pub(crate) trait Receiver<P>: Send {
    /// What is watched for packets; none while there is nothing to watch.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Reads what has arrived, within the budget of a turn, and delivers its frames. `scratch` is the worker's
    /// buffer, longer than any datagram; what must be kept until the next turn is kept elsewhere.
    ///
    /// # Errors
    /// Why the transport can go on no more.
    fn read(&mut self, turn: &mut Turn<'_, P>, scratch: &mut [u8]) -> Result<(), CloseReason>;

    /// The descriptor is ready and the transport is not up: connecting came to its end.
    ///
    /// # Errors
    /// Why it failed.
    fn connected(&mut self, _turn: &mut Turn<'_, P>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// The time that was set by [`Turn::set_timer`] has come.
    ///
    /// # Errors
    /// Why the transport can go on no more.
    fn on_timer(&mut self, _turn: &mut Turn<'_, P>) -> Result<(), CloseReason> {
        Ok(())
    }

    /// The transport failed and is permanent. True if it will come back by itself: it is then down, not closed.
    fn take_down(&mut self, _turn: &mut Turn<'_, P>) -> bool {
        false
    }
}

/// The sending half of a transport. Any worker calls it, one at a time.
pub(crate) trait Sender<P>: Send {
    /// Writes frames from the front of the queue, as far as they are taken now, and pops what was taken or had to be
    /// dropped. It never waits.
    ///
    /// # Errors
    /// The transport can go on no more.
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno>;

    /// What becomes writable when more is taken; none if the receiving half notices that (and calls
    /// [`Turn::flush`]).
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Whether the receiving half watches the same descriptor.
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
}

/// A listener: what makes transports when peers come. It belongs to the first worker.
pub(crate) trait Acceptor<P>: Send {
    /// What is watched for peers.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Takes up peers that came, within the budget of a turn.
    fn accept(&mut self, turn: &mut AcceptTurn<'_, P>, scratch: &mut [u8]);
}

/// A transport that was opened and is not served by a worker yet.
pub(crate) struct NewTransport<P> {
    pub(crate) receiver: Box<dyn Receiver<P>>,
    pub(crate) sender: Box<dyn Sender<P>>,
    pub(crate) about: About,
    pub(crate) local: FaceUri,
    pub(crate) persistency: Persistency,
    pub(crate) state: TransportState,
}

/// What is known of a transport and does not change.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// The far end.
    pub(crate) remote: FaceUri,
    /// Who is there.
    pub(crate) reach: Reach,
    /// What carries its frames.
    pub(crate) carrier: Carrier,
    /// The longest frame that the link carried when the transport was opened, octets; none where only the
    /// configuration can tell.
    pub(crate) mtu: Option<usize>,
    /// The longest frame that reached the peer in one piece then, octets; none where there is no telling.
    pub(crate) path_octets: Option<usize>,
    /// The peer's user, where the system tells it.
    pub(crate) credentials: Option<Credentials>,
    /// Inode of a datagram socket, by which the kernel's drops are found.
    pub(crate) socket_inode: Option<u64>,
    /// An on-demand transport goes when nothing arrived for this long, ns.
    pub(crate) idle_ns: Option<u64>,
    /// Why a transport of this kind cannot have a persistency.
    pub(crate) refuses: fn(Persistency) -> Option<&'static str>,
}
