//! Deletes entries that the producer does not have. A wrong command or a producer without its
//! directory must not empty a folder: nothing is deleted from a folder that is no copy of the tree,
//! and by default no more than half of a copy.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namely_wire::Name;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use rustix::io::Errno;

use super::{Tree, TreeEvent};
use crate::get::GetError;
use crate::get::version::noted_version;

/// Entries of a copy from which more than half may be deleted.
///
/// # Limit
/// From a copy with more entries, no more than half are deleted, unless the caller gives a number.
/// - Tests: `most_of_a_copy_is_not_deleted_by_default`
pub const SMALL_COPY_ENTRIES: u64 = 10;

/// The attribute of a directory that has the name of the tree of which it is a copy.
const COPY_ATTRIBUTE: &str = "user.namely.copy-of";

/// An entry that the producer does not have.
pub(super) struct Removal {
    /// Its directory, below the target.
    directory: PathBuf,
    name: OsString,
}

/// The entries of a copy that were compared with the producer's, and those of them that the
/// producer does not have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemovalCount {
    entries: u64,
    removals: u64,
}

/// Whether the target is a copy of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// It is, or it has no entries.
    Copy,
    /// It is not.
    Other,
    /// Its file system has no attributes.
    Unknown,
}

impl Tree<'_> {
    /// Returns whether the target is a copy of the tree. An empty one becomes a copy.
    pub(super) fn copy_state(&self) -> CopyState {
        let Some(top) = self.target_dir.top() else { return CopyState::Copy };
        if top.names().is_ok_and(|names| names.is_empty()) {
            self.note_copy();
            return CopyState::Copy;
        }
        let mut there = [0; 4096];
        let noted = match fgetxattr(top, COPY_ATTRIBUTE, &mut there[..]) {
            Ok(octets) => {
                there.get(..octets).and_then(|text| std::str::from_utf8(text).ok()?.parse::<Name>().ok())
            }
            // Earlier releases noted the version of the index alone.
            Err(Errno::NODATA) => noted_version(top).map(|index| index.as_name().without_last(2).to_name()),
            Err(_) => return CopyState::Unknown,
        };
        if noted.as_ref() == Some(&self.name) { CopyState::Copy } else { CopyState::Other }
    }

    /// Notes that the target is a copy of the tree.
    pub(super) fn note_copy(&self) {
        let Some(top) = self.target_dir.top().filter(|_| !self.options.dry_run) else { return };
        let name = self.name.to_string();
        if let Err(error) = fsetxattr(top, COPY_ATTRIBUTE, name.as_bytes(), XattrFlags::empty()) {
            tracing::debug!(%error, "a copy cannot be marked");
        }
    }

    /// Adds the entries of the directory `path` that `is_known` does not accept to `removals`.
    /// Excluded entries stay.
    pub(super) fn note_others(
        &mut self,
        path: &Path,
        is_known: &dyn Fn(&[u8]) -> bool,
        removals: &mut Vec<Removal>,
    ) -> Result<(), GetError> {
        let names = match self.target_dir.names(path) {
            Ok(names) => names,
            Err(error) => return self.failed(path, self.fault(path, error)),
        };
        self.removal_count.entries += names.len() as u64;
        let known = names.iter().filter(|name| is_known(name.as_bytes())).count();
        let is_top = path.as_os_str().is_empty();
        let is_copy = match self.copy_state {
            CopyState::Copy => true,
            CopyState::Other => false,
            // A copy has mostly the producer's entries.
            CopyState::Unknown => !is_top || 2 * known >= names.len(),
        };
        for name in names.into_iter().filter(|name| !is_known(name.as_bytes())) {
            if !is_copy {
                return Err(self.not_copy());
            }
            let is_directory = !self.filter.is_empty() && self.target_dir.is_directory(path, &name);
            if !self.filter.excludes(&path.join(&name), is_directory) {
                removals.push(Removal { directory: path.to_owned(), name });
            }
        }
        Ok(())
    }

    /// Adds the directory `name` in the directory `path` to `removals`, because a symbolic link
    /// takes its place.
    pub(super) fn note_replaced(
        &self,
        path: &Path,
        name: &OsStr,
        removals: &mut Vec<Removal>,
    ) -> Result<(), GetError> {
        if self.copy_state == CopyState::Other {
            return Err(self.not_copy());
        }
        removals.push(Removal { directory: path.to_owned(), name: name.to_owned() });
        Ok(())
    }

    /// Deletes these entries, if they are not too many of the copy.
    pub(super) fn remove(&mut self, removals: &[Removal]) -> Result<(), GetError> {
        // A repeated plan counts anew. The entries that the earlier one deleted count, too.
        let again = self.deleted_entries.saturating_sub(self.removal_count.removals);
        self.removal_count.entries += again;
        self.removal_count.removals += again;
        let mut counts = Vec::with_capacity(removals.len());
        for Removal { directory, name } in removals {
            let inside = self.target_dir.entries_in(directory, name);
            self.removal_count.entries += inside;
            self.removal_count.removals += 1 + inside;
            counts.push(1 + inside);
        }
        let RemovalCount { entries, removals: count } = self.removal_count;
        let is_allowed = match self.options.delete_max {
            Some(max) => count <= max,
            None => entries <= SMALL_COPY_ENTRIES || count <= entries / 2,
        };
        if !removals.is_empty() && !is_allowed {
            let path = self.target_dir.path().to_owned();
            return Err(GetError::TooManyRemovals { path, removals: count, entries });
        }
        for (Removal { directory, name }, count) in removals.iter().zip(counts) {
            let at = directory.join(name);
            match self.target_dir.remove(directory, name) {
                Ok(()) => {
                    self.got.deleted += 1;
                    self.deleted_entries += count;
                    self.emit(TreeEvent::Deleted(&at));
                }
                Err(error) => self.failed(&at, self.fault(directory, error))?,
            }
        }
        Ok(())
    }

    fn not_copy(&self) -> GetError {
        GetError::NotCopy { path: self.target_dir.path().to_owned(), name: self.name.clone() }
    }

    /// The failure of an operation in the directory `path`.
    fn fault(&self, path: &Path, error: io::Error) -> GetError {
        GetError::Target { path: self.target_dir.path().join(path), error }
    }
}
