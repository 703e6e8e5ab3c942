//! The dead-nonce list: Nonces of Interests that are no longer pending, stored for a while so that
//! a looping Interest that outlived its PIT entry is still recognized.
//!
//! Names are not stored. A key mixes the Nonce into the name's keyed 64-bit hash. A false match can
//! only refuse an Interest once; its sender then retries with another Nonce.
//!
//! The list is in parts, chosen by the key, each with a lock of its own. In a full part the newest
//! Nonce replaces the oldest. Memory grows with the Nonces: a new one allocates at most two pages
//! of 4 KiB and moves the Nonces of one chain. The cost of a lookup does not depend on the number
//! of Nonces.

use alloc::boxed::Box;

use lock_api::RawMutex;

use crate::error::ConfigError;
use crate::hash::NameHasher;
use crate::hash::{STEP, mix};
use crate::limits::{DeadNonceLimits, parts_of};
use crate::lock_order::LeafLock;
use crate::ordered::{NoMemory, Pieces};
use crate::pit::entry::PitEntry;
use crate::pool::boxed;
use crate::slab::{Id, NONE};
use crate::sync::{AtomicU32, Ordering};

/// Minimum number of Nonces of a part.
const PART_ENTRIES_MIN: usize = 1024;

/// The dead Nonces; the oldest is removed first.
pub(crate) struct DeadNonces<R> {
    parts: Box<[Part<R>]>,
    lifetime_ns: u64,
}

#[repr(align(64))]
struct Part<R> {
    ring: LeafLock<R, Ring>,
    /// Nonces in the ring. Written under its lock; read without, so that an empty ring need not be
    /// locked.
    len: AtomicU32,
}

/// Nonces in order of arrival, and hash chains of them.
#[derive(Default)]
struct Ring {
    /// The first Nonce of each chain. There are as many chains as slots, so each has about one
    /// Nonce.
    heads: Pieces<Id>,
    /// Slots by id, which counts from 1.
    nonces: Pieces<DeadNonce>,
    oldest: Id,
    newest: Id,
    /// The first free slot.
    free: Id,
    len: usize,
    entries_max: usize,
}

#[derive(Clone, Copy, Default)]
struct DeadNonce {
    key: u64,
    forgotten_at_ns: u64,
    /// The next of its chain, or of the free slots.
    next: Id,
    /// The Nonce that arrived after it.
    newer: Id,
}

impl<R: RawMutex> DeadNonces<R> {
    /// A list for `threads_max` threads.
    pub(crate) fn new(limits: &DeadNonceLimits, threads_max: usize) -> Result<Self, ConfigError> {
        let DeadNonceLimits { entries_max, lifetime_ns } = *limits;
        let parts = (entries_max / PART_ENTRIES_MIN).clamp(1, parts_of(threads_max));
        let (each, more) = (entries_max / parts, entries_max % parts);
        let mut sizes = (0..parts).map(|i| each + usize::from(i < more));
        let parts = boxed(parts, || {
            let ring = Ring::new(sizes.next().unwrap_or(each));
            Part { ring: LeafLock::new(ring), len: AtomicU32::new(0) }
        })?;
        Ok(DeadNonces { parts, lifetime_ns })
    }

    /// Allocates the memory for all Nonces.
    pub(crate) fn prepare(&self) -> Result<(), ConfigError> {
        let mut rings = self.parts.iter().map(|part| part.ring.lock());
        rings.try_for_each(|mut ring| ring.prepare()).map_err(|_| ConfigError::OutOfMemory)
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len.load(Ordering::Relaxed) as usize).sum()
    }

    pub(crate) fn contains(&self, name_hash: u64, nonce: [u8; 4], now_ns: u64) -> bool {
        let key = key(name_hash, nonce);
        let part = self.part(key);
        // A Nonce that another worker adds at this moment may be missed, as if this Interest had
        // arrived before it. Acquire pairs with the Release of `add`, so that a Nonce that was
        // added is found.
        part.len.load(Ordering::Acquire) > 0 && part.ring.lock().contains(key, now_ns)
    }

    pub(crate) fn add(&self, name_hash: u64, nonce: [u8; 4], now_ns: u64) {
        let key = key(name_hash, nonce);
        let part = self.part(key);
        let mut ring = part.ring.lock();
        ring.forget(now_ns);
        ring.add(key, now_ns.saturating_add(self.lifetime_ns));
        // Stored after the Nonce was added, and under the lock: a reader that sees 0 read before
        // the Nonce was added.
        part.len.store(ring.len as u32, Ordering::Release);
    }

    /// Adds the Nonces that a finished entry was sent with: the insertion into the dead-nonce list
    /// of the Interest Finalize pipeline (NFD developer guide 4.2.6).
    pub(crate) fn add_sent<B: AsRef<[u8]>>(&self, entry: &PitEntry<B>, hasher: &NameHasher, now_ns: u64) {
        // It was never sent, so it cannot return.
        if entry.out_records.is_empty() {
            return;
        }
        let name_hash = hasher.whole(entry.name());
        entry.out_records.iter().for_each(|record| self.add(name_hash, record.nonce, now_ns));
    }

    fn part(&self, key: u64) -> &Part<R> {
        // The low bits choose the chain.
        &self.parts[(key >> 32) as usize % self.parts.len()]
    }
}

impl Ring {
    fn new(entries_max: usize) -> Self {
        Ring { entries_max, ..Ring::default() }
    }

    /// Allocates the memory for all Nonces.
    fn prepare(&mut self) -> Result<(), NoMemory> {
        self.nonces.reserve(self.entries_max)?;
        self.heads.reserve(self.entries_max)
    }

    fn contains(&self, key: u64, now_ns: u64) -> bool {
        let mut id = self.head(self.chain(key));
        while let Some(dead) = self.nonce(id) {
            if dead.key == key && dead.forgotten_at_ns > now_ns {
                return true;
            }
            id = dead.next;
        }
        false
    }

    /// Adds a Nonce at the newest end. Without memory for it, the oldest one leaves; the first one
    /// is then not remembered.
    fn add(&mut self, key: u64, forgotten_at_ns: u64) {
        let Some(id) = self.take() else { return };
        let chain = self.chain(key);
        let Some(head) = self.heads.get_mut(chain) else { return self.free(id) };
        let next = core::mem::replace(head, id);
        if let Some(own) = self.nonce_mut(id) {
            *own = DeadNonce { key, forgotten_at_ns, next, newer: NONE };
        }
        let before = core::mem::replace(&mut self.newest, id);
        match self.nonce_mut(before) {
            Some(before) => before.newer = id,
            None => self.oldest = id,
        }
        self.len += 1;
    }

    /// Makes room for one: removes expired Nonces, and the oldest if the ring is full. At most two
    /// in one call, so that no single packet pays for many.
    fn forget(&mut self, now_ns: u64) {
        for _ in 0..2 {
            let Some(oldest) = self.nonce(self.oldest) else { return };
            if oldest.forgotten_at_ns > now_ns && self.len < self.entries_max {
                return;
            }
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let id = self.oldest;
        let Some(dead) = self.nonce(id).copied() else { return };
        self.unlink(id, dead);
        self.oldest = dead.newer;
        if dead.newer == NONE {
            self.newest = NONE;
        }
        self.len -= 1;
        self.free(id);
    }

    fn unlink(&mut self, id: Id, dead: DeadNonce) {
        let chain = self.chain(dead.key);
        let mut at = self.head(chain);
        if at == id {
            return self.set_head(chain, dead.next);
        }
        while let Some(before) = self.nonce_mut(at) {
            if before.next == id {
                before.next = dead.next;
                return;
            }
            at = before.next;
        }
    }

    /// A slot for a Nonce: a free one, a new one, or that of the oldest Nonce.
    fn take(&mut self) -> Option<Id> {
        if self.free == NONE && !self.add_slot() {
            self.remove_oldest();
        }
        let id = self.free;
        self.free = self.nonce(id)?.next;
        Some(id)
    }

    /// Adds a free slot and a chain; returns false if the limit is reached or there is no memory.
    /// This allocates at most a page for each, and moves the Nonces of one chain.
    #[cold]
    fn add_slot(&mut self) -> bool {
        // The first chain has memory before the first slot: a Nonce needs a chain, and a free slot
        // would be used without another attempt to add one.
        if self.nonces.len() >= self.entries_max
            || self.heads.reserve(1).is_err()
            || self.nonces.push(DeadNonce::default()).is_err()
        {
            return false;
        }
        self.free(self.nonces.len() as Id);
        // Without memory for a further one, chains have more Nonces than intended: slower, but not
        // wrong.
        if self.heads.push(NONE).is_ok() {
            self.split(self.heads.len() - 1);
        }
        true
    }

    /// Moves the Nonces of the last chain into it, from the one chain that had them (linear
    /// hashing).
    fn split(&mut self, last: usize) {
        let from = chain_of(last as u64, last);
        // The first chain is itself, and empty.
        let mut id = self.head(from);
        let (mut stays, mut moves) = (NONE, NONE);
        while let Some(dead) = self.nonce_mut(id) {
            let list = if chain_of(dead.key, last + 1) == last { &mut moves } else { &mut stays };
            let next = core::mem::replace(&mut dead.next, core::mem::replace(list, id));
            id = next;
        }
        self.set_head(from, stays);
        self.set_head(last, moves);
    }

    fn free(&mut self, id: Id) {
        let next = core::mem::replace(&mut self.free, id);
        self.nonce_mut(id).into_iter().for_each(|dead| dead.next = next);
    }

    fn nonce(&self, id: Id) -> Option<&DeadNonce> {
        self.nonces.get((id as usize).wrapping_sub(1))
    }

    fn nonce_mut(&mut self, id: Id) -> Option<&mut DeadNonce> {
        self.nonces.get_mut((id as usize).wrapping_sub(1))
    }

    fn head(&self, chain: usize) -> Id {
        self.heads.get(chain).copied().unwrap_or(NONE)
    }

    fn set_head(&mut self, chain: usize, id: Id) {
        self.heads.get_mut(chain).into_iter().for_each(|head| *head = id);
    }

    fn chain(&self, key: u64) -> usize {
        chain_of(key, self.heads.len())
    }
}

/// The chain of a key among `count`: as many of its lowest bits as number all chains, or one bit
/// less if there is no such chain yet.
fn chain_of(key: u64, count: usize) -> usize {
    let mask = count.next_power_of_two() - 1;
    let chain = key as usize & mask;
    if chain < count { chain } else { chain & mask >> 1 }
}

fn key(name_hash: u64, nonce: [u8; 4]) -> u64 {
    mix(name_hash.wrapping_add(STEP.wrapping_mul(u64::from(u32::from_be_bytes(nonce)) + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries_max: usize, lifetime_ns: u64) -> DeadNonces<parking_lot::RawMutex> {
        DeadNonces::new(&DeadNonceLimits { entries_max, lifetime_ns }, 16).unwrap()
    }

    #[test]
    fn a_nonce_is_remembered_under_its_name() {
        let list = list(8, 100);
        list.add(1, [1, 2, 3, 4], 0);
        assert!(list.contains(1, [1, 2, 3, 4], 99));
        assert!(!list.contains(1, [1, 2, 3, 4], 100));
        assert!(!list.contains(1, [1, 2, 3, 5], 0));
        assert!(!list.contains(2, [1, 2, 3, 4], 0));
    }

    #[test]
    fn the_oldest_nonce_is_forgotten_first() {
        let list = list(4, 1000);
        (0..4).for_each(|n| list.add(7, [n; 4], 0));
        assert!((0..4).all(|n| list.contains(7, [n; 4], 1)));
        list.add(7, [4; 4], 1);
        assert_eq!(list.len(), 4);
        assert!(!list.contains(7, [0; 4], 1));
        assert!((1..5).all(|n| list.contains(7, [n; 4], 1)));
    }

    /// The list allocates nothing before its first Nonce, and reuses the slots of expired ones.
    #[test]
    fn memory_grows_with_the_nonces() {
        let list = list(1000, 100);
        let slots = |list: &DeadNonces<parking_lot::RawMutex>| {
            let ring = list.parts[0].ring.lock();
            (ring.nonces.len(), ring.heads.len())
        };
        let nonce = |n: usize| (n as u32).to_be_bytes();
        assert_eq!(slots(&list), (0, 0));
        // Beyond the first page of Nonces.
        let page = Pieces::<DeadNonce>::PER_PIECE;
        for n in 0..2 * page {
            list.add(1, nonce(n), 0);
            assert_eq!(slots(&list), (n + 1, n + 1));
            assert!((0..=n).all(|n| list.contains(1, nonce(n), 1)), "{n}");
        }
        (0..2 * page).for_each(|n| list.add(2, nonce(n), 100));
        assert_eq!((slots(&list), list.len()), ((2 * page, 2 * page), 2 * page));
        assert!((0..2 * page).all(|n| list.contains(2, nonce(n), 101) && !list.contains(1, nonce(n), 101)));
    }

    /// The work for one Nonce is that of its chain, and of the chain that is split.
    #[test]
    fn chains_stay_short_while_the_list_grows() {
        let list = list(1000, u64::MAX);
        for n in 0..1000u32 {
            list.add(1, n.to_be_bytes(), 0);
            let ring = list.parts[0].ring.lock();
            let chain = |chain| {
                let ids = core::iter::successors(Some(ring.head(chain)), |id| Some(ring.nonce(*id)?.next));
                ids.take_while(|id| *id != NONE).count()
            };
            assert_eq!((0..ring.heads.len()).map(chain).sum::<usize>(), n as usize + 1);
            assert!((0..ring.heads.len()).all(|number| chain(number) <= 12));
        }
    }

    #[test]
    fn a_repeated_nonce_gets_the_later_lifetime() {
        let list = list(4, 100);
        list.add(7, [1; 4], 0);
        list.add(7, [1; 4], 50);
        list.add(7, [2; 4], 120);
        assert!(list.contains(7, [1; 4], 120));
    }

    #[test]
    fn partitioned_nonces_leave_oldest_first() {
        let list = list(16 * PART_ENTRIES_MIN, 1000);
        assert_eq!(list.parts.len(), 16);
        let nonce = |n: u32| n.to_be_bytes();
        (0..100_000u32).for_each(|n| list.add(u64::from(n), nonce(n), u64::from(n)));
        assert!(list.len() <= 16 * PART_ENTRIES_MIN);
        assert!((99_500..100_000u32).all(|n| list.contains(u64::from(n), nonce(n), 100_000)));
        assert!(!list.contains(1, nonce(1), 100_000));
    }
}
