//! Failures as the exceptions of `namely.errors`.

use std::fmt::Display;

use namely_client::ClientError;
use namely_socket::{
    BindError, CallError, FetchError, OptionError, PublishError, PushError, RecvError, SendError,
};
use namely_wire::text::Plain;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rustix::io::Errno;

/// A failure on its way to Python.
#[derive(Debug)]
pub(crate) struct Failure {
    errno: i32,
    message: String,
    name: Option<String>,
}

/// An error of the sockets.
pub(crate) trait Fault: Display {
    /// The errno, as of a system call.
    fn errno(&self) -> i32;

    /// A hint for the caller, if there is one.
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if the call continues, and only the wait for it ended.
    fn is_interim(&self) -> bool {
        false
    }
}

impl Failure {
    /// A failure of the binding itself.
    pub(crate) fn new(errno: Errno, message: impl ToString) -> Self {
        Failure { errno: errno.raw_os_error(), message: message.to_string(), name: None }
    }

    /// The failure of an operation on the object `name`.
    pub(crate) fn of(error: &impl Fault, name: Option<&str>) -> Self {
        let hint = error.hint().map_or_else(String::new, |hint| format!("; {hint}"));
        Failure { errno: error.errno(), message: format!("{error}{hint}"), name: name.map(Into::into) }
    }

    /// Returns the same failure for the object `name`.
    pub(crate) fn with_name(self, name: &str) -> Self {
        Failure { name: Some(name.into()), ..self }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        static FROM_ERRNO: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        // Tracebacks print the message unchanged, and it contains names and texts of others.
        let message = String::from(Plain::new(&failure.message));
        Python::attach(|py| {
            let exception = FROM_ERRNO
                .import(py, "namely.errors", "from_errno")
                .and_then(|from_errno| from_errno.call1((failure.errno, message, failure.name)));
            exception.map_or_else(|error| error, PyErr::from_value)
        })
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let message = match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        Failure { errno: error.errno(), message, name: None }
    }
}

impl Fault for CallError {
    fn errno(&self) -> i32 {
        CallError::errno(self)
    }

    fn hint(&self) -> Option<&'static str> {
        CallError::hint(self)
    }

    fn is_interim(&self) -> bool {
        matches!(self, CallError::TimedOut | CallError::Interrupted)
    }
}

macro_rules! faults {
    ($($error:ident),*; $($plain:ident),*) => {
        $(impl Fault for $error {
            fn errno(&self) -> i32 {
                $error::errno(self)
            }

            fn hint(&self) -> Option<&'static str> {
                $error::hint(self)
            }

            fn is_interim(&self) -> bool {
                matches!(self, $error::Call(call) if call.is_interim())
            }
        })*
        $(impl Fault for $plain {
            fn errno(&self) -> i32 {
                $plain::errno(self)
            }

            fn hint(&self) -> Option<&'static str> {
                $plain::hint(self)
            }
        })*
    };
}

faults!(FetchError, RecvError; BindError, PublishError, PushError, SendError);

impl Fault for OptionError {
    fn errno(&self) -> i32 {
        OptionError::errno(self)
    }
}
