//! Manifests: one signature for many segments. `docs/manifest.md` describes the format octet by
//! octet.
//!
//! A manifest is a signed Data that lists the digests of the signed portions of consecutive
//! segments. Manifest `k` of an object lists [`MANIFEST_ENTRIES`] segments from segment
//! `k * MANIFEST_ENTRIES` on. The object's metadata may state a smaller number.
//!
//! With SHA-256, a segment is signed with DigestSha256, and its SignatureValue is the digest in the
//! manifest. So each side hashes each segment once, and a client without support for manifests can
//! still check that a segment is intact. With BLAKE3, segments carry no signature (SignatureNull),
//! and only a client with support for manifests can check them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use namely_wire::{
    Component, ContentType, DataBuilder, DataView, DecodeError, Name, NameRef, PACKET_OCTETS_MAX,
    SignatureType,
};

use crate::crypto::{CryptoError, DIGEST_OCTETS, blake3, sha256, sha256_each};
use crate::prepared::Prepared;
use crate::signer::{Signer, sign_data};
use crate::verified::{ManifestTrust, PacketOctets, Spans, TrustReason, Verified};

/// Segments in a manifest.
///
/// The limit is also the default. Its digests take 7680 octets, so that 1120 are left for name and
/// signature. The metadata of an object may reduce the number.
///
/// # Limit
/// A manifest is full, and a longer one is refused with `Inconsistent`.
/// - Value: 240, or as many fewer as the metadata of the object states
/// - Tests: `a_full_manifest_fits_one_packet`,
///   `a_short_manifest_has_an_entry_limit`,
///   `an_inconsistent_manifest_is_refused`,
///   `invalid_manifest_lengths_are_not_followed`
pub const MANIFEST_ENTRIES: u64 = 240;

const _: () = assert!(MANIFEST_ENTRIES as usize * DIGEST_OCTETS + 1024 <= PACKET_OCTETS_MAX);

/// The keyword component between an object's name and a manifest's number.
pub const MANIFEST_KEYWORD: &[u8] = b"manifest";

/// The version of the format; other versions are refused.
pub(crate) const MANIFEST_VERSION: u8 = 2;

/// MType of a manifest that lists the segments of an object; no other type is defined.
const SEGMENTS_OF_AN_OBJECT: u8 = 0;

/// NextStr of a manifest in which each entry's suffix is one more than the previous entry's.
const CONSECUTIVE: u8 = 1;

/// Octets before the entries: four octets of fields, the prefix, the suffix of the first entry.
const HEADER_OCTETS: usize = 4 + PREFIX_OCTETS + 4;

/// Octets of the prefix, which identifies the object of a manifest.
const PREFIX_OCTETS: usize = 16;

/// The hash of segments (HT-15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestHash {
    /// SHA-256, which every NDN client supports.
    #[default]
    Sha256,
    /// BLAKE3, for clients that support manifests.
    Blake3,
}

impl ManifestHash {
    /// The number in HashAlg.
    pub fn number(self) -> u8 {
        match self {
            ManifestHash::Sha256 => 1,
            ManifestHash::Blake3 => 2,
        }
    }

    /// The algorithm of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        [ManifestHash::Sha256, ManifestHash::Blake3].into_iter().find(|hash| hash.number() == number)
    }

    /// The digest of a segment's signed portion.
    pub fn digest(self, signed_portion: &[u8]) -> [u8; DIGEST_OCTETS] {
        match self {
            ManifestHash::Sha256 => sha256(signed_portion),
            ManifestHash::Blake3 => blake3(signed_portion),
        }
    }

    /// The digest of each of several signed portions. One call for several is faster than one call
    /// for each.
    pub fn digests(self, signed_portions: &[&[u8]]) -> Vec<[u8; DIGEST_OCTETS]> {
        match self {
            ManifestHash::Sha256 => sha256_each(signed_portions),
            ManifestHash::Blake3 => signed_portions.iter().map(|portion| blake3(portion)).collect(),
        }
    }

    /// The SignatureType of segments whose manifests use this hash.
    pub fn signature_type(self) -> SignatureType {
        match self {
            ManifestHash::Sha256 => SignatureType::DigestSha256,
            ManifestHash::Blake3 => SignatureType::Null,
        }
    }
}

/// The name of manifest `index` of the object `object` (a versioned name).
pub fn manifest_name(object: NameRef<'_>, index: u64) -> Name {
    object.to_name().join(Component::keyword(MANIFEST_KEYWORD)).join_segment(index)
}

/// The digests of consecutive segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    hash: ManifestHash,
    index: u64,
    entries_max: u64,
    digests: Vec<[u8; DIGEST_OCTETS]>,
}

impl Manifest {
    /// Creates manifest `index` without segments.
    pub fn new(index: u64, hash: ManifestHash) -> Self {
        Self::of_at_most(MANIFEST_ENTRIES, index, hash)
    }

    /// Creates manifest `index` of an object whose manifests cover `entries_max` segments each.
    pub fn of_at_most(entries_max: u64, index: u64, hash: ManifestHash) -> Self {
        Manifest { hash, index, entries_max: entries_max.clamp(1, MANIFEST_ENTRIES), digests: Vec::new() }
    }

    fn first_segment(&self) -> u64 {
        self.index.saturating_mul(self.entries_max)
    }

    /// Adds the digest of the next segment. Returns false, and adds nothing, if the manifest is
    /// full.
    pub fn push(&mut self, digest: [u8; DIGEST_OCTETS]) -> bool {
        let room = (self.digests.len() as u64) < self.entries_max;
        if room {
            self.digests.push(digest);
        }
        room
    }

    /// The hash of the segments.
    pub fn hash(&self) -> ManifestHash {
        self.hash
    }

    /// The segments listed.
    pub fn segments(&self) -> Range<u64> {
        let first = self.first_segment();
        first..first.saturating_add(self.digests.len() as u64)
    }

    /// The digest of `segment`, if it is listed.
    pub fn digest(&self, segment: u64) -> Option<&[u8; DIGEST_OCTETS]> {
        let entry = segment.checked_sub(self.first_segment())?;
        self.digests.get(usize::try_from(entry).ok()?)
    }

    /// Encodes the Content of the manifest's Data, for `object`.
    pub fn encode(&self, object: NameRef<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_OCTETS + self.digests.len() * DIGEST_OCTETS);
        out.push(MANIFEST_VERSION << 4 | SEGMENTS_OF_AN_OBJECT);
        out.push(self.hash.number() << 4 | CONSECUTIVE);
        out.extend_from_slice(&[0, self.digests.len() as u8]);
        out.extend_from_slice(&prefix_of(object));
        out.extend_from_slice(&suffix_of(self.first_segment()).to_be_bytes());
        out.extend_from_slice(self.digests.as_flattened());
        out
    }

    /// Decodes the Content of the Data of manifest `index` of `object`.
    ///
    /// # Errors
    /// [`ManifestError`]: `content` is malformed, of an unknown form, or not that manifest of
    /// `object`.
    pub fn decode(content: &[u8], object: NameRef<'_>, index: u64) -> Result<Self, ManifestError> {
        Self::decode_of_at_most(MANIFEST_ENTRIES, content, object, index)
    }

    /// Decodes a manifest of an object whose manifests cover `entries_max` segments each.
    ///
    /// # Errors
    /// As [`Manifest::decode`].
    pub fn decode_of_at_most(
        entries_max: u64,
        content: &[u8],
        object: NameRef<'_>,
        index: u64,
    ) -> Result<Self, ManifestError> {
        let Some((header, digests)) = content.split_first_chunk::<HEADER_OCTETS>() else {
            return Err(ManifestError::TooShort(content.len()));
        };
        let [kind, how, flags, count, rest @ ..] = header;
        let halves = |octet: &u8| (octet >> 4, octet & 0xf);
        let ((version, of), (algorithm, strategy)) = (halves(kind), halves(how));
        if version != MANIFEST_VERSION {
            return Err(ManifestError::UnknownVersion(version));
        }
        let hash = ManifestHash::from_number(algorithm).ok_or(ManifestError::UnknownHash(algorithm))?;
        if (of, strategy, *flags) != (SEGMENTS_OF_AN_OBJECT, CONSECUTIVE, 0) {
            return Err(ManifestError::UnknownForm);
        }
        let entries_max = entries_max.clamp(1, MANIFEST_ENTRIES);
        let first_segment = index.checked_mul(entries_max).ok_or(ManifestError::Inconsistent)?;
        let (digests, left) = digests.as_chunks::<DIGEST_OCTETS>();
        let fits =
            left.is_empty() && usize::from(*count) == digests.len() && u64::from(*count) <= entries_max;
        let (prefix, suffix) = rest.split_at(PREFIX_OCTETS);
        if !fits
            || first_segment.checked_add(entries_max).is_none()
            || prefix != prefix_of(object)
            || suffix != suffix_of(first_segment).to_be_bytes()
        {
            return Err(ManifestError::Inconsistent);
        }
        Ok(Manifest { hash, index, entries_max, digests: digests.to_vec() })
    }

    /// Creates the signed Data of this manifest of `object`. `last_index` is the number of the
    /// object's last manifest; `None` if the number is not known yet.
    ///
    /// # Errors
    /// [`ManifestError::TooLarge`] if the object's name and the signature leave no room; otherwise
    /// signing failed.
    pub fn sign(
        &self,
        object: NameRef<'_>,
        last_index: Option<u64>,
        freshness_ms: u64,
        signer: &Signer,
    ) -> Result<Vec<u8>, ManifestError> {
        let name = manifest_name(object, self.index);
        let last = last_index.map(|index| Name::new().join_segment(index));
        let mut builder =
            DataBuilder::new(name.as_name()).content_type(ContentType::Manifest).freshness_ms(freshness_ms);
        if let Some(component) = last.as_ref().and_then(|name| name.components().next()) {
            builder = builder.final_block_id(component);
        }
        let wire = sign_data(&builder, &self.encode(object), signer).map_err(ManifestError::Signing)?;
        if wire.len() > PACKET_OCTETS_MAX { Err(ManifestError::TooLarge(wire.len())) } else { Ok(wire) }
    }
}

/// Identifies `object` in its manifests by a digest, because a name has no fixed length.
fn prefix_of(object: NameRef<'_>) -> [u8; PREFIX_OCTETS] {
    let mut prefix = [0; PREFIX_OCTETS];
    prefix.copy_from_slice(&sha256(object.as_bytes())[..PREFIX_OCTETS]);
    prefix
}

/// The name suffix of `segment`: the last 32 bits of its number. The manifest's own name determines
/// the other bits.
fn suffix_of(segment: u64) -> u32 {
    segment as u32
}

/// A verified manifest, which vouches for the listed segments. Cheap to clone.
#[derive(Clone, Debug)]
pub struct VerifiedManifest {
    object: Name,
    manifest: Arc<Manifest>,
    trust: Arc<ManifestTrust>,
}

impl VerifiedManifest {
    /// Reads a verified Data as a manifest.
    ///
    /// # Errors
    /// [`ManifestError`]: the Data does not have the name and ContentType of a manifest, or its
    /// content is malformed.
    pub fn open<B: PacketOctets>(data: &Verified<B>) -> Result<Self, ManifestError> {
        Self::open_of_at_most(MANIFEST_ENTRIES, data)
    }

    /// Reads a verified Data as a manifest of an object whose manifests cover `entries_max`
    /// segments each.
    ///
    /// # Errors
    /// As [`VerifiedManifest::open`].
    pub fn open_of_at_most<B: PacketOctets>(
        entries_max: u64,
        data: &Verified<B>,
    ) -> Result<Self, ManifestError> {
        let bad_name = || ManifestError::BadName(data.name().to_name());
        let name = data.name();
        let index = name.last().and_then(|last| last.segment()).ok_or_else(bad_name)?;
        let object = name.without_last(2);
        if manifest_name(object, index).as_name() != name || data.content_type() != ContentType::Manifest {
            return Err(bad_name());
        }
        let manifest = Manifest::decode_of_at_most(entries_max, data.content(), object, index)?;
        let trust = ManifestTrust { manifest: name.to_name(), because: data.reason().clone() };
        Ok(VerifiedManifest {
            object: object.to_name(),
            manifest: Arc::new(manifest),
            trust: Arc::new(trust),
        })
    }

    /// The versioned name of the object.
    pub fn object(&self) -> NameRef<'_> {
        self.object.as_name()
    }

    /// The listed segments, for which the manifest vouches.
    pub fn segments(&self) -> Range<u64> {
        self.manifest.segments()
    }

    /// Returns true if `segment` is in the range of this manifest, even if the manifest does not
    /// list it.
    pub fn covers(&self, segment: u64) -> bool {
        segment / self.manifest.entries_max == self.manifest.index
    }

    /// The hash of the segments.
    pub fn hash(&self) -> ManifestHash {
        self.manifest.hash
    }

    /// The digest of `segment`, if it is listed.
    pub fn digest(&self, segment: u64) -> Option<&[u8; DIGEST_OCTETS]> {
        self.manifest.digest(segment)
    }

    /// Verifies a segment of the object: one pass of hashing, no signature.
    ///
    /// # Errors
    /// [`SegmentRejection`]: the segment is malformed, has another name, or has another digest than
    /// in the manifest.
    pub fn verify<B: PacketOctets>(&self, segment: B) -> Result<Verified<B>, SegmentRejection> {
        self.verify_prepared(Prepared::from(segment))
    }

    /// Verifies a segment whose digest may be computed already.
    ///
    /// # Errors
    /// As [`VerifiedManifest::verify`].
    pub fn verify_prepared<B: PacketOctets>(
        &self,
        segment: Prepared<B>,
    ) -> Result<Verified<B>, SegmentRejection> {
        let spans = self.check(&segment)?;
        Ok(Verified::new(segment.into_packet(), spans, TrustReason::Manifest(Arc::clone(&self.trust))))
    }

    fn check<B: PacketOctets>(&self, segment: &Prepared<B>) -> Result<Spans, SegmentRejection> {
        let octets = segment.packet().as_ref();
        let rejection = |name, why| SegmentRejection { name, why, digest: sha256(octets) };
        let view = DataView::parse(octets).map_err(|e| rejection(Name::new(), SegmentFault::Malformed(e)))?;
        let reject = |why| Err(rejection(view.name.to_name(), why));
        let number = view.name.last().and_then(|last| last.segment());
        let Some(number) = number.filter(|_| view.name.without_last(1) == self.object.as_name()) else {
            return reject(SegmentFault::NotOfObject(self.object.clone()));
        };
        let Some(listed) = self.manifest.digest(number) else {
            return reject(SegmentFault::NotListed(self.segments()));
        };
        // The manifest vouches for the signed portion only. The segment's own signature must be the
        // listed digest, or empty, so that no octet of the segment is unchecked.
        let hash = self.manifest.hash;
        let own_signature: &[u8] = match hash {
            ManifestHash::Sha256 => listed,
            ManifestHash::Blake3 => &[],
        };
        if view.signature_type != hash.signature_type()
            || view.signature_value != own_signature
            || segment.done().digest(hash).unwrap_or_else(|| hash.digest(view.signed_portion)) != *listed
        {
            return reject(SegmentFault::BadDigest);
        }
        Ok(Spans::of(&view))
    }
}

/// The reason why a manifest could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Peer: the content ends within the fields; its octets are given.
    #[error("the manifest is cut short: {0} octets, of which its fields alone take {HEADER_OCTETS}")]
    TooShort(usize),
    /// Peer: an unsupported version of the format.
    #[error("the manifest is of version {0}; this program knows {MANIFEST_VERSION}: update it")]
    UnknownVersion(u8),
    /// Peer: an unsupported hash algorithm.
    #[error("the manifest uses hash algorithm {0}, unknown to this program: update it")]
    UnknownHash(u8),
    /// Peer: an unsupported type, next-segment strategy or flag.
    #[error("the manifest lists segments in a way unknown to this program: update it")]
    UnknownForm,
    /// Peer: count, digests, prefix, suffix and name contradict each other.
    #[error("the manifest contradicts itself or its name")]
    Inconsistent,
    /// Peer or caller: not the name and ContentType of a manifest.
    #[error("{0} is not a manifest")]
    BadName(Name),
    /// Caller: the object's name and the signature leave no room; the manifest would need this many
    /// octets.
    #[error(
        "the manifest would take {0} octets, more than a packet ({PACKET_OCTETS_MAX}): use a \
         shorter name"
    )]
    TooLarge(usize),
    /// Environment: signing failed.
    #[error(transparent)]
    Signing(CryptoError),
}

/// A segment that its manifest does not vouch for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}", .why.subject(.name))]
pub struct SegmentRejection {
    /// The name of the segment; empty if the segment could not be read.
    pub name: Name,
    /// The fault of the segment.
    #[source]
    pub why: SegmentFault,
    /// The implicit digest of the packet.
    pub digest: [u8; 32],
}

/// A fault of a segment. Each fault is the peer's. The first two may also be the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentFault {
    /// The packet is not a segment of this object.
    #[error("is no segment of {0}")]
    NotOfObject(Name),
    /// The segment belongs to another manifest; the range is that of this manifest.
    #[error("is not among segments {} to {} of the manifest", .0.start, .0.end)]
    NotListed(Range<u64>),
    /// Not a well-formed Data.
    #[error("is malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// The digest of the segment differs from that in the manifest.
    #[error("is damaged or forged: its digest is not the one in the manifest")]
    BadDigest,
}

impl SegmentFault {
    /// The subject of the message: an unreadable segment has no name.
    fn subject<'s>(&self, name: &'s Name) -> &'s dyn fmt::Display {
        if matches!(self, SegmentFault::Malformed(_)) { &"a segment" } else { name }
    }
}

#[cfg(test)]
mod tests;
