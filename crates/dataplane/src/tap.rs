//! What is heard about neighbours, on its way from workers to the thread of discovery.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

use namely_discovery::Station;
use namely_forwarder::FaceId;
use namely_host::Waker;
use namely_wire::FaceUri;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::shared::Port;

/// Packets about neighbours that wait. One more is dropped and counted
/// (`discovery.queue_full`).
pub(crate) const OVERHEARD_MAX: usize = 1024;

/// Between workers, which put packets in, and the one thread that takes them out.
pub struct Tap {
    links: Vec<TapLink>,
    faces: Mutex<HashMap<FaceId, Watched>>,
    queue: Mutex<VecDeque<Overheard>>,
    waker: Waker,
    drops: AtomicU64,
}

/// A link that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapLink {
    /// All that arrives on a network device as frames.
    Ethernet(FaceUri),
    /// A group of UDP on a device, and all peers of UDP.
    Udp {
        /// The device.
        device: FaceUri,
        /// The group.
        group: FaceUri,
    },
}

impl TapLink {
    /// Whether this is the link of a face to one station or group.
    fn is_of(&self, remote: &FaceUri, local: &FaceUri) -> bool {
        match self {
            TapLink::Ethernet(device) => local == device && matches!(remote, FaceUri::Ether(_)),
            TapLink::Udp { device, group } => local == device && remote == group,
        }
    }
}

/// A face whose packets are looked at.
#[derive(Clone, Copy)]
struct Watched {
    /// `None` where the address of a peer must tell.
    link: Option<usize>,
    /// Who is at its other end; `None` of a group.
    station: Option<Station>,
}

/// A packet about neighbours.
pub struct Overheard {
    /// Which link, in the order that [`Tap::new`] was given; `None` where the address of the peer
    /// must tell.
    pub link: Option<usize>,
    /// Where it came from.
    pub source: Station,
    /// It came over a unicast face.
    pub is_unicast: bool,
    /// The Interest or Data.
    pub packet: Vec<u8>,
}

impl Tap {
    /// A tap for the faces of these links.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(links: Vec<TapLink>) -> Result<Self, Errno> {
        let (faces, queue) = Default::default();
        Ok(Tap { links, faces, queue, waker: Waker::new()?, drops: AtomicU64::new(0) })
    }

    /// Ends the wait of the thread that takes packets out.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// What was dropped because too much waited.
    pub fn drops(&self) -> u64 {
        self.drops.load(Ordering::Relaxed)
    }

    /// A new face: true if its packets are to be shown.
    pub(super) fn know(&self, face: FaceId, port: &Port, local: &FaceUri) -> bool {
        let remote = port.remote();
        let link = self.links.iter().position(|link| link.is_of(remote, local));
        let station = match remote {
            FaceUri::Ether(address) if !address.is_group() => Some(Station::Ether(address.0)),
            FaceUri::Udp(_) => {
                remote.address().filter(|address| !address.ip().is_multicast()).map(Station::Udp)
            }
            _ => None,
        };
        let is_udp_watched = self.links.iter().any(|link| matches!(link, TapLink::Udp { .. }));
        let is_peer = is_udp_watched && matches!(station, Some(Station::Udp(_)));
        if link.is_none() && !is_peer {
            return false;
        }
        self.faces.lock().insert(face, Watched { link, station });
        true
    }

    pub(super) fn forget(&self, face: FaceId) {
        self.faces.lock().remove(&face);
    }

    /// A worker has a packet, which `remote` sent if it came to a group.
    pub(super) fn hear(&self, face: FaceId, remote: Option<SocketAddr>, packet: &[u8]) {
        let Some(Watched { link, station }) = self.faces.lock().get(&face).copied() else { return };
        let is_udp = link.is_some_and(|link| matches!(self.links.get(link), Some(TapLink::Udp { .. })));
        let of_member = |remote| if is_udp { Some(Station::Udp(remote)) } else { ethernet_station(remote) };
        let Some(source) = station.or_else(|| remote.and_then(of_member)) else { return };
        let overheard = Overheard { link, source, is_unicast: station.is_some(), packet: packet.to_vec() };
        let mut queue = self.queue.lock();
        if queue.len() >= OVERHEARD_MAX {
            self.drops.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.push_back(overheard);
        drop(queue);
        self.waker.wake();
    }

    /// Takes out what waits.
    pub fn take(&self) -> VecDeque<Overheard> {
        std::mem::take(&mut *self.queue.lock())
    }
}

/// The station of a group's member, whose address stands in the link-local one that tells it from
/// others.
fn ethernet_station(remote: SocketAddr) -> Option<Station> {
    let IpAddr::V6(ip) = remote.ip() else { return None };
    let [_, _, _, _, _, _, _, _, a, b, c, 0xff, 0xfe, d, e, f] = ip.octets() else { return None };
    Some(Station::Ether([a ^ 2, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_packets_about_neighbours_wait_and_no_more() {
        let tap = Tap::new(Vec::new()).unwrap();
        let station = Some(Station::Ether([2, 0, 0, 0, 0, 1]));
        tap.faces.lock().insert(FaceId(300), Watched { link: Some(0), station });
        (0..OVERHEARD_MAX).for_each(|_| tap.hear(FaceId(300), None, &[5, 0]));
        assert_eq!((tap.queue.lock().len(), tap.drops()), (OVERHEARD_MAX, 0));
        tap.hear(FaceId(300), None, &[5, 0]);
        assert_eq!((tap.take().len(), tap.drops()), (OVERHEARD_MAX, 1));
        // A face that is not watched says nothing here, nor does one that has gone.
        tap.hear(FaceId(301), None, &[5, 0]);
        tap.forget(FaceId(300));
        tap.hear(FaceId(300), None, &[5, 0]);
        assert_eq!(tap.take().len(), 0);
    }

    #[test]
    fn a_member_of_a_group_is_known_by_its_address() {
        let station = ethernet_station("[fe80::2:ff:fe00:a]:0".parse().unwrap());
        assert_eq!(station, Some(Station::Ether([2, 2, 0, 0, 0, 0xa])));
        assert_eq!(ethernet_station("192.0.2.1:7".parse().unwrap()), None);
        assert_eq!(ethernet_station("[2001:db8::1]:7".parse().unwrap()), None);
    }
}
