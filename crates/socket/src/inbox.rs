//! A queue of items that wait for the application. Any thread may take them, and event loops may
//! wait for its descriptor. The thread that adds items bounds their number.

use std::collections::VecDeque;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;

use crate::error::CallError;
use crate::readiness::Readiness;

/// The queue.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    state: Mutex<Items<T>>,
    /// The descriptor that `AsFd` returns; readable when a take would not block.
    fd: OwnedFd,
}

#[derive(Debug)]
struct Items<T> {
    items: VecDeque<T>,
    waiting: Vec<Waker>,
    readiness: Readiness,
    closed: Option<CallError>,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Result<Self, Errno> {
        let readiness = Readiness::new()?;
        let fd = readiness.duplicate()?;
        let state = Items { items: VecDeque::new(), waiting: Vec::new(), readiness, closed: None };
        Ok(Inbox { state: Mutex::new(state), fd })
    }

    fn lock(&self) -> MutexGuard<'_, Items<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds `item`. The caller bounds the number of items.
    pub(crate) fn put(&self, item: T) {
        self.put_all([item]);
    }

    /// Adds several items, and wakes the waiting threads once.
    pub(crate) fn put_all(&self, items: impl IntoIterator<Item = T>) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        state.items.extend(items);
        let ready = !state.items.is_empty();
        state.readiness.set(ready);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Closes the queue. Waiting and later takes return `why`.
    pub(crate) fn close(&self, why: CallError) {
        let mut state = self.lock();
        state.closed.get_or_insert(why);
        state.items.clear();
        state.readiness.set(true);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Takes the oldest item, as a future.
    pub(crate) fn take(&self) -> TakeFuture<'_, T> {
        TakeFuture(self)
    }

    /// Takes the oldest item, or returns `EAGAIN`.
    pub(crate) fn try_take(&self) -> Result<T, CallError> {
        let mut state = self.lock();
        state.take().unwrap_or(Err(CallError::WouldBlock))
    }
}

impl<T> Items<T> {
    fn take(&mut self) -> Option<Result<T, CallError>> {
        if let Some(why) = self.closed {
            return Some(Err(why));
        }
        let item = self.items.pop_front()?;
        self.readiness.set(!self.items.is_empty());
        Some(Ok(item))
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// See [`Inbox::take`].
pub(crate) struct TakeFuture<'a, T>(&'a Inbox<T>);

impl<T> Future for TakeFuture<'_, T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if let Some(taken) = state.take() {
            return Poll::Ready(taken);
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}
