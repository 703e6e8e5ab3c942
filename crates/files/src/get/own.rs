//! Opens files that only this user can write. In a folder that others may write to, an existing
//! file may be a trap: a file that another user keeps open, a link to a valuable file of this user,
//! or a pipe that blocks its opener.
//!
//! Never follows a link, blocks, or writes into a file of another user.

use std::ffi::OsStr;
use std::io;

use namely_host::disk::{File, Folder, OpenError, RACES_MAX, UntrustedFile, Writers};
use rustix::fs::OFlags;

/// Permissions of a file that is being fetched.
pub(super) const MODE: u32 = 0o600;

/// Opens `name` in `folder` to read and write if it exists. A file of this user that others can
/// write, too, by its mode or by another name, is unlinked and counts as absent.
pub(super) fn open(folder: &Folder, name: &OsStr) -> Result<Option<File>, OpenError> {
    match folder.open_file(name, OFlags::RDWR, Writers::this_user()) {
        Err(OpenError::UntrustedFile(UntrustedFile::OtherName | UntrustedFile::Writable { .. })) => {
            folder.remove(name)?;
            Ok(None)
        }
        opened => opened,
    }
}

/// Opens `name` like `open`, or makes the file if there is none. Returns whether it was made.
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

/// Returns the permissions of a new file, limited by `umask`. `mode` has the producer's
/// permissions, if they are to be retained. With `is_alone` no other user may write the file, even
/// if `umask` allows it, so that a later fetch recognizes the file as this user's.
pub(super) fn permissions(mode: Option<u32>, is_alone: bool) -> u32 {
    static UMASK: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let umask = *UMASK.get_or_init(|| {
        // Not read by the system call, which would change the mask of all threads for a moment.
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
    use namely_testkit::{Need, skip};
    use rustix::fs::Mode;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    fn refusal(folder: &Folder, name: &str) -> UntrustedFile {
        match open_or_create(folder, OsStr::new(name)).unwrap_err() {
            OpenError::UntrustedFile(foreign) => foreign,
            OpenError::System(error) => panic!("{error}"),
        }
    }

    fn pipe(folder: &Folder, name: &str) {
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(folder, name, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }

    #[test]
    fn a_new_file_belongs_to_its_owner_alone() {
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
    fn links_pipes_and_directories_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("dear"), "dear").unwrap();
        symlink(at("dear"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        pipe(&folder, "pipe");
        std::fs::create_dir(at("directory")).unwrap();
        for name in ["link", "dangling", "pipe", "directory"] {
            assert_eq!(refusal(&folder, name), UntrustedFile::NoFile, "{name}");
        }
        assert!(!at("nothing").exists());
    }

    #[test]
    fn a_file_others_can_write_is_replaced() {
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
    fn another_users_file_is_refused_by_name() {
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
            assert_eq!(refusal(&folder, name), UntrustedFile::OtherUser { uid: 65_534 }, "{name}");
        }
        chown(at("part"), Some(0), None).unwrap();
        assert!(!open_or_create(&folder, OsStr::new("part")).unwrap().1);
    }
}
