//! Where a key chain keeps its files: a folder, or memory that behaves like one.
//!
//! A file appears under its name complete or not at all: it is written under another name, synced,
//! and renamed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use zeroize::Zeroizing;

use super::KeyChainError;
use crate::crypto::random;
use crate::text::read_bounded;

/// Maximum octets of one file of a key chain.
pub(super) const FILE_OCTETS_MAX: u64 = 64 << 10;

/// Names that begin so are of writes that did not finish; they are passed over.
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
    /// Where `path` is, for messages.
    pub(super) fn locate(&self, path: &str) -> PathBuf {
        match self {
            Files::Folder(root) => root.join(path),
            Files::Memory(_) => Path::new("(memory)").join(path),
        }
    }

    /// The octets of a file; `None` if there is no such file.
    pub(super) fn read(&self, path: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyChainError> {
        match self {
            Files::Folder(root) => match read_bounded(&root.join(path), FILE_OCTETS_MAX) {
                Ok(octets) => Ok(Some(Zeroizing::new(octets))),
                Err(e) if is_absent(&e) => Ok(None),
                Err(e) => Err(KeyChainError::Read(self.locate(path), e)),
            },
            Files::Memory(files) => Ok(files.lock().get(path).cloned()),
        }
    }

    /// The text of a file without the white space around it.
    pub(super) fn read_text(&self, path: &str) -> Result<Option<String>, KeyChainError> {
        let Some(octets) = self.read(path)? else { return Ok(None) };
        match std::str::from_utf8(&octets) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(_) => Err(KeyChainError::Corrupted(self.locate(path), "it is not text".into())),
        }
    }

    /// Checks that nobody but this user and root may put files into the folder `path`, or has it.
    pub(super) fn check_owner(&self, path: &str) -> Result<(), KeyChainError> {
        let Files::Folder(root) = self else { return Ok(()) };
        let own = rustix::process::geteuid().as_raw();
        let folder = root.join(path);
        match fs::metadata(&folder) {
            Ok(found) if found.uid() != own && found.uid() != 0 => {
                Err(KeyChainError::OtherOwner(folder, found.uid()))
            }
            Ok(found) if found.mode() & 0o022 != 0 => {
                Err(KeyChainError::Writable(folder, found.mode() & 0o7777))
            }
            Ok(_) => Ok(()),
            Err(e) if is_absent(&e) => Ok(()),
            Err(e) => Err(KeyChainError::Read(folder, e)),
        }
    }

    /// The octets of a file that nobody but its owner may be able to read.
    pub(super) fn read_private(&self, path: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyChainError> {
        if let Files::Folder(root) = self {
            match fs::metadata(root.join(path)) {
                Ok(metadata) if metadata.mode() & 0o077 != 0 => {
                    return Err(KeyChainError::TooOpen(self.locate(path), metadata.mode() & 0o777));
                }
                Ok(_) => {}
                Err(e) if is_absent(&e) => return Ok(None),
                Err(e) => return Err(KeyChainError::Read(self.locate(path), e)),
            }
        }
        self.read(path)
    }

    /// The names in a folder, sorted; `None` if there is no such folder.
    pub(super) fn list(&self, folder: &str) -> Result<Vec<String>, KeyChainError> {
        let mut names = match self {
            Files::Folder(root) => {
                list_folder(&root.join(folder)).map_err(|e| KeyChainError::Read(self.locate(folder), e))?
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

    /// Writes a file of mode 0600, in place of any there was.
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

    /// Makes a folder with files in it, all at once. It must not be there yet.
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

    /// Removes a file, or a folder with all in it; that it is not there is no error.
    pub(super) fn remove(&self, path: &str) -> Result<(), KeyChainError> {
        match self {
            Files::Folder(root) => match remove_any(&root.join(path)) {
                Err(e) if !is_absent(&e) => Err(KeyChainError::Write(self.locate(path), e)),
                _ => Ok(()),
            },
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

fn list_folder(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if is_absent(&e) => return Ok(Vec::new()),
        entries => entries?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

fn write_file(root: &Path, path: &str, octets: &[u8]) -> io::Result<()> {
    let path = root.join(path);
    let folder = path.parent().unwrap_or(root);
    make_folders(folder)?;
    let temporary = folder.join(temporary_name()?);
    let written = write_new(&temporary, octets).and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // The first error is the one to report; a left-over is passed over by readers.
        let _ = fs::remove_file(&temporary);
    }
    written?;
    File::open(folder)?.sync_all()
}

fn create_folder(root: &Path, path: &str, inside: &[(&str, &[u8])]) -> io::Result<()> {
    let path = root.join(path);
    let parent = path.parent().unwrap_or(root);
    make_folders(parent)?;
    let temporary = parent.join(temporary_name()?);
    make_folders(&temporary)?;
    let written = inside
        .iter()
        .try_for_each(|(name, octets)| write_new(&temporary.join(name), octets))
        .and_then(|()| File::open(&temporary)?.sync_all())
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    written?;
    File::open(parent)?.sync_all()
}

fn make_folders(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn write_new(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(octets)?;
    file.sync_all()
}

fn temporary_name() -> io::Result<String> {
    let octets = random::<8>().map_err(io::Error::other)?;
    Ok(format!("{TEMPORARY}{:016x}", u64::from_be_bytes(octets)))
}

fn remove_any(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}
