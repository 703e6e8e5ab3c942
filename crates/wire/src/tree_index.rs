//! The index of a directory tree, by which a client fetches the tree: the properties of each file,
//! and the small files that are stored together in the *pack* of the same version.
//!
//! It is a sequence of elements; unknown ones of non-critical TYPEs are skipped (`docs/files.md`).
//! It has no contents of files, and its paths never lead out of the directory.

use alloc::vec::Vec;

use crate::error::DecodeError;
use crate::name::{Component, Name, NameRef};
use crate::rdr::ListingEntry;
use crate::tlv::{Reader, Tlv, Writer, ignore_unknown};
use crate::types::KEYWORD_COMPONENT;

/// The component `32=index`.
pub const INDEX_COMPONENT: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"index" };

/// The component `32=pack`.
pub const PACK_COMPONENT: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"pack" };

/// TYPE of a directory, which contains the entries after it.
const DIRECTORY: u32 = 0xf610;
/// TYPE of a file that is fetched by its own name.
const FILE: u32 = 0xf612;
/// TYPE of a file in the pack.
const PACKED: u32 = 0xf614;
/// TYPE of a directory in the directory.
const SUBDIRECTORY: u32 = 0xf616;
/// TYPE of an entry that exists but is not served.
const LEFT_OUT: u32 = 0xf618;
/// TYPE of the stamp of the entry before it. Even, so that older clients skip it.
const STAMP: u32 = 0xf61a;
/// TYPE of the target of the entry before it, which is a symbolic link.
const LINK: u32 = 0xf61c;

/// Modification time of an entry whose time does not fit 64 bits of ns since the Unix epoch.
const TIME_UNKNOWN: u64 = u64::MAX;

/// Octets of the target of a symbolic link, as in the kernel (PATH_MAX without its end).
///
/// # Limit
/// The index is refused.
/// - Tests: `malformed_attributes_are_errors`
pub const LINK_TARGET_OCTETS_MAX: usize = 4095;

/// Returns the name of the index object of `directory`.
pub fn index_name(directory: NameRef<'_>) -> Name {
    directory.to_name().join(INDEX_COMPONENT)
}

/// Returns the name of the pack: the small files that version `version` of `directory`'s index
/// refers to.
pub fn pack_name(directory: NameRef<'_>, version: u64) -> Name {
    directory.to_name().join(PACK_COMPONENT).join_version(version)
}

/// Properties of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// One path component, any octets except zero and `/`.
    pub name: &'a [u8],
    /// Permissions, the lowest twelve bits of Unix's `st_mode`.
    pub mode: u16,
    /// Last change of the content, ns since the Unix epoch; none if the producer's time does not
    /// fit.
    pub mtime_ns: Option<u64>,
    /// Octets; 0 for directories.
    pub octets: u64,
    /// Present if the producer's file was changed otherwise than by writing it, such as by a
    /// rename: then the time and the size alone do not identify the content.
    pub stamp: Option<EntryStamp>,
    /// The target, if the producer's entry is a symbolic link that stays in the tree.
    pub link: Option<&'a [u8]>,
}

/// The values by which the kernel of the producer distinguishes contents of a file. No program can
/// set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryStamp {
    /// Last change of the inode, ns since the Unix epoch.
    pub changed_ns: u64,
    /// The number of the inode.
    pub inode: u64,
}

impl EntryStamp {
    /// Octets of an encoded stamp.
    pub const OCTETS: usize = 16;

    /// Encodes the stamp.
    pub fn to_octets(self) -> [u8; Self::OCTETS] {
        let mut octets = [0; Self::OCTETS];
        octets[..8].copy_from_slice(&self.changed_ns.to_be_bytes());
        octets[8..].copy_from_slice(&self.inode.to_be_bytes());
        octets
    }

    fn decode(octets: &[u8]) -> Option<Self> {
        let (changed_ns, rest) = octets.split_first_chunk()?;
        let inode = rest.try_into().ok()?;
        Some(EntryStamp { changed_ns: u64::from_be_bytes(*changed_ns), inode: u64::from_be_bytes(inode) })
    }
}

/// The reason why an entry is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// A pipe, a socket or a device.
    Special,
    /// The producer may not read it.
    Unreadable,
    /// A symbolic link without a target, or with one outside of the served directory.
    Link,
    /// Another reason, by its number.
    Other(u8),
}

impl LeftOut {
    fn number(self) -> u8 {
        match self {
            LeftOut::Special => 1,
            LeftOut::Unreadable => 2,
            LeftOut::Link => 3,
            LeftOut::Other(number) => number,
        }
    }

    fn from_number(number: u8) -> Self {
        match number {
            1 => LeftOut::Special,
            2 => LeftOut::Unreadable,
            3 => LeftOut::Link,
            number => LeftOut::Other(number),
        }
    }
}

impl core::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LeftOut::Special => f.write_str("a pipe, a socket or a device"),
            LeftOut::Unreadable => f.write_str("not readable by its producer"),
            LeftOut::Link => f.write_str("a link that leads out or nowhere"),
            LeftOut::Other(number) => write!(f, "left out for reason {number}"),
        }
    }
}

/// One element of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexItem<'a> {
    /// The directory of the following entries, all of which follow. Its path is relative to the
    /// index's directory: components with slashes between them, none for that directory itself.
    Directory(&'a [u8]),
    /// A file that is fetched by its own name.
    File(IndexEntry<'a>),
    /// A file in the pack. Its octets follow those of the previous such file.
    Packed(IndexEntry<'a>),
    /// A directory. If no [`IndexItem::Directory`] with its path follows, it has an index of its
    /// own.
    Subdirectory(IndexEntry<'a>),
    /// An entry that is not served.
    LeftOut {
        /// Its name.
        name: &'a [u8],
        /// The reason.
        reason: LeftOut,
        /// The target, if it is a symbolic link that would stay in the tree.
        link: Option<&'a [u8]>,
    },
}

/// Writes an index.
#[derive(Debug, Default)]
pub struct IndexWriter(Writer);

impl IndexWriter {
    /// Adds an element.
    pub fn push(&mut self, item: &IndexItem<'_>) {
        match item {
            IndexItem::Directory(path) => {
                self.0.tlv(DIRECTORY, path);
            }
            IndexItem::File(entry) => self.entry(FILE, entry),
            IndexItem::Packed(entry) => self.entry(PACKED, entry),
            IndexItem::Subdirectory(entry) => self.entry(SUBDIRECTORY, entry),
            IndexItem::LeftOut { name, reason, link } => {
                self.0.header(LEFT_OUT, 1 + name.len()).raw(&[reason.number()]).raw(name);
                self.link(*link);
            }
        }
    }

    fn entry(&mut self, typ: u32, entry: &IndexEntry<'_>) {
        let w = self.0.header(typ, FIXED_OCTETS + entry.name.len());
        w.raw(&entry.mode.to_be_bytes()).raw(&entry.mtime_ns.unwrap_or(TIME_UNKNOWN).to_be_bytes());
        w.raw(&entry.octets.to_be_bytes()).raw(entry.name);
        if let Some(stamp) = entry.stamp {
            self.0.tlv(STAMP, &stamp.to_octets());
        }
        self.link(entry.link);
    }

    fn link(&mut self, target: Option<&[u8]>) {
        if let Some(target) = target {
            self.0.tlv(LINK, target);
        }
    }

    /// Returns the octets so far.
    pub fn octets(&self) -> usize {
        self.0.len()
    }

    /// Returns the index.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

/// Octets of an entry before its name: mode, time, size.
const FIXED_OCTETS: usize = 2 + 8 + 8;

/// Parses the elements of an index, each with its offset. A name that is not exactly one path
/// component is an error. The iterator ends after the first error.
pub fn index(octets: &[u8]) -> impl Iterator<Item = Result<(usize, IndexItem<'_>), DecodeError>> {
    let mut reader = Reader::new(octets);
    let mut is_over = false;
    core::iter::from_fn(move || {
        while !is_over {
            let at = reader.position();
            let item = match reader.next_tlv() {
                Ok(None) => return None,
                Ok(Some(tlv)) => item_of(&tlv, reader.rest()),
                Err(error) => Err(error),
            };
            is_over = item.is_err();
            match item {
                Ok(None) => {}
                Ok(Some(item)) => return Some(Ok((at, item))),
                Err(error) => return Some(Err(error)),
            }
        }
        None
    })
}

/// Parses the element at offset `at`.
pub fn index_item(octets: &[u8], at: usize) -> Option<IndexItem<'_>> {
    let mut reader = Reader::new(octets.get(at..)?);
    let tlv = reader.next_tlv().ok()??;
    item_of(&tlv, reader.rest()).ok()?
}

/// Converts an element. `rest` are the octets after it, which may begin with its attributes.
fn item_of<'a>(tlv: &Tlv<'a>, rest: &'a [u8]) -> Result<Option<IndexItem<'a>>, DecodeError> {
    Ok(Some(match tlv.typ {
        DIRECTORY => {
            let components = || tlv.value.split(|octet| *octet == b'/');
            if !tlv.value.is_empty() && !components().all(is_plain) {
                return Err(DecodeError::BadText);
            }
            IndexItem::Directory(tlv.value)
        }
        FILE => IndexItem::File(entry_of(tlv, rest)?),
        PACKED => IndexItem::Packed(entry_of(tlv, rest)?),
        SUBDIRECTORY => IndexItem::Subdirectory(entry_of(tlv, rest)?),
        LEFT_OUT => {
            let (reason, name) = tlv.value.split_first().ok_or(DecodeError::BadLength(tlv.typ))?;
            let link = Attributes::of(rest).link;
            IndexItem::LeftOut { name: plain(name)?, reason: LeftOut::from_number(*reason), link }
        }
        // The entry before has taken its attributes. Here they are only checked.
        STAMP => {
            EntryStamp::decode(tlv.value).ok_or(DecodeError::BadLength(tlv.typ))?;
            return Ok(None);
        }
        LINK => {
            link_target(tlv.value).ok_or(DecodeError::BadText)?;
            return Ok(None);
        }
        typ => {
            ignore_unknown(typ)?;
            return Ok(None);
        }
    }))
}

/// Properties of an entry that follow it as elements of their own.
#[derive(Clone, Copy, Default)]
struct Attributes<'a> {
    stamp: Option<EntryStamp>,
    link: Option<&'a [u8]>,
}

impl<'a> Attributes<'a> {
    /// Reads the attributes at the beginning of `rest`. Elements that older clients skip may stand
    /// between them.
    fn of(rest: &'a [u8]) -> Self {
        let mut found = Attributes::default();
        let mut reader = Reader::new(rest);
        while let Ok(Some(tlv)) = reader.next_tlv() {
            match tlv.typ {
                STAMP => found.stamp = found.stamp.or(EntryStamp::decode(tlv.value)),
                LINK => found.link = found.link.or(link_target(tlv.value)),
                DIRECTORY | FILE | PACKED | SUBDIRECTORY | LEFT_OUT => break,
                typ if ignore_unknown(typ).is_err() => break,
                _ => {}
            }
        }
        found
    }
}

/// Returns `octets` if they can be the target of a symbolic link.
fn link_target(octets: &[u8]) -> Option<&[u8]> {
    let fits = (1..=LINK_TARGET_OCTETS_MAX).contains(&octets.len()) && !octets.contains(&0);
    fits.then_some(octets)
}

/// Returns true if a symbolic link with this target, `depth` directories below the top of a tree,
/// leads to a place in the tree, whatever other such links the tree has.
///
/// The target is relative, and `..` stands only at its beginning, at most `depth` times: behind a
/// link, `..` would leave the directory that the link leads to.
pub fn stays_in_tree(target: &[u8], depth: usize) -> bool {
    let Some(target) = link_target(target) else { return false };
    let mut ups = 0;
    let mut has_name = false;
    for component in target.split(|octet| *octet == b'/') {
        match component {
            b"" | b"." => {}
            b".." if has_name => return false,
            b".." => ups += 1,
            _ => has_name = true,
        }
    }
    target[0] != b'/' && ups <= depth
}

fn entry_of<'a>(tlv: &Tlv<'a>, rest: &'a [u8]) -> Result<IndexEntry<'a>, DecodeError> {
    let bad = DecodeError::BadLength(tlv.typ);
    let (mode, value) = tlv.value.split_first_chunk().ok_or(bad)?;
    let (mtime_ns, value) = value.split_first_chunk().ok_or(bad)?;
    let (octets, name) = value.split_first_chunk().ok_or(bad)?;
    let Attributes { stamp, link } = Attributes::of(rest);
    Ok(IndexEntry {
        name: plain(name)?,
        mode: u16::from_be_bytes(*mode) & 0o7777,
        mtime_ns: Some(u64::from_be_bytes(*mtime_ns)).filter(|ns| *ns != TIME_UNKNOWN),
        octets: u64::from_be_bytes(*octets),
        stamp,
        link,
    })
}

fn is_plain(name: &[u8]) -> bool {
    ListingEntry::new(name, false).is_some()
}

fn plain(name: &[u8]) -> Result<&[u8], DecodeError> {
    if is_plain(name) { Ok(name) } else { Err(DecodeError::BadText) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn entry(name: &[u8]) -> IndexEntry<'_> {
        let mtime_ns = Some(1_700_000_000_123_456_789);
        IndexEntry { name, mode: 0o640, mtime_ns, octets: 70_000, stamp: None, link: None }
    }

    const STAMPED: EntryStamp = EntryStamp { changed_ns: 1_700_000_001_000_000_000, inode: 7 };

    fn written(items: &[IndexItem<'_>]) -> Vec<u8> {
        let mut writer = IndexWriter::default();
        items.iter().for_each(|item| writer.push(item));
        assert_eq!(writer.octets(), writer.0.len());
        writer.into_vec()
    }

    #[test]
    fn written_items_are_read_back() {
        let items = [
            IndexItem::Directory(b""),
            IndexItem::File(entry(b"large")),
            IndexItem::Packed(entry(b"\xff not UTF-8 \n")),
            IndexItem::Subdirectory(entry(b"d")),
            IndexItem::LeftOut { name: b"pipe", reason: LeftOut::Special, link: None },
            IndexItem::LeftOut { name: b"odd", reason: LeftOut::Other(9), link: Some(b"nowhere") },
            IndexItem::File(IndexEntry { stamp: Some(STAMPED), link: Some(b"../x"), ..entry(b"l") }),
            IndexItem::Packed(IndexEntry { mtime_ns: None, ..entry(b"before 1970") }),
            IndexItem::Directory(b"d/e"),
        ];
        let octets = written(&items);
        let read: Vec<_> = index(&octets).map(Result::unwrap).collect();
        assert_eq!(read.iter().map(|(_, item)| *item).collect::<Vec<_>>(), items);
        assert!(read.iter().all(|(at, item)| index_item(&octets, *at) == Some(*item)));
        assert_eq!(index_item(&octets, octets.len()), None);
    }

    #[test]
    fn bad_tree_index_names_are_errors() {
        let refused = |octets: &[u8]| index(octets).last().unwrap().unwrap_err();
        for name in [&b".."[..], b".", b"", b"a/b", b"a\0b"] {
            assert_eq!(refused(&written(&[IndexItem::Packed(entry(name))])), DecodeError::BadText);
            let left_out = IndexItem::LeftOut { name, reason: LeftOut::Link, link: None };
            assert_eq!(refused(&written(&[left_out])), DecodeError::BadText);
        }
        for path in [&b"/"[..], b"a//b", b"../x", b"a/..", b"/etc", b"a/"] {
            assert_eq!(refused(&written(&[IndexItem::Directory(path)])), DecodeError::BadText);
        }
        let whole = written(&[IndexItem::File(entry(b"x"))]);
        for end in 1..whole.len() {
            assert!(index(&whole[..end]).all(|item| item.is_err()), "cut at {end}");
        }
        let mut short = Writer::new();
        short.tlv(FILE, &[0; FIXED_OCTETS - 1]);
        assert_eq!(refused(short.as_bytes()), DecodeError::BadLength(FILE));
    }

    #[test]
    fn unknown_noncritical_elements_are_skipped() {
        let mut writer = IndexWriter::default();
        writer.0.tlv(0xf6f0, b"later");
        writer.push(&IndexItem::Directory(b"d"));
        let octets = writer.into_vec();
        let items: Vec<_> = index(&octets).map(Result::unwrap).collect();
        assert_eq!(items, vec![(8 + 1, IndexItem::Directory(b"d"))]);
        let mut critical = Writer::new();
        critical.tlv(0xf6f1, b"");
        assert!(index(critical.as_bytes()).all(|item| item.is_err()));
    }

    #[test]
    fn attributes_belong_to_the_entry_before() {
        let mut writer = IndexWriter::default();
        writer.push(&IndexItem::File(entry(b"a")));
        writer.0.tlv(0xf6f0, b"later");
        writer.0.tlv(LINK, b"target");
        writer.0.tlv(LINK, b"second");
        writer.push(&IndexItem::File(entry(b"b")));
        let octets = writer.into_vec();
        let items: Vec<_> = index(&octets).map(|item| item.unwrap().1).collect();
        let first = IndexEntry { link: Some(b"target"), ..entry(b"a") };
        assert_eq!(items, vec![IndexItem::File(first), IndexItem::File(entry(b"b"))]);
    }

    #[test]
    fn malformed_attributes_are_errors() {
        let after = |typ, value: &[u8]| {
            let mut writer = IndexWriter::default();
            writer.push(&IndexItem::File(entry(b"a")));
            writer.0.tlv(typ, value);
            index(&writer.into_vec()).last().unwrap().map(drop)
        };
        assert_eq!(after(STAMP, &[0; EntryStamp::OCTETS - 1]), Err(DecodeError::BadLength(STAMP)));
        assert_eq!(after(STAMP, &[0; EntryStamp::OCTETS]), Ok(()));
        assert_eq!(after(LINK, &[b'x'; LINK_TARGET_OCTETS_MAX]), Ok(()));
        for target in [&b""[..], b"a\0b", &[b'x'; LINK_TARGET_OCTETS_MAX + 1]] {
            assert_eq!(after(LINK, target), Err(DecodeError::BadText));
        }
    }

    #[test]
    fn links_that_may_leave_are_detected() {
        for (target, depth) in [("x", 0), ("./x//y/", 0), ("../x", 1), (".././../x/y", 2), ("..", 1)] {
            assert!(stays_in_tree(target.as_bytes(), depth), "{target} at {depth}");
        }
        for (target, depth) in [("", 0), ("/x", 3), ("..", 0), ("../../x", 1), ("x/../y", 2), ("a\0", 1)] {
            assert!(!stays_in_tree(target.as_bytes(), depth), "{target} at {depth}");
        }
    }
}
