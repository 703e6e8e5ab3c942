//! An interface, as the state machine sees it.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use crate::limits::{CHALLENGE_TRIES_MAX, OUTSTANDING_MAX, REPLY_NS, REPLY_REMEMBERED_NS};
use crate::station::Station;

/// An interface, by a number that the home gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceId(pub u32);

/// An interface as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Where neighbours reach this router on it.
    pub station: Station,
    /// Its longest frame, octets.
    pub mtu: usize,
    /// Leading bits of its IP address that are the network's; 0 where every address is on the link.
    pub network_bits: u8,
}

impl LinkState {
    /// Whether a station has an address of the link's network.
    pub(crate) fn contains(&self, station: Station) -> bool {
        match (self.station, station) {
            (Station::Ether(_), Station::Ether(_)) => true,
            (Station::Udp(own), Station::Udp(peer)) => {
                is_of_network(own.ip().to_canonical(), peer.ip().to_canonical(), self.network_bits)
            }
            _ => false,
        }
    }
}

/// Whether the first bits of two addresses are the same.
fn is_of_network(own: IpAddr, peer: IpAddr, bits: u8) -> bool {
    let differing = match (own, peer) {
        (IpAddr::V4(own), IpAddr::V4(peer)) => (own.to_bits() ^ peer.to_bits()).leading_zeros(),
        (IpAddr::V6(own), IpAddr::V6(peer)) => (own.to_bits() ^ peer.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= u32::from(bits)
}

/// What is known of an interface that is up.
#[derive(Debug)]
pub(crate) struct Interface {
    pub(crate) link: LinkState,
    pub(crate) up_ns: u64,
    /// A number that is another one each time that it comes up: neighbours then know that this
    /// router has forgotten them.
    pub(crate) session: u64,
    /// When the next hello is due, ns.
    pub(crate) hello_ns: u64,
    /// The longest frame that is multicast, as last told.
    pub(crate) group_mtu: usize,
    outstanding: VecDeque<Outstanding>,
}

/// A hello to which a reply may come.
#[derive(Debug)]
struct Outstanding {
    digest: [u8; 32],
    to: Option<Station>,
    at_ns: u64,
    /// The MTU that the hello stated.
    mtu: usize,
    is_answered: bool,
    /// Replies to it whose signature was looked at.
    tries: u32,
}

/// How a reply stands to the hellos that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    /// Asked for by a multicast hello.
    Due,
    /// Asked for by a challenge of this station.
    Challenge,
    /// It came too late, or again.
    Late,
    /// Nobody asked for it.
    Nothing,
}

impl Interface {
    pub(crate) fn new(link: LinkState, session: u64, hello_ns: u64, now_ns: u64) -> Self {
        Interface { link, up_ns: now_ns, session, hello_ns, group_mtu: 0, outstanding: VecDeque::new() }
    }

    pub(crate) fn sent(&mut self, digest: [u8; 32], to: Option<Station>, now_ns: u64) {
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

    /// Whether a reply from `station` to the hello with this digest is due.
    pub(crate) fn awaits(&mut self, digest: &[u8], station: Station, now_ns: u64) -> Match {
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

    /// Whether the hello with this digest stated the MTU that the interface still has. A reply to
    /// an older one agrees on an MTU that is no longer true, and no later message would correct it.
    pub(crate) fn stated_this_mtu(&self, digest: &[u8]) -> bool {
        let hello = self.outstanding.iter().rev().find(|hello| hello.digest == digest);
        hello.is_some_and(|hello| hello.mtu == self.link.mtu)
    }

    /// The one reply to a challenge has come.
    pub(crate) fn answered(&mut self, digest: &[u8]) {
        if let Some(hello) = self.outstanding.iter_mut().rev().find(|hello| hello.digest == digest) {
            hello.is_answered = hello.to.is_some();
        }
    }
}
