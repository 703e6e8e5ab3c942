//! Shared memory to a router on this host (memif): packets without a system call for each.
//!
//! What a handler sees is a private copy, made once when the packet leaves the ring: the router could change what lies
//! in shared memory while a signature is checked, and then `Verified` would say too much.

use std::io;
use std::time::{Duration, Instant};

use namely_memif::{Fault, Handshake, Interface, Options, Progress};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::receiver::Receiver;
use super::{Incoming, Outbox, Waker};

/// How long a router may take to make an interface.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Packets taken from the rings in one turn.
const PACKETS_PER_TURN: usize = 256;

/// How soon a full ring is looked at again: nothing tells when it no longer is.
const RETRY_NS: u64 = 500_000;

/// Connects to interface `id` of the memif server at `path`.
pub(super) fn connect(path: &str, id: u32) -> io::Result<Interface> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let started = Instant::now();
    let mut handshake = Handshake::client(socket, Options { id, trusts_server: true, ..Options::default() });
    loop {
        handshake = match handshake.proceed() {
            Ok(Progress::Connected(interface)) => return Ok(*interface),
            Ok(Progress::Waiting(handshake)) => handshake,
            Err(Fault::System(errno)) => return Err(errno.into()),
            Err(fault) => return Err(io::Error::new(io::ErrorKind::ConnectionRefused, fault)),
        };
        let left = HANDSHAKE_TIMEOUT.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(&handshake, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => (),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// One turn: writes what is queued, hands over what has come, waiting for it for `wait_ns` at most, and writes what
/// came of that. Returns the packets that were handled.
pub(super) fn exchange(
    interface: &mut Interface,
    (outbox, receiver, waker): (&mut Outbox, &mut Receiver, &Waker),
    wait_ns: u64,
    now_ns: &dyn Fn() -> u64,
    handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
) -> Result<usize, super::Fault> {
    outbox.flush_to_ring(&mut interface.sender)?;
    let mut handled = take(interface, outbox, receiver, now_ns(), handler)?;
    if handled == 0 && (outbox.is_full() || interface.receiver.sleep()) {
        let wait_ns = if outbox.is_empty() { wait_ns } else { wait_ns.min(RETRY_NS) };
        let ready = interface.link.wait(Duration::from_nanos(wait_ns))?;
        if ready.kicked {
            waker.reset();
        }
        if ready.control {
            interface.link.check()?;
        }
        outbox.flush_to_ring(&mut interface.sender)?;
        handled = take(interface, outbox, receiver, now_ns(), handler)?;
    }
    outbox.flush_to_ring(&mut interface.sender)?;
    Ok(handled)
}

fn take(
    interface: &mut Interface,
    outbox: &mut Outbox,
    receiver: &mut Receiver,
    now_ns: u64,
    handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
) -> Result<usize, super::Fault> {
    if outbox.is_full() {
        return Ok(0);
    }
    interface.receiver.stay_awake();
    let received = interface.receiver.receive(PACKETS_PER_TURN, &mut |frame| {
        receiver.take(frame, outbox, now_ns, handler);
        !outbox.is_full()
    })?;
    receiver.counters.dropped_malformed += received.too_long;
    Ok(received.packets)
}
