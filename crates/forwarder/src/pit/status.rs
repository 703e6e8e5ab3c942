//! Snapshots of pending Interests for the control path.

use alloc::vec::Vec;

use namely_wire::{NackReason, Name};

use crate::face_id::FaceId;

/// A pending Interest in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PitStatus {
    /// Its name.
    pub name: Name,
    /// CanBePrefix.
    pub can_be_prefix: bool,
    /// MustBeFresh.
    pub must_be_fresh: bool,
    /// The time at which it expires, ns.
    pub expires_at_ns: u64,
    /// The downstream faces.
    pub downstreams: Vec<FaceId>,
    /// The upstream faces.
    pub upstreams: Vec<FaceId>,
}

/// A pending Interest of a given name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingInterest {
    /// The time at which it expires, ns.
    pub expires_at_ns: u64,
    /// The faces that wait for the answer.
    pub downstreams: Vec<FaceId>,
    /// The faces that it was sent to.
    pub upstreams: Vec<SentTo>,
}

/// A face that a pending Interest was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTo {
    /// The face.
    pub face: FaceId,
    /// The time of the sending, ns.
    pub sent_at_ns: u64,
    /// The Nack that the face answered with.
    pub nack: Option<NackReason>,
}
