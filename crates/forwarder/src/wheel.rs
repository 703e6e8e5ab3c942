//! A timer wheel for the deadlines of table entries. The cost of setting, moving and removing a
//! deadline does not depend on the number of entries. A removed entry leaves nothing behind.
//!
//! The wheel has two levels of 4096 slots. A slot of the first level spans one tick (2^20 ns, about
//! a millisecond), and a slot of the second level 4096 ticks. A deadline fires at the first tick
//! that is not before it, so it is at most one tick late and never early.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::error::ConfigError;
use crate::pool::boxed;
use crate::slab::{Id, NONE};

/// Nanoseconds of a tick, as a power of two.
pub(crate) const TICK_SHIFT: u32 = 20;

const LEVEL_SHIFT: u32 = 12;
const SLOTS: usize = 1 << LEVEL_SHIFT;
const SLOT_MASK: u64 = SLOTS as u64 - 1;

/// Maximum number of deadlines of a second-level slot that one call moves to the first level. After
/// a flood, one slot may contain all deadlines.
const SPREAD_PER_CALL_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Timer {
    prev: Id,
    next: Id,
    /// The tick, and in the lowest bits the index in `heads` plus 1; 0 when no deadline is set.
    tick_and_slot: u64,
}

/// Bits of [`Timer::tick_and_slot`] for the index. A tick fits into the other bits, because 64-bit
/// nanoseconds have 44-bit ticks.
const SLOT_BITS: u32 = LEVEL_SHIFT + 2;

impl Timer {
    fn new(next: Id, tick: u64, slot: usize) -> Self {
        Timer { prev: NONE, next, tick_and_slot: tick << SLOT_BITS | (slot as u64 + 1) }
    }

    fn is_set(&self) -> bool {
        self.tick_and_slot != 0
    }

    fn tick(&self) -> u64 {
        self.tick_and_slot >> SLOT_BITS
    }

    fn slot(&self) -> usize {
        (self.tick_and_slot & ((1 << SLOT_BITS) - 1)) as usize - 1
    }
}

/// Memory of one timer.
pub(crate) const TIMER_OCTETS: usize = size_of::<Timer>();

const UNSET: Timer = Timer { prev: NONE, next: NONE, tick_and_slot: 0 };

/// Deadlines by entry id.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    timers: Vec<Timer>,
    heads: Vec<Id>,
    /// One for each level; on the heap, because they are larger than the other fields.
    occupied: Box<[Bitmap]>,
    /// All ticks up to this one were handled, except for deadlines that must still be moved to the
    /// first level.
    current: u64,
    len: usize,
}

impl Wheel {
    #[cfg(test)]
    fn new() -> Self {
        Wheel::with_room(0).unwrap()
    }

    /// Returns a wheel without memory. No deadline may be set in it.
    pub(crate) fn none() -> Self {
        Wheel { timers: Vec::new(), heads: Vec::new(), occupied: Box::default(), current: 0, len: 0 }
    }

    /// Creates a wheel that allocates nothing more for ids up to `ids`.
    pub(crate) fn with_room(ids: usize) -> Result<Self, ConfigError> {
        let mut wheel = Wheel::none();
        // Ids count from 1.
        wheel.timers.try_reserve_exact(ids + 1).map_err(|_| ConfigError::OutOfMemory)?;
        wheel.heads.try_reserve_exact(2 * SLOTS).map_err(|_| ConfigError::OutOfMemory)?;
        wheel.heads.resize(2 * SLOTS, NONE);
        wheel.occupied = boxed(2, Bitmap::default)?;
        Ok(wheel)
    }

    /// Reserves memory, so that nothing is allocated for ids up to `id`.
    pub(crate) fn make_room(&mut self, id: Id) -> Result<(), ConfigError> {
        let more = (id as usize + 1).saturating_sub(self.timers.len());
        self.timers.try_reserve(more).map_err(|_| ConfigError::OutOfMemory)
    }

    /// Sets the deadline of `id`, or moves it; returns the tick at which it fires.
    pub(crate) fn set(&mut self, id: Id, deadline_ns: u64, now_ns: u64) -> u64 {
        self.remove(id);
        if self.len == 0 {
            // No deadline is set, so the wheel skips the time during which it was empty.
            self.current = self.current.max(now_ns >> TICK_SHIFT);
        }
        // The deadline fires at the next tick at the earliest, because the slot of the current one
        // was already handled.
        let tick = deadline_ns.div_ceil(1 << TICK_SHIFT).max((now_ns >> TICK_SHIFT).max(self.current) + 1);
        self.len += 1;
        self.link(id, tick);
        tick
    }

    pub(crate) fn remove(&mut self, id: Id) {
        let Some(timer) = self.timers.get(id as usize).copied().filter(Timer::is_set) else { return };
        self.len -= 1;
        let slot = timer.slot();
        match self.timers.get_mut(timer.prev as usize).filter(|_| timer.prev != NONE) {
            Some(before) => before.next = timer.next,
            None => self.heads[slot] = timer.next,
        }
        if timer.next != NONE {
            self.timers[timer.next as usize].prev = timer.prev;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / SLOTS].clear(slot % SLOTS);
        }
        self.timers[id as usize] = UNSET;
    }

    /// Removes and returns one entry whose deadline has passed. Returns `None` if there is no such
    /// entry, or if one call cannot move all second-level deadlines. In the latter case
    /// [`Wheel::next_deadline_ns`] is in the past.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Id> {
        let target = now_ns >> TICK_SHIFT;
        let mut spread = 0;
        loop {
            while let Some(id) = self.unspread() {
                if spread == SPREAD_PER_CALL_MAX {
                    return None;
                }
                spread += 1;
                let tick = self.timers[id as usize].tick();
                self.remove(id);
                self.len += 1;
                self.link(id, tick);
            }
            let id = self.heads[(self.current & SLOT_MASK) as usize];
            if id != NONE {
                self.remove(id);
                return Some(id);
            }
            match self.next_tick().filter(|tick| *tick <= target) {
                Some(tick) => self.current = tick,
                None => {
                    self.current = self.current.max(target);
                    return None;
                }
            }
        }
    }

    /// Returns the time at which [`Wheel::pop_due`] should be called next. It is not later than the
    /// time at which the first deadline fires.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        if self.unspread().is_some() || self.heads[(self.current & SLOT_MASK) as usize] != NONE {
            return Some(self.current << TICK_SHIFT);
        }
        self.next_tick().map(|tick| tick << TICK_SHIFT)
    }

    /// The next tick at which a first-level slot fires or a second-level slot is moved to the first
    /// level.
    fn next_tick(&self) -> Option<u64> {
        let near = self.occupied[0].distance((self.current & SLOT_MASK) as usize).map(|d| self.current + d);
        let upper = self.current >> LEVEL_SHIFT;
        let far = self.occupied[1].distance((upper & SLOT_MASK) as usize).map(|d| (upper + d) << LEVEL_SHIFT);
        match (near, far) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    /// Returns a second-level deadline that must be moved to the first level. While there is one,
    /// the wheel stays at the tick of its slot.
    fn unspread(&self) -> Option<Id> {
        let slot = SLOTS + ((self.current >> LEVEL_SHIFT) & SLOT_MASK) as usize;
        self.heads.get(slot).copied().filter(|id| *id != NONE)
    }

    fn link(&mut self, id: Id, tick: u64) {
        let slot = self.slot(tick);
        let index = id as usize;
        if index >= self.timers.len() {
            // This allocates nothing: `with_room` or `make_room` has reserved the capacity.
            self.timers.resize(index + 1, UNSET);
        }
        let next = core::mem::replace(&mut self.heads[slot], id);
        if next != NONE {
            self.timers[next as usize].prev = id;
        }
        self.timers[index] = Timer::new(next, tick, slot);
        self.occupied[slot / SLOTS].set(slot % SLOTS);
    }

    fn slot(&self, tick: u64) -> usize {
        // The subtraction does not underflow, because a deadline is linked before its tick is
        // handled.
        if tick - self.current < SLOTS as u64 {
            return (tick & SLOT_MASK) as usize;
        }
        // A deadline beyond the second level is stored in the last slot of that level, and moved
        // again later.
        let upper = (tick >> LEVEL_SHIFT).min((self.current >> LEVEL_SHIFT) + SLOT_MASK);
        SLOTS + (upper & SLOT_MASK) as usize
    }
}

/// A bitmap of 4096 slots. A summary of its words limits a search to few words.
#[derive(Clone, Debug)]
struct Bitmap {
    words: [u64; SLOTS / 64],
    summary: u64,
}

impl Default for Bitmap {
    fn default() -> Self {
        Bitmap { words: [0; SLOTS / 64], summary: 0 }
    }
}

impl Bitmap {
    fn set(&mut self, slot: usize) {
        self.words[slot / 64] |= 1 << (slot % 64);
        self.summary |= 1 << (slot / 64);
    }

    fn clear(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
        if self.words[slot / 64] == 0 {
            self.summary &= !(1 << (slot / 64));
        }
    }

    /// The distance from `from` to the next occupied slot, cyclically; `from` itself does not
    /// count.
    fn distance(&self, from: usize) -> Option<u64> {
        let next = self.first_at_or_after(from + 1).map(|slot| slot - from);
        next.or_else(|| self.first_at_or_after(0).filter(|p| *p < from).map(|slot| slot + SLOTS - from))
            .map(|distance| distance as u64)
    }

    fn first_at_or_after(&self, slot: usize) -> Option<usize> {
        let word = slot / 64;
        if word >= self.words.len() {
            return None;
        }
        let here = self.words[word] & (u64::MAX << (slot % 64));
        if here != 0 {
            return Some(word * 64 + here.trailing_zeros() as usize);
        }
        // After the last word the shift would be by 64, which `checked_shl` refuses.
        let later = self.summary & u64::MAX.checked_shl(word as u32 + 1).unwrap_or(0);
        if later == 0 {
            return None;
        }
        let word = later.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const TICK_NS: u64 = 1 << TICK_SHIFT;

    fn fired_at(deadline_ns: u64) -> u64 {
        deadline_ns.div_ceil(TICK_NS) * TICK_NS
    }

    #[test]
    fn a_deadline_fires_within_one_tick() {
        for deadline_ns in [1, TICK_NS, TICK_NS + 1, 4_000_000_000, 3_600_000_000_000, 90_000_000_000_000] {
            let mut wheel = Wheel::new();
            wheel.set(1, deadline_ns, 0);
            let mut now_ns = 0;
            loop {
                let next_ns = wheel.next_deadline_ns().unwrap();
                assert!(next_ns > now_ns);
                assert_eq!(wheel.pop_due(next_ns - 1), None);
                now_ns = next_ns;
                if wheel.pop_due(now_ns) == Some(1) {
                    break;
                }
            }
            assert_eq!(now_ns, fired_at(deadline_ns));
            assert_eq!(wheel.next_deadline_ns(), None);
        }
    }

    #[test]
    fn a_crowded_place_fires_over_several_calls() {
        let mut wheel = Wheel::new();
        let deadline_ns = |id: Id| 60_000_000_000 + u64::from(id % 50) * TICK_NS;
        (1..=1000).for_each(|id| {
            wheel.set(id, deadline_ns(id), 0);
        });
        let (mut now_ns, mut fired, mut calls_behind) = (0, 0, 0);
        while let Some(next_ns) = wheel.next_deadline_ns() {
            now_ns = next_ns.max(now_ns);
            match wheel.pop_due(now_ns) {
                Some(id) => {
                    assert_eq!(now_ns, fired_at(deadline_ns(id)));
                    fired += 1;
                }
                None => calls_behind += usize::from(wheel.next_deadline_ns() == Some(now_ns)),
            }
        }
        assert_eq!((fired, calls_behind), (1000, 1000 / SPREAD_PER_CALL_MAX));
    }

    #[test]
    fn an_idle_wheel_skips_the_time_slept() {
        let mut wheel = Wheel::new();
        let now_ns = 1 << 60;
        wheel.set(7, now_ns + 4_000_000_000, now_ns);
        assert_eq!(wheel.next_deadline_ns(), Some(fired_at(now_ns + 4_000_000_000)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, u64),
        Remove(u32),
        Advance(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let delta = prop_oneof![0..50 * TICK_NS, 0..5000 * TICK_NS, 0..30_000_000 * TICK_NS];
        prop_oneof![
            4 => (1u32..40, delta.clone()).prop_map(|(id, d)| Step::Set(id, d)),
            1 => (1u32..40).prop_map(Step::Remove),
            2 => delta.prop_map(Step::Advance),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn the_wheel_fires_like_a_sorted_list(steps in proptest::collection::vec(step(), 1..120)) {
            let mut wheel = Wheel::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now_ns = 0u64;
            for step in steps {
                match step {
                    Step::Set(id, delta) => {
                        wheel.set(id, now_ns + delta, now_ns);
                        let tick = (now_ns + delta).div_ceil(TICK_NS).max((now_ns >> TICK_SHIFT) + 1);
                        model.insert(id, tick * TICK_NS);
                    }
                    Step::Remove(id) => {
                        wheel.remove(id);
                        model.remove(&id);
                    }
                    Step::Advance(delta) => {
                        now_ns += delta;
                        let mut fired = Vec::new();
                        while let Some(id) = wheel.pop_due(now_ns) {
                            fired.push(id);
                        }
                        fired.sort_unstable();
                        let due: Vec<u32> =
                            model.iter().filter(|(_, at)| **at <= now_ns).map(|(id, _)| *id).collect();
                        prop_assert_eq!(&fired, &due);
                        due.iter().for_each(|id| {
                            model.remove(id);
                        });
                    }
                }
                let first = model.values().min().copied();
                prop_assert_eq!(wheel.next_deadline_ns().is_some(), first.is_some());
                if let (Some(next_ns), Some(first)) = (wheel.next_deadline_ns(), first) {
                    prop_assert!(next_ns <= first);
                    prop_assert!(next_ns > now_ns);
                }
            }
        }
    }
}
