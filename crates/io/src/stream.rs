//! Stream sockets: splitting the received octets into packets, and writing the waiting frames.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_host::closing::DeferredDescriptor;
use namely_link::stream::packet_octets;
use namely_wire::DecodeError;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::error::CloseReason;
use crate::faces::Handler;
use crate::kind::{ReadContext, Receiver};
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::sockets;

/// The TLV-TYPEs of Interest, Data and link packets. A stream begins with one of them.
const FIRST_OCTETS: [u8; 3] = [5, 6, 100];

/// Maximum descriptors of one message, by the system's limit.
const DESCRIPTORS_MAX: usize = 253;

/// Maximum slices of one write, by the system's limit.
const SLICES_MAX: usize = 1024;

/// Minimum space for one read. It holds the retained part of a packet, and a whole packet after it.
const READ_OCTETS_MIN: usize = 2 * namely_wire::LP_PACKET_OCTETS_MAX;

/// Maximum writes in one flush of a transport.
const WRITES_PER_TURN_MAX: usize = 8;

/// Packets of a stream in one turn, approximately.
///
/// The octets to read follow from the mean length of the packets of the turn before.
///
/// # Limit
/// The rest is read in the next turn, after the other faces.
/// - Tests: `the_read_size_follows_the_packet_size`,
///   `tiny_packets_get_no_longer_turns`
pub(crate) const PACKETS_PER_TURN: usize = 512;

/// The number of octets of a stream to read in a turn. It adapts to the length of packets, so that
/// tiny packets on a stream take no longer than datagrams do.
#[derive(Debug, Default)]
pub(crate) struct ReadBudget {
    /// The length of [`PACKETS_PER_TURN`] packets. 0 while it is unknown.
    octets: usize,
}

impl ReadBudget {
    /// Returns the number of octets to read, between `least` and `most`.
    pub(crate) fn octets(&self, least: usize, most: usize) -> usize {
        // `clamp` panics if its bounds are in the wrong order.
        self.octets.clamp(least.min(most), most)
    }

    /// Records the numbers of packets and octets that a turn read.
    pub(crate) fn learn(&mut self, packets: u64, octets: u64) {
        // A turn without a complete packet has no mean.
        if let Some(mean) = octets.checked_div(packets) {
            self.octets = (mean as usize).saturating_mul(PACKETS_PER_TURN);
        }
    }
}

/// The first octets of a packet that has not arrived completely.
#[derive(Debug, Default)]
pub(crate) struct PartialPacket {
    octets: Vec<u8>,
    pace: ReadBudget,
    /// Whether the stream must be closed if the next octet does not begin a packet.
    must_begin: bool,
}

impl PartialPacket {
    /// Reads once, and delivers the packets that are complete.
    pub(crate) fn read<H: Handler>(
        &mut self,
        socket: &impl StreamSocket,
        turn: &mut ReadContext<'_, H>,
        scratch: &mut [u8],
    ) -> Result<(), CloseReason> {
        let kept = self.octets.len();
        let most = turn.options().read_octets_per_turn.clamp(READ_OCTETS_MIN, scratch.len());
        let budget = self.pace.octets(READ_OCTETS_MIN, most);
        let (before, room) = scratch[..budget].split_at_mut(kept);
        // Copied in front of the new octets, because a packet must be contiguous.
        before.copy_from_slice(&self.octets);
        let octets = match socket.receive(room) {
            Ok(0) => return Err(CloseReason::Peer),
            Ok(arrived) => {
                // A full buffer may have left octets in the socket.
                turn.has_more = arrived == room.len();
                kept + arrived
            }
            // The socket stays watched, so an interrupted call is repeated in the next turn.
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(errno) => return Err(CloseReason::System(errno)),
        };
        let mut rest = &scratch[..octets];
        if let (true, Some(first)) = (self.must_begin, rest.first()) {
            // A web page can make a browser connect to any port, and it chooses the octets after
            // the head of the HTTP request. Such a connection must not act for the browser's user.
            if !FIRST_OCTETS.contains(first) {
                let error = DecodeError::UnexpectedType((*first).into());
                turn.count(error.label());
                return Err(CloseReason::BadStream(error));
            }
            self.must_begin = false;
        }
        let cut = loop {
            match packet_octets(rest) {
                Ok(Some(length)) => {
                    let (packet, after) = rest.split_at(length);
                    rest = after;
                    if !turn.deliver(None, packet) {
                        return Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.pace.learn(turn.frames, turn.octets);
        // The rest is retained here, because other sources reuse the worker's buffer.
        self.octets.clear();
        self.octets.extend_from_slice(rest);
        cut.map_err(|error| {
            turn.count(error.label());
            CloseReason::BadStream(error)
        })
    }
}

/// A connected socket from which octets are read.
pub(crate) trait StreamSocket: AsFd + Send + Sync + 'static {
    /// Reads the available octets without waiting.
    fn receive(&self, room: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(self, room, RecvFlags::DONTWAIT).map(|(arrived, _)| arrived)
    }
}

impl StreamSocket for OwnedFd {}

/// A socket on which the kernel does not refuse descriptors. They are received here, and a thread
/// closes them.
impl StreamSocket for DeferredDescriptor {
    fn receive(&self, room: &mut [u8]) -> Result<usize, Errno> {
        // The peer passes descriptors faster than the thread closes them, so the connection is
        // closed.
        if self.is_full() {
            return Err(Errno::MFILE);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(self, &mut [IoSliceMut::new(room)], &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptors.for_each(|descriptor| drop(self.like_this(descriptor)));
            }
        }
        Ok(received.bytes)
    }
}

/// The receiving half of a stream that the peer opened.
#[derive(Debug)]
pub(crate) struct StreamReceiver<S> {
    socket: Arc<S>,
    partial: PartialPacket,
}

impl<S: StreamSocket> StreamReceiver<S> {
    /// Makes both halves of a connection.
    pub(crate) fn pair(socket: S) -> (Box<Self>, Box<StreamSender<S>>) {
        let socket = Arc::new(socket);
        let sender = StreamSender::new(socket.clone());
        (Box::new(StreamReceiver { socket, partial: PartialPacket::default() }), Box::new(sender))
    }

    /// Makes both halves of a connection that is closed unless it begins with a packet.
    pub(crate) fn untrusted_pair(socket: S) -> (Box<Self>, Box<StreamSender<S>>) {
        let (mut receiver, sender) = Self::pair(socket);
        receiver.partial.must_begin = true;
        (receiver, sender)
    }
}

impl<H: Handler, S: StreamSocket> Receiver<H> for StreamReceiver<S> {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, scratch: &mut [u8]) -> Result<(), CloseReason> {
        self.partial.read(&*self.socket, turn, scratch)
    }
}

/// The sending half of a stream.
#[derive(Debug)]
pub(crate) struct StreamSender<S> {
    socket: Arc<S>,
}

impl<S> StreamSender<S> {
    pub(crate) fn new(socket: Arc<S>) -> Self {
        StreamSender { socket }
    }
}

impl<P: AsRef<[u8]>, S: StreamSocket> Sender<P> for StreamSender<S> {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return Ok(FlushProgress::All);
            }
            let slices = queue.slices(SLICES_MAX);
            let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
            match sockets::write(&*self.socket, &slices) {
                Ok(written) => {
                    sent.octets += written as u64;
                    sent.frames += queue.advance(written);
                    // The socket's buffer is full, so another write would fail.
                    if written < wanted {
                        return Ok(FlushProgress::Blocked);
                    }
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(FlushProgress::Blocked),
                Err(errno) => return Err(errno),
            }
        }
        Ok(if queue.is_empty() { FlushProgress::All } else { FlushProgress::Some })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_read_size_follows_the_packet_size() {
        let mut pace = ReadBudget::default();
        assert_eq!(pace.octets(READ_OCTETS_MIN, 256 << 10), READ_OCTETS_MIN);
        for (packets, octets, read) in
            [(10, 80_000, 256 << 10), (1000, 100_000, 51_200), (0, 0, 51_200), (600, 18_000, READ_OCTETS_MIN)]
        {
            pace.learn(packets, octets);
            assert_eq!(pace.octets(READ_OCTETS_MIN, 256 << 10), read);
        }
        assert_eq!(pace.octets(READ_OCTETS_MIN, 100), 100);
    }
}
