//! Realtime Data Retrieval and the file-server protocol: the newest version of an object, the
//! properties of a file, and the entries of a directory.
//!
//! Discovery requests `<prefix>/32=metadata`; the answer's Content is [`Metadata`]. A directory's
//! listing is an object of its own, `<directory>/32=ls`. The module follows ndn-cxx's
//! interpretation of RDR, and ndn6-file-server's protocol.

use alloc::vec::Vec;
use core::fmt;

use crate::error::DecodeError;
use crate::fields::{Fields, put_nni};
use crate::name::{Component, Name, NameRef};
use crate::tlv::Writer;
use crate::types::*;

/// TYPE of SegmentSize in [`Metadata`].
pub const SEGMENT_SIZE: u32 = 0xf500;
/// TYPE of Size in [`Metadata`].
pub const SIZE: u32 = 0xf502;
/// TYPE of Mode in [`Metadata`].
pub const MODE: u32 = 0xf504;
/// TYPE of Atime in [`Metadata`].
pub const ATIME: u32 = 0xf506;
/// TYPE of Btime in [`Metadata`].
pub const BTIME: u32 = 0xf508;
/// TYPE of Ctime in [`Metadata`].
pub const CTIME: u32 = 0xf50a;
/// TYPE of Mtime in [`Metadata`].
pub const MTIME: u32 = 0xf50c;
/// TYPE of ManifestEntries in [`Metadata`], namely's own: even, so that other implementations skip
/// it.
pub const MANIFEST_ENTRIES: u32 = 0xf600;
/// TYPE of IndexFormat in [`Metadata`], namely's own.
pub const INDEX_FORMAT: u32 = 0xf602;
/// TYPE of Reason in the Content of a denial, namely's own.
pub const REASON: u32 = 0xf604;

/// The format of [`crate::tree_index`] that this library writes and reads.
pub const INDEX_FORMAT_1: u64 = 1;

/// The component `32=metadata`.
pub const METADATA_COMPONENT: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"metadata" };

/// The component `32=ls`.
pub const LISTING_COMPONENT: Component<'static> = Component { typ: KEYWORD_COMPONENT, value: b"ls" };

/// Returns the name for discovery of the newest version of `object`. The Interest has CanBePrefix
/// and MustBeFresh.
pub fn discovery_name(object: NameRef<'_>) -> Name {
    object.to_name().join(METADATA_COMPONENT)
}

/// Returns the name of a metadata packet: `<object>/32=metadata/v=<version>/seg=0`.
pub fn metadata_name(object: NameRef<'_>, version: u64) -> Name {
    discovery_name(object).join_version(version).join_segment(0)
}

/// Returns the name of the object that lists `directory`.
pub fn listing_name(directory: NameRef<'_>) -> Name {
    directory.to_name().join(LISTING_COMPONENT)
}

/// The Content of a metadata packet. Plain RDR sets only [`Metadata::name`]; a file server sets the
/// other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The versioned name: segments are `<name>/seg=<n>`.
    pub name: Name,
    /// The last segment's number, from FinalBlockId.
    pub last_segment: Option<u64>,
    /// SegmentSize: octets of every segment but the last.
    pub segment_size_octets: Option<u64>,
    /// Size of the file, octets.
    pub size_octets: Option<u64>,
    /// Mode: `st_mode` of Unix.
    pub mode: Option<u64>,
    /// Atime: last access, ns since the Unix epoch.
    pub atime_ns: Option<u64>,
    /// Btime: creation, ns since the Unix epoch.
    pub btime_ns: Option<u64>,
    /// Ctime: last change of the inode, ns since the Unix epoch.
    pub ctime_ns: Option<u64>,
    /// Mtime: last change of the content, ns since the Unix epoch.
    pub mtime_ns: Option<u64>,
    /// ManifestEntries: segments that each manifest of the object covers (`docs/manifest.md`);
    /// absent if it has none.
    pub manifest_entries: Option<u64>,
    /// IndexFormat: the directory has an index ([`crate::tree_index`]) of this format.
    pub index_format: Option<u64>,
}

/// Mask of the bits of Mode for the file type.
const MODE_FORMAT: u64 = 0o170_000;
/// The format of a directory.
const MODE_DIRECTORY: u64 = 0o040_000;
/// The format of a regular file.
const MODE_REGULAR: u64 = 0o100_000;

impl Metadata {
    /// Creates plain RDR metadata for a versioned name.
    pub fn new(name: Name) -> Self {
        Metadata { name, ..Default::default() }
    }

    /// Parses a metadata packet's Content. Elements may be in any order, and unknown ones are
    /// ignored. Only the name is required.
    ///
    /// # Errors
    /// [`DecodeError`]: the Content is not a sequence of TLVs, a known element is malformed, or the
    /// name is missing.
    pub fn decode(content: &[u8]) -> Result<Self, DecodeError> {
        let fields = Fields::lenient(content)?;
        Ok(Metadata {
            name: fields.name()?,
            last_segment: fields.find(FINAL_BLOCK_ID).map(|tlv| segment_number(tlv.value)).transpose()?,
            segment_size_octets: fields.nni_opt(SEGMENT_SIZE)?,
            size_octets: fields.nni_opt(SIZE)?,
            mode: fields.nni_opt(MODE)?,
            atime_ns: fields.nni_opt(ATIME)?,
            btime_ns: fields.nni_opt(BTIME)?,
            ctime_ns: fields.nni_opt(CTIME)?,
            mtime_ns: fields.nni_opt(MTIME)?,
            manifest_entries: fields.nni_opt(MANIFEST_ENTRIES)?,
            index_format: fields.nni_opt(INDEX_FORMAT)?,
        })
    }

    /// Encodes the Content.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.name.as_name().encode(&mut w);
        if let Some(last) = self.last_segment {
            w.nested(FINAL_BLOCK_ID, |w| {
                w.nni(u32::from(SEGMENT_COMPONENT), last);
            });
        }
        put_nni(&mut w, SEGMENT_SIZE, self.segment_size_octets);
        put_nni(&mut w, SIZE, self.size_octets);
        put_nni(&mut w, MODE, self.mode);
        put_nni(&mut w, ATIME, self.atime_ns);
        put_nni(&mut w, BTIME, self.btime_ns);
        put_nni(&mut w, CTIME, self.ctime_ns);
        put_nni(&mut w, MTIME, self.mtime_ns);
        put_nni(&mut w, MANIFEST_ENTRIES, self.manifest_entries);
        put_nni(&mut w, INDEX_FORMAT, self.index_format);
        w.into_vec()
    }

    /// Returns true if Mode is that of a directory.
    pub fn is_directory(&self) -> bool {
        self.mode.is_some_and(|mode| mode & MODE_FORMAT == MODE_DIRECTORY)
    }

    /// Returns true if Mode is that of a regular file.
    pub fn is_regular_file(&self) -> bool {
        self.mode.is_some_and(|mode| mode & MODE_FORMAT == MODE_REGULAR)
    }
}

fn segment_number(octets: &[u8]) -> Result<u64, DecodeError> {
    Component::parse(octets)?.segment().ok_or(DecodeError::OutOfRange(FINAL_BLOCK_ID))
}

/// The reason of a producer that denies an object: the Content of its Data of ContentType Nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// There is no such object.
    Absent,
    /// The directory that the producer serves is missing, so it does not know its objects.
    SourceMissing,
}

impl Denial {
    /// Decodes the Content of a denial. Other producers leave it empty.
    pub fn decode(content: &[u8]) -> Self {
        let reason = Fields::lenient(content).and_then(|fields| fields.nni_opt(REASON));
        if matches!(reason, Ok(Some(1))) { Denial::SourceMissing } else { Denial::Absent }
    }

    /// Encodes the Content.
    pub fn to_vec(self) -> Vec<u8> {
        let mut w = Writer::new();
        put_nni(&mut w, REASON, (self == Denial::SourceMissing).then_some(1));
        w.into_vec()
    }
}

/// One entry of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListingEntry<'a> {
    /// The file's name: one path component, any octets except zero and `/`.
    pub name: &'a [u8],
    /// Whether it is a directory.
    pub is_directory: bool,
}

impl<'a> ListingEntry<'a> {
    /// Creates an entry, unless `name` is empty, `.` or `..` or contains a zero octet or a slash.
    /// Such a name could lead a careless client out of its directory.
    pub fn new(name: &'a [u8], is_directory: bool) -> Option<Self> {
        let plain = !matches!(name, b"" | b"." | b"..") && !name.iter().any(|b| matches!(b, 0 | b'/'));
        plain.then_some(ListingEntry { name, is_directory })
    }
}

impl fmt::Debug for ListingEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name.escape_ascii(), if self.is_directory { "/" } else { "" })
    }
}

/// Encodes a directory listing, in the order of `entries`: each name, `/` after that of a
/// directory, and a zero octet.
pub fn encode_listing<'a>(entries: impl IntoIterator<Item = ListingEntry<'a>>) -> Vec<u8> {
    let mut octets = Vec::new();
    for entry in entries {
        octets.extend_from_slice(entry.name);
        octets.extend_from_slice(if entry.is_directory { b"/\0" } else { b"\0" });
    }
    octets
}

/// Parses the entries of a directory listing from the joined Content of all segments. The iterator
/// ends after the first error.
pub fn listing(octets: &[u8]) -> impl Iterator<Item = Result<ListingEntry<'_>, DecodeError>> {
    let mut rest = octets;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let entry = next_entry(&mut rest);
        if entry.is_err() {
            rest = &[];
        }
        Some(entry)
    })
}

fn next_entry<'a>(rest: &mut &'a [u8]) -> Result<ListingEntry<'a>, DecodeError> {
    let end = rest.iter().position(|b| *b == 0).ok_or(DecodeError::Truncated)?;
    let name = &rest[..end];
    *rest = &rest[end + 1..];
    let (name, is_directory) = match name.strip_suffix(b"/") {
        Some(name) => (name, true),
        None => (name, false),
    };
    ListingEntry::new(name, is_directory).ok_or(DecodeError::BadText)
}
