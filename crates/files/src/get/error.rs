//! Why a file was not fetched, and what is left of it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use namely_transport::object::ObjectError;
use namely_wire::{DecodeError, Name};

/// Why a file was not fetched.
#[derive(Debug)]
pub enum GetError {
    /// It was not found, did not come, or is not believed.
    Object(ObjectError),
    /// It did not come to its end; what was verified is kept.
    Interrupted {
        /// Why.
        error: Box<ObjectError>,
        /// The partial file.
        part: PathBuf,
        /// Octets in it that a later fetch need not get again.
        kept_octets: u64,
    },
    /// The producer's: the version that was being fetched is there no longer.
    Changed {
        /// What was being fetched.
        object: Name,
        /// What there is now.
        newer: Name,
    },
    /// The caller's: it is a directory, and only a file was asked for.
    IsDirectory {
        /// Its name.
        name: Name,
    },
    /// The caller's: it is a file, and a directory was asked for.
    NotDirectory {
        /// Its name.
        name: Name,
    },
    /// The environment's: the target cannot be written.
    Target {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The environment's: the disk is full.
    NoSpace {
        /// The file that was being written.
        path: PathBuf,
        /// Octets that are needed in all, if known.
        needed_octets: Option<u64>,
        /// Octets that are kept for a later fetch.
        kept_octets: u64,
    },
    /// The caller's: another process fetches the same file.
    Busy {
        /// The partial file.
        path: PathBuf,
    },
    /// The producer's: metadata and content differ in size.
    Size {
        /// The object.
        object: Name,
        /// What the metadata says.
        expected_octets: u64,
        /// What came.
        octets: u64,
    },
    /// The producer's: a directory's listing is malformed, or names a file that no directory can hold.
    Listing {
        /// The listing.
        name: Name,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The producer's: directories are nested deeper than namely follows.
    TooDeep {
        /// The directory.
        name: Name,
    },
}

impl From<ObjectError> for GetError {
    fn from(error: ObjectError) -> Self {
        GetError::Object(error)
    }
}

impl GetError {
    /// Whether further files would fail for the same reason.
    pub fn concerns_all(&self) -> bool {
        let is_general =
            |error: &ObjectError| matches!(error, ObjectError::Connection(_) | ObjectError::Stopped);
        match self {
            GetError::Object(error) => is_general(error),
            GetError::Interrupted { error, .. } => is_general(error),
            GetError::NoSpace { .. } | GetError::Target { .. } => true,
            _ => false,
        }
    }

    /// Whether the caller stopped it.
    pub fn is_stopped(&self) -> bool {
        match self {
            GetError::Object(error) => matches!(error, ObjectError::Stopped),
            GetError::Interrupted { error, .. } => matches!(**error, ObjectError::Stopped),
            _ => false,
        }
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Object(error) => error.fmt(f),
            GetError::Interrupted { error, kept_octets: 0, .. } => error.fmt(f),
            GetError::Interrupted { error, part, kept_octets } => {
                write!(
                    f,
                    "{error}; {kept_octets} verified octets are in {}: go on with --resume",
                    part.display()
                )
            }
            GetError::Changed { object, newer } => {
                write!(f, "{object} changed while it was fetched, and is now {newer}: fetch it again")
            }
            GetError::IsDirectory { name } => {
                write!(f, "{name} is a directory: fetch all that is in it with --recursive")
            }
            GetError::NotDirectory { name } => write!(f, "{name} is not a directory"),
            GetError::Target { path, error } => write!(f, "cannot write {}: {error}", path.display()),
            GetError::NoSpace { path, needed_octets, kept_octets } => {
                write!(f, "no space left for {}", path.display())?;
                if let Some(needed) = needed_octets {
                    write!(f, ", which takes {needed} octets")?;
                }
                match kept_octets {
                    0 => f.write_str("; nothing is left behind"),
                    kept => write!(f, "; {kept} verified octets are kept: make room and go on with --resume"),
                }
            }
            GetError::Busy { path } => {
                write!(f, "another process writes {}: wait for it, or name another target", path.display())
            }
            GetError::Size { object, expected_octets, octets } => {
                write!(f, "{object}: the producer announced {expected_octets} octets and sent {octets}")
            }
            GetError::Listing { name, error } => write!(f, "{name} is no directory listing: {error}"),
            GetError::TooDeep { name } => write!(f, "{name} is nested too deep"),
        }
    }
}

impl std::error::Error for GetError {}
