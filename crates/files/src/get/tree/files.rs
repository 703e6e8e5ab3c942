//! Fetches files of a tree by their own names, several at once.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use namely_security::ContentDigest;
use namely_socket::{Consumer, Flow};
use namely_transport::object::{Object, ObjectError, Progress};
use namely_wire::tree_index::EntryStamp;
use namely_wire::{Component, Name};
use rustix::fs::FileType;

use super::place::{TargetDirectory, set_mode, set_times};
use super::{Tree, TreeEvent, TreeProgress};
use crate::get::checksum::{Checksums, digest_of};
use crate::get::error::GetError;
use crate::get::file::{RESTARTS_MAX, find_newest, get_file};
use crate::get::jobs::Jobs;
use crate::get::options::GetOptions;
use crate::get::reuse::equal_part;
use crate::get::target::Target;
use crate::get::version::{note_stamp, note_version};

/// A file to fetch.
pub(super) struct SingleFile {
    /// Its path below the target.
    pub(super) path: PathBuf,
    /// The stamp of the producer's file, if it is known.
    pub(super) stamp: Option<EntryStamp>,
}

/// The result of a file.
enum FileResult {
    /// It was there.
    Unchanged,
    /// A dry run would fetch it, with these octets.
    Planned(Option<u64>),
    /// Its octets that were fetched.
    Fetched(u64),
}

/// A message of the thread of a file.
enum FileMessage {
    /// Octets of the file that have arrived.
    Arrived(u64),
    /// The file has changed. It is requested again.
    Changed(PathBuf),
    /// The end of the file.
    End(PathBuf, Result<FileResult, GetError>),
}

impl Tree<'_> {
    /// Fetches `files` by their own names. If one changes meanwhile, its new version is fetched.
    pub(super) fn fetch_files(
        &mut self,
        files: impl Iterator<Item = SingleFile> + Send,
    ) -> Result<(), GetError> {
        let jobs = Jobs::new(self.options.jobs);
        let stop = AtomicBool::new(false);
        let fetcher = FileFetcher {
            consumer: self.consumer,
            name: self.name.clone(),
            options: self.options,
            checksums: self.checksums,
            target_dir: self.target_dir.clone(),
            jobs: &jobs,
            stop: &stop,
        };
        let work = |(number, file): (usize, SingleFile), send: &dyn Fn((usize, FileMessage))| {
            if !stop.load(Ordering::Relaxed) {
                let ended = fetcher.clone().fetch(&file, &|message| send((number, message)));
                send((number, FileMessage::End(file.path, ended)));
            }
        };
        let (mut arrived, mut failure) = (BTreeMap::new(), None);
        let failed = self.got.failed.len();
        let mut take = |(number, message)| {
            let taken = self.take(number, message, &mut arrived);
            if let Err(error) = taken
                && failure.is_none()
            {
                failure = Some(error);
            }
            if failure.is_some() || self.is_stopped {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let run = jobs.run(files.enumerate(), work, &mut take);
        // The first of equally grave failures is the same each time.
        self.got.failed[failed..].sort_by(|a, b| a.0.cmp(&b.0));
        run.map_err(|error| GetError::Target { path: self.target_dir.path().to_owned(), error })?;
        failure.map_or_else(|| self.check_stopped(0), Err)
    }

    /// Takes a message of the file of this number. `arrived` has the octets of each file in
    /// progress.
    fn take(
        &mut self,
        number: usize,
        message: FileMessage,
        arrived: &mut BTreeMap<usize, u64>,
    ) -> Result<(), GetError> {
        let done = match message {
            FileMessage::Arrived(octets) => {
                arrived.insert(number, octets);
                Ok(())
            }
            FileMessage::Changed(path) => {
                self.emit(TreeEvent::Changed(&path));
                Ok(())
            }
            FileMessage::End(path, result) => {
                arrived.remove(&number);
                self.note_result(&path, result)
            }
        };
        let octets = self.got.octets + arrived.values().sum::<u64>();
        self.emit(TreeEvent::Progress(TreeProgress { octets, ..self.progress() }));
        done
    }

    fn note_result(&mut self, path: &Path, result: Result<FileResult, GetError>) -> Result<(), GetError> {
        match result {
            Ok(FileResult::Unchanged) => self.got.unchanged += 1,
            Ok(FileResult::Planned(octets)) => {
                self.got.files += 1;
                self.emit(TreeEvent::PlannedFile(path, octets));
            }
            Ok(FileResult::Fetched(octets)) => {
                self.got.files += 1;
                self.got.octets += octets;
            }
            Err(error) => return self.failed(path, error),
        }
        Ok(())
    }

    /// Returns true if the file at `path` has the digest of the list, or is not listed.
    pub(super) fn has_listed_digest(&mut self, path: &Path) -> bool {
        has_digest(&mut self.target_dir, path, listed(self.checksums, path))
    }
}

/// Returns the name of the entry at `path` below the directory `name`.
pub(super) fn name_below(name: &Name, path: &Path) -> Name {
    path.components()
        .fold(name.clone(), |name, part| name.join(Component::generic(part.as_os_str().as_bytes())))
}

/// Returns the digest of the file at `path` below the target, if it is listed.
fn listed(checksums: Option<&Checksums>, path: &Path) -> Option<ContentDigest> {
    checksums?.get(path)
}

fn has_digest(target_dir: &mut TargetDirectory, path: &Path, expected: Option<ContentDigest>) -> bool {
    let Some(expected) = expected else { return true };
    let Some((file, octets)) = target_dir.open_own(path) else { return false };
    digest_of(&file, octets, expected.algorithm()).is_ok_and(|found| found == expected)
}

/// The fetch of a file of a tree.
#[derive(Clone)]
struct FileFetcher<'a> {
    consumer: &'a Consumer,
    name: Name,
    options: GetOptions,
    checksums: Option<&'a Checksums>,
    target_dir: TargetDirectory,
    jobs: &'a Jobs,
    stop: &'a AtomicBool,
}

impl FileFetcher<'_> {
    fn fetch(&mut self, file: &SingleFile, send: &dyn Fn(FileMessage)) -> Result<FileResult, GetError> {
        let mut fetched = self.try_one(file, send);
        for _ in 0..RESTARTS_MAX {
            if !matches!(fetched, Err(GetError::Changed { .. })) || self.is_stopped() {
                break;
            }
            send(FileMessage::Changed(file.path.clone()));
            fetched = self.try_one(file, send);
        }
        fetched
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn try_one(&mut self, file: &SingleFile, send: &dyn Fn(FileMessage)) -> Result<FileResult, GetError> {
        let path = &file.path;
        let object = find_newest(self.consumer, &name_below(&self.name, path), &self.options)?;
        // A cache may still have the metadata of the file before its last change. The content is
        // then not that of the stamp.
        let changed_ns = object.metadata.as_ref().and_then(|metadata| metadata.ctime_ns);
        let stamp = file.stamp.filter(|stamp| changed_ns == Some(stamp.changed_ns));
        let is_held = match self.options.compare_content {
            true => self.has_equal_content(path, &object, stamp),
            false => self.options.resume && self.is_unchanged(path, &object, stamp),
        };
        let expected = listed(self.checksums, path);
        if is_held && has_digest(&mut self.target_dir, path, expected) {
            return Ok(FileResult::Unchanged);
        }
        if self.options.dry_run {
            return Ok(FileResult::Planned(object.octets()));
        }
        let target = self.target(path)?;
        let options = GetOptions { digest: expected, ..self.options };
        let stopped = || GetError::Fetch(ObjectError::Stopped.into());
        let octets = object.octets().unwrap_or(0);
        let mut job = self.jobs.begin(octets, &|| self.is_stopped()).ok_or_else(stopped)?;
        let mut watch = |current: &Progress| {
            job.left(octets.saturating_sub(current.octets_done));
            send(FileMessage::Arrived(current.octets));
            if self.is_stopped() { Flow::Stop } else { Flow::Continue }
        };
        let fetched = get_file(self.consumer, &object, &target, stamp, options, &mut watch)?;
        Ok(FileResult::Fetched(fetched.progress.octets))
    }

    /// Returns whether the file at `path` is that of `object`. If its size and time are equal but
    /// not the version, the digests decide: new permissions or a copy by `cp -p` change a version,
    /// too.
    fn is_unchanged(&mut self, path: &Path, object: &Object, stamp: Option<EntryStamp>) -> bool {
        self.target_dir.holds(path, object)
            || (!self.options.dry_run
                && self.target_dir.has_size_and_time(path, object)
                && self.has_equal_content(path, object, stamp))
    }

    /// Returns whether the file at `path` has the content of `object`, by the digests in its
    /// manifests. If so, the file receives the producer's time and permissions.
    fn has_equal_content(&mut self, path: &Path, object: &Object, stamp: Option<EntryStamp>) -> bool {
        let Some((file, octets)) = self.target_dir.open_own(path) else { return false };
        if object.octets() != Some(octets) {
            return false;
        }
        let mut read = |buffer: &mut [u8], offset| file.read_exact_at(buffer, offset);
        let equal = equal_part(self.consumer, object, octets, &mut read, &mut |_| Flow::Continue);
        if object.segments != Some(equal.segments) {
            return false;
        }
        if !self.options.dry_run {
            let metadata = object.metadata.as_ref();
            note_version(&*file, object);
            if let Some(stamp) = stamp {
                note_stamp(&*file, stamp);
            }
            set_times(&file, metadata.and_then(|metadata| metadata.mtime_ns));
            // Last, because the attributes are set only while this user may write the file.
            if let Some(mode) = metadata.and_then(|metadata| metadata.mode) {
                set_mode(&file, mode as u32);
            }
        }
        true
    }

    /// Returns the local file for the file at `path` below the tree's target.
    fn target(&mut self, path: &Path) -> Result<Target, GetError> {
        let above = self.target_dir.open(path.parent().unwrap_or(Path::new("")));
        let fault = |error| GetError::Target { path: self.target_dir.path().join(path), error };
        let name = path.file_name().ok_or_else(|| fault(io::ErrorKind::IsADirectory.into()))?;
        let target = Target::new(above.map_err(fault)?, name);
        match target.look()?.map(|found| FileType::from_raw_mode(found.st_mode)) {
            // An error at this point saves the fetch of the whole file.
            Some(FileType::Directory) => Err(fault(io::ErrorKind::IsADirectory.into())),
            _ => Ok(target),
        }
    }
}
