//! Errors of setting an option.

use std::fmt;

use super::table::{Kind, OPTIONS};
use crate::errno;

/// An option that cannot be set; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option on this kind of socket, or of a publication (`ENOPROTOOPT`).
    #[error("there is no option '{option}' here; there are {}", .known.join(", "))]
    Unknown {
        /// The unknown name.
        option: String,
        /// The options that exist.
        known: Vec<&'static str>,
    },
    /// The option does not accept this value (`EINVAL`).
    #[error(fmt = bad)]
    Bad {
        /// The option's name.
        option: &'static str,
        /// The rejected text.
        value: String,
    },
    /// The option can be set only before bind (`EINVAL`).
    #[error("option {0} can be set only before bind")]
    Bound(&'static str),
}

impl OptionError {
    /// The matching `errno` of a system call.
    pub fn errno(&self) -> i32 {
        match self {
            OptionError::Unknown { .. } => errno::NOPROTOOPT,
            OptionError::Bad { .. } | OptionError::Bound(_) => errno::INVAL,
        }
    }
}

fn bad(option: &str, value: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "option {option} does not take '{value}'")?;
    match OPTIONS.iter().find(|spec| spec.name == option).map(|spec| spec.kind) {
        Some(Kind::Choice(words)) => write!(f, ": use {}", words.join(", ")),
        Some(Kind::Number { min, max: u64::MAX }) => write!(f, ": a number from {min} on"),
        Some(Kind::Number { min, max }) => write!(f, ": a number from {min} to {max}"),
        Some(Kind::ReadOnly) => f.write_str(": it can only be read"),
        Some(Kind::Flag) => f.write_str(": use true or false"),
        Some(Kind::Text) | None => Ok(()),
    }
}
