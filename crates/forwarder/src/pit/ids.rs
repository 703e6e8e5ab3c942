//! Which places of the pool are free. Ids are handed out by stripes, each with a lock and a list of its own, so
//! that workers do not meet here: a worker's faces choose the stripe. An id that was given back is the next one to be
//! taken, because its place is still in the processor's cache.
//!
//! Records beyond the first of an entry need storage; it is kept here when its entry goes, and lent again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::{Mutex, RawMutex};

use super::entry::{InRecord, OutRecord};
use crate::config::ConfigError;
use crate::pool::{CHUNK, boxed};
use crate::slab::{Id, NONE};
use crate::sync::{AtomicU32, Ordering};

/// Stripes of the list.
pub(super) const STRIPES: usize = if cfg!(loom) { 2 } else { 16 };

/// Ids that a stripe gets at once. A chunk holds a whole number of such runs.
pub(super) const RUN: usize = if cfg!(loom) { 2 } else { 64 };

const _: () = assert!(CHUNK.is_multiple_of(RUN), "a run lies in one chunk");

/// Storage for further records that a stripe keeps at most, and the most records of what it keeps.
const SPARES_MAX: usize = 256;
const SPARE_RECORDS_MAX: usize = 64;

/// Records that fresh storage holds.
const FRESH_RECORDS: usize = 8;

/// The free ids of a table.
pub(super) struct Ids<R> {
    stripes: Box<[Stripe<R>]>,
    /// The first id that was never used; ids count from 1.
    fresh: AtomicU32,
    ids_max: u32,
}

#[repr(align(64))]
struct Stripe<R> {
    list: Mutex<R, FreeList>,
    /// Ids in use that belong to this stripe, written under the lock.
    used: AtomicU32,
}

struct FreeList {
    head: Id,
    in_storage: Vec<Vec<InRecord>>,
    out_storage: Vec<Vec<OutRecord>>,
}

/// Where the list keeps what follows an id and which stripe it belongs to.
pub(super) struct Link {
    /// The next id of a chain or of the free list. Guarded by the lock of whichever it is in.
    pub(super) next: AtomicU32,
    /// Written by whoever has just taken the id.
    stripe: AtomicU32,
}

impl Link {
    pub(super) fn new() -> Self {
        Link { next: AtomicU32::new(NONE), stripe: AtomicU32::new(0) }
    }

    /// The stripe that the id belongs to.
    pub(super) fn stripe(&self) -> u8 {
        (self.stripe.load(Ordering::Relaxed) as usize % STRIPES) as u8
    }
}

impl<R: RawMutex> Ids<R> {
    pub(super) fn new(ids_max: usize) -> Result<Self, ConfigError> {
        let list = || FreeList { head: NONE, in_storage: Vec::new(), out_storage: Vec::new() };
        let stripe = || Stripe { list: Mutex::new(list()), used: AtomicU32::new(0) };
        Ok(Ids { stripes: boxed(STRIPES, stripe)?, fresh: AtomicU32::new(1), ids_max: ids_max as u32 })
    }

    /// Ids in use.
    pub(super) fn used(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.used.load(Ordering::Relaxed) as usize).sum()
    }

    /// One more than the largest id ever used.
    pub(super) fn end(&self) -> Id {
        self.fresh.load(Ordering::Acquire)
    }

    /// Takes an id; none if all are in use. `link` finds an id's link, and makes its place if it has none yet.
    pub(super) fn take<'a>(&self, stripe: u32, link: impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let own = stripe as usize % STRIPES;
        let id = self
            .pop(own, &link)
            .or_else(|| self.open_run(own, &link))
            // All ids were given out once: another stripe may have one that is free.
            .or_else(|| self.pop_foreign(own, &link))?;
        link(id)?.stripe.store(own as u32, Ordering::Relaxed);
        Some(id)
    }

    /// Gives an id back to its stripe.
    pub(super) fn give(&self, id: Id, link: &Link) {
        let stripe = &self.stripes[usize::from(link.stripe())];
        let mut list = stripe.list.lock();
        link.next.store(list.head, Ordering::Relaxed);
        list.head = id;
        stripe.used.store(stripe.used.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Storage of a stripe for downstreams beyond the first.
    pub(super) fn in_storage(&self, stripe: u8) -> Vec<InRecord> {
        let kept = self.stripes[usize::from(stripe)].list.lock().in_storage.pop();
        kept.unwrap_or_else(|| Vec::with_capacity(FRESH_RECORDS))
    }

    /// Storage of a stripe for upstreams beyond the first.
    pub(super) fn out_storage(&self, stripe: u8) -> Vec<OutRecord> {
        let kept = self.stripes[usize::from(stripe)].list.lock().out_storage.pop();
        kept.unwrap_or_else(|| Vec::with_capacity(FRESH_RECORDS))
    }

    /// Takes storage back that a stripe has lent.
    pub(super) fn keep(&self, stripe: u8, ins: Option<Vec<InRecord>>, outs: Option<Vec<OutRecord>>) {
        fn keep<T>(kept: &mut Vec<Vec<T>>, storage: Option<Vec<T>>) {
            if let Some(storage) = storage.filter(|storage| storage.capacity() <= SPARE_RECORDS_MAX)
                && kept.len() < SPARES_MAX
            {
                kept.push(storage);
            }
        }
        if ins.is_some() || outs.is_some() {
            let mut list = self.stripes[usize::from(stripe)].list.lock();
            keep(&mut list.in_storage, ins);
            keep(&mut list.out_storage, outs);
        }
    }

    fn pop<'a>(&self, stripe: usize, link: &impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let stripe = &self.stripes[stripe];
        let mut list = stripe.list.lock();
        let id = list.pop(link)?;
        stripe.count_one();
        Some(id)
    }

    /// Takes an id that another stripe has given back. No two stripes are locked together.
    #[cold]
    fn pop_foreign<'a>(&self, own: usize, link: &impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let id = (1..STRIPES).find_map(|i| self.stripes[(own + i) % STRIPES].list.lock().pop(link))?;
        let _list = self.stripes[own].list.lock();
        self.stripes[own].count_one();
        Some(id)
    }

    /// Gives a stripe the next run of fresh ids; returns its first.
    fn open_run<'a>(&self, stripe: usize, link: &impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let mut first = self.fresh.load(Ordering::Relaxed);
        let end = loop {
            let end = first.saturating_add(RUN as u32).min(self.ids_max + 1);
            // The place is made before the run is taken, so that a lack of memory loses no ids.
            if first >= end || link(first).is_none() {
                return None;
            }
            match self.fresh.compare_exchange_weak(first, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break end,
                Err(now) => first = now,
            }
        };
        let mut list = self.stripes[stripe].list.lock();
        for id in (first + 1..end).rev() {
            if let Some(link) = link(id) {
                link.next.store(list.head, Ordering::Relaxed);
                list.head = id;
            }
        }
        self.stripes[stripe].count_one();
        Some(first)
    }
}

impl<R: RawMutex> Stripe<R> {
    /// Counts an id more in use; the caller holds the list.
    fn count_one(&self) {
        self.used.store(self.used.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl FreeList {
    fn pop<'a>(&mut self, link: &impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let id = self.head;
        self.head = link(id)?.next.load(Ordering::Relaxed);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Pool;

    #[test]
    fn every_id_is_given_out_once_and_none_beyond_the_limit() {
        let ids = Ids::<parking_lot::RawMutex>::new(200).unwrap();
        let links = Pool::<Link>::new(200).unwrap();
        let link = |id: Id| links.get_or_make((id as usize).wrapping_sub(1), Link::new);
        let mut taken: Vec<Id> = (0..200).map(|i| ids.take(i % 5, link).unwrap()).collect();
        assert_eq!(ids.take(3, link), None);
        assert_eq!((ids.used(), ids.end()), (200, 201));
        taken.sort_unstable();
        assert_eq!(taken, (1..=200).collect::<Vec<_>>());
        ids.give(7, link(7).unwrap());
        assert_eq!(ids.used(), 199);
        assert_eq!(ids.take(11, link), Some(7), "another stripe's free id is found");
    }

    #[test]
    fn storage_is_kept_up_to_the_limit_and_lent_again() {
        let ids = Ids::<parking_lot::RawMutex>::new(8).unwrap();
        let storage = ids.in_storage(3);
        let address = storage.as_ptr();
        ids.keep(3, Some(storage), None);
        let (other, same) = (ids.in_storage(4), ids.in_storage(3));
        assert_ne!(other.as_ptr(), address);
        assert_eq!(same.as_ptr(), address);
        ids.keep(3, Some(Vec::with_capacity(SPARE_RECORDS_MAX + 1)), None);
        assert_eq!(ids.in_storage(3).capacity(), FRESH_RECORDS, "large storage is not kept");
        (0..=SPARES_MAX).for_each(|_| ids.keep(5, Some(Vec::with_capacity(FRESH_RECORDS)), None));
        assert_eq!(ids.stripes[5].list.lock().in_storage.len(), SPARES_MAX, "nor more than the limit");
    }
}
