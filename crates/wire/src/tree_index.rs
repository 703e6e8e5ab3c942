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
    /// Last change of the content, ns since the Unix epoch.
    pub mtime_ns: u64,
    /// Octets; 0 for directories.
    pub octets: u64,
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
    /// An entry that is not served, by its name.
    LeftOut(&'a [u8], LeftOut),
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
            IndexItem::LeftOut(name, reason) => {
                self.0.header(LEFT_OUT, 1 + name.len()).raw(&[reason.number()]).raw(name);
            }
        }
    }

    fn entry(&mut self, typ: u32, entry: &IndexEntry<'_>) {
        let w = self.0.header(typ, FIXED_OCTETS + entry.name.len());
        w.raw(&entry.mode.to_be_bytes()).raw(&entry.mtime_ns.to_be_bytes());
        w.raw(&entry.octets.to_be_bytes()).raw(entry.name);
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
                Ok(Some(tlv)) => item_of(&tlv),
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
    item_of(&Reader::new(octets.get(at..)?).next_tlv().ok()??).ok()?
}

fn item_of<'a>(tlv: &Tlv<'a>) -> Result<Option<IndexItem<'a>>, DecodeError> {
    Ok(Some(match tlv.typ {
        DIRECTORY => {
            let components = || tlv.value.split(|octet| *octet == b'/');
            if !tlv.value.is_empty() && !components().all(is_plain) {
                return Err(DecodeError::BadText);
            }
            IndexItem::Directory(tlv.value)
        }
        FILE => IndexItem::File(entry_of(tlv)?),
        PACKED => IndexItem::Packed(entry_of(tlv)?),
        SUBDIRECTORY => IndexItem::Subdirectory(entry_of(tlv)?),
        LEFT_OUT => {
            let (reason, name) = tlv.value.split_first().ok_or(DecodeError::BadLength(tlv.typ))?;
            IndexItem::LeftOut(plain(name)?, LeftOut::from_number(*reason))
        }
        typ => {
            ignore_unknown(typ)?;
            return Ok(None);
        }
    }))
}

fn entry_of<'a>(tlv: &Tlv<'a>) -> Result<IndexEntry<'a>, DecodeError> {
    let bad = DecodeError::BadLength(tlv.typ);
    let (mode, rest) = tlv.value.split_first_chunk().ok_or(bad)?;
    let (mtime_ns, rest) = rest.split_first_chunk().ok_or(bad)?;
    let (octets, name) = rest.split_first_chunk().ok_or(bad)?;
    Ok(IndexEntry {
        name: plain(name)?,
        mode: u16::from_be_bytes(*mode) & 0o7777,
        mtime_ns: u64::from_be_bytes(*mtime_ns),
        octets: u64::from_be_bytes(*octets),
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
        IndexEntry { name, mode: 0o640, mtime_ns: 1_700_000_000_123_456_789, octets: 70_000 }
    }

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
            IndexItem::LeftOut(b"pipe", LeftOut::Special),
            IndexItem::LeftOut(b"odd", LeftOut::Other(9)),
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
            assert_eq!(refused(&written(&[IndexItem::LeftOut(name, LeftOut::Link)])), DecodeError::BadText);
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
}
