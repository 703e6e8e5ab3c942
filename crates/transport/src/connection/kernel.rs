//! The forwarder in the kernel: a socket of AF_NNET. Each message is a packet.
//!
//! There is no management protocol. The socket binds a prefix, and /proc/net/nnet/fib lists whether
//! a route leads to it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use namely_datagrams::mmsg::{self, MESSAGES_OUT_MAX, Outgoing, RECEIVE_OCTETS};
use namely_host::Waker;
use namely_nnet::{Control, ControlError, OpenError, Socket, proc, uapi};
use namely_wire::{LP_PACKET_OCTETS_MAX, Name, NameRef};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt;

use super::carrier::{Bindings, Carrier, Delivery, Ready, poll};
use super::fault::Fault;
use super::outbox::{Datagrams, Outbox};
use super::reach::{NotBound, Reachability};

/// Maximum number of reads of the socket in one round.
const READS_PER_TURN: usize = 4;

/// A socket of the kernel's forwarder.
#[derive(Debug)]
pub(super) struct KernelLink {
    socket: Socket,
    buf: Box<[u8]>,
    /// Packets in `buf` that wait for processing.
    unread: VecDeque<Range<usize>>,
}

/// Opens a socket with a face in the kernel's forwarder.
pub(super) fn open() -> io::Result<Socket> {
    Socket::open().map_err(|error| match &error {
        OpenError::NotLoaded => io::Error::new(ErrorKind::NotFound, error),
        OpenError::Stopped(_) => io::Error::new(ErrorKind::ConnectionAborted, error),
        OpenError::NotPermitted => io::Error::new(ErrorKind::PermissionDenied, error),
        // The error number is retained for `ConnectionError::errno`.
        OpenError::System(errno @ (Errno::MFILE | Errno::NFILE)) => (*errno).into(),
        OpenError::System(errno) => io::Error::new(io::Error::from(*errno).kind(), error),
    })
}

impl KernelLink {
    pub(super) fn new(socket: Socket) -> Self {
        KernelLink { socket, buf: vec![0; RECEIVE_OCTETS].into(), unread: VecDeque::new() }
    }

    /// Reads packets; all earlier packets must be processed. Returns true if there may be more.
    fn read(&mut self) -> Result<bool, Errno> {
        match mmsg::receive(&self.socket, &mut self.buf, false) {
            Ok(received) => {
                self.unread.extend(received.datagrams().map(|(range, _)| range));
                Ok(!received.is_last())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Delivers the packets in `buf`, while the outbox has space for the answers.
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

/// Sends the first packets, one message each. Returns the number of accepted packets.
fn send(socket: BorrowedFd<'_>, packets: Datagrams<'_>) -> Result<usize, Errno> {
    let mut slices = [IoSlice::new(&[]); MESSAGES_OUT_MAX];
    let mut count = 0;
    for (slice, packet) in slices.iter_mut().zip(packets) {
        *slice = IoSlice::new(packet);
        count += 1;
    }
    let message = |slices| Outgoing { slices, segment_octets: None };
    mmsg::send(socket, slices[..count].chunks(1).map(message))
}

impl Carrier for KernelLink {
    fn frame_octets_max(&self) -> Option<usize> {
        Some(LP_PACKET_OCTETS_MAX.min(uapi::NNET_PACKET_MAX))
    }

    /// The module stays loaded while the socket is open, so the forwarder cannot restart unnoticed.
    fn is_lossy(&self) -> bool {
        false
    }

    fn bindings(&mut self) -> Option<&mut dyn Bindings> {
        Some(self)
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault> {
        outbox.flush_datagrams(|packets| send(self.socket.as_fd(), packets))?;
        Ok(())
    }

    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        Ok(self.deliver(delivery))
    }

    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault> {
        let ready = poll(&self.socket, outbox, waker, wait_ns)?;
        if ready.contains(PollFlags::ERR) {
            // The first error is that of the call, the second that of the socket.
            sockopt::socket_error(&self.socket)??;
        }
        Ok(Ready { readable: ready.contains(PollFlags::IN), writable: ready.contains(PollFlags::OUT) })
    }

    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        let (mut handled, mut reads) = (0, 0);
        // A read overwrites `buf`, so all packets in it are delivered first. The number of reads is
        // limited, so that answers are not delayed.
        while self.unread.is_empty() && reads < READS_PER_TURN && self.read()? {
            handled += self.deliver(delivery);
            reads += 1;
        }
        Ok(handled + self.deliver(delivery))
    }
}

impl Bindings for KernelLink {
    /// A shared prefix receives a route to the socket instead of a binding, so that it does not
    /// conflict with the bindings of other clients.
    fn bind(&mut self, prefix: NameRef<'_>, is_shared: bool) -> Result<Reachability, NotBound> {
        if is_shared {
            let face = self.socket.face().map_err(NotBound::System)?;
            let routed = Control::open().and_then(|mut kernel| kernel.route_new(prefix, face, 0));
            return routed.map(|()| Reachability::Route).map_err(not_routed);
        }
        if is_management(prefix) {
            return Err(NotBound::Reserved);
        }
        self.socket.bind(prefix).map_err(|errno| match errno {
            Errno::ADDRINUSE => NotBound::InUse,
            Errno::ACCESS | Errno::PERM => NotBound::NotPermitted,
            Errno::INVAL => NotBound::TooLong,
            Errno::NOSPC | Errno::DQUOT => NotBound::Full,
            errno => NotBound::System(errno),
        })?;
        // The prefix is bound already. A table that cannot be read only makes the report
        // pessimistic.
        let is_routed = proc::is_routed_to_applications(prefix).unwrap_or(false);
        Ok(if is_routed { Reachability::Bound } else { Reachability::NoRouteYet })
    }

    fn unbind(&mut self, prefix: NameRef<'_>, is_shared: bool) -> Result<(), NotBound> {
        if !is_shared {
            return self.socket.unbind(prefix).map_err(NotBound::System);
        }
        let face = self.socket.face().map_err(NotBound::System)?;
        Control::open().and_then(|mut kernel| kernel.route_del(prefix, face)).map_err(not_routed)
    }
}

/// Returns true if the prefix belongs to a router's management. Commands of programs on this
/// machine must not reach another application.
fn is_management(prefix: NameRef<'_>) -> bool {
    let management = Name::new().join_generic("localhost").join_generic("nfd");
    management.is_prefix_of(prefix)
}

fn not_routed(error: ControlError) -> NotBound {
    match error {
        // The route of a shared prefix needs CAP_NET_ADMIN, which this error explains.
        ControlError::NotPermitted => NotBound::Shared,
        ControlError::Full => NotBound::Full,
        ControlError::NotFound => NotBound::System(Errno::NOENT),
        ControlError::System(errno) => NotBound::System(errno),
        _ => NotBound::System(Errno::IO),
    }
}
