//! Health of the disk: its last fault, and whether writes are suspended because of it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::TierError;

/// The disk's last fault and its consequences.
#[derive(Debug, Default)]
pub(crate) struct Health {
    fault: Mutex<Option<String>>,
    /// End of the suspension of writes.
    rests_until: Mutex<Option<Instant>>,
    is_resting: AtomicBool,
    /// The first fault because of which data written since the last requested synchronization may
    /// be missing on the disk. Kept apart from `fault`, which a later success clears.
    doubt: Mutex<Option<String>>,
}

impl Health {
    /// Returns the last fault; none while the disk works.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().clone()
    }

    /// Records a fault of the disk. A repeated fault is logged once.
    pub(crate) fn note_fault(&self, folder: &Path, error: &TierError) {
        let message = error.to_string();
        let mut fault = self.fault.lock();
        if fault.as_ref() != Some(&message) {
            tracing::warn!(folder = %folder.display(), error = %message, "the content store's disk");
            *fault = Some(message);
        }
    }

    /// Clears the fault: the disk works.
    pub(crate) fn clear_fault(&self) {
        *self.fault.lock() = None;
    }

    /// Returns whether writes are suspended.
    pub(crate) fn is_resting(&self) -> bool {
        // Each write checks this flag, without the lock of the time. Relaxed: a stale value only
        // refuses or accepts a few packets more.
        self.is_resting.load(Ordering::Relaxed)
    }

    /// Suspends writes for `length`.
    pub(crate) fn rest(&self, length: Duration) {
        *self.rests_until.lock() = Some(Instant::now() + length);
        self.is_resting.store(true, Ordering::Relaxed);
    }

    /// Ends the suspension of writes when its time is over.
    pub(crate) fn end_rest(&self) {
        let mut rests_until = self.rests_until.lock();
        if rests_until.is_some_and(|until| until <= Instant::now()) {
            *rests_until = None;
            self.is_resting.store(false, Ordering::Relaxed);
        }
    }

    /// Records that written data may be missing on the disk, because of `error`.
    pub(crate) fn doubt(&self, error: &TierError) {
        self.doubt.lock().get_or_insert_with(|| error.to_string());
    }

    /// Returns the first fault that `doubt` recorded since the last call of this function. Each
    /// doubt fails one synchronization only.
    pub(crate) fn take_doubt(&self) -> Option<String> {
        self.doubt.lock().take()
    }
}
