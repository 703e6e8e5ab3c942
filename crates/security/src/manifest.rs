//! Manifests: one signature for many segments. The format is described octet by octet in
//! `docs/manifest.md`.
//!
//! Manifest `k` of an object is a signed Data that lists the digests of the signed portions of
//! consecutive segments: [`MANIFEST_ENTRIES`] of them, from segment `k * MANIFEST_ENTRIES` on, or
//! as many fewer as the object's metadata says. With SHA-256, a segment signed with DigestSha256
//! carries that same digest as its SignatureValue: either side hashes each segment once, and a
//! client that knows no manifests can still check that a segment is intact. With BLAKE3 segments
//! carry no signature (SignatureNull), and only a client that knows manifests can check them.

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

/// Segments that one manifest covers, at most and by default: 7680 octets of digests, which leaves
/// 1120 for name and signature.
pub const MANIFEST_ENTRIES: u64 = 240;

const _: () = assert!(MANIFEST_ENTRIES as usize * DIGEST_OCTETS + 1024 <= PACKET_OCTETS_MAX);

/// The keyword component that stands between an object's name and a manifest's number.
pub const MANIFEST_KEYWORD: &[u8] = b"manifest";

/// The version of the format; other versions are refused.
pub(crate) const MANIFEST_VERSION: u8 = 2;

/// MType of a manifest that lists the segments of an object, the only type there is.
const SEGMENTS_OF_AN_OBJECT: u8 = 0;

/// NextStr under which each entry's suffix is one more than that of the entry before.
const CONSECUTIVE: u8 = 1;

/// Octets before the entries: the word of fields, the prefix, the suffix of the first entry.
const HEADER_OCTETS: usize = 4 + PREFIX_OCTETS + 4;

/// Octets of the prefix, which says for which object a manifest is.
const PREFIX_OCTETS: usize = 16;

/// With what segments are hashed (HT-15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ManifestHash {
    /// SHA-256, which every NDN client knows.
    #[default]
    Sha256,
    /// BLAKE3, for clients that know manifests.
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

    /// The digest of each of several signed portions: faster than one by one.
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
    /// Manifest `index`, of no segments yet.
    pub fn new(index: u64, hash: ManifestHash) -> Self {
        Self::of_at_most(MANIFEST_ENTRIES, index, hash)
    }

    /// The same of an object whose manifests cover `entries_max` segments each.
    pub fn of_at_most(entries_max: u64, index: u64, hash: ManifestHash) -> Self {
        Manifest { hash, index, entries_max: entries_max.clamp(1, MANIFEST_ENTRIES), digests: Vec::new() }
    }

    fn first_segment(&self) -> u64 {
        self.index.saturating_mul(self.entries_max)
    }

    /// Adds the next segment by its digest; false, and nothing is added, when the manifest is full.
    pub fn push(&mut self, digest: [u8; DIGEST_OCTETS]) -> bool {
        let room = (self.digests.len() as u64) < self.entries_max;
        if room {
            self.digests.push(digest);
        }
        room
    }

    /// With what the segments are hashed.
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

    /// The Content of the manifest's Data, for `object`.
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

    /// Reads the Content of the Data of manifest `index` of `object`.
    ///
    /// # Errors
    /// [`ManifestError`]: malformed, of an unknown form, or not that manifest of `object`.
    pub fn decode(content: &[u8], object: NameRef<'_>, index: u64) -> Result<Self, ManifestError> {
        Self::decode_of_at_most(MANIFEST_ENTRIES, content, object, index)
    }

    /// The same of an object whose manifests cover `entries_max` segments each.
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

    /// The signed Data of this manifest of `object`. `last_index` is the number of the object's
    /// last manifest, once it is known.
    ///
    /// # Errors
    /// [`ManifestError::TooLarge`] if the object's name and the signature leave no room; otherwise
    /// it could not be signed.
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

/// What stands for `object` in its manifests: a name has no fixed length, its digest has.
fn prefix_of(object: NameRef<'_>) -> [u8; PREFIX_OCTETS] {
    let mut prefix = [0; PREFIX_OCTETS];
    prefix.copy_from_slice(&sha256(object.as_bytes())[..PREFIX_OCTETS]);
    prefix
}

/// The name suffix of `segment`: the number's last 32 bits, since the manifest's own name tells the
/// rest.
fn suffix_of(segment: u64) -> u32 {
    segment as u32
}

/// A manifest that was verified, and so vouches for the segments it lists. Cheap to clone.
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
    /// [`ManifestError`]: not the name or ContentType of a manifest, or malformed.
    pub fn open<B: PacketOctets>(data: &Verified<B>) -> Result<Self, ManifestError> {
        Self::open_of_at_most(MANIFEST_ENTRIES, data)
    }

    /// The same of an object whose manifests cover `entries_max` segments each.
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

    /// The segments it vouches for.
    pub fn segments(&self) -> Range<u64> {
        self.manifest.segments()
    }

    /// Whether `segment` is one of those that it is to vouch for, listed or not.
    pub fn covers(&self, segment: u64) -> bool {
        segment / self.manifest.entries_max == self.manifest.index
    }

    /// With what segments are hashed.
    pub fn hash(&self) -> ManifestHash {
        self.manifest.hash
    }

    /// Verifies a segment of the object: one pass of hashing, no signature.
    ///
    /// # Errors
    /// [`SegmentRejection`]: malformed, of another name, or not the octets that the manifest lists.
    pub fn verify<B: PacketOctets>(&self, segment: B) -> Result<Verified<B>, SegmentRejection> {
        self.verify_prepared(Prepared::from(segment))
    }

    /// The same of one that may have been hashed already, together with others.
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
        // The manifest vouches for the signed portion. That the segment's own signature is that
        // digest too, or empty, leaves no octet of it unchecked.
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

/// Why a manifest could not be made or read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestError {
    /// Peer: it ends within its fields; its octets are given.
    TooShort(usize),
    /// Peer: a version of the format that namely does not know.
    UnknownVersion(u8),
    /// Peer: a hash algorithm that namely does not know.
    UnknownHash(u8),
    /// Peer: a type, next-segment strategy or flag that namely does not know.
    UnknownForm,
    /// Peer: count, digests, prefix, suffix and name do not agree.
    Inconsistent,
    /// Peer or caller: not the name and ContentType of a manifest.
    BadName(Name),
    /// Caller: the object's name and the signature leave no room; the octets it would take are
    /// given.
    TooLarge(usize),
    /// Environment: it could not be signed.
    Signing(CryptoError),
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManifestError::TooShort(octets) => {
                write!(
                    f,
                    "the manifest is cut short: {octets} octets, of which its fields alone take {HEADER_OCTETS}"
                )
            }
            ManifestError::UnknownForm => {
                f.write_str("the manifest lists segments in a way unknown to this program: update it")
            }
            ManifestError::UnknownVersion(n) => {
                write!(f, "the manifest is of version {n}; this program knows {MANIFEST_VERSION}: update it")
            }
            ManifestError::UnknownHash(n) => {
                write!(f, "the manifest uses hash algorithm {n}, unknown to this program: update it")
            }
            ManifestError::Inconsistent => f.write_str("the manifest contradicts itself or its name"),
            ManifestError::BadName(name) => write!(f, "{name} is not a manifest"),
            ManifestError::TooLarge(octets) => write!(
                f,
                "the manifest would take {octets} octets, more than a packet ({PACKET_OCTETS_MAX}): use a \
                 shorter name"
            ),
            ManifestError::Signing(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for ManifestError {}

/// A segment that its manifest does not vouch for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRejection {
    /// The segment; the empty name if it could not be read.
    pub name: Name,
    /// What is wrong.
    pub why: SegmentFault,
    /// The implicit digest of the packet.
    pub digest: [u8; 32],
}

/// What is wrong with a segment. Peer, but for the first two, which may be the caller's mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentFault {
    /// It is no segment of this object.
    NotOfObject(Name),
    /// Another manifest is for it; the segments of this one are given.
    NotListed(Range<u64>),
    /// Not a well-formed Data.
    Malformed(DecodeError),
    /// It is not what the manifest lists.
    BadDigest,
}

impl fmt::Display for SegmentRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.why {
            SegmentFault::NotOfObject(object) => write!(f, "{name} is no segment of {object}"),
            SegmentFault::NotListed(range) => {
                write!(f, "{name} is not among segments {} to {} of the manifest", range.start, range.end)
            }
            SegmentFault::Malformed(e) => write!(f, "a segment is malformed: {e}"),
            SegmentFault::BadDigest => {
                write!(f, "{name} is damaged or forged: its digest is not the one in the manifest")
            }
        }
    }
}

impl std::error::Error for SegmentRejection {}

#[cfg(test)]
mod tests;
