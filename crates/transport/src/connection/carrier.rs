//! What carries packets between a client and its router, and the one turn that all kinds share.

use std::fmt;
use std::os::fd::AsFd;

use namely_host::Waker;
use namely_wire::NameRef;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::fault::Fault;
use super::incoming::Incoming;
use super::outbox::Outbox;
use super::reach::{NotBound, Reach};
use super::receiver::{Receiver, Times};

/// One kind of link to a router: a stream, datagrams, frames, shared memory, or the kernel's
/// socket. It sends and receives many packets in one call of a method, and none of them waits but
/// [`Carrier::wait`].
pub(super) trait Carrier: fmt::Debug + Send {
    /// The longest link packet that is carried, octets; `None` on a stream.
    fn frame_octets_max(&self) -> Option<usize>;

    /// Returns true if the router may go and come back unseen.
    fn is_lossy(&self) -> bool;

    /// Lets `waker` end [`Carrier::wait`] where that waits on a descriptor of its own.
    fn watch(&self, _waker: &Waker) -> Result<(), Errno> {
        Ok(())
    }

    /// How prefixes are made known where it is not by a router's management.
    fn bindings(&mut self) -> Option<&mut dyn Bindings> {
        None
    }

    /// Does what is due for the path itself. Returns when it has to be called again, ns.
    fn tick(&mut self, _outbox: &mut Outbox, _now_ns: u64) -> Option<u64> {
        None
    }

    /// Writes what is queued, as far as it is taken now.
    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault>;

    /// Hands over what lies in memory: what an earlier turn read and had no room to handle, or what
    /// the other side wrote there. No system call. Returns the packets that were handled.
    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault>;

    /// Waits for packets, unless the outbox is full; for room, if something is queued; for `waker`,
    /// for a signal, or for `wait_ns`.
    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault>;

    /// Reads what has come and hands it over. Returns the packets that were handled.
    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault>;
}

/// A link that makes prefixes known by itself.
pub(super) trait Bindings {
    /// Lets Interests for `prefix` come by this link, and nobody else have it, what it begins with,
    /// or what is below it; or, if it `is_shared`, whoever has more to say of what is below.
    fn bind(&mut self, prefix: NameRef<'_>, is_shared: bool) -> Result<Reach, NotBound>;

    /// Undoes that.
    fn unbind(&mut self, prefix: NameRef<'_>, is_shared: bool) -> Result<(), NotBound>;
}

/// What a wait was ended by; nothing after its time, a signal or a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Ready {
    /// Both: it costs nothing to look.
    pub(super) const BOTH: Ready = Ready { readable: true, writable: true };
}

/// Where a carrier hands link packets to, during one turn.
pub(super) struct Delivery<'a> {
    pub(super) outbox: &'a mut Outbox,
    pub(super) receiver: &'a mut Receiver,
    pub(super) handler: &'a mut dyn FnMut(Incoming<'_>, &mut Outbox),
    /// The connection's clock.
    pub(super) clock: &'a dyn Fn() -> u64,
    /// When the present batch of link packets was received; at first, when the turn began.
    pub(super) now_ns: u64,
    /// When the next link packet was there at the latest, if that is known to be earlier.
    pub(super) arrived_ns: Option<u64>,
}

impl Delivery<'_> {
    /// Reads the clock: link packets from here on were received now.
    pub(super) fn begin_batch(&mut self) {
        self.now_ns = (self.clock)();
    }

    /// Returns true if there is room for the answers to another packet.
    pub(super) fn has_room(&self) -> bool {
        !self.outbox.is_full()
    }

    /// Takes one link packet apart and hands over what it brought. Returns false if it was dropped.
    pub(super) fn take(&mut self, frame: &[u8]) -> bool {
        let arrived_ns = self.arrived_ns.unwrap_or(self.now_ns).min(self.now_ns);
        let times = Times { received_ns: self.now_ns, arrived_ns, clock: self.clock };
        self.receiver.take(frame, self.outbox, &times, self.handler)
    }
}

/// One turn: writes what is queued, hands over what has come, waiting for it for `wait_ns` at most,
/// and writes what came of that. Returns the packets that were handled.
pub(super) fn exchange(
    carrier: &mut dyn Carrier,
    waker: &Waker,
    wait_ns: u64,
    delivery: &mut Delivery<'_>,
) -> Result<usize, Fault> {
    let began_ns = delivery.now_ns;
    let due_ns = carrier.tick(delivery.outbox, began_ns);
    carrier.send(delivery.outbox)?;
    let mut handled = carrier.take_pending(delivery)?;
    if handled == 0 {
        let wait_ns = due_ns.map_or(wait_ns, |due_ns| wait_ns.min(due_ns.saturating_sub(began_ns)));
        let ready = carrier.wait(delivery.outbox, waker, wait_ns)?;
        if ready.writable {
            carrier.send(delivery.outbox)?;
        }
        if ready.readable {
            handled = carrier.receive(delivery)?;
        }
    }
    carrier.send(delivery.outbox)?;
    Ok(handled)
}

/// Waits for what a socket can do next; no flags when the time is over, a signal came, or `waker`
/// was used.
pub(super) fn poll(
    socket: impl AsFd,
    outbox: &Outbox,
    waker: &Waker,
    wait_ns: u64,
) -> Result<PollFlags, Errno> {
    let mut interest = PollFlags::empty();
    interest.set(PollFlags::OUT, !outbox.is_empty());
    interest.set(PollFlags::IN, !outbox.is_full());
    let mut fds = [PollFd::new(&socket, interest), PollFd::new(waker, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&timespec(wait_ns))) {
        Ok(_) => {
            if !fds[1].revents().is_empty() {
                waker.reset();
            }
            Ok(fds[0].revents())
        }
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error),
    }
}

/// A wait as system calls take it.
pub(super) fn timespec(wait_ns: u64) -> Timespec {
    Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as _ }
}
