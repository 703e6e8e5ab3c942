//! The plan for an index: the files that are present, the files to fetch, and their paths.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namely_wire::tree_index::{IndexEntry, IndexItem, LeftOut, index, index_item};
use namely_wire::{Component, Name};

use super::place::TargetDirectory;
use super::{DEPTH_MAX, Tree, TreeEvent};
use crate::get::GetError;
use crate::index::PACKED_OCTETS_MAX;

/// A file to fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedFile {
    /// Start of its element in the index.
    at: u32,
    /// The number of its directory.
    directory: u32,
    /// Start of its record in the pack, if it is in the pack.
    pub(super) start: u64,
}

/// A directory of the index.
#[derive(Debug)]
pub(super) struct PlannedDirectory {
    /// Its path below the target.
    pub(super) path: PathBuf,
    pub(super) mtime_ns: Option<u64>,
}

/// The steps that an index requires.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) octets: Vec<u8>,
    pub(super) directories: Vec<PlannedDirectory>,
    pub(super) packed: Vec<PlannedFile>,
    pub(super) single: Vec<PlannedFile>,
    /// Octets of the whole pack.
    pub(super) pack_octets: u64,
    /// Directories with an index of their own, by their paths below the target.
    pub(super) further: Vec<PathBuf>,
    pub(super) unchanged: u64,
    pub(super) octets_wanted: u64,
}

impl Plan {
    /// Returns the entry of `wanted`, and its directory.
    pub(super) fn entry(&self, wanted: &PlannedFile) -> Option<(&PlannedDirectory, IndexEntry<'_>)> {
        let directory = self.directories.get(wanted.directory as usize)?;
        match index_item(&self.octets, wanted.at as usize)? {
            IndexItem::File(entry) | IndexItem::Packed(entry) => Some((directory, entry)),
            _ => None,
        }
    }

    /// Returns the path of `wanted` below the target.
    pub(super) fn path(&self, wanted: &PlannedFile) -> PathBuf {
        self.entry(wanted)
            .map_or_else(PathBuf::new, |(listed, entry)| listed.path.join(OsStr::from_bytes(entry.name)))
    }
}

/// The directory whose entries are being read.
struct CurrentDirectory {
    path: PathBuf,
    number: u32,
    is_new: bool,
    /// Whether the directory cannot be entered; then its entries are skipped.
    is_closed: bool,
    names: Vec<(usize, usize)>,
}

/// The state of reading an index.
struct IndexReader<'a, 'b> {
    tree: &'a mut Tree<'b>,
    plan: Plan,
    base: PathBuf,
    /// Directories listed by their parents whose own elements have not been read yet: permissions
    /// and time.
    expected: HashMap<PathBuf, (u16, u64)>,
    here: Option<CurrentDirectory>,
}

/// Plans the steps for `octets`, the index of the directory `base` below the target. Makes
/// directories. If the options require it, removes entries that are not listed.
pub(super) fn plan(
    tree: &mut Tree<'_>,
    base: &Path,
    mode: u16,
    mtime_ns: u64,
    octets: Vec<u8>,
) -> Result<Plan, GetError> {
    let expected = HashMap::from([(base.to_owned(), (mode, mtime_ns))]);
    let mut reading =
        IndexReader { tree, plan: Plan::default(), base: base.to_owned(), expected, here: None };
    for item in index(&octets) {
        let name = || reading.tree.name_of(base);
        let (at, item) = item.map_err(|error| GetError::Listing { name: name(), error })?;
        reading.take(&octets, at as u32, &item)?;
    }
    reading.leave(&octets)?;
    let IndexReader { mut plan, expected, .. } = reading;
    plan.further = expected.into_keys().filter(|path| path != base).collect();
    plan.further.sort_unstable();
    plan.octets = octets;
    Ok(plan)
}

impl IndexReader<'_, '_> {
    fn take(&mut self, octets: &[u8], at: u32, item: &IndexItem<'_>) -> Result<(), GetError> {
        if let IndexItem::Directory(below) = item {
            self.leave(octets)?;
            return self.enter(Path::new(OsStr::from_bytes(below)));
        }
        if let IndexItem::Packed(entry) = item {
            if entry.octets > PACKED_OCTETS_MAX {
                let error = namely_wire::DecodeError::LengthTooLarge;
                return Err(GetError::Listing { name: self.tree.name_of(&self.base), error });
            }
            // Skipped files count, too: records follow each other in the pack.
            let start = self.plan.pack_octets;
            self.plan.pack_octets = start.saturating_add(1).saturating_add(entry.octets);
            self.file(at, start, entry, true);
        }
        let Some(here) = &mut self.here else { return Ok(()) };
        match item {
            IndexItem::File(entry) => self.file(at, 0, entry, false),
            IndexItem::Subdirectory(entry) if !here.is_closed => {
                here.names.push(range_in(octets, entry.name));
                let path = here.path.join(OsStr::from_bytes(entry.name));
                self.expected.insert(path, (entry.mode, entry.mtime_ns));
            }
            IndexItem::LeftOut(name, reason) => {
                here.names.push(range_in(octets, name));
                let path = here.path.join(OsStr::from_bytes(name));
                self.tree.left_out(&path, *reason);
            }
            _ => {}
        }
        if let IndexItem::File(entry) | IndexItem::Packed(entry) = item
            && let Some(here) = &mut self.here
        {
            here.names.push(range_in(octets, entry.name));
        }
        Ok(())
    }

    fn file(&mut self, at: u32, start: u64, entry: &IndexEntry<'_>, is_packed: bool) {
        let Some(here) = self.here.as_ref().filter(|here| !here.is_closed) else { return };
        let options = self.tree.options;
        if !here.is_new && options.resume && self.tree.target_dir.is_there(&here.path, entry) {
            self.plan.unchanged += 1;
            return;
        }
        let wanted = PlannedFile { at, directory: here.number, start };
        self.plan.octets_wanted = self.plan.octets_wanted.saturating_add(entry.octets);
        if is_packed { self.plan.packed.push(wanted) } else { self.plan.single.push(wanted) }
    }

    fn enter(&mut self, below: &Path) -> Result<(), GetError> {
        let path = if below.as_os_str().is_empty() { self.base.clone() } else { self.base.join(below) };
        // A directory that its parent did not list, or a second element of one, is not part of this
        // tree.
        let expected = self.expected.remove(&path);
        let (mode, mtime_ns) = expected.unwrap_or((0o700, 0));
        let replace = self.tree.options.delete;
        let entered =
            match expected {
                None => Err(GetError::Listing {
                    name: self.tree.name_of(&path),
                    error: namely_wire::DecodeError::BadName,
                }),
                Some(_) if path.components().count() > DEPTH_MAX => {
                    Err(GetError::TooDeep { name: self.tree.name_of(&path) })
                }
                Some(_) => self.tree.target_dir.enter(&path, mode, replace).map_err(|error| {
                    GetError::Target { path: self.tree.target_dir.path().join(&path), error }
                }),
            };
        let number = self.plan.directories.len() as u32;
        let (is_new, is_closed) = match entered {
            Ok(entered) => (entered.is_new, false),
            Err(error) if path.as_os_str().is_empty() => return Err(error),
            Err(error) => {
                self.tree.failed(&path, error)?;
                (true, true)
            }
        };
        if !is_closed {
            self.tree.got.directories += 1;
        }
        let mtime_ns = (!is_closed).then_some(mtime_ns);
        self.plan.directories.push(PlannedDirectory { path: path.clone(), mtime_ns });
        self.here = Some(CurrentDirectory { path, number, is_new, is_closed, names: Vec::new() });
        Ok(())
    }

    /// Ends a directory: all its entries have been read, so other files in it can be removed.
    fn leave(&mut self, octets: &[u8]) -> Result<(), GetError> {
        let Some(mut here) = self.here.take() else { return Ok(()) };
        if here.is_new || here.is_closed || !self.tree.options.delete {
            return Ok(());
        }
        let name_at = |span: &(usize, usize)| octets.get(span.0..span.1);
        here.names.sort_unstable_by(|a, b| name_at(a).cmp(&name_at(b)));
        let is_known =
            |name: &[u8]| here.names.binary_search_by(|span| name_at(span).cmp(&Some(name))).is_ok();
        self.tree.remove_others(&here.path, &is_known)
    }
}

/// Returns the start and the end of `name`, a part of `octets`.
fn range_in(octets: &[u8], name: &[u8]) -> (usize, usize) {
    let start = (name.as_ptr() as usize).saturating_sub(octets.as_ptr() as usize);
    (start, start + name.len())
}

impl Tree<'_> {
    /// Returns the name of the entry at `path` below the target.
    pub(super) fn name_of(&self, path: &Path) -> Name {
        path.components().fold(self.name.clone(), |name, component| {
            name.join(Component::generic(component.as_os_str().as_bytes()))
        })
    }

    /// Reports an entry that exists and cannot be fetched.
    fn left_out(&mut self, path: &Path, reason: LeftOut) {
        self.got.left_out += 1;
        self.emit(TreeEvent::LeftOut(path, reason));
    }

    /// Removes the entries of the directory `path` that `is_known` does not accept.
    pub(super) fn remove_others(
        &mut self,
        path: &Path,
        is_known: &dyn Fn(&[u8]) -> bool,
    ) -> Result<(), GetError> {
        let fault = |dir: &TargetDirectory, error| GetError::Target { path: dir.path().join(path), error };
        let others = match self.target_dir.others(path, is_known) {
            Ok(others) => others,
            Err(error) => return self.failed(path, fault(&self.target_dir, error)),
        };
        for other in others {
            let at = path.join(&other);
            match self.target_dir.remove(path, &other) {
                Ok(()) => {
                    self.got.deleted += 1;
                    self.emit(TreeEvent::Deleted(&at));
                }
                Err(error) => self.failed(&at, fault(&self.target_dir, error))?,
            }
        }
        Ok(())
    }
}
