//! Queues of pending events, in several structures with one interface: binary heap, 4-ary heap,
//! calendar queue, radix heap and timing wheel. All return events in the same order; they differ in
//! time and memory (`namely-experiments sim-queues` measures both).

mod calendar;
mod heaps;
mod radix;
mod wheel;

pub use calendar::CalendarQueue;
pub use heaps::{BinaryQueue, QuadHeap};
pub use radix::RadixHeap;
pub use wheel::TimingWheel;

/// The queue of the simulator.
pub type DefaultQueue = QuadHeap;

/// The order of events: by time and node, and at one node by the node that scheduled them and by
/// their number there. No part depends on events of other nodes at the same time. So the events of
/// a node have one order, whichever nodes are processed between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// Time.
    pub at_ns: u64,
    /// Node that the event happens at.
    pub node: u32,
    /// Node that scheduled the event.
    pub source: u32,
    /// Number of the event among those that the source has scheduled.
    pub number: u64,
}

/// A pending event: its key, and the slot of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Key; no two events have the same.
    pub key: EventKey,
    /// Slot.
    pub slot: u32,
}

/// A queue of events. The time of an entry must not be before that of the last entry that was
/// removed; other parts of its key may be.
pub trait EventQueue: Default + Send {
    /// Adds an entry.
    fn push(&mut self, entry: Entry);

    /// Removes and returns the first entry, if its time is before `end_ns`.
    fn pop_before(&mut self, end_ns: u64) -> Option<Entry>;

    /// Returns the time of the first entry.
    fn next_ns(&mut self) -> Option<u64>;

    /// Returns the number of entries.
    fn len(&self) -> usize;

    /// Returns true if there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the octets of memory that the queue uses.
    fn octets(&self) -> usize;
}

/// Returns the octets of a vector's memory.
fn octets_of(entries: &Vec<Entry>) -> usize {
    entries.capacity() * size_of::<Entry>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn entry(at_ns: u64, slot: u32) -> Entry {
        // Equal times are common, and keys at one time come in any order.
        let key = EventKey { at_ns, node: slot % 7, source: slot % 3, number: u64::from(slot) };
        Entry { key, slot }
    }

    /// The offset of an event as a simulation has them: immediate, on a link, a timer, far away.
    fn offset_ns(random: &mut Random) -> u64 {
        match random.below(8) {
            0 | 1 => 0,
            2 => random.below(100),
            3..=5 => 1_000_000 + random.below(50_000),
            6 => random.below(4_000_000_000),
            _ => random.below(1 << 50),
        }
    }

    /// Pushes and removes entries in turn. Returns the removed slots.
    fn order<Q: EventQueue>(seed: u64, pending: usize) -> Vec<u32> {
        let (mut queue, mut random) = (Q::default(), Random::new(seed));
        let (mut now_ns, mut slot, mut slots) = (0, 0, Vec::new());
        for _ in 0..4_000 {
            for _ in 0..=random.below(3) {
                if queue.len() < pending {
                    queue.push(entry(now_ns + offset_ns(&mut random), slot));
                    slot += 1;
                }
            }
            if random.below(5) == 0 {
                let next_ns = queue.next_ns();
                assert!(next_ns.is_none_or(|next_ns| next_ns >= now_ns));
            }
            // A window that may end before the next event.
            let end_ns = now_ns + offset_ns(&mut random) / 3;
            while let Some(Entry { key, slot }) = queue.pop_before(end_ns) {
                assert!((now_ns..end_ns).contains(&key.at_ns), "{key:?}");
                now_ns = key.at_ns;
                slots.push(slot);
                if random.below(2) == 0 {
                    break;
                }
            }
        }
        while let Some(Entry { slot, .. }) = queue.pop_before(u64::MAX) {
            slots.push(slot);
        }
        assert!(queue.is_empty() && queue.next_ns().is_none());
        assert_eq!(slots.len(), slot as usize);
        slots
    }

    #[test]
    fn all_event_queues_have_one_order() {
        for (seed, pending) in [(1, 3), (2, 100), (3, 10_000)] {
            let expected = order::<BinaryQueue>(seed, pending);
            assert_eq!(order::<QuadHeap>(seed, pending), expected);
            assert_eq!(order::<CalendarQueue>(seed, pending), expected);
            assert_eq!(order::<RadixHeap>(seed, pending), expected);
            assert_eq!(order::<TimingWheel>(seed, pending), expected);
        }
    }

    fn bounded<Q: EventQueue>() {
        let mut queue = Q::default();
        queue.push(entry(100, 1));
        assert_eq!(queue.pop_before(100), None, "the end is excluded");
        assert_eq!(queue.next_ns(), Some(100));
        // An earlier event after the look at a later one.
        queue.push(entry(50, 2));
        assert_eq!(queue.next_ns(), Some(50));
        assert_eq!(queue.pop_before(101).map(|entry| entry.slot), Some(2));
        assert_eq!(queue.pop_before(101).map(|entry| entry.slot), Some(1));
        assert!(queue.octets() > 0);
    }

    #[test]
    fn event_queues_stop_before_the_end() {
        bounded::<BinaryQueue>();
        bounded::<QuadHeap>();
        bounded::<CalendarQueue>();
        bounded::<RadixHeap>();
        bounded::<TimingWheel>();
    }
}
