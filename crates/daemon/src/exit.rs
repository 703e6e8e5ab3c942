//! How the router ends: an exit status that service managers can rely on, what went wrong, and what
//! to do.

use std::fmt;
use std::io::{self, Write};

use namely_wire::text::Plain;

/// Exit statuses of `namelyd`. 0 is a clean stop; 2 is clap's (wrong command line).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The environment: no thread, no memory, a file that cannot be read.
    Failed = 1,
    /// An address to listen on cannot be had: another router has it, or the user may not.
    CannotListen = 69,
    /// The configuration is wrong (`EX_CONFIG`): starting again will not help.
    Configuration = 78,
}

/// Why the router did not start, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
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

    /// Adds what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says it on standard error, as `program`.
    pub fn report(&self, program: &str) {
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("  {}\n", Plain::new(hint)));
        // Nobody is left to tell of a failure.
        let _ = write!(io::stderr(), "{program}: {}\n{hint}", Plain::new(&self.message));
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
