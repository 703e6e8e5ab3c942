//! A cache of the indexes of requested directories, with bounds.

use std::collections::VecDeque;
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

/// The time for which an index is reused without a check, as a multiple of the time that it took to
/// build.
const REST: u32 = 4;

/// Cached indexes.
#[derive(Debug)]
pub(super) struct Indexes {
    /// The most recently used is last.
    kept: VecDeque<CachedIndex>,
    octets_max: usize,
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
    rest: Duration,
}

impl Indexes {
    /// Creates an empty cache that takes at most `octets_max`.
    pub(super) fn within(octets_max: usize) -> Self {
        Indexes { kept: VecDeque::new(), octets_max }
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
        let started = Instant::now();
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
        let mut version = clock::unix_ns();
        if let Some(kept) = newest {
            (kept.checked_at, kept.rest) = (checked_at, rest);
            if kept.index.octets == index.octets {
                return Ok(Some(kept.version));
            }
            version = version.max(kept.version + 1);
        }
        log_omitted(root, &index);
        self.kept.push_back(CachedIndex {
            path: path.to_name(),
            version,
            index: Arc::new(index),
            checked_at,
            rest,
        });
        while self.kept.len() > INDEXES_MAX || (self.kept.len() > 1 && self.octets() > self.octets_max) {
            self.kept.pop_front();
        }
        Ok(Some(version))
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

/// Logs the entries of the directory that cannot be fetched.
fn log_omitted(root: &Root, index: &TreeIndex) {
    let Some((first, reason)) = &index.first_left_out else { return };
    let first = root.path().join(&index.path).join(first);
    tracing::warn!(
        "not served: {} ({reason}){}",
        first.display(),
        match index.left_out {
            1 => String::new(),
            more => format!(", and {} more", more - 1),
        }
    );
}
