//! A link on which neighbours are looked for, and its state as the system shows it.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use namely_datagrams::ethernet::monitor::{self, Device};
use namely_discovery::{LinkState, Station};
use namely_forwarder::FaceId;
use namely_io::ethernet::DEFAULT_GROUP;
use namely_io::udp;
use namely_wire::{Endpoint, FaceUri};

use crate::config::Config;
use namely_dataplane::TapLink;

/// Octets of the headers of IP and UDP.
const UDP4_OCTETS: usize = 28;
const UDP6_OCTETS: usize = 48;

/// What carries the frames of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// Frames, to the group of all routers.
    Ethernet,
    /// Datagrams to this group; neighbours reach this router at the port of that listener.
    Udp {
        /// The group.
        group: SocketAddr,
        /// Where the router listens.
        listener: SocketAddr,
    },
}

/// A link to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedLink {
    /// The network device.
    pub(crate) device: String,
    /// How neighbours are spoken to.
    pub(crate) medium: Medium,
}

impl WatchedLink {
    /// The links of a configuration: devices that are listened on, and groups of UDP where there
    /// is a port at which neighbours can answer.
    pub(crate) fn all(config: &Config) -> Vec<Self> {
        if !config.discovery.enabled {
            return Vec::new();
        }
        let ethernet = config.faces.listen.iter().filter_map(|uri| match uri {
            FaceUri::Device(name) => Some(WatchedLink { device: name.clone(), medium: Medium::Ethernet }),
            _ => None,
        });
        // What is on a group of UDP is not the kernel's.
        let multicast = config.faces.multicast.iter().filter(|_| !config.kernel.enabled);
        let groups = multicast.filter_map(|multicast| {
            let group = multicast.group.address()?;
            let listener = config.faces.listen.iter().find_map(|uri| match uri {
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

    /// The remote end of the face of its group.
    pub(crate) fn group(&self) -> FaceUri {
        match self.medium {
            Medium::Ethernet => FaceUri::Ether(DEFAULT_GROUP),
            Medium::Udp { group, .. } => FaceUri::Udp(Endpoint::Address(group)),
        }
    }

    /// As workers know it.
    pub(crate) fn tapped(&self) -> TapLink {
        let device = FaceUri::Device(self.device.clone());
        match self.medium {
            Medium::Ethernet => TapLink::Ethernet(device),
            Medium::Udp { .. } => TapLink::Udp { device, group: self.group() },
        }
    }
}

/// A link that is watched.
pub(super) struct Link {
    pub(super) watched: WatchedLink,
    /// The face of its group.
    pub(super) group: FaceId,
    /// As it was last seen; `None` while it is not there, down, or without an address.
    pub(super) seen: Option<Seen>,
    /// The faces of its neighbours that are asked for what no route leads to.
    pub(super) asked: Vec<u64>,
    /// Those whose MTU is below that of the group.
    pub(super) small: Vec<u64>,
}

/// What was seen of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The device's number.
    pub(super) index: u32,
    pub(super) state: LinkState,
}

impl Link {
    /// Asks the system. `Err` when that does not say.
    pub(super) fn look(&self) -> Result<Option<Seen>, ()> {
        let device = monitor::device(&self.watched.device).map_err(|_| ())?;
        let Some(device) = device.filter(|device| device.is_up) else { return Ok(None) };
        let index = device.index;
        Ok(self.state(&device).map(|state| Seen { index, state }))
    }

    fn state(&self, device: &Device) -> Option<LinkState> {
        let mtu = device.mtu.min(namely_wire::LP_PACKET_OCTETS_MAX);
        let Medium::Udp { group, listener } = self.watched.medium else {
            let station = Station::Ether(device.address.0);
            return Some(LinkState { station, mtu, network_bits: 0 });
        };
        let own = match listener.ip() {
            ip if !ip.is_unspecified() => ip,
            _ => udp::address_towards(group, &self.watched.device).ok()?.0.ip(),
        };
        let headers = if own.is_ipv4() { UDP4_OCTETS } else { UDP6_OCTETS };
        let station = Station::Udp(SocketAddr::new(own, listener.port()));
        let network_bits = monitor::network_bits(device.index, own).ok().flatten();
        // Of which network it is has to be known, so that nothing is sent to others.
        let network_bits = network_bits.unwrap_or(if own.is_ipv4() { 32 } else { 128 });
        Some(LinkState { station, mtu: mtu.saturating_sub(headers), network_bits })
    }

    /// Whether a peer of UDP is on this link: its zone says so, or the address by which this host
    /// reaches it.
    pub(super) fn reaches(&self, peer: SocketAddr) -> bool {
        let Some(Seen { index, state: LinkState { station: Station::Udp(own), .. } }) = self.seen else {
            return false;
        };
        match peer {
            SocketAddr::V6(peer) if peer.scope_id() != 0 => own.is_ipv6() && peer.scope_id() == index,
            _ => own.is_ipv4() == peer.is_ipv4() && source_towards(peer) == Some(own.ip()),
        }
    }

    /// A station of this link with the zone that its address may need here.
    pub(super) fn with_zone(&self, station: Station) -> Station {
        match (station, self.seen) {
            (Station::Udp(SocketAddr::V6(mut address)), Some(seen))
                if address.ip().is_unicast_link_local() =>
            {
                address.set_scope_id(seen.index);
                Station::Udp(SocketAddr::V6(address))
            }
            _ => station,
        }
    }
}

/// The address from which the system would send there. Nothing is sent.
fn source_towards(peer: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { [0u8; 4].into() } else { [0u8; 16].into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip())
}
