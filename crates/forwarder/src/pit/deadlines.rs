//! Deadlines of entries, in timer wheels. Each group of ids has its own wheel, so that workers
//! seldom contend for the same lock.
//!
//! A satisfied entry leaves its timer in the wheel. A later entry in the same slot uses this timer,
//! unless the timer would fire too late. A timer that fires before the deadline is set again.
//! Lifetimes are similar, so most entries do not change a wheel.
//!
//! The memory of a timer is allocated with the first id of its run, one page at a time.

use alloc::boxed::Box;

use lock_api::{Mutex, RawMutex};

use super::ids::RUN;
use crate::error::ConfigError;
use crate::limits::parts_of;
use crate::ordered::NoMemory;
use crate::pool::boxed;
use crate::slab::Id;
use crate::sync::{AtomicU64, Ordering};
use crate::wheel::{TICK_SHIFT, TIMERS_PER_PAGE, Wheel};

const _: () = assert!(TIMERS_PER_PAGE.is_multiple_of(RUN), "the timers of a run are in one page");

/// Timers by entry id.
pub(super) struct Deadlines<R> {
    /// A power of two.
    groups: Box<[Group<R>]>,
    /// The bits of a run's number that select its group.
    group_bits: u32,
}

#[repr(align(64))]
struct Group<R> {
    wheel: Mutex<R, Wheel>,
    /// The next time to check the wheel; `u64::MAX` when it is empty. Written under the lock.
    due_ns: AtomicU64,
}

/// The first tick that is not before `deadline_ns`.
pub(super) fn tick_of(deadline_ns: u64) -> u64 {
    deadline_ns.div_ceil(1 << TICK_SHIFT)
}

impl<R: RawMutex> Deadlines<R> {
    /// Timers for `threads_max` threads.
    pub(super) fn new(threads_max: usize) -> Result<Self, ConfigError> {
        // One under loom, to bound the orders of events.
        let count = if cfg!(loom) { 1 } else { parts_of(threads_max) };
        let group = || Group { wheel: Mutex::new(Wheel::new()), due_ns: AtomicU64::new(u64::MAX) };
        Ok(Deadlines { groups: boxed(count, group)?, group_bits: count.trailing_zeros() })
    }

    /// Allocates the memory for the timers of the run of `id`. Called before an id of the run is
    /// assigned.
    pub(super) fn make_room(&self, id: Id) -> Result<(), NoMemory> {
        let (group, local) = self.position(id);
        // Under the wheel's lock for at most two pages, because threads open runs almost in order.
        group.wheel.lock().make_room(local)
    }

    /// Allocates the memory for the timers of ids up to `ids`.
    pub(super) fn prepare(&self, ids: usize) -> Result<(), ConfigError> {
        // Runs of ids are assigned to the groups round-robin, so the last runs include the last one
        // of each group.
        let last = (0..self.groups.len()).map_while(|run| ids.checked_sub(run * RUN));
        let mut last = last.filter(|id| *id > 0);
        last.try_for_each(|id| self.make_room(id as Id)).map_err(|_| ConfigError::OutOfMemory)
    }

    /// Sets or moves the timer of `id`; returns the tick at which it fires.
    pub(super) fn set(&self, id: Id, deadline_ns: u64, now_ns: u64) -> u64 {
        let (group, local) = self.position(id);
        let mut wheel = group.wheel.lock();
        let tick = wheel.set(local, deadline_ns, now_ns);
        let due_ns = tick << TICK_SHIFT;
        // Stored under the wheel's lock, so that no later time overwrites an earlier one. Release
        // pairs with the Acquire of `pop_due`: a later call of it sees the new deadline.
        if due_ns < group.due_ns.load(Ordering::Relaxed) {
            group.due_ns.store(due_ns, Ordering::Release);
        }
        tick
    }

    /// Takes one id whose timer has fired.
    pub(super) fn pop_due(&self, now_ns: u64) -> Option<Id> {
        self.groups.iter().enumerate().find_map(|(g, group)| {
            // Read without the lock, so that workers with no expired timer do not contend.
            if group.due_ns.load(Ordering::Acquire) > now_ns {
                return None;
            }
            let mut wheel = group.wheel.lock();
            let local = wheel.pop_due(now_ns);
            if local.is_none() {
                group.due_ns.store(wheel.next_deadline_ns().unwrap_or(u64::MAX), Ordering::Release);
            }
            local.map(|local| self.global(g, local))
        })
    }

    /// The time at which [`Deadlines::pop_due`] should be called next.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let due_ns = self.groups.iter().map(|group| group.due_ns.load(Ordering::Acquire)).min();
        due_ns.filter(|due_ns| *due_ns != u64::MAX)
    }

    /// The group of an id, which has runs of ids round-robin, and its number there.
    fn position(&self, id: Id) -> (&Group<R>, Id) {
        let i = id as usize - 1;
        let (run, offset) = (i / RUN, i % RUN);
        let group = &self.groups[run & (self.groups.len() - 1)];
        (group, ((run >> self.group_bits) * RUN + offset) as Id + 1)
    }

    fn global(&self, group: usize, local: Id) -> Id {
        let i = local as usize - 1;
        let (run, offset) = ((i / RUN) << self.group_bits | group, i % RUN);
        (run * RUN + offset) as Id + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_pit_id_has_its_own_place() {
        for (threads_max, groups) in [(1, 1), (3, 4), (16, 16)] {
            let deadlines = Deadlines::<parking_lot::RawMutex>::new(threads_max).unwrap();
            assert_eq!(deadlines.groups.len(), groups);
            deadlines.prepare(5000).unwrap();
            for id in 1..=5000 {
                deadlines.set(id, u64::from(id % 7) << TICK_SHIFT, 0);
            }
            assert!(deadlines.next_ns().is_some());
            let mut fired: Vec<Id> = core::iter::from_fn(|| deadlines.pop_due(8 << TICK_SHIFT)).collect();
            fired.sort_unstable();
            assert_eq!(fired, (1..=5000).collect::<Vec<_>>());
            assert_eq!(deadlines.next_ns(), None);
        }
    }
}
