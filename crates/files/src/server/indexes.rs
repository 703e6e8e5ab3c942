//! A cache of the indexes of requested directories, with bounds.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namely_host::clock;
use namely_wire::{Name, NameRef};

use crate::index::TreeIndex;
use crate::root::{Opened, PathError, Root, relative_path};

/// Versions of indexes that a file server caches.
///
/// # Limit
/// The least recently used index is evicted, and its clients request a new one.
/// - Counter: `gone`
/// - Tests: `the_least_recently_used_index_is_evicted`
pub(crate) const INDEXES_MAX: usize = 64;

/// Octets of memory of all cached indexes.
///
/// The newest index is not counted.
///
/// # Limit
/// The least recently used index is evicted, and its clients request a new one.
/// - Counter: `gone`
/// - Tests: `the_least_recently_used_index_is_evicted`
pub(crate) const INDEX_OCTETS_TOTAL_MAX: usize = 64 << 20;

/// Entries that cannot be requested and that the log names.
///
/// # Limit
/// Further entries are not named, and the log reports that once.
/// - Counter: `left_out`
/// - Tests: `each_left_out_entry_is_logged_once`
pub(crate) const LEFT_OUT_LOGGED_MAX: usize = 1000;

/// The time for which an index is reused without a check, as a multiple of the time that it took to
/// build.
const REST: u32 = 4;

/// Cached indexes.
#[derive(Debug)]
pub(super) struct Indexes {
    /// The most recently used is last.
    kept: VecDeque<CachedIndex>,
    octets_max: usize,
    /// The highest version so far.
    last_version: u64,
    /// The entries that cannot be requested and were logged.
    logged: HashSet<PathBuf>,
}

impl Default for Indexes {
    fn default() -> Self {
        Self::within(INDEX_OCTETS_TOTAL_MAX)
    }
}

#[derive(Debug)]
struct CachedIndex {
    path: Name,
    version: u64,
    index: Arc<TreeIndex>,
    checked_at: Instant,
    /// The time of the check, ns since the Unix epoch; later by 1 ns for each statement about it.
    as_of_ns: u64,
    rest: Duration,
}

impl Indexes {
    /// Creates an empty cache that takes at most `octets_max`.
    pub(super) fn within(octets_max: usize) -> Self {
        Indexes { kept: VecDeque::new(), octets_max, last_version: 0, logged: HashSet::new() }
    }

    /// Drops all indexes: the served directory is another one. Later versions are higher.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Returns version `version` of the index of the directory `path`.
    pub(super) fn find(&mut self, path: NameRef<'_>, version: u64) -> Option<Arc<TreeIndex>> {
        let is_meant = |kept: &CachedIndex| kept.version == version && kept.path.as_name() == path;
        let position = self.kept.iter().position(is_meant)?;
        let kept = self.kept.remove(position)?;
        let index = kept.index.clone();
        self.kept.push_back(kept);
        Some(index)
    }

    /// Returns the version of the present index of `opened`, which is at `path`. An unchanged index
    /// keeps its version. Returns none if the directory's listing is too long.
    pub(super) fn find_or_build(
        &mut self,
        root: &Root,
        path: NameRef<'_>,
        opened: &Opened,
    ) -> Result<Option<u64>, PathError> {
        let (started, mut as_of_ns) = (Instant::now(), clock::unix_ns());
        let newest = self.kept.iter_mut().filter(|kept| kept.path.as_name() == path);
        let newest = newest.max_by_key(|kept| kept.version);
        if let Some(kept) = &newest
            && started.duration_since(kept.checked_at) < kept.rest
        {
            return Ok(Some(kept.version));
        }
        let below = relative_path(path.components())?;
        let below = if path.is_empty() { PathBuf::new() } else { below };
        let Some(index) = TreeIndex::build(root, below, opened)? else { return Ok(None) };
        let checked_at = Instant::now();
        let rest = (checked_at - started) * REST;
        if let Some(kept) = newest {
            (kept.checked_at, kept.rest) = (checked_at, rest);
            as_of_ns = as_of_ns.max(kept.as_of_ns);
            kept.as_of_ns = as_of_ns;
            if kept.index.octets == index.octets {
                return Ok(Some(kept.version));
            }
        }
        let version = clock::unix_ns().max(self.last_version.saturating_add(1));
        self.last_version = version;
        for line in new_omissions(&mut self.logged, root, &index) {
            tracing::warn!("not served: {line}");
        }
        self.kept.push_back(CachedIndex {
            path: path.to_name(),
            version,
            index: Arc::new(index),
            checked_at,
            as_of_ns,
            rest,
        });
        while self.kept.len() > INDEXES_MAX || (self.kept.len() > 1 && self.octets() > self.octets_max) {
            self.kept.pop_front();
        }
        Ok(Some(version))
    }

    /// Returns the time of a statement that the newest index of the directory `path` is the present
    /// one, ns since the Unix epoch: the directory may have changed since the last check. Each
    /// statement has a time of its own, as the name of its packet.
    pub(super) fn as_of_ns(&mut self, path: NameRef<'_>) -> Option<u64> {
        let newest = self.kept.iter_mut().filter(|kept| kept.path.as_name() == path);
        let newest = newest.max_by_key(|kept| kept.version)?;
        newest.as_of_ns = newest.as_of_ns.saturating_add(1);
        Some(newest.as_of_ns)
    }

    /// Octets of memory in use.
    pub(super) fn octets(&self) -> usize {
        self.kept.iter().map(|kept| kept.index.memory_octets()).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns the number of entries left out of the cached indexes, in the newest version of each.
    pub(super) fn left_out(&self) -> u64 {
        let is_newest = |kept: &&CachedIndex| {
            self.kept.iter().all(|other| other.path != kept.path || other.version <= kept.version)
        };
        self.kept.iter().filter(is_newest).map(|kept| kept.index.left_out).sum()
    }
}

/// Returns a line for each entry that cannot be fetched and was not logged before. If there are too
/// many, the last line reports that.
fn new_omissions(logged: &mut HashSet<PathBuf>, root: &Root, index: &TreeIndex) -> Vec<String> {
    let mut lines = Vec::new();
    for (below, reason) in &index.left_out_names {
        let path = root.path().join(&index.path).join(below);
        if logged.len() >= LEFT_OUT_LOGGED_MAX || logged.contains(&path) {
            continue;
        }
        lines.push(format!("{} ({reason})", path.display()));
        logged.insert(path);
        if logged.len() == LEFT_OUT_LOGGED_MAX {
            lines.push("further entries, which are not named".to_owned());
        }
    }
    let unnamed = index.left_out - index.left_out_names.len() as u64;
    if unnamed > 0 && !lines.is_empty() {
        lines.push(format!("{unnamed} more entries below {}", root.path().join(&index.path).display()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::tree_index::LeftOut;

    #[test]
    fn a_reused_index_has_its_checks_time() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path(), false).unwrap();
        let (path, mut indexes) = (Name::new(), Indexes::default());
        let state = |indexes: &mut Indexes, rest: Duration| {
            let opened = root.find(path.components()).unwrap();
            let version = indexes.find_or_build(&root, path.as_name(), &opened).unwrap().unwrap();
            indexes.kept.iter_mut().for_each(|kept| kept.rest = rest);
            (version, indexes.as_of_ns(path.as_name()).unwrap())
        };
        let (version, as_of_ns) = state(&mut indexes, Duration::MAX);
        std::fs::write(directory.path().join("f"), "x").unwrap();
        let changed_ns = clock::unix_ns();
        assert_eq!(state(&mut indexes, Duration::ZERO), (version, as_of_ns + 1));
        assert!(as_of_ns < changed_ns);
        let (newer, as_of_ns) = state(&mut indexes, Duration::ZERO);
        assert!(newer > version && as_of_ns > changed_ns);
        // The directory is as it was at the check, which gives the index another time only.
        let (same, later_ns) = state(&mut indexes, Duration::ZERO);
        assert!(same == newer && later_ns > as_of_ns);
    }

    #[test]
    fn each_left_out_entry_is_logged_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::open(directory.path(), false).unwrap();
        let index = |names: std::ops::Range<usize>| TreeIndex {
            octets: Vec::new(),
            path: PathBuf::new(),
            packed: Vec::new(),
            left_out: names.len() as u64,
            left_out_names: names.map(|name| (name.to_string().into(), LeftOut::Special)).collect(),
        };
        let mut logged = HashSet::new();
        let first = new_omissions(&mut logged, &root, &index(0..3));
        assert_eq!(first.len(), 3);
        assert!(first[2].ends_with("/2 (a pipe, a socket or a device)"), "{first:?}");
        assert_eq!(new_omissions(&mut logged, &root, &index(1..4)).len(), 1);
        // At the limit, and one past it.
        let most = new_omissions(&mut logged, &root, &index(4..LEFT_OUT_LOGGED_MAX));
        assert_eq!(most.len(), LEFT_OUT_LOGGED_MAX - 4 + 1);
        assert_eq!(most.last().unwrap(), "further entries, which are not named");
        assert!(new_omissions(&mut logged, &root, &index(0..LEFT_OUT_LOGGED_MAX + 1)).is_empty());
        let more = TreeIndex { left_out: 9, ..index(0..1) };
        assert!(new_omissions(&mut HashSet::new(), &root, &more)[1].starts_with("8 more entries"));
    }
}
