//! Attacks on the virtual plane of VIP, by a neighbor and in a neighbor's name.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use namely_security::PrivateKey;
use namely_testkit::hostile::{BOOT, Neighbor, Request};
use namely_vip::UNIT;
use namely_vip::limits::OFFERS_MAX;
use namely_vip::message::{self, Offer, RequestKind};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto};

use super::pace::{AttackCounts, End, STEP, nonce};
use crate::attacks::RouterAddresses;

/// Packets per second in the neighbor's name.
const FORGED_PER_SECOND: f64 = 400.0;

/// VIPs of each offer: far more than any link carries in a slot.
const OFFERED: u64 = 1_000_000 * UNIT;

/// Length of the headers of IPv4 and UDP, octets.
const HEADERS_OCTETS: usize = 28;

/// Sends requests in the honest neighbor's name and from its address, signed by another key.
pub(super) fn unsigned(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let Some(plane) = &addresses.plane else { return Ok(AttackCounts::new()) };
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (plane.honest_address, addresses.udp) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::RAW),
    )?;
    let mut forger = Neighbor::with_new_key(&plane.honest)?;
    let packets = (end.length.as_secs_f64() * FORGED_PER_SECOND) as u64;
    let sent = end.spread(packets, 1.0, |n| {
        let request = forger.counts_request(plane.period_ms, nonce(n))?;
        let datagram = datagram(from, to, &request);
        rustix::net::sendto(&socket, &datagram, SendFlags::empty(), &SocketAddr::V4(to))?;
        Ok(())
    });
    Ok(AttackCounts::from([("packets", sent)]))
}

/// Returns a datagram with its headers. The kernel fills in IPv4's lengths and checksum. UDP needs
/// no checksum.
fn datagram(from: std::net::SocketAddrV4, to: std::net::SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::with_capacity(HEADERS_OCTETS + payload.len());
    // Version and length of the header; time to live 64, protocol 17.
    octets.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
    octets.extend(from.ip().octets());
    octets.extend(to.ip().octets());
    octets.extend(from.port().to_be_bytes());
    octets.extend(to.port().to_be_bytes());
    octets.extend(((payload.len() + 8) as u16).to_be_bytes());
    octets.extend([0, 0]);
    octets.extend(payload);
    octets
}

/// Sends as many offers in each slot as a packet holds. Each is correctly signed and far larger
/// than the link's capacity.
pub(super) fn offers(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let Some(plane) = addresses.plane.as_ref().filter(|plane| !plane.objects.is_empty()) else {
        return Ok(AttackCounts::new());
    };
    let socket = UdpSocket::bind(plane.hostile_address)?;
    socket.connect(addresses.udp)?;
    socket.set_nonblocking(true)?;
    let key = PrivateKey::from_pkcs8(&plane.hostile_key).map_err(io::Error::other)?;
    let mut neighbor = Neighbor::new(&plane.hostile, key)?;
    let (mut offered, mut slot, mut datagram) = (0u64, 1u64, vec![0; 1 << 16]);
    let slots = (end.length.as_millis() as u64 / plane.period_ms).max(1);
    // The router requests offers only after the neighbor has requested counts.
    let requests = end.spread(slots * 8, 1.0, |n| {
        if n % 8 == 0 {
            socket.send(&neighbor.counts_request(plane.period_ms, nonce(n))?)?;
        }
        while let Ok(octets) = socket.recv(&mut datagram) {
            let Some(query) = Request::read(&datagram[..octets]) else { continue };
            let content = match query.about {
                RequestKind::Counts => message::counts(BOOT, slot, plane.period_ms, [].into_iter()),
                RequestKind::Offers => {
                    let first = slot;
                    slot += OFFERS_MAX as u64;
                    offered += OFFERS_MAX as u64;
                    let id = |n: u64| plane.objects[n as usize % plane.objects.len()];
                    let offers = (first..slot).map(|slot| Offer { slot, id: id(slot), vips: OFFERED });
                    message::offers(BOOT, query.boot, slot, offers)
                }
            };
            socket.send(&neighbor.answer(&query.name, query.token, &content)?)?;
        }
        Ok(())
    });
    end.sleep(STEP);
    Ok(AttackCounts::from([("looks", requests), ("offers", offered)]))
}
