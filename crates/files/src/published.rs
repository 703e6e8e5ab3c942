//! One version of an object, served from its content. Segments are written directly into the
//! packets to send, and manifests are made on request.

use std::collections::VecDeque;

use namely_security::{CryptoError, MANIFEST_ENTRIES, ManifestError, Signer, sign_data};
use namely_transport::connection::Outbox;
use namely_transport::publish::Signing;
use namely_transport::publish::{SegmentWriter, segment_count, segment_name};
use namely_wire::{Component, DataBuilder, LpHeaders, Name, NameRef, PACKET_OCTETS_MAX};

use crate::content::{Content, ReadError};
use crate::group::{CHUNK_SEGMENTS, Group, GroupBuilder, GroupError, Source};

/// Cached manifests of one object, with the digests that they list.
///
/// Clients at different positions of a large file each need their own.
///
/// # Limit
/// The least recently used manifest is evicted, and made again for a later request.
/// - Tests: `cached_manifests_are_limited`
pub(crate) const GROUPS_MAX: usize = 16;

/// Maximum number of groups whose content is cached, too: a client requests a manifest one group
/// ahead of its segments, and another client may be a little behind.
const GROUPS_KEPT_MAX: usize = 3;

/// Segment size, freshness and signing of objects.
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
    /// The group that is requested next. It is read while the segments before it are sent.
    upcoming: Option<GroupBuilder>,
}

/// The reason why a packet is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// The number of the segment or manifest is past the last one.
    PastEnd,
    /// The content can no longer be read.
    Content(ReadError),
    /// The packet would be too large.
    TooLarge,
    /// The packet cannot be signed.
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

impl From<GroupError> for Unavailable {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Content(error) => Unavailable::Content(error),
            GroupError::Manifest(ManifestError::Signing(error)) => Unavailable::Signing(error),
            GroupError::Manifest(_) => Unavailable::TooLarge,
        }
    }
}

impl PublishedObject {
    /// Creates the object with the versioned name `name`.
    pub(crate) fn new(name: Name, content: Content, packaging: &Packaging) -> Self {
        let segments = segment_count(content.octets(), packaging.segment_octets as u64);
        let (freshness_ms, hash) = (packaging.freshness_ms, packaging.signing.hash());
        let writer = SegmentWriter::new(name.as_name(), Some(segments - 1), freshness_ms, hash);
        PublishedObject {
            name,
            content,
            writer,
            segments,
            segment_octets: packaging.segment_octets,
            groups: VecDeque::new(),
            upcoming: None,
        }
    }

    fn source(&self) -> Source<'_> {
        Source {
            content: &self.content,
            writer: &self.writer,
            segment_octets: self.segment_octets,
            segments: self.segments,
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

    /// Returns true if all segments fit their packets.
    pub(crate) fn fits(&self) -> bool {
        self.writer.octets(self.last_segment(), self.segment_octets) <= PACKET_OCTETS_MAX
    }

    /// Queues segment `segment`. Returns its octets of content.
    pub(crate) fn send_segment(
        &mut self,
        segment: u64,
        packaging: &Packaging,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<usize, Unavailable> {
        if segment >= self.segments {
            return Err(Unavailable::PastEnd);
        }
        let (offset, octets) = self.source().content_span(segment);
        if packaging.signing == Signing::PerPacket {
            let wire = self.signed_segment(segment, offset, octets, packaging)?;
            outbox.send(headers, &wire);
            return Ok(octets);
        }
        let group = self.groups.iter().find(|group| group.index == segment / MANIFEST_ENTRIES);
        if let Some(packet) = group.and_then(|group| group.packet(segment)) {
            outbox.send(headers, packet);
        } else {
            let digest = group.and_then(|group| group.manifest.digest(segment)).copied();
            outbox.compose(headers, self.writer.octets(segment, octets), |buf| {
                let fill = |buf: &mut Vec<u8>| self.content.read(offset, octets, buf);
                self.writer.write(segment, octets, digest, buf, fill).map(|_| ())
            })?;
        }
        // After each chunk of sent segments, one step reads as many segments.
        if segment.is_multiple_of(CHUNK_SEGMENTS) {
            self.prepare();
        }
        Ok(octets)
    }

    /// Reads a chunk of the group that is requested next.
    fn prepare(&mut self) {
        let Some(mut upcoming) = self.upcoming.take() else { return };
        // An error is reported when the manifest is requested.
        if upcoming.step(&self.source()).is_ok() {
            self.upcoming = Some(upcoming);
        }
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

    /// Queues manifest `index`. Makes it if it is not cached.
    pub(crate) fn send_manifest(
        &mut self,
        index: u64,
        packaging: &Packaging,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Unavailable> {
        let position = self.groups.iter().position(|group| group.index == index);
        let group = match position.and_then(|position| self.groups.remove(position)) {
            Some(group) if self.content.is_unchanged() => group,
            Some(_) => return Err(Unavailable::Content(ReadError::Changed)),
            None => self.make_group(index, packaging)?,
        };
        outbox.send(headers, &group.wire);
        if self.groups.len() == GROUPS_MAX {
            self.groups.pop_front();
        }
        self.groups.push_back(group);
        let old = self.groups.len().checked_sub(GROUPS_KEPT_MAX + 1).and_then(|i| self.groups.get_mut(i));
        let room = old.map(Group::release).unwrap_or_default();
        let next = index + 1;
        let is_wanted = next <= self.last_segment() / MANIFEST_ENTRIES
            && self.groups.iter().all(|group| group.index != next)
            && self.upcoming.as_ref().is_none_or(|upcoming| upcoming.index() != next);
        if is_wanted {
            self.upcoming = Some(GroupBuilder::new(next, &self.source(), room));
        }
        Ok(())
    }

    fn make_group(&mut self, index: u64, packaging: &Packaging) -> Result<Group, Unavailable> {
        if packaging.signing == Signing::PerPacket || index > self.last_segment() / MANIFEST_ENTRIES {
            return Err(Unavailable::PastEnd);
        }
        let begun = self.upcoming.take_if(|upcoming| upcoming.index() == index);
        let builder = begun.unwrap_or_else(|| GroupBuilder::new(index, &self.source(), Vec::new()));
        let mut group = builder.finish(self.name(), &self.source(), packaging)?;
        if matches!(self.content, Content::Memory(_) | Content::Index(_)) {
            group.release();
        }
        Ok(group)
    }

    #[cfg(test)]
    pub(crate) fn cached_groups(&self) -> usize {
        self.groups.len()
    }

    /// Octets of memory held in addition to the content itself.
    pub(crate) fn memory_octets(&self) -> usize {
        let upcoming = self.upcoming.as_ref().map_or(0, GroupBuilder::memory_octets);
        upcoming + self.groups.iter().map(Group::memory_octets).sum::<usize>()
    }

    /// Drops the memory counted by [`PublishedObject::memory_octets`]; segments are read again on
    /// request.
    pub(crate) fn release(&mut self) {
        self.upcoming = None;
        self.groups.iter_mut().for_each(|group| drop(group.release()));
    }
}

/// Returns true if `component` is the keyword before a manifest's number.
pub(crate) fn is_manifest_keyword(component: &Component<'_>) -> bool {
    *component == Component::keyword(namely_security::MANIFEST_KEYWORD)
}
