//! The segments that one manifest covers: read and hashed once, kept until they are sent.

use namely_security::manifest::ManifestError;
use namely_security::{MANIFEST_ENTRIES, Manifest};
use namely_transport::segment::SegmentWriter;
use namely_wire::NameRef;

use crate::content::{Content, ReadError};
use crate::published::Packaging;

/// Segments read at once.
const CHUNK_SEGMENTS: u64 = 8;

/// What a group is cut from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) content: &'a Content,
    pub(crate) writer: &'a SegmentWriter,
    pub(crate) segment_octets: usize,
    /// Segments of the whole object.
    pub(crate) segments: u64,
}

impl Source<'_> {
    /// Where the content of `segment` is, and its octets.
    pub(crate) fn place(&self, segment: u64) -> (u64, usize) {
        let offset = segment.saturating_mul(self.segment_octets as u64);
        let left = self.content.octets().saturating_sub(offset);
        (offset, self.segment_octets.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }
}

/// A group that is being read: a few segments at a time, so that making a manifest does not hold up the segments
/// that are asked for meanwhile.
#[derive(Debug)]
pub(crate) struct GroupBuilder {
    index: u64,
    manifest: Manifest,
    octets: Vec<u8>,
    /// The signed portion that was hashed last.
    scratch: Vec<u8>,
    next: u64,
    end: u64,
}

impl GroupBuilder {
    /// Group `index` of `source`; it must exist.
    pub(crate) fn new(index: u64, source: &Source<'_>) -> Self {
        let first = index * MANIFEST_ENTRIES;
        let end = source.segments.min(first + MANIFEST_ENTRIES);
        let (start, _) = source.place(first);
        let (last, last_octets) = source.place(end - 1);
        let octets = usize::try_from(last - start).unwrap_or(0) + last_octets;
        GroupBuilder {
            index,
            manifest: Manifest::new(index, source.writer.hash()),
            octets: Vec::with_capacity(octets),
            scratch: Vec::new(),
            next: first,
            end,
        }
    }

    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// Octets of content held.
    pub(crate) fn octets_kept(&self) -> usize {
        self.octets.capacity()
    }

    /// Reads and hashes the next few segments. Whether there are more.
    pub(crate) fn step(&mut self, source: &Source<'_>) -> Result<bool, ReadError> {
        let end = self.end.min(self.next + CHUNK_SEGMENTS);
        if self.next == end {
            return Ok(false);
        }
        let (offset, _) = source.place(self.next);
        let (last, last_octets) = source.place(end - 1);
        let start = self.octets.len();
        let chunk_octets = usize::try_from(last - offset).unwrap_or(0) + last_octets;
        source.content.read(offset, chunk_octets, &mut self.octets)?;
        let mut rest = &self.octets[start..];
        for segment in self.next..end {
            let (content, others) = rest.split_at(source.segment_octets.min(rest.len()));
            self.manifest.push(source.writer.digest(segment, content, &mut self.scratch));
            rest = others;
        }
        self.next = end;
        Ok(self.next < self.end)
    }

    /// The finished group, its manifest signed.
    pub(crate) fn finish(
        mut self,
        object: NameRef<'_>,
        source: &Source<'_>,
        packaging: &Packaging,
    ) -> Result<Group, GroupError> {
        while self.step(source).map_err(GroupError::Content)? {}
        let last_index = (source.segments - 1) / MANIFEST_ENTRIES;
        let wire = self
            .manifest
            .sign(object, Some(last_index), packaging.freshness_ms, &packaging.signer)
            .map_err(GroupError::Manifest)?;
        Ok(Group { index: self.index, manifest: self.manifest, wire, octets: self.octets })
    }
}

/// Why a group cannot be made.
#[derive(Debug)]
pub(crate) enum GroupError {
    Content(ReadError),
    Manifest(ManifestError),
}

/// The segments that one manifest covers.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) index: u64,
    pub(crate) manifest: Manifest,
    /// The manifest's packet.
    pub(crate) wire: Vec<u8>,
    /// The segments' content, one behind the other; empty when it is not kept.
    octets: Vec<u8>,
}

impl Group {
    /// The content of `segment`, if it is kept.
    pub(crate) fn content(&self, segment: u64, segment_octets: usize) -> Option<&[u8]> {
        let place = usize::try_from(segment.checked_sub(self.index * MANIFEST_ENTRIES)?).ok()?;
        let start = place.checked_mul(segment_octets)?;
        let rest = self.octets.get(start..)?;
        (!self.octets.is_empty()).then(|| &rest[..segment_octets.min(rest.len())])
    }

    /// Octets of content held.
    pub(crate) fn octets_kept(&self) -> usize {
        self.octets.capacity()
    }

    /// Forgets the content; it is read again when it is asked for.
    pub(crate) fn release(&mut self) {
        self.octets = Vec::new();
    }
}
