//! One version of an object, served from its content: segments written where they will be sent from, manifests
//! made when they are asked for.

use std::collections::VecDeque;

use namely_security::manifest::ManifestError;
use namely_security::{CryptoError, MANIFEST_ENTRIES, Manifest, Signer, sign_data};
use namely_transport::connection::Outbox;
use namely_transport::publish::Signing;
use namely_transport::segment::{SegmentWriter, segment_count, segment_name};
use namely_wire::{Component, DataBuilder, LpHeaders, Name, NameRef, PACKET_OCTETS_MAX};

use crate::content::{Content, ReadError};

/// Manifests of one object that are kept with the digests they list; the one used longest ago gives way. Several
/// clients at different places of a large file each need their own.
pub(crate) const GROUPS_MAX: usize = 16;

/// How objects are cut and signed.
#[derive(Clone, Debug)]
pub(crate) struct Packaging {
    pub(crate) segment_octets: usize,
    pub(crate) freshness_ms: u64,
    pub(crate) signing: Signing,
    pub(crate) signer: Signer,
}

/// One version of an object.
#[derive(Debug)]
pub(crate) struct PublishedObject {
    name: Name,
    content: Content,
    writer: SegmentWriter,
    segments: u64,
    segment_octets: usize,
    groups: VecDeque<Group>,
}

/// The segments that one manifest covers.
#[derive(Debug)]
struct Group {
    index: u64,
    manifest: Manifest,
    wire: Vec<u8>,
}

/// Why there is no such packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// The number is past the last.
    PastEnd,
    /// The content cannot be read any more.
    Content(ReadError),
    /// The packet would be too large.
    TooLarge,
    /// It cannot be signed.
    Signing(CryptoError),
}

impl From<ReadError> for Unavailable {
    fn from(error: ReadError) -> Self {
        Unavailable::Content(error)
    }
}

impl From<CryptoError> for Unavailable {
    fn from(error: CryptoError) -> Self {
        Unavailable::Signing(error)
    }
}

impl From<ManifestError> for Unavailable {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::Signing(error) => Unavailable::Signing(error),
            _ => Unavailable::TooLarge,
        }
    }
}

impl PublishedObject {
    /// The object with the versioned name `name`.
    pub(crate) fn new(name: Name, content: Content, packaging: &Packaging) -> Self {
        let segments = segment_count(content.octets(), packaging.segment_octets as u64);
        let writer = SegmentWriter::new(name.as_name(), Some(segments - 1), packaging.freshness_ms);
        PublishedObject {
            name,
            content,
            writer,
            segments,
            segment_octets: packaging.segment_octets,
            groups: VecDeque::new(),
        }
    }

    pub(crate) fn name(&self) -> NameRef<'_> {
        self.name.as_name()
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    pub(crate) fn last_segment(&self) -> u64 {
        self.segments - 1
    }

    /// Whether all segments fit their packets.
    pub(crate) fn fits(&self) -> bool {
        self.writer.octets(self.last_segment(), self.segment_octets) <= PACKET_OCTETS_MAX
    }

    /// Octets of content that `segment` has.
    fn content_octets(&self, segment: u64) -> Result<(u64, usize), Unavailable> {
        if segment >= self.segments {
            return Err(Unavailable::PastEnd);
        }
        let offset = segment * self.segment_octets as u64;
        let left = self.content.octets().saturating_sub(offset);
        Ok((offset, self.segment_octets.min(usize::try_from(left).unwrap_or(usize::MAX))))
    }

    /// Queues segment `segment`. Returns its octets of content.
    pub(crate) fn send_segment(
        &self,
        segment: u64,
        packaging: &Packaging,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<usize, Unavailable> {
        let (offset, octets) = self.content_octets(segment)?;
        if packaging.signing == Signing::PerPacket {
            let wire = self.signed_segment(segment, offset, octets, packaging)?;
            outbox.send(headers, &wire);
            return Ok(octets);
        }
        let digest = self.known_digest(segment);
        outbox.compose(headers, self.writer.octets(segment, octets), |buf| {
            let read = |buf: &mut Vec<u8>| self.content.read(offset, octets, buf);
            self.writer.write(segment, octets, digest, buf, read).map(|_| ())
        })?;
        Ok(octets)
    }

    fn signed_segment(
        &self,
        segment: u64,
        offset: u64,
        octets: usize,
        packaging: &Packaging,
    ) -> Result<Vec<u8>, Unavailable> {
        let mut content = Vec::with_capacity(octets);
        self.content.read(offset, octets, &mut content)?;
        let name = segment_name(self.name(), segment);
        let last = Name::new().join_segment(self.last_segment());
        let mut builder = DataBuilder::new(name.as_name()).freshness_ms(packaging.freshness_ms);
        if let Some(component) = last.as_name().last() {
            builder = builder.final_block_id(component);
        }
        let wire = sign_data(&builder, &content, &packaging.signer)?;
        if wire.len() > PACKET_OCTETS_MAX { Err(Unavailable::TooLarge) } else { Ok(wire) }
    }

    fn known_digest(&self, segment: u64) -> Option<[u8; 32]> {
        let index = segment / MANIFEST_ENTRIES;
        self.groups.iter().find(|group| group.index == index)?.manifest.digest(segment).copied()
    }

    /// Queues manifest `index`, made now if it is not kept.
    pub(crate) fn send_manifest(
        &mut self,
        index: u64,
        packaging: &Packaging,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Unavailable> {
        let place = self.groups.iter().position(|group| group.index == index);
        let group = match place.and_then(|place| self.groups.remove(place)) {
            Some(group) if self.content.is_unchanged() => group,
            Some(_) => return Err(Unavailable::Content(ReadError::Changed)),
            None => self.make_group(index, packaging)?,
        };
        outbox.send(headers, &group.wire);
        if self.groups.len() == GROUPS_MAX {
            self.groups.pop_front();
        }
        self.groups.push_back(group);
        Ok(())
    }

    /// Hashes the segments of one manifest and signs it.
    fn make_group(&self, index: u64, packaging: &Packaging) -> Result<Group, Unavailable> {
        let last_index = self.last_segment() / MANIFEST_ENTRIES;
        if packaging.signing != Signing::Manifest || index > last_index {
            return Err(Unavailable::PastEnd);
        }
        let mut manifest = Manifest::new(index);
        let mut packet = Vec::with_capacity(PACKET_OCTETS_MAX);
        let first = index * MANIFEST_ENTRIES;
        for segment in first..self.segments.min(first + MANIFEST_ENTRIES) {
            let (offset, octets) = self.content_octets(segment)?;
            packet.clear();
            let read = |buf: &mut Vec<u8>| self.content.read(offset, octets, buf);
            manifest.push(self.writer.write(segment, octets, None, &mut packet, read)?);
        }
        let wire = manifest.sign(self.name(), Some(last_index), packaging.freshness_ms, &packaging.signer)?;
        Ok(Group { index, manifest, wire })
    }
}

/// Whether `component` is the keyword before a manifest's number.
pub(crate) fn is_manifest_keyword(component: &Component<'_>) -> bool {
    *component == Component::keyword(namely_security::manifest::MANIFEST_KEYWORD)
}
