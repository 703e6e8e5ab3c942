//! The dead-nonce list: Nonces of Interests that are no longer pending, stored for a while so that
//! a looping Interest that outlived its PIT entry is still recognized.
//!
//! Names are not stored. A key mixes the Nonce into the name's keyed 64-bit hash. A false match can
//! only refuse an Interest once; its sender then retries with another Nonce.
//!
//! The list is in parts, chosen by the key, each with a lock of its own. A part is a ring: the
//! newest Nonce replaces the oldest. Memory is reserved when the list is made, and the cost of a
//! lookup does not depend on the number of Nonces.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::RawMutex;

use crate::error::ConfigError;
use crate::hash::NameHasher;
use crate::hash::{STEP, mix};
use crate::limits::{DeadNonceLimits, parts_of};
use crate::lock_order::LeafLock;
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
struct Ring {
    heads: Box<[Id]>,
    nonces: Vec<DeadNonce>,
    /// The index of the oldest, counted from 0.
    oldest: usize,
    len: usize,
    entries_max: usize,
}

#[derive(Clone, Copy)]
struct DeadNonce {
    key: u64,
    forgotten_at_ns: u64,
    /// The next of its chain; ids are indices counted from 1.
    next: Id,
}

impl<R: RawMutex> DeadNonces<R> {
    /// A list for `threads_max` threads.
    pub(crate) fn new(limits: &DeadNonceLimits, threads_max: usize) -> Result<Self, ConfigError> {
        let DeadNonceLimits { entries_max, lifetime_ns } = *limits;
        let parts = (entries_max / PART_ENTRIES_MIN).clamp(1, parts_of(threads_max));
        let (each, more) = (entries_max / parts, entries_max % parts);
        let mut rings = (0..parts).map(|i| Ring::new(each + usize::from(i < more)));
        let mut failed = None;
        let parts = boxed(parts, || {
            let ring = rings.next().unwrap_or(Err(ConfigError::OutOfMemory));
            let ring = ring.unwrap_or_else(|error| {
                failed = Some(error);
                Ring::none()
            });
            Part { ring: LeafLock::new(ring), len: AtomicU32::new(0) }
        })?;
        failed.map_or(Ok(DeadNonces { parts, lifetime_ns }), Err)
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
    fn new(entries_max: usize) -> Result<Self, ConfigError> {
        let mut nonces = Vec::new();
        nonces.try_reserve_exact(entries_max).map_err(|_| ConfigError::OutOfMemory)?;
        // As many chains as Nonces, so that each has about one.
        let heads = boxed(entries_max.next_power_of_two(), || NONE)?;
        Ok(Ring { heads, nonces, oldest: 0, len: 0, entries_max })
    }

    fn none() -> Self {
        Ring { heads: Box::new([]), nonces: Vec::new(), oldest: 0, len: 0, entries_max: 0 }
    }

    fn contains(&self, key: u64, now_ns: u64) -> bool {
        let mut id = self.heads[self.chain(key)];
        while let Some(dead) = self.nonces.get((id as usize).wrapping_sub(1)) {
            if dead.key == key && dead.forgotten_at_ns > now_ns {
                return true;
            }
            id = dead.next;
        }
        false
    }

    /// Adds a Nonce at the end; the ring has room.
    fn add(&mut self, key: u64, forgotten_at_ns: u64) {
        let index = (self.oldest + self.len) % self.entries_max;
        let chain = self.chain(key);
        let dead = DeadNonce { key, forgotten_at_ns, next: self.heads[chain] };
        match self.nonces.get_mut(index) {
            Some(old) => *old = dead,
            None => self.nonces.push(dead),
        }
        self.heads[chain] = index as Id + 1;
        self.len += 1;
    }

    /// Makes room for one: removes expired Nonces, and the oldest if the ring is full. At most two
    /// in one call, so that no single packet pays for many.
    fn forget(&mut self, now_ns: u64) {
        for _ in 0..2 {
            let Some(oldest) = self.nonces.get(self.oldest).filter(|_| self.len > 0).copied() else { return };
            if oldest.forgotten_at_ns > now_ns && self.len < self.entries_max {
                return;
            }
            self.unlink(self.oldest as Id + 1, oldest);
            self.oldest = (self.oldest + 1) % self.entries_max;
            self.len -= 1;
        }
    }

    fn unlink(&mut self, id: Id, dead: DeadNonce) {
        let chain = self.chain(dead.key);
        if self.heads[chain] == id {
            self.heads[chain] = dead.next;
            return;
        }
        let mut at = self.heads[chain];
        while let Some(before) = self.nonces.get_mut((at as usize).wrapping_sub(1)) {
            if before.next == id {
                before.next = dead.next;
                return;
            }
            at = before.next;
        }
    }

    fn chain(&self, key: u64) -> usize {
        key as usize & (self.heads.len() - 1)
    }
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
