//! What can go wrong, sorted by whose fault it is.

use std::fmt;
use std::io;
use std::time::Duration;

use namely_testbed::ProcessError;

/// Why a measurement, or the whole run, did not happen.
#[derive(Debug)]
pub enum Error {
    /// The caller asked for something that cannot be done.
    Usage(String),
    /// The environment failed: a file, a socket, a program that cannot be started.
    Environment {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// A subject did something wrong: exited, answered garbage, delivered other octets than were
    /// published.
    Subject(String),
    /// A subject did not finish within its bound.
    TimedOut {
        /// What did not finish.
        what: String,
        /// The bound.
        after: Duration,
    },
    /// SIGINT or SIGTERM.
    Interrupted,
}

impl Error {
    /// An error of the environment while `doing` something.
    pub fn environment(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Error::Environment { doing: doing.into(), source: source.into() }
    }

    /// The exit status that scripts see: 2 for wrong usage, 130 when interrupted, else 1.
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(message) | Error::Subject(message) => f.write_str(message),
            Error::Environment { doing, source } => write!(f, "{doing}: {source}"),
            Error::TimedOut { what, after } => write!(f, "{what}: not done after {} s", after.as_secs_f64()),
            Error::Interrupted => ProcessError::Interrupted.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Environment { source, .. } => Some(source),
            _ => None,
        }
    }
}
