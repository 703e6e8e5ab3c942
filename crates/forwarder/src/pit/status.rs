//! Pending Interests as the control path reads them.

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
    /// When it ends.
    pub expires_at_ns: u64,
    /// The downstream faces.
    pub downstreams: Vec<FaceId>,
    /// The upstream faces.
    pub upstreams: Vec<FaceId>,
}

/// A pending Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingInterest {
    /// When it ends, ns.
    pub expires_at_ns: u64,
    /// The faces that wait for the answer.
    pub downstreams: Vec<FaceId>,
    /// Where it was sent.
    pub upstreams: Vec<SentTo>,
}

/// Where a pending Interest was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentTo {
    /// The face.
    pub face: FaceId,
    /// When, ns.
    pub sent_at_ns: u64,
    /// The Nack that came from there.
    pub nack: Option<NackReason>,
}
