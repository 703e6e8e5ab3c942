//! The state of a neighbor.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::interface::InterfaceId;
use crate::link_address::{Face, Key, LinkAddress};
use crate::message::Message;
use crate::suspects::Bucket;

/// The phase of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A message of the neighbor was received. The neighbor has not answered a challenge yet, so it
    /// has no face and no routes.
    Found,
    /// The neighbor has answered a challenge, which proves its link address and its key.
    Proven,
}

/// The status of a neighbor, for management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// The interface.
    pub interface: InterfaceId,
    /// The link address.
    pub station: LinkAddress,
    /// The phase.
    pub phase: Phase,
    /// The face, if it exists.
    pub face: Option<Face>,
    /// The MTU of the face, octets.
    pub mtu: usize,
    /// The MTU that the neighbor stated, octets.
    pub peer_mtu: usize,
    /// The neighbor's key.
    pub key: Key,
    /// Time since the last message of the neighbor, ns.
    pub silent_ns: u64,
    /// The announced prefixes that are routes.
    pub accepted: Vec<Name>,
    /// The announced prefixes that no rule accepts.
    pub refused: Vec<Name>,
}

/// The state of the neighbor's face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaceState {
    /// The neighbor is not proven.
    None,
    Requested,
    Created(Face),
}

#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) key: Key,
    pub(crate) session: u64,
    pub(crate) phase: Phase,
    pub(crate) face: FaceState,
    pub(crate) peer_mtu: usize,
    /// The MTU for both ends in the neighbor's last reply, until either end states another MTU.
    pub(crate) agreed_mtu: Option<usize>,
    pub(crate) mtu: usize,
    /// The signing time of the last accepted message, by the neighbor's clock, ms.
    pub(crate) time_ms: u64,
    pub(crate) received_ns: u64,
    /// Time of the next challenge. A new link address is challenged at first, and a proven neighbor
    /// only if it stays silent.
    pub(crate) challenge_ns: u64,
    pub(crate) challenges: u32,
    pub(crate) lowered_ns: Option<u64>,
    pub(crate) announced: Vec<Name>,
    pub(crate) accepted: Vec<Name>,
    pub(crate) refused: Vec<Name>,
    /// The hello to answer together with the first challenge.
    pub(crate) unanswered: Option<Name>,
    pub(crate) bucket: Bucket,
}

impl Neighbour {
    pub(crate) fn new(message: &Message, mtu: usize, due_ns: u64, now_ns: u64) -> Self {
        Neighbour {
            key: message.from.key,
            session: message.from.session,
            phase: Phase::Found,
            face: FaceState::None,
            peer_mtu: message.from.mtu,
            agreed_mtu: None,
            mtu,
            time_ms: message.time_ms,
            received_ns: now_ns,
            challenge_ns: due_ns,
            challenges: 0,
            lowered_ns: None,
            announced: message.from.prefixes.clone(),
            accepted: Vec::new(),
            refused: Vec::new(),
            unanswered: (!message.is_reply).then(|| message.name.clone()),
            bucket: Bucket::address_bucket(now_ns),
        }
    }

    pub(crate) fn made(&self) -> Option<Face> {
        match self.face {
            FaceState::Created(face) => Some(face),
            _ => None,
        }
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.phase == Phase::Proven
    }

    /// The longest frame that both ends support; `own` is the MTU of this router.
    pub(crate) fn fitting_mtu(&self, own: usize) -> usize {
        own.min(self.peer_mtu).min(self.agreed_mtu.unwrap_or(usize::MAX))
    }

    /// Time of the next timer, ns: the next challenge or the removal.
    pub(crate) fn due_ns(&self, heartbeat_ns: u64) -> u64 {
        self.challenge_ns.min(self.end_ns(heartbeat_ns))
    }

    /// Time of the removal, ns, if no message of the neighbor arrives.
    pub(crate) fn end_ns(&self, heartbeat_ns: u64) -> u64 {
        self.received_ns.saturating_add(heartbeat_ns.saturating_mul(3))
    }
}
