//! How a thread waits for a future: on a descriptor of its own, so that a time limit and a signal end the wait (EINTR).

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;

use crate::error::CallError;

/// Wakes one waiting thread.
struct Bell(OwnedFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The only failure is a counter that is full, and then the thread is awake already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

thread_local! {
    /// One for each thread that ever waited. A stale ring only makes a wait look again.
    static BELL: Option<Arc<Bell>> =
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok().map(|fd| Arc::new(Bell(fd)));
}

/// Waits until `future` is ready, `until` at most. A signal that this thread handles ends the wait, whatever SA_RESTART
/// says, as on a socket with a receive timeout. The future may be waited for again.
pub(crate) fn wait<F: Future + Unpin>(
    future: &mut F,
    until: Option<Instant>,
) -> Result<F::Output, CallError> {
    let Some(bell) = BELL.with(Clone::clone) else { return Err(CallError::System(Errno::MFILE)) };
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut *future).poll(&mut context) {
            return Ok(output);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(CallError::TimedOut);
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut [PollFd::new(&bell.0, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Err(CallError::Interrupted),
            Err(errno) => return Err(CallError::System(errno)),
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&bell.0, &mut count);
    }
}
