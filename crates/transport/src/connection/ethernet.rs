//! Frames to and from a router in the same network segment.
//!
//! Each connection is a station of its own, with an address made by chance, so that a router tells the applications of a machine
//! apart.

use std::io;

use namely_datagrams::ethernet::Station;
use namely_wire::PACKET_OCTETS_MAX;
use namely_wire::face_uri::MacAddress;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::outbox::Outbox;
use super::receiver::Receiver;
use super::{Incoming, Waker, timespec};

/// Memory in which frames wait, octets: some thousand of the usual length.
const RING_OCTETS: usize = 2 << 20;

/// Packets taken from the ring in one turn.
const PACKETS_PER_TURN: usize = 256;

/// The router with the address `router` on the network device `device`.
pub(super) fn connect(router: MacAddress, device: &str) -> io::Result<Station> {
    Station::open(device, router, address_by_chance()?, RING_OCTETS).map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "Ethernet needs the capability CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` the program",
        ),
        Errno::NODEV => {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no Ethernet device '{device}'"))
        }
        Errno::NETDOWN => {
            io::Error::new(io::ErrorKind::NotConnected, format!("the network device '{device}' is down"))
        }
        errno => errno.into(),
    })
}

/// A station's address that is nobody's: locally administered, not of a group.
fn address_by_chance() -> Result<MacAddress, Errno> {
    let mut octets: [u8; 6] = namely_host::random()?;
    octets[0] = octets[0] & !1 | 2;
    Ok(MacAddress(octets))
}

/// The longest link packet to send, octets.
pub(super) fn frame_octets_max(station: &Station) -> usize {
    station.mtu_octets().clamp(namely_link::MTU_OCTETS_MIN, PACKET_OCTETS_MAX)
}

/// One turn: writes what is queued, hands over what has come, waiting for it for `wait_ns` at most, and writes what
/// came of that. Returns the packets that were handled.
pub(super) fn exchange(
    station: &mut Station,
    (outbox, receiver, waker): (&mut Outbox, &mut Receiver, &Waker),
    wait_ns: u64,
    now_ns: &dyn Fn() -> u64,
    handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
) -> Result<usize, super::Fault> {
    outbox.flush_datagrams(|packets| station.send(packets))?;
    let mut handled = take(station, outbox, receiver, now_ns(), handler)?;
    if handled == 0 {
        wait(station, outbox, waker, wait_ns)?;
        outbox.flush_datagrams(|packets| station.send(packets))?;
        handled = take(station, outbox, receiver, now_ns(), handler)?;
    }
    outbox.flush_datagrams(|packets| station.send(packets))?;
    Ok(handled)
}

/// Waits for frames, for room for what waits, for `waker`, for the device to fail, or for a signal.
fn wait(station: &Station, outbox: &Outbox, waker: &Waker, wait_ns: u64) -> Result<(), Errno> {
    let want = |flags, is_wanted| if is_wanted { flags } else { PollFlags::empty() };
    let mut fds = [
        PollFd::from_borrowed_fd(station.receiving(), want(PollFlags::IN, !outbox.is_full())),
        PollFd::from_borrowed_fd(station.sending(), want(PollFlags::OUT, !outbox.is_empty())),
        PollFd::new(waker, PollFlags::IN),
    ];
    match rustix::event::poll(&mut fds, Some(&timespec(wait_ns))) {
        Ok(_) => {
            if !fds[2].revents().is_empty() {
                waker.reset();
            }
            if fds[0].revents().contains(PollFlags::ERR) { station.check() } else { Ok(()) }
        }
        Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

fn take(
    station: &mut Station,
    outbox: &mut Outbox,
    receiver: &mut Receiver,
    now_ns: u64,
    handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
) -> Result<usize, Errno> {
    if outbox.is_full() {
        return Ok(0);
    }
    let looked = station.receive(PACKETS_PER_TURN, &mut |packet| {
        receiver.take(packet, outbox, now_ns, handler);
        !outbox.is_full()
    })?;
    receiver.counters.dropped_malformed += looked.malformed;
    receiver.counters.dropped_ring_full += looked.lost;
    Ok(looked.packets)
}
