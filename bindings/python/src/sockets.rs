//! The sockets themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namely_socket::{OptionError, PublishOptions};
use pyo3::prelude::*;
use rustix::io::Errno;

use crate::failure::{Failure, Fault};
use crate::names::parse;
use crate::pending::Pending;

/// Options by name and text.
type Options = Vec<(String, String)>;

/// Lets other threads run Python while `call` takes its time; what goes wrong is about `name`.
fn detached<T: Send, E: Fault + Send>(
    py: Python<'_>,
    name: &str,
    call: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(|| call().map_err(|error| Failure::of(&error, Some(name)))).map_err(Into::into)
}

fn option_failure(error: &OptionError) -> Failure {
    Failure::of(error, None)
}

/// How long a call waits, from the option `timeout_ms`.
fn timeout(option: Result<String, OptionError>) -> Option<Duration> {
    let ms = option.ok().and_then(|ms| ms.parse().ok());
    ms.filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// What both sockets have.
macro_rules! socket {
    ($class:ident, $options:ident, { $($methods:tt)* }) => {
        #[doc = concat!("A `", stringify!($class), "`.")]
        #[pyclass(frozen, module = "namely._native")]
        pub(crate) struct $class {
            socket: namely_socket::$class,
            closed: AtomicBool,
        }

        impl $class {
            /// The socket, unless it was closed.
            fn open(&self) -> Result<&namely_socket::$class, Failure> {
                if self.closed.load(Ordering::Relaxed) {
                    return Err(Failure::new(Errno::BADF, "the socket was closed"));
                }
                Ok(&self.socket)
            }
        }

        impl Drop for $class {
            fn drop(&mut self) {
                // Closing waits for the socket's thread and for the router: not while nobody else may run Python.
                Python::attach(|py| py.detach(|| self.socket.close()));
            }
        }

        #[pymethods]
        impl $class {
            #[new]
            fn new(py: Python<'_>, prefix: &str, options: Options) -> PyResult<Self> {
                let mut set = namely_socket::$options::default();
                for (name, value) in &options {
                    set.set(name, value).map_err(|error| option_failure(&error))?;
                }
                let name = parse(prefix)?;
                let socket = detached(py, prefix, || namely_socket::$class::bind(name, set))?;
                Ok($class { socket, closed: AtomicBool::new(false) })
            }

            #[getter]
            fn prefix(&self) -> String {
                self.socket.local_prefix().to_string()
            }

            #[getter]
            fn router(&self) -> &str {
                self.socket.router()
            }

            fn option(&self, name: &str) -> PyResult<String> {
                Ok(self.socket.option(name).map_err(|error| option_failure(&error))?)
            }

            fn set_option(&self, name: &str, value: &str) -> PyResult<()> {
                Ok(self.open()?.set_option(name, value).map_err(|error| option_failure(&error))?)
            }

            #[getter]
            fn closed(&self) -> bool {
                self.closed.load(Ordering::Relaxed)
            }

            fn close(&self, py: Python<'_>) {
                self.closed.store(true, Ordering::Relaxed);
                py.detach(|| self.socket.close());
            }

            $($methods)*
        }
    };
}

socket!(Consumer, ConsumerOptions, {
    fn fetch(&self, name: &str) -> PyResult<Pending> {
        let socket = self.open()?;
        let call = socket.fetch_async(&parse(name)?).map_err(|error| Failure::of(&error, Some(name)))?;
        Ok(Pending::new(call, Some(name), timeout(socket.option("timeout_ms"))))
    }
});

socket!(Producer, ProducerOptions, {
    fn publish(
        &self,
        py: Python<'_>,
        name: &str,
        content: &[u8],
        options: Options,
    ) -> PyResult<(String, u64)> {
        let mut how = PublishOptions::default();
        for (option, value) in &options {
            how.set(option, value).map_err(|error| option_failure(&error))?;
        }
        let (socket, parsed) = (self.open()?, parse(name)?);
        let published = detached(py, name, || socket.publish(&parsed, content, &how))?;
        Ok((published.name.to_string(), published.segments))
    }
});
