//! The description of an object for its consumer, and the part of it to fetch.

use namely_security::{TrustReason, Verified};
use namely_wire::Name;
use namely_wire::rdr::Metadata;

use crate::fetch;

/// Pauses before a damaged packet, or another signer's, is requested again.
///
/// A copy in a cache may have expired by then. There is no pause if the trust policy accepts no
/// signer of the name, or if the signer answers anew: a producer of invalid packets is not retried
/// for long.
///
/// # Limit
/// The fetch fails, or the object is refused, and the error names the packet and its signer.
/// - Value: 4: of 0.1 s and twice as long each time, 1.5 s in all; the fifth copy of metadata is
///   the last
/// - Counter: `corrupt`
/// - Tests: `a_damaged_segment_is_fetched_again`,
///   `forged_cached_data_is_requested_again`,
///   `repeated_forgeries_end_the_fetch_soon`
pub const PAUSES_MAX: u32 = 4;

/// The time before a packet is requested again after `pauses` pauses without a valid copy.
pub fn again_after_ns(pauses: u32) -> u64 {
    // The bound prevents an overflow of the shift.
    100_000_000 << pauses.min(PAUSES_MAX)
}

/// Options for reading objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Window, limits, retransmission.
    pub fetch: fetch::Options,
    /// InterestLifetime, ms.
    pub lifetime_ms: u64,
    /// Maximum number of InterestLifetimes to wait for metadata and certificates.
    pub attempts: u32,
    /// Maximum age of cached metadata that is accepted if the producer does not answer, s.
    ///
    /// 0: only the producer's fresh answer is accepted. A longer time keeps cached objects usable
    /// while their producer is away, and lets a peer that blocks it hide newer versions as long.
    ///
    /// # Limit
    /// Older metadata is ignored; the fetch fails as without it.
    /// - Value: 0
    /// - Setting: `stale_s`
    /// - Tests: `stale_metadata_replaces_an_absent_producer`,
    ///   `metadata_past_its_age_opens_nothing`
    pub stale_s: u64,
    /// Maximum octets of requested segments and manifests per second, with their names and
    /// signatures. None: the congestion control alone limits the rate.
    pub rate_max: Option<u64>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            fetch: fetch::Options::default(),
            lifetime_ms: 2_000,
            attempts: 3,
            stale_s: 0,
            rate_max: None,
        }
    }
}

/// The signatures of an object's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureMode {
    /// Manifests list the digests of the segments, [`Object::manifest_entries`] in each.
    Manifests,
    /// Each segment has a signature of its own.
    Segments,
}

/// An object that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The name prefix of its segments; usually versioned.
    pub name: Name,
    /// Number of segments, if it is known.
    pub segments: Option<u64>,
    /// The kind of its signatures.
    pub signature_mode: SignatureMode,
    /// Number of segments per manifest, if manifests are used; at least one.
    pub manifest_entries: u64,
    /// Its metadata, verified; none for an object without metadata.
    pub metadata: Option<Metadata>,
    /// The creation time of the metadata, ns since the Unix epoch. It shows whether a cache
    /// returned old metadata.
    pub as_of_ns: Option<u64>,
    /// The reason for which the metadata is trusted.
    pub reason: Option<TrustReason>,
    /// The content of an object that is a single packet without segment number; verified.
    pub whole: Option<Verified>,
}

impl Object {
    /// Octets of the content, if the size is known.
    pub fn octets(&self) -> Option<u64> {
        let whole = self.whole.as_ref().map(|data| data.content().len() as u64);
        whole.or_else(|| self.metadata.as_ref()?.size_octets)
    }
}

/// Segments of an object: all, those from a first one on, or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first segment.
    pub first: u64,
    /// The number after the last segment. Later segments are not requested. No end: [`u64::MAX`].
    pub end: u64,
}

impl Part {
    /// All segments from `first` on.
    pub fn from(first: u64) -> Self {
        Part { first, end: u64::MAX }
    }

    /// The number after the last segment, for an object of `segments`, if it is known.
    pub(super) fn end_of(self, segments: Option<u64>) -> Option<u64> {
        let bounded = (self.end < u64::MAX).then_some(self.end.max(self.first));
        segments.map_or(bounded, |segments| Some(segments.min(bounded.unwrap_or(segments))))
    }
}
