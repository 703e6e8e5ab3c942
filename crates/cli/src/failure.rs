//! Failures of commands: an exit status that scripts can rely on, a message, and a remedy.

use namely_wire::Name;

/// Exit statuses of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Any failure without a status of its own: a file, the environment.
    Failed = 1,
    /// Wrong usage, as clap reports it.
    Usage = 2,
    /// No router was reached.
    NoRouter = 3,
    /// The network has no such data: there is no route, or a router or the producer refused.
    NotFound = 4,
    /// No answer in time.
    Timeout = 5,
    /// Data arrived, but without the signature of a trusted producer.
    NotVerified = 6,
    /// The router refused the command.
    Refused = 7,
    /// The router cannot listen on its address. The status is that of `namelyd`.
    CannotListen = 69,
    /// The router's configuration is wrong. The status is that of `namelyd`.
    Configuration = 78,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl Exit {
    /// Returns the place of the status among those of several failures, 0 for the gravest.
    pub fn gravity(self) -> usize {
        let order = [
            Exit::Interrupted,
            Exit::NotVerified,
            Exit::Failed,
            Exit::NoRouter,
            Exit::Refused,
            Exit::Timeout,
            Exit::NotFound,
        ];
        order.iter().position(|exit| *exit == self).unwrap_or(order.len())
    }
}

/// A failed command.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// The error, in one sentence.
    pub message: String,
    /// A remedy for the user.
    pub hint: Option<String>,
    /// The name that was refused with the reason NoRoute. The router's own routes then determine
    /// the message ([`crate::router::explain_no_route`]).
    pub unrouted: Option<Name>,
}

impl Failure {
    /// Creates a failure with a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), hint: None, unrouted: None }
    }

    /// A failure of the environment: a file, a socket, a disk.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Adds a remedy.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the failure as a Nack with the reason NoRoute for `name`.
    pub fn unrouted(mut self, name: &Name) -> Self {
        self.unrouted = Some(name.clone());
        self
    }
}

/// The failure of an operation on a file.
pub fn io_failure(what: &str, path: &std::path::Path, error: std::io::Error) -> Failure {
    // The number of the system's error is of no use to a user.
    let text = error.to_string();
    let reason = text.split_once(" (os error ").map_or(text.as_str(), |(reason, _)| reason);
    Failure::failed(format!("cannot {what} {}: {reason}", path.display()))
}
