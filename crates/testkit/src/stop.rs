//! A flag for threads that a test starts.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when dropped, so that threads end even if the test fails.
#[derive(Debug)]
pub struct SetWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
