//! The dataset `neighbors/list`, namely's own: the neighbors on the links of a router.

use alloc::string::String;
use alloc::vec::Vec;

use super::field::{block, choice_field};
use super::numbers::*;
use namely_wire::Name;

/// The subject of an entry of `neighbors/list`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeighborState {
    /// The router itself on this link.
    #[default]
    Own,
    /// The router itself on a link where it trusts every neighbor without a check.
    OwnOpen,
    /// A neighbor that sent a hello and has not answered a challenge yet.
    Found,
    /// A neighbor.
    Proven,
    /// A link address whose packets are ignored.
    Quarantined,
}

impl NeighborState {
    const ALL: [(Self, u64, &'static str); 5] = [
        (NeighborState::Own, 0, "own"),
        (NeighborState::OwnOpen, 1, "own, open"),
        (NeighborState::Found, 2, "found"),
        (NeighborState::Proven, 3, "neighbour"),
        (NeighborState::Quarantined, 4, "quarantined"),
    ];

    /// The state's name in output for people.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(state, _, _)| *state == self).map_or("", |(_, _, word)| word)
    }

    fn from_number(number: u64) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == number).map(|(state, ..)| *state)
    }

    fn number(self) -> u64 {
        Self::ALL.iter().find(|(state, _, _)| *state == self).map_or(0, |(_, number, _)| *number)
    }
}

choice_field!(NeighborState);

block! {
    /// An entry of `neighbors/list`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct NeighborStatus: ENTRY {
        /// The link: LocalUri of its faces.
        pub local_uri: String = LOCAL_URI, default;
        /// The neighbor's address there; empty for the router itself.
        pub station: String = URI, default;
        /// The subject of the entry.
        pub state: NeighborState = NEIGHBOR_STATE;
        /// FaceId, once there is a face.
        pub face_id: Option<u64> = FACE_ID;
        /// Mtu of the face, octets.
        pub mtu: Option<u64> = MTU;
        /// The MTU that the neighbor announced, octets.
        pub peer_mtu: Option<u64> = NEIGHBOR_MTU;
        /// Ed25519 public key; empty if it is unknown.
        pub key: Vec<u8> = NEIGHBOR_KEY;
        /// The time since its last message, or the remaining time of its quarantine, ms.
        pub silent_ms: Option<u64> = NEIGHBOR_SILENT;
        /// Its announced prefixes that are routes.
        pub accepted: Vec<Name> = NEIGHBOR_ACCEPTED;
        /// Its announced prefixes that no rule accepts.
        pub refused: Vec<Name> = NEIGHBOR_REFUSED;
    }
}
