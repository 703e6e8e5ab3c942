//! An eventfd by which another thread ends the loop's sleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Wakes an event loop. Clones wake the same one.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Waker { fd: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?) })
    }

    /// Makes the loop call [`crate::Handler::woken`] soon. Several calls before that are one.
    pub fn wake(&self) {
        // The only failure is a counter that is full, and then the loop is awake already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Forgets earlier calls of `wake`.
    pub(crate) fn reset(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.fd, &mut count);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
