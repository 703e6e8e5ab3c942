//! Memory of entries: a place takes it for its first entry and keeps it for the next one, so that
//! nothing is allocated for a packet at a steady rate; when far more was needed once than is used,
//! free places give theirs back.
//!
//! No thread reads a place's storage without the place's lock, so it can be freed under that lock.
//! The places themselves are read without one, and stay.

use alloc::boxed::Box;

use lock_api::{Mutex, RawMutex};

use super::Pit;
use crate::pit::entry::PitEntry;
use crate::pool::boxed;
use crate::slab::Id;
use crate::sync::{AtomicU32, Ordering};

/// Storages that are kept whether used or not: about 1 MiB.
pub(super) const KEPT_MIN: u32 = 4096;

/// How often is looked whether there are too many. They must be too many at two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// Places that one turn looks at, and when the next turn comes.
const PLACES_PER_TURN: Id = 8192;
const TURN_NS: u64 = 10_000_000;

/// The same for each entry of a caller's budget.
const PLACES_PER_ENTRY: usize = 16;

/// Where a place keeps its entry.
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

    /// Makes sure that there is memory for an entry; returns false if there is none to be had.
    #[inline]
    pub(super) fn make(&mut self, storages: &Storages<impl RawMutex>) -> bool {
        self.0.is_some() || self.make_anew(storages)
    }

    #[cold]
    fn make_anew(&mut self, storages: &Storages<impl RawMutex>) -> bool {
        self.0 = boxed(1, || None).ok().and_then(|own| own.try_into().ok());
        storages.count.fetch_add(u32::from(self.0.is_some()), Ordering::Relaxed);
        self.0.is_some()
    }

    /// Puts an entry into memory that was made.
    pub(super) fn put(&mut self, entry: PitEntry<B>) {
        // Of a place that holds nothing, nothing has to be dropped.
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

/// How many storages there are, and how far giving back is.
pub(super) struct Storages<R> {
    count: AtomicU32,
    state: Mutex<R, Looks>,
}

/// When was looked, and what was seen.
#[derive(Default)]
struct Looks {
    next_ns: u64,
    /// The last look found too many.
    were_many: bool,
    /// Where the turn under way goes on.
    from: Option<Id>,
}

impl<R: RawMutex> Storages<R> {
    pub(super) fn new() -> Self {
        Storages { count: AtomicU32::new(0), state: Mutex::new(Looks::default()) }
    }

    /// Returns true if far more are kept than `used`.
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
    /// Gives the memory of entries back that nobody has needed for a second, some of it with each
    /// call; returns when to call again, `None` when none is left.
    pub(crate) fn give_back(&self, now_ns: u64, budget: usize) -> Option<u64> {
        let are_many = self.storages.are_many(self.len());
        let mut looks = self.storages.state.try_lock()?;
        if let Some(from) = looks.from {
            let places = budget.saturating_mul(PLACES_PER_ENTRY).min(PLACES_PER_TURN as usize) as Id;
            looks.from = self.give_back_of(from, places);
            return Some(now_ns.saturating_add(if looks.from.is_some() { TURN_NS } else { LOOK_NS }));
        }
        if !are_many {
            looks.were_many = false;
            return None;
        }
        if !looks.were_many {
            *looks = Looks { next_ns: now_ns.saturating_add(LOOK_NS), were_many: true, from: None };
        } else if looks.next_ns <= now_ns {
            *looks = Looks { from: Some(1), ..Looks::default() };
            return Some(now_ns.saturating_add(TURN_NS));
        }
        Some(looks.next_ns)
    }

    /// That of free places from `from` on; returns where to go on.
    fn give_back_of(&self, from: Id, places: Id) -> Option<Id> {
        let until = from.saturating_add(places).min(self.ids.end());
        for slot in (from.max(1)..until).filter_map(|id| self.slot(id)) {
            slot.state.lock().storage.give_back(&self.storages);
        }
        (until < self.ids.end()).then_some(until)
    }
}
