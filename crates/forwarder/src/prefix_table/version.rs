//! A version lock: readers take no lock and write to no memory; they repeat a read that a writer
//! has disturbed.
//!
//! The guarded memory is atomic, so a reader may see any mixture of old and new words, but no
//! undefined ones. Each reader must therefore end and stay within bounds in any case.

use lock_api::{Mutex, RawMutex};

use crate::sync::{AtomicU64, Ordering, fence, spin_loop};

/// Attempts without the lock. After them the reader waits on the lock instead of spinning, because
/// the writer may be preempted.
const ATTEMPTS: usize = 8;

/// Odd during a write.
#[derive(Debug)]
pub(super) struct Version(AtomicU64);

impl Version {
    pub(super) fn new() -> Self {
        Version(AtomicU64::new(0))
    }

    /// The result of `read` for a state without a writer. Writers hold `control`.
    pub(super) fn read<R: RawMutex, C, T>(&self, control: &Mutex<R, C>, read: impl Fn() -> T) -> T {
        for _ in 0..ATTEMPTS {
            // Acquire pairs with the Release at the end of a write: `read` sees the words of that
            // write or later ones.
            let before = self.0.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let seen = read();
                // No load in `read` moves behind the second load of the version. If `read` has seen
                // a writer's word, that load sees its version, by the fence of `write`.
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

    /// Begins a write, which ends on drop; the caller holds the lock that excludes other writers.
    pub(super) fn write(&self) -> WriteGuard<'_> {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // A reader that sees a changed word also sees the odd version.
        fence(Ordering::Release);
        WriteGuard(&self.0)
    }
}

/// A write in progress.
pub(super) struct WriteGuard<'a>(&'a AtomicU64);

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}
