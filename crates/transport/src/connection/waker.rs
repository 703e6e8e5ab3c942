//! How another thread ends a connection's wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Ends the wait of the [`Connection`](super::Connection) that it belongs to, from any thread. A wait that is yet to
/// begin ends at once.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    eventfd: OwnedFd,
    /// Whether the connection was woken and has not noticed yet: then another system call would change nothing.
    raised: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> Result<Self, Errno> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(Shared { eventfd, raised: AtomicBool::new(false) })))
    }

    /// Does so. What the caller wrote before, the connection's thread sees after its turn.
    pub fn wake(&self) {
        if !self.0.raised.swap(true, Ordering::AcqRel) {
            // The only failure is a counter that is full, and then the connection is awake already.
            let _ = rustix::io::write(&self.0.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Notices that it was woken.
    pub(super) fn lower(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0.eventfd, &mut count);
        self.0.raised.store(false, Ordering::Release);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }
}
