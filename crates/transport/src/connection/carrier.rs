//! The transport between a client and its router, and the round that all kinds share.

use std::fmt;
use std::os::fd::AsFd;

use namely_host::Waker;
use namely_wire::NameRef;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::fault::Fault;
use super::incoming::Incoming;
use super::outbox::Outbox;
use super::reach::{NotBound, Reachability};
use super::receiver::{Receiver, Times};

/// One kind of link to a router: a stream, datagrams, frames, shared memory, or the kernel's
/// socket. One call sends or receives many packets. Only [`Carrier::wait`] blocks.
pub(super) trait Carrier: fmt::Debug + Send {
    /// The longest link packet, octets; `None` on a stream.
    fn frame_octets_max(&self) -> Option<usize>;

    /// Returns true if the router may restart without any notice on the link.
    fn is_lossy(&self) -> bool;

    /// Makes `waker` end [`Carrier::wait`] on a link that waits on a descriptor of its own.
    fn watch(&self, _waker: &Waker) -> Result<(), Errno> {
        Ok(())
    }

    /// Registration of prefixes on links that do not use a router's management.
    fn bindings(&mut self) -> Option<&mut dyn Bindings> {
        None
    }

    /// Runs the tasks of the path that are due. Returns the time of the next call, ns.
    fn tick(&mut self, _outbox: &mut Outbox, _now_ns: u64) -> Option<u64> {
        None
    }

    /// Writes queued packets, as far as the link accepts them now.
    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault>;

    /// Delivers packets that are in memory already: an earlier round read them but could not
    /// process them, or the router wrote them to a shared ring. Makes no system call. Returns the
    /// number of processed packets.
    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault>;

    /// Waits for `wait_ns` at most. Packets end the wait, unless the outbox is full. Space to write
    /// ends it if packets are queued. `waker` and signals always end it.
    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault>;

    /// Reads packets and delivers them. Returns the number of processed packets.
    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault>;
}

/// A link that registers prefixes itself.
pub(super) trait Bindings {
    /// Registers `prefix` on this link. An exclusive registration conflicts with any prefix of it
    /// or below it. If `is_shared`, other clients may register it or prefixes below it, too.
    /// NDN-DPDK has shared registrations only.
    fn bind(&mut self, prefix: NameRef<'_>, is_shared: bool) -> Result<Reachability, NotBound>;

    /// Removes the registration.
    fn unbind(&mut self, prefix: NameRef<'_>, is_shared: bool) -> Result<(), NotBound>;
}

/// The result of a wait. No flag is set after a timeout, a signal or a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Ready {
    /// Both flags, for links with a cheap check.
    pub(super) const BOTH: Ready = Ready { readable: true, writable: true };
}

/// The destination of received link packets during one round.
pub(super) struct Delivery<'a> {
    pub(super) outbox: &'a mut Outbox,
    pub(super) receiver: &'a mut Receiver,
    pub(super) handler: &'a mut dyn FnMut(Incoming<'_>, &mut Outbox),
    /// The connection's clock.
    pub(super) clock: &'a dyn Fn() -> u64,
    /// The time at which the present batch of link packets was received; at first, the start of the
    /// round.
    pub(super) now_ns: u64,
    /// The latest possible arrival time of the next link packet; none: `now_ns`.
    pub(super) arrived_ns: Option<u64>,
}

impl Delivery<'_> {
    /// Reads the clock. The following link packets were received now.
    pub(super) fn begin_batch(&mut self) {
        self.now_ns = (self.clock)();
    }

    /// Returns true if the outbox has space for the answers to another packet.
    pub(super) fn has_room(&self) -> bool {
        !self.outbox.is_full()
    }

    /// Parses one link packet and delivers its network packet. Returns false if it was dropped.
    pub(super) fn take(&mut self, frame: &[u8]) -> bool {
        // A packet cannot have arrived after it was read.
        let arrived_ns = self.arrived_ns.unwrap_or(self.now_ns).min(self.now_ns);
        let times = Times { received_ns: self.now_ns, arrived_ns, clock: self.clock };
        self.receiver.take(frame, self.outbox, &times, self.handler)
    }
}

/// One round: writes queued packets, delivers received packets after waiting for `wait_ns` at most,
/// and writes the answers. Returns the number of processed packets.
pub(super) fn exchange(
    carrier: &mut dyn Carrier,
    waker: &Waker,
    wait_ns: u64,
    delivery: &mut Delivery<'_>,
) -> Result<usize, Fault> {
    let began_ns = delivery.now_ns;
    let due_ns = carrier.tick(delivery.outbox, began_ns);
    // Queued Interests are sent first, because the wait may be for their answers.
    carrier.send(delivery.outbox)?;
    // Packets in memory would otherwise wait until the next one arrives.
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
    // The answers leave now, because the caller may take a while until the next round.
    carrier.send(delivery.outbox)?;
    Ok(handled)
}

/// Waits until a socket is ready. Returns no flags after a timeout, a signal, or a use of `waker`.
pub(super) fn poll(
    socket: impl AsFd,
    outbox: &Outbox,
    waker: &Waker,
    wait_ns: u64,
) -> Result<PollFlags, Errno> {
    let mut interest = PollFlags::empty();
    interest.set(PollFlags::OUT, !outbox.is_empty());
    // With a full outbox no packet may be processed, so the arrival of one must not end the wait.
    interest.set(PollFlags::IN, !outbox.is_full());
    let mut fds = [PollFd::new(&socket, interest), PollFd::new(waker, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&timespec(wait_ns))) {
        Ok(_) => {
            if !fds[1].revents().is_empty() {
                // The descriptor is level-triggered and would end every later wait.
                waker.reset();
            }
            Ok(fds[0].revents())
        }
        // The caller may want to handle the signal, so the wait is not resumed.
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error),
    }
}

/// Converts a wait for system calls.
pub(super) fn timespec(wait_ns: u64) -> Timespec {
    Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as _ }
}
