//! How faces are named: by an id outside the core, by a key within it.
//!
//! A key is never used again and an id is: a table that kept ids would take a later face for the
//! one that it meant.

use core::fmt;

/// Names a face to everybody outside the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl FaceId {
    /// No face. The id of a released face reads so.
    pub const NONE: FaceId = FaceId(0);
    /// The permanent upper face that leads from the FIB to the BPT. It can be a next hop; nothing
    /// can be received from it and it cannot be released.
    pub const LOCAL: FaceId = FaceId(1);
    /// The IncomingFaceId of Data from the content store; NFD uses the same number.
    pub const CONTENT_STORE: FaceId = FaceId(254);
    /// The smallest id that registration gives out (as in NFD).
    pub const FIRST: FaceId = FaceId(256);
}

impl fmt::Display for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a registration of a face. Never used again, so a record of a dead face matches no later
/// face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaceKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl FaceKey {
    /// The least key.
    pub(crate) const FIRST: FaceKey = FaceKey { slot: 0, generation: 0 };

    /// The face `local`.
    pub(crate) const LOCAL: FaceKey = FaceKey { slot: u32::MAX, generation: 0 };

    /// The id that the face has or had.
    pub(crate) fn id(self) -> FaceId {
        if self == FaceKey::LOCAL { FaceId::LOCAL } else { FaceId(FaceId::FIRST.0 + u64::from(self.slot)) }
    }

    /// The key as a number, which [`FaceKey::from_bits`] reads.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.slot) << 32 | u64::from(self.generation)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        FaceKey { slot: (bits >> 32) as u32, generation: bits as u32 }
    }
}
