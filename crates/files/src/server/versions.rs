//! The versions of served files and directories.
//!
//! A version is the time of the last change as long as nothing contradicts it: other servers of the
//! same files then agree on it. Data is immutable, so another content under the same path needs
//! another version even if it has the same time (`cp -p`, `tar`, `rsync -t`). The table records the
//! last version of each path, and the stamp of its file. Another stamp raises the version.

use std::collections::HashMap;
use std::error::Error;

use namely_wire::NameRef;

use super::version_store::{PathKey, StoredTable, TableState, VersionRecord, VersionStore};
use crate::content::FileStamp;

/// Paths whose last version a file server records.
///
/// # Limit
/// The least recently used quarter is forgotten. A forgotten path whose file has changed since the
/// table began has at least the time of that change as its version.
/// - Tests: `a_full_table_repeats_no_version`
pub(super) const VERSIONS_MAX: usize = 65_536;

/// The highest time that is taken as a version, so that later versions fit.
const VERSION_TIME_MAX: u64 = u64::MAX - (1 << 32);

/// A version of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) number: u64,
    /// Whether this process has seen the file change.
    pub(super) is_changing: bool,
}

/// The last versions of paths.
#[derive(Debug)]
pub(super) struct Versions {
    records: HashMap<PathKey, Entry>,
    state: TableState,
    uses: u64,
    records_max: usize,
    store: Option<VersionStore>,
}

#[derive(Debug)]
struct Entry {
    record: VersionRecord,
    is_changing: bool,
    used: u64,
}

impl Versions {
    /// Creates a table of at most `records_max` records.
    pub(super) fn new(records_max: usize) -> Self {
        Versions { records: HashMap::new(), state: TableState::new(), uses: 0, records_max, store: None }
    }

    /// Continues the `table` of earlier processes, which is in `store`.
    pub(super) fn stored(records_max: usize, store: VersionStore, table: StoredTable) -> Self {
        let mut versions = Versions { state: table.state, ..Versions::new(records_max) };
        for (key, record) in table.records {
            versions.uses += 1;
            let used = versions.uses;
            versions.insert(key, Entry { record, is_changing: false, used });
        }
        versions.store = Some(store);
        versions.compact();
        versions
    }

    /// Returns the version of the file of this `stamp` at `path`, and records it.
    pub(super) fn of(&mut self, path: NameRef<'_>, stamp: &FileStamp) -> Version {
        self.uses += 1;
        let used = self.uses;
        let key = PathKey::of(path);
        let Some(entry) = self.records.get_mut(&key) else {
            let record = VersionRecord { version: self.first(stamp), stamp: *stamp };
            // Inserted first: a full table is written anew, without records that are not in it.
            self.insert(key, Entry { record, is_changing: false, used });
            self.write(key, &record);
            return Version { number: record.version, is_changing: false };
        };
        entry.used = used;
        if entry.record.is_of(stamp) {
            entry.record.stamp = *stamp;
            return Version { number: entry.record.version, is_changing: entry.is_changing };
        }
        let version = changed_ns(stamp).max(entry.record.version.saturating_add(1));
        let record = VersionRecord { version, stamp: *stamp };
        (entry.record, entry.is_changing) = (record, true);
        self.write(key, &record);
        Version { number: version, is_changing: true }
    }

    /// Returns true if the directory of this `stamp` at `path` is known to have another version.
    /// The size in the stamp is not compared: it stands for the listing, which takes long to read.
    pub(super) fn is_other(&self, path: NameRef<'_>, stamp: &FileStamp, version: u64) -> bool {
        self.records.get(&PathKey::of(path)).is_some_and(|Entry { record, .. }| {
            record.is_of(&FileStamp { size: record.stamp.size, ..*stamp }) && record.version != version
        })
    }

    /// Returns the version of a file without a record.
    fn first(&self, stamp: &FileStamp) -> u64 {
        let TableState { since_ns, has_gaps, floor } = self.state;
        let change_ns = stamp.ctime.ns().unwrap_or(0);
        let time_ns = stamp.mtime_ns().filter(|ns| *ns <= VERSION_TIME_MAX);
        if !has_gaps || change_ns < since_ns {
            return time_ns.unwrap_or(change_ns);
        }
        // An earlier content of the path may have a version that is forgotten.
        changed_ns(stamp).max(floor.saturating_add(u64::from(floor > 0)))
    }

    fn insert(&mut self, key: PathKey, entry: Entry) {
        if self.records.len() >= self.records_max && !self.records.contains_key(&key) {
            self.forget();
        }
        self.records.insert(key, entry);
    }

    /// Forgets the least recently used quarter of the records.
    fn forget(&mut self) {
        let mut uses: Vec<u64> = self.records.values().map(|entry| entry.used).collect();
        uses.sort_unstable();
        let oldest = uses.get(self.records.len() / 4).copied().unwrap_or(u64::MAX);
        let floor = &mut self.state.floor;
        self.records.retain(|_, Entry { record, used, .. }| {
            let is_kept = *used > oldest;
            if !is_kept && record.version > record.stamp.ctime.ns().unwrap_or(0) {
                *floor = (*floor).max(record.version);
            }
            is_kept
        });
        self.state.has_gaps = true;
        self.compact();
    }

    /// Appends a record to the store. Without it, a later process could repeat the version.
    fn write(&mut self, key: PathKey, record: &VersionRecord) {
        let Some(store) = &mut self.store else { return };
        if let Err(error) = store.append(key, record) {
            self.leave_store(&error);
        } else if store.is_long(self.records.len()) {
            self.compact();
        }
    }

    /// Writes the store anew, in the order of use.
    fn compact(&mut self) {
        let Some(store) = &mut self.store else { return };
        let mut entries: Vec<_> = self.records.iter().collect();
        entries.sort_unstable_by_key(|(_, entry)| entry.used);
        let records = entries.into_iter().map(|(key, entry)| (*key, &entry.record));
        if let Err(error) = store.replace(&self.state, records) {
            self.leave_store(&error);
        }
    }

    /// Continues without the store, in which further records are missing.
    fn leave_store(&mut self, error: &dyn Error) {
        tracing::warn!(%error, "the versions of served files are not stored any more");
        if let Some(store) = self.store.take()
            && let Err(error) = store.note_gaps()
        {
            tracing::warn!(%error, "a later server may repeat versions of served files");
        }
    }
}

/// The last change of a file, of whatever kind, ns since the Unix epoch.
fn changed_ns(stamp: &FileStamp) -> u64 {
    let time_ns = stamp.mtime_ns().filter(|ns| *ns <= VERSION_TIME_MAX);
    time_ns.unwrap_or(0).max(stamp.ctime.ns().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::FileTime;
    use namely_wire::Name;

    const NOW_NS: u64 = 1_700_000_000_000_000_000;

    fn time(ns: u64) -> FileTime {
        FileTime { seconds: (ns / 1_000_000_000) as i64, nanoseconds: ns % 1_000_000_000 }
    }

    fn stamp(inode: u64, mtime_ns: u64, ctime_ns: u64) -> FileStamp {
        let (mtime, ctime) = (time(mtime_ns), time(ctime_ns));
        FileStamp { device: 1, inode, size: 10, mtime, ctime, links: 1 }
    }

    fn path(number: usize) -> Name {
        format!("/{number}").parse().unwrap()
    }

    #[test]
    fn an_unchanged_file_keeps_its_version() {
        let mut versions = Versions::new(10);
        let (file, mtime_ns) = (path(0), NOW_NS - 9);
        for _ in 0..2 {
            let version = versions.of(file.as_name(), &stamp(7, mtime_ns, NOW_NS));
            assert_eq!(version, Version { number: mtime_ns, is_changing: false });
        }
    }

    #[test]
    fn a_replaced_file_never_repeats_its_version() {
        let mut versions = Versions::new(10);
        let file = path(0);
        let mut of = |stamp| versions.of(file.as_name(), &stamp).number;
        let future_ns = NOW_NS + 1_000_000_000_000;
        assert_eq!(of(stamp(7, NOW_NS - 9, NOW_NS)), NOW_NS - 9);
        // Another file of the same time and size, as by `cp -p` and a rename.
        assert_eq!(of(stamp(8, NOW_NS - 9, NOW_NS + 5)), NOW_NS + 5);
        assert_eq!(of(stamp(9, NOW_NS - 9, NOW_NS + 5)), NOW_NS + 6);
        assert_eq!(of(stamp(9, future_ns, NOW_NS + 7)), future_ns);
        assert_eq!(of(stamp(9, future_ns, NOW_NS + 8)), future_ns + 1);
        assert_eq!(of(stamp(9, NOW_NS, NOW_NS + 9)), future_ns + 2);
        // An unknown time does not bend the version.
        let old = FileStamp { mtime: FileTime { seconds: -5, nanoseconds: 0 }, ..stamp(7, 0, NOW_NS) };
        assert_eq!(of(old), future_ns + 3);
        assert_eq!(versions.of(path(1).as_name(), &old).number, NOW_NS);
    }

    #[test]
    fn another_version_needs_no_listing() {
        let mut versions = Versions::new(10);
        let (directory, seen) = (path(0), stamp(7, NOW_NS - 9, NOW_NS));
        assert!(!versions.is_other(directory.as_name(), &seen, 1), "it was never listed");
        let version = versions.of(directory.as_name(), &seen).number;
        let unread = FileStamp { size: 4096, ..seen };
        assert!(versions.is_other(directory.as_name(), &unread, version + 1));
        assert!(!versions.is_other(directory.as_name(), &unread, version));
        let changed = stamp(7, NOW_NS, NOW_NS + 5);
        assert!(!versions.is_other(directory.as_name(), &changed, version + 1));
    }

    #[test]
    fn a_full_table_repeats_no_version() {
        let mut versions = Versions::new(4);
        versions.state.since_ns = NOW_NS;
        for number in 0..4 {
            versions.of(path(number).as_name(), &stamp(7, 5, NOW_NS + 1));
        }
        assert_eq!(versions.records.len(), 4);
        assert!(!versions.state.has_gaps);
        versions.of(path(4).as_name(), &stamp(7, NOW_NS + 50, NOW_NS + 1));
        assert!(versions.records.len() < 5 && versions.state.has_gaps);
        // The first path was forgotten: its version was 5.
        assert_eq!(versions.of(path(0).as_name(), &stamp(8, 5, NOW_NS + 2)).number, NOW_NS + 2);
        // A file that is older than the table cannot have had another content.
        assert_eq!(versions.of(path(9).as_name(), &stamp(7, 5, NOW_NS - 1)).number, 5);
        // The version of the last path, ahead of its file's change, is not repeated either.
        for number in 10..20 {
            versions.of(path(number).as_name(), &stamp(7, 5, NOW_NS + 3));
        }
        let again = versions.of(path(4).as_name(), &stamp(8, NOW_NS + 50, NOW_NS + 4));
        assert!(again.number > NOW_NS + 50, "{again:?}");
    }

    #[test]
    fn a_restarted_server_repeats_no_version() {
        let directory = tempfile::tempdir().unwrap();
        let prefix: Name = "/p".parse().unwrap();
        let start = || {
            let (store, table) = VersionStore::open(directory.path(), prefix.as_name()).unwrap();
            Versions::stored(10, store, table)
        };
        let (file, same) = (path(0), stamp(7, NOW_NS, NOW_NS));
        assert_eq!(start().of(file.as_name(), &same).number, NOW_NS);
        let mut versions = start();
        // The number of the device may differ after a start of the machine.
        let kept = versions.of(file.as_name(), &FileStamp { device: 2, ..same });
        assert_eq!(kept, Version { number: NOW_NS, is_changing: false });
        assert_eq!(versions.of(file.as_name(), &stamp(8, NOW_NS, NOW_NS)).number, NOW_NS + 1);
        drop(versions);
        assert_eq!(start().of(file.as_name(), &stamp(9, NOW_NS, NOW_NS)).number, NOW_NS + 2);
    }
}
