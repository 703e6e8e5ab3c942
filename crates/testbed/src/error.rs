//! What can go wrong with a process, and with a testbed.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::file::FileError;

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

/// Why a testbed could not be run.
#[derive(Debug)]
pub enum TestbedError {
    /// Caller: its file cannot be used.
    File(FileError),
    /// Environment: something cannot be had here.
    Unable {
        /// What, and what the system said.
        reason: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// A process of it.
    Process(ProcessError),
}

impl TestbedError {
    pub(crate) fn unable(what: impl Into<String>, error: impl fmt::Display) -> Self {
        TestbedError::Unable { reason: format!("{}: {error}", what.into()), hint: None }
    }
}

impl From<FileError> for TestbedError {
    fn from(error: FileError) -> Self {
        TestbedError::File(error)
    }
}

impl From<ProcessError> for TestbedError {
    fn from(error: ProcessError) -> Self {
        TestbedError::Process(error)
    }
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestbedError::File(error) => error.fmt(f),
            TestbedError::Unable { reason, hint: None } => f.write_str(reason),
            TestbedError::Unable { reason, hint: Some(hint) } => write!(f, "{reason} ({hint})"),
            TestbedError::Process(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TestbedError {}
