//! Errors in a configuration.

use std::fmt;
use std::path::PathBuf;

use namely_wire::text::Plain;

/// A place in the text of a file. Both numbers begin with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// A step from a table or a list of a configuration to one of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An entry of a table.
    Key(String),
    /// An entry of a list, from 0 on.
    Entry(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Step::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(entry: usize) -> Self {
        Step::Entry(entry)
    }
}

/// One error of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The position of the key or value; `None` if it is in no file.
    pub position: Option<Position>,
    /// The error, the allowed values and an example, in one line.
    pub reason: String,
    /// The key, for an error that was found after the parse.
    pub(crate) key: Vec<Step>,
}

impl Fault {
    pub(crate) fn new(position: Option<Position>, reason: &str) -> Self {
        // The reason may quote the file. A quoted line break must not begin a line of the report.
        Fault { position, reason: Plain::new(reason).into(), key: Vec::new() }
    }
}

/// An invalid configuration, with all errors that were found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file; `None` for the command line.
    pub path: Option<PathBuf>,
    /// The errors, in the order of the file.
    pub faults: Vec<Fault>,
}

impl ConfigError {
    /// The error `reason` of the value at `key`.
    pub(crate) fn at<const N: usize>(key: [Step; N], reason: &str) -> Self {
        Self::at_path(key.into(), reason)
    }

    /// As `at`, for a key of any depth.
    pub(crate) fn at_path(key: Vec<Step>, reason: &str) -> Self {
        ConfigError { path: None, faults: vec![Fault { key, ..Fault::new(None, reason) }] }
    }

    /// The errors of several checks of one configuration as one.
    pub(crate) fn all(checked: impl IntoIterator<Item = Result<(), Self>>) -> Result<(), Self> {
        let mut whole = ConfigError { path: None, faults: Vec::new() };
        for error in checked.into_iter().filter_map(Result::err) {
            whole.path = whole.path.or(error.path);
            whole.faults.extend(error.faults);
        }
        whole.faults.sort_by_key(|fault| fault.position);
        whole.faults.dedup();
        if whole.faults.is_empty() { Ok(()) } else { Err(whole) }
    }
}

/// For a well-formed value that cannot be used. The reason contains its key.
impl From<String> for ConfigError {
    fn from(reason: String) -> Self {
        ConfigError { path: None, faults: vec![Fault::new(None, &reason)] }
    }
}

/// A line for each error.
impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Fault { position, reason, .. }) in self.faults.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            f.write_str(end)?;
            if let Some(path) = &self.path {
                write!(f, "{}:", Plain::new(path.display()))?;
                if let Some(Position { line, column }) = position {
                    write!(f, "{line}:{column}:")?;
                }
                f.write_str(" ")?;
            }
            f.write_str(reason)?;
        }
        Ok(())
    }
}
