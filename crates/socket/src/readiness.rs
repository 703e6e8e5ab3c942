//! A descriptor that is readable as long as something is there: sockets in anybody's event loop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Level-triggered; its owner sets it under the lock of what it tells about, and nobody has to read it.
#[derive(Debug)]
pub(crate) struct Readiness {
    fd: OwnedFd,
    ready: bool,
}

impl Readiness {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Readiness { fd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?, ready: false })
    }

    /// Makes it readable, or not.
    pub(crate) fn set(&mut self, ready: bool) {
        if ready == self.ready {
            return;
        }
        self.ready = ready;
        let mut count = 1u64.to_ne_bytes();
        // Neither fails: the counter is 0 or 1.
        let _ = match ready {
            true => rustix::io::write(&self.fd, &count),
            false => rustix::io::read(&self.fd, &mut count),
        };
    }

    /// Another descriptor of the same, to hand out.
    pub(crate) fn duplicate(&self) -> Result<OwnedFd, Errno> {
        rustix::io::fcntl_dupfd_cloexec(&self.fd, 0)
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
