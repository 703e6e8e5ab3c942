//! What can go wrong with a process.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a process did not do what was expected of it, sorted by fault.
#[derive(Debug)]
pub enum ProcessError {
    /// The environment: it cannot be started or watched.
    Environment {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The process: it ended early or without success.
    Failed(String),
    /// The process: it did not end within its bound.
    TimedOut {
        /// The process, and the end of what it said.
        what: String,
        /// The bound.
        after: Duration,
    },
    /// SIGINT or SIGTERM to this program.
    Interrupted,
}

impl ProcessError {
    pub(crate) fn environment(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        ProcessError::Environment { doing: doing.into(), source: source.into() }
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Environment { doing, source } => write!(f, "{doing}: {source}"),
            ProcessError::Failed(message) => f.write_str(message),
            ProcessError::TimedOut { what, after } => {
                write!(f, "{what}: not done after {} s", after.as_secs_f64())
            }
            ProcessError::Interrupted => f.write_str("interrupted; every process it started has been ended"),
        }
    }
}

impl std::error::Error for ProcessError {}
