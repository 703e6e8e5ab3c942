//! The attacks, and what an attacker knows of the router that it is at.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Counts of the attackers, by attack and by name.
pub(super) type Sent = BTreeMap<String, u64>;

/// One attack. The names on the command line and in the output are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Attack {
    /// Interests of an hour for what nobody answers, by UDP peers of which most go
    Pit,
    /// Connections that ask for cached Data and do not read
    Readers,
    /// Datagrams from thousands of addresses
    Faces,
    /// Data that nobody asked this peer for
    Poison,
    /// Descriptors sent to the router that are slow to close
    Descriptors,
    /// A local user's registrations of long names and requests for datasets without pause
    Commands,
    /// A local user's shared memory, as much as can be had
    Memory,
    /// A local user's reports that cached Data is not what it should be
    Reports,
    /// First fragments that are never completed, from many addresses
    Fragments,
    /// Connections that never finish their first message
    Handshakes,
    /// Interests for cached Data in the name of an address that asked for nothing
    Reflection,
    /// A local user who renames, links and forges in a folder into which a tree is fetched
    Target,
    /// A station that proves itself a neighbor of the link and answers no Interest
    Silent,
    /// A station that proves itself a neighbor of the link and refuses each Interest
    Refusing,
    /// A station that proves itself a neighbor of the link and answers with false Data
    Lying,
    /// Hellos with a tiny MTU from stations that never prove themselves
    Mtu,
    /// Hellos over UDP in the name of an address outside the link's network
    Challenges,
    /// Requests that a neighbor of the virtual plane did not sign, from its address
    Unsigned,
    /// Offers of a neighbor of the virtual plane beyond its link's rate
    Offers,
    /// File names and a router's words that a terminal would obey
    Escapes,
    /// All of these at once
    All,
}

impl Attack {
    /// Its name on the command line and in the output.
    pub fn name(self) -> &'static str {
        match self {
            Attack::Pit => "pit",
            Attack::Readers => "readers",
            Attack::Faces => "faces",
            Attack::Poison => "poison",
            Attack::Descriptors => "descriptors",
            Attack::Commands => "commands",
            Attack::Memory => "memory",
            Attack::Reports => "reports",
            Attack::Fragments => "fragments",
            Attack::Handshakes => "handshakes",
            Attack::Reflection => "reflection",
            Attack::Target => "target",
            Attack::Silent => "silent",
            Attack::Refusing => "refusing",
            Attack::Lying => "lying",
            Attack::Mtu => "mtu",
            Attack::Challenges => "challenges",
            Attack::Unsigned => "unsigned",
            Attack::Offers => "offers",
            Attack::Escapes => "escapes",
            Attack::All => "all",
        }
    }

    /// The single attacks that it is made of.
    pub fn parts(self) -> Vec<Attack> {
        match self {
            Attack::All => Attack::value_variants().iter().copied().filter(|a| *a != Attack::All).collect(),
            single => vec![single],
        }
    }

    /// Returns true if a neighbor attacks that has proven itself, beside a producer that has not.
    pub(crate) fn is_by_neighbor(self) -> bool {
        matches!(self, Attack::Silent | Attack::Refusing | Attack::Lying)
    }

    /// Returns true if it comes from a station of the router's link, which has a machine of its
    /// own and so the rights to send any frame.
    pub(crate) fn is_on_link(self) -> bool {
        self.is_by_neighbor() || matches!(self, Attack::Mtu | Attack::Challenges)
    }

    /// Returns true if it is on the virtual plane.
    pub(super) fn is_on_plane(self) -> bool {
        matches!(self, Attack::Unsigned | Attack::Offers)
    }

    /// Returns true if the attacker needs the rights of root on its own machine.
    pub(crate) fn needs_root(self) -> bool {
        self.is_on_link() || self == Attack::Unsigned
    }
}

/// Where a router is and what is published there, as every attacker knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Its Unix socket.
    pub unix: PathBuf,
    /// Where it arranges shared memory, if it does.
    pub memif: Option<PathBuf>,
    /// Where it takes datagrams.
    pub udp: SocketAddr,
    /// Where it takes connections.
    pub tcp: SocketAddr,
    /// Where it takes WebSocket connections, if it does.
    pub websocket: Option<SocketAddr>,
    /// The versioned name of an object that is in its content store.
    pub object: String,
    /// How many segments the object has.
    pub segments: u64,
    /// The prefix below which objects `0`, `1`, ... of one segment size are fetched in order.
    pub fresh: String,
    /// The version component of each of those.
    pub fresh_version: String,
    /// How many of those there are.
    pub fresh_objects: u64,
    /// A folder that all may write, into which a tree is fetched.
    pub shared: PathBuf,
    /// A folder beside it that only who fetches may write.
    pub outside: PathBuf,
    /// A prefix whose route leads to a neighbour that never answers.
    pub silent: String,
    /// The link to other stations, if the router has one.
    pub segment: Option<Segment>,
    /// The virtual plane, if the router runs it.
    pub plane: Option<Plane>,
    /// Where a lying router takes connections.
    pub liar: SocketAddr,
}

/// A link with discovery, as a station on it knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Segment {
    /// The station's device.
    pub device: String,
    /// The router's Ethernet address.
    pub router: String,
    /// The group of UDP to which hellos go.
    pub group: SocketAddr,
    /// An address that the station can receive at, outside the link's network.
    pub outside: SocketAddr,
}

/// The virtual plane, as a hostile neighbor knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plane {
    /// How long a slot lasts, ms.
    pub period_ms: u64,
    /// The registered objects.
    pub objects: Vec<u64>,
    /// The honest neighbor's name in the exchange.
    pub honest: String,
    /// Where the honest neighbor is.
    pub honest_address: SocketAddr,
    /// The hostile neighbor's name in the exchange.
    pub hostile: String,
    /// Where the hostile neighbor is.
    pub hostile_address: SocketAddr,
    /// The hostile neighbor's key (PKCS#8).
    pub hostile_key: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_knows_each_attack_by_its_name() {
        for attack in Attack::value_variants() {
            let value = attack.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(value.as_deref(), Some(attack.name()));
        }
    }

    #[test]
    fn all_is_every_other_attack() {
        assert_eq!(Attack::All.parts().len(), Attack::value_variants().len() - 1);
        assert_eq!(Attack::Pit.parts(), [Attack::Pit]);
    }
}
