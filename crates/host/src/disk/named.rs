//! Files and folders that a user or the configuration names. Such a path may lead through links if
//! only root or this user can have made them. The paths of ConfigMaps and Secrets do.
//!
//! A folder on a path without links may belong to any user, because the path names exactly that
//! folder.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat, openat2, readlinkat, stat,
};
use rustix::io::Errno;

use super::{OpenError, UntrustedFile, Writers, step};

/// Maximum number of links in a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Opens `path` with `flags`.
///
/// # Errors
/// The system's error, or another user made a link on the path.
pub fn open_named(path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = flags | OFlags::CLOEXEC;
    step("openat2");
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => walk(path, flags),
        opened => Ok(opened?),
    }
}

/// Opens the file `path` for reading. Never blocks: anything but a regular file is an error.
///
/// # Errors
/// As of [`open_named`]; it is no regular file.
pub fn open_named_file(path: &Path) -> Result<std::fs::File, OpenError> {
    let file = open_named(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(UntrustedFile::NoFile.into());
    }
    Ok(file.into())
}

/// The content of the file that `path` names, of at most `octets_max`.
///
/// # Errors
/// As of [`open_named_file`]; it is longer than that.
pub fn read_named(path: &Path, octets_max: u64) -> Result<Vec<u8>, OpenError> {
    Ok(read_all(&open_named_file(path)?, octets_max)?)
}

/// The content of the secret file that `path` names, of at most `octets_max`. Only this user or
/// root may own it, and no other user may have a permission for it.
///
/// # Errors
/// As of [`read_named`]; others own it or may open it.
pub fn read_named_secret(path: &Path, octets_max: u64) -> Result<Vec<u8>, OpenError> {
    let file = open_named_file(path)?;
    let found = fstat(&file)?;
    Writers::this_user().or_root().check_owner(&found)?;
    // An access control list is visible in the permissions of the group, which are its mask.
    if found.st_mode & 0o077 != 0 {
        return Err(UntrustedFile::Exposed { mode: found.st_mode }.into());
    }
    Ok(read_all(&file, octets_max)?)
}

/// Reads the rest of `file`, at most `octets_max`.
pub(super) fn read_all(file: &std::fs::File, octets_max: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    file.take(octets_max.saturating_add(1)).read_to_end(&mut octets)?;
    if octets.len() as u64 > octets_max {
        let error = format!("the file is larger than {octets_max} octets");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
    }
    Ok(octets)
}

/// The remaining components of a path, the next one last.
struct RemainingPath(Vec<OsString>);

impl RemainingPath {
    fn push(&mut self, path: &Path) {
        let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
        let at = self.0.len();
        self.0.extend(parts.map(|part| part.as_os_str().to_owned()));
        self.0[at..].reverse();
    }
}

/// Walks along `path` and checks the owner of each link.
fn walk(path: &Path, flags: OFlags) -> Result<OwnedFd, OpenError> {
    const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let start = |path: &Path| {
        let start = if path.is_absolute() { "/" } else { "." };
        open(start, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    let mut at = start(path)?;
    let mut way = RemainingPath(Vec::new());
    way.push(path);
    let mut links = 0;
    while let Some(name) = way.0.pop() {
        step("openat");
        let found = openat(&at, &name, STEP, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&found)?.st_mode) == FileType::Symlink {
            check_link(&fstat(&at)?, &fstat(&found)?)?;
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            let target = OsString::from_vec(readlinkat(&found, "", Vec::new())?.into_bytes());
            let target = Path::new(&target);
            if target.is_absolute() {
                at = start(target)?;
            }
            way.push(target);
        } else if way.0.is_empty() {
            step("openat");
            match openat(&at, &name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                // A link was put there after the check.
                Err(Errno::LOOP) if links < LINKS_MAX => {
                    links += 1;
                    way.0.push(name);
                }
                opened => return Ok(opened?),
            }
        } else {
            at = found;
        }
    }
    Ok(openat(at.as_fd(), ".", flags, Mode::empty())?)
}

/// Checks that `link`, which lies in `folder`, was made by root or by this user.
fn check_link(folder: &Stat, link: &Stat) -> Result<(), UntrustedFile> {
    let writers = Writers::this_user().or_root();
    for owner in [link.st_uid, folder.st_uid] {
        // In a user namespace without the machine's root, the owner of `/` takes the place of root.
        if !writers.is_owner(owner) && !stat("/").is_ok_and(|top| top.st_uid == owner) {
            return Err(UntrustedFile::Link { uid: owner });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_testkit::{Need, skip};
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
        read_named(path, 16)
    }

    #[test]
    fn own_kubernetes_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("..2026")).unwrap();
        std::fs::write(at("..2026/policy.toml"), "policy").unwrap();
        symlink("..2026", at("..data")).unwrap();
        symlink("..data/policy.toml", at("policy.toml")).unwrap();
        symlink(at("policy.toml"), at("absolute")).unwrap();
        symlink("..2026/../absolute", at("back")).unwrap();
        for name in ["policy.toml", "..data/policy.toml", "absolute", "back", "./..data/../policy.toml"] {
            assert_eq!(read(&at(name)).unwrap(), b"policy", "{name}");
        }
        assert!(open_named(&at("..data"), OFlags::DIRECTORY).is_ok());
        assert!(open_named(Path::new("/"), OFlags::DIRECTORY).is_ok());
        assert!(open_named(Path::new(""), OFlags::DIRECTORY).is_ok());
    }

    #[test]
    fn loops_pipes_and_long_files_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        symlink("loop", at("loop")).unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, mode, 0).unwrap();
        symlink("pipe", at("to-pipe")).unwrap();
        symlink("/dev/zero", at("to-zero")).unwrap();
        for name in ["loop", "pipe", "to-pipe", "to-zero", "nothing", "."] {
            assert!(read(&at(name)).is_err(), "{name}");
        }
        std::fs::write(at("at-limit"), [0; 16]).unwrap();
        std::fs::write(at("past-limit"), [0; 17]).unwrap();
        assert_eq!(read(&at("at-limit")).unwrap().len(), 16);
        assert!(read(&at("past-limit")).is_err());
    }

    #[test]
    fn a_secret_that_others_may_open_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        std::fs::write(&path, "key").unwrap();
        let with_mode = |mode: u32| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read_named_secret(&path, 16)
        };
        for mode in [0o600, 0o400] {
            assert_eq!(with_mode(mode).unwrap(), b"key", "{mode:o}");
        }
        for mode in [0o640, 0o604, 0o620, 0o610, 0o644] {
            let error = with_mode(mode).unwrap_err();
            let found = matches!(error, OpenError::UntrustedFile(UntrustedFile::Exposed { mode: found })
                if found & 0o777 == mode);
            assert!(found && error.to_string().contains(&format!("{mode:o}")), "{mode:o}: {error}");
        }
        with_mode(0o600).unwrap();
        if rustix::process::geteuid().is_root() {
            lchown(&path, Some(65_534), None).unwrap();
            let error = read_named_secret(&path, 16).unwrap_err();
            assert!(
                matches!(error, OpenError::UntrustedFile(UntrustedFile::OtherUser { uid: 65_534 })),
                "{error}"
            );
        }
    }

    #[test]
    fn a_link_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return skip(Need::Root, "only root can give links away");
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("theirs")).unwrap();
        std::fs::write(at("file"), "file").unwrap();
        symlink("file", at("link")).unwrap();
        lchown(at("link"), Some(65_534), None).unwrap();
        symlink("../file", at("theirs/link")).unwrap();
        std::fs::write(at("theirs/plain"), "plain").unwrap();
        lchown(at("theirs"), Some(65_534), None).unwrap();
        for name in ["link", "theirs/link"] {
            let error = read(&at(name)).unwrap_err();
            assert!(
                matches!(error, OpenError::UntrustedFile(UntrustedFile::Link { uid: 65_534 })),
                "{name}: {error}"
            );
        }
        assert_eq!(read(&at("theirs/plain")).unwrap(), b"plain");
    }
}
