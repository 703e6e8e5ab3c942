//! Errors of processes and of testbeds.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::file::FileError;

/// A process did not do as expected. Variants are sorted by fault.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The environment: the process cannot be started or watched.
    #[error("{doing}: {source}")]
    Environment {
        /// The operation that failed.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// The process: it ended early or without success.
    #[error("{0}")]
    Failed(String),
    /// The process: it did not end within its bound.
    #[error("{what}: not done after {} s", .after.as_secs_f64())]
    TimedOut {
        /// The process, and the end of its output.
        what: String,
        /// The bound.
        after: Duration,
    },
    /// This program received SIGINT or SIGTERM.
    #[error("interrupted; every process it started has been ended")]
    Interrupted,
}

impl ProcessError {
    pub(crate) fn environment(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        ProcessError::Environment { doing: doing.into(), source: source.into() }
    }
}

/// A testbed could not be run.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Caller: the testbed's file is not usable.
    #[error(transparent)]
    File(#[from] FileError),
    /// Environment: the machine lacks a resource or a right.
    #[error("{reason}{}", .hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})")))]
    Unable {
        /// The missing resource, and the system's message.
        reason: String,
        /// A remedy, if there is one.
        hint: Option<String>,
    },
    /// A process of the testbed failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl TestbedError {
    pub(crate) fn unable(what: impl Into<String>, error: impl fmt::Display) -> Self {
        TestbedError::Unable { reason: format!("{}: {error}", what.into()), hint: None }
    }
}
