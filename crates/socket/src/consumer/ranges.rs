//! Many ranges of one object at once: those whose segments meet are one part, and all parts are one
//! fetch, with one window and one detection of losses: what is lost of a short part is found by the
//! Data of others that overtake it. Its window follows marks and losses, and not delay.
//!
//! Holds no more than the octets that were wanted, and what a fetch holds out of order.

use std::ops;

use namely_transport::object::Part;

use super::job::{Content, ContentSink, Job, SET_ASIDE_OCTETS_MAX};
use super::range::{Found, RangePart};
use crate::error::FetchError;

/// Packets that a call begins by asking for at once, if it has so many parts; a fetch of one part
/// begins with ten.
pub const RANGES_WINDOW: usize = 256;

/// The octets of each range that was asked for, in that order.
pub type Ranges = Vec<Vec<u8>>;

/// The octets of each of `ranges` (from, and before which one it ends), shorter where the object
/// ends before.
pub(super) fn read(
    job: &mut Job<'_>,
    found: &Found,
    ranges: &[ops::Range<u64>],
) -> Result<Ranges, FetchError> {
    let mut spread = Spread::new(ranges);
    for i in spread.order.clone() {
        spread.add(found.place(job, ranges[i].start, ranges[i].end)?, ranges[i].start);
    }
    let parts: Vec<Part> = spread.parts.iter().map(|(part, _)| *part).collect();
    job.spread(parts.len().min(RANGES_WINDOW));
    job.transfer(&found.object, &parts, &mut spread)?;
    Ok(spread.read)
}

/// Takes the content of parts in, and gives each range what it has of it.
struct Spread<'a> {
    ranges: &'a [ops::Range<u64>],
    read: Ranges,
    /// The ranges that are not empty, by where they begin.
    order: Vec<usize>,
    /// How many of `order` end before what comes next.
    over: usize,
    /// What is fetched, in the object's order, and at which octet each part begins.
    parts: Vec<(Part, u64)>,
    /// Which of `parts` comes, what of it has come, and the octet that comes next.
    part: usize,
    segments: u64,
    position: u64,
}

impl<'a> Spread<'a> {
    fn new(ranges: &'a [ops::Range<u64>]) -> Self {
        let mut order: Vec<usize> = (0..ranges.len()).filter(|i| !ranges[*i].is_empty()).collect();
        order.sort_by_key(|i| ranges[*i].start);
        let set_aside = SET_ASIDE_OCTETS_MAX / ranges.len().max(1) as u64;
        let room = |range: &ops::Range<u64>| range.end.saturating_sub(range.start).min(set_aside) as usize;
        let read = ranges.iter().map(|range| Vec::with_capacity(room(range))).collect();
        Spread { ranges, read, order, over: 0, parts: Vec::new(), part: 0, segments: 0, position: 0 }
    }

    /// Adds the part that holds a range, which begins at octet `start`: none before those that were
    /// added already.
    fn add(&mut self, place: RangePart, start: u64) {
        let RangePart { part, skip, .. } = place;
        match self.parts.last_mut() {
            Some((last, _)) if part.first <= last.end => last.end = last.end.max(part.end),
            _ => self.parts.push((part, start - skip)),
        }
    }
}

impl ContentSink for Spread<'_> {
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
            let place = |octet: u64| (octet.clamp(from, to) - from) as usize;
            self.read[*i].extend_from_slice(&content[place(range.start)..place(range.end)]);
        }
        Ok(())
    }
}
