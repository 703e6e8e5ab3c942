//! An open folder. Its entries are opened, renamed and removed through its descriptor, so that a
//! process that renames folders or replaces them with links cannot redirect an operation.
//!
//! A name is one component. An operation never follows a link and never blocks on a special file.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, Stat, fcntl_setfl, fstat, fsync, mkdirat, openat, readlinkat,
    renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::{
    File, FolderEntry, Links, OpenError, Operation, UntrustedFile, Writers, is_real, open_beneath,
    open_named, run, step,
};

/// Folders within folders that are removed.
const REMOVE_DEPTH_MAX: usize = 128;

/// A folder that is open.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// The path by which it was opened, for messages.
    path: PathBuf,
    /// The users that may rename its entries if it is not shared.
    writers: Writers,
    /// Whether another user may rename its entries.
    is_shared: bool,
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Folder {
    /// Opens the folder that a user or the configuration names.
    ///
    /// # Errors
    /// The system's error, or another user made a link on the path: see [`open_named`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match open_named(path, flags) {
            // A folder that may not be read may still be traversed.
            Err(OpenError::System(error)) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => {
                open_named(path, OFlags::PATH | OFlags::DIRECTORY)?
            }
            opened => opened?,
        };
        Ok(Self::of(fd, path.to_owned(), Writers::this_user().or_root())?)
    }

    /// Opens the folder. Makes it with the permissions `mode` if it is missing, and its parents.
    ///
    /// # Errors
    /// As of [`open`](Self::open), or it cannot be made.
    pub fn open_or_make(path: &Path, mode: u32) -> Result<Self, OpenError> {
        match Self::open(path) {
            Err(OpenError::System(error)) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Self::open(path) };
        let parent = Self::open_or_make(parent, mode)?;
        match parent.make_folder(name, mode) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
            _ => {}
        }
        Ok(Folder { path: path.to_owned(), ..parent.below(Path::new(name))? })
    }

    /// Opens or makes the folder for this user alone, so that it survives a power cut. Each folder
    /// above it is synchronized, even if an earlier process made it.
    ///
    /// # Errors
    /// As of [`open_or_make`](Self::open_or_make); a folder above cannot be synchronized.
    pub fn open_or_make_durable(path: &Path) -> io::Result<Self> {
        let opened = Self::open_or_make(path, 0o700)?;
        for above in path.ancestors().skip(1) {
            match Self::open(above).map_err(io::Error::from).and_then(|above| above.sync()) {
                // This user may not read the folder, so another made it; or the file system cannot
                // synchronize folders.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
                    ) => {}
                synced => synced?,
            }
        }
        Ok(opened)
    }

    /// Opens the folder at the path `below` under this one. Links are refused.
    ///
    /// # Errors
    /// The system's; LOOP for a link.
    pub fn below(&self, below: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = open_beneath(self, below, flags, Links::Refuse)?;
        Ok(Self::of(fd, self.path.join(below), self.writers)?)
    }

    fn of(fd: OwnedFd, path: PathBuf, writers: Writers) -> Result<Self, Errno> {
        let is_shared = writers.check_folder(&fstat(&fd)?).is_err();
        Ok(Folder { fd, path, writers, is_shared })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its owner, permissions and the like.
    ///
    /// # Errors
    /// The system's.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(fstat(&self.fd)?)
    }

    /// Returns the status of `name` without opening it; `None` if it does not exist.
    ///
    /// # Errors
    /// The system's.
    pub fn look(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Stat>> {
        step("fstatat");
        match statat(&self.fd, one(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the file `name` if it is there and `writers` alone may write it.
    ///
    /// # Errors
    /// The reason for which another user may write it, or the system's error.
    pub fn open_file(
        &self,
        name: impl AsRef<OsStr>,
        flags: OFlags,
        writers: Writers,
    ) -> Result<Option<File>, OpenError> {
        let name = one(name.as_ref())?;
        let all = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        step("openat");
        let file = match openat(&self.fd, name, all, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => {
                // A file that may not be opened may still be examined.
                let Some(found) = self.look(name)? else { return Ok(None) };
                writers.check_file(&found)?;
                return Err(errno.into());
            }
        };
        writers.check_file(&fstat(&file)?)?;
        // O_NONBLOCK is cleared. With it, io_uring would fail instead of waiting for the file.
        fcntl_setfl(&file, flags & OFlags::DIRECT)?;
        Ok(Some(File(file.into())))
    }

    /// The content of the file `name`, of at most `octets_max`; `None` if nothing is there.
    ///
    /// # Errors
    /// As of [`open_file`](Self::open_file); it is longer than that.
    pub fn read(
        &self,
        name: impl AsRef<OsStr>,
        octets_max: u64,
        writers: Writers,
    ) -> Result<Option<Vec<u8>>, OpenError> {
        let Some(file) = self.open_file(name, OFlags::RDONLY, writers)? else { return Ok(None) };
        Ok(Some(super::named::read_all(&file, octets_max)?))
    }

    /// Makes the file `name`, which must not be there, with the permissions `mode`.
    ///
    /// # Errors
    /// The system's.
    pub fn create(&self, name: impl AsRef<OsStr>, flags: OFlags, mode: u32) -> io::Result<File> {
        let name = one(name.as_ref())?;
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        step("openat");
        let create = || Ok(openat(&self.fd, name, flags, Mode::from_raw_mode(mode))?);
        run(&Operation::Create(self.at(name)), create).map(|file| File(file.into()))
    }

    /// Opens the file `name` if it is there and `writers` alone may write it; else makes it.
    ///
    /// # Errors
    /// As of [`open_file`](Self::open_file) and [`create`](Self::create).
    pub fn open_or_create(
        &self,
        name: impl AsRef<OsStr>,
        flags: OFlags,
        writers: Writers,
    ) -> Result<File, OpenError> {
        let name = name.as_ref();
        for _ in 0..super::RACES_MAX {
            if let Some(file) = self.open_file(name, flags, writers)? {
                return Ok(file);
            }
            match self.create(name, flags, 0o600) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok(created?),
            }
        }
        Err(io::Error::from(io::ErrorKind::ResourceBusy).into())
    }

    /// Writes `octets` to the new file `temporary`, and renames it to `name` once they are on the
    /// disk. The file `name` is then either whole or unchanged. An existing file of the temporary
    /// name is removed.
    ///
    /// # Errors
    /// The system's; the temporary file is removed then.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        temporary: impl AsRef<OsStr>,
        octets: &[u8],
    ) -> io::Result<()> {
        let temporary = temporary.as_ref();
        self.remove_if_there(temporary)?;
        let written = self.create(temporary, OFlags::WRONLY, 0o600).and_then(|file| {
            file.write_all_at(octets, 0)?;
            file.sync_data()?;
            self.rename_file(&*file, temporary, name.as_ref())
        });
        if written.is_err() {
            // The remains would only take space.
            let _ = self.remove_if_there(temporary);
        }
        written
    }

    /// As [`Folder::replace`], but keeps an existing file `name`, and returns false then. Of
    /// several processes, one adds the file. A file system without RENAME_NOREPLACE (renameat2(2)),
    /// such as NFS, does not order them.
    ///
    /// # Errors
    /// The system's; the temporary file is removed then.
    pub fn add(
        &self,
        name: impl AsRef<OsStr>,
        temporary: impl AsRef<OsStr>,
        octets: &[u8],
    ) -> io::Result<bool> {
        let (name, temporary) = (name.as_ref(), temporary.as_ref());
        self.remove_if_there(temporary)?;
        let added = self.create(temporary, OFlags::WRONLY, 0o600).and_then(|file| {
            file.write_all_at(octets, 0)?;
            file.sync_data()?;
            self.rename_to_free(temporary, name)
        });
        if !matches!(added, Ok(true)) {
            // The remains would only take space.
            let _ = self.remove_if_there(temporary);
        }
        added
    }

    /// Renames `from` to `to`, unless `to` exists; false then.
    fn rename_to_free(&self, from: &OsStr, to: &OsStr) -> io::Result<bool> {
        let (from, to) = (one(from)?, one(to)?);
        step("renameat2");
        let rename = || match renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) if self.look(to)?.is_none() => {
                Ok(renameat(&self.fd, from, &self.fd, to)?)
            }
            Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST.into()),
            renamed => Ok(renamed?),
        };
        match run(&Operation::Rename(self.at(from), self.at(to)), rename) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            renamed => renamed.map(|()| true),
        }
    }

    /// Makes the folder `name` with the permissions `mode`.
    ///
    /// # Errors
    /// The system's.
    pub fn make_folder(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<()> {
        let name = one(name.as_ref())?;
        step("mkdirat");
        let make = || Ok(mkdirat(&self.fd, name, Mode::from_raw_mode(mode))?);
        run(&Operation::MakeFolder(self.at(name)), make)
    }

    /// Makes the symbolic link `name`, which must not be there, with this `target`. Whether the
    /// target is a safe one is for the caller to check.
    ///
    /// # Errors
    /// The system's.
    pub fn make_link(&self, name: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> io::Result<()> {
        let name = one(name.as_ref())?;
        step("symlinkat");
        Ok(symlinkat(target.as_ref(), &self.fd, name)?)
    }

    /// Returns the target of the symbolic link `name`; `None` if it is no link, or does not exist.
    ///
    /// # Errors
    /// The system's.
    pub fn link_target(&self, name: impl AsRef<OsStr>) -> io::Result<Option<OsString>> {
        let name = one(name.as_ref())?;
        step("readlinkat");
        match readlinkat(&self.fd, name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()))),
            Err(Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Renames `file` from `from` to `to`. An existing file of the name `to` is replaced.
    ///
    /// # Errors
    /// The system's error, or another process replaced the file.
    pub fn rename_file(
        &self,
        file: impl AsFd,
        from: impl AsRef<OsStr>,
        to: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let to = to.as_ref();
        self.rename(from, to)?;
        // If no other user may rename it, the name leads to that file.
        if self.is_shared && !self.is_at(file, to)? {
            return Err(io::Error::other("another program replaced the file"));
        }
        Ok(())
    }

    /// Renames the entry `from` to `to`.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        let (from, to) = (one(from.as_ref())?, one(to.as_ref())?);
        step("renameat");
        let rename = || Ok(renameat(&self.fd, from, &self.fd, to)?);
        run(&Operation::Rename(self.at(from), self.at(to)), rename)
    }

    /// Returns true if `name` leads to `file`.
    ///
    /// # Errors
    /// The system's.
    pub fn is_at(&self, file: impl AsFd, name: impl AsRef<OsStr>) -> io::Result<bool> {
        let held = fstat(file)?;
        let found = self.look(name)?;
        Ok(found.is_some_and(|found| (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)))
    }

    /// Removes the file `name`.
    ///
    /// # Errors
    /// The system's; there is none.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = one(name.as_ref())?;
        step("unlinkat");
        let remove = || Ok(unlinkat(&self.fd, name, AtFlags::empty())?);
        run(&Operation::Remove(self.at(name)), remove)
    }

    /// Removes the file `name` if it exists. Returns true if it did.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_if_there(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match self.remove(name) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes `name` with all that is in it; links are removed, never followed.
    ///
    /// # Errors
    /// The system's; there is none, or it is nested too deep.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        remove_all(self.as_fd(), one(name.as_ref())?, REMOVE_DEPTH_MAX)
    }

    /// Returns the names in it, in no particular order.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Writes the folder's entries to the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        let sync = || match fsync(&self.fd) {
            // It was not opened to read.
            Err(Errno::BADF) => Err(Errno::ACCESS.into()),
            synced => Ok(synced?),
        };
        run(&Operation::SyncFolder(&self.path), || if is_real() { sync() } else { Ok(()) })
    }

    fn at<'a>(&'a self, name: &'a OsStr) -> FolderEntry<'a> {
        FolderEntry { folder: &self.path, name }
    }
}

/// `name`, if it is one component: neither a path nor the folder itself.
fn one(name: &OsStr) -> Result<&OsStr, Errno> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(Errno::INVAL),
        octets if octets.contains(&b'/') => Err(Errno::INVAL),
        _ => Ok(name),
    }
}

fn remove_all(folder: BorrowedFd<'_>, name: &OsStr, depth: usize) -> io::Result<()> {
    step("unlinkat");
    match unlinkat(folder, name, AtFlags::empty()) {
        // For a directory Linux returns the former, other systems the latter.
        Err(Errno::ISDIR | Errno::PERM) if depth > 0 => {}
        other => return Ok(other?),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    step("openat");
    let inside = openat(folder, name, flags, Mode::empty())?;
    for entry in Dir::read_from(&inside)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            remove_all(inside.as_fd(), OsStr::from_bytes(name), depth - 1)?;
        }
    }
    step("unlinkat");
    Ok(unlinkat(folder, name, AtFlags::REMOVEDIR)?)
}

impl From<UntrustedFile> for io::Error {
    fn from(foreign: UntrustedFile) -> Self {
        OpenError::UntrustedFile(foreign).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn links_are_made_and_read_without_following() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        folder.make_link("link", "../nowhere").unwrap();
        assert_eq!(folder.link_target("link").unwrap(), Some("../nowhere".into()));
        std::fs::write(dir.path().join("file"), "x").unwrap();
        for other in ["file", "nothing"] {
            assert_eq!(folder.link_target(other).unwrap(), None, "{other}");
        }
        assert!(folder.make_link("file", "x").is_err() && folder.make_link("../x", "x").is_err());
    }

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        (dir, folder)
    }

    #[test]
    fn a_file_name_is_one_component() {
        let (_dir, folder) = folder();
        for name in ["", ".", "..", "a/b", "/etc", "a/"] {
            let refused = [
                folder.create(name, OFlags::WRONLY, 0o600).err(),
                folder.remove(name).err(),
                folder.rename(name, "x").err(),
                folder.rename("x", name).err(),
                folder.make_folder(name, 0o700).err(),
                folder.look(name).err(),
                folder.remove_all(name).err(),
            ];
            for error in refused {
                assert_eq!(error.and_then(|error| error.raw_os_error()), Some(Errno::INVAL.raw_os_error()));
            }
        }
    }

    #[test]
    fn only_regular_own_files_are_opened() {
        let (dir, folder) = folder();
        let at = |name: &str| dir.path().join(name);
        let own = Writers::this_user();
        std::fs::write(at("file"), "x").unwrap();
        symlink("file", at("link")).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(&folder, "pipe", rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(folder.read("file", 1, own).unwrap().unwrap(), b"x");
        assert!(folder.read("nothing", 1, own).unwrap().is_none());
        for name in ["link", "directory", "pipe"] {
            for flags in [OFlags::RDONLY, OFlags::WRONLY] {
                let error = folder.open_file(name, flags, own).unwrap_err();
                assert!(matches!(error, OpenError::UntrustedFile(UntrustedFile::NoFile)), "{name}: {error}");
            }
        }
        std::fs::set_permissions(at("file"), std::fs::Permissions::from_mode(0o602)).unwrap();
        assert!(folder.read("file", 1, own).is_err());
    }

    #[test]
    fn a_file_is_replaced_atomically() {
        let (dir, folder) = folder();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("dear"), "dear").unwrap();
        symlink("dear", at("file.new")).unwrap();
        folder.replace("file", "file.new", b"new").unwrap();
        assert_eq!(std::fs::read(at("file")).unwrap(), b"new");
        assert_eq!(std::fs::read(at("dear")).unwrap(), b"dear");
        assert!(!at("file.new").exists());
    }

    #[test]
    fn a_rename_checks_for_swapped_files() {
        let (dir, _) = folder();
        let at = |name: &str| dir.path().join(name);
        for (mode, is_noticed) in [(0o777, true), (0o700, false)] {
            std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let folder = Folder::open(dir.path()).unwrap();
            let file = folder.create("part", OFlags::WRONLY, 0o600).unwrap();
            std::fs::remove_file(at("part")).unwrap();
            std::fs::write(at("part"), "another").unwrap();
            assert_eq!(folder.rename_file(&*file, "part", "target").is_err(), is_noticed);
        }
    }

    #[test]
    fn missing_folders_are_created() {
        let (dir, _) = folder();
        let deep = dir.path().join("a/b/c");
        assert_eq!(Folder::open_or_make(&deep, 0o700).unwrap().path(), deep);
        assert!(Folder::open_or_make(&deep, 0o700).is_ok());
        std::fs::write(dir.path().join("a/file"), "").unwrap();
        assert!(Folder::open_or_make(&dir.path().join("a/file/x"), 0o700).is_err());
    }

    #[test]
    fn a_folder_is_removed_without_following_links() {
        let (dir, folder) = folder();
        std::fs::create_dir_all(dir.path().join("gone/deep")).unwrap();
        std::fs::write(dir.path().join("dear"), "dear").unwrap();
        symlink("../../dear", dir.path().join("gone/deep/link")).unwrap();
        symlink("/", dir.path().join("gone/root")).unwrap();
        folder.remove_all("gone").unwrap();
        assert_eq!(folder.names().unwrap(), ["dear"]);
    }
}
