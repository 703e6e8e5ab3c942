//! The check of other users' access to a file or folder. A file that other users can write is
//! neither trusted nor written.

use std::fmt;
use std::io;

use rustix::fs::{FileType, Stat};

/// Write permission of a file's group, and of all users.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

/// The reason for which a file or folder is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UntrustedFile {
    /// It belongs to another user.
    OtherUser {
        /// The owner.
        uid: u32,
    },
    /// It is a link, a pipe, a device or a directory.
    NoFile,
    /// It is a link of a user who is neither this one nor root, or lies in such a user's folder.
    Link {
        /// The owner of the link or folder.
        uid: u32,
    },
    /// Another name leads to it too.
    OtherName,
    /// Others may write it.
    Writable {
        /// Its permissions.
        mode: u32,
        /// Its group.
        gid: u32,
    },
    /// It is secret, and others have permissions for it.
    Exposed {
        /// Its permissions.
        mode: u32,
    },
}

impl fmt::Display for UntrustedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = |uid: &u32| match crate::users::name_of(*uid) {
            Some(name) => format!("user {name} (uid {uid})"),
            None => format!("uid {uid}"),
        };
        match self {
            UntrustedFile::NoFile => f.write_str("is no regular file"),
            UntrustedFile::OtherUser { uid } => write!(f, "belongs to {}", user(uid)),
            UntrustedFile::Link { uid } => write!(f, "leads through a link that {} made", user(uid)),
            UntrustedFile::OtherName => f.write_str("has another name too"),
            UntrustedFile::Writable { mode, gid } if mode & OTHERS_WRITE == 0 => {
                write!(f, "may be written by group {gid} (mode {:03o})", mode & 0o777)
            }
            UntrustedFile::Exposed { mode } => {
                write!(f, "is secret, but others may open it (mode {:03o})", mode & 0o777)
            }
            UntrustedFile::Writable { mode, .. } => {
                write!(f, "may be written by all users (mode {:03o})", mode & 0o777)
            }
        }
    }
}

/// The reason for which a file is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It belongs to another user, or is no file.
    #[error("it {0}")]
    UntrustedFile(#[from] UntrustedFile),
    /// The system's reason.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<rustix::io::Errno> for OpenError {
    fn from(errno: rustix::io::Errno) -> Self {
        OpenError::System(errno.into())
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::System(error) => error,
            foreign => io::Error::new(io::ErrorKind::PermissionDenied, foreign),
        }
    }
}

/// The users that may own and write a file: this user, and root or a group if the caller allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writers {
    uid: u32,
    group: Option<u32>,
    or_root: bool,
}

impl Writers {
    /// This process' user alone.
    pub fn this_user() -> Self {
        Self::user(rustix::process::geteuid().as_raw())
    }

    /// The user `uid` alone.
    pub fn user(uid: u32) -> Self {
        Writers { uid, group: None, or_root: false }
    }

    /// Also the members of `group`, if there is one: the configuration names it.
    pub fn and_group(self, group: Option<u32>) -> Self {
        Writers { group, ..self }
    }

    /// Also root.
    pub fn or_root(self) -> Self {
        Writers { or_root: true, ..self }
    }

    /// Returns true if `uid` may own the file.
    pub fn is_owner(&self, uid: u32) -> bool {
        uid == self.uid || self.or_root && uid == 0
    }

    /// Checks that a file is a regular one with a single name, and that no other user can write it.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub fn check_file(&self, found: &Stat) -> Result<(), UntrustedFile> {
        self.check_owner(found)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(UntrustedFile::NoFile);
        }
        if found.st_nlink != 1 {
            return Err(UntrustedFile::OtherName);
        }
        self.check_mode(found)
    }

    /// Checks that no other user can put files into a folder.
    ///
    /// # Errors
    /// The reason for which it is refused.
    pub fn check_folder(&self, found: &Stat) -> Result<(), UntrustedFile> {
        self.check_owner(found)?;
        self.check_mode(found)
    }

    pub(super) fn check_owner(&self, found: &Stat) -> Result<(), UntrustedFile> {
        if self.is_owner(found.st_uid) { Ok(()) } else { Err(UntrustedFile::OtherUser { uid: found.st_uid }) }
    }

    /// An access control list is visible in the permissions of the group, which are its mask.
    fn check_mode(&self, found: &Stat) -> Result<(), UntrustedFile> {
        let by_group = found.st_mode & GROUP_WRITES != 0 && self.group != Some(found.st_gid);
        if by_group || found.st_mode & OTHERS_WRITE != 0 {
            return Err(UntrustedFile::Writable { mode: found.st_mode, gid: found.st_gid });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(uid: u32, gid: u32, mode: u32, links: u32) -> Stat {
        let mut stat = rustix::fs::stat("/").unwrap();
        (stat.st_uid, stat.st_gid, stat.st_mode, stat.st_nlink) = (uid, gid, mode, links as _);
        stat
    }

    #[test]
    fn a_file_others_can_write_is_refused() {
        const FILE: u32 = 0o100_000;
        let writers = Writers::user(5);
        let check = |uid, gid, mode, links| writers.check_file(&stat(uid, gid, mode, links));
        assert_eq!(check(5, 7, FILE | 0o644, 1), Ok(()));
        assert_eq!(check(0, 7, FILE | 0o644, 1), Err(UntrustedFile::OtherUser { uid: 0 }));
        assert_eq!(check(5, 7, FILE | 0o644, 2), Err(UntrustedFile::OtherName));
        assert_eq!(check(5, 7, 0o010_644, 1), Err(UntrustedFile::NoFile), "a pipe");
        let shared = UntrustedFile::Writable { mode: FILE | 0o664, gid: 7 };
        assert_eq!(check(5, 7, FILE | 0o664, 1), Err(shared));
        assert!(shared.to_string().contains("group 7"), "{shared}");

        let with_group = writers.and_group(Some(7)).or_root();
        assert_eq!(with_group.check_file(&stat(5, 7, FILE | 0o664, 1)), Ok(()));
        assert_eq!(with_group.check_file(&stat(0, 7, FILE | 0o664, 1)), Ok(()));
        for (gid, mode) in [(8, 0o664), (7, 0o666), (7, 0o662)] {
            assert!(with_group.check_file(&stat(5, gid, FILE | mode, 1)).is_err(), "{gid} {mode:o}");
            assert!(with_group.check_folder(&stat(5, gid, mode, 3)).is_err(), "{gid} {mode:o}");
        }
        assert_eq!(with_group.check_folder(&stat(5, 7, 0o42_775, 3)), Ok(()));
    }
}
