//! Opens files that nobody but this user writes. In a folder that others may write to, whatever is
//! there already may be theirs: a file that they keep open, a link to one that is dear to this
//! user, a pipe that keeps whoever opens it waiting.
//!
//! Never follows a link, waits, or writes into what is not this user's own.

use std::ffi::OsStr;
use std::io;

use namely_host::disk::{File, Folder, Foreign, OpenError, RACES_MAX, Writers};
use rustix::fs::OFlags;

/// Permissions of a file that is being fetched.
pub(super) const MODE: u32 = 0o600;

/// Opens `name` in `folder` to read and write if it is there. A file of this user's that others can
/// write into too, by its mode or by another name, loses this name and counts as not there.
pub(super) fn open(folder: &Folder, name: &OsStr) -> Result<Option<File>, OpenError> {
    match folder.open_file(name, OFlags::RDWR, Writers::this_user()) {
        Err(OpenError::Foreign(Foreign::OtherName | Foreign::Writable { .. })) => {
            folder.remove(name)?;
            Ok(None)
        }
        opened => opened,
    }
}

/// The same; makes the file if there is none. Whether it was made.
pub(super) fn open_or_create(folder: &Folder, name: &OsStr) -> Result<(File, bool), OpenError> {
    for _ in 0..RACES_MAX {
        if let Some(file) = open(folder, name)? {
            return Ok((file, false));
        }
        match folder.create(name, OFlags::RDWR, MODE) {
            Ok(file) => return Ok((file, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy).into())
}

/// The permissions that a new file has, as `umask` leaves them; `mode`: those of its producer, if
/// they are to be kept. `is_alone`: nobody else may write it, whatever `umask` says, so that it is
/// known for this user's work when it is fetched again.
pub(super) fn permissions(mode: Option<u32>, is_alone: bool) -> u32 {
    static UMASK: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let umask = *UMASK.get_or_init(|| {
        // Not by the system call, which would set it for a moment, for all threads.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
    });
    let others = if is_alone { 0o022 } else { 0 };
    mode.map_or(0o666, |mode| mode & 0o777) & !umask & !others
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_skip::{Need, skip};
    use rustix::fs::Mode;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    fn refusal(folder: &Folder, name: &str) -> Foreign {
        match open_or_create(folder, OsStr::new(name)).unwrap_err() {
            OpenError::Foreign(foreign) => foreign,
            OpenError::System(error) => panic!("{error}"),
        }
    }

    fn pipe(folder: &Folder, name: &str) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(folder, name, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn an_own_file_is_opened_again_and_a_new_one_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, part) = (Folder::open(dir.path()).unwrap(), OsStr::new("part"));
        let (file, is_new) = open_or_create(&folder, part).unwrap();
        assert!(is_new && file.metadata().unwrap().mode() & 0o777 == 0o600);
        file.write_all_at(b"x", 0).unwrap();
        assert!(!open_or_create(&folder, part).unwrap().1);
        assert!(folder.is_at(&*file, part).unwrap());
        folder.rename(part, "target").unwrap();
        assert!(!folder.is_at(&*file, part).unwrap());
    }

    #[test]
    fn links_pipes_and_directories_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("dear"), "dear").unwrap();
        symlink(at("dear"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        pipe(&folder, "pipe");
        std::fs::create_dir(at("directory")).unwrap();
        for name in ["link", "dangling", "pipe", "directory"] {
            assert_eq!(refusal(&folder, name), Foreign::NoFile, "{name}");
        }
        assert!(!at("nothing").exists());
    }

    #[test]
    fn a_file_with_another_name_or_that_others_may_write_is_left_and_another_made() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("dear"), "dear").unwrap();
        std::fs::hard_link(at("dear"), at("part")).unwrap();
        let (file, is_new) = open_or_create(&folder, OsStr::new("part")).unwrap();
        file.set_len(0).unwrap();
        assert!(is_new && std::fs::read(at("dear")).unwrap() == b"dear");

        std::fs::write(at("open"), "what others wrote").unwrap();
        std::fs::set_permissions(at("open"), std::fs::Permissions::from_mode(0o666)).unwrap();
        let (file, is_new) = open_or_create(&folder, OsStr::new("open")).unwrap();
        assert!(is_new && file.metadata().unwrap().len() == 0);
    }

    #[test]
    fn another_users_file_is_refused_and_its_owner_named() {
        if !rustix::process::geteuid().is_root() {
            return skip(Need::Root, "only root can give files away");
        }
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("part"), "bait").unwrap();
        pipe(&folder, "pipe");
        symlink("/dev/null", at("link")).unwrap();
        for name in ["part", "pipe", "link"] {
            std::os::unix::fs::lchown(at(name), Some(65_534), None).unwrap();
            assert_eq!(refusal(&folder, name), Foreign::OtherUser { uid: 65_534 }, "{name}");
        }
        chown(at("part"), Some(0), None).unwrap();
        assert!(!open_or_create(&folder, OsStr::new("part")).unwrap().1);
    }
}
