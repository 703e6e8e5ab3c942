//! Read-ahead within an object: parts of log segments that are read whole and answer reads of the
//! following segments from memory.
//!
//! Segments of an object that arrive in sequence lie in sequence on the disk. The part that holds
//! segment 0 is therefore read whole, and so is each part after a part that is in memory or being
//! read. Only sealed log segments are read ahead, because their octets do not change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::buffer::Buffer;
use super::limits::BLOCK_OCTETS;
use super::place::RecordPosition;
use super::segment::Segment;

/// Octets of a part.
pub(crate) const PART_OCTETS: u64 = 128 << 10;

/// Parts of 128 KiB that are read ahead and in memory.
///
/// The parts take 8 MiB.
///
/// # Limit
/// The oldest part is evicted; while all are being read, the record is read alone.
/// - Tests: `read_ahead_parts_and_waiters_are_limited`
pub(crate) const PARTS_MAX: usize = 64;

/// Reads that wait for one part that is read ahead.
///
/// # Limit
/// The record of a further read is read alone.
/// - Tests: `read_ahead_parts_and_waiters_are_limited`
pub(crate) const WAITING_MAX: usize = 64;

/// Key of a part: the number of its log segment and its index there.
pub(crate) type PartKey = (u64, u64);

#[derive(Debug)]
enum Part<R> {
    Reading(Vec<R>),
    InMemory(Arc<Buffer>),
}

/// Parts that are in memory or being read.
#[derive(Debug)]
pub(crate) struct ReadAhead<R>(Mutex<State<R>>);

#[derive(Debug)]
struct State<R> {
    parts: BTreeMap<PartKey, Part<R>>,
    /// Parts in order of arrival; the oldest is evicted first.
    order: VecDeque<PartKey>,
}

/// The way in which a read is served.
#[derive(Debug)]
pub(crate) enum ReadPlan<R> {
    /// The record is in this part, which is in memory.
    InMemory(R, Arc<Buffer>),
    /// The read waits for a part that is being read.
    Pending,
    /// The read waits for this part, which the caller must read.
    Read(PartKey),
    /// The record is read alone.
    Single(R),
}

impl<R> ReadAhead<R> {
    pub(crate) fn new() -> Self {
        ReadAhead(Mutex::new(State { parts: BTreeMap::new(), order: VecDeque::new() }))
    }

    /// Decides how a read of `place` in log segment `number` is served. `segment` is the segment
    /// number within its object, if the name has one.
    pub(crate) fn ask(
        &self,
        number: u64,
        place: RecordPosition,
        segment: Option<u64>,
        reader: R,
    ) -> ReadPlan<R> {
        let part = place.offset() / PART_OCTETS;
        let Some(segment) = segment else { return ReadPlan::Single(reader) };
        // A record across two parts would need both of them.
        if (place.end() - 1) / PART_OCTETS != part {
            return ReadPlan::Single(reader);
        }
        let mut state = self.0.lock();
        match state.parts.get_mut(&(number, part)) {
            Some(Part::InMemory(buffer)) => return ReadPlan::InMemory(reader, buffer.clone()),
            Some(Part::Reading(waiting)) if waiting.len() < WAITING_MAX => {
                waiting.push(reader);
                return ReadPlan::Pending;
            }
            // The list of waiting reads is bounded. A read that finds it full is not refused, but
            // served alone.
            Some(Part::Reading(_)) => return ReadPlan::Single(reader),
            None => {}
        }
        // A read in the middle of an object may be the only one, unless the part before is in use,
        // too.
        let goes_on = part.checked_sub(1).is_some_and(|before| state.parts.contains_key(&(number, before)));
        if (segment > 0 && !goes_on) || !state.make_room() {
            return ReadPlan::Single(reader);
        }
        state.parts.insert((number, part), Part::Reading(vec![reader]));
        state.order.push_back((number, part));
        ReadPlan::Read((number, part))
    }

    /// Ends the read of a part, whether it succeeded or not. Returns the reads that waited for it.
    pub(crate) fn done(&self, key: PartKey, buffer: Option<&Arc<Buffer>>) -> Vec<R> {
        let mut state = self.0.lock();
        let waited = match buffer {
            Some(buffer) => state.parts.insert(key, Part::InMemory(buffer.clone())),
            None => {
                // Without an entry the next read tries the disk again.
                state.order.retain(|known| *known != key);
                state.parts.remove(&key)
            }
        };
        if let Some(Part::Reading(waiting)) = waited { waiting } else { Vec::new() }
    }
}

impl<R> State<R> {
    /// Makes room for one more part. Returns false if no part can be evicted because all are being
    /// read.
    fn make_room(&mut self) -> bool {
        if self.parts.len() < PARTS_MAX {
            return true;
        }
        let is_in_memory = |key: &PartKey| matches!(self.parts.get(key), Some(Part::InMemory(_)));
        // Reads wait for a part that is being read, so such a part is not evicted.
        let Some(at) = self.order.iter().position(is_in_memory) else { return false };
        self.order.remove(at).and_then(|key| self.parts.remove(&key)).is_some()
    }
}

/// Returns the start of a part in its log segment and its length in octets.
pub(crate) fn extent(segment: &Segment, (_, part): PartKey) -> (u64, usize) {
    let start = part * PART_OCTETS;
    let octets = PART_OCTETS.min(segment.end().saturating_sub(start));
    debug_assert!(octets.is_multiple_of(BLOCK_OCTETS));
    (start, octets as usize)
}

#[cfg(test)]
mod tests {
    use super::super::place::Expiry;
    use super::*;

    fn ask(ahead: &ReadAhead<u64>, part: u64, segment: u64) -> ReadPlan<u64> {
        let place = RecordPosition::new(1, part * PART_OCTETS + 4096, 4000, Expiry::new(0, 0));
        ahead.ask(7, place, Some(segment), segment)
    }

    #[test]
    fn read_ahead_starts_with_the_first_segment() {
        let ahead = ReadAhead::new();
        assert!(matches!(ask(&ahead, 5, 3), ReadPlan::Single(3)), "nobody asked for the beginning");
        assert!(matches!(ask(&ahead, 5, 0), ReadPlan::Read((7, 5))));
        assert!(matches!(ask(&ahead, 5, 3), ReadPlan::Pending));
        assert!(matches!(ask(&ahead, 6, 40), ReadPlan::Read((7, 6))));
        assert!(matches!(ask(&ahead, 9, 90), ReadPlan::Single(90)));
        let buffer = Arc::new(Buffer::new(4096));
        assert_eq!(ahead.done((7, 5), Some(&buffer)), [0, 3]);
        assert!(matches!(ask(&ahead, 5, 4), ReadPlan::InMemory(4, _)));
        // A part that could not be read is requested again.
        assert_eq!(ahead.done((7, 6), None), [40]);
        assert!(matches!(ask(&ahead, 6, 41), ReadPlan::Read((7, 6))));
        let unsegmented = ahead.ask(7, RecordPosition::new(1, 4096, 10, Expiry::new(0, 0)), None, 1);
        assert!(matches!(unsegmented, ReadPlan::Single(1)));
    }

    #[test]
    fn read_ahead_parts_and_waiters_are_limited() {
        let ahead = ReadAhead::new();
        for part in 0..PARTS_MAX as u64 {
            assert!(matches!(ask(&ahead, 2 * part, 0), ReadPlan::Read(_)));
        }
        assert!(matches!(ask(&ahead, 1001, 0), ReadPlan::Single(0)), "all are being read");
        ahead.done((7, 4), Some(&Arc::new(Buffer::new(4096))));
        assert!(matches!(ask(&ahead, 1001, 0), ReadPlan::Read(_)), "that one went");
        assert!(matches!(ask(&ahead, 4, 0), ReadPlan::Single(0)));
        for _ in 1..WAITING_MAX {
            assert!(matches!(ask(&ahead, 0, 1), ReadPlan::Pending));
        }
        assert!(matches!(ask(&ahead, 0, 1), ReadPlan::Single(1)));
        assert_eq!(ahead.done((7, 0), None).len(), WAITING_MAX);
    }
}
