//! Identifiers of faces: an id outside the core, a key within it.
//!
//! A key is never reused, but an id is. A table that stored ids would mistake a later face for an
//! earlier one.

use core::fmt;

/// Identifies a face outside the forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaceId(pub u64);

impl FaceId {
    /// No face. A hold of a released face returns this id.
    pub const NONE: FaceId = FaceId(0);
    /// The permanent upper face that leads from the FIB to the BPT. It can be a next hop. No packet
    /// is received from it and it cannot be released.
    pub const LOCAL: FaceId = FaceId(1);
    /// The IncomingFaceId of Data from the content store; NFD uses the same number.
    pub const CONTENT_STORE: FaceId = FaceId(254);
    /// The smallest id that registration assigns (as in NFD).
    pub const FIRST: FaceId = FaceId(256);
}

impl fmt::Display for FaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Identifies a registration of a face. Never reused, so a record of a released face matches no
/// later face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FaceKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl FaceKey {
    /// The smallest key.
    pub(crate) const FIRST: FaceKey = FaceKey { slot: 0, generation: 0 };

    /// The face `local`.
    // No registered face has this slot, because tables are smaller.
    pub(crate) const LOCAL: FaceKey = FaceKey { slot: u32::MAX, generation: 0 };

    /// The id that the face has or had.
    pub(crate) fn id(self) -> FaceId {
        if self == FaceKey::LOCAL { FaceId::LOCAL } else { FaceId(FaceId::FIRST.0 + u64::from(self.slot)) }
    }

    /// The key as a number; [`FaceKey::from_bits`] is the inverse.
    pub(crate) fn bits(self) -> u64 {
        // Not 0 for a registered face, whose generation counts from 1: tables use 0 for none.
        u64::from(self.slot) << 32 | u64::from(self.generation)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        FaceKey { slot: (bits >> 32) as u32, generation: bits as u32 }
    }
}
