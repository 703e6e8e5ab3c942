//! Keys of names that are not in a packet's Name: those of control calls, and of a forwarding hint
//! outside a batch.
//!
//! Their hashes are too large for a small stack. So they are in work memory that all such calls
//! share. Its lock is taken before that of any table.

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_wire::{NameRef, PACKET_OCTETS_MAX};

use crate::error::ConfigError;
use crate::hash::{NameHasher, NameHashes};
use crate::lock_order::{NameGuard, NameLock};
use crate::ordered::NoMemory;
use crate::pool::boxed;
use crate::prefix_table::{Key, NameOctets};

/// Makes keys of names.
pub(crate) struct NameKeys<R> {
    pub(crate) hasher: NameHasher,
    work: NameLock<R, Work>,
}

/// Work memory for one name.
pub(crate) struct Work {
    hashes: Box<[NameHashes]>,
    /// The octets of a name that is read from a table: as many as the longest name has that was
    /// entered into one.
    pub(crate) octets: Vec<u8>,
}

impl Work {
    pub(crate) fn new() -> Result<Self, ConfigError> {
        // On the heap, because over a kilobyte of hashes is too much for a small stack.
        Ok(Work { hashes: boxed(1, NameHashes::new)?, octets: Vec::new() })
    }

    /// Makes sure that a name of `octets` octets can be read from a table.
    pub(crate) fn make_room(&mut self, octets: usize) -> Result<(), NoMemory> {
        if octets > self.octets.len() {
            self.octets.try_reserve(octets - self.octets.len()).map_err(|_| NoMemory)?;
            self.octets.resize(octets, 0);
        }
        Ok(())
    }

    /// Memory for the hashes of a name.
    pub(crate) fn hashes(&mut self) -> &mut NameHashes {
        &mut self.hashes[0]
    }

    /// Both parts at once.
    pub(crate) fn parts(&mut self) -> (&mut NameHashes, &mut NameOctets) {
        (&mut self.hashes[0], &mut self.octets[..])
    }
}

impl<R: RawMutex> NameKeys<R> {
    pub(crate) fn new(hasher: NameHasher) -> Result<Self, ConfigError> {
        Ok(NameKeys { hasher, work: NameLock::new(Work::new()?) })
    }

    /// Runs `with` on the key of `name`. `with` must be short and must make no other key, because
    /// the lock of the work memory of all control calls is held.
    pub(crate) fn with<T>(&self, name: NameRef<'_>, with: impl FnOnce(Key<'_>) -> T) -> T {
        with(Key::filled(&self.hasher, name, self.work.lock().hashes()))
    }

    /// As `with`, for a name that enters a table, from which it is read later.
    pub(crate) fn with_entering<T>(
        &self,
        name: NameRef<'_>,
        with: impl FnOnce(Key<'_>) -> T,
    ) -> Result<T, NoMemory> {
        let mut work = self.work.lock();
        work.make_room(name.as_bytes().len())?;
        Ok(with(Key::filled(&self.hasher, name, work.hashes())))
    }

    /// Allocates the memory to read names of any length from a table, under the lock.
    pub(crate) fn prepare(&self) -> Result<(), ConfigError> {
        self.work.lock().make_room(PACKET_OCTETS_MAX).map_err(|_| ConfigError::OutOfMemory)
    }

    /// The work memory, for a walk or for the names of a forwarding hint.
    pub(crate) fn work(&self) -> NameGuard<'_, R, Work> {
        self.work.lock()
    }
}
