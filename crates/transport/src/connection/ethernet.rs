//! Frames to and from a router in the same network segment.
//!
//! Each connection has a random link address of its own, so that a router can distinguish the
//! applications of a host.

use std::io;

use namely_datagrams::ethernet::EtherSocket;
use namely_host::Waker;
use namely_wire::{MacAddress, PACKET_OCTETS_MAX};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::carrier::{Carrier, Delivery, Ready, timespec};
use super::fault::Fault;
use super::outbox::Outbox;

/// Octets of the ring of Ethernet frames that wait for a client.
///
/// The ring has space for some thousand frames of the usual length, in slots of the interface's
/// MTU.
///
/// # Limit
/// The kernel drops further frames.
/// - Counter: `dropped_ring_full`
/// - Tests: `a_station_receives_only_from_its_peer`
const RING_OCTETS: usize = 2 << 20;

/// Maximum number of packets taken from the ring in one round.
const PACKETS_PER_TURN: usize = 256;

/// Opens a link to the router with the address `router` on the network device `device`.
pub(super) fn connect(router: MacAddress, device: &str) -> io::Result<EtherSocket> {
    EtherSocket::open(device, router, address_by_chance()?, RING_OCTETS).map_err(|errno| match errno {
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

/// Returns a random link address: locally administered, and not a group address.
fn address_by_chance() -> Result<MacAddress, Errno> {
    let mut octets: [u8; 6] = namely_host::random()?;
    // Bit 0 marks a group address, bit 1 a locally administered one (IEEE 802).
    octets[0] = octets[0] & !1 | 2;
    Ok(MacAddress(octets))
}

impl Carrier for EtherSocket {
    fn frame_octets_max(&self) -> Option<usize> {
        Some(self.mtu_octets().clamp(namely_link::MTU_OCTETS_MIN, PACKET_OCTETS_MAX))
    }

    fn is_lossy(&self) -> bool {
        true
    }

    fn send(&mut self, outbox: &mut Outbox) -> Result<(), Fault> {
        outbox.flush_datagrams(|packets| EtherSocket::send(self, packets))?;
        Ok(())
    }

    fn take_pending(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        // The kernel fills a ring in shared memory, so a check makes no system call.
        Carrier::receive(self, delivery)
    }

    /// Also waits for a failure of the device.
    fn wait(&mut self, outbox: &mut Outbox, waker: &Waker, wait_ns: u64) -> Result<Ready, Fault> {
        let want = |flags, is_wanted| if is_wanted { flags } else { PollFlags::empty() };
        let mut fds = [
            PollFd::from_borrowed_fd(self.receiving(), want(PollFlags::IN, !outbox.is_full())),
            PollFd::from_borrowed_fd(self.sending(), want(PollFlags::OUT, !outbox.is_empty())),
            PollFd::new(waker, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, Some(&timespec(wait_ns))) {
            Ok(_) => {
                if !fds[2].revents().is_empty() {
                    waker.reset();
                }
                if fds[0].revents().contains(PollFlags::ERR) {
                    self.check()?;
                }
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Ready::BOTH)
    }

    fn receive(&mut self, delivery: &mut Delivery<'_>) -> Result<usize, Fault> {
        // A packet that leaves the ring is processed at once, so none is taken while the outbox is
        // full.
        if !delivery.has_room() {
            return Ok(0);
        }
        delivery.begin_batch();
        let looked = EtherSocket::receive(self, PACKETS_PER_TURN, &mut |packet| {
            delivery.take(packet);
            delivery.has_room()
        })?;
        delivery.receiver.counters.dropped_malformed += looked.malformed;
        delivery.receiver.counters.dropped_ring_full += looked.lost;
        Ok(looked.packets)
    }
}
