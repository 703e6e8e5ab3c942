//! The error when a forwarder cannot be made. Every table returns it, so this module depends on
//! none of them.

use core::fmt;

/// An impossible configuration, which is the caller's error, or a lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// A limit is 0 where the router cannot work without at least one.
    Zero {
        /// The field of [`crate::Config`].
        limit: &'static str,
    },
    /// A limit exceeds the capacity of the table.
    TooLarge {
        /// The field of [`crate::Config`].
        limit: &'static str,
        /// The largest value it may have.
        most: usize,
    },
    /// There is no memory for tables of this size.
    OutOfMemory,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Zero { limit } => write!(f, "{limit} is 0: set it to 1 or more"),
            ConfigError::TooLarge { limit, most } => {
                write!(f, "{limit} is too large: set it to {most} or less")
            }
            ConfigError::OutOfMemory => f.write_str("no memory for tables of this size: lower their limits"),
        }
    }
}

impl core::error::Error for ConfigError {}
