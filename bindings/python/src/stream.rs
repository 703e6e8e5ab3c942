//! An object that is being read.

use std::io::{self, Seek, SeekFrom};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_socket::{FetchError, ObjectStream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::failure::{Failure, Fault};
use crate::pending::Pending;
use crate::waiting::waited;

/// Octets of one read of a stream in Python.
///
/// A read allocates so much memory at most.
///
/// # Limit
/// The read is short.
/// - Tests: `test_a_read_takes_a_mebibyte_at_most`
const READ_OCTETS_MAX: usize = 1 << 20;

/// An object that is being read. Closing or dropping it abandons the fetch.
#[pyclass(frozen, module = "namely._native")]
pub(crate) struct Stream {
    stream: Mutex<Option<ObjectStream>>,
    /// The error that ended a read which had octets to return. The next read reports it.
    later: Mutex<Option<Failure>>,
    name: String,
    octets: Option<u64>,
    timeout: Option<Duration>,
}

impl Stream {
    pub(crate) fn new(stream: ObjectStream, timeout: Option<Duration>) -> Self {
        let name = stream.name().to_string();
        Stream {
            name,
            octets: stream.octets(),
            stream: Mutex::new(Some(stream)),
            later: Mutex::new(None),
            timeout,
        }
    }

    fn stream(&self) -> MutexGuard<'_, Option<ObjectStream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn later(&self) -> MutexGuard<'_, Option<Failure>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `what` on the stream. Returns `None` if it did not end within its time.
    fn with<T>(&self, what: impl FnOnce(&mut ObjectStream) -> io::Result<T>) -> Option<Result<T, Failure>> {
        let mut stream = self.stream();
        let Some(stream) = stream.as_mut() else {
            return Some(Err(closed()));
        };
        match what(stream) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut) => {
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<FetchError>());
                match cause {
                    Some(cause) if cause.is_interim() => None,
                    _ => Some(Err(self.failure(error))),
                }
            }
            Err(error) => Some(Err(self.failure(error))),
            Ok(done) => Some(Ok(done)),
        }
    }

    fn failure(&self, error: io::Error) -> Failure {
        match error.get_ref().and_then(|cause| cause.downcast_ref::<FetchError>()) {
            Some(cause) => Failure::of(cause, Some(&self.name)),
            None if error.kind() == io::ErrorKind::InvalidInput => {
                Failure::new(Errno::INVAL, "no place in a file is before its beginning")
            }
            None if error.kind() == io::ErrorKind::Unsupported => {
                Failure::new(Errno::OPNOTSUPP, "the producer did not announce the object's size")
                    .with_name(&self.name)
            }
            None => {
                let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
                Failure::new(errno, error).with_name(&self.name)
            }
        }
    }
}

fn closed() -> Failure {
    Failure::new(Errno::BADF, "the file was closed")
}

#[pymethods]
impl Stream {
    /// The versioned name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Octets of the whole object, if known.
    #[getter]
    fn octets(&self) -> Option<u64> {
        self.octets
    }

    /// At most `octets`, as soon as there are some; none at the end.
    fn read<'py>(&self, py: Python<'py>, octets: usize) -> PyResult<Bound<'py, PyBytes>> {
        if let Some(failure) = self.later().take() {
            return Err(failure.into());
        }
        let read = waited(py, self.timeout, |slice| {
            let mut buf = vec![0; octets.min(READ_OCTETS_MAX)];
            self.with(|stream| {
                let mut filled = stream.read_timeout(&mut buf, slice)?;
                // Octets that are available already are added.
                while filled > 0 && filled < buf.len() {
                    match stream.try_read(&mut buf[filled..]) {
                        Ok(more) if more > 0 => filled += more,
                        Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                            *self.later() = Some(self.failure(error));
                            break;
                        }
                        _ => break,
                    }
                }
                buf.truncate(filled);
                Ok(std::mem::take(&mut buf))
            })
        })?;
        Ok(PyBytes::new(py, &read))
    }

    /// Requests and returns `octets` octets from `from` on, independent of the stream's position;
    /// fewer at the end of the object.
    fn read_range(&self, from: u64, octets: usize) -> PyResult<Pending> {
        let stream = self.stream();
        let Some(stream) = stream.as_ref() else { return Err(closed().into()) };
        let begun = stream.read_range_async(from, octets);
        let call = begun.map_err(|error| Failure::of(&error, Some(&self.name)))?;
        Ok(Pending::new(call, Some(&self.name), self.timeout))
    }

    /// The octets of each range (its start, and its length). All ranges are requested at the same
    /// time.
    fn read_ranges(&self, ranges: Vec<(u64, usize)>) -> PyResult<Pending> {
        let stream = self.stream();
        let Some(stream) = stream.as_ref() else { return Err(closed().into()) };
        let begun = stream.read_ranges_async(&ranges);
        let call = begun.map_err(|error| Failure::of(&error, Some(&self.name)))?;
        Ok(Pending::new(call, Some(&self.name), self.timeout))
    }

    /// Sets the position; `whence` as `io.SEEK_SET`, `SEEK_CUR` and `SEEK_END`.
    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let to = match (whence, u64::try_from(offset)) {
            (0, Ok(offset)) => SeekFrom::Start(offset),
            (1, _) => SeekFrom::Current(offset),
            (2, _) => SeekFrom::End(offset),
            _ => return Err(Failure::new(Errno::INVAL, "no place in a file is before its beginning").into()),
        };
        waited(py, self.timeout, |_| self.with(|stream| stream.seek(to)))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.stream().take()));
    }
}
