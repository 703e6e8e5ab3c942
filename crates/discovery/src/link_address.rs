//! Link addresses and their text in a hello.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::str::FromStr;

use namely_wire::MacAddress;

/// An Ed25519 public key, which identifies a router.
pub type Key = [u8; 32];

/// The number of a face, assigned by the host.
pub type Face = u64;

/// A link address that a unicast face can have as its remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkAddress {
    /// An Ethernet address.
    Ether([u8; 6]),
    /// A UDP address and port.
    Udp(SocketAddr),
}

impl LinkAddress {
    /// The part of the address that is the same in the source of a frame. The port is left out,
    /// because messages to the group have another source port. The zone of a link-local address is
    /// left out, because it is local to the receiver.
    pub fn host(self) -> LinkAddress {
        match self {
            LinkAddress::Ether(_) => self,
            LinkAddress::Udp(address) => LinkAddress::Udp(SocketAddr::new(plain(address.ip()), 0)),
        }
    }

    /// Returns true if a single node can have this address, and the address is in the form in which
    /// routers write it. Another form of a node's address, such as IPv4 in IPv6, would pass for
    /// another node.
    pub(crate) fn is_unicast(self) -> bool {
        match self {
            LinkAddress::Ether(octets) => octets[0] & 1 == 0 && octets != [0; 6],
            LinkAddress::Udp(address) => {
                let ip = plain(address.ip());
                let is_of_all = ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST);
                let is_usual_form = address == SocketAddr::new(ip, address.port());
                is_usual_form && address.port() != 0 && !ip.is_unspecified() && !is_of_all
            }
        }
    }
}

fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkAddress::Ether(octets) => MacAddress(*octets).fmt(f),
            LinkAddress::Udp(address) => SocketAddr::new(address.ip(), address.port()).fmt(f),
        }
    }
}

impl FromStr for LinkAddress {
    type Err = ();

    /// A MAC address as six pairs of hexadecimal digits, or an address and port.
    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(mac) = text.parse::<MacAddress>() {
            return Ok(LinkAddress::Ether(mac.0));
        }
        text.parse().map(LinkAddress::Udp).map_err(|_| ())
    }
}
