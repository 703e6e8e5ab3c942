//! Many ranges of one object at once. Ranges with adjoining segments form one part. All parts are
//! one fetch, with one window and one loss detection, so that a loss in a short part is detected by
//! later Data of other parts. The congestion window follows congestion marks and losses, not delay.
//!
//! Memory is used only for the requested octets, and for the segments that a fetch holds out of
//! order.

use std::ops;

use namely_transport::object::Part;

use super::job::{Content, ContentSink, Job, SET_ASIDE_OCTETS_MAX};
use super::range::{LocatedObject, RangePart};
use crate::error::FetchError;

/// Packets that one `read_ranges` requests at its start.
///
/// A fetch of one part begins with ten packets.
///
/// # Limit
/// Further packets are requested as congestion control allows.
/// - Value: one for each part, 256 at most
/// - Tests: `overlapping_ranges_are_requested_once`
pub const RANGES_WINDOW: usize = 256;

/// The octets of each requested range, in the order of the request.
pub type Ranges = Vec<Vec<u8>>;

/// Reads the octets of each of `ranges`. A range is shorter if the object ends before it.
pub(super) fn read(
    job: &mut Job<'_>,
    found: &LocatedObject,
    ranges: &[ops::Range<u64>],
) -> Result<Ranges, FetchError> {
    let mut spread = RangeDistributor::new(ranges);
    for i in spread.order.clone() {
        spread.add(found.locate(job, ranges[i].start, ranges[i].end)?, ranges[i].start);
    }
    let parts: Vec<Part> = spread.parts.iter().map(|(part, _)| *part).collect();
    job.spread(parts.len().min(RANGES_WINDOW));
    job.transfer(&found.object, &parts, &mut spread)?;
    Ok(spread.read)
}

/// Distributes the content of parts over the ranges.
struct RangeDistributor<'a> {
    ranges: &'a [ops::Range<u64>],
    read: Ranges,
    /// The ranges that are not empty, sorted by their start.
    order: Vec<usize>,
    /// Number of ranges in `order` that end before the next octet.
    over: usize,
    /// The fetched parts in the object's order, and the octet at which each part begins.
    parts: Vec<(Part, u64)>,
    /// The index in `parts` of the current part, its number of received segments, and the next
    /// octet.
    part: usize,
    segments: u64,
    position: u64,
}

impl<'a> RangeDistributor<'a> {
    fn new(ranges: &'a [ops::Range<u64>]) -> Self {
        let mut order: Vec<usize> = (0..ranges.len()).filter(|i| !ranges[*i].is_empty()).collect();
        order.sort_by_key(|i| ranges[*i].start);
        let set_aside = SET_ASIDE_OCTETS_MAX / ranges.len().max(1) as u64;
        let room = |range: &ops::Range<u64>| range.end.saturating_sub(range.start).min(set_aside) as usize;
        let read = ranges.iter().map(|range| Vec::with_capacity(room(range))).collect();
        RangeDistributor {
            ranges,
            read,
            order,
            over: 0,
            parts: Vec::new(),
            part: 0,
            segments: 0,
            position: 0,
        }
    }

    /// Adds the part that contains a range, which begins at octet `start`. Parts must be added in
    /// ascending order.
    fn add(&mut self, located: RangePart, start: u64) {
        let RangePart { part, skip, .. } = located;
        match self.parts.last_mut() {
            Some((last, _)) if part.first <= last.end => last.end = last.end.max(part.end),
            _ => self.parts.push((part, start - skip)),
        }
    }
}

impl ContentSink for RangeDistributor<'_> {
    fn write(&mut self, content: Content) -> Result<(), FetchError> {
        let content = content.as_ref();
        while let Some((part, _)) = self.parts.get(self.part)
            && self.segments >= part.end - part.first
        {
            self.part += 1;
            self.segments = 0;
        }
        if self.segments == 0
            && let Some((_, octet)) = self.parts.get(self.part)
        {
            self.position = *octet;
        }
        let (from, to) = (self.position, self.position.saturating_add(content.len() as u64));
        self.segments += 1;
        self.position = to;
        while self.order.get(self.over).is_some_and(|i| self.ranges[*i].end <= from) {
            self.over += 1;
        }
        for i in &self.order[self.over..] {
            let range = &self.ranges[*i];
            if range.start >= to {
                break;
            }
            let offset = |octet: u64| (octet.clamp(from, to) - from) as usize;
            self.read[*i].extend_from_slice(&content[offset(range.start)..offset(range.end)]);
        }
        Ok(())
    }
}
