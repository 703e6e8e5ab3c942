//! The sockets of the process, and its open objects, by their numbers: tables of a fixed number of
//! slots.
//!
//! A number consists of a slot and the number of times that the slot was released. So the number of
//! a closed socket stays unknown (EBADF) when its slot is reused. A child of fork never waits for a
//! lock that a thread of its parent held: the process that owns a slot is read before the lock is
//! taken.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::failure::Errno;

/// A table of `SLOTS` slots, a power of two. Each item belongs to the process that inserted it.
pub(crate) struct Table<T, const SLOTS: usize> {
    slots: [TableSlot<T>; SLOTS],
}

struct TableSlot<T> {
    /// The process that uses the slot; 0 if it is free.
    process: AtomicU32,
    held: Mutex<TableEntry<T>>,
}

struct TableEntry<T> {
    round: u32,
    item: Option<Arc<T>>,
}

impl<T, const SLOTS: usize> Table<T, SLOTS> {
    const SLOT_BITS: u32 = {
        assert!(SLOTS.is_power_of_two());
        SLOTS.trailing_zeros()
    };

    /// Number of releases of a slot before one of its numbers is used again.
    const ROUNDS: u32 = 1 << (31 - Self::SLOT_BITS);

    pub(crate) const fn new() -> Self {
        // Rounds begin at 1, so that no number is 0, 1 or 2: these descriptors are not taken for
        // sockets if they are passed by mistake.
        let slots = [const {
            TableSlot { process: AtomicU32::new(0), held: Mutex::new(TableEntry { round: 1, item: None }) }
        }; SLOTS];
        Table { slots }
    }

    /// Puts `item` into a free slot; returns its number. EMFILE if there is none.
    pub(crate) fn insert(&self, item: T) -> Result<i32, Errno> {
        for (i, slot) in self.slots.iter().enumerate() {
            if slot.process.load(Ordering::Acquire) != 0 {
                continue;
            }
            // If the lock is held, another thread is taking the slot, here or in the parent before
            // a fork.
            let Some(mut held) = try_lock(&slot.held) else { continue };
            if held.item.is_none() {
                held.item = Some(Arc::new(item));
                slot.process.store(std::process::id(), Ordering::Release);
                return Ok((held.round << Self::SLOT_BITS | i as u32) as i32);
            }
        }
        Err(Errno(libc::EMFILE))
    }

    /// The item of a number. EBADF if there is none, EBADFD if it is the parent's.
    pub(crate) fn get(&self, number: i32) -> Result<Arc<T>, Errno> {
        let held = self.find(number)?;
        held.item.clone().ok_or(Errno(libc::EBADF))
    }

    /// Takes the item out.
    pub(crate) fn remove(&self, number: i32) -> Result<Arc<T>, Errno> {
        let mut held = self.find(number)?;
        let item = held.item.take().ok_or(Errno(libc::EBADF))?;
        held.round = if held.round + 1 < Self::ROUNDS { held.round + 1 } else { 1 };
        let (_, slot) = self.slot(number)?;
        slot.process.store(0, Ordering::Release);
        Ok(item)
    }

    fn slot(&self, number: i32) -> Result<(u32, &TableSlot<T>), Errno> {
        let number = u32::try_from(number).map_err(|_| Errno(libc::EBADF))?;
        let slot = &self.slots[number as usize % SLOTS];
        Ok((number >> Self::SLOT_BITS, slot))
    }

    fn find(&self, number: i32) -> Result<MutexGuard<'_, TableEntry<T>>, Errno> {
        let (round, slot) = self.slot(number)?;
        match slot.process.load(Ordering::Acquire) {
            0 => return Err(Errno(libc::EBADF)),
            process if process != std::process::id() => return Err(Errno(libc::EBADFD)),
            _ => {}
        }
        let held = slot.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if held.round == round { Ok(held) } else { Err(Errno(libc::EBADF)) }
    }
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ICN_OPEN_MAX, ICN_SOCKETS_MAX};

    type Table<T> = super::Table<T, ICN_SOCKETS_MAX>;

    #[test]
    fn a_closed_sockets_number_stays_invalid() {
        let table = Table::new();
        let first = table.insert("first").unwrap();
        assert_eq!(*table.get(first).unwrap(), "first");
        assert_eq!(*table.remove(first).unwrap(), "first");
        let second = table.insert("second").unwrap();
        assert_ne!(first, second, "the same slot, another number");
        assert_eq!(table.get(first).unwrap_err(), Errno(libc::EBADF));
        assert_eq!(table.remove(first).unwrap_err(), Errno(libc::EBADF));
        assert_eq!(*table.get(second).unwrap(), "second");
        for never in [-1, 0, 1, 2, i32::MAX, i32::MIN] {
            assert_eq!(table.get(never).unwrap_err(), Errno(libc::EBADF), "{never}");
        }
    }

    #[test]
    fn the_table_reuses_its_1024_slots() {
        let table = Table::new();
        let numbers: Vec<i32> = (0..ICN_SOCKETS_MAX).map(|i| table.insert(i).unwrap()).collect();
        assert_eq!(table.insert(0).unwrap_err(), Errno(libc::EMFILE));
        table.remove(numbers[500]).unwrap();
        table.insert(7).unwrap();
        assert_eq!(table.insert(0).unwrap_err(), Errno(libc::EMFILE));
    }

    #[test]
    fn the_table_holds_16384_open_objects() {
        let table = super::Table::<_, ICN_OPEN_MAX>::new();
        for i in 0..ICN_OPEN_MAX {
            table.insert(i).unwrap();
        }
        assert_eq!(table.insert(0).unwrap_err(), Errno(libc::EMFILE));
    }

    #[test]
    fn numbers_wrap_after_two_million_rounds() {
        let table = Table::new();
        let mut largest = 0;
        let first = table.insert(()).unwrap();
        table.remove(first).unwrap();
        for _ in 1..Table::<()>::ROUNDS {
            let number = table.insert(()).unwrap();
            largest = largest.max(number);
            table.remove(number).unwrap();
        }
        assert!(largest > i32::MAX - 2 * ICN_SOCKETS_MAX as i32);
        assert_eq!(table.insert(()).unwrap(), first + ICN_SOCKETS_MAX as i32);
    }

    #[test]
    fn a_slot_of_another_process_is_refused() {
        let table = Table::new();
        let number = table.insert(()).unwrap();
        table.slots[0].process.store(std::process::id() + 1, Ordering::Release);
        assert_eq!(table.get(number).unwrap_err(), Errno(libc::EBADFD));
        assert_eq!(table.remove(number).unwrap_err(), Errno(libc::EBADFD));
    }
}
