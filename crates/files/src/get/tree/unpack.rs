//! Unpacks the pack of an index: each small file is written once its whole content is verified.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use namely_security::{ContentDigest, Verified};
use namely_socket::Sink;
use namely_transport::object::Part;
use namely_wire::tree_index::IndexEntry;

use super::place::TargetDirectory;
use super::plan::{Plan, PlannedFile};
use crate::get::checksum::Checksums;
use crate::get::{GetError, GetOptions, PART_SUFFIX};
use crate::pack::{RECORD_CONTENT, RECORD_UNREADABLE};

/// A gap of at most this many unwanted segments is fetched rather than skipped.
const GAP_SEGMENTS: u64 = 16;

/// Returns the ranges of segments, of `octets` each, that hold wanted files.
pub(super) fn parts(plan: &Plan, octets: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for wanted in &plan.packed {
        let Some((_, entry)) = plan.entry(wanted) else { continue };
        let first = wanted.start / octets;
        let end = wanted.start.saturating_add(entry.octets) / octets + 1;
        match parts.last_mut() {
            Some(last) if first <= last.end.saturating_add(GAP_SEGMENTS) => last.end = end,
            _ => parts.push(Part { first, end }),
        }
    }
    parts
}

/// Progress of a pack, shared with the progress callback.
#[derive(Debug, Default)]
pub(super) struct PackProgress {
    pub(super) files: Cell<u64>,
    /// Files that have the content already.
    pub(super) unchanged: Cell<u64>,
    pub(super) octets: Cell<u64>,
}

pub(super) struct PackReceiver<'a> {
    pub(super) plan: &'a Plan,
    pub(super) target_dir: &'a mut TargetDirectory,
    pub(super) segment_octets: u64,
    sync: bool,
    /// Whether a file that has the content already is left alone.
    compare_content: bool,
    /// Digests of files that the user knows.
    pub(super) checksums: Option<&'a Checksums>,
    pub(super) done: &'a PackProgress,
    /// The next file, and the octets of its record that were received.
    next: usize,
    received: u64,
    record: u8,
    content: Vec<u8>,
    /// Files that have changed, to be requested by their own names.
    pub(super) changed: Vec<PlannedFile>,
    /// Files that are unreadable or cannot be written.
    pub(super) failed: Vec<(PathBuf, GetError)>,
    /// An error that stops all further writes.
    pub(super) fatal: Option<GetError>,
}

impl<'a> PackReceiver<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        target_dir: &'a mut TargetDirectory,
        segment_octets: u64,
        options: &GetOptions,
        done: &'a PackProgress,
    ) -> Self {
        PackReceiver {
            plan,
            target_dir,
            segment_octets,
            sync: options.sync,
            compare_content: options.compare_content,
            checksums: None,
            done,
            next: 0,
            received: 0,
            record: 0,
            content: Vec::new(),
            changed: Vec::new(),
            failed: Vec::new(),
            fatal: None,
        }
    }

    /// Ends the record of `wanted`, which is complete.
    fn finish(&mut self, wanted: &PlannedFile) -> io::Result<()> {
        let plan = self.plan;
        let Some((directory, entry)) = plan.entry(wanted) else { return Ok(()) };
        match self.record {
            RECORD_CONTENT => {}
            RECORD_UNREADABLE => {
                let error = GetError::Unreadable;
                self.failed.push((self.plan.path(wanted), error));
                return Ok(());
            }
            _ => {
                self.changed.push(*wanted);
                return Ok(());
            }
        }
        if let Some(error) = self.wrong_content(wanted) {
            self.failed.push((self.plan.path(wanted), error));
            return Ok(());
        }
        if self.compare_content && self.target_dir.has_content(&directory.path, &entry, &self.content) {
            self.done.unchanged.set(self.done.unchanged.get() + 1);
            return Ok(());
        }
        match self.target_dir.write(&directory.path, &entry, &self.content, self.sync) {
            Ok(()) => {
                self.done.files.set(self.done.files.get() + 1);
                self.done.octets.set(self.done.octets.get() + entry.octets);
                Ok(())
            }
            Err(error) => {
                let at = self.plan.path(wanted);
                let path = self.target_dir.path().join(&at);
                let kind = error.kind();
                let error = match kind {
                    io::ErrorKind::StorageFull => {
                        GetError::NoSpace { path, needed_octets: None, kept_octets: 0 }
                    }
                    _ => GetError::Target { path, error },
                };
                if error.concerns_all() {
                    self.fatal = Some(error);
                    return Err(kind.into());
                }
                self.failed.push((at, error));
                Ok(())
            }
        }
    }
}

impl PackReceiver<'_> {
    /// Returns the error for content of another digest than the listed one. Such content is kept
    /// under the name of a partial file.
    fn wrong_content(&mut self, wanted: &PlannedFile) -> Option<GetError> {
        let checksums = self.checksums?;
        let at = self.plan.path(wanted);
        let expected = checksums.get(&at)?;
        let found = ContentDigest::of(expected.algorithm(), &self.content);
        if found == expected {
            return None;
        }
        let (directory, entry) = self.plan.entry(wanted)?;
        let name = [entry.name, PART_SUFFIX.as_bytes()].concat();
        let partial = IndexEntry { name: &name, ..entry };
        let written = self.target_dir.write(&directory.path, &partial, &self.content, self.sync);
        let path = self.target_dir.path().join(at);
        let part = written.is_ok().then(|| path.with_file_name(OsStr::from_bytes(&name)));
        Some(GetError::Checksum { path, part, expected: expected.into(), found: found.into() })
    }
}

impl Sink for PackReceiver<'_> {
    fn write(&mut self, segment: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
        let content = data.content();
        let at = segment.saturating_mul(self.segment_octets);
        let end = at + content.len() as u64;
        while let Some(wanted) = self.plan.packed.get(self.next) {
            let Some((_, entry)) = self.plan.entry(wanted) else { return Err(misfit()) };
            let from = wanted.start + self.received;
            if from >= end {
                return Ok(());
            }
            // Octets before `from` belong to no wanted file. A segment that begins after `from`
            // lacks octets of this record, which is an error.
            let begin = from.checked_sub(at).ok_or_else(misfit)?;
            let upto = (wanted.start + 1 + entry.octets).min(end) - at;
            let mut here = content.get(begin as usize..upto as usize).ok_or_else(misfit)?;
            self.received += here.len() as u64;
            if from == wanted.start {
                let (record, rest) = here.split_first().ok_or_else(misfit)?;
                (self.record, here) = (*record, rest);
                self.content.clear();
            }
            self.content.extend_from_slice(here);
            if self.received <= entry.octets {
                return Ok(());
            }
            let wanted = *wanted;
            self.finish(&wanted)?;
            self.next += 1;
            self.received = 0;
        }
        Ok(())
    }
}

fn misfit() -> io::Error {
    io::Error::from(io::ErrorKind::InvalidData)
}
