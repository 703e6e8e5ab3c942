//! A call under way. A thread waits for it, releases the interpreter meanwhile and handles signals;
//! or a descriptor reports its end to an event loop.

use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use namely_socket::CallError;
use pyo3::prelude::*;
use rustix::io::Errno;

use crate::failure::{Failure, Fault};
use crate::value::Value;
use crate::waiting::{seconds, waited};

/// The common interface of all calls.
trait Call: Send {
    /// Waits for the result. Returns `None` if the wait ended before the call.
    fn wait(&mut self, timeout: Duration) -> Option<Result<Value, Failure>>;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Value, Failure>>;
}

struct CallOf<T, E> {
    call: namely_socket::Pending<Result<T, E>>,
    name: Option<String>,
}

impl<T: Into<Value>, E: Fault + From<CallError>> CallOf<T, E> {
    fn over(&self, result: Result<T, E>) -> Result<Value, Failure> {
        result.map(Into::into).map_err(|error| Failure::of(&error, self.name.as_deref()))
    }
}

impl<T: Into<Value> + Send, E: Fault + From<CallError> + Send> Call for CallOf<T, E> {
    fn wait(&mut self, timeout: Duration) -> Option<Result<Value, Failure>> {
        match self.call.wait(Some(timeout)) {
            Err(error) if error.is_interim() => None,
            result => Some(self.over(result)),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Value, Failure>> {
        Pin::new(&mut self.call).poll(context).map(|result| self.over(result))
    }
}

/// A call under way. Dropping it abandons the call.
#[pyclass(frozen, generic, module = "namely._native")]
pub(crate) struct Pending {
    call: Mutex<CallState>,
    /// Maximum wait unless the caller sets another: the socket's `timeout_ms`.
    timeout: Option<Duration>,
}

enum CallState {
    Running(Box<dyn Call>),
    Over(Result<Value, Failure>),
    Taken,
}

impl Pending {
    /// Wraps `call`, which concerns `name`.
    pub(crate) fn new<T, E>(
        call: namely_socket::Pending<Result<T, E>>,
        name: Option<&str>,
        timeout: Option<Duration>,
    ) -> Self
    where
        T: Into<Value> + Send + 'static,
        E: Fault + From<CallError> + Send + 'static,
    {
        let call: Box<dyn Call> = Box::new(CallOf { call, name: name.map(Into::into) });
        Pending { call: Mutex::new(CallState::Running(call)), timeout }
    }

    fn state(&self) -> MutexGuard<'_, CallState> {
        self.call.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the result for at most `timeout`. Returns `None` if it has not arrived by then.
    fn wait_for(&self, timeout: Duration) -> Option<Result<Value, Failure>> {
        let mut state = self.state();
        if let CallState::Running(call) = &mut *state {
            let result = call.wait(timeout)?;
            *state = CallState::Over(result);
        }
        match std::mem::replace(&mut *state, CallState::Taken) {
            CallState::Over(result) => Some(result),
            _ => Some(Err(Failure::new(Errno::INVAL, "the result was taken before"))),
        }
    }
}

#[pymethods]
impl Pending {
    /// Waits for the result, at most `timeout` seconds; without `timeout` as long as the socket's
    /// option `timeout_ms` allows.
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        waited(py, seconds(timeout, self.timeout), |slice| self.wait_for(slice))?
            .into_python(py, self.timeout)
    }

    /// The result, if it has arrived.
    fn try_take(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match py.detach(|| self.wait_for(Duration::ZERO)) {
            Some(result) => result?.into_python(py, self.timeout),
            None => Err(Failure::new(Errno::AGAIN, "nothing is there yet").into()),
        }
    }

    /// Returns true if the result has arrived. If not, `bell` reports `key` once it has.
    fn arm(&self, bell: &Bell, key: u64) -> bool {
        let mut state = self.state();
        let CallState::Running(call) = &mut *state else { return true };
        let waker = Waker::from(Arc::new(Ring { bell: bell.shared.clone(), key }));
        match call.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                *state = CallState::Over(result);
                true
            }
            Poll::Pending => false,
        }
    }

    /// Maximum time of a wait, in seconds: the socket's option `timeout_ms`.
    #[getter]
    fn timeout(&self) -> Option<f64> {
        self.timeout.map(|timeout| timeout.as_secs_f64())
    }
}

/// A descriptor that is readable when calls are over.
#[pyclass(frozen, module = "namely._native")]
pub(crate) struct Bell {
    shared: Arc<Shared>,
}

struct Shared {
    waker: namely_host::Waker,
    rung: Mutex<Vec<u64>>,
}

struct Ring {
    bell: Arc<Shared>,
    key: u64,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner).push(self.key);
        self.bell.waker.wake();
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        let waker =
            namely_host::Waker::new().map_err(|errno| Failure::new(errno, "no descriptor to be had"))?;
        Ok(Bell { shared: Arc::new(Shared { waker, rung: Mutex::default() }) })
    }

    fn fileno(&self) -> RawFd {
        self.shared.waker.as_fd().as_raw_fd()
    }

    /// The keys of the calls that are over, each once; the descriptor is no longer readable.
    fn take(&self) -> Vec<u64> {
        // Reset first, so that a ring after the reset wakes again.
        self.shared.waker.reset();
        std::mem::take(&mut *self.shared.rung.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
