//! Many ranges of one object at once: those whose segments meet are one part, and parts are asked
//! for side by side, so that all of them take hardly longer than one.
//!
//! Holds no more than the octets that were wanted and the rest of their segments.

use std::collections::VecDeque;
use std::ops;

use namely_transport::object::Part;

use super::job::{Begun, Job};
use super::range::{Found, Range, RangePart};
use crate::error::{CallError, FetchError};

/// Parts of an object that one call asks for at once; further ones follow as these come.
pub const PARTS_AT_ONCE: usize = 256;

/// The octets of each range that was asked for, in that order.
pub type Ranges = Vec<Vec<u8>>;

/// What is fetched in one piece for some of the ranges.
struct Span {
    part: Part,
    skip: u64,
    /// The octets of the object that it holds.
    octets: ops::Range<u64>,
    /// Which ranges are in it.
    ranges: Vec<usize>,
}

/// The octets of each of `ranges` (from, and before which one it ends), shorter where the object
/// ends before.
pub(super) fn read(
    job: &mut Job<'_>,
    found: &Found,
    ranges: &[ops::Range<u64>],
) -> Result<Ranges, FetchError> {
    let mut read = vec![Vec::new(); ranges.len()];
    let mut waiting = spans(job, found, ranges)?;
    let mut begun: VecDeque<(Span, Option<Begun>)> = VecDeque::new();
    loop {
        while begun.len() < PARTS_AT_ONCE
            && let Some(span) = waiting.front()
        {
            let asked = match found.object.whole {
                Some(_) => None,
                None => match job.begin(&found.object, span.part) {
                    Ok(asked) => Some(asked),
                    // Its own are among those that fill the queue.
                    Err(FetchError::Call(CallError::QueueFull)) if !begun.is_empty() => break,
                    Err(error) => return Err(error),
                },
            };
            begun.extend(waiting.pop_front().map(|span| (span, asked)));
        }
        let Some((span, asked)) = begun.pop_front() else { return Ok(read) };
        let mut range = Range::new(span.skip, span.octets.end - span.octets.start);
        let done = match asked {
            Some(asked) => job.finish(asked, &mut range),
            None => job.transfer(&found.object, span.part, &mut range),
        };
        let content = range.content(done)?;
        for i in span.ranges {
            let place = |octet: u64| (octet.saturating_sub(span.octets.start) as usize).min(content.len());
            read[i].extend_from_slice(&content[place(ranges[i].start)..place(ranges[i].end)]);
        }
    }
}

/// What to fetch, in the object's order. Ranges whose segments meet are in one piece.
fn spans(job: &mut Job<'_>, found: &Found, ranges: &[ops::Range<u64>]) -> Result<VecDeque<Span>, FetchError> {
    let mut order: Vec<usize> = (0..ranges.len()).filter(|i| !ranges[*i].is_empty()).collect();
    order.sort_by_key(|i| ranges[*i].start);
    let mut spans: VecDeque<Span> = VecDeque::new();
    for i in order {
        let octets = ranges[i].clone();
        let RangePart { part, skip, .. } = found.place(job, octets.start, octets.end)?;
        match spans.back_mut() {
            Some(last) if part.first <= last.part.end => {
                last.part.end = last.part.end.max(part.end);
                last.octets.end = last.octets.end.max(octets.end);
                last.ranges.push(i);
            }
            _ => spans.push_back(Span { part, skip, octets, ranges: vec![i] }),
        }
    }
    Ok(spans)
}
