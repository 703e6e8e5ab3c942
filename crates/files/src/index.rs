//! What a directory and those below it hold, at one moment: the index that clients fetch trees by,
//! and where its small files lie in the pack (`pack`).
//!
//! Made by looking, never by opening a file. A directory is in it with all its entries or not at
//! all; directories for which there is no room have an index of their own.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use namely_wire::tree_index::{IndexEntry, IndexItem, IndexWriter, LeftOut, index_item};
use rustix::fs::{Access, AtFlags, FileType, Stat, accessat, statat};
use rustix::io::Errno;

use crate::content::Mark;
use crate::root::{Denied, LISTING_OCTETS_MAX, Opened, PATH_COMPONENTS_MAX, Root};

/// Files of at most so many octets lie in the pack.
pub const PACKED_OCTETS_MAX: u64 = 64 << 10;

/// Entries of an index beyond which no further directory is looked into: so much is looked at for
/// one Interest at most, unless a single directory holds more.
pub const INDEX_ENTRIES_MAX: usize = 32_768;

/// Octets of an element beside its name, at most.
const ELEMENT_OCTETS_MAX: usize = 32;

/// The index of a directory, and what the server has to know to send its pack.
#[derive(Debug)]
pub(crate) struct TreeIndex {
    /// The index as it is sent.
    pub(crate) octets: Vec<u8>,
    /// The path of its directory, below the root.
    pub(crate) path: PathBuf,
    /// The files of the pack, in order.
    pub(crate) packed: Vec<PackedFile>,
    /// How many things are there that nobody can ask for.
    pub(crate) left_out: u64,
    /// The first of them.
    pub(crate) first_left_out: Option<(PathBuf, LeftOut)>,
}

/// A file in the pack.
#[derive(Debug)]
pub(crate) struct PackedFile {
    /// Where its record ends.
    pub(crate) end: u64,
    /// Where its element of the index begins.
    at: u32,
    /// Where that of its directory begins.
    directory_at: u32,
    /// What was told of it, a [`Told`]: what was told once holds for as long as the version.
    told: AtomicU8,
}

impl PackedFile {
    /// What the pack said of it so far.
    pub(crate) fn told(&self) -> Told {
        match self.told.load(Ordering::Relaxed) {
            0 => Told::Nothing,
            1 => Told::Content,
            2 => Told::Changed,
            _ => Told::Unreadable,
        }
    }

    /// Notes what the pack says of it.
    pub(crate) fn set_told(&self, told: Told) {
        self.told.store(told as u8, Ordering::Relaxed);
    }
}

/// What the pack says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing yet.
    Nothing,
    /// Its content follows.
    Content,
    /// It is no longer what the index says.
    Changed,
    /// The system does not read it.
    Unreadable,
}

impl TreeIndex {
    /// Octets of memory held.
    pub(crate) fn octets_held(&self) -> usize {
        self.octets.len() + self.packed.len() * size_of::<PackedFile>()
    }

    /// Octets of the pack.
    pub(crate) fn pack_octets(&self) -> u64 {
        self.packed.last().map_or(0, |last| last.end)
    }

    /// The directory that holds `file`, as an id and a path below the root; and its entry.
    pub(crate) fn place_of(&self, file: &PackedFile) -> Option<(u32, PathBuf, IndexEntry<'_>)> {
        let IndexItem::Packed(entry) = index_item(&self.octets, file.at as usize)? else { return None };
        let directory = index_item(&self.octets, file.directory_at as usize)?;
        let IndexItem::Directory(path) = directory else { return None };
        Some((file.directory_at, self.path.join(OsStr::from_bytes(path)), entry))
    }

    /// Looks at the directory `opened`, which is at `path` below `root`, and at those below it.
    /// None if a listing of the first alone takes more than the limit.
    pub(crate) fn build(root: &Root, path: PathBuf, opened: &Opened) -> Result<Option<Self>, Denied> {
        let mut making = Making {
            root,
            writer: IndexWriter::default(),
            entries: 0,
            waiting: VecDeque::new(),
            index: TreeIndex {
                octets: Vec::new(),
                path,
                packed: Vec::new(),
                left_out: 0,
                first_left_out: None,
            },
        };
        let first = making.look(Path::new(""), opened)?;
        if !making.add(Path::new(""), &first) {
            return Ok(None);
        }
        while let Some(below) = making.waiting.pop_front() {
            let Ok(opened) = root.open_directory(&making.index.path.join(&below)) else { continue };
            let Ok(found) = making.look(&below, &opened) else { continue };
            if making.entries + found.len() > INDEX_ENTRIES_MAX || !making.add(&below, &found) {
                break;
            }
        }
        making.index.octets = making.writer.into_vec();
        Ok(Some(making.index))
    }
}

/// An index on its way.
struct Making<'a> {
    root: &'a Root,
    writer: IndexWriter,
    entries: usize,
    /// Directories that are to be looked into, by their paths below the index's.
    waiting: VecDeque<PathBuf>,
    index: TreeIndex,
}

/// What was found under a name.
struct Found {
    name: Vec<u8>,
    what: What,
}

enum What {
    File(Seen),
    Packed(Seen),
    /// Whether it is there itself, or a link to it.
    Directory(Seen, bool),
    LeftOut(LeftOut),
}

/// Of what the system tells, what an index tells.
struct Seen {
    mode: u16,
    mtime_ns: u64,
    octets: u64,
}

impl Seen {
    fn of(stat: &Stat) -> Self {
        let mark = Mark::of(stat);
        Seen { mode: (stat.st_mode & 0o7777) as u16, mtime_ns: mark.mtime_ns, octets: mark.size() }
    }
}

impl Making<'_> {
    /// What is in the directory `opened`, in the order of names.
    fn look(&self, below: &Path, opened: &Opened) -> Result<Vec<Found>, Denied> {
        let mut found = Vec::new();
        let mut octets = 0;
        for entry in rustix::fs::Dir::read_from(&opened.fd).map_err(Denied::System)? {
            let entry = entry.map_err(Denied::System)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            octets += name.len() + ELEMENT_OCTETS_MAX;
            if octets > LISTING_OCTETS_MAX {
                // Too much in any case.
                break;
            }
            let what = match entry.file_type() {
                FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice => {
                    What::LeftOut(LeftOut::Special)
                }
                _ => match self.look_at(below, opened, name) {
                    Some(what) => what,
                    // It went meanwhile.
                    None => continue,
                },
            };
            found.push(Found { name: name.to_vec(), what });
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn look_at(&self, below: &Path, opened: &Opened, name: &[u8]) -> Option<What> {
        let stat = match statat(&opened.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return None,
            Err(_) => return Some(What::LeftOut(LeftOut::Unreadable)),
        };
        let may = |access| accessat(&opened.fd, name, access, AtFlags::EACCESS) != Err(Errno::ACCESS);
        let seen = Seen::of(&stat);
        Some(match FileType::from_raw_mode(stat.st_mode) {
            // Whether it can be read is found out when it is, and told in the pack.
            FileType::RegularFile if seen.octets <= PACKED_OCTETS_MAX => What::Packed(seen),
            FileType::RegularFile if may(Access::READ_OK) => What::File(seen),
            FileType::Directory if may(Access::READ_OK | Access::EXEC_OK) => What::Directory(seen, true),
            FileType::RegularFile | FileType::Directory => What::LeftOut(LeftOut::Unreadable),
            FileType::Symlink => {
                let path = self.index.path.join(below).join(OsStr::from_bytes(name));
                match self.root.look_at(&path) {
                    Ok(target) if target.is_directory() => What::Directory(Seen::of(&target.stat), false),
                    Ok(target) => What::File(Seen::of(&target.stat)),
                    Err(_) => What::LeftOut(LeftOut::Link),
                }
            }
            _ => What::LeftOut(LeftOut::Special),
        })
    }

    /// Adds a directory with all that is in it, if there is room.
    fn add(&mut self, below: &Path, found: &[Found]) -> bool {
        let names: usize = found.iter().map(|found| found.name.len() + ELEMENT_OCTETS_MAX).sum();
        let own = below.as_os_str().len() + ELEMENT_OCTETS_MAX;
        if self.writer.octets() + names + own > LISTING_OCTETS_MAX {
            return false;
        }
        let directory_at = self.writer.octets() as u32;
        self.writer.push(&IndexItem::Directory(below.as_os_str().as_bytes()));
        let depth = self.index.path.components().count() + below.components().count();
        for Found { name, what } in found {
            let at = self.writer.octets() as u32;
            let entry = |seen: &Seen, octets| {
                let Seen { mode, mtime_ns, .. } = *seen;
                IndexEntry { name, mode, mtime_ns, octets }
            };
            let item = match what {
                What::File(seen) => IndexItem::File(entry(seen, seen.octets)),
                What::Packed(seen) => {
                    let end = self.index.pack_octets() + 1 + seen.octets;
                    let told = AtomicU8::new(Told::Nothing as u8);
                    self.index.packed.push(PackedFile { end, at, directory_at, told });
                    IndexItem::Packed(entry(seen, seen.octets))
                }
                What::Directory(seen, is_itself) => {
                    // What a link leads to may hold the link.
                    if *is_itself && depth < PATH_COMPONENTS_MAX {
                        self.waiting.push_back(below.join(OsStr::from_bytes(name)));
                    }
                    IndexItem::Subdirectory(entry(seen, 0))
                }
                What::LeftOut(reason) => {
                    let path = || (below.join(OsStr::from_bytes(name)), *reason);
                    self.index.first_left_out.get_or_insert_with(path);
                    self.index.left_out += 1;
                    IndexItem::LeftOut(name, *reason)
                }
            };
            self.writer.push(&item);
        }
        self.entries += found.len();
        true
    }
}
