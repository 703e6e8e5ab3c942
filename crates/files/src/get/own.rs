//! Opens files that nobody but this user writes. In a folder that others may write to, whatever is
//! there already may be theirs: a file that they keep open, a link to one that is dear to this
//! user, a pipe that keeps whoever opens it waiting.
//!
//! Never follows a link, waits, or writes into what is not this user's own.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use namely_host::disk::{self, File};
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Permissions of a file that is being fetched.
pub(super) const MODE: u32 = 0o600;

/// How often something else may take a file's place while it is opened.
const RACES_MAX: usize = 16;

/// Why a file that is there already is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It belongs to another user.
    OtherUser {
        /// Whom.
        uid: u32,
    },
    /// It is a link, a pipe, a device or a directory.
    NoFile,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Foreign::NoFile => f.write_str("is no regular file"),
            Foreign::OtherUser { uid } => match namely_host::users::name_of(*uid) {
                Some(name) => write!(f, "belongs to user {name} (uid {uid})"),
                None => write!(f, "belongs to uid {uid}"),
            },
        }
    }
}

/// Why a file is not opened.
#[derive(Debug)]
pub(super) enum OpenError {
    /// What is there is somebody else's, or no file.
    Foreign(Foreign),
    /// The system's reason.
    System(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenError::System(error)
    }
}

/// Opens `path` to read and write if it is there. A file of this user's that others can write into
/// too, by its mode or by another name, loses this name and counts as not there.
pub(super) fn open(path: &Path) -> Result<Option<File>, OpenError> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match File::open(path, flags, 0) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            // What may not be opened may be looked at.
            let found = path.symlink_metadata()?;
            return Err(foreign(&found).map_or_else(|| error.into(), OpenError::Foreign));
        }
    };
    let found = file.metadata()?;
    if let Some(foreign) = foreign(&found) {
        return Err(OpenError::Foreign(foreign));
    }
    if found.nlink() > 1 || found.mode() & 0o022 != 0 {
        disk::remove_file(path)?;
        return Ok(None);
    }
    Ok(Some(file))
}

/// The same; makes the file if there is none. Whether it was made.
pub(super) fn open_or_create(path: &Path) -> Result<(File, bool), OpenError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    for _ in 0..RACES_MAX {
        if let Some(file) = open(path)? {
            return Ok((file, false));
        }
        match File::open(path, flags, MODE) {
            Ok(file) => return Ok((file, true)),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy).into())
}

/// Returns true if `path` still leads to `file`.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match path.symlink_metadata() {
        Ok(there) => Ok((there.dev(), there.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What makes a file another user's, or none.
fn foreign(found: &std::fs::Metadata) -> Option<Foreign> {
    match found {
        found if found.uid() != own_uid() => Some(Foreign::OtherUser { uid: found.uid() }),
        found if !found.is_file() => Some(Foreign::NoFile),
        _ => None,
    }
}

/// Whether what is at `path`, which is no regular file, or a link on the way to it is a user's who
/// is neither this one nor root.
pub(super) fn foreign_target(path: &Path) -> io::Result<Option<Foreign>> {
    let owners = [path.symlink_metadata()?.uid(), path.metadata()?.uid()];
    let other = owners.into_iter().find(|uid| *uid != own_uid() && *uid != 0);
    Ok(other.map(|uid| Foreign::OtherUser { uid }))
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The permissions that a new file has, as `umask` leaves them; `mode`: those of its producer, if
/// they are to be kept.
pub(super) fn permissions(mode: Option<u32>) -> u32 {
    static UMASK: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let umask = *UMASK.get_or_init(|| {
        // Not by the system call, which would set it for a moment, for all threads.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
    });
    mode.map_or(0o666, |mode| mode & 0o777) & !umask
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_skip::{Need, skip};
    use rustix::fs::{CWD, Mode};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn refusal(path: &Path) -> Foreign {
        match open_or_create(path).unwrap_err() {
            OpenError::Foreign(foreign) => foreign,
            OpenError::System(error) => panic!("{error}"),
        }
    }

    fn pipe(path: &Path) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn an_own_file_is_opened_again_and_a_new_one_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("part");
        let (file, is_new) = open_or_create(&path).unwrap();
        assert!(is_new && file.metadata().unwrap().mode() & 0o777 == 0o600);
        file.write_all_at(b"x", 0).unwrap();
        assert!(!open_or_create(&path).unwrap().1);
        assert!(is_at(&file, &path).unwrap());
        std::fs::rename(&path, dir.path().join("target")).unwrap();
        assert!(!is_at(&file, &path).unwrap());
    }

    #[test]
    fn links_pipes_and_directories_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("dear"), "dear").unwrap();
        symlink(at("dear"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        pipe(&at("pipe"));
        std::fs::create_dir(at("directory")).unwrap();
        for name in ["link", "dangling", "pipe", "directory"] {
            assert_eq!(refusal(&at(name)), Foreign::NoFile, "{name}");
        }
        assert!(!at("nothing").exists());
        assert_eq!(foreign_target(&at("pipe")).unwrap(), None);
    }

    #[test]
    fn a_file_with_another_name_or_that_others_may_write_is_left_and_another_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("dear"), "dear").unwrap();
        std::fs::hard_link(at("dear"), at("part")).unwrap();
        let (file, is_new) = open_or_create(&at("part")).unwrap();
        file.set_len(0).unwrap();
        assert!(is_new && std::fs::read(at("dear")).unwrap() == b"dear");

        std::fs::write(at("open"), "what others wrote").unwrap();
        std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o666)).unwrap();
        let (file, is_new) = open_or_create(&at("open")).unwrap();
        assert!(is_new && file.metadata().unwrap().len() == 0);
    }

    #[test]
    fn another_users_file_is_refused_and_its_owner_named() {
        if own_uid() != 0 {
            return skip(Need::Root, "only root can give files away");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("part"), "bait").unwrap();
        pipe(&at("pipe"));
        symlink("/dev/null", at("link")).unwrap();
        for name in ["part", "pipe", "link"] {
            std::os::unix::fs::lchown(at(name), Some(65_534), None).unwrap();
            assert_eq!(refusal(&at(name)), Foreign::OtherUser { uid: 65_534 }, "{name}");
        }
        for name in ["pipe", "link"] {
            let found = foreign_target(&at(name)).unwrap();
            assert_eq!(found, Some(Foreign::OtherUser { uid: 65_534 }), "{name}");
        }
        assert_eq!(foreign_target(Path::new("/dev/null")).unwrap(), None);
        chown(at("part"), Some(0), None).unwrap();
        assert!(!open_or_create(&at("part")).unwrap().1);
    }
}
