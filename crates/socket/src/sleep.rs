//! Blocks a thread until a future is ready. The thread waits on a descriptor of its own, so that a
//! timeout or a signal ends the wait (EINTR).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use namely_host::Waker;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::error::CallError;

thread_local! {
    /// One waker for each thread that ever waited. A wake-up left over from an earlier wait only
    /// causes another poll of the future.
    static WAKER: Option<Waker> = Waker::new().ok();
}

/// Waits until `future` is ready, at most until `until`. A signal that this thread handles ends the
/// wait even with SA_RESTART, as on a socket with a receive timeout. The caller may wait for the
/// future again.
pub(crate) fn wait<F: Future + Unpin>(
    future: &mut F,
    until: Option<Instant>,
) -> Result<F::Output, CallError> {
    let Some(waker) = WAKER.with(Clone::clone) else { return Err(CallError::System(Errno::MFILE)) };
    let task = waker.clone().into();
    let mut context = Context::from_waker(&task);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut *future).poll(&mut context) {
            return Ok(output);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(CallError::TimedOut);
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut [PollFd::new(&waker, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Err(CallError::Interrupted),
            Err(errno) => return Err(CallError::System(errno)),
        }
        waker.reset();
    }
}
