//! Publishes an object: its content is cut into segments that fit a packet size. They are named,
//! signed one by one or by manifest (HT-12, HT-14), and passed to a sink, such as a [`Publication`]
//! in memory or the output buffer of a socket. The content is in memory, or is read piece by piece.
//! [`publish()`] itself stores no packets.
//!
//! For segments that are created on request see `namely-files`.

use std::collections::BTreeMap;
use std::io::{self, Read};

use namely_security::{
    CryptoError, MANIFEST_ENTRIES, Manifest, ManifestError, ManifestHash, Signer, manifest_name, sign_data,
};
use namely_wire::rdr::{Metadata, discovery_name, metadata_name};
use namely_wire::{ContentType, DataBuilder, DataView, InterestView, Name, NameRef, PACKET_OCTETS_MAX};

use crate::matching::answers;
pub use crate::segment::{SegmentGap, SegmentWriter, segment_count, segment_name};

/// Default maximum packet size. Routers that accept no link packet above [`PACKET_OCTETS_MAX`]
/// still forward such a packet with a PIT token of any length and a mark.
pub const PACKET_OCTETS_DEFAULT: usize = PACKET_OCTETS_MAX - 64;

/// Default content of a segment, octets: eight chunks of BLAKE3, which are hashed in parallel.
/// Seven chunks and a partial one take three times as long. A packet has 500 more octets for a long
/// name or signature.
pub const SEGMENT_OCTETS_DEFAULT: usize = 8192;

/// Smallest number of segments in a manifest that is published.
///
/// # Limit
/// A manifest covers no fewer segments, however short its packets are.
/// - Tests: `a_manifest_has_8_to_240_entries`
pub const MANIFEST_ENTRIES_MIN: u64 = 8;

/// If the maximum manifest size is above this, manifests have [`MANIFEST_ENTRIES`] entries. If a
/// segment is longer than this, a consumer without metadata of the object assumes that number.
pub const SHORT_MANIFEST_OCTETS_MAX: usize = SEGMENT_OCTETS_DEFAULT;

/// Number of segments hashed together.
const RUN_SEGMENTS: usize = 16;

/// The signatures of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// A key signs manifests, which list the segments by their digests.
    Manifest(ManifestHash),
    /// The signer signs each segment.
    PerPacket,
}

impl Signing {
    /// The hash of segments. Without manifests it is not used.
    pub fn hash(self) -> ManifestHash {
        match self {
            Signing::Manifest(hash) => hash,
            Signing::PerPacket => ManifestHash::default(),
        }
    }

    /// ManifestEntries of the metadata for manifests of the usual length; none without manifests.
    pub fn manifest_entries(self) -> Option<u64> {
        matches!(self, Signing::Manifest(_)).then_some(MANIFEST_ENTRIES)
    }
}

/// Options of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Maximum packet size, octets. With a size that fits the path, packets are not fragmented.
    pub packet_octets_max: usize,
    /// Maximum manifest size, octets. A smaller manifest covers fewer segments, but at least
    /// [`MANIFEST_ENTRIES_MIN`]. If the maximum is above [`SHORT_MANIFEST_OCTETS_MAX`], it covers
    /// [`MANIFEST_ENTRIES`].
    pub manifest_octets_max: usize,
    /// Maximum content of a segment, octets, if packets have space for more.
    pub segment_octets_max: usize,
    /// The signatures of segments.
    pub signing: Signing,
    /// FreshnessPeriod of segments and manifests, ms.
    pub freshness_ms: u64,
    /// FreshnessPeriod of metadata, ms. For this time caches may answer with an older version.
    pub metadata_freshness_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            packet_octets_max: PACKET_OCTETS_DEFAULT,
            manifest_octets_max: PACKET_OCTETS_MAX,
            segment_octets_max: usize::MAX,
            signing: Signing::Manifest(ManifestHash::Sha256),
            freshness_ms: 10_000,
            metadata_freshness_ms: 1_000,
        }
    }
}

/// A published object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The versioned name.
    pub object: Name,
    /// Number of its segments.
    pub segments: u64,
}

/// The source of an object's content: read once, in order.
pub trait Content {
    /// Total number of octets.
    fn octets(&self) -> u64;

    /// Returns the next `octets`, or the rest if that is less.
    ///
    /// # Errors
    /// It cannot be read, or ends early.
    fn next(&mut self, octets: usize) -> io::Result<&[u8]>;
}

/// Content in memory.
impl Content for &[u8] {
    fn octets(&self) -> u64 {
        self.len() as u64
    }

    fn next(&mut self, octets: usize) -> io::Result<&[u8]> {
        let (next, rest) = self.split_at(octets.min(self.len()));
        *self = rest;
        Ok(next)
    }
}

/// Content from a reader, read in runs of segments.
#[derive(Debug)]
pub struct ReadContent<R> {
    reader: R,
    octets: u64,
    left: u64,
    run: Vec<u8>,
}

impl<R: Read> ReadContent<R> {
    /// Creates content of the next `octets` of `reader`.
    pub fn new(reader: R, octets: u64) -> Self {
        ReadContent { reader, octets, left: octets, run: Vec::new() }
    }
}

impl<R: Read> Content for ReadContent<R> {
    fn octets(&self) -> u64 {
        self.octets
    }

    fn next(&mut self, octets: usize) -> io::Result<&[u8]> {
        // On 32 bits the rest may exceed usize. The argument limits it then.
        let octets = usize::try_from(self.left).unwrap_or(usize::MAX).min(octets);
        self.run.resize(octets, 0);
        self.reader.read_exact(&mut self.run)?;
        self.left -= octets as u64;
        Ok(&self.run)
    }
}

/// Publishes `content` as `name`, version `version`. Each packet is passed with its name to `sink`
/// as it is created. The metadata comes last, so that consumers find only complete objects. An
/// error of `sink` ends the publication.
///
/// # Errors
/// A packet would be too large or cannot be signed; the content cannot be read; or `sink` fails.
pub fn publish<E: From<PublishError>>(
    name: NameRef<'_>,
    version: u64,
    content: &mut dyn Content,
    options: &Options,
    signer: &Signer,
    sink: &mut dyn FnMut(Name, Vec<u8>) -> Result<(), E>,
) -> Result<Published, E> {
    let object = name.to_name().join_version(version);
    let octets = content.octets();
    let segment_octets = segment_octets(&object, octets, options, signer)?;
    let segments = segment_count(octets, segment_octets as u64);
    let entries = manifest_entries(&object, options, signer);
    let publisher = Publisher { object, segments, segment_octets, entries, options, signer };
    match options.signing {
        Signing::Manifest(hash) => publisher.segments_under_manifests(content, hash, sink)?,
        Signing::PerPacket => publisher.signed_segments(content, sink)?,
    }
    let (metadata, wire) = publisher.metadata(name, version, octets)?;
    sink(metadata, wire)?;
    Ok(Published { object: publisher.object, segments })
}

/// An object while its packets are created.
struct Publisher<'a> {
    object: Name,
    segments: u64,
    segment_octets: usize,
    /// Number of segments per manifest.
    entries: u64,
    options: &'a Options,
    signer: &'a Signer,
}

impl Publisher<'_> {
    fn segments_under_manifests<E: From<PublishError>>(
        &self,
        content: &mut dyn Content,
        hash: ManifestHash,
        sink: &mut dyn FnMut(Name, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (object, freshness_ms) = (self.object.as_name(), self.options.freshness_ms);
        let last = self.segments - 1;
        let writer = SegmentWriter::new(object, Some(last), freshness_ms, hash);
        let last_index = last / self.entries;
        let mut manifest = Manifest::of_at_most(self.entries, 0, hash);
        let mut segment = 0;
        while segment <= last {
            // The content is read in runs, to limit the memory. The segments of a run are hashed
            // together.
            let run = content.next(RUN_SEGMENTS * self.segment_octets).map_err(PublishError::from)?;
            let run: Vec<&[u8]> = pieces(run, self.segment_octets).collect();
            for (wire, digest) in writer.make(segment, &run) {
                sink(segment_name(object, segment), wire)?;
                manifest.push(digest);
                let index = segment / self.entries;
                // A manifest follows its segments, because it contains their digests.
                if segment == last || (segment + 1).is_multiple_of(self.entries) {
                    let next = Manifest::of_at_most(self.entries, index + 1, hash);
                    let full = std::mem::replace(&mut manifest, next);
                    let wire = full.sign(object, Some(last_index), freshness_ms, self.signer);
                    sink(manifest_name(object, index), wire.map_err(PublishError::from)?)?;
                }
                segment += 1;
            }
        }
        Ok(())
    }

    fn signed_segments<E: From<PublishError>>(
        &self,
        content: &mut dyn Content,
        sink: &mut dyn FnMut(Name, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let last = Name::new().join_segment(self.segments - 1);
        for segment in 0..self.segments {
            let payload = content.next(self.segment_octets).map_err(PublishError::from)?;
            let name = segment_name(self.object.as_name(), segment);
            let mut builder = DataBuilder::new(name.as_name()).freshness_ms(self.options.freshness_ms);
            if let Some(component) = last.as_name().last() {
                builder = builder.final_block_id(component);
            }
            let wire = sign_data(&builder, payload, self.signer).map_err(PublishError::from)?;
            sink(name, wire)?;
        }
        Ok(())
    }

    fn metadata(
        &self,
        name: NameRef<'_>,
        version: u64,
        octets: u64,
    ) -> Result<(Name, Vec<u8>), PublishError> {
        let metadata = Metadata {
            last_segment: Some(self.segments - 1),
            segment_size_octets: Some(self.segment_octets as u64),
            size_octets: Some(octets),
            manifest_entries: self.options.signing.manifest_entries().and(Some(self.entries)),
            ..Metadata::new(self.object.clone())
        };
        let packet = metadata_name(name, version);
        debug_assert!(discovery_name(name).is_prefix_of(packet.as_name()));
        // RDR forbids metadata that is never fresh.
        let freshness_ms = self.options.metadata_freshness_ms.max(1);
        let builder = DataBuilder::new(packet.as_name()).freshness_ms(freshness_ms);
        let wire = sign_data(&builder, &metadata.to_vec(), self.signer)?;
        Ok((packet, wire))
    }
}

/// A published object with all its packets, in the order of their names.
#[derive(Debug)]
pub struct Publication {
    published: Published,
    packets: BTreeMap<Name, Vec<u8>>,
}

impl Publication {
    /// Publishes `content` as `name`, version `version`.
    ///
    /// # Errors
    /// A packet would be too large, or cannot be signed.
    pub fn new(
        name: NameRef<'_>,
        version: u64,
        mut content: &[u8],
        options: &Options,
        signer: &Signer,
    ) -> Result<Self, PublishError> {
        let mut packets = BTreeMap::new();
        let published = publish(name, version, &mut content, options, signer, &mut |name, wire| {
            packets.insert(name, wire);
            Ok::<(), PublishError>(())
        })?;
        Ok(Publication { published, packets })
    }

    /// The versioned name.
    pub fn object(&self) -> NameRef<'_> {
        self.published.object.as_name()
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.published.segments
    }

    /// Returns the packet that answers `interest`: the first match in the order of names.
    pub fn answer(&self, interest: &InterestView<'_>) -> Option<&[u8]> {
        // The implicit digest is not a component of the name in the packet.
        let components = interest.name.len() - usize::from(interest.implicit_digest().is_some());
        let prefix = interest.name.prefix(components).to_name();
        // Names are in canonical order, so all names below a prefix are contiguous.
        let within =
            self.packets.range(prefix.clone()..).take_while(|(name, _)| prefix.is_prefix_of(name.as_name()));
        within
            .map(|(_, wire)| wire.as_slice())
            .find(|wire| DataView::parse(wire).is_ok_and(|data| answers(interest, &data)))
    }

    /// Every packet, in the order of names.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets.values().map(Vec::as_slice)
    }

    /// Every packet with its name.
    pub fn into_packets(self) -> impl Iterator<Item = (Name, Vec<u8>)> {
        self.packets.into_iter()
    }
}

/// Returns the payload of each segment of a run: one empty segment for an empty object.
fn pieces(content: &[u8], segment_octets: usize) -> impl Iterator<Item = &[u8]> {
    let empty = content.is_empty().then_some(content);
    empty.into_iter().chain(content.chunks(segment_octets))
}

/// Returns the maximum payload with which no packet exceeds the requested size. Higher segment
/// numbers are longer and leave less space, so the longest possible number of the object is
/// assumed.
fn segment_octets(
    object: &Name,
    content_octets: u64,
    options: &Options,
    signer: &Signer,
) -> Result<usize, PublishError> {
    // NFD drops longer packets.
    let packet_octets_max = options.packet_octets_max.min(PACKET_OCTETS_MAX);
    let too_small = PublishError::PacketTooSmall { name: object.clone(), packet_octets_max };
    let (last, hash) = (Some(content_octets), options.signing.hash());
    let writer = SegmentWriter::new(object.as_name(), last, options.freshness_ms, hash);
    let signature_octets = match options.signing {
        Signing::Manifest(_) => 0,
        Signing::PerPacket => extra_signature_octets(signer),
    };
    let room = packet_octets_max.checked_sub(signature_octets);
    let octets = room.and_then(|room| writer.content_octets_max(content_octets, room));
    octets.map(|octets| octets.min(options.segment_octets_max)).filter(|octets| *octets > 0).ok_or(too_small)
}

/// Returns the number of segments per manifest: as many as fit into its maximum size.
fn manifest_entries(object: &Name, options: &Options, signer: &Signer) -> u64 {
    if options.manifest_octets_max > SHORT_MANIFEST_OCTETS_MAX {
        return MANIFEST_ENTRIES;
    }
    // The longest numbers are assumed, so that the result holds for every manifest of the object.
    let name = manifest_name(object.as_name(), u64::MAX);
    let last = Name::new().join_segment(u64::MAX);
    let mut builder = DataBuilder::new(name.as_name())
        .content_type(ContentType::Manifest)
        .freshness_ms(options.freshness_ms.max(u64::from(u32::MAX)));
    if let Some(component) = last.as_name().last() {
        builder = builder.final_block_id(component);
    }
    let empty = Manifest::new(0, options.signing.hash()).encode(object.as_name());
    let unsigned = builder.build(&empty, &signer.signature_info());
    // LENGTHs of the packet, its content and its signature may take two octets more each.
    let octets = unsigned.finish(&[]).len() + signer.signature_octets_max() + 6;
    let room = options.manifest_octets_max.saturating_sub(octets) / ENTRY_OCTETS;
    (room as u64).clamp(MANIFEST_ENTRIES_MIN, MANIFEST_ENTRIES)
}

/// Octets of an entry of a manifest.
const ENTRY_OCTETS: usize = 32;

/// Octets of the signer's SignatureInfo and SignatureValue beyond those of DigestSha256.
fn extra_signature_octets(signer: &Signer) -> usize {
    let value = signer.signature_octets_max().max(32);
    let locator = signer.key_name().map_or(0, |name| name.as_name().encoded_octets() + 4);
    // SignatureValue's and SignatureInfo's LENGTH may take two octets more each.
    value - 32 + locator + 4
}

/// The reason for which an object cannot be published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The caller's: the name and the signature leave no space for content.
    #[error(
        "packets of {packet_octets_max} octets leave no room for content of {name}: use larger packets \
         or a shorter name"
    )]
    PacketTooSmall {
        /// The object.
        name: Name,
        /// The requested packet size.
        packet_octets_max: usize,
    },
    /// The caller's: a manifest cannot be created.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The environment's: the key does not sign.
    #[error("cannot sign: {0}")]
    Signing(#[from] CryptoError),
    /// The environment's: the content cannot be read, or ends early.
    #[error("the content cannot be read: {0}")]
    Content(io::ErrorKind),
}

impl From<io::Error> for PublishError {
    fn from(error: io::Error) -> Self {
        PublishError::Content(error.kind())
    }
}
