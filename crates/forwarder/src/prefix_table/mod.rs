//! A table from names to short lists of numbers with longest-prefix match, read by all workers at
//! once without a lock and without writing to shared memory. FIB, BPT and strategy choice are such
//! tables; the control path writes them.
//!
//! **Cost.** A lookup probes one bucket for each length of entries below its first component, and
//! compares names only if 32 bits of a keyed hash match; the cost does not grow with the number of
//! entries. The worst case is a first component (or one that shares its slot in the array of
//! lengths) with routes of every length: one cache line for each component of the name, at most
//! [`COMPONENTS_MAX`](namely_wire::COMPONENTS_MAX). Only a user that may add routes can cause that.
//! The buckets of several lengths are read before any name is, so that their cache misses overlap.
//! An empty table costs one read.
//!
//! **Memory.** Cache lines of atomic words in pools that grow with use: an entry whose name has up
//! to 42 octets takes one, and a third of one in the index. Writers exclude each other by a lock of
//! the table's owner; readers use a version (see [`version`]).

mod blocks;
mod entry;
mod index;
mod lengths;
#[cfg(test)]
mod tests;
mod version;

use crate::sync::plain::{AtomicUsize, Ordering::Relaxed};
#[cfg(test)]
use alloc::vec::Vec;

use lock_api::{Mutex, RawMutex};
use namely_wire::NameRef;
#[cfg(test)]
use namely_wire::{Name, PACKET_OCTETS_MAX};

use crate::error::ConfigError;
use crate::hash::{NameHasher, NameHashes};
use crate::prefetch::prefetch;
use crate::slab::{Id, NONE};
use blocks::{Block, Blocks, FreeBlock};
use index::Index;
use lengths::{Counts, Lengths};
use version::Version;

pub(crate) use blocks::NoBlock;
pub(crate) use entry::{Pair, Pairs};

/// A name with its prefix hashes: the key of every lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) octets: &'a [u8],
    pub(crate) hashes: &'a NameHashes,
}

impl<'a> Key<'a> {
    pub(crate) fn new(name: NameRef<'a>, hashes: &'a NameHashes) -> Self {
        Key { octets: name.as_bytes(), hashes }
    }

    /// The octets of the first `n` components.
    pub(crate) fn prefix(&self, n: usize) -> &'a [u8] {
        &self.octets[..self.hashes.end(n)]
    }
}

/// Buckets that are read before the first of them is searched.
const PROBED_AHEAD: usize = 4;

/// Further blocks of the FIB for names and next hops.
///
/// They are for names longer than a block, for further pairs and for full buckets. Together with
/// `MORE_BLOCKS_MIN` this bounds the memory of any names.
///
/// # Limit
/// The route is refused.
/// - Value: 4 blocks of 64 octets for each of `tables.fib_entries_max`, at least 65,536
/// - Tests: `a_name_without_room_leaves_nothing_behind`
pub(crate) const MORE_BLOCKS_PER_ENTRY: usize = 4;
const MORE_BLOCKS_MIN: usize = 65_536;

pub(crate) struct PrefixTable {
    version: Version,
    len: AtomicUsize,
    lengths: Lengths,
    index: Index,
    entries: Blocks,
    more: Blocks,
}

/// The writers' state. The owner of the table has it behind the lock that excludes writers from
/// each other.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    free_entries: FreeBlock,
    free_more: FreeBlock,
    counts: Counts,
}

/// A buffer for a name that is read from a table. It is as long as the longest name in the table.
pub(crate) type NameOctets = [u8];

/// The cost of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Cache lines of the index.
    pub(crate) buckets: usize,
    /// Entries whose names were compared.
    pub(crate) names: usize,
}

impl PrefixTable {
    pub(crate) fn new(entries_max: usize) -> Result<Self, ConfigError> {
        let more = (entries_max * MORE_BLOCKS_PER_ENTRY).max(MORE_BLOCKS_MIN);
        Ok(PrefixTable {
            version: Version::new(),
            len: AtomicUsize::new(0),
            lengths: Lengths::new(entries_max)?,
            index: Index::new(entries_max)?,
            entries: Blocks::new(entries_max)?,
            more: Blocks::new(more)?,
        })
    }

    /// Allocates the next memory; returns true if any was allocated.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        Ok(self.entries.grow()? | self.more.grow()? | self.index.grow()?)
    }

    /// Allocates the memory for `names` more names of `octets` each.
    pub(crate) fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.entries.make_room(names)?;
        // One for the name's bucket, and one for a bucket that is added.
        self.more.make_room(names.saturating_mul(entry::name_blocks(octets) + 2))?;
        self.index.make_room(names)
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    /// Calls `read` for the entries that are prefixes of `key`, longest first, until it returns a
    /// result. During a write `read` may be called repeatedly and with inconsistent values; only
    /// its result for a consistent state is returned. `control` is the writers' lock; the caller
    /// must not hold it.
    pub(crate) fn find_longest<R: RawMutex, C, T>(
        &self,
        control: &Mutex<R, C>,
        key: Key<'_>,
        read: impl Fn(usize, Pairs<'_>) -> Option<T>,
    ) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        self.version.read(control, || self.search(key, &read).0)
    }

    /// As `find_longest`, for a caller that holds the writers' lock.
    pub(crate) fn find_longest_locked<T>(
        &self,
        _writer: &Writer,
        key: Key<'_>,
        read: impl Fn(usize, Pairs<'_>) -> Option<T>,
    ) -> Option<T> {
        self.search(key, read).0
    }

    fn search<T>(&self, key: Key<'_>, read: impl Fn(usize, Pairs<'_>) -> Option<T>) -> (Option<T>, Cost) {
        let mut lengths = self.lengths.of(key.hashes);
        let mut cost = Cost::default();
        loop {
            let mut ahead = [None; PROBED_AHEAD];
            let mut probed = 0;
            for n in lengths.by_ref().take(PROBED_AHEAD) {
                let hash = key.hashes.hash(n);
                ahead[probed] =
                    self.index.bucket(hash).map(|bucket| (n, bucket, Index::matching(bucket, hash)));
                probed += 1;
            }
            for (n, bucket, matching) in ahead.iter().take(probed).flatten() {
                if *matching == 0 && Index::link(bucket) == NONE {
                    cost.buckets += 1;
                    continue;
                }
                let entry = self.entry_in(bucket, *matching, key.hashes.hash(*n), key.prefix(*n), &mut cost);
                if let Some(found) = entry.and_then(|(_, entry)| read(*n, Pairs::new(entry, &self.more))) {
                    return (Some(found), cost);
                }
            }
            if probed < PROBED_AHEAD {
                return (None, cost);
            }
        }
    }

    /// Prefetches the array of lengths, which a lookup reads first.
    pub(crate) fn prefetch_lengths(&self, hashes: &NameHashes) {
        if self.len() > 0 {
            self.lengths.prefetch(hashes);
        }
    }

    /// Prefetches the buckets that a lookup reads first.
    pub(crate) fn prefetch_buckets(&self, hashes: &NameHashes) {
        self.lengths_of(hashes).filter_map(|n| self.index.bucket(hashes.hash(n))).for_each(prefetch);
    }

    /// Prefetches the entry whose hash is that of the longest prefix.
    pub(crate) fn prefetch_entry(&self, hashes: &NameHashes) {
        let entry = self.lengths_of(hashes).find_map(|n| {
            let bucket = self.index.bucket(hashes.hash(n))?;
            let matching = Index::matching(bucket, hashes.hash(n));
            (matching != 0).then(|| self.entries.get(Index::id(bucket, matching.trailing_zeros())))?
        });
        entry.into_iter().for_each(prefetch);
    }

    /// The lengths that a lookup probes first.
    fn lengths_of(&self, hashes: &NameHashes) -> impl Iterator<Item = usize> + use<> {
        let most = if self.len() == 0 { 0 } else { PROBED_AHEAD };
        self.lengths.of(hashes).take(most)
    }

    /// The entry with this name and `hash` in a bucket or its further blocks. `matching` are the
    /// slots of the first block that have the hash.
    fn entry_in<'a>(
        &'a self,
        mut bucket: &'a Block,
        mut matching: u32,
        hash: u64,
        name: &[u8],
        cost: &mut Cost,
    ) -> Option<(Id, &'a Block)> {
        // During a write blocks may seem to be linked in a circle, so the loop is bounded.
        for _ in 0..self.more.end() {
            cost.buckets += 1;
            while matching != 0 {
                let id = Index::id(bucket, matching.trailing_zeros());
                matching &= matching - 1;
                let Some(entry) = self.entries.get(id) else { continue };
                cost.names += 1;
                if entry::has_name(entry, name, &self.more) {
                    return Some((id, entry));
                }
            }
            bucket = self.more.get(Index::link(bucket))?;
            matching = Index::matching(bucket, hash);
        }
        None
    }

    /// The entry whose name is exactly the first `n` components of `key`.
    pub(crate) fn find(&self, _writer: &Writer, key: Key<'_>, n: usize) -> Option<Id> {
        let hash = key.hashes.hash(n);
        let bucket = self.index.bucket(hash)?;
        let matching = Index::matching(bucket, hash);
        self.entry_in(bucket, matching, hash, key.prefix(n), &mut Cost::default()).map(|(id, _)| id)
    }

    /// The value of an entry.
    pub(crate) fn pairs(&self, _writer: &Writer, id: Id) -> impl Iterator<Item = Pair> + use<'_> {
        self.entries.get(id).into_iter().flat_map(|entry| Pairs::new(entry, &self.more))
    }

    /// Replaces the value of an entry by `count` pairs, one or more.
    pub(crate) fn set_pairs(
        &self,
        writer: &mut Writer,
        id: Id,
        count: usize,
        pairs: impl Iterator<Item = Pair>,
    ) -> Result<(), NoBlock> {
        let Some(entry) = self.entries.get(id) else { return Ok(()) };
        let _writing = self.version.write();
        entry::set_pairs(entry, count, pairs, &self.more, &mut writer.free_more)
    }

    /// Removes the pairs of an entry for which `keep` returns false; returns how many remain. If
    /// none would remain, the entry is left unchanged.
    pub(crate) fn retain_pairs(&self, writer: &mut Writer, id: Id, keep: impl Fn(Pair) -> bool) -> usize {
        let Some(entry) = self.entries.get(id) else { return 0 };
        let kept = || Pairs::new(entry, &self.more).filter(|pair| keep(*pair));
        let count = kept().count();
        if count > 0 {
            let _writing = self.version.write();
            // Fewer pairs than before need no memory.
            let _ = entry::set_pairs(entry, count, kept(), &self.more, &mut writer.free_more);
        }
        count
    }

    /// The name of an entry, which is copied to `octets`.
    pub(crate) fn name<'a>(
        &self,
        _writer: &Writer,
        id: Id,
        octets: &'a mut NameOctets,
    ) -> Option<NameRef<'a>> {
        let len = entry::copy_name(self.entries.get(id)?, &self.more, octets)?;
        NameRef::parse_value(&octets[..len]).ok()
    }

    /// Inserts a name of `n` components of `key` that is not in the table.
    pub(crate) fn insert(
        &self,
        writer: &mut Writer,
        key: Key<'_>,
        n: usize,
        pair: Pair,
    ) -> Result<Id, NoBlock> {
        let Writer { free_entries, free_more, counts } = writer;
        counts.reserve().map_err(|_| NoBlock::NoMemory)?;
        self.lengths.reserve(key.hashes, n).map_err(|_| NoBlock::NoMemory)?;
        let (id, entry) = self.entries.take(free_entries)?;
        let _writing = self.version.write();
        if let Err(none) = entry::write(entry, key.prefix(n), pair, &self.more, free_more) {
            self.entries.put(id, free_entries);
            entry::clear_unwritten(entry);
            return Err(none);
        }
        if let Err(none) = self.index.insert(key.hashes.hash(n), id, &self.more, free_more) {
            entry::clear(entry, &self.more, free_more);
            self.entries.put(id, free_entries);
            return Err(none);
        }
        self.lengths.add(key.hashes, n, counts);
        self.len.store(self.len() + 1, Relaxed);
        if self.index.is_to_grow(self.len()) {
            // Without memory for it, buckets hold more entries than intended: slower, but not
            // wrong.
            let _ = self.index.add_bucket(&self.more, free_more);
        }
        Ok(id)
    }

    /// Removes an entry whose name is the first `n` components of `key`.
    pub(crate) fn remove(&self, writer: &mut Writer, key: Key<'_>, n: usize, id: Id) {
        let Some(entry) = self.entries.get(id) else { return };
        let _writing = self.version.write();
        self.index.remove(key.hashes.hash(n), id, &self.more, &mut writer.free_more);
        entry::clear(entry, &self.more, &mut writer.free_more);
        self.entries.put(id, &mut writer.free_entries);
        self.lengths.remove(key.hashes, n, &mut writer.counts);
        self.len.store(self.len() - 1, Relaxed);
    }

    /// Visits the names and values of the entries with ids from `from` on, in at most `count` slots
    /// of the table, until `show` returns false. Returns the next position, which is that of the
    /// refused entry in that case. A long walk can release its lock between calls. Names are copied
    /// to `octets`.
    pub(crate) fn walk(
        &self,
        writer: &Writer,
        from: Id,
        count: Id,
        octets: &mut NameOctets,
        mut show: impl FnMut(NameRef<'_>, Pairs<'_>) -> bool,
    ) -> Option<Id> {
        let until = from.saturating_add(count).min(self.entries.end());
        for id in from.max(1)..until {
            let Some(entry) = self.entries.get(id) else { continue };
            let Some(name) = self.name(writer, id, octets) else { continue };
            if !show(name, Pairs::new(entry, &self.more)) {
                return Some(id);
            }
        }
        (until < self.entries.end()).then_some(until)
    }

    /// The maximum cost of a lookup of `key`: when no prefix satisfies it.
    #[cfg(test)]
    pub(crate) fn cost(&self, key: Key<'_>) -> Cost {
        self.search(key, |_, _| None::<()>).1
    }
}

impl<'a> Key<'a> {
    /// The key of `name`, whose hashes are written to `hashes`.
    pub(crate) fn filled(hasher: &NameHasher, name: NameRef<'a>, hashes: &'a mut NameHashes) -> Self {
        hasher.fill(name.as_bytes(), hashes);
        Key::new(name, hashes)
    }
}

/// Runs `with` on the key of `name`.
#[cfg(test)]
pub(crate) fn with_key<T>(hasher: &NameHasher, name: NameRef<'_>, with: impl FnOnce(Key<'_>) -> T) -> T {
    with(Key::filled(hasher, name, &mut NameHashes::new()))
}
