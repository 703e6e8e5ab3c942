//! The attacks, and what an attacker knows of the router that it is at.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

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
