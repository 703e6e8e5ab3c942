//! The end of the router: an exit status for service managers, a message, and a hint.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use namely_wire::text::Plain;

use crate::config::ConfigError;
use crate::log;

/// Exit statuses of `namelyd`. 0 is a clean stop; 2 is clap's (wrong command line).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The environment: no thread, no memory, a file that is not readable.
    Failed = 1,
    /// An address is not available for listening: it is in use, or the user has no right to it.
    CannotListen = 69,
    /// The configuration is wrong (`EX_CONFIG`): a restart does not help.
    Configuration = 78,
}

/// The reason that the router did not start, or stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", .hint.as_ref().map_or_else(String::new, |hint| format!("\n  {hint}")))]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// The message, in one sentence.
    pub message: String,
    /// A hint for the operator.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with a message.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: message.into(), hint: None }
    }

    /// A failure of the environment: no thread, no memory, no randomness.
    pub(crate) fn failed(message: impl ToString) -> Self {
        Self::new(Exit::Failed, message.to_string())
    }

    /// A failed system call: `message`, and the system's error.
    pub(crate) fn system<E: fmt::Display>(message: &str) -> impl FnOnce(E) -> Self {
        move |error| Self::failed(format!("{message}: {error}"))
    }

    /// A listener that cannot be opened.
    pub(crate) fn cannot_listen(why: String) -> Self {
        Self::new(Exit::CannotListen, why).hint("`--listen URI` chooses other addresses")
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Reports the failure of `program`, and returns its exit status.
    pub fn end(&self, program: &str) -> ExitCode {
        self.report(program);
        ExitCode::from(self.exit as u8)
    }

    /// Writes the failure to standard error, as `program`: as a line of the log, if that is JSON.
    fn report(&self, program: &str) {
        if log::is_json() {
            return log::failure(&self.message, self.hint.as_deref());
        }
        // Further lines are marked, so that a line break in foreign text cannot imitate other
        // output.
        let lines = self.message.split('\n').chain(self.hint.as_deref());
        let text: String = lines.map(|line| format!("  {}\n", Plain::new(line))).collect();
        // An error on standard error cannot be reported.
        let _ = write!(io::stderr(), "{program}: {}", text.trim_start());
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::new(Exit::Configuration, error.to_string())
    }
}
