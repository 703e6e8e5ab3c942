//! Why an option is not set.

use std::fmt;

use super::table::{Kind, OPTIONS};
use crate::errno;

/// An option that cannot be set so; the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// There is no such option on this kind of socket (`ENOPROTOOPT`).
    Unknown(String),
    /// It does not take this value (`EINVAL`).
    Bad {
        /// The option.
        option: &'static str,
        /// The text.
        value: String,
    },
    /// It can be set only before bind (`EINVAL`).
    Bound(&'static str),
}

impl OptionError {
    /// As a system call would say it.
    pub fn errno(&self) -> i32 {
        match self {
            OptionError::Unknown(_) => errno::NOPROTOOPT,
            OptionError::Bad { .. } | OptionError::Bound(_) => errno::INVAL,
        }
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Unknown(name) => write!(f, "this socket has no option '{name}'"),
            OptionError::Bad { option, value } => {
                write!(f, "option {option} does not take '{value}'")?;
                let kind = OPTIONS.iter().find(|spec| spec.name == *option).map(|spec| spec.kind);
                match kind {
                    Some(Kind::Choice(words)) => write!(f, ": use {}", words.join(", ")),
                    Some(Kind::Number { min, max: u64::MAX }) => write!(f, ": a number from {min} on"),
                    Some(Kind::Number { min, max }) => write!(f, ": a number from {min} to {max}"),
                    Some(Kind::ReadOnly) => f.write_str(": it can only be read"),
                    Some(Kind::Flag) => f.write_str(": use true or false"),
                    Some(Kind::Text) | None => Ok(()),
                }
            }
            OptionError::Bound(name) => write!(f, "option {name} can be set only before bind"),
        }
    }
}

impl std::error::Error for OptionError {}
