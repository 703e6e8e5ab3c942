//! Where a neighbour is on its link, and how a hello writes it.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use namely_wire::MacAddress;

/// An Ed25519 public key, by which a router is known.
pub type Key = [u8; 32];

/// A face's number in the home of the state machine.
pub type Face = u64;

/// A place on a link that a unicast face can lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Station {
    /// An Ethernet address.
    Ether([u8; 6]),
    /// An address and port of UDP.
    Udp(SocketAddr),
}

impl Station {
    /// What the source of a frame tells of it: all but a port, as a group is spoken to from
    /// another. Zones of link-local addresses are the receiver's own matter.
    pub fn host(self) -> Station {
        match self {
            Station::Ether(_) => self,
            Station::Udp(address) => Station::Udp(SocketAddr::new(plain(address.ip()), 0)),
        }
    }

    /// Whether one node can have this address.
    pub(crate) fn is_unicast(self) -> bool {
        match self {
            Station::Ether(octets) => octets[0] & 1 == 0 && octets != [0; 6],
            Station::Udp(address) => {
                let ip = address.ip();
                address.port() != 0 && !ip.is_multicast() && !ip.is_unspecified()
            }
        }
    }
}

fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

impl fmt::Display for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Station::Ether(octets) => MacAddress(*octets).fmt(f),
            Station::Udp(address) => SocketAddr::new(address.ip(), address.port()).fmt(f),
        }
    }
}

impl FromStr for Station {
    type Err = ();

    /// A MAC address as six pairs of hexadecimal digits, or an address and port.
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(mac) = text.parse::<MacAddress>() {
            return Ok(Station::Ether(mac.0));
        }
        text.parse().map(Station::Udp).map_err(|_| ())
    }
}
