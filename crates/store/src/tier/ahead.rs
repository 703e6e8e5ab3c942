//! What follows the first segment of an object: parts of log segments that are read whole, and
//! answer those who come for the next segments from memory.
//!
//! Segments of an object that came in a row lie in a row. So the part in which segment 0 lies is
//! read whole, and each part behind one that was. Only of log segments that are sealed: nothing in
//! them changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::buffer::Buffer;
use super::limits::BLOCK_OCTETS;
use super::place::Place;
use super::segment::Segment;

/// Octets of a part.
pub(crate) const PART_OCTETS: u64 = 128 << 10;

/// Maximum number of parts in memory: 8 MiB.
pub(crate) const PARTS_MAX: usize = 64;

/// Maximum number of reads that wait for one part.
pub(crate) const WAITING_MAX: usize = 64;

/// A part, by its log segment's number and its own in there.
pub(crate) type PartKey = (u64, u64);

#[derive(Debug)]
enum Part<R> {
    Reading(Vec<R>),
    There(Arc<Buffer>),
}

/// Parts that are there or being read.
#[derive(Debug)]
pub(crate) struct Ahead<R>(Mutex<State<R>>);

#[derive(Debug)]
struct State<R> {
    parts: BTreeMap<PartKey, Part<R>>,
    /// The part that came first goes first.
    order: VecDeque<PartKey>,
}

/// What becomes of a read.
#[derive(Debug)]
pub(crate) enum Way<R> {
    /// It is in this part, which is in memory.
    There(R, Arc<Buffer>),
    /// It waits for a part that is being read.
    Waits,
    /// It waits for this part, which is to be read.
    Read(PartKey),
    /// It is read alone.
    Alone(R),
}

impl<R> Ahead<R> {
    pub(crate) fn new() -> Self {
        Ahead(Mutex::new(State { parts: BTreeMap::new(), order: VecDeque::new() }))
    }

    /// The way of a read of `place` in log segment `number`; `segment`: of its object, if it has
    /// such.
    pub(crate) fn ask(&self, (number, place): (u64, Place), segment: Option<u64>, reader: R) -> Way<R> {
        let part = place.offset() / PART_OCTETS;
        let Some(segment) = segment else { return Way::Alone(reader) };
        if (place.end() - 1) / PART_OCTETS != part {
            return Way::Alone(reader);
        }
        let mut state = self.0.lock();
        match state.parts.get_mut(&(number, part)) {
            Some(Part::There(buffer)) => return Way::There(reader, buffer.clone()),
            Some(Part::Reading(waiting)) if waiting.len() < WAITING_MAX => {
                waiting.push(reader);
                return Way::Waits;
            }
            Some(Part::Reading(_)) => return Way::Alone(reader),
            None => {}
        }
        let goes_on = part.checked_sub(1).is_some_and(|before| state.parts.contains_key(&(number, before)));
        if (segment > 0 && !goes_on) || !state.make_room() {
            return Way::Alone(reader);
        }
        state.parts.insert((number, part), Part::Reading(vec![reader]));
        state.order.push_back((number, part));
        Way::Read((number, part))
    }

    /// A part was read, or could not be: who waited for it.
    pub(crate) fn done(&self, key: PartKey, buffer: Option<&Arc<Buffer>>) -> Vec<R> {
        let mut state = self.0.lock();
        let waited = match buffer {
            Some(buffer) => state.parts.insert(key, Part::There(buffer.clone())),
            None => {
                state.order.retain(|known| *known != key);
                state.parts.remove(&key)
            }
        };
        if let Some(Part::Reading(waiting)) = waited { waiting } else { Vec::new() }
    }
}

impl<R> State<R> {
    /// Makes room for one more part, if one that is there can go.
    fn make_room(&mut self) -> bool {
        if self.parts.len() < PARTS_MAX {
            return true;
        }
        let is_there = |key: &PartKey| matches!(self.parts.get(key), Some(Part::There(_)));
        let Some(at) = self.order.iter().position(is_there) else { return false };
        self.order.remove(at).and_then(|key| self.parts.remove(&key)).is_some()
    }
}

/// Where a part begins in its log segment, and its octets.
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

    fn ask(ahead: &Ahead<u64>, part: u64, segment: u64) -> Way<u64> {
        let place = Place::new(1, part * PART_OCTETS + 4096, 4000, Expiry::new(0, 0));
        ahead.ask((7, place), Some(segment), segment)
    }

    #[test]
    fn the_part_of_a_first_segment_is_read_and_those_behind_it() {
        let ahead = Ahead::new();
        assert!(matches!(ask(&ahead, 5, 3), Way::Alone(3)), "nobody asked for the beginning");
        assert!(matches!(ask(&ahead, 5, 0), Way::Read((7, 5))));
        assert!(matches!(ask(&ahead, 5, 3), Way::Waits));
        assert!(matches!(ask(&ahead, 6, 40), Way::Read((7, 6))));
        assert!(matches!(ask(&ahead, 9, 90), Way::Alone(90)));
        let buffer = Arc::new(Buffer::new(4096));
        assert_eq!(ahead.done((7, 5), Some(&buffer)), [0, 3]);
        assert!(matches!(ask(&ahead, 5, 4), Way::There(4, _)));
        // What could not be read is asked for again.
        assert_eq!(ahead.done((7, 6), None), [40]);
        assert!(matches!(ask(&ahead, 6, 41), Way::Read((7, 6))));
        let unsegmented = ahead.ask((7, Place::new(1, 4096, 10, Expiry::new(0, 0))), None, 1);
        assert!(matches!(unsegmented, Way::Alone(1)));
    }

    #[test]
    fn so_many_parts_are_in_memory_and_so_many_reads_wait_for_one() {
        let ahead = Ahead::new();
        for part in 0..PARTS_MAX as u64 {
            assert!(matches!(ask(&ahead, 2 * part, 0), Way::Read(_)));
        }
        assert!(matches!(ask(&ahead, 1001, 0), Way::Alone(0)), "all are being read");
        ahead.done((7, 4), Some(&Arc::new(Buffer::new(4096))));
        assert!(matches!(ask(&ahead, 1001, 0), Way::Read(_)), "that one went");
        assert!(matches!(ask(&ahead, 4, 0), Way::Alone(0)));
        for _ in 1..WAITING_MAX {
            assert!(matches!(ask(&ahead, 0, 1), Way::Waits));
        }
        assert!(matches!(ask(&ahead, 0, 1), Way::Alone(1)));
        assert_eq!(ahead.done((7, 0), None).len(), WAITING_MAX);
    }
}
