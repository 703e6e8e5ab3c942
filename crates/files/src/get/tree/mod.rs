//! Fetches a directory and all files and directories in it.
//!
//! If the producer has an index, the small files of many directories are fetched as one object.
//! Otherwise each directory is listed, and each file is fetched by its own name. Neither names from
//! a producer nor symbolic links can cause a write or a removal outside the target.

mod files;
mod filter;
mod listing;
mod place;
mod plan;
mod removal;
mod unpack;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namely_security::Verified;
use namely_socket::{Consumer, FetchError, Flow, Sink};
use namely_transport::object::{Object, ObjectError, Part, Progress};
use namely_wire::Name;
use namely_wire::rdr::{INDEX_FORMAT_1, Metadata, listing_name};
use namely_wire::tree_index::{LeftOut, index_name, pack_name};

use self::files::{SingleFile, name_below};
pub use self::filter::{Filter, FilterError, PATTERNS_MAX};
use self::listing::Entries;
use self::place::TargetDirectory;
use self::plan::{Plan, PlannedFile, PlannedLink, plan};
pub use self::removal::SMALL_COPY_ENTRIES;
use self::removal::{CopyState, RemovalCount};
use self::unpack::{PackProgress, PackReceiver, parts};
use super::checksum::Checksums;
use super::target::refused;
use super::version::{check_newer, find_recent, note_version};
use super::{GetError, GetOptions};
use crate::root::LISTING_OCTETS_MAX;

/// Directories of a tree that wait to be fetched.
///
/// # Limit
/// A directory whose listing would exceed the limit is not followed, and is reported by name.
/// - Tests: `a_listing_of_too_many_directories_is_refused`
pub(super) const PENDING_MAX: usize = 65_536;

/// Depth of directories that are fetched.
///
/// # Limit
/// A deeper directory is not fetched, and is reported by name.
/// - Tests: `directory_depth_is_limited`
pub const DEPTH_MAX: usize = 64;

/// Failures of a tree's fetch whose errors are retained.
///
/// # Limit
/// All failures are counted and reported, but further errors are not retained.
/// - Counter: `FetchedTree::failures`
/// - Tests: `stored_failures_are_limited`
pub const FAILED_MAX: usize = 100;

/// Maximum number of attempts to fetch an index and its pack. An attempt fails if a newer index has
/// replaced that of the pack.
const AGAIN_MAX: usize = 3;

/// Progress of the fetch of a tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeProgress {
    /// Files fetched.
    pub files: u64,
    /// Octets of the fetched files, and of the file in progress.
    pub octets: u64,
    /// Files to fetch, according to the listings and indexes that were read so far.
    pub files_wanted: u64,
    /// Octets of these files, as far as an index gives their sizes.
    pub octets_wanted: u64,
    /// Whether all listings and indexes were read.
    pub is_all_listed: bool,
    /// Octets of listings and indexes.
    pub octets_listed: u64,
}

/// Events of the fetch of a tree. Paths are below the target.
#[derive(Clone, Copy, Debug)]
pub enum TreeEvent<'a> {
    /// The current progress.
    Progress(TreeProgress),
    /// A file or directory could not be fetched.
    Failed(&'a Path, &'a GetError),
    /// The producer has an entry that it does not serve, for this reason.
    LeftOut(&'a Path, LeftOut),
    /// A file or directory changed while it was fetched. It is requested again.
    Changed(&'a Path),
    /// A file that would be fetched without [`GetOptions::dry_run`], and its octets, if known.
    PlannedFile(&'a Path, Option<u64>),
    /// An entry that no longer exists at the producer was removed. With [`GetOptions::dry_run`] it
    /// would be removed.
    Deleted(&'a Path),
}

/// A fetched tree.
#[derive(Debug, Default)]
pub struct FetchedTree {
    /// Files that were fetched, or that would be fetched without [`GetOptions::dry_run`].
    pub files: u64,
    /// Files that were present already and were not fetched.
    pub unchanged: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links that were made, or that would be made without [`GetOptions::dry_run`].
    pub links: u64,
    /// Duplicate entries of listings; the first one counts.
    pub duplicates: u64,
    /// Octets that were fetched.
    pub octets: u64,
    /// Removed entries: files, and directories with their content.
    pub deleted: u64,
    /// Entries that the producer does not serve: pipes, sockets, devices, unreadable files, and
    /// links that lead out of the served directory or nowhere.
    pub left_out: u64,
    /// Indexes that were read; 0 if the producer has none. A long one leaves directories to others.
    pub indexes: u64,
    /// Files for which [`TreeRules::checksums`] has no digest.
    pub unlisted: u64,
    /// Files of [`TreeRules::checksums`] that the tree does not have, unless the filter excludes
    /// them.
    pub missing: Vec<PathBuf>,
    /// Number of files and directories that could not be fetched.
    pub failures: u64,
    /// The first [`FAILED_MAX`] of these files and directories, with their errors.
    pub failed: Vec<(Name, GetError)>,
}

/// The entries of a tree to fetch, and their contents as far as the caller knows them.
#[derive(Clone, Copy, Debug)]
pub struct TreeRules<'a> {
    /// The entries.
    pub filter: &'a Filter,
    /// The digests of files. A present file of another digest is fetched again, and a fetched one
    /// fails with [`GetError::Checksum`].
    pub checksums: Option<&'a Checksums>,
}

/// Returns the versioned name of the index of the directory `name`, which changes with any entry
/// that the index lists. None if the producer has no index.
///
/// # Errors
/// The directory is not found, or [`GetError::NotDirectory`].
pub fn find_version(consumer: &Consumer, name: &Name) -> Result<Option<Name>, GetError> {
    let object = consumer.find(name)?;
    let Some(metadata) = object.metadata.as_ref().filter(|metadata| metadata.is_directory()) else {
        return Err(GetError::NotDirectory { name: name.clone() });
    };
    match metadata.index_format {
        Some(INDEX_FORMAT_1) => Ok(Some(consumer.find(&index_name(name.as_name()))?.name)),
        _ => Ok(None),
    }
}

/// Fetches the directory `name` into the directory `target`, and creates `target` if it does not
/// exist. If one file cannot be fetched, the others are still fetched: see [`FetchedTree::failed`].
/// With [`GetOptions::resume`], a present file with the producer's size and time is not fetched
/// again.
///
/// # Errors
/// [`GetError::NotDirectory`], a failure at the directory `name` itself, or an error that all
/// further fetches would return, too.
pub fn get_tree(
    consumer: &Consumer,
    name: &Name,
    target: &Path,
    options: GetOptions,
    watch: &mut dyn FnMut(TreeEvent<'_>) -> Flow,
) -> Result<FetchedTree, GetError> {
    get_tree_filtered(consumer, name, target, options, &Filter::default(), watch)
}

/// Fetches those entries of the directory `name` that `filter` includes. Otherwise as [`get_tree`].
///
/// # Errors
/// As [`get_tree`].
pub fn get_tree_filtered(
    consumer: &Consumer,
    name: &Name,
    target: &Path,
    options: GetOptions,
    filter: &Filter,
    watch: &mut dyn FnMut(TreeEvent<'_>) -> Flow,
) -> Result<FetchedTree, GetError> {
    get_tree_by_rules(consumer, name, target, options, TreeRules { filter, checksums: None }, watch)
}

/// Fetches the directory `name` by `rules`. Otherwise as [`get_tree`].
///
/// # Errors
/// As [`get_tree`].
pub fn get_tree_by_rules(
    consumer: &Consumer,
    name: &Name,
    target: &Path,
    options: GetOptions,
    rules: TreeRules<'_>,
    watch: &mut dyn FnMut(TreeEvent<'_>) -> Flow,
) -> Result<FetchedTree, GetError> {
    let object = consumer.find(name)?;
    let metadata = object.metadata.as_ref().filter(|metadata| metadata.is_directory());
    let Some(metadata) = metadata else { return Err(GetError::NotDirectory { name: name.clone() }) };
    let target_dir =
        TargetDirectory::new(target, options.dry_run).map_err(|error| refused(target.to_owned(), error))?;
    let has_index = metadata.index_format == Some(INDEX_FORMAT_1);
    let mut tree = Tree {
        consumer,
        name: name.clone(),
        options: GetOptions { keep_mode: true, ..options },
        filter: rules.filter,
        checksums: rules.checksums,
        listed: HashSet::new(),
        target_dir,
        copy_state: CopyState::Copy,
        removal_count: RemovalCount::default(),
        deleted_entries: 0,
        got: FetchedTree::default(),
        files_wanted: 0,
        octets_wanted: 0,
        octets_listed: 0,
        is_stopped: false,
        waiting: vec![PathBuf::new()],
        watch,
    };
    tree.copy_state = tree.copy_state();
    while let Some(path) = tree.waiting.pop() {
        let done = if has_index { tree.by_index(&path) } else { tree.by_listing(&path) };
        match done {
            Ok(()) => {}
            Err(error) if path.as_os_str().is_empty() => return Err(error),
            Err(error) => tree.failed(&path, error)?,
        }
        tree.check_stopped(0)?;
    }
    tree.note_missing();
    if tree.got.failures == 0 && rules.filter.is_empty() {
        tree.note_copy();
    }
    Ok(tree.got)
}

/// Returns an error if `waiting` and `more` directories together exceed [`PENDING_MAX`].
fn check_room(name: Name, waiting: usize, more: usize) -> Result<(), GetError> {
    match waiting + more {
        0..=PENDING_MAX => Ok(()),
        directories => Err(GetError::TooMany { name, directories }),
    }
}

/// A tree that is being fetched.
struct Tree<'a> {
    consumer: &'a Consumer,
    name: Name,
    options: GetOptions,
    filter: &'a Filter,
    checksums: Option<&'a Checksums>,
    /// Files of the tree that `checksums` has.
    listed: HashSet<PathBuf>,
    target_dir: TargetDirectory,
    copy_state: CopyState,
    removal_count: RemovalCount,
    /// Deleted entries, with those in deleted directories.
    deleted_entries: u64,
    got: FetchedTree,
    files_wanted: u64,
    octets_wanted: u64,
    octets_listed: u64,
    is_stopped: bool,
    /// Directories to fetch, by their paths below the target.
    waiting: Vec<PathBuf>,
    watch: &'a mut dyn FnMut(TreeEvent<'_>) -> Flow,
}

impl Tree<'_> {
    fn emit(&mut self, event: TreeEvent<'_>) {
        self.is_stopped |= (self.watch)(event) == Flow::Stop;
    }

    /// Reports the progress, including `octets` of a file in progress. Returns an error if the
    /// caller stops the fetch.
    fn check_stopped(&mut self, octets: u64) -> Result<(), GetError> {
        self.emit(TreeEvent::Progress(TreeProgress { octets: self.got.octets + octets, ..self.progress() }));
        if self.is_stopped { Err(GetError::Fetch(ObjectError::Stopped.into())) } else { Ok(()) }
    }

    fn progress(&self) -> TreeProgress {
        TreeProgress {
            files: self.got.files,
            octets: self.got.octets,
            files_wanted: self.files_wanted,
            octets_wanted: self.octets_wanted,
            is_all_listed: self.waiting.is_empty(),
            octets_listed: self.octets_listed,
        }
    }

    /// Counts and reports the failure of one file or directory. Returns the error instead if all
    /// further fetches would fail with it.
    fn failed(&mut self, path: &Path, error: GetError) -> Result<(), GetError> {
        if error.concerns_all() {
            return Err(error);
        }
        self.got.failures += 1;
        self.emit(TreeEvent::Failed(path, &error));
        if self.got.failed.len() < FAILED_MAX {
            let name = self.name_of(path);
            self.got.failed.push((name, error));
        }
        Ok(())
    }

    /// Fetches the directory `path` and the directories in its index.
    fn by_index(&mut self, path: &Path) -> Result<(), GetError> {
        if path.components().count() > DEPTH_MAX {
            return Err(GetError::TooDeep { name: self.name_of(path) });
        }
        let (fetched, wanted) = (self.got.files, (self.files_wanted, self.octets_wanted));
        let mut attempt = 0;
        loop {
            attempt += 1;
            let name = index_name(self.name_of(path).as_name());
            let index = find_recent(|| self.consumer.find(&name), &self.options)?;
            if !self.options.allow_older {
                self.check_newer(path, &index)?;
            }
            let octets = self.listing_object(&index)?;
            let metadata = index.metadata.as_ref();
            let mode = metadata.and_then(|m| m.mode).map_or(0o777, |mode| (mode & 0o777) as u16);
            let mtime_ns = metadata.and_then(|m| m.mtime_ns);
            let before = (self.got.directories, self.got.left_out, self.got.unlisted, self.removal_count);
            let plan = plan(self, path, mode, mtime_ns, octets)?;
            check_room(self.name_of(path), self.waiting.len(), plan.further.len())?;
            match self.carry_out(path, &index, &plan) {
                Err(error) if attempt < AGAIN_MAX && is_gone(&error) => {
                    // The next plan finds the files that this attempt has fetched, and skips them.
                    self.emit(TreeEvent::Changed(path));
                    (self.got.directories, self.got.left_out, self.got.unlisted, self.removal_count) = before;
                    (self.files_wanted, self.octets_wanted) = (wanted.0 + self.got.files - fetched, wanted.1);
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let again = if attempt > 1 { self.got.files - fetched } else { 0 };
                    self.got.unchanged += plan.unchanged.saturating_sub(again);
                    self.waiting.extend(plan.further);
                    self.got.indexes += 1;
                    return Ok(());
                }
            }
        }
    }

    fn carry_out(&mut self, path: &Path, index: &Object, plan: &Plan) -> Result<(), GetError> {
        let files = (plan.packed.len() + plan.single.len()) as u64;
        self.files_wanted += files;
        self.octets_wanted += plan.octets_wanted;
        if self.options.dry_run {
            for wanted in plan.packed.iter().chain(&plan.single) {
                let octets = plan.entry(wanted).map(|(_, entry)| entry.octets);
                self.emit(TreeEvent::PlannedFile(&plan.path(wanted), octets));
            }
            self.got.files += files;
            return self.make_links(plan);
        }
        if self.target_dir.lacks_room(plan.octets_wanted) {
            let path = self.target_dir.path().to_owned();
            let needed_octets = Some(plan.octets_wanted);
            return Err(GetError::NoSpace { path, needed_octets, kept_octets: 0 });
        }
        // Reports the new totals before the first file is fetched.
        self.check_stopped(0)?;
        let changed = self.unpack(path, index, plan)?;
        changed.iter().for_each(|wanted| self.emit(TreeEvent::Changed(&plan.path(wanted))));
        let changed = changed.iter().map(|wanted| SingleFile { path: plan.path(wanted), stamp: None });
        let single = plan.single.iter().map(|wanted| {
            let stamp = plan.entry(wanted).and_then(|(_, entry)| entry.stamp);
            SingleFile { path: plan.path(wanted), stamp }
        });
        self.fetch_files(changed.chain(single))?;
        self.make_links(plan)?;
        for listed in plan.directories.iter().rev() {
            if let Some(mtime_ns) = listed.mtime_ns {
                self.target_dir.set_time(&listed.path, mtime_ns);
            }
        }
        if let Ok(directory) = self.target_dir.open(path) {
            note_version(&*directory, index);
        }
        Ok(())
    }

    /// Makes the symbolic links of the plan.
    fn make_links(&mut self, plan: &Plan) -> Result<(), GetError> {
        for wanted in &plan.links {
            let Some(PlannedLink { directory, name, target }) = plan.link(wanted) else { continue };
            let path = directory.join(name);
            if self.options.dry_run {
                self.got.links += 1;
                self.emit(TreeEvent::PlannedFile(&path, None));
                continue;
            }
            match self.target_dir.make_link(directory, name, target) {
                Ok(()) => self.got.links += 1,
                Err(error) => {
                    let at = self.target_dir.path().join(&path);
                    self.failed(&path, GetError::Target { path: at, error })?;
                }
            }
        }
        Ok(())
    }

    /// Returns an error if the directory `path` was fetched before by an index that is newer than
    /// `index`.
    fn check_newer(&mut self, path: &Path, index: &Object) -> Result<(), GetError> {
        let Ok(directory) = self.target_dir.open(path) else { return Ok(()) };
        // The version in the attributes of another user's directory is ignored.
        match directory.stat() {
            Ok(found) if self.target_dir.is_own(&found) => check_newer(index, &*directory, directory.path()),
            _ => Ok(()),
        }
    }

    /// Fetches the pack and writes its files. Returns the files that no longer match the index.
    fn unpack(&mut self, path: &Path, index: &Object, plan: &Plan) -> Result<Vec<PlannedFile>, GetError> {
        let Some(pack) = pack_of(self.name_of(path), index, plan) else { return Ok(Vec::new()) };
        let segment_octets = pack.metadata.as_ref().and_then(|m| m.segment_size_octets).unwrap_or(1);
        let done = PackProgress::default();
        let progress = self.progress();
        let mut is_stopped = false;
        let options = self.options;
        let mut unpacking = PackReceiver::new(plan, &mut self.target_dir, segment_octets, &options, &done);
        unpacking.checksums = self.checksums;
        let mut fetched = Ok(());
        for part in parts(plan, segment_octets) {
            let watch = &mut *self.watch;
            let result = self.consumer.fetch_into(&pack, part, &mut unpacking, &mut |_| {
                let flow = watch(TreeEvent::Progress(TreeProgress {
                    files: progress.files + done.files.get(),
                    octets: progress.octets + done.octets.get(),
                    ..progress
                }));
                is_stopped |= flow == Flow::Stop;
                flow
            });
            if let Err(error) = result {
                fetched = Err(unpacking.fatal.take().unwrap_or(GetError::Fetch(error)));
                break;
            }
        }
        let (changed, failed) = (unpacking.changed, unpacking.failed);
        self.is_stopped |= is_stopped;
        self.got.files += done.files.get();
        self.got.unchanged += done.unchanged.get();
        self.got.octets += done.octets.get();
        for (path, error) in failed {
            self.failed(&path, error)?;
        }
        fetched.map(|()| changed)
    }

    /// Counts a file of the tree, which is listed or not.
    fn note_listed(&mut self, path: &Path) {
        match self.checksums.map(|checksums| checksums.get(path)) {
            None => {}
            Some(None) => self.got.unlisted += 1,
            Some(Some(_)) => {
                self.listed.insert(path.to_owned());
            }
        }
    }

    /// Records the listed files that the tree does not have.
    fn note_missing(&mut self) {
        let Some(checksums) = self.checksums else { return };
        let is_excluded = |path: &Path| {
            let mut above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            self.filter.excludes(path, false) || above.any(|above| self.filter.excludes(above, true))
        };
        let missing = checksums.paths().filter(|&path| !self.listed.contains(path) && !is_excluded(path));
        self.got.missing = missing.map(Path::to_owned).collect();
    }

    /// Fetches the content of a listing or index.
    fn listing_object(&mut self, object: &Object) -> Result<Vec<u8>, GetError> {
        let progress = TreeProgress { is_all_listed: false, ..self.progress() };
        let watch = &mut *self.watch;
        let octets = small_object(self.consumer, object, LISTING_OCTETS_MAX, &mut |current| {
            let octets_listed = progress.octets_listed + current.octets;
            watch(TreeEvent::Progress(TreeProgress { octets_listed, ..progress }))
        })?;
        self.octets_listed += octets.len() as u64;
        Ok(octets)
    }

    /// Fetches the files of the directory `path` from a producer without indexes. Adds its
    /// directories to `waiting`.
    fn by_listing(&mut self, path: &Path) -> Result<(), GetError> {
        let name = self.name_of(path);
        if path.components().count() > DEPTH_MAX {
            return Err(GetError::TooDeep { name });
        }
        let listing = listing_name(name.as_name());
        let octets = self.listing_object(&self.consumer.find(&listing)?)?;
        let entries = Entries::new(listing, octets)?;
        let at = self.target_dir.path().join(path);
        self.target_dir
            .enter(path, 0o777, self.options.delete)
            .map_err(|error| GetError::Target { path: at, error })?;
        self.got.directories += 1;
        self.got.duplicates += entries.duplicates;
        check_room(name, self.waiting.len(), entries.directories)?;
        if self.options.delete {
            let mut removals = Vec::new();
            self.note_others(path, &|name| entries.contains(name), &mut removals)?;
            self.remove(&removals)?;
        }
        let filter = self.filter;
        let included = || {
            let below = |(file, is_directory)| (path.join(OsStr::from_bytes(file)), is_directory);
            entries.iter().map(below).filter(|(below, is_directory)| !filter.excludes(below, *is_directory))
        };
        for (below, is_directory) in included() {
            if is_directory {
                self.waiting.push(below);
            } else {
                self.files_wanted += 1;
                self.note_listed(&below);
            }
        }
        let files = included().filter(|(_, is_directory)| !is_directory);
        self.fetch_files(files.map(|(path, _)| SingleFile { path, stamp: None }))
    }
}

/// Returns the pack of `index`, if the plan contains any of its files.
fn pack_of(directory: Name, index: &Object, plan: &Plan) -> Option<Object> {
    let version = index.name.as_name().last()?.version()?;
    let segment_octets = index.metadata.as_ref()?.segment_size_octets.filter(|octets| *octets > 0)?;
    let segments = plan.pack_octets.div_ceil(segment_octets);
    let name = pack_name(directory.as_name(), version);
    let metadata = Metadata {
        last_segment: segments.checked_sub(1),
        segment_size_octets: Some(segment_octets),
        size_octets: Some(plan.pack_octets),
        ..Metadata::new(name.clone())
    };
    (!plan.packed.is_empty()).then_some(Object {
        name,
        segments: Some(segments),
        signature_mode: index.signature_mode,
        manifest_entries: index.manifest_entries,
        metadata: Some(metadata),
        as_of_ns: None,
        reason: None,
        whole: None,
    })
}

/// Returns true if the error may mean that a newer index has replaced that of the pack.
fn is_gone(error: &GetError) -> bool {
    matches!(
        error.fetch_error(),
        Some(FetchError::Object(
            ObjectError::Fetch { .. } | ObjectError::Refused { .. } | ObjectError::Corrupt(_)
        ))
    )
}

/// Fetches the content of `object`, of at most `octets_max`.
fn small_object(
    consumer: &Consumer,
    object: &Object,
    octets_max: usize,
    watch: &mut dyn FnMut(&Progress) -> Flow,
) -> Result<Vec<u8>, FetchError> {
    struct BoundedBuffer(Vec<u8>, usize);

    impl Sink for BoundedBuffer {
        fn write(&mut self, _: u64, data: &Verified<Vec<u8>>) -> io::Result<()> {
            if self.0.len() + data.content().len() > self.1 {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            self.0.extend_from_slice(data.content());
            Ok(())
        }
    }

    let mut small = BoundedBuffer(Vec::new(), octets_max);
    match consumer.fetch_into(object, Part::from(0), &mut small, watch) {
        Ok(_) => Ok(small.0),
        Err(FetchError::Object(ObjectError::Sink(_))) => {
            let object = object.name.clone();
            Err(ObjectError::TooLarge { object, octets_max: octets_max as u64 }.into())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_of_too_many_directories_is_refused() {
        let name: Name = "/p".parse().unwrap();
        check_room(name.clone(), PENDING_MAX - 1, 1).unwrap();
        let error = check_room(name, PENDING_MAX, 1).unwrap_err();
        assert!(error.to_string().contains("65537"), "{error}");
    }
}
