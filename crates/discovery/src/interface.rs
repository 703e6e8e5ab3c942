//! The state of an interface.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use crate::limits::{CHALLENGE_TRIES_MAX, OUTSTANDING_MAX, REPLY_NS, REPLY_REMEMBERED_NS};
use crate::link_address::LinkAddress;

/// The number of an interface, assigned by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// Key of a neighbor in the table: interface and link address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeighborKey {
    pub(crate) interface: InterfaceId,
    pub(crate) station: LinkAddress,
}

impl NeighborKey {
    /// The key without the part that the source of a frame does not contain
    /// ([`LinkAddress::host`]).
    pub(crate) fn host(self) -> Self {
        NeighborKey { station: self.station.host(), ..self }
    }
}

/// The current state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The link address of this router.
    pub station: LinkAddress,
    /// The longest frame of the link, octets.
    pub mtu: usize,
    /// Prefix length of the link's IP network; 0 if every address is on the link.
    pub network_bits: u8,
}

impl LinkState {
    /// Returns true if another node of the link can have this link address: it is a unicast address
    /// of the link's network, and not that of this router. Packets to any other address reach
    /// several nodes, none, or another link.
    pub(crate) fn is_neighbor_address(&self, station: LinkAddress) -> bool {
        let is_on_link = match (self.station, station) {
            (LinkAddress::Ether(_), LinkAddress::Ether(_)) => true,
            (LinkAddress::Udp(own), LinkAddress::Udp(peer)) => {
                let (own, peer) = (own.ip().to_canonical(), peer.ip().to_canonical());
                shares_prefix(own, peer, self.network_bits)
                    && !is_broadcast(peer, self.network_bits)
                    && own.is_loopback() == peer.is_loopback()
            }
            _ => false,
        };
        is_on_link && station.is_unicast() && station != self.station
    }
}

/// Returns true if the first `bits` bits of two addresses are equal.
fn shares_prefix(own: IpAddr, peer: IpAddr, bits: u8) -> bool {
    let differing = match (own, peer) {
        (IpAddr::V4(own), IpAddr::V4(peer)) => (own.to_bits() ^ peer.to_bits()).leading_zeros(),
        (IpAddr::V6(own), IpAddr::V6(peer)) => (own.to_bits() ^ peer.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= u32::from(bits)
}

/// Returns true if packets to `ip` reach all nodes of its IPv4 network: the host part has only
/// ones, or only zeros, which is the older form. A network of one or two addresses has no such
/// address (RFC 3021).
fn is_broadcast(ip: IpAddr, network_bits: u8) -> bool {
    match ip {
        IpAddr::V4(ip) if network_bits < 31 => {
            let host = u32::MAX >> network_bits;
            [0, host].contains(&(ip.to_bits() & host))
        }
        _ => false,
    }
}

/// An interface that is up.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) link: LinkState,
    pub(crate) up_ns: u64,
    /// A random number, drawn each time that the interface comes up. A new number shows the
    /// neighbors that this router has lost its state about them.
    pub(crate) session: u64,
    /// Time of the next hello, ns.
    pub(crate) hello_ns: u64,
    /// The last reported group MTU.
    pub(crate) group_mtu: usize,
    outstanding: VecDeque<Outstanding>,
}

/// A hello that may still be answered.
#[derive(Debug)]
struct Outstanding {
    digest: [u8; 32],
    to: Option<LinkAddress>,
    at_ns: u64,
    /// The MTU that the hello stated.
    mtu: usize,
    is_answered: bool,
    /// Number of replies to this hello whose signatures were checked.
    tries: u32,
}

/// How a reply matches the hellos that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// The reply answers a multicast hello.
    Due,
    /// The reply answers a challenge to this link address.
    Challenge,
    /// The reply is late, repeated, or one of too many.
    Late,
    /// The reply answers no hello.
    Nothing,
}

impl Interface {
    pub(crate) fn new(link: LinkState, session: u64, hello_ns: u64, now_ns: u64) -> Self {
        Interface { link, up_ns: now_ns, session, hello_ns, group_mtu: 0, outstanding: VecDeque::new() }
    }

    pub(crate) fn sent(&mut self, digest: [u8; 32], to: Option<LinkAddress>, now_ns: u64) {
        while let Some(first) = self.outstanding.front()
            && (first.at_ns.saturating_add(REPLY_REMEMBERED_NS) <= now_ns
                || self.outstanding.len() >= OUTSTANDING_MAX)
        {
            self.outstanding.pop_front();
        }
        let mtu = self.link.mtu;
        let hello = Outstanding { digest, to, at_ns: now_ns, mtu, is_answered: false, tries: 0 };
        self.outstanding.push_back(hello);
    }

    /// Matches a reply from `station` to the hello with this digest.
    pub(crate) fn awaits(&mut self, digest: &[u8], station: LinkAddress, now_ns: u64) -> Match {
        let Some(hello) = self.outstanding.iter_mut().rev().find(|hello| hello.digest == digest) else {
            return Match::Nothing;
        };
        match hello.to {
            Some(to) if to != station => Match::Nothing,
            _ if hello.is_answered || hello.at_ns.saturating_add(REPLY_NS) < now_ns => Match::Late,
            None => Match::Due,
            Some(_) if hello.tries >= CHALLENGE_TRIES_MAX => Match::Late,
            Some(_) => {
                hello.tries += 1;
                Match::Challenge
            }
        }
    }

    /// Returns true if the hello with this digest contained the current MTU of the interface. The
    /// reply to an older hello agrees on an obsolete MTU, and no later message would correct it.
    pub(crate) fn stated_this_mtu(&self, digest: &[u8]) -> bool {
        let hello = self.outstanding.iter().rev().find(|hello| hello.digest == digest);
        hello.is_some_and(|hello| hello.mtu == self.link.mtu)
    }

    /// Marks a challenge as answered, because only one reply to it is accepted.
    pub(crate) fn answered(&mut self, digest: &[u8]) {
        if let Some(hello) = self.outstanding.iter_mut().rev().find(|hello| hello.digest == digest) {
            hello.is_answered = hello.to.is_some();
        }
    }
}
