//! The plan for an index: the files that are present, the files to fetch, and their paths.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namely_wire::Name;
use namely_wire::tree_index::{IndexEntry, IndexItem, LeftOut, index, index_item, stays_in_tree};

use super::removal::Removal;
use super::{DEPTH_MAX, Tree, TreeEvent, name_below};
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
    /// Symbolic links to make.
    pub(super) links: Vec<PlannedFile>,
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

    /// Returns the directory of the link `wanted`, its name and its target.
    pub(super) fn link(&self, wanted: &PlannedFile) -> Option<PlannedLink<'_>> {
        let directory = self.directories.get(wanted.directory as usize)?;
        let (name, target) = link_of(&index_item(&self.octets, wanted.at as usize)?)?;
        Some(PlannedLink { directory: &directory.path, name: OsStr::from_bytes(name), target })
    }

    /// Returns the path of `wanted` below the target.
    pub(super) fn path(&self, wanted: &PlannedFile) -> PathBuf {
        self.entry(wanted)
            .map_or_else(PathBuf::new, |(listed, entry)| listed.path.join(OsStr::from_bytes(entry.name)))
    }
}

/// A symbolic link to make.
pub(super) struct PlannedLink<'a> {
    pub(super) directory: &'a Path,
    pub(super) name: &'a OsStr,
    pub(super) target: &'a [u8],
}

/// Returns the name and the target of an entry that is a symbolic link.
fn link_of<'a>(item: &IndexItem<'a>) -> Option<(&'a [u8], &'a [u8])> {
    match *item {
        IndexItem::File(entry) | IndexItem::Packed(entry) | IndexItem::Subdirectory(entry) => {
            Some((entry.name, entry.link?))
        }
        IndexItem::LeftOut { name, link, .. } => Some((name, link?)),
        IndexItem::Directory(_) => None,
    }
}

/// The directory whose entries are being read.
struct CurrentDirectory {
    path: PathBuf,
    number: u32,
    is_new: bool,
    /// Whether the directory cannot be entered; then its entries are skipped.
    is_closed: bool,
    /// Whether a pattern excludes the directory.
    is_excluded: bool,
    names: Vec<(usize, usize)>,
}

/// The state of reading an index.
struct IndexReader<'a, 'b> {
    tree: &'a mut Tree<'b>,
    plan: Plan,
    base: PathBuf,
    /// Directories listed by their parents whose own elements have not been read yet: permissions
    /// and time.
    expected: HashMap<PathBuf, (u16, Option<u64>)>,
    /// Directories that a pattern excludes, and those below them.
    excluded: HashSet<PathBuf>,
    removals: Vec<Removal>,
    here: Option<CurrentDirectory>,
}

/// Plans the steps for `octets`, the index of the directory `base` below the target. Makes
/// directories. If the options require it, removes entries that are not listed.
pub(super) fn plan(
    tree: &mut Tree<'_>,
    base: &Path,
    mode: u16,
    mtime_ns: Option<u64>,
    octets: Vec<u8>,
) -> Result<Plan, GetError> {
    let mut reading = IndexReader {
        tree,
        plan: Plan::default(),
        base: base.to_owned(),
        expected: HashMap::from([(base.to_owned(), (mode, mtime_ns))]),
        excluded: HashSet::new(),
        removals: Vec::new(),
        here: None,
    };
    for item in index(&octets) {
        let name = || reading.tree.name_of(base);
        let (at, item) = item.map_err(|error| GetError::Listing { name: name(), error })?;
        reading.take(&octets, at as u32, &item)?;
    }
    reading.leave(&octets)?;
    // All entries of the index are known now, so that their share can be judged.
    let IndexReader { tree, mut plan, expected, removals, .. } = reading;
    tree.remove(&removals)?;
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
        let mut start = 0;
        if let IndexItem::Packed(entry) = item {
            if entry.octets > PACKED_OCTETS_MAX {
                let error = namely_wire::DecodeError::LengthTooLarge;
                return Err(GetError::Listing { name: self.tree.name_of(&self.base), error });
            }
            // Skipped files count, too: records follow each other in the pack.
            start = self.plan.pack_octets;
            self.plan.pack_octets = start.saturating_add(1).saturating_add(entry.octets);
        }
        let Some(here) = &mut self.here else { return Ok(()) };
        let (name, is_directory) = match *item {
            IndexItem::File(entry) | IndexItem::Packed(entry) => (entry.name, false),
            IndexItem::Subdirectory(entry) => (entry.name, true),
            IndexItem::LeftOut { name, .. } => (name, false),
            IndexItem::Directory(_) => return Ok(()),
        };
        here.names.push(range_in(octets, name));
        let (path, is_closed) = (here.path.join(OsStr::from_bytes(name)), here.is_closed);
        if here.is_excluded || self.tree.filter.excludes(&path, is_directory) {
            if is_directory {
                self.excluded.insert(path);
            }
            return Ok(());
        }
        if self.is_planned_link(at, item)? {
            return Ok(());
        }
        match item {
            IndexItem::File(entry) => self.file(PlannedFile { at, directory: 0, start }, entry, false),
            IndexItem::Packed(entry) => self.file(PlannedFile { at, directory: 0, start }, entry, true),
            IndexItem::Subdirectory(entry) if !is_closed => {
                self.expected.insert(path, (entry.mode, entry.mtime_ns));
            }
            IndexItem::LeftOut { reason, .. } => self.tree.left_out(&path, *reason),
            IndexItem::Subdirectory(_) | IndexItem::Directory(_) => {}
        }
        Ok(())
    }

    /// Returns true if the entry is made as a symbolic link. A link that could lead out of the copy
    /// is not: the copy may lie in another place than the producer's tree.
    fn is_planned_link(&mut self, at: u32, item: &IndexItem<'_>) -> Result<bool, GetError> {
        let Some(here) = self.here.as_ref().filter(|here| !here.is_closed) else { return Ok(false) };
        let link = link_of(item).filter(|_| self.tree.options.links);
        let Some((name, target)) = link else { return Ok(false) };
        if !stays_in_tree(target, here.path.components().count()) {
            return Ok(false);
        }
        let name = OsStr::from_bytes(name);
        if !here.is_new && self.tree.target_dir.is_link(&here.path, name, target) {
            self.plan.unchanged += 1;
            return Ok(true);
        }
        self.plan.links.push(PlannedFile { at, directory: here.number, start: 0 });
        // A directory in the place of the link is deleted first, and counts as such.
        let is_deleting = self.tree.options.delete && !here.is_new;
        if is_deleting && self.tree.target_dir.is_directory(&here.path, name) {
            self.tree.note_replaced(&here.path, name, &mut self.removals)?;
        }
        Ok(true)
    }

    /// Plans the fetch of a file, unless it is there. The directory of `wanted` is the current one.
    fn file(&mut self, wanted: PlannedFile, entry: &IndexEntry<'_>, is_packed: bool) {
        let Some(here) = self.here.as_ref().filter(|here| !here.is_closed) else { return };
        let options = self.tree.options;
        let path = here.path.join(OsStr::from_bytes(entry.name));
        self.tree.note_listed(&path);
        let is_compared = !here.is_new && options.resume && !options.compare_content;
        if is_compared
            && self.tree.target_dir.is_there(&here.path, entry)
            && self.tree.has_listed_digest(&path)
        {
            self.plan.unchanged += 1;
            return;
        }
        let wanted = PlannedFile { directory: here.number, ..wanted };
        self.plan.octets_wanted = self.plan.octets_wanted.saturating_add(entry.octets);
        if is_packed { self.plan.packed.push(wanted) } else { self.plan.single.push(wanted) }
    }

    fn enter(&mut self, below: &Path) -> Result<(), GetError> {
        let path = if below.as_os_str().is_empty() { self.base.clone() } else { self.base.join(below) };
        if self.is_excluded(&path) {
            self.excluded.insert(path.clone());
            return self.skip(path);
        }
        // A directory that its parent did not list, or a second element of one, is not part of this
        // tree.
        let expected = self.expected.remove(&path);
        let (mode, mtime_ns) = expected.unwrap_or((0o700, None));
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
        let mtime_ns = mtime_ns.filter(|_| !is_closed);
        self.plan.directories.push(PlannedDirectory { path: path.clone(), mtime_ns });
        let is_excluded = false;
        self.here =
            Some(CurrentDirectory { path, number, is_new, is_closed, is_excluded, names: Vec::new() });
        Ok(())
    }

    /// Returns true if a pattern excludes the directory, or one above it.
    fn is_excluded(&self, path: &Path) -> bool {
        !self.excluded.is_empty() && path.ancestors().any(|above| self.excluded.contains(above))
    }

    /// Skips the entries of an excluded directory.
    fn skip(&mut self, path: PathBuf) -> Result<(), GetError> {
        let number = self.plan.directories.len() as u32;
        self.plan.directories.push(PlannedDirectory { path: path.clone(), mtime_ns: None });
        self.here = Some(CurrentDirectory {
            path,
            number,
            is_new: true,
            is_closed: true,
            is_excluded: true,
            names: Vec::new(),
        });
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
        self.tree.note_others(&here.path, &is_known, &mut self.removals)
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
        name_below(&self.name, path)
    }

    /// Reports an entry that exists and cannot be fetched.
    fn left_out(&mut self, path: &Path, reason: LeftOut) {
        self.got.left_out += 1;
        self.emit(TreeEvent::LeftOut(path, reason));
    }
}
