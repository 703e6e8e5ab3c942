//! The file that a fetch writes: under a temporary name beside the target until it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use namely_host::disk::{self, File, Folder, OpenError, RACES_MAX};
use namely_security::Verified;
use namely_socket::Sink;
use namely_transport::object::Object;
use namely_wire::Name;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::GetError;
use super::journal::{FileId, JOURNAL_OCTETS_MAX, Journal, ResumeSecret};
use super::options::GetOptions;
use super::own;
use super::target::{self, Target};

/// Appended to the target's name while it is fetched.
pub const PART_SUFFIX: &str = ".namely-part";

/// Appended to the partial file's name for its journal.
const JOURNAL_SUFFIX: &str = ".journal";

/// Octets gathered before they are written, few enough to be still in the processor's cache. The
/// journal is written after them. Tests write fewer octets at once, more often.
const WRITE_OCTETS: usize = if cfg!(test) { 4 << 10 } else { 256 << 10 };

#[derive(Debug)]
pub(super) struct PartFile {
    file: File,
    target: Target,
    /// Its name, and that of its journal.
    name: OsString,
    journal: OsString,
    path: PathBuf,
    object: Name,
    boot: String,
    /// Without a secret no journal is written or trusted.
    secret: Option<ResumeSecret>,
    buffer: Vec<u8>,
    /// Octets in the file.
    written: u64,
    /// The latest point at which a later fetch may resume: segments and octets before it.
    checkpoint: (u64, u64),
    /// The checkpoint in the journal.
    noted: (u64, u64),
    /// A fetch may resume at multiples of this number of segments.
    group: u64,
}

impl PartFile {
    /// Opens the partial file of `target`. With [`GetOptions::resume`], and if it holds the
    /// beginning of `object`, that beginning is retained. `group` is the number of segments per
    /// manifest.
    pub(super) fn open(
        target: &Target,
        object: &Object,
        group: u64,
        options: &GetOptions,
    ) -> Result<Self, GetError> {
        let name = suffixed(&target.name, PART_SUFFIX);
        let journal_name = suffixed(&name, JOURNAL_SUFFIX);
        let path = target.folder.path().join(&name);
        let fault = |error| GetError::Target { path: path.clone(), error };
        let (file, is_new) = lock(&target.folder, &name)?;
        let found = file.metadata().map_err(fault)?;
        let boot = disk::boot_id();
        let journal = match (is_new, options.resume, &options.secret) {
            (false, true, Some(secret)) => read_journal(&target.folder, &journal_name, secret)?,
            _ => None,
        };
        let id = FileId::of(&found);
        let usable = journal.filter(|journal| journal.is_usable(&object.name, id, found.len(), &boot));
        let checkpoint = usable.map_or((0, 0), |journal| (journal.segments, journal.octets));
        if checkpoint.0 == 0 && !is_new {
            forget(&target.folder, &journal_name)?;
        }
        if !is_new {
            file.set_len(checkpoint.1).map_err(fault)?;
        }
        Ok(PartFile {
            file,
            target: target.clone(),
            name,
            journal: journal_name,
            path,
            object: object.name.clone(),
            boot,
            secret: options.secret,
            buffer: Vec::with_capacity(WRITE_OCTETS + 16_384),
            written: checkpoint.1,
            checkpoint,
            noted: checkpoint,
            group,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.target.folder
    }

    /// Returns the segments and octets that were present on opening.
    pub(super) fn resumed(&self) -> (u64, u64) {
        self.checkpoint
    }

    /// Returns the octets received, including those not written yet.
    pub(super) fn octets(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        // Written at a fixed position, because an earlier failed attempt may have written some of
        // the buffer.
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.checkpoint != self.noted && self.checkpoint.1 <= self.written {
            self.note(false)?;
        }
        Ok(())
    }

    /// Writes the journal. With `synced` the journal itself is synchronized before this returns.
    fn note(&mut self, synced: bool) -> io::Result<()> {
        let Some(secret) = &self.secret else { return Ok(()) };
        // A failed write may spoil the existing journal.
        self.noted = (0, 0);
        let this = self.file.metadata()?;
        let journal = Journal {
            object: self.object.clone(),
            segments: self.checkpoint.0,
            octets: self.checkpoint.1,
            boot: self.boot.clone(),
            synced,
            file: FileId::of(&this),
        };
        let text = journal.encode(secret);
        let folder = &self.target.folder;
        let (file, _) = own::open_or_create(folder, &self.journal).map_err(|error| match error {
            OpenError::System(error) => error,
            OpenError::UntrustedFile(foreign) => {
                io::Error::other(format!("{} {foreign}", folder.path().join(&self.journal).display()))
            }
        })?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        if synced {
            file.sync_data()?;
            folder.sync()?;
        }
        self.noted = self.checkpoint;
        Ok(())
    }

    /// Gives a complete file its final name and `permissions`. After an error the caller must treat
    /// the fetch as interrupted.
    pub(super) fn finish(&mut self, sync: bool, permissions: u32) -> io::Result<&std::fs::File> {
        self.flush()?;
        self.file.set_permissions(Permissions::from_mode(permissions))?;
        if sync {
            self.file.sync_data()?;
        }
        let folder = &self.target.folder;
        if !folder.is_at(&*self.file, &self.name)? {
            return Err(io::Error::other("another program replaced the file"));
        }
        folder.rename_file(&*self.file, &self.name, &self.target.name)?;
        if self.noted.0 > 0 {
            let _ = folder.remove(&self.journal);
        }
        // There is nothing left to resume.
        (self.checkpoint, self.noted) = ((0, 0), (0, 0));
        if sync {
            folder.sync()?;
        }
        Ok(&self.file)
    }

    /// Removes the partial file and its journal.
    pub(super) fn discard(self) {
        let _ = self.target.folder.remove(&self.name);
        let _ = self.target.folder.remove(&self.journal);
    }

    /// Ends an interrupted fetch: keeps the octets that a later one can resume, and returns their
    /// number. Nothing else is left behind.
    pub(super) fn abandon(mut self) -> u64 {
        // Other users must not write octets that a later fetch trusts.
        let _ = self.file.set_permissions(Permissions::from_mode(own::MODE));
        if self.flush().is_err() {
            // Some of the buffer may have been written; it is fetched again.
            let _ = self.file.set_len(self.written);
        }
        let is_written = self.checkpoint.0 > 0 && self.checkpoint.1 <= self.written;
        if is_written && self.file.sync_data().and_then(|()| self.note(true)).is_ok() {
            return self.checkpoint.1;
        }
        self.discard();
        0
    }
}

impl Sink for PartFile {
    fn write(&mut self, segment: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        self.begin_segment(segment);
        self.take(data.content())
    }
}

impl PartFile {
    fn begin_segment(&mut self, segment: u64) {
        if segment.is_multiple_of(self.group) && segment > 0 {
            self.checkpoint = (segment, self.octets());
        }
    }

    fn take(&mut self, content: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(content);
        if self.buffer.len() >= WRITE_OCTETS { self.flush() } else { Ok(()) }
    }
}

/// Removes an unusable journal durably before its partial file is written again. A journal that
/// reappeared after a power cut would vouch for the wrong content.
fn forget(folder: &Folder, journal: &OsStr) -> Result<(), GetError> {
    let removed = folder.remove_if_there(journal);
    let gone = removed.and_then(|was_there| if was_there { folder.sync() } else { Ok(()) });
    match gone {
        // The journal is another user's, in a folder where only owners may delete: it is not
        // trusted.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        gone => gone.map_err(|error| GetError::Target { path: folder.path().join(journal), error }),
    }
}

/// Opens or makes the partial file `name` and locks it against other processes. Returns whether it
/// was made.
fn lock(folder: &Folder, name: &OsStr) -> Result<(File, bool), GetError> {
    let path = || folder.path().join(name);
    let fault = |error| GetError::Target { path: path(), error };
    for _ in 0..RACES_MAX {
        let (file, is_new) =
            own::open_or_create(folder, name).map_err(|error| target::refused(path(), error))?;
        match flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(GetError::Busy { path: path() }),
            Err(errno) => return Err(fault(errno.into())),
        }
        // The previous owner of the lock may just have given the file its final name.
        if folder.is_at(&*file, name).map_err(fault)? {
            return Ok((file, is_new));
        }
    }
    Err(GetError::Busy { path: path() })
}

/// Reads the journal `name`; none if it is missing, damaged, or not made with `secret`.
fn read_journal(folder: &Folder, name: &OsStr, secret: &ResumeSecret) -> Result<Option<Journal>, GetError> {
    let file = match own::open(folder, name) {
        Ok(Some(file)) => file,
        Ok(None) | Err(OpenError::System(_)) => return Ok(None),
        Err(error) => return Err(target::refused(folder.path().join(name), error)),
    };
    let mut text = String::new();
    let read = file.into_inner().take(JOURNAL_OCTETS_MAX).read_to_string(&mut text);
    Ok(read.ok().and_then(|_| Journal::decode(&text, secret)))
}

fn suffixed(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

#[cfg(test)]
#[path = "faulty_disk.rs"]
mod faulty_disk;
