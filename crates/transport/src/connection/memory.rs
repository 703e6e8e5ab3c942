//! Shared memory to a router on this host (memif). A packet does not cost a system call.
//!
//! A handler receives a private copy, made once when the packet leaves the ring. Otherwise the
//! router could change the shared memory while a signature is checked, and `Verified` would be
//! wrong.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use namely_host::Waker;
use namely_memif::{Handshake, Interface, Options, Progress};
use namely_wire::LP_PACKET_OCTETS_MAX;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::carrier::{Carrier, Delivery, Ready};
use super::fault::Fault;
use super::outbox::Outbox;

/// Maximum time of the handshake, in which the router creates an interface.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of packets taken from the rings in one round.
const PACKETS_PER_TURN: usize = 256;

/// Pause before a full ring is tried again, because there is no notification when space becomes
/// free.
const RETRY_NS: u64 = 500_000;

/// Attaches to an interface of the memif server at `socket`.
pub(super) fn connect(socket: OwnedFd, options: Options) -> io::Result<Interface> {
    // A read must not block, because a silent router would then delay it beyond the timeout.
    rustix::io::ioctl_fionbio(&socket, true)?;
    let started = Instant::now();
    let mut handshake = Handshake::client(socket, options);
    loop {
        handshake = match handshake.proceed() {
            Ok(Progress::Connected(interface)) => return Ok(*interface),
            Ok(Progress::Waiting(handshake)) => handshake,
            Err(namely_memif::Fault::System(errno)) => return Err(errno.into()),
            Err(fault) => return Err(io::Error::new(io::ErrorKind::ConnectionRefused, fault)),
        };
        let left = HANDSHAKE_TIMEOUT.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(&handshake, PollFlags::IN)], Some(&timeout)) {
            // The next iteration computes the remaining time.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

impl Carrier for Interface {
    fn frame_octets_max(&self) -> Option<usize> {
        Some(LP_PACKET_OCTETS_MAX)
    }

    fn is_lossy(&self) -> bool {
        false
    }

    fn watch(&self, waker: &Waker) -> Result<(), Errno> {
        self.link.watch(waker)
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault> {
        outbox.flush_to_ring(&mut self.sender)?;
        Ok(())
    }

    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        self.receive(delivery)
    }

    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault> {
        // `sleep` returns false if packets arrived since the last check of the ring.
        if outbox.is_full() || self.receiver.sleep() {
            let wait_ns = if outbox.is_empty() { wait_ns } else { wait_ns.min(RETRY_NS) };
            let ready = self.link.wait(Duration::from_nanos(wait_ns))?;
            if ready.kicked {
                waker.reset();
            }
            if ready.control {
                self.link.check()?;
            }
        }
        Ok(Ready::BOTH)
    }

    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        if !delivery.has_room() {
            return Ok(0);
        }
        delivery.begin_batch();
        // While this thread processes packets, the router need not wake it by a system call.
        self.receiver.stay_awake();
        let received = self.receiver.receive(PACKETS_PER_TURN, &mut |frame| {
            delivery.take(frame);
            delivery.has_room()
        })?;
        delivery.receiver.counters.dropped_malformed += received.too_long;
        Ok(received.packets)
    }
}
