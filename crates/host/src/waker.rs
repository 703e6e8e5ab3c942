//! An eventfd by which one thread ends the wait of another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Ends a wait on its descriptor, which is readable from [`Waker::wake`] to [`Waker::reset`].
/// Clones wake the same waiter; any thread may wake, one thread waits and resets.
///
/// As a [`std::task::Waker`] it converts the wait for a future into a wait for a descriptor.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    eventfd: OwnedFd,
    /// Whether the waiter was woken and has not reset yet. Then a further wake-up makes no system
    /// call.
    raised: AtomicBool,
}

impl Waker {
    /// A waker whose descriptor is not readable yet.
    ///
    /// # Errors
    /// The environment's: the process or the system has no descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(Shared { eventfd, raised: AtomicBool::new(false) })))
    }

    /// Ends the wait; a wait that has yet to begin ends at once. Several calls before
    /// [`Waker::reset`] count as one. The caller's earlier writes are visible to the waiter after
    /// its reset.
    pub fn wake(&self) {
        self.0.raise();
    }

    /// Makes the descriptor unreadable. The waiter calls it after each wait, and then checks
    /// everything for which it may have been woken.
    pub fn reset(&self) {
        // The count is read before the flag is cleared. In the other order, a wake-up in between
        // would set the flag, lose its count here, and suppress all later ones. In this order, a
        // wake-up in between finds the flag set and writes nothing. Its data is visible
        // nevertheless: `swap` acquires it, and the waiter checks afterwards.
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.0.eventfd, &mut count);
        self.0.raised.swap(false, Ordering::AcqRel);
    }
}

impl Shared {
    fn raise(&self) {
        // Release: earlier writes are visible to the reset that clears this flag.
        if !self.raised.swap(true, Ordering::AcqRel) {
            // The only failure is a counter that is full, and then the waiter is awake already.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.raise();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.raise();
    }
}

impl From<Waker> for std::task::Waker {
    fn from(waker: Waker) -> Self {
        waker.0.into()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.eventfd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(waker: &Waker, timeout: Duration) -> bool {
        let timeout = Timespec::try_from(timeout).unwrap();
        poll(&mut [PollFd::new(waker, PollFlags::IN)], Some(&timeout)) == Ok(1)
    }

    #[test]
    fn a_waker_is_readable_until_its_reset() {
        let waker = Waker::new().unwrap();
        assert!(!is_readable(&waker, Duration::ZERO));
        for _ in 0..2 {
            waker.wake();
            waker.clone().wake();
            std::task::Waker::from(waker.clone()).wake_by_ref();
            assert!(is_readable(&waker, Duration::ZERO));
            waker.reset();
            assert!(!is_readable(&waker, Duration::ZERO));
        }
    }

    #[test]
    fn a_check_after_reset_misses_no_wake() {
        const COUNT: u64 = 50_000;
        let (waker, wakes) = (Waker::new().unwrap(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..COUNT {
                        // Relaxed: the waker orders it.
                        wakes.fetch_add(1, Ordering::Relaxed);
                        waker.wake();
                    }
                });
            }
            let mut seen = 0;
            while seen < 2 * COUNT {
                assert!(is_readable(&waker, Duration::from_secs(20)), "not woken after {seen}");
                waker.reset();
                seen = wakes.load(Ordering::Relaxed);
            }
        });
    }
}
