//! The queue of packets about neighbors between workers and the discovery thread.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use namely_discovery::LinkAddress;
use namely_forwarder::FaceId;
use namely_host::Waker;
use namely_wire::FaceUri;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::shared::FaceSender;

/// Packets about neighbors that wait for the control thread.
///
/// # Limit
/// The packet is dropped.
/// - Counter: `discovery.queue_full`
/// - Tests: `overheard_packets_wait_up_to_a_limit`
pub(crate) const OVERHEARD_MAX: usize = 1024;

/// The queue of packets about neighbors. Workers put packets in, and one thread takes them out.
pub struct CaptureQueue {
    links: Vec<CaptureLink>,
    faces: Mutex<HashMap<FaceId, CapturedFace>>,
    queue: Mutex<VecDeque<CapturedPacket>>,
    waker: Waker,
    drops: AtomicU64,
}

/// A link that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureLink {
    /// All frames that arrive on a network device.
    Ethernet(FaceUri),
    /// A UDP multicast group on a device, and all UDP peers.
    Udp {
        /// The device.
        device: FaceUri,
        /// The group.
        group: FaceUri,
    },
}

impl CaptureLink {
    /// Returns true if this is the link of a face to one peer or group.
    fn is_of(&self, remote: &FaceUri, local: &FaceUri) -> bool {
        match self {
            CaptureLink::Ethernet(device) => local == device && matches!(remote, FaceUri::Ether(_)),
            CaptureLink::Udp { device, group } => local == device && remote == group,
        }
    }
}

/// A face whose packets are captured.
#[derive(Clone, Copy)]
struct CapturedFace {
    /// `None` if the peer's address must determine the link.
    link: Option<usize>,
    /// The peer's link address; `None` for a group.
    station: Option<LinkAddress>,
}

/// A packet about neighbors.
pub struct CapturedPacket {
    /// The index of the link in the list that [`CaptureQueue::new`] received; `None` if the peer's
    /// address must determine it.
    pub link: Option<usize>,
    /// The address of its sender.
    pub source: LinkAddress,
    /// Whether it arrived over a unicast face.
    pub is_unicast: bool,
    /// The Interest or Data.
    pub packet: Vec<u8>,
}

impl CaptureQueue {
    /// Creates a queue for the packets of these links.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(links: Vec<CaptureLink>) -> Result<Self, Errno> {
        let (faces, queue) = Default::default();
        Ok(CaptureQueue { links, faces, queue, waker: Waker::new()?, drops: AtomicU64::new(0) })
    }

    /// Returns the waker of the thread that takes packets out.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Returns the number of packets that were dropped because the queue was full.
    pub fn drops(&self) -> u64 {
        self.drops.load(Ordering::Relaxed)
    }

    /// Registers a new face. Returns true if its packets must be captured.
    pub(super) fn know(&self, face: FaceId, port: &FaceSender, local: &FaceUri) -> bool {
        let remote = port.remote();
        let link = self.links.iter().position(|link| link.is_of(remote, local));
        let station = match remote {
            FaceUri::Ether(address) if !address.is_group() => Some(LinkAddress::Ether(address.0)),
            FaceUri::Udp(_) => {
                remote.address().filter(|address| !address.ip().is_multicast()).map(LinkAddress::Udp)
            }
            _ => None,
        };
        let is_udp_watched = self.links.iter().any(|link| matches!(link, CaptureLink::Udp { .. }));
        // The address of a UDP peer does not name the device, so each peer may be on a watched
        // link.
        let is_peer = is_udp_watched && matches!(station, Some(LinkAddress::Udp(_)));
        if link.is_none() && !is_peer {
            return false;
        }
        self.faces.lock().insert(face, CapturedFace { link, station });
        true
    }

    pub(super) fn forget(&self, face: FaceId) {
        self.faces.lock().remove(&face);
    }

    /// Queues a packet from a worker. `remote` is its sender if it arrived at a group.
    pub(super) fn capture(&self, face: FaceId, remote: Option<SocketAddr>, packet: &[u8]) {
        let Some(CapturedFace { link, station }) = self.faces.lock().get(&face).copied() else { return };
        let is_udp = link.is_some_and(|link| matches!(self.links.get(link), Some(CaptureLink::Udp { .. })));
        let of_member =
            |remote| if is_udp { Some(LinkAddress::Udp(remote)) } else { ethernet_address(remote) };
        let Some(source) = station.or_else(|| remote.and_then(of_member)) else { return };
        let overheard =
            CapturedPacket { link, source, is_unicast: station.is_some(), packet: packet.to_vec() };
        let mut queue = self.queue.lock();
        if queue.len() >= OVERHEARD_MAX {
            // Relaxed: the number guards no memory.
            self.drops.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.push_back(overheard);
        drop(queue);
        self.waker.wake();
    }

    /// Takes out the waiting packets.
    pub fn take(&self) -> VecDeque<CapturedPacket> {
        std::mem::take(&mut *self.queue.lock())
    }
}

/// Returns the link address of a group's member. It is encoded in the link-local address that
/// distinguishes the member from others.
fn ethernet_address(remote: SocketAddr) -> Option<LinkAddress> {
    let IpAddr::V6(ip) = remote.ip() else { return None };
    let [_, _, _, _, _, _, _, _, a, b, c, 0xff, 0xfe, d, e, f] = ip.octets() else { return None };
    // The modified EUI-64 has the universal/local bit inverted (RFC 4291, appendix A).
    Some(LinkAddress::Ether([a ^ 2, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheard_packets_wait_up_to_a_limit() {
        let tap = CaptureQueue::new(Vec::new()).unwrap();
        let station = Some(LinkAddress::Ether([2, 0, 0, 0, 0, 1]));
        tap.faces.lock().insert(FaceId(300), CapturedFace { link: Some(0), station });
        (0..OVERHEARD_MAX).for_each(|_| tap.capture(FaceId(300), None, &[5, 0]));
        assert_eq!((tap.queue.lock().len(), tap.drops()), (OVERHEARD_MAX, 0));
        tap.capture(FaceId(300), None, &[5, 0]);
        assert_eq!((tap.take().len(), tap.drops()), (OVERHEARD_MAX, 1));
        // Packets of a face that is not watched, or that was closed, are not captured.
        tap.capture(FaceId(301), None, &[5, 0]);
        tap.forget(FaceId(300));
        tap.capture(FaceId(300), None, &[5, 0]);
        assert_eq!(tap.take().len(), 0);
    }

    #[test]
    fn a_group_member_is_known_by_address() {
        let station = ethernet_address("[fe80::2:ff:fe00:a]:0".parse().unwrap());
        assert_eq!(station, Some(LinkAddress::Ether([2, 2, 0, 0, 0, 0xa])));
        assert_eq!(ethernet_address("192.0.2.1:7".parse().unwrap()), None);
        assert_eq!(ethernet_address("[2001:db8::1]:7".parse().unwrap()), None);
    }
}
