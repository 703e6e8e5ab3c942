//! The attacks, and the facts about the router under attack that an attacker receives.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Counts of the attackers, by attack and by name.
pub(super) type AttackerCounts = BTreeMap<String, u64>;

/// One attack. The names on the command line and in the output are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Attack {
    /// Interests with a lifetime of an hour for names without a producer, from UDP peers most of
    /// which close
    Pit,
    /// Connections that request cached Data and do not read it
    Readers,
    /// Datagrams from thousands of addresses
    Faces,
    /// Unsolicited Data
    Poison,
    /// Descriptors sent to the router that are slow to close
    Descriptors,
    /// A local user's registrations of long names and requests for datasets without pause
    Commands,
    /// A local user's shared memory, as much as the router admits
    Memory,
    /// A local user's false reports of cached Data
    Reports,
    /// First fragments that are never completed, from many addresses
    Fragments,
    /// Connections that never finish their first message
    Handshakes,
    /// Interests for cached Data with the forged address of a victim
    Reflection,
    /// A local user who renames, links and forges in the target folder of a tree's fetch
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
    /// File names and texts of a router with control sequences for a terminal
    Escapes,
    /// All of these at once
    All,
}

impl Attack {
    /// Returns the name on the command line and in the output.
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

    /// Returns the single attacks of which this one consists.
    pub fn parts(self) -> Vec<Attack> {
        match self {
            Attack::All => Attack::value_variants().iter().copied().filter(|a| *a != Attack::All).collect(),
            single => vec![single],
        }
    }

    /// Returns true if the attacker is a proven neighbor. The link has an honest producer, too,
    /// which is no proven neighbor.
    pub(crate) fn is_by_neighbor(self) -> bool {
        matches!(self, Attack::Silent | Attack::Refusing | Attack::Lying)
    }

    /// Returns true if the attacker is a station of the router's link. Such a station has a machine
    /// of its own, and so the rights to send any frame.
    pub(crate) fn is_on_link(self) -> bool {
        self.is_by_neighbor() || matches!(self, Attack::Mtu | Attack::Challenges)
    }

    /// Returns true if the attack is on the virtual plane.
    pub(super) fn is_on_plane(self) -> bool {
        matches!(self, Attack::Unsigned | Attack::Offers)
    }

    /// Returns true if the attacker needs the rights of root on its own machine.
    pub(crate) fn needs_root(self) -> bool {
        self.is_on_link() || self == Attack::Unsigned
    }
}

/// The addresses and published names of the router, which every attacker receives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RouterAddresses {
    /// Its Unix socket.
    pub unix: PathBuf,
    /// Control socket for shared memory, if there is one.
    pub memif: Option<PathBuf>,
    /// Address for datagrams.
    pub udp: SocketAddr,
    /// Address for TCP connections.
    pub tcp: SocketAddr,
    /// Address for WebSocket connections, if there is one.
    pub websocket: Option<SocketAddr>,
    /// The versioned name of an object in the router's content store.
    pub object: String,
    /// Number of segments of the object.
    pub segments: u64,
    /// The prefix of objects `0`, `1`, ..., which are fetched in order. All have the same segment
    /// size.
    pub fresh: String,
    /// The version component of each of those objects.
    pub fresh_version: String,
    /// Number of those objects.
    pub fresh_objects: u64,
    /// A world-writable folder into which a tree is fetched.
    pub shared: PathBuf,
    /// A folder beside it that only the fetching user may write.
    pub outside: PathBuf,
    /// A prefix whose route leads to a neighbor that never answers.
    pub silent: String,
    /// The link to other stations, if the router has one.
    pub segment: Option<Segment>,
    /// The virtual plane, if the router runs it.
    pub plane: Option<Plane>,
    /// Address of a lying router.
    pub liar: SocketAddr,
}

/// A link with discovery, from the view of a station on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Segment {
    /// The station's device.
    pub device: String,
    /// The router's Ethernet address.
    pub router: String,
    /// The UDP multicast group of hellos.
    pub group: SocketAddr,
    /// An address outside the link's network, at which the station can receive.
    pub outside: SocketAddr,
}

/// The virtual plane, from the view of a hostile neighbor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plane {
    /// Duration of a slot, ms.
    pub period_ms: u64,
    /// The registered objects.
    pub objects: Vec<u64>,
    /// The honest neighbor's name in the exchange.
    pub honest: String,
    /// The honest neighbor's address.
    pub honest_address: SocketAddr,
    /// The hostile neighbor's name in the exchange.
    pub hostile: String,
    /// The hostile neighbor's address.
    pub hostile_address: SocketAddr,
    /// The hostile neighbor's key (PKCS#8).
    pub hostile_key: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_names_each_attack() {
        for attack in Attack::value_variants() {
            let value = attack.to_possible_value().map(|v| v.get_name().to_owned());
            assert_eq!(value.as_deref(), Some(attack.name()));
        }
    }

    #[test]
    fn the_attack_all_includes_every_other() {
        assert_eq!(Attack::All.parts().len(), Attack::value_variants().len() - 1);
        assert_eq!(Attack::Pit.parts(), [Attack::Pit]);
    }
}
