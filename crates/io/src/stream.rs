//! Streams: cutting what arrives into packets, and writing what waits.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use namely_host::closing::Entrusted;
use namely_link::stream::packet_octets;
use namely_wire::DecodeError;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::error::CloseReason;
use crate::faces::Handler;
use crate::kind::{ReadContext, Receiver};
use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sender, Sent};
use crate::sockets;

/// The TLV-TYPEs of Interest, Data and link packets, with which streams begin.
const FIRST_OCTETS: [u8; 3] = [5, 6, 100];

/// Descriptors of one message: the system's limit.
const DESCRIPTORS_MAX: usize = 253;

/// Slices of one write: the system's limit.
const SLICES_MAX: usize = 1024;

/// Least octets read at once: a whole packet must fit behind the part of one that was kept.
const READ_OCTETS_MIN: usize = 2 * namely_wire::LP_PACKET_OCTETS_MAX;

/// Writes of one transport in one turn.
const WRITES_PER_TURN_MAX: usize = 8;

/// Packets that a stream gives in one turn, about: how much is read follows from how long its
/// packets were in the turn before.
pub(crate) const PACKETS_PER_TURN: usize = 512;

/// How much of a stream is read in a turn, so that tiny packets do not make turns longer than
/// datagrams do.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// What [`PACKETS_PER_TURN`] packets take; 0 while nothing is known of them.
    octets: usize,
}

impl Pace {
    /// Octets to read, between `least` and `most`.
    pub(crate) fn octets(&self, least: usize, most: usize) -> usize {
        self.octets.clamp(least.min(most), most)
    }

    /// Records that a turn read so many packets and octets.
    pub(crate) fn learn(&mut self, packets: u64, octets: u64) {
        if let Some(mean) = octets.checked_div(packets) {
            self.octets = (mean as usize).saturating_mul(PACKETS_PER_TURN);
        }
    }
}

/// The beginning of a packet whose end has not arrived; less than one packet.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    octets: Vec<u8>,
    pace: Pace,
    /// Whether the stream ends unless the octet that comes next begins a packet.
    must_begin: bool,
}

impl Partial {
    /// Reads once, and delivers the packets that are complete.
    pub(crate) fn read<H: Handler>(
        &mut self,
        socket: &impl Incoming,
        turn: &mut ReadContext<'_, H>,
        scratch: &mut [u8],
    ) -> Result<(), CloseReason> {
        let kept = self.octets.len();
        let most = turn.options().read_octets_per_turn.clamp(READ_OCTETS_MIN, scratch.len());
        let budget = self.pace.octets(READ_OCTETS_MIN, most);
        let (before, room) = scratch[..budget].split_at_mut(kept);
        before.copy_from_slice(&self.octets);
        let octets = match socket.receive(room) {
            Ok(0) => return Err(CloseReason::Peer),
            Ok(arrived) => {
                turn.has_more = arrived == room.len();
                kept + arrived
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Err(errno) => return Err(CloseReason::System(errno)),
        };
        let mut rest = &scratch[..octets];
        if let (true, Some(first)) = (self.must_begin, rest.first()) {
            // A web browser can be made to connect to any port, and what it sends after the head
            // of its request is another's choice: it must not speak for its user.
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
        self.octets.clear();
        self.octets.extend_from_slice(rest);
        cut.map_err(|error| {
            turn.count(error.label());
            CloseReason::BadStream(error)
        })
    }
}

/// A connected socket that octets come from.
pub(crate) trait Incoming: AsFd + Send + Sync + 'static {
    /// Reads what is there, without waiting.
    fn receive(&self, room: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(self, room, RecvFlags::DONTWAIT).map(|(arrived, _)| arrived)
    }
}

impl Incoming for OwnedFd {}

/// Where the kernel does not refuse descriptors, they are taken, and closed by a thread.
impl Incoming for Entrusted {
    fn receive(&self, room: &mut [u8]) -> Result<usize, Errno> {
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
    partial: Partial,
}

impl<S: Incoming> StreamReceiver<S> {
    /// Both halves of a connection.
    pub(crate) fn pair(socket: S) -> (Box<Self>, Box<StreamSender<S>>) {
        let socket = Arc::new(socket);
        let sender = StreamSender::new(socket.clone());
        (Box::new(StreamReceiver { socket, partial: Partial::default() }), Box::new(sender))
    }

    /// The same for a connection that may not be one of packets at all.
    pub(crate) fn pair_of_stranger(socket: S) -> (Box<Self>, Box<StreamSender<S>>) {
        let (mut receiver, sender) = Self::pair(socket);
        receiver.partial.must_begin = true;
        (receiver, sender)
    }
}

impl<H: Handler, S: Incoming> Receiver<H> for StreamReceiver<S> {
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

impl<P: AsRef<[u8]>, S: Incoming> Sender<P> for StreamSender<S> {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno> {
        for _ in 0..WRITES_PER_TURN_MAX {
            if queue.is_empty() {
                return Ok(Flushed::All);
            }
            let slices = queue.slices(SLICES_MAX);
            let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
            match sockets::write(&*self.socket, &slices) {
                Ok(written) => {
                    sent.octets += written as u64;
                    sent.frames += queue.advance(written);
                    if written < wanted {
                        return Ok(Flushed::Blocked);
                    }
                }
                Err(Errno::INTR) => (),
                Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
                Err(errno) => return Err(errno),
            }
        }
        Ok(if queue.is_empty() { Flushed::All } else { Flushed::Some })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_read_as_so_many_packets_take_and_a_little_of_a_stream_that_is_not_known() {
        let mut pace = Pace::default();
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
