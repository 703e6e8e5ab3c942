//! Maps octets of an object to the segments that contain them.

use std::sync::OnceLock;

use namely_transport::object::{Object, Part};
use namely_wire::PACKET_OCTETS_MAX;

use super::job::{Content, ContentSink, Job, SET_ASIDE_OCTETS_MAX};
use crate::error::{CallError, FetchError};

/// An object that was found, and its segmentation.
#[derive(Debug)]
pub(super) struct LocatedObject {
    pub(super) object: Object,
    /// The segmentation according to the first segment, if the metadata does not contain it.
    learned: OnceLock<Segmentation>,
}

/// The segmentation of an object.
#[derive(Clone, Copy, Debug)]
struct Segmentation {
    /// Octets of each segment except the last.
    segment_octets: u64,
    segments: Option<u64>,
}

/// The part of an object that contains the requested octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct RangePart {
    pub(super) part: Part,
    /// Octets of the part before the requested ones.
    pub(super) skip: u64,
    /// Octets of a segment, if it is known.
    pub(super) segment_octets: Option<u64>,
}

impl LocatedObject {
    pub(super) fn new(object: Object) -> Self {
        LocatedObject { object, learned: OnceLock::new() }
    }

    /// Returns the part that contains the octets from `from` to before `end` ([`u64::MAX`]: to the
    /// object's end). An object requested by its version has no metadata. If only a part of it is
    /// requested, the segmentation is taken from its first segment, which is fetched and verified
    /// for this purpose.
    pub(super) fn locate(&self, job: &mut Job<'_>, from: u64, end: u64) -> Result<RangePart, FetchError> {
        let described = self.object.metadata.as_ref().and_then(|metadata| metadata.segment_size_octets);
        let described = described.filter(|octets| *octets > 0);
        let all = from == 0 && end == u64::MAX;
        if self.object.whole.is_some() || (described.is_none() && all) {
            return Ok(RangePart { part: Part::from(0), skip: from, segment_octets: described });
        }
        let cut = match (described, self.learned.get()) {
            (Some(segment_octets), _) => Segmentation { segment_octets, segments: self.object.segments },
            (None, Some(cut)) => *cut,
            (None, None) => *self.learned.get_or_init({
                let cut = self.learn(job)?;
                move || cut
            }),
        };
        let octets = cut.segment_octets;
        // If the octets are past the end, the last segment is requested, because it marks the end.
        let first = (from / octets).min(cut.segments.unwrap_or(u64::MAX).saturating_sub(1));
        let part = Part { first, end: if end == u64::MAX { end } else { end.div_ceil(octets) } };
        let skip = from - first.saturating_mul(octets).min(from);
        Ok(RangePart { part, skip, segment_octets: Some(octets) })
    }

    fn learn(&self, job: &mut Job<'_>) -> Result<Segmentation, FetchError> {
        let mut first = Range::new(0, PACKET_OCTETS_MAX as u64 + 1);
        let done = job.transfer(&self.object, &[Part { first: 0, end: 1 }], &mut first);
        let octets = first.content(done)?.len() as u64;
        let segments = self.object.segments.or(job.segments());
        // If the object has a single segment, all octets are in that segment.
        let segment_octets = if segments == Some(1) || octets == 0 { u64::MAX } else { octets };
        Ok(Segmentation { segment_octets, segments })
    }
}

/// Collects a range of an object.
#[derive(Debug)]
pub(super) struct Range {
    content: Vec<u8>,
    skip: u64,
    left: u64,
}

impl Range {
    /// Collects `octets` octets after the first `skip`.
    pub(super) fn new(skip: u64, octets: u64) -> Self {
        let content = Vec::with_capacity(octets.min(SET_ASIDE_OCTETS_MAX) as usize);
        Range { content, skip, left: octets }
    }

    /// Returns the content after the transfer ended with `done`.
    pub(super) fn content(self, done: Result<(), FetchError>) -> Result<Vec<u8>, FetchError> {
        match done {
            Err(error) if self.left > 0 => Err(error),
            _ => Ok(self.content),
        }
    }
}

impl ContentSink for Range {
    /// Ends the transfer once the range is complete.
    fn write(&mut self, mut content: Content) -> Result<(), FetchError> {
        content.pass_by(&mut self.skip);
        let content = content.as_ref();
        let content = &content[..content.len().min(usize::try_from(self.left).unwrap_or(usize::MAX))];
        self.content.extend_from_slice(content);
        self.left -= content.len() as u64;
        if self.left == 0 { Err(CallError::Closed.into()) } else { Ok(()) }
    }
}
