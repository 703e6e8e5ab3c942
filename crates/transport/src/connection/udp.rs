//! Datagrams to and from a router: many in one system call, limited to the path's MTU.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_datagrams::mmsg::{self, RECEIVE_OCTETS};
use namely_datagrams::udp::{self, UdpSender};
use namely_host::Waker;
use namely_wire::PACKET_OCTETS_MAX;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::carrier::{Carrier, Delivery, Ready, poll};
use super::fault::Fault;
use super::outbox::Outbox;

/// Reads of a client's UDP socket in one round.
///
/// An endless stream of requests does not delay answers.
///
/// # Limit
/// The next round reads further datagrams.
/// - Value: 4 calls of at most 16 messages of 64 KiB, in 1 MiB of memory
/// - Tests: `a_datagram_burst_is_read_in_few_calls`
const READS_PER_TURN: usize = 4;

/// A socket that is connected to a router.
#[derive(Debug)]
pub(super) struct UdpLink {
    socket: OwnedFd,
    sender: UdpSender,
    buf: Box<[u8]>,
    /// Datagrams in `buf` that wait for processing.
    unread: VecDeque<Range<usize>>,
}

impl UdpLink {
    pub(super) fn new(socket: OwnedFd) -> Self {
        mmsg::coalesce(&socket);
        udp::discover_path(&socket);
        UdpLink {
            socket,
            sender: UdpSender::default(),
            buf: vec![0; RECEIVE_OCTETS].into(),
            unread: VecDeque::new(),
        }
    }

    fn path_frame_octets_max(&self) -> usize {
        frame_octets_max(udp::path_octets(&self.socket))
    }

    /// Reads datagrams; all earlier datagrams must be processed. Returns true if there may be more.
    fn read(&mut self, outbox: &mut Outbox) -> Result<bool, Errno> {
        match mmsg::receive(&self.socket, &mut self.buf, false) {
            Ok(received) => {
                self.unread.extend(received.datagrams().map(|(range, _)| range));
                Ok(!received.is_last())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            // The error concerns a datagram that was sent earlier. Received datagrams may still
            // wait.
            Err(errno) => self.handle_error(errno, outbox).map(|()| true),
        }
    }

    /// Processes an error that the network reported for a datagram sent earlier. If that was too
    /// long for the path, the maximum length is updated. Any other error is returned.
    fn handle_error(&self, errno: Errno, outbox: &mut Outbox) -> Result<(), Errno> {
        if errno != Errno::MSGSIZE {
            return Err(errno);
        }
        outbox.set_datagram_octets_max(self.path_frame_octets_max());
        Ok(())
    }

    /// Delivers the datagrams in `buf`, while the outbox has space for the answers.
    fn deliver(&mut self, delivery: &mut Delivery<'_>) -> usize {
        let mut handled = 0;
        delivery.begin_batch();
        while delivery.has_room()
            && let Some(range) = self.unread.pop_front()
        {
            handled += usize::from(delivery.take(&self.buf[range]));
        }
        handled
    }
}

impl AsFd for UdpLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn frame_octets_max(path_octets: Option<usize>) -> usize {
    path_octets.unwrap_or(PACKET_OCTETS_MAX).clamp(namely_link::MTU_OCTETS_MIN, PACKET_OCTETS_MAX)
}

impl Carrier for UdpLink {
    /// The largest frame that reaches the router without IP fragmentation and that peers accept.
    fn frame_octets_max(&self) -> Option<usize> {
        Some(self.path_frame_octets_max())
    }

    fn is_lossy(&self) -> bool {
        true
    }

    fn tick(&mut self, outbox: &mut Outbox, now_ns: u64) -> Option<u64> {
        outbox.probe_path(now_ns)
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault> {
        let UdpLink { socket, sender, .. } = self;
        outbox.flush_datagrams(|datagrams| sender.send(&*socket, datagrams))?;
        if let Some(octets) = sender.path_change(&*socket) {
            outbox.set_datagram_octets_max(frame_octets_max(Some(octets)));
        }
        Ok(())
    }

    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        Ok(self.deliver(delivery))
    }

    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault> {
        let ready = poll(&self.socket, outbox, waker, wait_ns)?;
        if ready.contains(PollFlags::ERR)
            && let Err(errno) = sockopt::socket_error(&self.socket)?
        {
            self.handle_error(errno, outbox)?;
        }
        Ok(Ready { readable: ready.contains(PollFlags::IN), writable: ready.contains(PollFlags::OUT) })
    }

    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        let (mut handled, mut reads) = (0, 0);
        // A read overwrites `buf`, so all datagrams in it are delivered first.
        while self.unread.is_empty() && reads < READS_PER_TURN && self.read(delivery.outbox)? {
            handled += self.deliver(delivery);
            reads += 1;
        }
        Ok(handled + self.deliver(delivery))
    }
}
