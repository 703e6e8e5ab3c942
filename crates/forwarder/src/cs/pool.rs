//! Pools for the parts of the content store's index, which grow in chunks and are read without a
//! lock.
//!
//! Free items are on a stack whose links are in the items themselves. So taking and returning an
//! item are one atomic exchange each, and allocate nothing once the pool has grown to its size.

use crate::sync::plain::{AtomicU32, AtomicU64, Ordering};

use crate::error::ConfigError;
use crate::pool::Pool;
use crate::reserve::Magazine;
use crate::slab::Id;

/// An item of [`Nodes`].
pub(super) trait Pooled: Default {
    /// The link to the next free item while this one is free.
    fn next_free(&self) -> &AtomicU32;
}

/// Items in fixed slots, numbered from 1. A page has `N` of them.
pub(super) struct Nodes<T, const N: usize> {
    slots: Pool<T, N>,
    slots_max: u32,
    /// The first free item in the lower half, and the number of its changes in the upper half. So a
    /// compare-and-swap fails after changes by other threads, even if the same item is first again.
    free: AtomicU64,
    /// Items taken at least once.
    made: AtomicU32,
}

impl<T: Pooled, const N: usize> Nodes<T, N> {
    /// A pool of `slots` items, which cost some octets for each 1024 of them until they are used.
    pub(super) fn new(slots: usize) -> Result<Self, ConfigError> {
        // Ids have 32 bits and count from 1.
        let slots = slots.min(u32::MAX as usize - 1);
        Ok(Nodes {
            slots: Pool::new(slots)?,
            slots_max: slots as u32,
            free: AtomicU64::new(0),
            made: AtomicU32::new(0),
        })
    }

    /// The item `id`, if it was ever taken.
    #[inline]
    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.slots.get((id as usize).wrapping_sub(1))
    }

    /// A free item; `None` if all slots are taken, or there is no memory for a new one.
    pub(super) fn take(&self) -> Option<(Id, &T)> {
        // Pairs with the Release of `swing`: the link of the first item is read next.
        let mut head = self.free.load(Ordering::Acquire);
        while let Some(item) = self.get(head as u32) {
            // If another worker takes the item meanwhile, this value may be arbitrary. But then the
            // count in the upper half of the head has changed, and the exchange fails.
            let next = item.next_free().load(Ordering::Relaxed);
            match self.swing(head, next) {
                Ok(_) => return Some((head as u32, item)),
                Err(now) => head = now,
            }
        }
        let made = |n: u32| (n < self.slots_max).then_some(n + 1);
        // Relaxed: the number assigns the slot to one thread, and the pool publishes the slot
        // itself.
        let index = self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, made).ok()?;
        Some((index + 1, self.slots.get_or_make(index as usize, T::default)?))
    }

    /// The largest id that was ever taken.
    fn made(&self) -> Id {
        self.made.load(Ordering::Relaxed)
    }

    /// Allocates the first `slots` items.
    pub(super) fn prepare(&self, slots: usize) -> Result<(), ConfigError> {
        self.slots.fill(slots, T::default)
    }

    /// Returns true if the next items should be allocated.
    pub(super) fn is_behind(&self) -> bool {
        self.slots.is_behind(self.made() as usize)
    }

    /// Allocates the next items; see [`Pool::fill_ahead`].
    pub(super) fn grow(&self) -> Result<bool, ConfigError> {
        self.slots.fill_ahead(self.made() as usize, T::default)
    }

    /// Returns an item from [`Nodes::take`]. It must not be used any more.
    pub(super) fn give(&self, id: Id) {
        let Some(item) = self.get(id) else { return };
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            item.next_free().store(head as u32, Ordering::Relaxed);
            match self.swing(head, id) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// An item of the reserve, or else a free one.
    #[inline]
    pub(super) fn take_from<const M: usize>(&self, reserve: &Magazine<M>) -> Option<(Id, &T)> {
        match reserve.take() {
            Some(id) => Some((id, self.get(id)?)),
            None => self.take(),
        }
    }

    /// Adds an unused item to the reserve, or returns it to the pool if the reserve is full.
    #[inline]
    pub(super) fn release_to<const M: usize>(&self, reserve: &Magazine<M>, id: Id) {
        if !reserve.put(id) {
            self.give(id);
        }
    }

    /// Returns the whole reserve to the pool.
    pub(super) fn settle<const M: usize>(&self, reserve: &Magazine<M>) {
        while let Some(id) = reserve.take() {
            self.give(id);
        }
    }

    fn swing(&self, head: u64, to: Id) -> Result<u64, u64> {
        let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(to);
        // Release publishes the item's link to the thread that takes the item next with Acquire.
        self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Items that are not free. Only for a pool that is not in use.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        let mut free = 0;
        let mut id = self.free.load(Ordering::Acquire) as u32;
        while let Some(item) = self.get(id) {
            free += 1;
            id = item.next_free().load(Ordering::Relaxed);
        }
        self.made.load(Ordering::Acquire) as usize - free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    use crate::pool::{CHUNK, page_of};
    use crate::reserve::Reserve;
    use crate::slab::NONE;

    #[derive(Default)]
    struct Item(AtomicU32);

    impl Pooled for Item {
        fn next_free(&self) -> &AtomicU32 {
            &self.0
        }
    }

    #[test]
    fn pool_items_keep_their_places_on_growth() {
        let pool = Nodes::<Item, { page_of(64) }>::new(4 * CHUNK).unwrap();
        assert!(pool.get(NONE).is_none() && pool.get(1).is_none());
        let ids: Vec<Id> = (0..3 * CHUNK).map(|_| pool.take().unwrap().0).collect();
        assert!(ids.iter().enumerate().all(|(i, id)| *id as usize == i + 1));
        let addresses: Vec<_> = ids.iter().map(|id| pool.get(*id).unwrap() as *const Item).collect();
        assert_eq!(pool.taken(), 3 * CHUNK);
        (5..8).for_each(|id| pool.give(id));
        assert_eq!(pool.taken(), 3 * CHUNK - 3);
        let again: Vec<Id> = (0..4).map(|_| pool.take().unwrap().0).collect();
        assert_eq!(again, [7, 6, 5, 3 * CHUNK as Id + 1]);
        let reserve = Reserve::new(1);
        pool.release_to(&reserve.cs_entries, 6);
        pool.release_to(&reserve.cs_entries, 7);
        assert_eq!(pool.taken(), 3 * CHUNK + 1, "what is at hand is taken");
        assert_eq!(pool.take_from(&reserve.cs_entries).unwrap().0, 7);
        pool.settle(&reserve.cs_entries);
        assert_eq!((pool.taken(), pool.take_from(&reserve.cs_entries).unwrap().0), (3 * CHUNK, 6));
        assert!(ids.iter().zip(addresses).all(|(id, item)| core::ptr::eq(pool.get(*id).unwrap(), item)));
    }
}
