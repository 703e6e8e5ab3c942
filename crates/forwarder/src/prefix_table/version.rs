//! A version lock: readers take no lock and write to no memory; they read again if a writer was at
//! work meanwhile.
//!
//! The memory that it guards is atomic, so what a reader sees in between is old or new words in any
//! mixture, never undefined; each reader must therefore end and stay within bounds whatever it
//! sees.

use lock_api::{Mutex, RawMutex};

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

/// Attempts without the lock. A writer that was put to sleep at work is then waited for instead of
/// spun at.
const ATTEMPTS: usize = 8;

/// Odd while a writer is at work.
#[derive(Debug)]
pub(super) struct Version(AtomicU64);

impl Version {
    pub(super) fn new() -> Self {
        Version(AtomicU64::new(0))
    }

    /// What `read` returns for a state without a writer. Writers hold `control`.
    pub(super) fn read<R: RawMutex, C, T>(&self, control: &Mutex<R, C>, read: impl Fn() -> T) -> T {
        for _ in 0..ATTEMPTS {
            // Acquire pairs with the Release at the end of a write: what `read` sees is no older.
            let before = self.0.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let seen = read();
                // No read of `read` moves behind the second look at the version; if one has seen a
                // word of a writer, so does the look, by the fence of `write`.
                fence(Ordering::Acquire);
                if self.0.load(Ordering::Relaxed) == before {
                    return seen;
                }
            }
            spin_loop();
        }
        let _no_writer = control.lock();
        read()
    }

    /// Begins to write; the caller holds the lock that excludes other writers. Ends when dropped.
    pub(super) fn write(&self) -> Writing<'_> {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // No word is seen changed by who has not seen that the version is odd.
        fence(Ordering::Release);
        Writing(&self.0)
    }
}

/// A writer at work.
pub(super) struct Writing<'a>(&'a AtomicU64);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}
