//! How a command fails: an exit status that scripts can rely on, what went wrong, and what to do
//! next.

use std::fmt;

/// Exit statuses of every command; 2 is clap's (wrong usage).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Anything without a status of its own: a file, the environment.
    Failed = 1,
    /// No router was reached.
    NoRouter = 3,
    /// The network has no such data: no route, a Nack, or the producer's own 'no'.
    NotFound = 4,
    /// No answer in time.
    Timeout = 5,
    /// Data came but was not what a trusted producer signed.
    NotVerified = 6,
    /// The router refused the command.
    Refused = 7,
    /// The router cannot listen where it is to: as `namelyd`.
    CannotListen = 69,
    /// The router's configuration is wrong: as `namelyd`.
    Configuration = 78,
    /// Interrupted by a signal.
    Interrupted = 130,
}

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// What went wrong, in one sentence.
    pub message: String,
    /// What the person can do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure that says what went wrong.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), hint: None }
    }

    /// A failure of the environment: a file, a socket, a disk.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A file operation failed.
pub fn io_failure(what: &str, path: &std::path::Path, error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what} {}: {error}", path.display()))
}
