//! The order of the core's locks, in types. Each lock has its level in its type. So the declaration
//! of a table documents the locks under which its own lock may be taken. [`Lock::lock_under`]
//! compiles only if the order is respected.
//!
//! From the outermost to the innermost:
//!
//! 1. [`RibLock`]: the RIB of a [`crate::Router`]. All others may be taken under it.
//! 2. [`NameLock`]: the work memory for the names of control calls. Under it, those of PIT and
//!    content store, of writers, of the strategies' memory, and of discovery may be taken.
//! 3. `ExchangeLock`: the exchange of catalogues of objects. Under it, that of writers may be
//!    taken.
//! 4. Those of the PIT (`pit`): a bucket (of two, that of the earlier stage first), then an entry.
//!    Under an entry, those of writers, of the strategies' memory and of discovery, and the PIT's
//!    own stripes, wheels and grants may be taken.
//! 5. [`WriterLock`]: the writers of FIB, BPT, strategy choice, and names of objects. Under it,
//!    that of the strategies' memory may be taken.
//! 6. [`MemoryLock`]: a part of the strategies' memory. Nothing is taken under it.
//! 7. [`ReleasedFacesLock`]: released faces. Under it, the grants of the PIT may be taken.
//! 8. [`LeafLock`]: dead Nonces, discovery, announcements, regions, the list of faces. Nothing is
//!    taken under it.
//!
//! The locks of the content store (a bucket and then a Data; the policy, alone) are taken under no
//! lock but the first three, and no other lock is taken under them. Packets are sent
//! ([`crate::Output::send`]) with no lock held, so that the embedder may call back.
//!
//! Readers of FIB, BPT, strategy choice and the names of objects take no lock. A reader that was
//! disturbed by writers eight times takes the writers' lock once. That may be under a PIT entry, so
//! writers never look up a pending Interest.

use core::ops::{Deref, DerefMut};

use lock_api::{Mutex, MutexGuard, RawMutex};

use crate::pit::entry::PitEntry;

const RIB: u8 = 1;
const NAME: u8 = 2;
#[cfg(feature = "vip")]
const EXCHANGE: u8 = 3;
const PIT_ENTRY: u8 = 4;
const WRITER: u8 = 5;
const MEMORY: u8 = 6;
const DEPARTED: u8 = 7;
const LEAF: u8 = 8;

/// See the module.
pub(crate) type RibLock<R, T> = Lock<R, T, RIB>;
/// See the module.
pub(crate) type NameLock<R, T> = Lock<R, T, NAME>;
/// See the module.
#[cfg(feature = "vip")]
pub(crate) type ExchangeLock<R, T> = Lock<R, T, EXCHANGE>;
/// See the module.
pub(crate) type WriterLock<R, T> = Lock<R, T, WRITER>;
/// See the module.
pub(crate) type MemoryLock<R, T> = Lock<R, T, MEMORY>;
/// See the module.
pub(crate) type ReleasedFacesLock<R, T> = Lock<R, T, DEPARTED>;
/// See the module.
pub(crate) type LeafLock<R, T> = Lock<R, T, LEAF>;

pub(crate) type NameGuard<'a, R, T> = Guard<'a, R, T, NAME>;
#[cfg(feature = "vip")]
pub(crate) type ExchangeGuard<'a, R, T> = Guard<'a, R, T, EXCHANGE>;
pub(crate) type MemoryGuard<'a, R, T> = Guard<'a, R, T, MEMORY>;
pub(crate) type LeafGuard<'a, R, T> = Guard<'a, R, T, LEAF>;

/// A lock of a level.
pub(crate) struct Lock<R, T, const LEVEL: u8>(Mutex<R, T>);

/// The guard of a lock of a level.
pub(crate) struct Guard<'a, R: RawMutex, T, const LEVEL: u8>(MutexGuard<'a, R, T>);

/// Proves that a lock of the level is held.
pub(crate) trait LockProof<const LEVEL: u8> {}

impl<R: RawMutex, T, const LEVEL: u8> LockProof<LEVEL> for Guard<'_, R, T, LEVEL> {}

/// A thread that has a reference to an entry has locked it, or has taken it out of the table and is
/// its only owner.
impl<B> LockProof<PIT_ENTRY> for PitEntry<B> {}

impl<R: RawMutex, T, const LEVEL: u8> Lock<R, T, LEVEL> {
    pub(crate) fn new(value: T) -> Self {
        Lock(Mutex::new(value))
    }

    /// Takes the lock. The caller holds no other lock, or only locks of lower levels that the
    /// module documentation allows.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Guard<'_, R, T, LEVEL> {
        Guard(self.0.lock())
    }

    /// Takes the lock under another one, which must be of a lower level.
    #[inline(always)]
    pub(crate) fn lock_under<const OUTER: u8>(
        &self,
        outer: &impl LockProof<OUTER>,
    ) -> Guard<'_, R, T, LEVEL> {
        // At compile time, so that the order costs nothing at run time.
        const { assert!(OUTER < LEVEL, "a lock is taken under one of a lower level") };
        // Only the type is needed: a value of it exists while the outer lock is held.
        let _ = outer;
        Guard(self.0.lock())
    }

    /// Takes the lock if it is free: for a caller that must not wait.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, R, T, LEVEL>> {
        self.0.try_lock().map(Guard)
    }

    /// The mutex, for a lock-free reader that was disturbed by too many writers.
    #[inline(always)]
    pub(crate) fn mutex(&self) -> &Mutex<R, T> {
        &self.0
    }
}

impl<R: RawMutex, T, const LEVEL: u8> Deref for Guard<'_, R, T, LEVEL> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<R: RawMutex, T, const LEVEL: u8> DerefMut for Guard<'_, R, T, LEVEL> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Raw = parking_lot::RawMutex;

    #[test]
    fn locks_are_taken_in_level_order() {
        let (rib, leaf) = (RibLock::<Raw, u8>::new(1), LeafLock::<Raw, u8>::new(2));
        let outer = rib.lock();
        *leaf.lock_under(&outer) += *outer;
        assert_eq!(*leaf.lock(), 3);
        assert!(rib.try_lock().is_none(), "the outer one is still held");
    }
}
