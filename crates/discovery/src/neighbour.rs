//! A neighbour: what is known of it, and how far it has come.

use alloc::vec::Vec;

use namely_wire::Name;

use crate::interface::InterfaceId;
use crate::message::Message;
use crate::station::{Face, Key, Station};
use crate::suspects::Bucket;

/// How far a neighbour has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its hello was heard. It has not replied to a challenge yet, and has nothing.
    Found,
    /// It has replied to a challenge: it is there, and has the key.
    Proven,
}

/// A neighbour as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// On which interface.
    pub interface: InterfaceId,
    /// Where.
    pub station: Station,
    /// How far it has come.
    pub phase: Phase,
    /// Its face, when that is made.
    pub face: Option<Face>,
    /// The MTU of the face, octets.
    pub mtu: usize,
    /// The MTU that it says it has, octets.
    pub peer_mtu: usize,
    /// Its key.
    pub key: Key,
    /// How long ago it was last heard, ns.
    pub silent_ns: u64,
    /// Its prefixes that are routes.
    pub accepted: Vec<Name>,
    /// Its prefixes that no rule accepts.
    pub refused: Vec<Name>,
}

/// Where the neighbour's face is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaceState {
    /// It is not proven.
    None,
    Asked,
    Made(Face),
}

#[derive(Debug)]
pub(crate) struct Neighbour {
    pub(crate) key: Key,
    pub(crate) session: u64,
    pub(crate) phase: Phase,
    pub(crate) face: FaceState,
    pub(crate) peer_mtu: usize,
    /// What its last reply says that both can take, until either end says another MTU.
    pub(crate) agreed_mtu: Option<usize>,
    pub(crate) mtu: usize,
    /// The latest time that it signed, by its clock, ms.
    pub(crate) time_ms: u64,
    pub(crate) heard_ns: u64,
    /// When it is challenged next: a station that was found for the first time, a neighbour if it
    /// stays silent.
    pub(crate) challenge_ns: u64,
    pub(crate) challenges: u32,
    pub(crate) lowered_ns: Option<u64>,
    pub(crate) announced: Vec<Name>,
    pub(crate) accepted: Vec<Name>,
    pub(crate) refused: Vec<Name>,
    /// The hello that is answered with the first challenge.
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
            heard_ns: now_ns,
            challenge_ns: due_ns,
            challenges: 0,
            lowered_ns: None,
            announced: message.from.prefixes.clone(),
            accepted: Vec::new(),
            refused: Vec::new(),
            unanswered: (!message.is_reply).then(|| message.name.clone()),
            bucket: Bucket::of_station(now_ns),
        }
    }

    pub(crate) fn made(&self) -> Option<Face> {
        match self.face {
            FaceState::Made(face) => Some(face),
            _ => None,
        }
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.phase == Phase::Proven
    }

    /// The longest frame that both ends take; `own` is this router's.
    pub(crate) fn fitting_mtu(&self, own: usize) -> usize {
        own.min(self.peer_mtu).min(self.agreed_mtu.unwrap_or(usize::MAX))
    }

    /// When it must be looked at again: for a challenge, or its end, ns.
    pub(crate) fn due_ns(&self, heartbeat_ns: u64) -> u64 {
        self.challenge_ns.min(self.end_ns(heartbeat_ns))
    }

    /// When it is gone if nothing is heard of it.
    pub(crate) fn end_ns(&self, heartbeat_ns: u64) -> u64 {
        self.heard_ns.saturating_add(heartbeat_ns.saturating_mul(3))
    }
}
