//! Publishing an object: cut into segments that fit a packet size, named, signed one by one or by
//! manifest (HT-12, HT-14), and handed to whoever keeps them: a [`Publication`] in memory, or the
//! output buffer of a socket. The content is memory or is read piece by piece; the packets are not
//! kept here.
//!
//! For segments that are made when they are asked for see `namely-files`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use namely_security::{
    CryptoError, MANIFEST_ENTRIES, Manifest, ManifestError, ManifestHash, Signer, manifest_name, sign_data,
};
use namely_wire::rdr::{Metadata, discovery_name, metadata_name};
use namely_wire::{ContentType, DataBuilder, DataView, InterestView, Name, NameRef, PACKET_OCTETS_MAX};

use crate::matching::answers;
pub use crate::segment::{SegmentGap, SegmentWriter, segment_count, segment_name};

/// Largest packet made unless another size is asked for: routers that take no link packet above
/// [`PACKET_OCTETS_MAX`] still pass it with a PIT token of any length and a mark.
pub const PACKET_OCTETS_DEFAULT: usize = PACKET_OCTETS_MAX - 64;

/// Content of a segment unless another size is asked for, octets: eight chunks of BLAKE3, which are
/// hashed side by side. Seven and a piece of one take three times as long. What a packet adds to it
/// leaves 500 octets of a packet for a long name or signature.
pub const SEGMENT_OCTETS_DEFAULT: usize = 8192;

/// Segments that one manifest covers at least.
pub const MANIFEST_ENTRIES_MIN: u64 = 8;

/// Where packets may be longer, manifests have their usual length: a segment that is longer tells
/// who knows no metadata of its object that they have.
pub const SHORT_MANIFEST_OCTETS_MAX: usize = SEGMENT_OCTETS_DEFAULT;

/// Segments hashed together.
const RUN_SEGMENTS: usize = 16;

/// How segments are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// A key signs manifests, which list the segments by their digests.
    Manifest(ManifestHash),
    /// The signer signs each segment.
    PerPacket,
}

impl Signing {
    /// How segments are hashed; without manifests nobody asks.
    pub fn hash(self) -> ManifestHash {
        match self {
            Signing::Manifest(hash) => hash,
            Signing::PerPacket => ManifestHash::default(),
        }
    }

    /// ManifestEntries of the metadata, of manifests of the usual length: none without manifests.
    pub fn manifest_entries(self) -> Option<u64> {
        matches!(self, Signing::Manifest(_)).then_some(MANIFEST_ENTRIES)
    }
}

/// How an object is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Largest packet, octets: no network on the way has to cut packets of this size.
    pub packet_octets_max: usize,
    /// Largest manifest, octets: what is shorter covers fewer segments. It has
    /// [`MANIFEST_ENTRIES_MIN`] entries all the same, and [`MANIFEST_ENTRIES`] from
    /// [`SHORT_MANIFEST_OCTETS_MAX`] octets on.
    pub manifest_octets_max: usize,
    /// Most content in a segment, octets, where packets have room for more.
    pub segment_octets_max: usize,
    /// How segments are signed.
    pub signing: Signing,
    /// FreshnessPeriod of segments and manifests, ms.
    pub freshness_ms: u64,
    /// FreshnessPeriod of metadata, ms: for so long caches may not notice a newer version.
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

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The versioned name.
    pub object: Name,
    /// How many segments there are.
    pub segments: u64,
}

/// Where the content of an object comes from: in order, and once.
pub trait Content {
    /// Octets in all.
    fn octets(&self) -> u64;

    /// The next `octets`, or what is left if that is less.
    ///
    /// # Errors
    /// It cannot be read, or ends early.
    fn next(&mut self, octets: usize) -> io::Result<&[u8]>;
}

/// Content that is in memory.
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

/// Content that is read, a run of segments at a time.
#[derive(Debug)]
pub struct ReadContent<R> {
    reader: R,
    octets: u64,
    left: u64,
    run: Vec<u8>,
}

impl<R: Read> ReadContent<R> {
    /// The next `octets` of `reader`.
    pub fn new(reader: R, octets: u64) -> Self {
        ReadContent { reader, octets, left: octets, run: Vec::new() }
    }
}

impl<R: Read> Content for ReadContent<R> {
    fn octets(&self) -> u64 {
        self.octets
    }

    fn next(&mut self, octets: usize) -> io::Result<&[u8]> {
        let octets = usize::try_from(self.left).unwrap_or(usize::MAX).min(octets);
        self.run.resize(octets, 0);
        self.reader.read_exact(&mut self.run)?;
        self.left -= octets as u64;
        Ok(&self.run)
    }
}

/// Publishes `content` as `name`, version `version`: hands each packet with its name to `sink` as
/// it is made. The metadata comes last, so that nobody finds an object before it is whole. An error
/// of `sink` ends it.
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

/// One object while its packets are made.
struct Publisher<'a> {
    object: Name,
    segments: u64,
    segment_octets: usize,
    /// Segments that one manifest covers.
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
            let run = content.next(RUN_SEGMENTS * self.segment_octets).map_err(PublishError::from)?;
            let run: Vec<&[u8]> = pieces(run, self.segment_octets).collect();
            for (wire, digest) in writer.make(segment, &run) {
                sink(segment_name(object, segment), wire)?;
                manifest.push(digest);
                let index = segment / self.entries;
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

/// A published object: every packet of it, by name.
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

    /// How many segments there are.
    pub fn segments(&self) -> u64 {
        self.published.segments
    }

    /// The packet that answers `interest`: the first in the order of names that matches.
    pub fn answer(&self, interest: &InterestView<'_>) -> Option<&[u8]> {
        let components = interest.name.len() - usize::from(interest.implicit_digest().is_some());
        let prefix = interest.name.prefix(components).to_name();
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

/// The payload of each segment of a run: one empty segment for an empty object.
fn pieces(content: &[u8], segment_octets: usize) -> impl Iterator<Item = &[u8]> {
    let empty = content.is_empty().then_some(content);
    empty.into_iter().chain(content.chunks(segment_octets))
}

/// The most payload with which every packet keeps to the size asked for. More segments take longer
/// numbers, which leave less room; so the longest number that the object could need is reckoned
/// with.
fn segment_octets(
    object: &Name,
    content_octets: u64,
    options: &Options,
    signer: &Signer,
) -> Result<usize, PublishError> {
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

/// How many segments each manifest covers: as many as its longest packet has room for.
fn manifest_entries(object: &Name, options: &Options, signer: &Signer) -> u64 {
    if options.manifest_octets_max > SHORT_MANIFEST_OCTETS_MAX {
        return MANIFEST_ENTRIES;
    }
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

/// Octets that the signer's SignatureInfo and SignatureValue may take beyond those of DigestSha256.
fn extra_signature_octets(signer: &Signer) -> usize {
    let value = signer.signature_octets_max().max(32);
    let locator = signer.key_name().map_or(0, |name| name.as_name().encoded_octets() + 4);
    // SignatureValue's and SignatureInfo's LENGTH may take two octets more each.
    value - 32 + locator + 4
}

/// Why an object cannot be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishError {
    /// The caller's: name and signature alone fill the packet.
    PacketTooSmall {
        /// The object.
        name: Name,
        /// The packet size asked for.
        packet_octets_max: usize,
    },
    /// The caller's: a manifest cannot be made.
    Manifest(ManifestError),
    /// The environment's: the key does not sign.
    Signing(CryptoError),
    /// The environment's: the content cannot be read, or ends early.
    Content(io::ErrorKind),
}

impl From<io::Error> for PublishError {
    fn from(error: io::Error) -> Self {
        PublishError::Content(error.kind())
    }
}

impl From<CryptoError> for PublishError {
    fn from(error: CryptoError) -> Self {
        PublishError::Signing(error)
    }
}

impl From<ManifestError> for PublishError {
    fn from(error: ManifestError) -> Self {
        PublishError::Manifest(error)
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::PacketTooSmall { name, packet_octets_max } => {
                write!(f, "packets of {packet_octets_max} octets leave no room for content of {name}: ")?;
                f.write_str("use larger packets or a shorter name")
            }
            PublishError::Manifest(error) => error.fmt(f),
            PublishError::Signing(error) => write!(f, "cannot sign: {error}"),
            PublishError::Content(kind) => write!(f, "the content cannot be read: {kind}"),
        }
    }
}

impl std::error::Error for PublishError {}
