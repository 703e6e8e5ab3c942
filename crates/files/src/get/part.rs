//! The file that a fetch writes: under a temporary name beside the target until it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use namely_host::disk::{self, File, Folder, OpenError, RACES_MAX};
use namely_security::{ContentDigest, DigestAlgorithm, Verified};
use namely_socket::{Flow, Sink};
use namely_transport::object::{Object, ObjectError, Progress};
use namely_wire::Name;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::checksum::digest_of;
use super::error::GetError;
use super::journal::{Check, FileId, JOURNAL_OCTETS_MAX, Journal, ResumeSecret};
use super::options::GetOptions;
use super::own;
use super::reuse::{Sizes, is_remade};
use super::spans::{LEAF_OCTETS, Spans};
use super::target::{self, Target};

/// Appended to the target's name while it is fetched.
pub const PART_SUFFIX: &str = ".namely-part";

/// Appended to the partial file's name for its journal.
const JOURNAL_SUFFIX: &str = ".journal";

/// Octets of the partial file for each span of its journal, between two writes of the journal.
const NOTE_OCTETS: u64 = LEAF_OCTETS as u64 / 16;

/// Interval at which the check of an earlier fetch's octets is reported.
const WATCH: Duration = Duration::from_millis(100);

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
    /// Octets in the file that this fetch has written or kept. The buffer follows them.
    written: u64,
    /// The digests of these octets.
    check: Check,
    /// The sizes of the object, if manifests list its segments.
    listed: Option<Sizes>,
    /// Whether the kept octets were not compared with the manifests yet.
    is_unchecked: bool,
    /// Ranges of the kept octets that have changed since they were verified.
    damaged: Vec<Range<u64>>,
    /// Octets in the file that a fetch of another version has verified.
    others: u64,
    /// Segments and octets that an earlier fetch has left in the file.
    kept: (u64, u64),
    /// The latest point at which a later fetch may resume: segments and octets before it.
    checkpoint: (u64, u64),
    /// The checkpoint in the journal.
    noted: (u64, u64),
    /// A fetch may resume at multiples of this number of segments.
    group: u64,
}

impl PartFile {
    /// Opens the partial file of `target`. With [`GetOptions::resume`], and if it holds the
    /// beginning of `object`, that beginning is retained, and checked by the digests in the
    /// journal; `watch` may stop the check. `group` is the number of segments per manifest.
    pub(super) fn open(
        target: &Target,
        object: &Object,
        group: u64,
        options: &GetOptions,
        watch: &mut dyn FnMut(&Progress) -> Flow,
    ) -> Result<Self, GetError> {
        // The user knows the target, not the partial file.
        let fault = |error| GetError::Target { path: target.path(), error };
        let name = suffixed(&target.name, PART_SUFFIX);
        let (file, is_new) = lock(target, &name)?;
        let found = file.metadata().map_err(fault)?;
        let mut part = PartFile::new(file, name, target, object, group);
        part.secret = options.secret;
        let journal = match (is_new, options.resume, &options.secret) {
            (false, true, Some(secret)) => read_journal(&target.folder, &part.journal, secret)?,
            _ => None,
        };
        let id = FileId::of(&found);
        match journal {
            Some(journal)
                if journal.is_usable(&object.name, id, found.len(), &part.boot) && fits(&journal, object) =>
            {
                part.resume(journal, &mut checking(object, watch)).map_err(|error| match error.kind() {
                    // The watcher stopped the check. The partial file stays as it is.
                    io::ErrorKind::Interrupted => GetError::Fetch(ObjectError::Stopped.into()),
                    _ => fault(error),
                })?;
            }
            Some(journal) if journal.is_of_other_version(&object.name, id) => {
                part.others = journal.octets.min(found.len());
            }
            _ => {}
        }
        if part.checkpoint.0 == 0 && !is_new {
            forget(&part.target.folder, &part.journal)?;
            if part.others == 0 {
                part.file.set_len(0).map_err(fault)?;
            }
        }
        Ok(part)
    }

    /// The file `name` before its content is known.
    fn new(file: File, name: OsString, target: &Target, object: &Object, group: u64) -> Self {
        let listed = Sizes::listed(object);
        PartFile {
            file,
            target: target.clone(),
            journal: suffixed(&name, JOURNAL_SUFFIX),
            path: target.folder.path().join(&name),
            name,
            object: object.name.clone(),
            boot: disk::boot_id(),
            secret: None,
            buffer: Vec::with_capacity(LEAF_OCTETS + 16_384),
            written: 0,
            check: usual_check(listed),
            listed,
            is_unchecked: false,
            damaged: Vec::new(),
            others: 0,
            kept: (0, 0),
            checkpoint: (0, 0),
            noted: (0, 0),
            group,
        }
    }

    /// Retains the octets that the journal counts, and notes which of them have changed since, by
    /// the digests in the journal. The octets behind them stay, too: the journal may have digests
    /// of them.
    fn resume(&mut self, journal: Journal, look: &mut dyn FnMut(u64) -> Flow) -> io::Result<()> {
        let Journal { segments, octets, check, .. } = journal;
        self.check = match check {
            Check::Manifests => {
                self.is_unchecked = true;
                Check::Manifests
            }
            Check::Spans(mut spans) => {
                let damaged = spans.damaged(&self.file, look)?;
                self.damaged = damaged.into_iter().map(|range| range.start..range.end.min(octets)).collect();
                self.damaged.retain(|range| !range.is_empty());
                spans.truncate(octets);
                Check::Spans(spans)
            }
        };
        self.kept = (segments, octets);
        (self.checkpoint, self.noted) = (self.kept, self.kept);
        self.read_back(octets)
    }

    /// Continues behind the first `octets` of the file. If the journal has digests: digests those
    /// of them without a digest, and takes the rest that fills no leaf back to the buffer.
    fn read_back(&mut self, octets: u64) -> io::Result<()> {
        self.buffer.clear();
        let Check::Spans(spans) = &mut self.check else {
            self.written = octets;
            return Ok(());
        };
        self.written = spans.octets();
        while self.written < octets {
            // At most a leaf.
            let leaf = (octets - self.written).min(LEAF_OCTETS as u64) as usize;
            self.buffer.resize(leaf, 0);
            self.file.read_exact_at(&mut self.buffer, self.written)?;
            if leaf < LEAF_OCTETS {
                break;
            }
            spans.push(&self.buffer);
            self.written += leaf as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Returns the sizes of the object if the kept octets are to be compared with its manifests
    /// before all else.
    pub(super) fn unchecked(&self) -> Option<Sizes> {
        self.listed.filter(|_| self.is_unchecked)
    }

    /// Records the result of the comparison: the ranges that have changed.
    pub(super) fn checked(&mut self, damaged: Vec<Range<u64>>) {
        self.is_unchecked = false;
        self.damaged = damaged;
    }

    /// Ranges of the kept octets that have changed since they were verified. The caller fetches
    /// them again ([`PartFile::repair`]) before other segments.
    pub(super) fn damaged(&self) -> &[Range<u64>] {
        &self.damaged
    }

    /// Returns a sink that writes segments of an object of these sizes in the place of damaged
    /// octets.
    pub(super) fn repair(&mut self, sizes: Sizes) -> Repair<'_> {
        Repair { part: self, sizes }
    }

    /// Ends the repair: the digests are those of the repaired octets.
    pub(super) fn repaired(&mut self) -> io::Result<()> {
        if let (Check::Spans(spans), Some(first)) = (&mut self.check, self.damaged.first()) {
            spans.truncate(first.start);
        }
        self.damaged.clear();
        self.read_back(self.checkpoint.1)
    }

    /// Discards all kept octets, for an object whose damaged octets cannot be requested alone.
    pub(super) fn start_again(&mut self) -> io::Result<()> {
        self.target.folder.remove_if_there(&self.journal)?;
        self.keep(0, 0)
    }

    /// Octets at the beginning of the file that belong to another version. They may be equal to
    /// those of this one ([`PartFile::keep`]).
    pub(super) fn others(&self) -> u64 {
        self.others
    }

    /// Fills `octets` with the file's content from `offset` on.
    pub(super) fn read_at(&self, octets: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(octets, offset)
    }

    /// Retains the first `octets` of the file, which are the content of the first `segments`
    /// segments, and discards all else.
    pub(super) fn keep(&mut self, segments: u64, octets: u64) -> io::Result<()> {
        self.others = 0;
        self.damaged.clear();
        self.file.set_len(octets)?;
        self.check = usual_check(self.listed);
        self.kept = (segments, octets);
        (self.checkpoint, self.noted) = (self.kept, (0, 0));
        self.read_back(octets)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the complete file.
    pub(super) fn target_path(&self) -> PathBuf {
        self.target.path()
    }

    /// The file, to set its attributes.
    pub(super) fn file(&self) -> &std::fs::File {
        &self.file
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

    /// Writes the leaves that the buffer holds.
    fn flush(&mut self) -> io::Result<()> {
        let octets = self.buffer.len() / LEAF_OCTETS * LEAF_OCTETS;
        self.write_first(octets)?;
        if let (Check::Spans(spans), Some(_)) = (&mut self.check, self.secret) {
            let leaves = self.buffer.get(..octets).unwrap_or_default();
            leaves.chunks(LEAF_OCTETS).for_each(|leaf| spans.push(leaf));
        }
        self.buffer.drain(..octets);
        if self.checkpoint != self.noted && self.checkpoint.1 <= self.covered() && self.is_note_due() {
            self.note(false)?;
        }
        Ok(())
    }

    /// Writes the rest of the buffer, which no further octets follow. The journal stays as it is.
    fn write_rest(&mut self) -> io::Result<()> {
        self.write_first(self.buffer.len())?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the first `octets` of the buffer, and leaves them in it.
    fn write_first(&mut self, octets: usize) -> io::Result<()> {
        if self.others > 0 {
            // The octets of the other version are of no use.
            self.file.set_len(0)?;
            self.others = 0;
        }
        let first = self.buffer.get(..octets).unwrap_or_default();
        let end = self.written + octets as u64;
        // Zeros at the end of the file take no room on the disk, as in the producer's sparse file.
        let is_hole = first.iter().all(|octet| *octet == 0) && self.file.metadata()?.len() <= self.written;
        match is_hole {
            true => self.file.set_len(end)?,
            // Written at a fixed position, because an earlier failed attempt may have written some
            // of the buffer.
            false => self.file.write_all_at(first, self.written)?,
        }
        self.written = end;
        Ok(())
    }

    /// The octets in the file that a later fetch can check.
    fn covered(&self) -> u64 {
        match &self.check {
            Check::Manifests => self.written,
            Check::Spans(spans) => spans.octets(),
        }
    }

    /// Returns true if enough octets follow those that the journal counts. A long journal is
    /// written less often, so that it takes a small share of the time and of the octets written.
    fn is_note_due(&self) -> bool {
        let spans = match &self.check {
            Check::Manifests => 0,
            Check::Spans(spans) => spans.list().len() as u64,
        };
        self.noted.0 == 0 || self.checkpoint.1.saturating_sub(self.noted.1) >= spans * NOTE_OCTETS
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
            check: self.check.clone(),
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

    /// Returns the digest of a complete file.
    pub(super) fn digest(&mut self, algorithm: DigestAlgorithm) -> io::Result<ContentDigest> {
        self.write_rest()?;
        digest_of(&self.file, self.written, algorithm)
    }

    /// Retains a complete file that must not get its final name. A later fetch of the same version,
    /// of `segments`, finds all its octets.
    pub(super) fn withhold(mut self, segments: Option<u64>) {
        // Other users must not write octets that a later fetch trusts.
        let _ = self.file.set_permissions(Permissions::from_mode(own::MODE));
        if let Some(segments) = segments.filter(|_| self.secret.is_some()) {
            self.checkpoint = (segments, self.octets());
            // Without a journal, a later fetch starts again.
            let _ = self.settle();
        }
    }

    /// Gives a complete file its final name and `permissions`. After an error the caller must treat
    /// the fetch as interrupted.
    pub(super) fn finish(&mut self, sync: bool, permissions: u32) -> io::Result<&std::fs::File> {
        self.write_rest()?;
        // Another program may have added octets.
        if self.file.metadata()?.len() != self.written {
            self.file.set_len(self.written)?;
        }
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
        if self.is_unchecked || !self.damaged.is_empty() {
            // The journal counts the octets as they should be. The next fetch continues the check
            // and the repair.
            let damaged: u64 = self.damaged.iter().map(|range| range.end - range.start).sum();
            return self.checkpoint.1 - damaged;
        }
        // Other users must not write octets that a later fetch trusts.
        let _ = self.file.set_permissions(Permissions::from_mode(own::MODE));
        if self.write_rest().is_err() && self.checkpoint.1 > self.written {
            // Not all of the buffer was written, but earlier octets are in the file.
            self.checkpoint = if self.noted.1 > self.kept.1 { self.noted } else { self.kept };
        }
        if self.secret.is_some() && self.checkpoint.0 > 0 && self.settle().is_ok() {
            return self.checkpoint.1;
        }
        self.discard();
        0
    }
}

/// Writes verified segments in the place of damaged octets.
pub(super) struct Repair<'a> {
    part: &'a mut PartFile,
    sizes: Sizes,
}

impl Sink for Repair<'_> {
    fn write(&mut self, segment: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        let octets = self.sizes.octets_of(segment);
        if data.content().len() as u64 != octets.end - octets.start {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.part.file.write_all_at(data.content(), octets.start)
    }
}

impl Sink for PartFile {
    fn write(&mut self, segment: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        if self.octets() == 0 {
            self.choose_check(segment, data);
        }
        self.begin_segment(segment);
        self.take(data.content())
    }
}

impl PartFile {
    /// Lets the journal have digests if the manifests of a foreign producer, whose segments have
    /// another form, are of no use for a check. All segments are like the first one.
    fn choose_check(&mut self, segment: u64, data: &Verified<Vec<u8>>) {
        let is_useful = |sizes| is_remade(self.object.as_name(), sizes, segment, data);
        if matches!(self.check, Check::Manifests) && !self.listed.is_some_and(is_useful) {
            self.check = Check::Spans(Spans::new());
        }
    }

    fn begin_segment(&mut self, segment: u64) {
        if segment.is_multiple_of(self.group) && segment > 0 {
            self.checkpoint = (segment, self.octets());
        }
    }

    fn take(&mut self, content: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(content);
        if self.buffer.len() >= LEAF_OCTETS { self.flush() } else { Ok(()) }
    }

    /// Reduces the file to the octets that a later fetch resumes, and writes it and its journal to
    /// the disk.
    fn settle(&mut self) -> io::Result<()> {
        let (_, octets) = self.checkpoint;
        self.file.set_len(octets)?;
        if let Check::Spans(spans) = &mut self.check {
            spans.truncate(octets);
        }
        self.read_back(octets)?;
        if let Check::Spans(spans) = &mut self.check
            && !self.buffer.is_empty()
        {
            // The last leaf of the file may be shorter.
            spans.push(&self.buffer);
        }
        self.written = octets;
        self.buffer.clear();
        self.file.sync_data()?;
        self.note(true)
    }
}

/// The check of a fetch that begins.
fn usual_check(listed: Option<Sizes>) -> Check {
    match listed {
        Some(_) => Check::Manifests,
        None => Check::Spans(Spans::new()),
    }
}

/// Returns true if a fetch of `object` can continue behind the segments that the journal counts. A
/// producer may have cut the same version into other segments.
fn fits(journal: &Journal, object: &Object) -> bool {
    let is_listed = matches!(journal.check, Check::Spans(_)) || Sizes::listed(object).is_some();
    is_listed && Sizes::of(object).is_none_or(|sizes| sizes.has(journal.segments, journal.octets))
}

/// Returns a function that receives the number of checked octets, and reports it to `watch` about
/// ten times a second.
fn checking<'a>(
    object: &'a Object,
    watch: &'a mut dyn FnMut(&Progress) -> Flow,
) -> impl FnMut(u64) -> Flow + 'a {
    let mut watch_at = Instant::now() + WATCH;
    move |octets| {
        let now = Instant::now();
        if now < watch_at {
            return Flow::Continue;
        }
        watch_at = now + WATCH;
        watch(&Progress {
            octets,
            octets_done: octets,
            octets_total: object.octets(),
            segments_total: object.segments,
            ..Progress::default()
        })
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
fn lock(target: &Target, name: &OsStr) -> Result<(File, bool), GetError> {
    let folder = &target.folder;
    let path = || folder.path().join(name);
    let fault = |error| GetError::Target { path: target.path(), error };
    for _ in 0..RACES_MAX {
        let (file, is_new) = own::open_or_create(folder, name).map_err(|error| match error {
            OpenError::System(error) => fault(error),
            foreign => target::refused(path(), foreign),
        })?;
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
