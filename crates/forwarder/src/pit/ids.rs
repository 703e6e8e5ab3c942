//! Free ids of the pool's slots. Ids are allocated by stripes, each with its own lock and list, so
//! that workers do not contend. The downstream face selects the stripe. A freed id is the next one
//! to be allocated, because its slot is still in the processor's cache.
//!
//! Records of an entry beyond the first need storage. The stripe retains the storage of a removed
//! entry and lends it again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::{Mutex, MutexGuard, RawMutex};

use super::entry::{InRecord, OutRecord};
use crate::error::ConfigError;
use crate::limits::parts_of;
use crate::pool::{boxed, page_of};
use crate::reserve::Reserve;
use crate::slab::{Id, NONE};
use crate::sync::{AtomicU32, Ordering};

/// Ids that a stripe receives at once, called a run. A page of slots has a whole number of runs.
pub(super) const RUN: usize = if cfg!(loom) { 2 } else { 64 };

/// Slots of a page.
pub(super) const PAGE: usize = page_of(64);

const _: () = assert!(PAGE.is_multiple_of(RUN), "a run is in one page or chunk");

/// Retained storages of further in- and out-records in a stripe.
///
/// # Limit
/// The storage is freed.
/// - Value: 256 in each of 16 stripes
/// - Tests: `lent_storage_is_kept_to_a_limit`
const SPARES_MAX: usize = 256;

/// Records of one retained storage.
///
/// # Limit
/// The storage is freed.
/// - Tests: `lent_storage_is_kept_to_a_limit`
const SPARE_RECORDS_MAX: usize = 64;

/// Capacity of new storage, in records.
const FRESH_RECORDS: usize = 8;

/// The free ids of a table.
pub(super) struct Ids<R> {
    /// A power of two.
    stripes: Box<[Stripe<R>]>,
    /// The first id that was never used; ids count from 1.
    fresh: AtomicU32,
    ids_max: u32,
}

#[repr(align(64))]
struct Stripe<R> {
    list: Mutex<R, FreeList>,
    /// Ids that this stripe has allocated, less those that were returned to it. Written under the
    /// lock.
    used: AtomicU32,
}

struct FreeList {
    head: Id,
    in_storage: Vec<Vec<InRecord>>,
    out_storage: Vec<Vec<OutRecord>>,
}

/// The id's successor in a list, and the stripe that it belongs to.
pub(super) struct Link {
    /// The next id of a chain or of the free list. Guarded by the lock of that chain or list.
    pub(super) next: AtomicU32,
    /// Written by the thread that has just allocated the id.
    stripe: AtomicU32,
}

impl Link {
    pub(super) fn new() -> Self {
        Link { next: AtomicU32::new(NONE), stripe: AtomicU32::new(0) }
    }

    /// The stripe that the id belongs to.
    pub(super) fn stripe(&self) -> u8 {
        self.stripe.load(Ordering::Relaxed) as u8
    }
}

impl<R: RawMutex> Ids<R> {
    /// Ids for `threads_max` threads.
    pub(super) fn new(ids_max: usize, threads_max: usize) -> Result<Self, ConfigError> {
        let list = || FreeList { head: NONE, in_storage: Vec::new(), out_storage: Vec::new() };
        let stripe = || Stripe { list: Mutex::new(list()), used: AtomicU32::new(0) };
        let stripes = boxed(parts_of(threads_max), stripe)?;
        Ok(Ids { stripes, fresh: AtomicU32::new(1), ids_max: ids_max as u32 })
    }

    /// Ids in use, including those that workers hold in reserve.
    pub(super) fn used(&self) -> usize {
        let used = self.stripes.iter().map(|stripe| stripe.used.load(Ordering::Relaxed));
        // Wrapping, because each stripe counts modulo 2^32.
        used.fold(0, u32::wrapping_add) as usize
    }

    /// One more than the largest id ever used.
    pub(super) fn end(&self) -> Id {
        self.fresh.load(Ordering::Acquire)
    }

    /// Takes an id from `reserve`, or refills it from a stripe; `None` if all ids are in use.
    /// `link` returns an id's link; `make_run` allocates the memory of the run that begins with an
    /// id.
    #[inline]
    pub(super) fn take<'a>(
        &self,
        stripe: u32,
        reserve: &Reserve,
        link: impl Fn(Id) -> Option<&'a Link>,
        make_run: impl Fn(Id) -> Option<()>,
    ) -> Option<Id> {
        reserve.pit.take().or_else(|| self.take_more(stripe, reserve, link, make_run))
    }

    fn take_more<'a>(
        &self,
        stripe: u32,
        reserve: &Reserve,
        link: impl Fn(Id) -> Option<&'a Link>,
        make_run: impl Fn(Id) -> Option<()>,
    ) -> Option<Id> {
        let own = stripe as usize & (self.stripes.len() - 1);
        let id = self
            .pop(own, reserve, &link)
            .or_else(|| self.open_run(own, &link, make_run))
            // No unused id can be assigned, but another stripe may have a free one.
            .or_else(|| self.pop_foreign(own, &link))?;
        link(id)?.stripe.store(own as u32, Ordering::Relaxed);
        Some(id)
    }

    /// Returns an id to `reserve`. A full reserve first returns all its ids to their stripes.
    #[inline]
    pub(super) fn give<'a>(&self, id: Id, reserve: &Reserve, link: impl Fn(Id) -> Option<&'a Link>) {
        if !reserve.pit.put(id) {
            self.settle(reserve, link);
            reserve.pit.put(id);
        }
    }

    /// Returns all ids in `reserve` to their stripes.
    pub(super) fn settle<'a>(&self, reserve: &Reserve, link: impl Fn(Id) -> Option<&'a Link>) {
        let mut held: Option<(u8, MutexGuard<'_, R, FreeList>)> = None;
        while let Some(id) = reserve.pit.take() {
            let Some(link) = link(id) else { continue };
            let own = link.stripe();
            let mut list = match held.take() {
                Some((stripe, list)) if stripe == own => list,
                other => {
                    // No two stripes are locked together.
                    drop(other);
                    self.stripes[usize::from(own)].list.lock()
                }
            };
            // Relaxed: the links of a free list are read under its lock alone.
            link.next.store(list.head, Ordering::Relaxed);
            list.head = id;
            self.stripes[usize::from(own)].count(u32::MAX);
            held = Some((own, list));
        }
    }

    /// Storage of a stripe for downstreams beyond the first.
    pub(super) fn in_storage(&self, stripe: u8) -> Vec<InRecord> {
        let kept = self.stripes[usize::from(stripe)].list.lock().in_storage.pop();
        kept.unwrap_or_else(fresh)
    }

    /// Storage of a stripe for upstreams beyond the first.
    pub(super) fn out_storage(&self, stripe: u8) -> Vec<OutRecord> {
        let kept = self.stripes[usize::from(stripe)].list.lock().out_storage.pop();
        kept.unwrap_or_else(fresh)
    }

    /// Takes back storage that a stripe has lent.
    pub(super) fn keep(&self, stripe: u8, ins: Option<Vec<InRecord>>, outs: Option<Vec<OutRecord>>) {
        fn keep<T>(kept: &mut Vec<Vec<T>>, storage: Option<Vec<T>>) {
            if let Some(storage) = storage.filter(|storage| storage.capacity() <= SPARE_RECORDS_MAX)
                && kept.len() < SPARES_MAX
                && kept.try_reserve(1).is_ok()
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

    /// Takes as many free ids of a stripe as the batch may need, or as many as it has. All but the
    /// first are put into `reserve`.
    fn pop<'a>(&self, own: usize, reserve: &Reserve, link: &impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let stripe = &self.stripes[own];
        let mut list = stripe.list.lock();
        let id = list.pop(link)?;
        let mut taken = 1;
        while taken < reserve.needed() as u32
            && let Some((more, link)) = list.pop(link).and_then(|id| Some((id, link(id)?)))
        {
            link.stripe.store(own as u32, Ordering::Relaxed);
            reserve.pit.put(more);
            taken += 1;
        }
        stripe.count(taken);
        Some(id)
    }

    /// Takes a free id of another stripe. No two stripes are locked together.
    #[cold]
    fn pop_foreign<'a>(&self, own: usize, link: &impl Fn(Id) -> Option<&'a Link>) -> Option<Id> {
        let stripes = self.stripes.len();
        let other = |i: usize| &self.stripes[(own + i) & (stripes - 1)];
        let id = (1..stripes).find_map(|i| other(i).list.lock().pop(link))?;
        let _list = self.stripes[own].list.lock();
        self.stripes[own].count(1);
        Some(id)
    }

    /// Assigns the next run of fresh ids to a stripe; returns its first.
    #[cold]
    fn open_run<'a>(
        &self,
        stripe: usize,
        link: &impl Fn(Id) -> Option<&'a Link>,
        make_run: impl Fn(Id) -> Option<()>,
    ) -> Option<Id> {
        let mut first = self.fresh.load(Ordering::Relaxed);
        let end = loop {
            let end = first.saturating_add(RUN as u32).min(self.ids_max + 1);
            // The memory is allocated before the run is taken, so that a lack of it loses no ids.
            if first >= end || make_run(first).is_none() {
                return None;
            }
            // Release pairs with the Acquire of `end`: every slot below the end that a walk reads
            // was made before.
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
        self.stripes[stripe].count(1);
        Some(first)
    }
}

/// Storage that was not used before; empty if there is no memory for it.
fn fresh<T>() -> Vec<T> {
    let mut storage = Vec::new();
    // Ignored: the push into the storage tries again, and reports a lack of memory.
    let _ = storage.try_reserve_exact(FRESH_RECORDS);
    storage
}

impl<R: RawMutex> Stripe<R> {
    /// Counts `ids` more in use, modulo 2^32; the caller holds the list.
    fn count(&self, ids: u32) {
        self.used.store(self.used.load(Ordering::Relaxed).wrapping_add(ids), Ordering::Relaxed);
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
    fn every_pit_id_is_handed_out_once() {
        let ids = Ids::<parking_lot::RawMutex>::new(200, 16).unwrap();
        let links = Pool::<Link, PAGE>::new(200).unwrap();
        let link = |id: Id| links.get_or_make((id as usize).wrapping_sub(1), Link::new);
        let reserve = Reserve::new(1);
        let make = |id: Id| link(id).map(|_| ());
        let mut taken: Vec<Id> = (0..200).map(|i| ids.take(i % 5, &reserve, link, make).unwrap()).collect();
        assert_eq!(ids.take(3, &reserve, link, make), None);
        assert_eq!((ids.used(), ids.end()), (200, 201));
        taken.sort_unstable();
        assert_eq!(taken, (1..=200).collect::<Vec<_>>());
        ids.give(7, &reserve, link);
        assert_eq!(ids.used(), 200, "what a worker has at hand is in use");
        assert_eq!(ids.take(3, &Reserve::new(1), link, make), None, "so that no other one has it");
        ids.settle(&reserve, link);
        assert_eq!(ids.used(), 199);
        assert_eq!(ids.take(11, &reserve, link, make), Some(7), "another stripe's free id is found");
    }

    #[test]
    fn a_batch_takes_its_ids_at_once() {
        let ids = Ids::<parking_lot::RawMutex>::new(200, 16).unwrap();
        let links = Pool::<Link, PAGE>::new(200).unwrap();
        let link = |id: Id| links.get_or_make((id as usize).wrapping_sub(1), Link::new);
        let all = Reserve::new(1);
        let make = |id: Id| link(id).map(|_| ());
        let taken: Vec<Id> = (0..200).map(|i| ids.take(i % 2, &all, link, make).unwrap()).collect();
        taken.iter().for_each(|id| ids.give(*id, &all, link));
        ids.settle(&all, link);
        assert_eq!(ids.used(), 0);
        let reserve = Reserve::new(10);
        let first = ids.take(1, &reserve, link, make).unwrap();
        assert_eq!(ids.used(), 10);
        ids.settle(&reserve, link);
        assert_eq!(ids.used(), 1);
        ids.give(first, &reserve, link);
        ids.settle(&reserve, link);
        assert_eq!(ids.used(), 0);
        let stripe = |n: usize| ids.stripes[n].used.load(Ordering::Relaxed);
        assert_eq!((stripe(0), stripe(1)), (0, 0));
    }

    #[test]
    fn lent_storage_is_kept_to_a_limit() {
        let ids = Ids::<parking_lot::RawMutex>::new(8, 16).unwrap();
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
