//! A timer wheel for the deadlines of table entries. The cost of setting, moving and removing a
//! deadline does not depend on the number of entries. A removed entry leaves nothing behind.
//!
//! The wheel has three levels of 256 slots. A slot of the first level spans one tick (2^20 ns,
//! about a millisecond), and a slot of each further level spans all slots of the level before. A
//! deadline fires at the first tick that is not before it, so it is at most one tick late and never
//! early.
//!
//! A wheel that never had a deadline takes no memory. The slots take 3 KiB, and timers are
//! allocated in pages of 4 KiB: [`Wheel::make_room`] clears no more than both.

use alloc::vec::Vec;

use crate::ordered::{NoMemory, Pieces};
use crate::slab::{Id, NONE};

/// Nanoseconds of a tick, as a power of two.
pub(crate) const TICK_SHIFT: u32 = 20;

const LEVELS: usize = 3;
const LEVEL_SHIFT: u32 = 8;
const SLOTS: usize = 1 << LEVEL_SHIFT;
const SLOT_MASK: u64 = SLOTS as u64 - 1;

/// Maximum number of deadlines that one call moves to a lower level. After a flood, one slot may
/// contain all deadlines.
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

const _: () = assert!(LEVELS * SLOTS < 1 << SLOT_BITS && SLOT_BITS + 44 <= u64::BITS);

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

/// Timers of a page.
pub(crate) const TIMERS_PER_PAGE: usize = Pieces::<Timer>::PER_PIECE;

const UNSET: Timer = Timer { prev: NONE, next: NONE, tick_and_slot: 0 };

/// Deadlines by entry id.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// The timer of an id, which counts from 1, is at the index before it.
    timers: Pieces<Timer>,
    /// The first deadline of each slot, level by level. Empty until there is room for a deadline.
    heads: Vec<Id>,
    occupied: [Bitmap; LEVELS],
    /// All ticks up to this one were handled, except for deadlines that must still be moved to a
    /// lower level.
    current: u64,
    len: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Wheel::new()
    }
}

impl Wheel {
    /// A wheel without memory. Before a deadline is set, [`Wheel::make_room`] allocates it.
    pub(crate) fn new() -> Self {
        let occupied = [Bitmap::default(); LEVELS];
        Wheel { timers: Pieces::new(), heads: Vec::new(), occupied, current: 0, len: 0 }
    }

    /// Allocates the memory for deadlines of ids up to `id`, so that setting them cannot fail.
    pub(crate) fn make_room(&mut self, id: Id) -> Result<(), NoMemory> {
        if self.heads.is_empty() {
            self.heads.try_reserve_exact(LEVELS * SLOTS).map_err(|_| NoMemory)?;
            self.heads.resize(LEVELS * SLOTS, NONE);
        }
        self.timers.fill(id as usize, UNSET)
    }

    /// Sets the deadline of `id`, or moves it; returns the tick at which it fires. There is room
    /// for the id.
    pub(crate) fn set(&mut self, id: Id, deadline_ns: u64, now_ns: u64) -> u64 {
        self.remove(id);
        if self.len == 0 {
            // No deadline is set, so the wheel skips the time during which it was empty.
            self.current = self.current.max(now_ns >> TICK_SHIFT);
        }
        // The deadline fires at the next tick at the earliest, because the slot of the current one
        // was already handled.
        let tick = deadline_ns.div_ceil(1 << TICK_SHIFT).max((now_ns >> TICK_SHIFT).max(self.current) + 1);
        self.link(id, tick);
        tick
    }

    pub(crate) fn remove(&mut self, id: Id) {
        let Some(timer) = self.timer(id).copied().filter(Timer::is_set) else { return };
        self.len -= 1;
        let slot = timer.slot();
        match self.timer_mut(timer.prev) {
            Some(before) => before.next = timer.next,
            None => self.heads[slot] = timer.next,
        }
        if let Some(after) = self.timer_mut(timer.next) {
            after.prev = timer.prev;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / SLOTS].clear(slot % SLOTS);
        }
        if let Some(own) = self.timer_mut(id) {
            *own = UNSET;
        }
    }

    /// Removes and returns one entry whose deadline has passed. Returns `None` if there is no such
    /// entry, or if one call cannot move all deadlines of a slot to lower levels. In the latter
    /// case [`Wheel::next_deadline_ns`] is in the past.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Id> {
        let target = now_ns >> TICK_SHIFT;
        let mut spread = 0;
        loop {
            while let Some(id) = self.unspread() {
                if spread == SPREAD_PER_CALL_MAX {
                    return None;
                }
                spread += 1;
                let tick = self.timer(id)?.tick();
                self.remove(id);
                self.link(id, tick);
            }
            let id = self.head(0);
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
        if self.unspread().is_some() || self.head(0) != NONE {
            return Some(self.current << TICK_SHIFT);
        }
        self.next_tick().map(|tick| tick << TICK_SHIFT)
    }

    /// The next tick at which a slot of the first level fires, or a slot of another level is moved
    /// to lower levels.
    fn next_tick(&self) -> Option<u64> {
        let next = |level: usize| {
            let upper = self.current >> shift(level);
            let ahead = self.occupied[level].distance((upper & SLOT_MASK) as usize)?;
            Some((upper + ahead) << shift(level))
        };
        (0..LEVELS).filter_map(next).min()
    }

    /// Returns a deadline that must be moved to a lower level. While there is one, the wheel stays
    /// at the tick of its slot.
    fn unspread(&self) -> Option<Id> {
        (1..LEVELS).map(|level| self.head(level)).find(|id| *id != NONE)
    }

    /// The first deadline in the slot of a level that contains the current tick.
    fn head(&self, level: usize) -> Id {
        self.heads.get(slot_at(level, self.current)).copied().unwrap_or(NONE)
    }

    fn timer(&self, id: Id) -> Option<&Timer> {
        self.timers.get((id as usize).wrapping_sub(1))
    }

    fn timer_mut(&mut self, id: Id) -> Option<&mut Timer> {
        self.timers.get_mut((id as usize).wrapping_sub(1))
    }

    /// Links a timer that is not set. It exists, because the caller made room for it.
    fn link(&mut self, id: Id, tick: u64) {
        let slot = self.slot(tick);
        let next = core::mem::replace(&mut self.heads[slot], id);
        if let Some(after) = self.timer_mut(next) {
            after.prev = id;
        }
        if let Some(own) = self.timer_mut(id) {
            *own = Timer::new(next, tick, slot);
        }
        self.occupied[slot / SLOTS].set(slot % SLOTS);
        self.len += 1;
    }

    /// The slot of a tick: on the lowest level on which the tick is less than a round ahead.
    fn slot(&self, tick: u64) -> usize {
        // The subtraction does not underflow, because a deadline is linked before its tick is
        // handled. On each level but the first, the slot is not that of the current tick, because
        // the tick is at least a round of the level before ahead.
        let is_near =
            |level: &usize| (tick >> shift(*level)) - (self.current >> shift(*level)) < SLOTS as u64;
        if let Some(level) = (0..LEVELS).find(is_near) {
            return slot_at(level, tick);
        }
        // A deadline beyond the last level is stored in the last slot of that level, and moved
        // again later.
        let last = LEVELS - 1;
        slot_at(last, ((self.current >> shift(last)) + SLOT_MASK) << shift(last))
    }
}

/// Ticks of a slot of a level, as a power of two.
fn shift(level: usize) -> u32 {
    level as u32 * LEVEL_SHIFT
}

/// The index of the slot of a level that contains a tick.
fn slot_at(level: usize, tick: u64) -> usize {
    level * SLOTS + (tick >> shift(level) & SLOT_MASK) as usize
}

/// The occupied slots of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Bitmap([u64; SLOTS / 64]);

impl Bitmap {
    fn set(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn clear(&mut self, slot: usize) {
        self.0[slot / 64] &= !(1 << (slot % 64));
    }

    /// The distance from `from` to the next occupied slot, cyclically; `from` itself does not
    /// count.
    fn distance(&self, from: usize) -> Option<u64> {
        let next = self.first_at_or_after(from + 1).map(|slot| slot - from);
        next.or_else(|| self.first_at_or_after(0).filter(|p| *p < from).map(|slot| slot + SLOTS - from))
            .map(|distance| distance as u64)
    }

    fn first_at_or_after(&self, slot: usize) -> Option<usize> {
        let first = slot / 64;
        (first..self.0.len()).find_map(|i| {
            let word = if i == first { self.0[i] & (u64::MAX << (slot % 64)) } else { self.0[i] };
            (word != 0).then(|| i * 64 + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    const TICK_NS: u64 = 1 << TICK_SHIFT;

    /// A wheel with room for a thousand deadlines.
    fn wheel() -> Wheel {
        let mut wheel = Wheel::new();
        wheel.make_room(1000).unwrap();
        wheel
    }

    fn fired_at(deadline_ns: u64) -> u64 {
        deadline_ns.div_ceil(TICK_NS) * TICK_NS
    }

    #[test]
    fn room_is_made_by_pages() {
        let mut wheel = Wheel::new();
        assert_eq!((wheel.heads.capacity(), wheel.timers.len()), (0, 0));
        assert_eq!((wheel.pop_due(u64::MAX), wheel.next_deadline_ns()), (None, None));
        let page = TIMERS_PER_PAGE;
        for (id, len) in [(1, page), (page, page), (page + 1, 2 * page), (1, 2 * page)] {
            wheel.make_room(id as Id).unwrap();
            assert_eq!((wheel.heads.len(), wheel.timers.len()), (LEVELS * SLOTS, len), "{id}");
        }
    }

    #[test]
    fn a_deadline_fires_within_one_tick() {
        let bounds = (1..=LEVELS).flat_map(|level| {
            let ticks = 1u64 << shift(level);
            [ticks - 1, ticks, ticks + 1].map(|tick| tick * TICK_NS)
        });
        let others = [1, TICK_NS, TICK_NS + 1, 4_000_000_000, 3_600_000_000_000, 90_000_000_000_000];
        for deadline_ns in bounds.chain(others) {
            let mut wheel = wheel();
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
        let mut wheel = wheel();
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
        let mut wheel = wheel();
        let now_ns = 1 << 60;
        // On the first level, whose slots are not moved before they fire.
        wheel.set(7, now_ns + 200_000_000, now_ns);
        assert_eq!(wheel.next_deadline_ns(), Some(fired_at(now_ns + 200_000_000)));
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
            let mut wheel = wheel();
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
