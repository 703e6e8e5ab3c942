//! Storage of a key chain's files: a folder, or memory that behaves like one.
//!
//! Each file is written under another name, synced, and then renamed. So a file under its own name
//! is always complete.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use namely_host::disk::{Folder, OpenError, UntrustedFile, Writers};
use rustix::fs::{OFlags, fstat};
use zeroize::Zeroizing;

use super::KeyChainError;
use crate::crypto::random;

/// Octets of a file of the key chain.
///
/// # Limit
/// The file is refused, and the rest of the key chain stays usable.
/// - Value: 64 KiB
/// - Tests: `an_oversized_key_file_is_named`
pub(super) const FILE_OCTETS_MAX: u64 = 64 << 10;

/// Prefix of the names of unfinished files and folders, which readers ignore.
const TEMPORARY: &str = ".new-";

#[derive(Debug)]
pub(super) enum Files {
    Folder(PathBuf),
    Memory(Memory),
}

/// Files of a key chain in memory, by path.
#[derive(Default)]
pub(super) struct Memory(Mutex<BTreeMap<String, Zeroizing<Vec<u8>>>>);

impl Memory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Zeroizing<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} files)", self.lock().len())
    }
}

impl Files {
    /// The location of `path`, for messages.
    pub(super) fn locate(&self, path: &str) -> PathBuf {
        match self {
            Files::Folder(root) => root.join(path),
            Files::Memory(_) => Path::new("(memory)").join(path),
        }
    }

    /// Reads a file; `None` if it does not exist.
    pub(super) fn read(&self, path: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyChainError> {
        match self {
            Files::Folder(root) => {
                let Some((folder, name)) = open_above(root, path)? else { return Ok(None) };
                let read = folder.read(name, FILE_OCTETS_MAX, writers());
                let octets = read.map_err(|e| KeyChainError::Read(self.locate(path), e.into()))?;
                Ok(octets.map(Zeroizing::new))
            }
            Files::Memory(files) => Ok(files.lock().get(path).cloned()),
        }
    }

    /// Reads the text of a file without surrounding white space.
    pub(super) fn read_text(&self, path: &str) -> Result<Option<String>, KeyChainError> {
        let Some(octets) = self.read(path)? else { return Ok(None) };
        match std::str::from_utf8(&octets) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(_) => Err(KeyChainError::Corrupted(self.locate(path), "it is not text".into())),
        }
    }

    /// Checks that this user or root owns the folder `path`, and that no other user may write into
    /// it.
    pub(super) fn check_owner(&self, path: &str) -> Result<(), KeyChainError> {
        match self {
            Files::Folder(root) => open_folder(root, path).map(drop),
            Files::Memory(_) => Ok(()),
        }
    }

    /// Reads a file, and refuses it if others than its owner can read it.
    pub(super) fn read_private(&self, path: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyChainError> {
        if let Files::Folder(root) = self {
            let Some((folder, name)) = open_above(root, path)? else { return Ok(None) };
            let mode = match folder.open_file(name, OFlags::RDONLY, writers()) {
                Ok(None) => return Ok(None),
                Ok(Some(file)) => fstat(&*file).map(|found| found.st_mode).map_err(OpenError::from),
                Err(OpenError::UntrustedFile(UntrustedFile::Writable { mode, .. })) => Ok(mode),
                Err(error) => Err(error),
            };
            let mode = mode.map_err(|e| KeyChainError::Read(self.locate(path), e.into()))?;
            if mode & 0o077 != 0 {
                return Err(KeyChainError::TooOpen(self.locate(path), mode & 0o777));
            }
        }
        self.read(path)
    }

    /// Returns the names in a folder, sorted; empty if there is no such folder.
    pub(super) fn list(&self, folder: &str) -> Result<Vec<String>, KeyChainError> {
        let mut names: Vec<String> = match self {
            Files::Folder(root) => {
                let Some(opened) = open_folder(root, folder)? else { return Ok(Vec::new()) };
                let names = opened.names().map_err(|e| KeyChainError::Read(self.locate(folder), e))?;
                names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
            }
            Files::Memory(files) => {
                let prefix = format!("{folder}/");
                let inside = |path: &String| path.strip_prefix(&prefix)?.split('/').next().map(str::to_owned);
                files.lock().keys().filter_map(inside).collect()
            }
        };
        names.retain(|name| !name.starts_with(TEMPORARY));
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Writes a file of mode 0600, and replaces an existing one.
    pub(super) fn write(&self, path: &str, octets: &[u8]) -> Result<(), KeyChainError> {
        match self {
            Files::Folder(root) => {
                write_file(root, path, octets).map_err(|e| KeyChainError::Write(self.locate(path), e))
            }
            Files::Memory(files) => {
                files.lock().insert(path.to_owned(), Zeroizing::new(octets.to_vec()));
                Ok(())
            }
        }
    }

    /// Writes a file of mode 0600, unless it exists; false then. Of several processes, one writes
    /// it.
    pub(super) fn add(&self, path: &str, octets: &[u8]) -> Result<bool, KeyChainError> {
        match self {
            Files::Folder(root) => {
                add_file(root, path, octets).map_err(|e| KeyChainError::Write(self.locate(path), e))
            }
            Files::Memory(files) => {
                let mut files = files.lock();
                let is_free = !files.contains_key(path);
                if is_free {
                    files.insert(path.to_owned(), Zeroizing::new(octets.to_vec()));
                }
                Ok(is_free)
            }
        }
    }

    /// Makes a new folder with files in it, atomically.
    pub(super) fn create_folder(&self, path: &str, inside: &[(&str, &[u8])]) -> Result<(), KeyChainError> {
        match self {
            Files::Folder(root) => {
                create_folder(root, path, inside).map_err(|e| KeyChainError::Write(self.locate(path), e))
            }
            Files::Memory(_) => {
                inside.iter().try_for_each(|(name, octets)| self.write(&format!("{path}/{name}"), octets))
            }
        }
    }

    /// Removes a file, or a folder with its content. A missing file is no error.
    pub(super) fn remove(&self, path: &str) -> Result<(), KeyChainError> {
        match self {
            Files::Folder(root) => {
                let Some((folder, name)) = open_above(root, path)? else { return Ok(()) };
                match folder.remove_all(name) {
                    Err(e) if !is_absent(&e) => Err(KeyChainError::Write(self.locate(path), e)),
                    _ => Ok(()),
                }
            }
            Files::Memory(files) => {
                let inside = format!("{path}/");
                files.lock().retain(|name, _| name != path && !name.starts_with(&inside));
                Ok(())
            }
        }
    }
}

fn is_absent(e: &io::Error) -> bool {
    e.kind() == ErrorKind::NotFound
}

/// The users whose files are trusted.
fn writers() -> Writers {
    Writers::this_user().or_root()
}

/// Opens the folder `below` the key chain's folder; `None` if it does not exist.
fn open_folder(root: &Path, below: &str) -> Result<Option<Folder>, KeyChainError> {
    let path = root.join(below);
    let opened = Folder::open(root).and_then(|top| match below {
        "" => Ok(top),
        below => Ok(top.below(Path::new(below))?),
    });
    let folder = match opened {
        Err(OpenError::System(e)) if is_absent(&e) => return Ok(None),
        opened => opened.map_err(|e| KeyChainError::Read(path.clone(), e.into()))?,
    };
    let found = folder.stat().map_err(|e| KeyChainError::Read(path.clone(), e))?;
    match writers().check_folder(&found) {
        Ok(()) => Ok(Some(folder)),
        Err(UntrustedFile::Writable { mode, .. }) => Err(KeyChainError::Writable(path, mode & 0o7777)),
        Err(_) => Err(KeyChainError::OtherOwner(path, found.st_uid)),
    }
}

/// Opens the folder of the file `path`, and returns it with the file's name.
fn open_above<'a>(root: &Path, path: &'a str) -> Result<Option<(Folder, &'a str)>, KeyChainError> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok(open_folder(root, above)?.map(|folder| (folder, name)))
}

/// Like `open_above`, but makes missing folders.
fn make_above<'a>(root: &Path, path: &'a str) -> io::Result<(Folder, &'a str)> {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut folder = Folder::open_or_make(root, 0o700)?;
    for part in above.split('/').filter(|part| !part.is_empty()) {
        match folder.make_folder(part, 0o700) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(e),
            _ => folder = folder.below(Path::new(part))?,
        }
    }
    writers().check_folder(&folder.stat()?)?;
    Ok((folder, name))
}

fn write_file(root: &Path, path: &str, octets: &[u8]) -> io::Result<()> {
    let (folder, name) = make_above(root, path)?;
    folder.replace(name, temporary_name()?, octets)?;
    folder.sync()
}

fn add_file(root: &Path, path: &str, octets: &[u8]) -> io::Result<bool> {
    let (folder, name) = make_above(root, path)?;
    let is_added = folder.add(name, temporary_name()?, octets)?;
    folder.sync()?;
    Ok(is_added)
}

fn create_folder(root: &Path, path: &str, inside: &[(&str, &[u8])]) -> io::Result<()> {
    let (parent, name) = make_above(root, path)?;
    let temporary = temporary_name()?;
    parent.make_folder(&temporary, 0o700)?;
    let written = parent.below(Path::new(&temporary)).and_then(|folder| {
        inside.iter().try_for_each(|(name, octets)| write_new(&folder, name, octets))?;
        folder.sync()?;
        parent.rename_file(&folder, &temporary, name)
    });
    if written.is_err() {
        // The error of `written` is reported, not that of the removal. Readers ignore a temporary
        // folder that is left.
        let _ = parent.remove_all(&temporary);
    }
    written?;
    parent.sync()
}

fn write_new(folder: &Folder, name: &str, octets: &[u8]) -> io::Result<()> {
    let file = folder.create(name, OFlags::WRONLY, 0o600)?;
    file.write_all_at(octets, 0)?;
    file.sync_data()
}

fn temporary_name() -> io::Result<String> {
    let octets = random::<8>().map_err(io::Error::other)?;
    Ok(format!("{TEMPORARY}{:016x}", u64::from_be_bytes(octets)))
}
