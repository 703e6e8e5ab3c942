//! The indexes of directories that were asked for, each for as long as clients may want what it
//! lists, within bounds.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namely_host::clock;
use namely_wire::{Name, NameRef};

use crate::index::TreeIndex;
use crate::root::{Denied, Opened, Root, relative_path};

/// Versions of indexes that are kept; the one made or used longest ago goes.
pub(crate) const INDEXES_MAX: usize = 64;

/// Octets of memory that they take together, but for the newest.
pub(crate) const INDEX_OCTETS_TOTAL_MAX: usize = 64 << 20;

/// How many times as long as it took to make an index it is told again without another look.
const REST: u32 = 4;

/// Indexes that are kept.
#[derive(Debug)]
pub(super) struct Indexes {
    /// The one used last at the end.
    kept: VecDeque<Kept>,
    octets_max: usize,
}

impl Default for Indexes {
    fn default() -> Self {
        Self::within(INDEX_OCTETS_TOTAL_MAX)
    }
}

#[derive(Debug)]
struct Kept {
    path: Name,
    version: u64,
    index: Arc<TreeIndex>,
    looked: Instant,
    rest: Duration,
}

impl Indexes {
    /// None yet; those to come take `octets_max` at most.
    pub(super) fn within(octets_max: usize) -> Self {
        Indexes { kept: VecDeque::new(), octets_max }
    }

    /// Version `version` of the index of the directory `path`.
    pub(super) fn find(&mut self, path: NameRef<'_>, version: u64) -> Option<Arc<TreeIndex>> {
        let is_meant = |kept: &Kept| kept.version == version && kept.path.as_name() == path;
        let place = self.kept.iter().position(is_meant)?;
        let kept = self.kept.remove(place)?;
        let index = kept.index.clone();
        self.kept.push_back(kept);
        Some(index)
    }

    /// The version of the index of `opened`, which is at `path`, as it is now; what did not change
    /// keeps its version. None if its listing is too long.
    pub(super) fn find_or_build(
        &mut self,
        root: &Root,
        path: NameRef<'_>,
        opened: &Opened,
    ) -> Result<Option<u64>, Denied> {
        let started = Instant::now();
        let newest = self.kept.iter_mut().filter(|kept| kept.path.as_name() == path);
        let newest = newest.max_by_key(|kept| kept.version);
        if let Some(kept) = &newest
            && started.duration_since(kept.looked) < kept.rest
        {
            return Ok(Some(kept.version));
        }
        let below = relative_path(path.components())?;
        let below = if path.is_empty() { PathBuf::new() } else { below };
        let Some(index) = TreeIndex::build(root, below, opened)? else { return Ok(None) };
        let looked = Instant::now();
        let rest = (looked - started) * REST;
        let mut version = clock::unix_ns();
        if let Some(kept) = newest {
            (kept.looked, kept.rest) = (looked, rest);
            if kept.index.octets == index.octets {
                return Ok(Some(kept.version));
            }
            version = version.max(kept.version + 1);
        }
        say_left_out(root, &index);
        self.kept.push_back(Kept { path: path.to_name(), version, index: Arc::new(index), looked, rest });
        while self.kept.len() > INDEXES_MAX || (self.kept.len() > 1 && self.octets() > self.octets_max) {
            self.kept.pop_front();
        }
        Ok(Some(version))
    }

    /// Octets of memory that they take.
    pub(super) fn octets(&self) -> usize {
        self.kept.iter().map(|kept| kept.index.octets_held()).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// How many things the indexes that are kept leave out, in the newest version of each.
    pub(super) fn left_out(&self) -> u64 {
        let is_newest = |kept: &&Kept| {
            self.kept.iter().all(|other| other.path != kept.path || other.version <= kept.version)
        };
        self.kept.iter().filter(is_newest).map(|kept| kept.index.left_out).sum()
    }
}

/// Tells who serves the directory what of it nobody can fetch.
fn say_left_out(root: &Root, index: &TreeIndex) {
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
