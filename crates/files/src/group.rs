//! The segments that one manifest covers: read and hashed once, and cached until they are sent.

use std::io::IoSliceMut;

use namely_security::{MANIFEST_ENTRIES, Manifest, ManifestError};
use namely_transport::publish::SegmentWriter;
use namely_wire::NameRef;

use crate::content::{Content, ReadError};
use crate::published::Packaging;

/// Segments that are read and hashed per step.
pub(crate) const CHUNK_SEGMENTS: u64 = 16;

/// The source of a group's segments.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) content: &'a Content,
    pub(crate) writer: &'a SegmentWriter,
    pub(crate) segment_octets: usize,
    /// Segments of the whole object.
    pub(crate) segments: u64,
}

impl Source<'_> {
    /// Returns the octets of the packet of `segment`.
    fn packet_octets(&self, segment: u64) -> usize {
        self.writer.octets(segment, self.content_span(segment).1)
    }

    /// Returns the offset of the content of `segment`, and its octets.
    pub(crate) fn content_span(&self, segment: u64) -> (u64, usize) {
        let offset = segment.saturating_mul(self.segment_octets as u64);
        let left = self.content.octets().saturating_sub(offset);
        (offset, self.segment_octets.min(usize::try_from(left).unwrap_or(usize::MAX)))
    }
}

/// A group that is being read. Each step reads a few segments, so that making a manifest does not
/// delay segments that are requested meanwhile. Content is read directly into the packets, and is
/// hashed and sent from there.
#[derive(Debug)]
pub(crate) struct GroupBuilder {
    index: u64,
    manifest: Manifest,
    packets: Packets,
    next: u64,
    end: u64,
}

/// Packets of segments, one after the other.
#[derive(Debug, Default)]
struct Packets {
    octets: Vec<u8>,
    /// The end of each packet.
    ends: Vec<usize>,
}

impl Packets {
    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.octets.get(start..end)
    }
}

impl GroupBuilder {
    /// Begins group `index` of `source`, which must exist. `room` is memory to reuse; its content
    /// is ignored. Memory in recent use costs no page faults.
    pub(crate) fn new(index: u64, source: &Source<'_>, mut room: Vec<u8>) -> Self {
        let first = index * MANIFEST_ENTRIES;
        let end = source.segments.min(first + MANIFEST_ENTRIES);
        let octets = (first..end).map(|segment| source.packet_octets(segment)).sum();
        if room.len() < octets {
            room = vec![0; octets];
        }
        GroupBuilder {
            index,
            manifest: Manifest::new(index, source.writer.hash()),
            packets: Packets { octets: room, ends: Vec::with_capacity((end - first) as usize) },
            next: first,
            end,
        }
    }

    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// Octets of memory held.
    pub(crate) fn memory_octets(&self) -> usize {
        self.packets.octets.capacity()
    }

    /// Reads and hashes the next few segments. Returns whether there are more.
    pub(crate) fn step(&mut self, source: &Source<'_>) -> Result<bool, ReadError> {
        let end = self.end.min(self.next + CHUNK_SEGMENTS);
        if self.next == end {
            return Ok(false);
        }
        let start = self.packets.end();
        let mut rest = &mut self.packets.octets[start..];
        let mut gaps = Vec::with_capacity(CHUNK_SEGMENTS as usize);
        let mut parts = Vec::with_capacity(CHUNK_SEGMENTS as usize);
        for segment in self.next..end {
            let (packet, others) = rest.split_at_mut(source.packet_octets(segment));
            gaps.push((packet.len(), source.writer.lay_out(segment, source.content_span(segment).1, packet)));
            let content = gaps.last().map_or(0..0, |(_, gap)| gap.content.clone());
            parts.push(IoSliceMut::new(&mut packet[content]));
            rest = others;
        }
        source.content.read_into(source.content_span(self.next).0, &mut parts)?;
        let digests = source.writer.complete(&mut self.packets.octets[start..], &gaps);
        let mut packet_end = start;
        for ((octets, _), digest) in gaps.iter().zip(digests) {
            packet_end += octets;
            self.packets.ends.push(packet_end);
            self.manifest.push(digest);
        }
        self.next = end;
        Ok(self.next < self.end)
    }

    /// Reads the remaining segments and signs the manifest.
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
        Ok(Group { index: self.index, manifest: self.manifest, wire, packets: self.packets })
    }
}

/// An error of making a group.
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
    /// The segments; empty after `release`.
    packets: Packets,
}

impl Group {
    /// Returns the packet of `segment`, if it is cached.
    pub(crate) fn packet(&self, segment: u64) -> Option<&[u8]> {
        self.packets.get(usize::try_from(segment.checked_sub(self.index * MANIFEST_ENTRIES)?).ok()?)
    }

    /// Octets of memory held.
    pub(crate) fn memory_octets(&self) -> usize {
        self.packets.octets.capacity()
    }

    /// Drops the cached segments and returns their memory. The segments are made again on request.
    pub(crate) fn release(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.packets).octets
    }
}
