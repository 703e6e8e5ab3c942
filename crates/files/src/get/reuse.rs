//! Finds the octets that a file has in common with an object, by the digests in the object's
//! manifests: after a change of the object most of an earlier version may be equal, as that of a
//! log to which lines were appended. No octet of the object itself is fetched.

use std::io;

use namely_security::Manifest;
use namely_socket::{Consumer, Flow};
use namely_transport::object::{Object, Progress, SignatureMode};
use namely_transport::publish::{SegmentWriter, segment_count};
use namely_wire::{DataView, PACKET_OCTETS_MAX};

/// Segments that are read and hashed together.
const RUN_SEGMENTS: u64 = 16;

/// The equal beginning of a file and an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EqualPart {
    pub(super) segments: u64,
    pub(super) octets: u64,
}

/// The sizes of an object, as far as its segments can be made from its content.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    octets: u64,
    segment_octets: u64,
    segments: u64,
}

impl Sizes {
    fn of(object: &Object) -> Option<Self> {
        let metadata = object.metadata.as_ref()?;
        let octets = metadata.size_octets?;
        let segment_octets = metadata.segment_size_octets?;
        let fits = (1..=PACKET_OCTETS_MAX as u64).contains(&segment_octets);
        let segments = object.segments.filter(|segments| *segments == segment_count(octets, segment_octets));
        let is_listed = object.signature_mode == SignatureMode::Manifests;
        Some(Sizes { octets, segment_octets, segments: segments? }).filter(|_| fits && is_listed)
    }

    /// The number of octets before `segment`.
    fn before(&self, segment: u64) -> u64 {
        segment.saturating_mul(self.segment_octets).min(self.octets)
    }
}

/// Returns the beginning of a file of `octets` that is equal to that of `object`. `read` fills a
/// buffer with the file's octets from an offset on. Without manifests, nothing is known to be
/// equal.
pub(super) fn equal_part(
    consumer: &Consumer,
    object: &Object,
    octets: u64,
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> EqualPart {
    let mut equal = EqualPart::default();
    let Some(sizes) = Sizes::of(object) else { return equal };
    let entries = object.manifest_entries;
    while equal.segments < sizes.segments && sizes.before(equal.segments + 1) <= octets {
        let progress = Progress {
            octets: equal.octets,
            octets_done: equal.octets,
            octets_total: Some(sizes.octets),
            segments_total: object.segments,
            ..Progress::default()
        };
        if watch(&progress) == Flow::Stop {
            break;
        }
        let index = equal.segments / entries;
        let listed = equal_segments(consumer, object, sizes, index, octets, read);
        equal = EqualPart { segments: listed, octets: sizes.before(listed) };
        if listed != (index + 1) * entries {
            break;
        }
    }
    equal
}

/// Returns the number after the last segment under manifest `index` that is equal, if all before it
/// are.
fn equal_segments(
    consumer: &Consumer,
    object: &Object,
    sizes: Sizes,
    index: u64,
    octets: u64,
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
) -> u64 {
    let mut next = index * object.manifest_entries;
    let Some((manifest, writer)) = listed(consumer, object, sizes, index) else { return next };
    let end = manifest.segments().end.min(sizes.segments);
    let mut buffer = Vec::new();
    while next < end {
        let run_end = end.min(next + RUN_SEGMENTS);
        let (from, to) = (sizes.before(next), sizes.before(run_end).min(octets));
        // At most a few segments.
        buffer.resize(to.saturating_sub(from) as usize, 0);
        if read(&mut buffer, from).is_err() {
            break;
        }
        let mut contents: Vec<&[u8]> = buffer.chunks(sizes.segment_octets as usize).collect();
        if buffer.is_empty() && sizes.octets == 0 {
            contents.push(&[]);
        }
        let before = next;
        for (_, digest) in writer.make(next, &contents) {
            // A segment that the file has in part has another digest.
            if manifest.digest(next) != Some(&digest) {
                return next;
            }
            next += 1;
        }
        if next != run_end || next == before {
            return next;
        }
    }
    next
}

/// Fetches manifest `index`, and returns it with a writer of the segments that it lists. Producers
/// give manifests and segments the same FreshnessPeriod; with another one no segment is equal.
fn listed(
    consumer: &Consumer,
    object: &Object,
    sizes: Sizes,
    index: u64,
) -> Option<(Manifest, SegmentWriter)> {
    let data = consumer.manifest(object, index).ok()?;
    let name = object.name.as_name();
    let manifest = Manifest::decode_of_at_most(object.manifest_entries, data.content(), name, index).ok()?;
    let freshness_ms = DataView::parse(data.octets()).ok()?.freshness_ms;
    let writer = SegmentWriter::new(name, Some(sizes.segments - 1), freshness_ms, manifest.hash());
    Some((manifest, writer))
}
