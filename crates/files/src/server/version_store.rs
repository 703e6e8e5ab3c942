//! The file in which the versions of a server survive it: a text beside the keys, to which each new
//! version is appended before it is published.
//!
//! ```text
//! namely-versions 1
//! since 1700000000000000000
//! gaps no
//! floor 0
//! boot 3d1e6f7c-…
//! 0123456789abcdef0123456789abcdef 1699999999000000000 131842 10 1699999999 0 1700000000 5 1
//! ```
//!
//! A line after the header is a path (the first half of its SHA-256), its version, and the stamp of
//! its file without the device: inode, octets, both times in seconds and nanoseconds, links. The
//! last line of a path counts.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use namely_host::clock;
use namely_host::disk::{File, Folder, Lock, OpenError, Writers, boot_id};
use namely_security::sha256;
use namely_wire::NameRef;
use rustix::fs::OFlags;

use super::versions::VERSIONS_MAX;
use crate::content::{FileStamp, FileTime};

const HEADER: &str = "namely-versions 1";

/// The text before the header's word about gaps.
const GAPS: &str = "\ngaps ";

/// Replaces the first octets of the word about gaps.
const UNKNOWN_GAPS: &[u8] = b"??";

/// Octets of a line at most: a path in hexadecimal, and eight numbers.
const LINE_OCTETS_MAX: usize = 33 + 8 * 21;

/// Lines of which a store may have this many before it is written anew.
const LINES_MIN: usize = 4096;

/// Maximum octets of a store; a longer file is none.
const OCTETS_MAX: u64 = ((2 * VERSIONS_MAX + LINES_MIN) * LINE_OCTETS_MAX) as u64 + 4096;

/// Identifies a path. A digest, so that a record takes little memory however long the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathKey([u8; 16]);

impl PathKey {
    pub(super) fn of(path: NameRef<'_>) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&sha256(path.as_bytes())[..16]);
        PathKey(key)
    }

    fn hex(self) -> String {
        self.0.iter().fold(String::new(), |mut text, octet| {
            // Writing to a string does not fail.
            let _ = write!(text, "{octet:02x}");
            text
        })
    }

    fn from_hex(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(PathKey(number.to_be_bytes()))
    }
}

/// The last version of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VersionRecord {
    pub(super) version: u64,
    /// The file of this version. The device is 0 if the record is from an earlier process, because
    /// its number may be another one after a start of the machine.
    pub(super) stamp: FileStamp,
}

impl VersionRecord {
    /// Returns true if `stamp` is that of the same content.
    pub(super) fn is_of(&self, stamp: &FileStamp) -> bool {
        let device = if self.stamp.device == 0 { 0 } else { stamp.device };
        self.stamp == FileStamp { device, ..*stamp }
    }

    fn line(&self, key: PathKey) -> String {
        let FileStamp { inode, size, mtime, ctime, links, .. } = self.stamp;
        format!(
            "{} {} {inode} {size} {} {} {} {} {links}\n",
            key.hex(),
            self.version,
            mtime.seconds,
            mtime.nanoseconds,
            ctime.seconds,
            ctime.nanoseconds
        )
    }

    fn of_line(line: &str) -> Option<(PathKey, Self)> {
        let mut fields = line.split(' ');
        let key = PathKey::from_hex(fields.next()?)?;
        let version = fields.next()?.parse().ok()?;
        let (inode, size) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let mut time = || {
            let (seconds, nanoseconds) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(FileTime { seconds, nanoseconds })
        };
        let (mtime, ctime) = (time()?, time()?);
        let links = fields.next()?.parse().ok()?;
        let stamp = FileStamp { device: 0, inode, size, mtime, ctime, links };
        fields.next().is_none().then_some((key, VersionRecord { version, stamp }))
    }
}

/// The state of a table beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableState {
    /// The time at which the table began. No content of a file that has not changed since then was
    /// published under another version.
    pub(super) since_ns: u64,
    /// Whether records were forgotten or lost.
    pub(super) has_gaps: bool,
    /// The highest version of a forgotten record that was ahead of its file's change time.
    pub(super) floor: u64,
}

impl TableState {
    /// The state of a table that begins now.
    pub(super) fn new() -> Self {
        TableState { since_ns: clock::unix_ns(), has_gaps: false, floor: 0 }
    }
}

/// A table as it was stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredTable {
    pub(super) state: TableState,
    /// In the order of their use.
    pub(super) records: Vec<(PathKey, VersionRecord)>,
}

impl StoredTable {
    fn encode<'a>(
        state: &TableState,
        boot: &str,
        records: impl Iterator<Item = (PathKey, &'a VersionRecord)>,
    ) -> String {
        let TableState { since_ns, has_gaps, floor } = state;
        let gaps = if *has_gaps { "yes" } else { "no" };
        let header = format!("{HEADER}\nsince {since_ns}{GAPS}{gaps}\nfloor {floor}\nboot {boot}\n");
        records.fold(header, |text, (key, record)| text + &record.line(key))
    }

    /// Decodes a store. Lines after a damaged one are not read. A start of the machine may have
    /// lost the last lines, which were not synchronized.
    fn decode(text: &str, boot: &str) -> Self {
        let mut lines = text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n'));
        let Some((mut state, of_boot)) = header(&mut lines) else {
            return StoredTable {
                state: TableState { has_gaps: true, ..TableState::new() },
                records: Vec::new(),
            };
        };
        let mut records = Vec::new();
        let mut octets = 0;
        for line in lines {
            let Some(record) = VersionRecord::of_line(line) else { break };
            octets += line.len() + 1;
            records.push(record);
        }
        let header_octets = text.len() - text.splitn(6, '\n').nth(5).map_or(0, str::len);
        state.has_gaps |= of_boot != boot || boot.is_empty() || header_octets + octets != text.len();
        StoredTable { state, records }
    }
}

/// Reads the header: the state, and the boot of the machine in which the store was written.
fn header<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Option<(TableState, &'a str)> {
    if lines.next()? != HEADER {
        return None;
    }
    let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let since_ns = field("since")?.parse().ok()?;
    let has_gaps = field("gaps")? != "no";
    let floor = field("floor")?.parse().ok()?;
    Some((TableState { since_ns, has_gaps, floor }, field("boot")?))
}

/// The error of opening a store.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// The environment's: the folder or the file cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The caller's: another process serves the same name.
    #[error("another process serves the same name")]
    Busy,
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        StoreError::Open(error.into())
    }
}

/// The stored table of one served name.
#[derive(Debug)]
pub(super) struct VersionStore {
    folder: Folder,
    name: String,
    /// The file to append to, once the table was written, and its octets.
    file: Option<File>,
    octets: u64,
    /// The position of the header's word about gaps.
    gaps_at: u64,
    /// Records in the file, repeated ones included.
    lines: usize,
    boot: String,
    _lock: Lock,
}

impl VersionStore {
    /// Opens the store for the name `prefix` in `folder`, and reads its table.
    pub(super) fn open(folder: &Path, prefix: NameRef<'_>) -> Result<(Self, StoredTable), StoreError> {
        let folder = Folder::open_or_make(folder, 0o700)?;
        let name = PathKey::of(prefix).hex();
        let own = Writers::this_user();
        let lock = folder.open_or_create(format!("{name}.lock"), OFlags::RDWR, own)?;
        let lock = Lock::take(lock.into_inner())?.ok_or(StoreError::Busy)?;
        let boot = boot_id();
        let mut table = match folder.read(&name, OCTETS_MAX, own) {
            Ok(None) => StoredTable { state: TableState::new(), records: Vec::new() },
            Ok(Some(octets)) => StoredTable::decode(&String::from_utf8_lossy(&octets), &boot),
            Err(error) => {
                tracing::warn!(%error, "the versions of an earlier server are not known");
                StoredTable::decode("", &boot)
            }
        };
        if table.state.since_ns > clock::unix_ns() {
            // The clock was set back. A change since then seems to be older than the table.
            table.state.since_ns = 0;
        }
        Ok((
            VersionStore { folder, name, file: None, octets: 0, gaps_at: 0, lines: 0, boot, _lock: lock },
            table,
        ))
    }

    /// Returns true if most lines of the file are old ones of the table's `records`.
    pub(super) fn is_long(&self, records: usize) -> bool {
        self.lines > records.saturating_mul(2).max(LINES_MIN)
    }

    /// Replaces the file by these records.
    pub(super) fn replace<'a>(
        &mut self,
        state: &TableState,
        records: impl ExactSizeIterator<Item = (PathKey, &'a VersionRecord)>,
    ) -> Result<(), OpenError> {
        self.lines = records.len();
        let text = StoredTable::encode(state, &self.boot, records);
        self.folder.replace(&self.name, format!("{}.new", self.name), text.as_bytes())?;
        self.octets = text.len() as u64;
        self.gaps_at = text.find(GAPS).map_or(0, |at| at + GAPS.len()) as u64;
        self.file = self.folder.open_file(&self.name, OFlags::RDWR, Writers::this_user())?;
        Ok(())
    }

    /// Notes in the file that records are missing. Nothing is appended, because the disk may be
    /// full.
    pub(super) fn note_gaps(&self) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        file.write_all_at(UNKNOWN_GAPS, self.gaps_at)
    }

    /// Appends a record. It survives the end of the process, but is not synchronized to the disk.
    pub(super) fn append(&mut self, key: PathKey, record: &VersionRecord) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let line = record.line(key);
        file.write_all_at(line.as_bytes(), self.octets)?;
        self.octets += line.len() as u64;
        self.lines += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::Name;

    const STATE: TableState = TableState { since_ns: 1_700_000_000_000_000_000, has_gaps: false, floor: 9 };

    fn key(uri: &str) -> PathKey {
        PathKey::of(uri.parse::<Name>().unwrap().as_name())
    }

    fn record(version: u64) -> VersionRecord {
        let mtime = FileTime { seconds: -5, nanoseconds: 999_999_999 };
        let ctime = FileTime { seconds: 1_700_000_000, nanoseconds: 5 };
        VersionRecord {
            version,
            stamp: FileStamp { device: 0, inode: 131_842, size: 10, mtime, ctime, links: 1 },
        }
    }

    fn encoded() -> String {
        let records = [(key("/a"), &record(1)), (key("/b"), &record(u64::MAX))];
        StoredTable::encode(&STATE, "boot", records.into_iter())
    }

    #[test]
    fn a_stored_table_is_read_back() {
        let records = vec![(key("/a"), record(1)), (key("/b"), record(u64::MAX))];
        assert_eq!(StoredTable::decode(&encoded(), "boot"), StoredTable { state: STATE, records });
        let line = record(u64::MAX).line(key("/a"));
        assert!(line.len() <= LINE_OCTETS_MAX, "{line}");
    }

    #[test]
    fn a_damaged_or_older_table_has_gaps() {
        let text = encoded();
        for end in 0..text.len() {
            let table = StoredTable::decode(&text[..end], "boot");
            // A cut behind a whole line cannot be detected, but a start of the machine is needed
            // for it.
            let is_whole = text[..end].ends_with('\n') && text[..end].lines().count() >= 5;
            assert_eq!(table.state.has_gaps, !is_whole, "cut at {end}");
            assert!(table.records.len() <= 2);
        }
        assert!(StoredTable::decode(&text, "another boot").state.has_gaps);
        assert!(StoredTable::decode(&(text.clone() + "\0\0\n"), "boot").state.has_gaps);
        assert!(StoredTable::decode(&text.replace("versions 1", "versions 2"), "boot").state.has_gaps);
    }

    #[test]
    fn appended_versions_survive_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let prefix: Name = "/p".parse().unwrap();
        let open = || VersionStore::open(directory.path(), prefix.as_name());
        let (mut store, table) = open().unwrap();
        assert!(table.records.is_empty() && !table.state.has_gaps);
        store.replace(&table.state, std::iter::empty::<(PathKey, &VersionRecord)>()).unwrap();
        store.append(key("/a"), &record(1)).unwrap();
        store.append(key("/a"), &record(2)).unwrap();
        assert!(matches!(open(), Err(StoreError::Busy)), "two servers would repeat versions");
        drop(store);
        let (mut store, again) = open().unwrap();
        assert_eq!(again.records, [(key("/a"), record(1)), (key("/a"), record(2))]);
        assert_eq!(again.state.since_ns, table.state.since_ns);
        assert_eq!(again.state.has_gaps, namely_host::disk::boot_id().is_empty());

        // A clock that was set back makes no change older than the table.
        let later = TableState { since_ns: u64::MAX, ..again.state };
        store.replace(&later, std::iter::empty::<(PathKey, &VersionRecord)>()).unwrap();
        drop(store);
        let (mut store, set_back) = open().unwrap();
        assert_eq!(set_back.state.since_ns, 0);

        // A record that could not be stored is noted.
        for has_gaps in [false, true] {
            let state = TableState { has_gaps, ..again.state };
            store.replace(&state, [(key("/a"), &record(2))].into_iter()).unwrap();
            store.note_gaps().unwrap();
            drop(store);
            let (reopened, noted) = open().unwrap();
            assert_eq!((noted.state.has_gaps, noted.records), (true, vec![(key("/a"), record(2))]));
            store = reopened;
        }
    }
}
