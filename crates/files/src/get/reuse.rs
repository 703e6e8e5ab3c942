//! Compares the beginning of a file with an object by the digests in the object's manifests. After
//! a change of the object most of an earlier version may be equal, as that of a log to which lines
//! were appended. No octet of the object itself is fetched.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use namely_security::{Verified, VerifiedManifest, manifest_name};
use namely_socket::{Consumer, FetchError, Flow, Sink};
use namely_transport::object::{Object, ObjectError, Part, Progress, SignatureMode};
use namely_transport::publish::{SegmentWriter, segment_count};
use namely_wire::{DataView, PACKET_OCTETS_MAX};

/// Segments that are read and hashed together.
const RUN_SEGMENTS: u64 = 16;

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
    fn of(object: &Object) -> Option<Self> {
        let metadata = object.metadata.as_ref()?;
        let octets = metadata.size_octets?;
        let segment_octets = metadata.segment_size_octets?;
        let fits = (1..=PACKET_OCTETS_MAX as u64).contains(&segment_octets);
        let segments = object.segments.filter(|segments| *segments == segment_count(octets, segment_octets));
        Some(Sizes { octets, segment_octets, segments: segments? }).filter(|_| fits)
    }

    /// Returns none, too, if no manifests list the segments.
    fn listed(object: &Object) -> Option<Self> {
        Sizes::of(object).filter(|_| object.signature_mode == SignatureMode::Manifests)
    }

    /// The number of octets before `segment`.
    fn before(&self, segment: u64) -> u64 {
        segment.saturating_mul(self.segment_octets).min(self.octets)
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
    let comparison = Comparison {
        object,
        sizes,
        segments,
        compared: &compared,
        read,
        differ: &mut differ,
        buffer: Vec::new(),
    };
    let ended = comparison.run(consumer, watch);
    // A segment that differs ends the comparison, too.
    let error = ended.err().filter(|error| !matches!(error, FetchError::Object(ObjectError::Sink(_))));
    EqualPart { segments: compared.get(), octets: sizes.before(compared.get()), error }
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

impl Comparison<'_> {
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
