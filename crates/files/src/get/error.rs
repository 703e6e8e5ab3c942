//! Why a file was not fetched, and what is left of it.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use namely_socket::{CallError, FetchError};
use namely_transport::object::ObjectError;
use namely_wire::{DecodeError, Name};
use rustix::io::Errno;

use namely_host::disk::Foreign;

/// Why a file was not fetched.
#[derive(Debug)]
pub enum GetError {
    /// It was not found, did not come, or is not believed.
    Fetch(FetchError),
    /// It did not come to its end; what was verified is kept.
    Interrupted {
        /// Why.
        error: Box<FetchError>,
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
    /// The producer's or a cache's: it is older than what was fetched to the same place before.
    Older {
        /// What there is now.
        object: Name,
        /// What was fetched before.
        there: Name,
        /// The file.
        path: PathBuf,
    },
    /// The producer's or a cache's: what tells the newest version is older than the caller takes.
    TooOld {
        /// What there is now.
        object: Name,
        /// How old that is.
        age: Duration,
        /// The limit.
        age_max: Duration,
    },
    /// The producer's or this machine's: what tells the newest version is of a time to come.
    Future {
        /// What there is now.
        object: Name,
        /// How far ahead.
        ahead: Duration,
    },
    /// The producer's: nothing tells how old it is, and the caller wants to know.
    Undated {
        /// What there is.
        object: Name,
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
    /// The environment's: what is there already is another user's, or no file.
    Foreign {
        /// The path.
        path: PathBuf,
        /// What it is.
        foreign: Foreign,
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
    /// The producer's: a directory's listing is malformed, or names a file that no directory can
    /// hold.
    Listing {
        /// The listing.
        name: Name,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// The producer's: more directories than namely fetches at once.
    TooMany {
        /// The directory whose listing makes them too many.
        name: Name,
        /// How many would wait.
        directories: usize,
    },
    /// The producer's: it lists the file and may not read it.
    Unreadable,
    /// The producer's: directories are nested deeper than namely follows.
    TooDeep {
        /// The directory.
        name: Name,
    },
}

impl From<FetchError> for GetError {
    fn from(error: FetchError) -> Self {
        GetError::Fetch(error)
    }
}

impl GetError {
    /// What the fetch ended with, if it began.
    pub fn fetch_error(&self) -> Option<&FetchError> {
        match self {
            GetError::Fetch(error) => Some(error),
            GetError::Interrupted { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns true if further files would fail for the same reason.
    pub fn concerns_all(&self) -> bool {
        match self {
            GetError::NoSpace { .. } => true,
            GetError::Target { error, .. } => !concerns_one(error),
            GetError::Foreign { .. } => false,
            other => {
                let lost = |error: &FetchError| {
                    matches!(
                        error,
                        FetchError::Call(CallError::RouterLost | CallError::Closed | CallError::Forked)
                    )
                };
                self.is_stopped() || other.fetch_error().is_some_and(lost)
            }
        }
    }

    /// Returns true if the caller stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.fetch_error(), Some(FetchError::Object(ObjectError::Stopped)))
    }

    /// What the caller can do about it, if there is something to say.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            GetError::Interrupted { part, kept_octets, .. } if *kept_octets > 0 => Some(
                format!("{kept_octets} verified octets are in {}: resume the fetch", part.display()).into(),
            ),
            GetError::Fetch(error) => error.hint().map(Cow::from),
            GetError::Interrupted { error, .. } => error.hint().map(Cow::from),
            GetError::NoSpace { kept_octets: 0, .. } => Some("nothing is left behind".into()),
            GetError::NoSpace { kept_octets, .. } => {
                Some(format!("{kept_octets} verified octets are kept: make room and resume the fetch").into())
            }
            GetError::Older { .. } => Some("to go back all the same, allow older versions".into()),
            GetError::TooOld { .. } => Some("ask its producer, or allow a greater age".into()),
            GetError::Future { .. } => Some("compare this machine's clock with the producer's".into()),
            GetError::Changed { .. } => Some("fetch it again".into()),
            GetError::IsDirectory { .. } => Some("fetch all that is in it".into()),
            GetError::Foreign { .. } => Some("remove it, or name another target".into()),
            GetError::Busy { .. } => Some("wait for it, or name another target".into()),
            _ => None,
        }
    }
}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GetError::Fetch(error) => error.fmt(f),
            GetError::Interrupted { error, .. } => error.fmt(f),
            GetError::Changed { object, newer } => {
                write!(f, "{object} changed while it was fetched, and is now {newer}")
            }
            GetError::Older { object, there, path } => {
                write!(f, "{object} is older than {there}, which {} is already", path.display())
            }
            GetError::TooOld { object, age, age_max } => {
                let (age, limit) = (age.as_secs(), age_max.as_secs());
                write!(f, "{object} was the newest version {age} s ago, which is more than {limit} s")
            }
            GetError::Future { object, ahead } => {
                write!(f, "{object} is said to be the newest version in {} s from now", ahead.as_secs())
            }
            GetError::Undated { object } => write!(f, "{object}: nothing says how old it is"),
            GetError::IsDirectory { name } => write!(f, "{name} is a directory"),
            GetError::NotDirectory { name } => write!(f, "{name} is not a directory"),
            GetError::Target { path, error } => write!(f, "cannot write {}: {error}", path.display()),
            GetError::Foreign { path, foreign } => {
                write!(f, "cannot write {}: it {foreign}", path.display())
            }
            GetError::NoSpace { path, needed_octets, .. } => {
                write!(f, "no space left for {}", path.display())?;
                match needed_octets {
                    Some(needed) => write!(f, ", which takes {needed} octets"),
                    None => Ok(()),
                }
            }
            GetError::Busy { path } => write!(f, "another process writes {}", path.display()),
            GetError::Size { object, expected_octets, octets } => {
                write!(f, "{object}: the producer announced {expected_octets} octets and sent {octets}")
            }
            GetError::Listing { name, error } => write!(f, "{name} is no directory listing: {error}"),
            GetError::TooMany { name, directories } => {
                write!(f, "{name} leads to too many directories at once: {directories}")
            }
            GetError::Unreadable => f.write_str("its producer cannot read it"),
            GetError::TooDeep { name } => write!(f, "{name} is nested too deep"),
        }
    }
}

impl std::error::Error for GetError {}

/// Whether a file that cannot be written says nothing of the others.
fn concerns_one(error: &io::Error) -> bool {
    let one = [
        Errno::ISDIR,
        Errno::NOTDIR,
        Errno::NOTEMPTY,
        Errno::EXIST,
        Errno::NAMETOOLONG,
        Errno::ACCESS,
        Errno::PERM,
        Errno::INVAL,
        Errno::ILSEQ,
        Errno::NOENT,
        Errno::LOOP,
    ];
    error.raw_os_error().is_some_and(|code| one.iter().any(|errno| errno.raw_os_error() == code))
}
