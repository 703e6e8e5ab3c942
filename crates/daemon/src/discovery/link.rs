//! A link with neighbor discovery, and its state in the system.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use namely_datagrams::ethernet::monitor::{self, Device};
use namely_discovery::{LinkAddress, LinkState};
use namely_forwarder::FaceId;
use namely_io::ethernet::DEFAULT_GROUP;
use namely_io::udp;
use namely_mgmt::Faces;
use namely_wire::{Endpoint, FaceUri};

use crate::config::Config;
use namely_dataplane::{CaptureLink, DataPlane, ListenError, ListenSpec};

/// Octets of the headers of IP and UDP.
const UDP4_OCTETS: usize = 28;
const UDP6_OCTETS: usize = 48;

/// The medium of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Ethernet frames to the group of all routers.
    Ethernet,
    /// Datagrams to this group. Neighbors reach this router at the port of the listener.
    Udp {
        /// The group.
        group: SocketAddr,
        /// The address on which the router listens.
        listener: SocketAddr,
    },
}

/// A link to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedLink {
    /// The network device.
    pub(crate) device: String,
    /// The medium for messages to neighbors.
    pub(crate) medium: Medium,
}

impl WatchedLink {
    /// The links of a configuration: listening devices, and UDP groups with a listener at which
    /// neighbors can reach this router.
    pub(crate) fn all(config: &Config) -> Vec<Self> {
        if !config.discovery.enabled {
            return Vec::new();
        }
        let listeners = config.faces.listeners();
        let ethernet = listeners.iter().filter_map(|uri| match uri {
            FaceUri::Device(name) => Some(WatchedLink { device: name.clone(), medium: Medium::Ethernet }),
            _ => None,
        });
        // The kernel does not support UDP groups.
        let multicast = config.faces.multicast.iter().filter(|_| !config.kernel.enabled);
        let groups = multicast.filter_map(|multicast| {
            let group = multicast.group.address()?;
            let listener = listeners.iter().find_map(|uri| match uri {
                FaceUri::Udp(Endpoint::Address(address)) => {
                    let is_usable = address.is_ipv4() == group.is_ipv4()
                        && !address.ip().is_loopback()
                        && address.port() != 0;
                    is_usable.then_some(*address)
                }
                _ => None,
            })?;
            Some(WatchedLink { device: multicast.interface.clone(), medium: Medium::Udp { group, listener } })
        });
        ethernet.chain(groups).collect()
    }

    /// The remote URI of the face of its group.
    pub(crate) fn group(&self) -> FaceUri {
        match self.medium {
            Medium::Ethernet => FaceUri::Ether(DEFAULT_GROUP),
            Medium::Udp { group, .. } => FaceUri::Udp(Endpoint::Address(group)),
        }
    }

    /// Returns the face of its group. A face from the configuration is reused, and otherwise one is
    /// made.
    pub(super) fn open_group(&self, plane: &DataPlane) -> Result<FaceId, ListenError> {
        let local = FaceUri::Device(self.device.clone()).to_string();
        let remote = self.group();
        let text = remote.to_string();
        let find = || {
            let faces = plane.faces();
            let face = faces.iter().find(|face| face.uri == text && face.local_uri == local);
            face.map(|face| FaceId(face.face_id))
        };
        if let Some(face) = find() {
            return Ok(face);
        }
        // The configuration has a face for each watched UDP group.
        let FaceUri::Ether(group) = remote else {
            return Err(ListenError::NoDevice(format!("{text} on {local} waits for its device")));
        };
        let listening = plane.listen(ListenSpec::EthernetGroup { interface: self.device.clone(), group });
        // The thread that waits for devices of the configuration may have made it meanwhile.
        let has_gone = || ListenError::Refused(format!("the face of {text} on {local} has gone"));
        find().ok_or_else(|| listening.err().unwrap_or_else(has_gone))
    }

    /// The description of the link for the capture queue of the workers.
    pub(crate) fn tapped(&self) -> CaptureLink {
        let device = FaceUri::Device(self.device.clone());
        match self.medium {
            Medium::Ethernet => CaptureLink::Ethernet(device),
            Medium::Udp { .. } => CaptureLink::Udp { device, group: self.group() },
        }
    }
}

/// A watched link.
pub(super) struct Link {
    pub(super) watched: WatchedLink,
    /// The face of its group.
    pub(super) group: FaceId,
    /// Its last state; `None` while the device is missing, down, or without an address.
    pub(super) seen: Option<LinkSnapshot>,
    /// The faces of its neighbors that receive Interests without a route.
    pub(super) discovery_faces: Vec<u64>,
    /// The faces of neighbors with an MTU below that of the group.
    pub(super) small: Vec<u64>,
}

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkSnapshot {
    /// The device's number.
    pub(super) index: u32,
    pub(super) state: LinkState,
}

impl Link {
    /// Queries the state of the link from the system. `None` while the device is missing, down, or
    /// without an address; `Err` if the query fails.
    pub(super) fn look(&self) -> Result<Option<LinkSnapshot>, ()> {
        let device = monitor::device(&self.watched.device).map_err(|_| ())?;
        let Some(device) = device.filter(|device| device.is_up) else { return Ok(None) };
        let index = device.index;
        Ok(self.state(&device).map(|state| LinkSnapshot { index, state }))
    }

    fn state(&self, device: &Device) -> Option<LinkState> {
        let mtu = device.mtu.min(namely_wire::LP_PACKET_OCTETS_MAX);
        let Medium::Udp { group, listener } = self.watched.medium else {
            let station = LinkAddress::Ether(device.address.0);
            return Some(LinkState { station, mtu, network_bits: 0 });
        };
        let own = match listener.ip() {
            ip if !ip.is_unspecified() => ip,
            _ => udp::address_towards(group, &self.watched.device).ok()?.0.ip(),
        };
        let headers = if own.is_ipv4() { UDP4_OCTETS } else { UDP6_OCTETS };
        let station = LinkAddress::Udp(SocketAddr::new(own, listener.port()));
        let network_bits = monitor::network_bits(device.index, own).ok().flatten();
        // An unknown network is treated as one of a single address, so that no packet leaves the
        // link.
        let network_bits = network_bits.unwrap_or(if own.is_ipv4() { 32 } else { 128 });
        Some(LinkState { station, mtu: mtu.saturating_sub(headers), network_bits })
    }

    /// Returns true if a UDP peer is on this link: its zone is that of the link, or this host
    /// reaches it from the link's address.
    pub(super) fn reaches(&self, peer: SocketAddr) -> bool {
        let Some(LinkSnapshot { index, state: LinkState { station: LinkAddress::Udp(own), .. } }) = self.seen
        else {
            return false;
        };
        match peer {
            SocketAddr::V6(peer) if peer.scope_id() != 0 => own.is_ipv6() && peer.scope_id() == index,
            _ => own.is_ipv4() == peer.is_ipv4() && source_towards(peer) == Some(own.ip()),
        }
    }

    /// Returns `station`, with the zone of this link if it is an IPv6 link-local address.
    pub(super) fn with_zone(&self, station: LinkAddress) -> LinkAddress {
        match (station, self.seen) {
            (LinkAddress::Udp(SocketAddr::V6(mut address)), Some(seen))
                if address.ip().is_unicast_link_local() =>
            {
                address.set_scope_id(seen.index);
                LinkAddress::Udp(SocketAddr::V6(address))
            }
            _ => station,
        }
    }
}

/// The source address that the system selects for a destination. No packet is sent.
fn source_towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
