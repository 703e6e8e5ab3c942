//! The index of a directory and of the directories below it, at one moment. Clients fetch trees by
//! it. It also has the positions of the small files in the pack (`pack`).
//!
//! An index is made from directory entries and file status only; no file is opened. It lists a
//! directory with all its entries or not at all. A directory without room in it has an index of its
//! own.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use namely_wire::tree_index::{
    EntryStamp, IndexEntry, IndexItem, IndexWriter, LeftOut, index_item, stays_in_tree,
};
use rustix::fs::{Access, AtFlags, FileType, Stat, accessat, readlinkat, statat};
use rustix::io::Errno;

use crate::content::FileStamp;
use crate::root::{LISTING_OCTETS_MAX, Opened, PATH_COMPONENTS_MAX, PathError, Root, check_exists};

/// Octets of a file in the pack of a tree.
///
/// # Limit
/// A larger file is fetched by its own name; an index with a larger file in the pack is refused.
/// - Tests: `a_tree_arrives_with_permissions_and_times`,
///   `an_index_never_leaves_the_target`
pub const PACKED_OCTETS_MAX: u64 = 64 << 10;

/// Entries of an index beyond which no further directory is read.
///
/// The limit bounds the work for one Interest, unless a single directory holds more.
///
/// # Limit
/// Further directories have an index of their own.
/// - Tests: `directories_beyond_an_index_get_their_own`
pub const INDEX_ENTRIES_MAX: usize = 32_768;

/// Maximum octets of an element in addition to its name, with its stamp.
const ELEMENT_OCTETS_MAX: usize = 48;

/// Maximum octets of the type and the length of a link's target.
const LINK_HEADER_OCTETS_MAX: usize = 6;

/// Maximum number of entries that cannot be requested and whose names an index retains for the log.
pub(crate) const LEFT_OUT_NAMES_MAX: usize = 100;

/// The index of a directory, and the data that the server needs to send its pack.
#[derive(Debug)]
pub(crate) struct TreeIndex {
    /// The index as it is sent.
    pub(crate) octets: Vec<u8>,
    /// The path of its directory, below the root.
    pub(crate) path: PathBuf,
    /// The files of the pack, in order.
    pub(crate) packed: Vec<PackedFile>,
    /// Number of entries that cannot be requested.
    pub(crate) left_out: u64,
    /// The first [`LEFT_OUT_NAMES_MAX`] of these entries.
    pub(crate) left_out_names: Vec<(PathBuf, LeftOut)>,
}

/// A file in the pack.
#[derive(Debug)]
pub(crate) struct PackedFile {
    /// End of its record.
    pub(crate) end: u64,
    /// Start of its element in the index.
    at: u32,
    /// Start of its directory's element.
    directory_at: u32,
    /// A [`PackRecord`]: the record that was sent for the file. Once set, it stays for this
    /// version. Relaxed: the value guards no other memory.
    record: AtomicU8,
}

impl PackedFile {
    /// Returns the record that was sent for the file so far.
    pub(crate) fn sent_record(&self) -> PackRecord {
        match self.record.load(Ordering::Relaxed) {
            0 => PackRecord::Nothing,
            1 => PackRecord::Content,
            2 => PackRecord::Changed,
            _ => PackRecord::Unreadable,
        }
    }

    /// Sets the record that is sent for the file.
    pub(crate) fn set_record(&self, record: PackRecord) {
        self.record.store(record as u8, Ordering::Relaxed);
    }
}

/// The record of a file in the pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackRecord {
    /// Nothing was sent yet.
    Nothing,
    /// The content of the file follows.
    Content,
    /// The file differs from the index.
    Changed,
    /// The system's error prevents reading the file.
    Unreadable,
}

impl TreeIndex {
    /// Octets of memory held.
    pub(crate) fn memory_octets(&self) -> usize {
        self.octets.len() + self.packed.len() * size_of::<PackedFile>()
    }

    /// Returns the octets of the pack.
    pub(crate) fn pack_octets(&self) -> u64 {
        self.packed.last().map_or(0, |last| last.end)
    }

    /// Returns the directory of `file`, as an id and a path below the root, and the file's entry.
    pub(crate) fn locate(&self, file: &PackedFile) -> Option<(u32, PathBuf, IndexEntry<'_>)> {
        let IndexItem::Packed(entry) = index_item(&self.octets, file.at as usize)? else { return None };
        let directory = index_item(&self.octets, file.directory_at as usize)?;
        let IndexItem::Directory(path) = directory else { return None };
        Some((file.directory_at, self.path.join(OsStr::from_bytes(path)), entry))
    }

    /// Reads the directory `opened`, which is at `path` below `root`, and the directories below it.
    /// Returns none if `opened` alone exceeds the limit.
    pub(crate) fn build(root: &Root, path: PathBuf, opened: &Opened) -> Result<Option<Self>, PathError> {
        let mut builder = IndexBuilder {
            root,
            writer: IndexWriter::default(),
            entries: 0,
            waiting: VecDeque::new(),
            index: TreeIndex {
                octets: Vec::new(),
                path,
                packed: Vec::new(),
                left_out: 0,
                left_out_names: Vec::new(),
            },
        };
        let first = builder.look(Path::new(""), opened)?;
        if !builder.add(Path::new(""), &first) {
            return Ok(None);
        }
        while let Some(below) = builder.waiting.pop_front() {
            let Ok(opened) = root.open_directory(&builder.index.path.join(&below)) else { continue };
            let Ok(found) = builder.look(&below, &opened) else { continue };
            if builder.entries + found.len() > INDEX_ENTRIES_MAX || !builder.add(&below, &found) {
                break;
            }
        }
        builder.index.octets = builder.writer.into_vec();
        Ok(Some(builder.index))
    }
}

/// An index that is being built.
struct IndexBuilder<'a> {
    root: &'a Root,
    writer: IndexWriter,
    entries: usize,
    /// Directories to read, by their paths below the index's.
    waiting: VecDeque<PathBuf>,
    index: TreeIndex,
}

/// An entry of a directory.
struct DirectoryEntry {
    name: Vec<u8>,
    kind: EntryKind,
    /// The target, if it is a symbolic link whose target may be published.
    link: Option<Vec<u8>>,
}

impl DirectoryEntry {
    /// Maximum octets of its elements.
    fn octets_max(&self) -> usize {
        let link = self.link.as_ref().map_or(0, |target| target.len() + LINK_HEADER_OCTETS_MAX);
        self.name.len() + ELEMENT_OCTETS_MAX + link
    }
}

enum EntryKind {
    File(FileStatus),
    Packed(FileStatus),
    /// The flag is true for the directory itself, and false for a link to it.
    Directory(FileStatus, bool),
    LeftOut(LeftOut),
}

/// The status of a file, as far as an index contains it.
struct FileStatus {
    mode: u16,
    mtime_ns: Option<u64>,
    octets: u64,
    stamp: Option<EntryStamp>,
}

impl FileStatus {
    fn of(stat: &Stat) -> Self {
        let mark = FileStamp::of(stat);
        FileStatus {
            mode: (stat.st_mode & 0o7777) as u16,
            mtime_ns: mark.mtime_ns(),
            octets: mark.size(),
            stamp: mark.entry_stamp(),
        }
    }

    /// The status of the target of a link. The stamp changes if the link leads to another file.
    fn behind_link(link: &Stat, target: &Stat) -> Self {
        let (link, file) = (FileStamp::of(link), FileStamp::of(target));
        let changed_ns = link.ctime.ns().max(file.ctime.ns()).unwrap_or(0);
        let inode = link.inode.rotate_left(32) ^ file.inode;
        FileStatus { stamp: Some(EntryStamp { changed_ns, inode }), ..FileStatus::of(target) }
    }
}

impl IndexBuilder<'_> {
    /// Reads the entries of the directory `opened`, sorted by name.
    fn look(&self, below: &Path, opened: &Opened) -> Result<Vec<DirectoryEntry>, PathError> {
        let mut found = Vec::new();
        let mut octets = 0;
        for entry in rustix::fs::Dir::read_from(&opened.fd).map_err(PathError::System)? {
            let entry = entry.map_err(PathError::System)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                    EntryKind::LeftOut(LeftOut::Special)
                }
                _ => match self.look_at(below, opened, name) {
                    Some(kind) => kind,
                    // The entry was removed meanwhile.
                    None => continue,
                },
            };
            let link = self.link_target(below, opened, name, entry.file_type());
            let entry = DirectoryEntry { name: name.to_vec(), kind, link };
            octets += entry.octets_max();
            found.push(entry);
            if octets > LISTING_OCTETS_MAX {
                // The directory exceeds the limit in any case.
                break;
            }
        }
        check_exists(&opened.fd)?;
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Returns the target of a symbolic link, if it stays in the served directory. The target of
    /// another link is not for others to read.
    fn link_target(&self, below: &Path, opened: &Opened, name: &[u8], kind: FileType) -> Option<Vec<u8>> {
        if !matches!(kind, FileType::Symlink | FileType::Unknown) {
            return None;
        }
        let target = readlinkat(&opened.fd, name, Vec::new()).ok()?.into_bytes();
        stays_in_tree(&target, self.depth(below)).then_some(target)
    }

    /// Directories above the entries of the directory `below`, up to the served one.
    fn depth(&self, below: &Path) -> usize {
        self.index.path.components().count() + below.components().count()
    }

    fn look_at(&self, below: &Path, opened: &Opened, name: &[u8]) -> Option<EntryKind> {
        let stat = match statat(&opened.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return None,
            Err(_) => return Some(EntryKind::LeftOut(LeftOut::Unreadable)),
        };
        let may = |access| accessat(&opened.fd, name, access, AtFlags::EACCESS) != Err(Errno::ACCESS);
        let seen = FileStatus::of(&stat);
        Some(match FileType::from_raw_mode(stat.st_mode) {
            // The access is checked when the file is read. The file's record in the pack then has
            // the kind of an unreadable file.
            FileType::RegularFile if seen.octets <= PACKED_OCTETS_MAX => EntryKind::Packed(seen),
            FileType::RegularFile if may(Access::READ_OK) => EntryKind::File(seen),
            FileType::Directory if may(Access::READ_OK | Access::EXEC_OK) => EntryKind::Directory(seen, true),
            FileType::RegularFile | FileType::Directory => EntryKind::LeftOut(LeftOut::Unreadable),
            FileType::Symlink => {
                let path = self.index.path.join(below).join(OsStr::from_bytes(name));
                match self.root.look_at(&path) {
                    Ok(target) if target.is_directory() => {
                        EntryKind::Directory(FileStatus::of(&target.stat), false)
                    }
                    Ok(target) => EntryKind::File(FileStatus::behind_link(&stat, &target.stat)),
                    Err(_) => EntryKind::LeftOut(LeftOut::Link),
                }
            }
            _ => EntryKind::LeftOut(LeftOut::Special),
        })
    }

    /// Adds a directory with all its entries, if there is room.
    fn add(&mut self, below: &Path, found: &[DirectoryEntry]) -> bool {
        let names: usize = found.iter().map(DirectoryEntry::octets_max).sum();
        let own = below.as_os_str().len() + ELEMENT_OCTETS_MAX;
        if self.writer.octets() + names + own > LISTING_OCTETS_MAX {
            return false;
        }
        let directory_at = self.writer.octets() as u32;
        self.writer.push(&IndexItem::Directory(below.as_os_str().as_bytes()));
        let depth = self.depth(below);
        for DirectoryEntry { name, kind, link } in found {
            let at = self.writer.octets() as u32;
            let link = link.as_deref();
            let entry = |seen: &FileStatus| {
                let FileStatus { mode, mtime_ns, octets, stamp } = *seen;
                IndexEntry { name, mode, mtime_ns, octets, stamp, link }
            };
            let item = match kind {
                EntryKind::File(seen) => IndexItem::File(entry(seen)),
                EntryKind::Packed(seen) => {
                    let end = self.index.pack_octets() + 1 + seen.octets;
                    let record = AtomicU8::new(PackRecord::Nothing as u8);
                    self.index.packed.push(PackedFile { end, at, directory_at, record });
                    IndexItem::Packed(entry(seen))
                }
                EntryKind::Directory(seen, is_itself) => {
                    // Links are not followed further, because the target may contain the link.
                    if *is_itself && depth < PATH_COMPONENTS_MAX {
                        self.waiting.push_back(below.join(OsStr::from_bytes(name)));
                    }
                    IndexItem::Subdirectory(IndexEntry { octets: 0, stamp: None, ..entry(seen) })
                }
                EntryKind::LeftOut(reason) => {
                    if self.index.left_out_names.len() < LEFT_OUT_NAMES_MAX {
                        let path = below.join(OsStr::from_bytes(name));
                        self.index.left_out_names.push((path, *reason));
                    }
                    self.index.left_out += 1;
                    IndexItem::LeftOut { name, reason: *reason, link }
                }
            };
            self.writer.push(&item);
        }
        self.entries += found.len();
        true
    }
}
