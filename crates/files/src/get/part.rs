//! The file that a fetch writes: under a temporary name beside the target until all of it is there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use namely_security::Verified;
use namely_socket::Sink;
use namely_transport::object::Object;
use namely_wire::Name;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::error::GetError;
use super::journal::{JOURNAL_OCTETS_MAX, Journal, boot_id};

/// What is appended to the target's name while it is fetched.
pub const PART_SUFFIX: &str = ".namely-part";

/// What is appended to the partial file's name for its journal.
const JOURNAL_SUFFIX: &str = ".journal";

/// Octets gathered before they are written, few enough to be in the processor's cache still; the
/// journal follows.
const WRITE_OCTETS: usize = 256 << 10;

/// A partial file.
#[derive(Debug)]
pub(super) struct PartFile {
    file: File,
    path: PathBuf,
    journal_path: PathBuf,
    object: Name,
    boot: String,
    buffer: Vec<u8>,
    /// Octets in the file.
    written: u64,
    /// The latest place where a later fetch may go on: segments and octets before it.
    checkpoint: (u64, u64),
    /// What the journal says.
    noted: (u64, u64),
    /// A fetch may go on at multiples of this many segments.
    group: u64,
}

impl PartFile {
    /// Opens the partial file of `target`. When `resume` is set and it holds the beginning of
    /// `object`, that beginning is kept. `group`: segments that one manifest vouches for.
    pub(super) fn open(target: &Path, object: &Object, group: u64, resume: bool) -> Result<Self, GetError> {
        let path = suffixed(target, PART_SUFFIX);
        let journal_path = suffixed(&path, JOURNAL_SUFFIX);
        let fault = |error| GetError::Target { path: path.clone(), error };
        let file = open(&path).map_err(fault)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(GetError::Busy { path }),
            Err(errno) => return Err(fault(errno.into())),
        }
        let octets = file.metadata().map_err(fault)?.len();
        let boot = boot_id();
        let journal = read_journal(&journal_path)
            .filter(|journal| resume && journal.is_usable(&object.name, octets, &boot));
        let checkpoint = journal.map_or((0, 0), |journal| (journal.segments, journal.octets));
        file.set_len(checkpoint.1).map_err(fault)?;
        if checkpoint.0 == 0 {
            let _ = std::fs::remove_file(&journal_path);
        }
        Ok(PartFile {
            file,
            path,
            journal_path,
            object: object.name.clone(),
            boot,
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

    /// Segments and octets that are there already.
    pub(super) fn resumed(&self) -> (u64, u64) {
        self.checkpoint
    }

    /// Octets that are there, those not written yet included.
    pub(super) fn octets(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        // Written where it belongs: a failed attempt before may have written some of it.
        self.file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        if self.checkpoint != self.noted && self.checkpoint.1 <= self.written {
            self.note(false)?;
        }
        Ok(())
    }

    /// Writes the journal.
    fn note(&mut self, synced: bool) -> io::Result<()> {
        let journal = Journal {
            object: self.object.clone(),
            segments: self.checkpoint.0,
            octets: self.checkpoint.1,
            boot: self.boot.clone(),
            synced,
        };
        let text = journal.encode();
        let mut file = open(&self.journal_path)?;
        file.write_all(text.as_bytes())?;
        file.set_len(text.len() as u64)?;
        self.noted = self.checkpoint;
        Ok(())
    }

    /// All is there: gives the file its final name.
    pub(super) fn finish(mut self, target: &Path, sync: bool) -> io::Result<File> {
        self.flush()?;
        if sync {
            self.file.sync_all()?;
        }
        std::fs::rename(&self.path, target)?;
        if self.noted.0 > 0 {
            let _ = std::fs::remove_file(&self.journal_path);
        }
        Ok(self.file)
    }

    /// What came is no use: leaves nothing behind.
    pub(super) fn discard(self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.journal_path);
    }

    /// The fetch ended early: keeps what a later one can go on with, and says how many octets;
    /// nothing else is left behind.
    pub(super) fn abandon(mut self) -> u64 {
        if self.flush().is_err() {
            // Some of the buffer may have been written; it is fetched again.
            let _ = self.file.set_len(self.written);
        }
        let is_written = self.checkpoint.0 > 0 && self.checkpoint.1 <= self.written;
        if is_written && self.file.sync_data().and_then(|()| self.note(true)).is_ok() {
            return self.checkpoint.1;
        }
        if self.noted.0 > 0 {
            return self.noted.1;
        }
        self.discard();
        0
    }
}

impl Sink for PartFile {
    fn write(&mut self, segment: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        if segment.is_multiple_of(self.group) && segment > 0 {
            self.checkpoint = (segment, self.octets());
        }
        self.buffer.extend_from_slice(data.content());
        if self.buffer.len() >= WRITE_OCTETS { self.flush() } else { Ok(()) }
    }
}

/// Opens or creates a file of this user's own, never through a symbolic link.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

fn read_journal(path: &Path) -> Option<Journal> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(JOURNAL_OCTETS_MAX).read_to_string(&mut text).ok()?;
    Journal::decode(&text)
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
