//! A call in progress. The caller waits for its result, polls it without waiting, or awaits it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::error::CallError;
use crate::sleep;

/// The result of a call in progress. It is a future for any async runtime. Dropping it abandons the
/// call.
#[derive(Debug)]
pub struct Pending<T> {
    shared: Arc<Shared<T>>,
}

/// The end that delivers the result. Dropping it without a result cancels the call.
#[derive(Debug)]
pub(crate) struct Promise<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<CallState<T>>,
    abandoned: AtomicBool,
}

#[derive(Debug)]
enum CallState<T> {
    Running(Option<Waker>),
    Done(T),
    Cancelled,
    Taken,
}

/// Creates both ends of a call.
pub(crate) fn call<T>() -> (Promise<T>, Pending<T>) {
    let shared =
        Arc::new(Shared { state: Mutex::new(CallState::Running(None)), abandoned: AtomicBool::new(false) });
    (Promise { shared: shared.clone() }, Pending { shared })
}

impl<T> Shared<T> {
    fn end(&self, with: CallState<T>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let CallState::Running(waker) = &mut *state {
            let waker = waker.take();
            *state = with;
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Promise<T> {
    /// Delivers the result.
    pub(crate) fn complete(self, result: T) {
        self.shared.end(CallState::Done(result));
    }

    /// Returns true if the result is no longer awaited.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.shared.abandoned.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.shared.end(CallState::Cancelled);
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }
}

impl<T, E: From<CallError>> Pending<Result<T, E>> {
    /// Waits for the result. A signal ends the wait with `EINTR`, the timeout with `ETIMEDOUT`. The
    /// call continues in both cases, and the caller may wait again.
    ///
    /// # Errors
    /// The error of the call; `ETIMEDOUT` or `EINTR` if only the wait ended.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<T, E> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        sleep::wait(self, until).unwrap_or_else(|stopped| Err(stopped.into()))
    }

    /// Returns the result if it is available; `EAGAIN` until then.
    ///
    /// # Errors
    /// The error of the call, or `EAGAIN`.
    pub fn try_take(&mut self) -> Result<T, E> {
        match Pin::new(self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(CallError::WouldBlock.into()),
        }
    }
}

impl<T, E: From<CallError>> Future for Pending<Result<T, E>> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, CallState::Taken) {
            CallState::Done(result) => Poll::Ready(result),
            CallState::Cancelled | CallState::Taken => Poll::Ready(Err(CallError::Closed.into())),
            CallState::Running(_) => {
                *state = CallState::Running(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}
