//! A call under way: waited for, tried or awaited.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::error::CallError;
use crate::sleep;

/// The result of a call that was started and is not over yet. A future that needs no particular
/// runtime. Dropping it gives the call up.
#[derive(Debug)]
pub struct Pending<T> {
    shared: Arc<Shared<T>>,
}

/// The end that brings the result; dropped without one, the call was cancelled.
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

/// Both ends of a call.
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
    /// Brings the result.
    pub(crate) fn complete(self, result: T) {
        self.shared.end(CallState::Done(result));
    }

    /// Returns true if nobody waits for the result any more.
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
    /// The result, waited for. A signal ends the wait with `EINTR`, time with `ETIMEDOUT`; the call
    /// goes on then, and may be waited for again.
    ///
    /// # Errors
    /// What the call ended with; `ETIMEDOUT` and `EINTR` if only the wait did.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<T, E> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        sleep::wait(self, until).unwrap_or_else(|stopped| Err(stopped.into()))
    }

    /// The result, if it is there; `EAGAIN` until then.
    ///
    /// # Errors
    /// What the call ended with, or `EAGAIN`.
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
