//! The sockets themselves.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namely_socket::options::{For, OPTIONS};
use namely_socket::{CallError, ConsumerOptions, Datagram, OptionError, ProducerOptions, PushOptions, Trust};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use crate::failure::{Failure, Fault};
use crate::names::parse;
use crate::pending::Pending;
use crate::producing::{Offer, Request, publish_options};
use crate::value::Value;
use crate::waiting::{on_a_thread, seconds, waited};

/// Options by name and text.
type Options = Vec<(String, String)>;

/// Releases the interpreter for other threads while `call` runs. An error concerns `name`.
fn detached<T: Send, E: Fault + Send>(
    py: Python<'_>,
    name: &str,
    call: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(|| call().map_err(|error| Failure::of(&error, Some(name)))).map_err(Into::into)
}

/// Evaluates one attempt of a call that waits. Returns none if the call must be tried again.
fn attempt<T, E: Fault>(result: Result<T, E>) -> Option<Result<T, Failure>> {
    match result {
        Err(error) if error.is_interim() => None,
        result => Some(result.map_err(|error| Failure::of(&error, None))),
    }
}

fn option_failure(error: &OptionError) -> Failure {
    Failure::of(error, None)
}

/// Every option of a consumer or a producer, and its value after `set` was applied.
#[pyfunction]
pub(crate) fn options(role: &str, set: Options) -> PyResult<Options> {
    let is_consumer = role == "consumer";
    let (mut consumer, mut producer) = (ConsumerOptions::default(), ProducerOptions::default());
    for (name, value) in &set {
        let done = if is_consumer { consumer.set(name, value) } else { producer.set(name, value) };
        done.map_err(|error| option_failure(&error))?;
    }
    let other = if is_consumer { For::Producer } else { For::Consumer };
    let all = OPTIONS.iter().filter(|spec| spec.on != other).map(|spec| {
        let value = if is_consumer { consumer.get(spec.name) } else { producer.get(spec.name) };
        Ok((spec.name.into(), value.map_err(|error| option_failure(&error))?))
    });
    all.collect()
}

/// Maximum wait of a call, from the option `timeout_ms`.
fn timeout(option: Result<String, OptionError>) -> Option<Duration> {
    let ms = option.ok().and_then(|ms| ms.parse().ok());
    ms.filter(|ms| *ms > 0).map(Duration::from_millis)
}

/// The common parts of both sockets.
macro_rules! socket {
    ($class:ident, $options:ident, { $($methods:tt)* }) => {
        #[doc = concat!("A `", stringify!($class), "`.")]
        #[pyclass(frozen, module = "namely._native")]
        pub(crate) struct $class {
            socket: Arc<namely_socket::$class>,
            closed: AtomicBool,
            process: Pid,
        }

        impl $class {
            /// The socket. Fails in a child of the process that made it.
            fn own(&self) -> Result<&Arc<namely_socket::$class>, Failure> {
                if getpid() != self.process {
                    return Err(Failure::of(&CallError::Forked, None));
                }
                Ok(&self.socket)
            }

            /// The socket, unless it was closed.
            pub(crate) fn open(&self) -> Result<&Arc<namely_socket::$class>, Failure> {
                if self.closed.load(Ordering::Relaxed) {
                    return Err(Failure::new(Errno::BADF, "the socket was closed"));
                }
                self.own()
            }
        }

        impl $class {
            fn timeout(&self) -> Option<Duration> {
                timeout(self.socket.option("timeout_ms"))
            }
        }

        impl Drop for $class {
            fn drop(&mut self) {
                // Closing waits for the socket's thread and for the router. The interpreter is
                // released meanwhile.
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
                Ok($class { socket: Arc::new(socket), closed: AtomicBool::new(false), process: getpid() })
            }

            #[getter]
            fn prefix(&self) -> String {
                self.socket.local_prefix().to_string()
            }

            #[getter]
            fn router(&self) -> String {
                self.socket.router().to_string()
            }

            fn option(&self, name: &str) -> PyResult<String> {
                Ok(self.own()?.option(name).map_err(|error| option_failure(&error))?)
            }

            fn set_option(&self, name: &str, value: &str) -> PyResult<()> {
                Ok(self.open()?.set_option(name, value).map_err(|error| option_failure(&error))?)
            }

            fn stats(&self) -> Vec<(&'static str, u64)> {
                self.socket.stats().list()
            }

            fn fileno(&self) -> PyResult<RawFd> {
                Ok(self.open()?.as_fd().as_raw_fd())
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

/// Makes one Interest. The socket's options supply the absent values.
fn datagram(name: &str, parameters: Option<&[u8]>, lifetime: Option<f64>) -> Result<Datagram, Failure> {
    let lifetime = lifetime.map(|lifetime| Duration::try_from_secs_f64(lifetime.max(0.0)));
    let lifetime = lifetime.transpose().map_err(|error| Failure::new(Errno::INVAL, error))?;
    Ok(Datagram {
        name: parse(name)?,
        parameters: parameters.map(<[u8]>::to_vec),
        lifetime,
        ..Datagram::default()
    })
}

/// A call that was started.
macro_rules! started {
    ($self:ident, $name:ident, $call:ident($what:expr)) => {{
        let socket = $self.open()?;
        let call = socket.$call(&$what).map_err(|error| Failure::of(&error, Some($name)))?;
        Ok(Pending::new(call, Some($name), $self.timeout()))
    }};
}

socket!(Consumer, ConsumerOptions, {
    fn fetch(&self, name: &str) -> PyResult<Pending> {
        started!(self, name, fetch_async(parse(name)?))
    }

    fn stat(&self, name: &str) -> PyResult<Pending> {
        started!(self, name, stat_async(parse(name)?))
    }

    fn stream(&self, name: &str) -> PyResult<Pending> {
        started!(self, name, open_async(parse(name)?))
    }

    fn request(&self, name: &str, parameters: Option<&[u8]>, lifetime: Option<f64>) -> PyResult<Pending> {
        started!(self, name, request_async(datagram(name, parameters, lifetime)?))
    }

    fn send(
        &self,
        py: Python<'_>,
        name: &str,
        parameters: Option<&[u8]>,
        lifetime: Option<f64>,
    ) -> PyResult<()> {
        let (socket, datagram) = (self.open()?, datagram(name, parameters, lifetime)?);
        detached(py, name, || socket.send(&datagram))
    }

    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let socket = self.open()?;
        let received =
            waited(py, seconds(timeout, self.timeout()), |slice| attempt(socket.recv_timeout(slice)))?;
        Value::Received(received).into_python(py, None)
    }

    fn try_recv(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let received = self.open()?.try_recv().map_err(|error| Failure::of(&error, None))?;
        Value::Received(received).into_python(py, None)
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
        let how = publish_options(&options)?;
        let (socket, parsed) = (self.open()?, parse(name)?);
        let published = detached(py, name, || socket.publish(&parsed, content, &how))?;
        Ok((published.name.to_string(), published.segments))
    }

    /// Name and octets of the session's certificate.
    #[getter]
    fn certificate<'py>(&self, py: Python<'py>) -> Option<(String, Bound<'py, PyBytes>)> {
        let certificate = self.socket.certificate()?;
        Some((certificate.name().to_string(), PyBytes::new(py, certificate.wire())))
    }

    fn revoke(&self, py: Python<'_>) {
        self.closed.store(true, Ordering::Relaxed);
        py.detach(|| self.socket.revoke());
    }

    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Request> {
        let socket = self.open()?;
        let request =
            waited(py, seconds(timeout, self.timeout()), |slice| attempt(socket.recv_timeout(slice)))?;
        Ok(Request::new(socket.clone(), request))
    }

    fn try_recv(&self) -> PyResult<Request> {
        let socket = self.open()?;
        let request = socket.try_recv().map_err(|error| Failure::of(&error, None))?;
        Ok(Request::new(socket.clone(), request))
    }

    fn accept_push(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Offer> {
        let socket = self.open()?;
        let pushed =
            waited(py, seconds(timeout, self.timeout()), |slice| attempt(socket.accept_push_timeout(slice)))?;
        Ok(Offer::new(socket.clone(), pushed))
    }

    fn try_accept_push(&self) -> PyResult<Offer> {
        let socket = self.open()?;
        let pushed = socket.try_accept_push().map_err(|error| Failure::of(&error, None))?;
        Ok(Offer::new(socket.clone(), pushed))
    }

    /// Name, octets and signer of the receipt, which is verified by the rules in `trust`.
    #[expect(clippy::too_many_arguments, reason = "a push has as many properties")]
    fn push(
        &self,
        py: Python<'_>,
        server: String,
        trust: Option<String>,
        name: &str,
        content: Vec<u8>,
        timeout: f64,
        options: Options,
    ) -> PyResult<(String, u64, Option<String>)> {
        let trust = match trust {
            Some(text) => {
                let mut options = ConsumerOptions::default();
                options.set("trust", &text).map_err(|error| Failure::of(&error, None))?;
                options.trust
            }
            None => Trust::default(),
        };
        let timeout = seconds(Some(timeout), None).unwrap_or(Duration::from_secs(u32::MAX.into()));
        let how = PushOptions { publish: publish_options(&options)?, trust, timeout };
        let (socket, server, pushed) = (self.open()?.clone(), parse(&server)?, parse(name)?);
        let about = name.to_owned();
        let receipt = on_a_thread(py, move || {
            let receipt = socket.push(&server, &pushed, &content, &how);
            receipt.map_err(|error| Failure::of(&error, Some(&about)))
        })?;
        Ok((receipt.name.to_string(), receipt.octets, receipt.signer.map(|name| name.to_string())))
    }
});
