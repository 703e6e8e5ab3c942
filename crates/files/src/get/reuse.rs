//! Compares the beginning of a file with an object by the digests in the object's manifests. After
//! a change of the object most of an earlier version may be equal, as that of a log to which lines
//! were appended. The octets that an earlier fetch has left may be damaged. No octet of the object
//! itself is fetched.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use namely_security::{ManifestHash, Verified, VerifiedManifest, manifest_name};
use namely_socket::{Consumer, FetchError, Flow, Sink};
use namely_transport::object::{Object, ObjectError, Part, Progress, SignatureMode};
use namely_transport::publish::{SegmentWriter, segment_count};
use namely_wire::{DataView, NameRef, PACKET_OCTETS_MAX};

/// Segments that are read and hashed together.
const RUN_SEGMENTS: u64 = 16;

/// Damaged ranges that are closer than this are fetched again as one, with the octets between them.
/// The size of the file thus bounds their number.
const JOINED_OCTETS: u64 = 1 << 20;

/// The equal beginning of a file and an object.
#[derive(Debug)]
pub(super) struct EqualPart {
    pub(super) segments: u64,
    pub(super) octets: u64,
    /// The reason for which the manifests of further segments are missing.
    pub(super) error: Option<FetchError>,
}

/// The sizes of an object whose segments have the same length, except for the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    octets: u64,
    segment_octets: u64,
    segments: u64,
}

impl Sizes {
    /// Returns none if the metadata lacks the sizes, or contradicts itself.
    pub(super) fn of(object: &Object) -> Option<Self> {
        let metadata = object.metadata.as_ref()?;
        let octets = metadata.size_octets?;
        let segment_octets = metadata.segment_size_octets?;
        let fits = (1..=PACKET_OCTETS_MAX as u64).contains(&segment_octets);
        let segments = object.segments.filter(|segments| *segments == segment_count(octets, segment_octets));
        Some(Sizes { octets, segment_octets, segments: segments? }).filter(|_| fits)
    }

    /// Returns none, too, if no manifests list the segments.
    pub(super) fn listed(object: &Object) -> Option<Self> {
        Sizes::of(object).filter(|_| object.signature_mode == SignatureMode::Manifests)
    }

    /// The number of octets before `segment`.
    pub(super) fn before(&self, segment: u64) -> u64 {
        segment.saturating_mul(self.segment_octets).min(self.octets)
    }

    /// The octets of `segment`.
    pub(super) fn octets_of(&self, segment: u64) -> Range<u64> {
        self.before(segment)..self.before(segment.saturating_add(1))
    }

    /// The segments that have octets of `range`.
    pub(super) fn segments_of(&self, range: &Range<u64>) -> Part {
        Part { first: range.start / self.segment_octets, end: range.end.div_ceil(self.segment_octets) }
    }

    /// Returns true if the first `segments` are in the object, and have this number of octets.
    pub(super) fn has(&self, segments: u64, octets: u64) -> bool {
        segments <= self.segments && self.before(segments) == octets
    }

    /// The number of whole segments in the first `octets`.
    fn whole_segments(&self, octets: u64) -> u64 {
        if octets >= self.octets { self.segments } else { octets / self.segment_octets }
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
    let Some(sizes) = Sizes::listed(object) else {
        return EqualPart { segments: 0, octets: 0, error: None };
    };
    let (compared, segments) = (Cell::new(0), sizes.whole_segments(octets));
    let mut differ = |_: u64| Flow::Stop;
    let comparison = Comparison::new(object, sizes, segments, &compared, read, &mut differ);
    let ended = comparison.run(consumer, watch);
    // A segment that differs ends the comparison, too.
    let error = ended.err().filter(|error| !matches!(error, FetchError::Object(ObjectError::Sink(_))));
    EqualPart { segments: compared.get(), octets: sizes.before(compared.get()), error }
}

/// Returns the ranges of a partial file that differ from those of `object`, among the octets of its
/// first `segments`. `read` fills a buffer with the file's octets from an offset on.
pub(super) fn damaged_part(
    consumer: &Consumer,
    object: &Object,
    sizes: Sizes,
    segments: u64,
    read: &mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<Vec<Range<u64>>, FetchError> {
    let (compared, mut damaged) = (Cell::new(0), Vec::new());
    let mut differ = |segment: u64| {
        join(&mut damaged, sizes.octets_of(segment));
        Flow::Continue
    };
    let comparison = Comparison::new(object, sizes, segments, &compared, read, &mut differ);
    comparison.run(consumer, watch)?;
    Ok(damaged)
}

/// Adds a damaged range, which follows the others.
fn join(damaged: &mut Vec<Range<u64>>, range: Range<u64>) {
    match damaged.last_mut() {
        _ if range.is_empty() => {}
        Some(last) if range.start.saturating_sub(last.end) < JOINED_OCTETS => last.end = range.end,
        _ => damaged.push(range),
    }
}

/// Returns true if the packet `data` of `segment` can be made again from its content. Otherwise the
/// manifests cannot show later that the content is undamaged.
pub(super) fn is_remade(object: NameRef<'_>, sizes: Sizes, segment: u64, data: &Verified<Vec<u8>>) -> bool {
    let (Ok(view), Some(last)) = (DataView::parse(data.octets()), sizes.segments.checked_sub(1)) else {
        return false;
    };
    let hashes = [ManifestHash::Sha256, ManifestHash::Blake3];
    let hash = hashes.into_iter().find(|hash| hash.signature_type() == view.signature_type);
    let Some(hash) = hash else { return false };
    let writer = SegmentWriter::new(object, Some(last), view.freshness_ms, hash);
    let (wire, range) = (view.wire, sizes.octets_of(segment));
    let content_octets = view.content.len();
    if content_octets as u64 != range.end - range.start
        || writer.octets(segment, content_octets) != wire.len()
    {
        return false;
    }
    let mut packet = vec![0; wire.len()];
    let gap = writer.lay_out(segment, content_octets, &mut packet);
    packet.get(..gap.content.start) == wire.get(..gap.content.start)
}

/// A comparison of the beginning of a file with the manifests of an object. It receives the
/// manifests in order.
struct Comparison<'a> {
    object: &'a Object,
    sizes: Sizes,
    /// The number of segments to compare.
    segments: u64,
    /// The number of segments that were compared.
    compared: &'a Cell<u64>,
    /// Fills a buffer with the file's octets from an offset on.
    read: &'a mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
    /// Receives the number of each segment that differs. It may end the comparison.
    differ: &'a mut dyn FnMut(u64) -> Flow,
    buffer: Vec<u8>,
}

impl<'a> Comparison<'a> {
    fn new(
        object: &'a Object,
        sizes: Sizes,
        segments: u64,
        compared: &'a Cell<u64>,
        read: &'a mut dyn FnMut(&mut [u8], u64) -> io::Result<()>,
        differ: &'a mut dyn FnMut(u64) -> Flow,
    ) -> Self {
        Comparison { object, sizes, segments, compared, read, differ, buffer: Vec::new() }
    }

    /// Fetches the manifests and compares the file with them.
    fn run(
        mut self,
        consumer: &Consumer,
        watch: &mut dyn FnMut(&Progress) -> Flow,
    ) -> Result<(), FetchError> {
        let needed = Part { first: 0, end: self.segments.div_ceil(self.object.manifest_entries) };
        if needed.end == 0 {
            return Ok(());
        }
        let manifests = manifests_of(self.object);
        let (sizes, compared, segments_total) = (self.sizes, self.compared, self.object.segments);
        let mut see = |_: &Progress| {
            let octets = sizes.before(compared.get());
            watch(&Progress {
                octets,
                octets_done: octets,
                octets_total: Some(sizes.octets),
                segments_total,
                ..Progress::default()
            })
        };
        consumer.fetch_into(&manifests, needed, &mut self, &mut see)?;
        // The producer may have fewer manifests than its metadata states.
        self.compare(None, self.segments).map_err(|error| ObjectError::Sink(error).into())
    }

    /// Compares the segments before `end`. `listed` lists them; without it they differ.
    fn compare(&mut self, listed: Option<&Listed>, end: u64) -> io::Result<()> {
        while self.compared.get() < end {
            let first = self.compared.get();
            let run = first..end.min(first.saturating_add(RUN_SEGMENTS));
            let digests = match listed {
                Some(listed) => self.digests(run.clone(), &listed.writer)?,
                None => Vec::new(),
            };
            let mut found = digests.iter();
            for segment in run {
                let expected = listed.and_then(|listed| listed.manifest.digest(segment));
                let is_equal = found.next().is_some_and(|digest| expected == Some(digest));
                if !is_equal && (self.differ)(segment) == Flow::Stop {
                    return Err(io::Error::other("a segment differs"));
                }
                self.compared.set(segment + 1);
            }
        }
        Ok(())
    }

    /// Returns the digests of the segments of the file; none if the file ends before.
    fn digests(&mut self, run: Range<u64>, writer: &SegmentWriter) -> io::Result<Vec<[u8; 32]>> {
        let (start, end) = (self.sizes.before(run.start), self.sizes.before(run.end));
        // At most a few segments.
        self.buffer.resize(end.saturating_sub(start) as usize, 0);
        match (self.read)(&mut self.buffer, start) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        let mut contents: Vec<&[u8]> = self.buffer.chunks(self.sizes.segment_octets as usize).collect();
        if contents.is_empty() {
            // An empty object has one empty segment.
            contents.push(&[]);
        }
        Ok(writer.make(run.start, &contents).into_iter().map(|(_, digest)| digest).collect())
    }
}

impl Sink for Comparison<'_> {
    fn write(&mut self, index: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        let listed = Listed::read(self.object, self.sizes, index, data);
        let end = index.saturating_add(1).saturating_mul(self.object.manifest_entries);
        self.compare(listed.as_ref(), end.min(self.segments))
    }
}

/// A manifest, and a writer of the segments that it lists.
struct Listed {
    manifest: VerifiedManifest,
    writer: SegmentWriter,
}

impl Listed {
    /// Reads manifest `index`. Producers give manifests and segments the same FreshnessPeriod; with
    /// another one no segment is equal.
    fn read(object: &Object, sizes: Sizes, index: u64, data: &Verified<Vec<u8>>) -> Option<Self> {
        let name = object.name.as_name();
        if data.name() != manifest_name(name, index).as_name() {
            return None;
        }
        let manifest = VerifiedManifest::open_of_at_most(object.manifest_entries, data).ok()?;
        let freshness_ms = DataView::parse(data.octets()).ok()?.freshness_ms;
        let writer = SegmentWriter::new(name, Some(sizes.segments - 1), freshness_ms, manifest.hash());
        Some(Listed { manifest, writer })
    }
}

/// The manifests of `object` as segments of an object. So several are requested at once.
fn manifests_of(object: &Object) -> Object {
    Object {
        name: manifest_name(object.name.as_name(), 0).as_name().without_last(1).to_name(),
        // The FinalBlockId of a manifest gives the number.
        segments: None,
        signature_mode: SignatureMode::Segments,
        manifest_entries: 1,
        metadata: None,
        as_of_ns: None,
        reason: object.reason.clone(),
        whole: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_may_be_shorter() {
        let sizes = Sizes { octets: 250, segment_octets: 100, segments: 3 };
        let ranges = [0, 1, 2, 3, u64::MAX].map(|segment| sizes.octets_of(segment));
        assert_eq!(ranges, [0..100, 100..200, 200..250, 250..250, 250..250]);
        let whole = [99, 100, 249, 250, 1000].map(|octets| sizes.whole_segments(octets));
        assert_eq!(whole, [0, 1, 2, 3, 3]);
        assert_eq!(sizes.segments_of(&(99..201)), Part { first: 0, end: 3 });
        assert_eq!(sizes.segments_of(&(100..200)), Part { first: 1, end: 2 });
        assert!(sizes.has(0, 0) && sizes.has(2, 200) && sizes.has(3, 250));
        assert!(!sizes.has(3, 300) && !sizes.has(4, 250) && !sizes.has(1, 200));
    }

    #[test]
    fn near_damaged_ranges_become_one() {
        let mut damaged = Vec::new();
        let far = 40 + JOINED_OCTETS;
        for range in
            [0..0, 10..20, 20..30, 35..40, far..far + 10, far + JOINED_OCTETS..far + JOINED_OCTETS + 1]
        {
            join(&mut damaged, range);
        }
        // A distance of `JOINED_OCTETS` separates ranges, and one octet less does not.
        assert_eq!(damaged, [10..40, far..far + JOINED_OCTETS + 1]);
    }
}
