//! Deadlines of entries, in timer wheels. Each group of ids has its own wheel, so that workers
//! seldom contend for the same lock.
//!
//! A satisfied entry leaves its timer in the wheel. A later entry in the same slot uses this timer,
//! unless the timer would fire too late. A timer that fires before the deadline is set again.
//! Lifetimes are similar, so most entries do not change a wheel.

use alloc::boxed::Box;

use lock_api::{Mutex, RawMutex};

use super::ids::RUN;
use crate::error::ConfigError;
use crate::limits::parts_of;
use crate::pool::boxed;
use crate::slab::Id;
use crate::sync::{AtomicU64, Ordering};
use crate::wheel::{TICK_SHIFT, Wheel};

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
    pub(super) fn new(ids_max: usize, threads_max: usize) -> Result<Self, ConfigError> {
        // One under loom, to bound the orders of events.
        let count = if cfg!(loom) { 1 } else { parts_of(threads_max) };
        // Runs of ids are assigned to the groups round-robin.
        let ids = ids_max.div_ceil(RUN * count) * RUN;
        let mut failed = None;
        let groups = boxed(count, || {
            let wheel = Wheel::with_room(ids).unwrap_or_else(|error| {
                failed = Some(error);
                Wheel::none()
            });
            Group { wheel: Mutex::new(wheel), due_ns: AtomicU64::new(u64::MAX) }
        })?;
        failed.map_or(Ok(Deadlines { groups, group_bits: count.trailing_zeros() }), Err)
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
            let deadlines = Deadlines::<parking_lot::RawMutex>::new(5000, threads_max).unwrap();
            assert_eq!(deadlines.groups.len(), groups);
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
