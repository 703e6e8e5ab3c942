//! Memory of entries. A slot allocates it for its first entry and retains it for the next one, so
//! that at a steady rate no packet allocates memory. When far more is retained than in use, free
//! slots release theirs.
//!
//! A slot's storage is read only under the slot's lock, so it can be freed under that lock. The
//! slots themselves are read without a lock, and are never freed.

use alloc::boxed::Box;

use lock_api::{Mutex, RawMutex};

use super::Pit;
use crate::pit::entry::PitEntry;
use crate::pool::boxed;
use crate::slab::Id;
use crate::sync::{AtomicU32, Ordering};

/// Memory of PIT entries beyond twice the entries in use.
///
/// So many entries take about 1 MiB.
///
/// # Limit
/// The memory is freed if a second check, a second later, finds too much again.
/// - Value: 4096 entries
/// - Tests: `unused_storage_above_the_minimum_is_freed`,
///   `the_memory_of_a_pit_is_returned`
pub(super) const KEPT_MIN: u32 = 4096;

/// The interval of checks for too many storages. Two checks in a row must find too many.
const LOOK_NS: u64 = 1_000_000_000;

/// Slots that one round checks, and the interval between rounds.
const PLACES_PER_TURN: Id = 8192;
const TURN_NS: u64 = 10_000_000;

/// Slots that one round checks for each entry of a caller's budget.
const PLACES_PER_ENTRY: usize = 16;

/// The memory in which a slot stores its entry.
pub(super) struct Storage<B>(Option<Box<[Option<PitEntry<B>>; 1]>>);

impl<B> Storage<B> {
    pub(super) const fn new() -> Self {
        Storage(None)
    }

    pub(super) fn get(&self) -> Option<&PitEntry<B>> {
        self.0.as_ref().and_then(|own| own[0].as_ref())
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut PitEntry<B>> {
        self.0.as_mut().and_then(|own| own[0].as_mut())
    }

    /// Makes sure that there is memory for an entry; returns false if the allocation fails.
    #[inline]
    pub(super) fn make(&mut self, storages: &Storages<impl RawMutex>) -> bool {
        self.0.is_some() || self.make_anew(storages)
    }

    #[cold]
    fn make_anew(&mut self, storages: &Storages<impl RawMutex>) -> bool {
        self.0 = boxed(1, || None).ok().and_then(|own| own.try_into().ok());
        // Relaxed: the number only decides whether memory is released.
        storages.count.fetch_add(u32::from(self.0.is_some()), Ordering::Relaxed);
        self.0.is_some()
    }

    /// Puts an entry into memory that was allocated.
    pub(super) fn put(&mut self, entry: PitEntry<B>) {
        // An empty slot has no previous entry to drop.
        if let Some(own) = self.0.as_mut()
            && own[0].is_none()
        {
            own[0] = Some(entry);
        }
    }

    pub(super) fn take(&mut self) -> Option<PitEntry<B>> {
        self.0.as_mut().and_then(|own| own[0].take())
    }

    /// Frees the memory if no entry is in it.
    fn give_back(&mut self, storages: &Storages<impl RawMutex>) {
        if self.get().is_none() && self.0.take().is_some() {
            storages.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The number of storages, and the progress of their release.
pub(super) struct Storages<R> {
    count: AtomicU32,
    state: Mutex<R, StorageCheck>,
}

/// The time of the next check, and the result of the last one.
#[derive(Default)]
struct StorageCheck {
    next_ns: u64,
    /// True if the last check found too many.
    were_many: bool,
    /// The next position of a release under way.
    from: Option<Id>,
}

impl<R: RawMutex> Storages<R> {
    pub(super) fn new() -> Self {
        Storages { count: AtomicU32::new(0), state: Mutex::new(StorageCheck::default()) }
    }

    /// Returns true if far more storages exist than the `used` entries need.
    fn are_many(&self, used: usize) -> bool {
        let most = u32::try_from(used).unwrap_or(u32::MAX).saturating_mul(2).saturating_add(KEPT_MIN);
        self.count.load(Ordering::Relaxed) > most
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

impl<B: AsRef<[u8]> + Clone, R: RawMutex> Pit<B, R> {
    /// Releases the memory of entries that was not needed for a second, some of it with each call.
    /// Returns the time of the next call; `None` when nothing remains to be released, or while
    /// another thread does this.
    pub(crate) fn give_back(&self, now_ns: u64, budget: usize) -> Option<u64> {
        let are_many = self.storages.are_many(self.len());
        // One thread at a time suffices, so no other thread waits.
        let mut looks = self.storages.state.try_lock()?;
        if let Some(from) = looks.from {
            let slots = budget.saturating_mul(PLACES_PER_ENTRY).min(PLACES_PER_TURN as usize) as Id;
            looks.from = self.release_from(from, slots);
            return Some(now_ns.saturating_add(if looks.from.is_some() { TURN_NS } else { LOOK_NS }));
        }
        if !are_many {
            looks.were_many = false;
            return None;
        }
        if !looks.were_many {
            *looks = StorageCheck { next_ns: now_ns.saturating_add(LOOK_NS), were_many: true, from: None };
        } else if looks.next_ns <= now_ns {
            *looks = StorageCheck { from: Some(1), ..StorageCheck::default() };
            return Some(now_ns.saturating_add(TURN_NS));
        }
        Some(looks.next_ns)
    }

    /// Releases the memory of free slots from `from` on. Returns the next position.
    fn release_from(&self, from: Id, slots: Id) -> Option<Id> {
        let until = from.saturating_add(slots).min(self.ids.end());
        for slot in (from.max(1)..until).filter_map(|id| self.slot(id)) {
            slot.state.lock().storage.give_back(&self.storages);
        }
        (until < self.ids.end()).then_some(until)
    }
}
