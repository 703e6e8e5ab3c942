//! A descriptor that is readable while an item is available, for any event loop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use namely_host::Waker;
use rustix::io::Errno;

/// The readiness of some state. It is level-triggered: the owner sets it under the lock of this
/// state, and the application need not read from the descriptor.
#[derive(Debug)]
pub(crate) struct Readiness {
    waker: Waker,
    ready: bool,
}

impl Readiness {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Readiness { waker: Waker::new()?, ready: false })
    }

    /// Makes it readable, or not.
    pub(crate) fn set(&mut self, ready: bool) {
        if ready == self.ready {
            return;
        }
        self.ready = ready;
        if ready { self.waker.wake() } else { self.waker.reset() }
    }

    /// Duplicates the descriptor for the application.
    pub(crate) fn duplicate(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.waker, 0)
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
