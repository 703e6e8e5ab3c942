//! Datagrams to and from a router: many by one system call, cut to what the path carries in one piece.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_datagrams::mmsg::{self, RECEIVE_OCTETS};
use namely_datagrams::udp::{self, UdpSender};
use namely_wire::PACKET_OCTETS_MAX;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::outbox::Outbox;
use super::receiver::Receiver;
use super::{Incoming, Waker, wait};

/// Times that the socket is read in one turn, so that answers are not held back by an endless stream of requests.
const READS_PER_TURN: usize = 4;

/// A socket that is connected to a router.
#[derive(Debug)]
pub(super) struct UdpLink {
    socket: OwnedFd,
    sender: UdpSender,
    buf: Box<[u8]>,
    /// Datagrams in `buf` that wait to be handled.
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

    /// The longest datagram to send, octets: what reaches the router in one piece, and peers accept.
    pub(super) fn frame_octets_max(&self) -> usize {
        frame_octets_max(udp::path_octets(&self.socket))
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Errno> {
        let UdpLink { socket, sender, .. } = self;
        outbox.flush_datagrams(|datagrams| sender.send(&*socket, datagrams))?;
        if let Some(octets) = sender.path_change(&*socket) {
            outbox.set_datagram_octets_max(frame_octets_max(Some(octets)));
        }
        Ok(())
    }

    /// Reads what has come; nothing is left of what came before. Whether there may be more.
    fn read(&mut self, outbox: &mut Outbox) -> Result<bool, Errno> {
        match mmsg::receive(&self.socket, &mut self.buf, false) {
            Ok(received) => {
                self.unread.extend(received.datagrams().map(|(range, _)| range));
                Ok(!received.is_last())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => self.told(errno, outbox).map(|()| true),
        }
    }

    /// What the network said of an earlier datagram: that it was too long for the path, or worse.
    fn told(&self, errno: Errno, outbox: &mut Outbox) -> Result<(), Errno> {
        if errno != Errno::MSGSIZE {
            return Err(errno);
        }
        outbox.set_datagram_octets_max(self.frame_octets_max());
        Ok(())
    }

    fn handle(
        &mut self,
        outbox: &mut Outbox,
        receiver: &mut Receiver,
        now_ns: u64,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> usize {
        let mut handled = 0;
        while !outbox.is_full()
            && let Some(range) = self.unread.pop_front()
        {
            handled += usize::from(receiver.take(&self.buf[range], outbox, now_ns, handler));
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

/// One turn: writes what is queued, hands over what has come, waiting for it for `wait_ns` at most, and writes what
/// came of that. Returns the packets that were handled.
pub(super) fn exchange(
    link: &mut UdpLink,
    (outbox, receiver, waker): (&mut Outbox, &mut Receiver, &Waker),
    wait_ns: u64,
    now_ns: &dyn Fn() -> u64,
    handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
) -> Result<usize, super::Fault> {
    let due_ns = outbox.probe_path(now_ns());
    link.send(outbox)?;
    // What an earlier turn read and could not handle for lack of room comes first.
    let mut handled = link.handle(outbox, receiver, now_ns(), handler);
    if handled == 0 {
        let wait_ns = due_ns.map_or(wait_ns, |due_ns| wait_ns.min(due_ns.saturating_sub(now_ns())));
        let ready = wait(&*link, outbox, waker, wait_ns)?;
        if ready.contains(PollFlags::ERR)
            && let Err(errno) = sockopt::socket_error(&*link)?
        {
            link.told(errno, outbox)?;
        }
        if ready.contains(PollFlags::OUT) {
            link.send(outbox)?;
        }
        if ready.contains(PollFlags::IN) {
            let mut reads = 0;
            while link.unread.is_empty() && reads < READS_PER_TURN && link.read(outbox)? {
                handled += link.handle(outbox, receiver, now_ns(), handler);
                reads += 1;
            }
            handled += link.handle(outbox, receiver, now_ns(), handler);
        }
    }
    link.send(outbox)?;
    Ok(handled)
}
