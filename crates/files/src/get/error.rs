//! Errors of fetching files.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use namely_security::ContentDigest;
use namely_socket::{CallError, FetchError};
use namely_transport::object::ObjectError;
use namely_wire::{DecodeError, Name};
use rustix::io::Errno;

use namely_host::disk::UntrustedFile;

/// An error of fetching a file.
#[derive(Debug, thiserror::Error)]
pub enum GetError {
    /// The object was not found, could not be fetched, or was not verified.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The fetch was interrupted; the verified octets are kept.
    #[error("{error}")]
    Interrupted {
        /// The reason.
        #[source]
        error: Box<FetchError>,
        /// The partial file.
        part: PathBuf,
        /// Octets in the partial file that a later fetch can reuse.
        kept_octets: u64,
    },
    /// The producer's: the version in progress no longer exists.
    #[error("{object} changed while it was fetched, and is now {newer}")]
    Changed {
        /// The version in progress.
        object: Name,
        /// The present version.
        newer: Name,
        /// Octets of the version in progress that cannot be taken back, because a pipe or a device
        /// has received them.
        octets: u64,
    },
    /// The producer's or a cache's: the present version is older than the version that was fetched
    /// to the same target before.
    #[error("{object} is older than {there}, which {} is already", .path.display())]
    Older {
        /// The present version.
        object: Name,
        /// The version fetched before.
        there: Name,
        /// The file.
        path: PathBuf,
    },
    /// The producer's or a cache's: the statement of the newest version is older than the caller
    /// accepts.
    #[error(
        "{object} was the newest version {:.1} s ago, which is more than {:.1} s",
        .age.as_secs_f64(),
        .age_max.as_secs_f64()
    )]
    TooOld {
        /// The present version.
        object: Name,
        /// The age of the statement.
        age: Duration,
        /// The limit.
        age_max: Duration,
    },
    /// The producer's or this machine's: the statement of the newest version has a time in the
    /// future.
    #[error("{object}: the producer's timestamp is {} s in the future", .ahead.as_secs())]
    Future {
        /// The present version.
        object: Name,
        /// The difference to the present time.
        ahead: Duration,
    },
    /// The producer's: the age of the statement is unknown, and the caller limits it.
    #[error("{object}: its age is unknown")]
    Undated {
        /// The present version.
        object: Name,
    },
    /// The caller's: the name is that of a directory, and the caller requested a file.
    #[error("{name} is a directory")]
    IsDirectory {
        /// Its name.
        name: Name,
    },
    /// The caller's: the name is that of a file, and the caller requested a directory.
    #[error("{name} is not a directory")]
    NotDirectory {
        /// Its name.
        name: Name,
    },
    /// The environment's: the target cannot be written.
    #[error("cannot write {}: {}", .path.display(), reason(.error))]
    Target {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// The environment's: the existing file is another user's, or not a regular file.
    #[error("cannot write {}: it {foreign}", .path.display())]
    UntrustedFile {
        /// The path.
        path: PathBuf,
        /// The fault of the existing file.
        #[source]
        foreign: UntrustedFile,
    },
    /// The environment's: the disk is full.
    #[error(
        "no space left for {}{}",
        .path.display(),
        .needed_octets.map_or_else(String::new, |needed| format!(", which takes {needed} octets"))
    )]
    NoSpace {
        /// The file that was being written.
        path: PathBuf,
        /// Octets needed in total, if known.
        needed_octets: Option<u64>,
        /// Octets kept for a later fetch.
        kept_octets: u64,
    },
    /// The caller's: another process fetches the same file.
    #[error("another process writes {}", .path.display())]
    Busy {
        /// The partial file.
        path: PathBuf,
    },
    /// The producer's: metadata and content differ in size.
    #[error("{object}: the producer announced {expected_octets} octets and sent {octets}")]
    Size {
        /// The object.
        object: Name,
        /// Octets according to the metadata.
        expected_octets: u64,
        /// Octets received.
        octets: u64,
    },
    /// The producer's or the list's: the file has another digest than the caller expects.
    #[error(
        "{} has the {} {found}, and {expected} is expected",
        .path.display(),
        .expected.algorithm().name()
    )]
    Checksum {
        /// The path that the file was meant for.
        path: PathBuf,
        /// The file with the content, if it was kept.
        part: Option<PathBuf>,
        /// The expected digest.
        expected: Box<ContentDigest>,
        /// The digest of the content.
        found: Box<ContentDigest>,
    },
    /// The producer's: a directory's listing is malformed, or contains a name that no directory can
    /// hold.
    #[error("{name} is no directory listing: {error}")]
    Listing {
        /// The listing.
        name: Name,
        /// The fault in it.
        #[source]
        error: DecodeError,
    },
    /// The producer's: more directories than namely fetches at once.
    #[error("{name} leads to too many directories at once: {directories}")]
    TooMany {
        /// The directory with the listing that exceeds the limit.
        name: Name,
        /// The number of directories that would wait.
        directories: usize,
    },
    /// The caller's: entries were to be deleted from a directory that is no copy of the producer's.
    #[error("{} is no copy of {name}: nothing is deleted from it", .path.display())]
    NotCopy {
        /// The directory.
        path: PathBuf,
        /// The name of the tree.
        name: Name,
    },
    /// The caller's or the producer's: more entries would be deleted than the caller allows.
    #[error("{removals} of {entries} entries of {} would be deleted", .path.display())]
    TooManyRemovals {
        /// The directory.
        path: PathBuf,
        /// The entries that would be deleted, with those in deleted directories.
        removals: u64,
        /// The entries of the copy, as far as it was compared.
        entries: u64,
    },
    /// The producer's: the producer lists the file but cannot read it.
    #[error("its producer cannot read it")]
    Unreadable,
    /// The producer's: directories are nested deeper than namely follows.
    #[error("{name} is nested too deep")]
    TooDeep {
        /// The directory.
        name: Name,
    },
}

impl GetError {
    /// Returns the error of the fetch, if the fetch began.
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
            GetError::NotCopy { .. } | GetError::TooManyRemovals { .. } => true,
            GetError::Target { error, .. } => !concerns_one(error),
            GetError::UntrustedFile { .. } => false,
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

    /// Returns true if the caller stopped the fetch.
    pub fn is_stopped(&self) -> bool {
        matches!(self.fetch_error(), Some(FetchError::Object(ObjectError::Stopped)))
    }

    /// Returns true if a repetition of the fetch may succeed without any change by its user or
    /// producer.
    pub fn may_pass(&self) -> bool {
        match self {
            GetError::Fetch(FetchError::Object(error)) => {
                !matches!(error, ObjectError::NotFound { .. } | ObjectError::Untrusted(_))
            }
            GetError::Fetch(_) | GetError::Interrupted { .. } | GetError::Changed { .. } => true,
            GetError::NoSpace { .. } | GetError::Busy { .. } => true,
            _ => false,
        }
    }

    /// Returns true if the network, the router or the absence of the producer caused the failure.
    /// The same fetch may then succeed after a pause.
    pub fn is_of_path(&self) -> bool {
        match self.fetch_error() {
            Some(FetchError::Object(error)) => matches!(
                error,
                ObjectError::Connection(_)
                    | ObjectError::Refused { .. }
                    | ObjectError::NoAnswer { .. }
                    | ObjectError::SourceMissing { .. }
                    | ObjectError::NoCertificate { fault: None, .. }
                    | ObjectError::Fetch { .. }
            ),
            Some(FetchError::Lost { .. } | FetchError::Call(CallError::TimedOut | CallError::RouterLost)) => {
                true
            }
            Some(_) => false,
            None => matches!(self, GetError::Changed { octets: 0, .. }),
        }
    }

    /// Returns a remedy, if there is one.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            GetError::Interrupted { part, kept_octets, .. } if *kept_octets > 0 => Some(
                format!(
                    "{kept_octets} verified octets are in {}: the same fetch continues there",
                    part.display()
                )
                .into(),
            ),
            GetError::Fetch(error) => error.hint().map(Cow::from),
            GetError::Interrupted { error, .. } => error.hint().map(Cow::from),
            GetError::NoSpace { kept_octets: 0, .. } => Some("nothing is left behind".into()),
            GetError::NoSpace { kept_octets, .. } => {
                Some(format!("{kept_octets} verified octets are kept: make room and fetch it again").into())
            }
            GetError::Older { .. } => Some("to go back all the same, allow older versions".into()),
            GetError::TooOld { .. } => Some("ask its producer, or allow a greater age".into()),
            GetError::Future { .. } => Some("compare this machine's clock with the producer's".into()),
            GetError::Changed { octets: 0, .. } => Some("fetch it when it changes less often".into()),
            GetError::Changed { .. } => Some("fetch it to a file, or again".into()),
            GetError::NotCopy { .. } => {
                Some("fetch without deleting first, or choose another directory".into())
            }
            GetError::TooManyRemovals { .. } => {
                Some("nothing was deleted: if the producer has removed them, allow as many".into())
            }
            GetError::Target { error, .. } => of_system(error).map(Cow::from),
            GetError::IsDirectory { .. } => Some("fetch all that is in it".into()),
            GetError::UntrustedFile { .. } => Some("remove it, or name another target".into()),
            GetError::Busy { .. } => Some("wait for it, or name another target".into()),
            GetError::Unreadable => Some("its producer has to make it readable".into()),
            GetError::Checksum { part, .. } => Some(match part {
                Some(part) => {
                    format!("the content is in {}: compare the list with its producer's", part.display())
                        .into()
                }
                None => "compare the list with its producer's".into(),
            }),
            _ => None,
        }
    }
}

/// The system's reason without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}

/// A remedy for the system's refusal to write a file.
fn of_system(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound => Some("make the folder first, or name another one"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            Some("name a folder that you may write to")
        }
        _ => None,
    }
}

/// Returns whether the error concerns only this file, not the others.
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
