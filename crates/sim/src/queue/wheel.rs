//! A hierarchical timing wheel (Varghese and Lauck, 1987) with an exact order: the events of the
//! current tick are in a small heap.

use super::{Entry, EventQueue, QuadHeap, octets_of};

/// Binary logarithm of a tick in ns: 1,024 ns, the time of 128 octets at 1 Gbit/s.
const TICK_BITS: u32 = 10;

/// Binary logarithm of the slots of a level.
const SLOT_BITS: u32 = 8;

const SLOTS: usize = 1 << SLOT_BITS;

/// Levels, enough for all times.
const LEVELS: usize = (u64::BITS - TICK_BITS).div_ceil(SLOT_BITS) as usize;

/// A timing wheel. A slot of a level has the entries of as many ticks as the level below has in
/// all.
#[derive(Clone, Debug)]
pub struct TimingWheel {
    /// All entries in slots are later than this tick.
    tick: u64,
    /// Entries of this tick and of earlier ones.
    due: QuadHeap,
    levels: Vec<Level>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Level {
    slots: Vec<Vec<Entry>>,
    /// The slots that have entries.
    occupied: [u64; SLOTS / u64::BITS as usize],
}

impl Level {
    fn new() -> Self {
        Level { slots: vec![Vec::new(); SLOTS], occupied: [0; SLOTS / u64::BITS as usize] }
    }

    fn push(&mut self, slot: usize, entry: Entry) {
        self.slots[slot].push(entry);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Returns the first slot after `slot` that has entries.
    fn next_after(&self, slot: usize) -> Option<usize> {
        let from = slot + 1;
        (from / 64..self.occupied.len()).find_map(|word| {
            let earlier = if word == from / 64 { (1 << (from % 64)) - 1 } else { 0 };
            let later = self.occupied[word] & !earlier;
            (later != 0).then(|| word * 64 + later.trailing_zeros() as usize)
        })
    }
}

impl Default for TimingWheel {
    fn default() -> Self {
        TimingWheel {
            tick: 0,
            due: QuadHeap::default(),
            levels: (0..LEVELS).map(|_| Level::new()).collect(),
            len: 0,
        }
    }
}

impl TimingWheel {
    fn place(&mut self, entry: Entry) {
        let tick = entry.key.at_ns >> TICK_BITS;
        if tick <= self.tick {
            return self.due.push(entry);
        }
        // The highest digit in which the ticks differ.
        let level = (tick ^ self.tick).ilog2() / SLOT_BITS;
        let slot = tick >> (level * SLOT_BITS) & (SLOTS as u64 - 1);
        self.levels[level as usize].push(slot as usize, entry);
    }

    /// Moves on to the next slot with entries, and distributes them to lower levels. Returns false
    /// if no slot begins before `end_ns`.
    fn advance(&mut self, end_ns: u64) -> bool {
        for level in 0..LEVELS {
            let shift = level as u32 * SLOT_BITS;
            let digits = self.tick >> shift;
            let Some(slot) = self.levels[level].next_after(digits as usize & (SLOTS - 1)) else { continue };
            let tick = (digits >> SLOT_BITS << SLOT_BITS | slot as u64) << shift;
            if tick << TICK_BITS >= end_ns {
                return false;
            }
            self.tick = tick;
            let own = &mut self.levels[level];
            own.occupied[slot / 64] &= !(1 << (slot % 64));
            let mut entries = std::mem::take(&mut own.slots[slot]);
            entries.drain(..).for_each(|entry| self.place(entry));
            // The memory serves the slot again.
            self.levels[level].slots[slot] = entries;
            return true;
        }
        false
    }
}

impl EventQueue for TimingWheel {
    fn push(&mut self, entry: Entry) {
        self.len += 1;
        self.place(entry);
    }

    fn pop_before(&mut self, end_ns: u64) -> Option<Entry> {
        while self.due.is_empty() {
            if !self.advance(end_ns) {
                return None;
            }
        }
        let entry = self.due.pop_before(end_ns)?;
        self.len -= 1;
        Some(entry)
    }

    fn next_ns(&mut self) -> Option<u64> {
        while self.due.is_empty() {
            if !self.advance(u64::MAX) {
                return None;
            }
        }
        self.due.next_ns()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn octets(&self) -> usize {
        let entries = self.levels.iter().flat_map(|level| level.slots.iter().map(octets_of));
        self.due.octets() + entries.sum::<usize>() + LEVELS * SLOTS * size_of::<Vec<Entry>>()
    }
}
