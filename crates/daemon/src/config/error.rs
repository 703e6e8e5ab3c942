//! Errors in a configuration.

use std::fmt;
use std::path::PathBuf;

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file; `None` for the command line.
    pub path: Option<PathBuf>,
    /// The line of the bad key or value, counted from 1, if there is one.
    pub line: Option<usize>,
    /// The error, and the allowed values.
    pub reason: String,
}

/// For a well-formed value that cannot be used. The reason contains its key.
impl From<String> for ConfigError {
    fn from(reason: String) -> Self {
        ConfigError { path: None, line: None, reason }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}:", path.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        let space = if self.path.is_some() { " " } else { "" };
        write!(f, "{space}{}", self.reason)
    }
}
