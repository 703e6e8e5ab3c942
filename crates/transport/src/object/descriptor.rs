//! An object as a consumer knows it, and the part of it that is fetched.

use namely_security::{TrustReason, Verified};
use namely_wire::Name;
use namely_wire::rdr::Metadata;

use crate::fetch;

/// Maximum number of pauses before what somebody else signed, or damaged, is given up: 1.5 s in
/// all. A copy in a cache may have gone by then; whoever made nonsense is not asked for long.
pub(super) const PAUSES_MAX: u32 = 4;

/// How long to wait before a packet is asked for again of which `pauses` waits brought no good
/// copy.
pub(super) fn again_after_ns(pauses: u32) -> u64 {
    100_000_000 << pauses.min(PAUSES_MAX)
}

/// How objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Window, limits, retransmission.
    pub fetch: fetch::Options,
    /// InterestLifetime, ms.
    pub lifetime_ms: u64,
    /// Maximum number of InterestLifetimes that metadata and certificates are waited for.
    pub attempts: u32,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { fetch: fetch::Options::default(), lifetime_ms: 2_000, attempts: 3 }
    }
}

/// What signs the segments of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureMode {
    /// Manifests, each for so many segments as [`Object::manifest_entries`] says, list their
    /// digests.
    Manifests,
    /// Each segment has a signature of its own.
    Segments,
}

/// An object that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The name under which its segments are; versioned, as a rule.
    pub name: Name,
    /// How many segments there are, if it is known.
    pub segments: Option<u64>,
    /// What signs them.
    pub signature_mode: SignatureMode,
    /// Segments that one manifest covers, if manifests sign them; at least one.
    pub manifest_entries: u64,
    /// Its metadata, verified; none for an object without.
    pub metadata: Option<Metadata>,
    /// When the metadata says that it was made, ns since the Unix epoch: a cache may hold old one.
    pub as_of_ns: Option<u64>,
    /// Why the metadata is believed.
    pub reason: Option<TrustReason>,
    /// The content of an object that is a single packet without segment number; verified.
    pub whole: Option<Verified>,
}

impl Object {
    /// Octets of the content, if it is known.
    pub fn octets(&self) -> Option<u64> {
        let whole = self.whole.as_ref().map(|data| data.content().len() as u64);
        whole.or_else(|| self.metadata.as_ref()?.size_octets)
    }
}

/// Segments of an object: all of it, from one on, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first segment that is wanted.
    pub first: u64,
    /// The number after that of the last one: what lies behind is not asked for. No end:
    /// [`u64::MAX`].
    pub end: u64,
}

impl Part {
    /// All segments from `first` on.
    pub fn from(first: u64) -> Self {
        Part { first, end: u64::MAX }
    }

    /// The number after that of the last segment, of an object that has `segments`, if it is known.
    pub(super) fn end_of(self, segments: Option<u64>) -> Option<u64> {
        let bounded = (self.end < u64::MAX).then_some(self.end.max(self.first));
        segments.map_or(bounded, |segments| Some(segments.min(bounded.unwrap_or(segments))))
    }
}
