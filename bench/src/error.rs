//! Errors, sorted by fault.

use std::io;
use std::time::Duration;

use namely_testbed::ProcessError;

/// A measurement, or the whole run, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller requested an action that is not possible.
    #[error("{0}")]
    Usage(String),
    /// The environment failed: a file, a socket, a program that cannot be started.
    #[error("{doing}: {source}")]
    Environment {
        /// The attempted operation.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A subject misbehaved: it exited, answered garbage, or delivered other octets than published.
    #[error("{0}")]
    Subject(String),
    /// A subject did not finish within its bound.
    #[error("{what}: not done after {} s", .after.as_secs_f64())]
    TimedOut {
        /// The operation that did not finish.
        what: String,
        /// The bound.
        after: Duration,
    },
    /// SIGINT or SIGTERM.
    #[error("{}", ProcessError::Interrupted)]
    Interrupted,
}

impl Error {
    /// Returns an error of the environment during an operation.
    pub fn environment(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Environment { doing: doing.into(), source: source.into() }
    }

    /// Returns the exit status for scripts: 2 for wrong usage, 130 when interrupted, else 1.
    pub fn exit_status(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Interrupted => 130,
            Error::Environment { .. } | Error::Subject(_) | Error::TimedOut { .. } => 1,
        }
    }
}

impl From<ProcessError> for Error {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Environment { doing, source } => Error::Environment { doing, source },
            ProcessError::Failed(message) => Error::Subject(message),
            ProcessError::TimedOut { what, after } => Error::TimedOut { what, after },
            ProcessError::Interrupted => Error::Interrupted,
        }
    }
}
