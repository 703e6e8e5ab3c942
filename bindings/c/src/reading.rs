//! Objects that a C program reads by name instead of by number: from the first read to their end.
//!
//! Follows docs/c.md. The module knows no socket: the calls (`objects`) decide which descriptors a
//! socket watches.

use std::future::Future;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use namely_socket::{Consumer, FetchError, ObjectStream, Pending};
use namely_wire::Name;

use crate::failure::{Errno, Failure};
use crate::system::signals_blocked;
use crate::types::ICN_OBJECTS_MAX;

/// The objects of one socket, at most [`ICN_OBJECTS_MAX`].
#[derive(Default)]
pub(crate) struct Objects(Mutex<Vec<Arc<Object>>>);

/// An object that is being read.
pub(crate) struct Object {
    name: Name,
    /// The name of the version that is read, once it is known. The caller may continue with this
    /// name or with `name`.
    pub(crate) versioned: OnceLock<Name>,
    reading: Mutex<Reading>,
}

/// The progress of reading an object.
pub(crate) enum Reading {
    Opening(Pending<Result<ObjectStream, FetchError>>),
    Open {
        stream: Box<ObjectStream>,
        /// The last read did not run out of octets, so the next one may return some at once.
        more: bool,
        /// A segment was lost behind the last octets that were read. The next read reports it.
        lost: Option<Failure>,
    },
    Failed(Failure),
}

impl Objects {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Object>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, name: &Name) -> Option<Arc<Object>> {
        self.list().iter().find(|object| object.is(name)).cloned()
    }

    /// Returns the object that `name` began, or begins a new one. With `at_once` its content is
    /// requested, too, not only its description.
    ///
    /// # Errors
    /// ENOBUFS if there are [`ICN_OBJECTS_MAX`] already, or the reason why the fetch cannot begin.
    pub(crate) fn begun(
        &self,
        name: &Name,
        consumer: &Consumer,
        at_once: bool,
    ) -> Result<Arc<Object>, Failure> {
        let mut list = self.list();
        if let Some(object) = list.iter().find(|object| object.is(name)) {
            return Ok(object.clone());
        }
        if list.len() >= ICN_OBJECTS_MAX {
            let sentence =
                format!("{ICN_OBJECTS_MAX} objects are being read: read one to its end, or icn_forget it");
            return Err(Failure::new(libc::ENOBUFS, sentence));
        }
        let open = if at_once { Consumer::stream_async } else { Consumer::open_async };
        let pending = signals_blocked(|| open(consumer, name))?;
        let reading = Mutex::new(Reading::Opening(pending));
        let object = Arc::new(Object { name: name.clone(), versioned: OnceLock::new(), reading });
        list.push(object.clone());
        Ok(object)
    }

    pub(crate) fn forget(&self, object: &Arc<Object>) {
        self.list().retain(|held| !Arc::ptr_eq(held, object));
    }

    /// Returns true if an object has octets that its descriptor does not show. If not, `waker` is
    /// woken once it has.
    pub(crate) fn are_ready(&self, waker: &namely_host::Waker) -> bool {
        // An object that another thread reads is reported by that thread.
        let ready =
            |object: &Arc<Object>| object.reading.try_lock().is_ok_and(|mut reading| reading.is_ready(waker));
        // All are polled, so that all have the waker.
        self.list().iter().filter(|object| ready(object)).count() > 0
    }
}

impl Object {
    fn is(&self, name: &Name) -> bool {
        self.name == *name || self.versioned.get() == Some(name)
    }

    /// Locks the state of the read, for one thread at a time.
    ///
    /// # Errors
    /// EAGAIN if another thread reads it and the call may not wait.
    pub(crate) fn reading(&self, may_wait: bool) -> Result<MutexGuard<'_, Reading>, Failure> {
        match self.reading.try_lock() {
            Ok(reading) => Ok(reading),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if !may_wait => Err(Errno(libc::EAGAIN).into()),
            Err(TryLockError::WouldBlock) => Ok(self.reading.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}

impl Reading {
    /// Processes the arrived parts of the object's description. `waker` is woken once there is
    /// more.
    fn advance(&mut self, waker: &Waker) {
        if let Reading::Opening(pending) = self
            && let Poll::Ready(found) = Pin::new(pending).poll(&mut Context::from_waker(waker))
        {
            *self = Reading::of(found);
        }
    }

    fn of(found: Result<ObjectStream, FetchError>) -> Self {
        match found {
            Ok(stream) => Reading::Open { stream: Box::new(stream), more: true, lost: None },
            Err(error) => Reading::Failed(error.into()),
        }
    }

    fn is_ready(&mut self, waker: &namely_host::Waker) -> bool {
        self.advance(&Waker::from(waker.clone()));
        match self {
            Reading::Opening(_) => false,
            Reading::Open { more, .. } => *more,
            Reading::Failed(_) => true,
        }
    }

    /// Waits until the object is found, or is known to be missing.
    ///
    /// # Errors
    /// EINTR if a signal ended the wait.
    pub(crate) fn found(&mut self, consumer: &Consumer) -> Result<(), Failure> {
        if let Reading::Opening(pending) = self {
            let found = pending.wait(timeout(consumer));
            if let Err(error) = &found
                && error.errno() == libc::EINTR
            {
                return Err(Failure::new(libc::EINTR, error.to_string()));
            }
            *self = Reading::of(found);
        }
        Ok(())
    }

    /// Continues to open the object. If the call may wait, waits for the result; else processes the
    /// parts that have arrived. `waker` is woken once there is more.
    ///
    /// # Errors
    /// EINTR if a signal ended the wait. The result of the fetch is in the state.
    pub(crate) fn open(
        &mut self,
        consumer: &Consumer,
        may_wait: bool,
        waker: &namely_host::Waker,
    ) -> Result<(), Failure> {
        if may_wait {
            self.found(consumer)?;
        } else {
            self.advance(&Waker::from(waker.clone()));
        }
        Ok(())
    }

    /// Reads the next octets; with `all`, until `buffer` is full or the object ends.
    ///
    /// # Errors
    /// EAGAIN if nothing has arrived and the call may not wait, ENODATA if a segment was lost, or
    /// the reason why the fetch failed.
    pub(crate) fn read(&mut self, buffer: &mut [u8], may_wait: bool, all: bool) -> Result<usize, Failure> {
        let (stream, more, lost) = match self {
            Reading::Opening(_) => return Err(Errno(libc::EAGAIN).into()),
            Reading::Failed(failure) => return Err(failure.clone()),
            Reading::Open { stream, more, lost } => (stream, more, lost),
        };
        if let Some(failure) = lost.take() {
            return Err(failure);
        }
        let mut octets = 0;
        loop {
            let rest = &mut buffer[octets..];
            let read = if may_wait { stream.read(rest) } else { stream.try_read(rest) };
            match read {
                Ok(0) => break,
                Ok(now) => octets += now,
                Err(error) => {
                    let failure = of_stream(&error);
                    *more = false;
                    if octets == 0 {
                        return Err(failure);
                    }
                    // The octets before the gap are returned first.
                    if failure.errno == libc::ENODATA {
                        *lost = Some(failure);
                        *more = true;
                    } else if !is_passing(&failure) {
                        *self = Reading::Failed(failure);
                    }
                    return Ok(octets);
                }
            }
            if octets == buffer.len() || !all {
                break;
            }
        }
        *more = true;
        Ok(octets)
    }
}

/// Returns true if the same call may succeed later, or may continue after a lost segment.
pub(crate) fn is_passing(failure: &Failure) -> bool {
    matches!(failure.errno, libc::EAGAIN | libc::EINTR | libc::ENODATA)
}

/// The failure inside an error of a stream.
pub(crate) fn of_stream(error: &io::Error) -> Failure {
    let inside = error.get_ref().and_then(|inside| inside.downcast_ref::<FetchError>());
    let errno = match inside {
        Some(error) => error.errno(),
        None if error.kind() == io::ErrorKind::InvalidInput => libc::EINVAL,
        None if error.kind() == io::ErrorKind::Unsupported => libc::ESPIPE,
        None => error.raw_os_error().unwrap_or(libc::EIO),
    };
    Failure::new(errno, error.to_string())
}

/// Maximum wait of a call on a consumer: its option `timeout_ms`.
pub(crate) fn timeout(consumer: &Consumer) -> Option<Duration> {
    let ms = consumer.option("timeout_ms").ok().and_then(|text| text.parse().ok()).filter(|ms| *ms > 0);
    ms.map(Duration::from_millis)
}
