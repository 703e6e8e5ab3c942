//! The content store's index: each Data is found by its whole name and by every prefix of it
//! (`IS-30`).
//!
//! Data whose names have a common prefix are in one list for it, the newest first, and a slot of a
//! hash table leads to the list. Data with the same whole name are in a list too, in a table of
//! their own. A list has no memory of its own: its links are in the Data's entries, one pair for
//! each component of a name, after the reference to the packet. So a prefix that only one Data has,
//! which is usual for names with little in common, costs one slot of 8 octets.
//!
//! An insertion or removal reads nothing of a packet: lists are distinguished by hashes, and an
//! entry stores the numbers of its buckets. A lookup compares names, so a list that two prefixes
//! share by chance costs time and causes no wrong answer. No name is copied.
//!
//! # Locks
//!
//! Order: the lock of a bucket, then that of an entry; never two buckets. A bucket's lock guards
//! its slots and the links of its lists; an entry's lock guards the Data. Slots are also read
//! without a lock. The result of such a read is checked under the entry's lock by its name, so it
//! only affects whether a Data is found.
//!
//! A Data is removed only by its owner, the thread that detached it from the policy's lists. Before
//! its inserter has added it to those lists it has no owner, so it stays while it is being linked.

use crate::sync::plain::{AtomicU8, AtomicU32, Ordering::Relaxed};

use lock_api::{Mutex, RawMutex};
use namely_wire::COMPONENTS_MAX;

use super::buckets::{BucketLookup, Buckets, ListSlot, LockedBucket, Tag};
use super::pool::{Nodes, Pooled};
use crate::cs::cached::CsEntry;
use crate::cs::policy::eviction::Marks;
use crate::error::ConfigError;
use crate::hash::NameHashes;
use crate::pool::page_of;
use crate::prefetch::{prefetch, prefetch_packet};
use crate::prefix_table::Key;
use crate::reserve::Reserve;
use crate::slab::{Id, NONE};

/// Data that one cache lookup examines under one name.
///
/// A cache may miss. But one Interest must not pay for all stale Data under a short prefix.
///
/// # Limit
/// The lookup is a miss.
/// - Value: 64 of the name, 64 below it
/// - Counter: `misses`
/// - Tests: `a_lookup_examines_bounded_data`,
///   `a_prefix_lookup_is_bounded_by_data`
pub(crate) const CS_EXAMINED_MAX: usize = 64;

/// Links in an entry: those of its whole name and of four prefixes.
// As many as fit an entry of two cache lines.
const LINKS: usize = 5;
/// Links in a block, for longer names.
const BLOCK_LINKS: usize = 4;

/// Minimum capacity of the pools, in entries and blocks. Limits can be raised up to it at run time.
const ENTRIES_MIN: usize = 1 << 22;
const BLOCKS_MIN: usize = 1 << 20;

/// The table of prefixes is sized for this number of distinct prefixes per Data of the limit. With
/// more, lookups in it are slower.
const PREFIXES_PER_DATA: usize = 4;

/// Average number of used slots of a bucket, of seven, in a table at its expected size. Slots that
/// do not fit cost a wait for memory that was not prefetched. With two on average, one bucket in a
/// thousand needs more than its own slots. With four, fifty in a thousand do; this is accepted for
/// prefixes, because few names have four prefixes that no other name has.
const NAMES_PER_BUCKET: usize = 2;
const PREFIXES_PER_BUCKET: usize = 4;

/// Cache lines of a packet that are prefetched: most names are within them.
const PACKET_LINES: usize = 2;

/// The level of whole names. The level of a prefix is its number of components.
const WHOLE: usize = 0;

pub(super) struct Index<B, R> {
    names: Buckets<R>,
    prefixes: Buckets<R>,
    entries: Nodes<Entry<B, R>, { page_of(16) }>,
    blocks: Nodes<Block, { page_of(32) }>,
}

/// Two cache lines: the Data, and its links in lists.
#[repr(C, align(64))]
struct Entry<B, R> {
    cached: Mutex<R, Option<CsEntry<B>>>,
    /// Distinguishes a Data from a later one in the same entry; changes under the lock.
    generation: AtomicU32,
    /// The policy's mark of hits, which is set without its lock.
    mark: AtomicU8,
    /// Components of the name; set once.
    components: AtomicU8,
    links: [Link; LINKS],
    /// The first block, or the next entry of the free stack.
    more: AtomicU32,
}

/// More links of an entry with a long name.
#[derive(Default)]
#[repr(C, align(64))]
struct Block {
    links: [Link; BLOCK_LINKS],
    owner: AtomicU32,
    /// The next block of the same entry, or of the free stack.
    more: AtomicU32,
}

/// The position in one list. Neighbors are identified by the position of their links: see
/// [`LinkPosition`].
#[derive(Default)]
struct Link {
    /// The bucket that leads to the list. Set once, before any thread can remove the Data.
    bucket: AtomicU32,
    newer: AtomicU32,
    older: AtomicU32,
}

/// A value of [`Link::bucket`]: there was no memory for the bucket, and the Data is not found by
/// this prefix.
const UNLINKED: u32 = u32::MAX;

/// The position of links: an entry's id, or a block's with this bit.
type LinkPosition = Id;
const IN_BLOCK: LinkPosition = 1 << 31;

impl<B, R: RawMutex> Default for Entry<B, R> {
    fn default() -> Self {
        Entry {
            cached: Mutex::new(None),
            generation: AtomicU32::new(0),
            mark: AtomicU8::new(0),
            components: AtomicU8::new(0),
            links: Default::default(),
            more: AtomicU32::new(NONE),
        }
    }
}

impl<B, R: RawMutex> Pooled for Entry<B, R> {
    fn next_free(&self) -> &AtomicU32 {
        &self.more
    }
}

impl Pooled for Block {
    fn next_free(&self) -> &AtomicU32 {
        &self.more
    }
}

/// Identifies a Data in the store, as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) id: Id,
    pub(super) generation: u32,
}

/// Returns the number of entries for `packets` Data. A Data that is being removed still has one,
/// and workers have some in reserve.
pub(super) fn with_leaving(packets: usize) -> usize {
    if packets == 0 { 0 } else { packets + packets / 8 + LEAVING_MIN }
}

/// Minimum number of entries for Data that is being removed.
const LEAVING_MIN: usize = 256;

/// The result of an insertion.
pub(super) enum InsertOutcome {
    New(Handle),
    /// The same packet was there: its freshness was renewed.
    Renewed(Handle),
    /// There is no free entry or no memory for it.
    Full,
}

/// A visitor of Data: returns true to stop.
type Visit<'v, B> = dyn FnMut(Handle, &mut CsEntry<B>) -> bool + 'v;

/// The list that a lookup walks.
struct LookupList<'a> {
    hash: u64,
    level: usize,
    name: &'a [u8],
}

impl LookupList<'_> {
    fn tag(&self) -> Tag {
        Tag::new(self.hash, self.level)
    }

    /// Returns true if a Data of this name belongs to the list; others may be in it by chance.
    fn has(&self, name: &[u8]) -> bool {
        match self.level {
            WHOLE => name == self.name,
            _ => name.len() > self.name.len() && name.starts_with(self.name),
        }
    }
}

impl<B: AsRef<[u8]>, R: RawMutex> Index<B, R> {
    /// Creates an index for `packets` Data with `components` components in total.
    #[inline(never)]
    pub(super) fn new(packets: usize, components: usize) -> Result<Self, ConfigError> {
        let prefixes = packets.saturating_mul(PREFIXES_PER_DATA).min(components);
        // A Data that is being removed still has its entry.
        let entries = packets.saturating_mul(2).clamp(ENTRIES_MIN, IN_BLOCK as usize - 1);
        let blocks = (components / BLOCK_LINKS).clamp(BLOCKS_MIN, IN_BLOCK as usize - 1);
        Ok(Index {
            names: Buckets::new(packets, NAMES_PER_BUCKET, packets)?,
            prefixes: Buckets::new(prefixes, PREFIXES_PER_BUCKET, components)?,
            entries: Nodes::new(entries)?,
            blocks: Nodes::new(blocks)?,
        })
    }

    /// Allocates the memory for `packets` Data with `components` components in total.
    pub(super) fn prepare(&self, packets: usize, components: usize) -> Result<(), ConfigError> {
        self.names.prepare(packets)?;
        self.prefixes.prepare(components)?;
        self.entries.prepare(with_leaving(packets))?;
        // A name's last block may be used in part.
        self.blocks.prepare(components / BLOCK_LINKS + with_leaving(packets.min(components / LINKS)))
    }

    /// Allocates the next memory; returns true if any was allocated.
    pub(super) fn grow(&self) -> Result<bool, ConfigError> {
        let tables = self.names.grow()? | self.prefixes.grow()?;
        Ok(tables | self.entries.grow()? | self.blocks.grow()?)
    }

    pub(super) fn is_growth_due(&self) -> bool {
        self.entries.is_behind() || self.blocks.is_behind()
    }

    /// Prefetches the bucket of a whole name.
    pub(super) fn prefetch_name(&self, hash: u64) {
        self.names.prefetch(self.names.number(hash));
    }

    /// Prefetches the buckets that an insertion needs.
    pub(super) fn prefetch_buckets(&self, hashes: &NameHashes) {
        (1..hashes.len()).for_each(|n| self.prefixes.prefetch(self.prefixes.number(hashes.hash(n))));
        self.prefetch_name(hashes.whole());
    }

    /// Prefetches the links that an insertion changes, once its buckets are in the cache.
    pub(super) fn prefetch_lists(&self, hashes: &NameHashes) {
        for level in 1..hashes.len() {
            let hash = hashes.hash(level);
            if let BucketLookup::Is(position) = self.prefixes.newest(hash, Tag::new(hash, level)) {
                self.link(position, level).into_iter().for_each(prefetch);
            }
        }
    }

    /// Prefetches the entry `id`.
    pub(super) fn prefetch_entry(&self, id: Id) {
        self.entries.get(id).into_iter().for_each(prefetch);
    }

    /// Prefetches the memory for the removal of a Data: its buckets, its neighbors and the
    /// beginning of its packet.
    pub(super) fn prefetch_leaving(&self, id: Id) {
        let Some(entry) = self.entries.get(id) else { return };
        let links = entry.links.iter().take(usize::from(entry.components.load(Relaxed)));
        for (level, link) in links.enumerate() {
            self.table(level).prefetch(link.bucket.load(Relaxed));
            for position in [&link.newer, &link.older] {
                self.link(position.load(Relaxed), level).into_iter().for_each(prefetch);
            }
        }
        self.prefetch_packet(id);
    }

    /// Prefetches the entry of the newest Data of a whole name; returns its id.
    pub(super) fn prefetch_newest(&self, hash: u64) -> Id {
        let BucketLookup::Is(id) = self.names.newest(hash, Tag::new(hash, WHOLE)) else { return NONE };
        self.prefetch_entry(id);
        id
    }

    /// Prefetches the beginning of a Data's packet, unless another thread has locked the Data.
    pub(super) fn prefetch_packet(&self, id: Id) {
        if let Some(cached) = self.entries.get(id).and_then(|entry| entry.cached.try_lock())
            && let Some(cached) = &*cached
        {
            prefetch_packet(cached.packet.as_ref(), PACKET_LINES);
        }
    }

    /// Calls `visit` until it returns true: first for the Data with exactly the first `n`
    /// components of `key`, and then, if `below`, for those whose names extend these components,
    /// each newest first. Visits at most `most` of each, and no more than [`CS_EXAMINED_MAX`].
    pub(super) fn visit(&self, key: Key<'_>, n: usize, below: bool, most: usize, visit: &mut Visit<'_, B>) {
        let sought = LookupList { hash: key.hashes.hash(n), level: WHOLE, name: key.prefix(n) };
        if !self.visit_list(&sought, most, visit) && below && n < COMPONENTS_MAX {
            self.visit_list(&LookupList { level: n, ..sought }, most, visit);
        }
    }

    /// Returns true if the visitor stopped. The first Data of the list is visited without the
    /// bucket's lock.
    fn visit_list(&self, sought: &LookupList<'_>, most: usize, visit: &mut Visit<'_, B>) -> bool {
        let table = self.table(sought.level);
        let mut left = most;
        // Without the bucket's lock, because most lookups end at the newest Data.
        let first = match table.newest(sought.hash, sought.tag()) {
            BucketLookup::None => return false,
            BucketLookup::Unknown => NONE,
            BucketLookup::Is(position) => position,
        };
        let first = self.owner(first);
        if first != NONE && self.examine(first, sought, &mut left, visit) {
            return true;
        }
        self.visit_others(sought, first, left, visit)
    }

    /// The rest of [`Index::visit_list`], with the bucket's lock: all but `first`.
    #[inline(never)]
    fn visit_others(
        &self,
        sought: &LookupList<'_>,
        first: Id,
        mut left: usize,
        visit: &mut Visit<'_, B>,
    ) -> bool {
        let table = self.table(sought.level);
        // Copied, so that the bucket is not locked while the Data is examined.
        let mut ids = [NONE; CS_EXAMINED_MAX];
        let found = match table.lock(table.number(sought.hash)) {
            Some(locked) => self.collect(&locked.spot(sought.tag()), sought.level, &mut ids),
            None => 0,
        };
        let mut others = ids[..found].iter().filter(|id| **id != first);
        others.any(|id| self.examine(*id, sought, &mut left, visit))
    }

    /// Passes a Data of `sought` to the visitor, if `left` permits; returns true if the visitor
    /// stopped.
    fn examine(&self, id: Id, sought: &LookupList<'_>, left: &mut usize, visit: &mut Visit<'_, B>) -> bool {
        let Some(entry) = self.entries.get(id) else { return false };
        let mut guard = entry.cached.lock();
        match &mut *guard {
            // The name is compared: the entry may hold another Data by now, and two prefixes may
            // share a list.
            Some(cached) if *left > 0 && sought.has(cached.name()) => {
                *left -= 1;
                // Relaxed: the generation changes only under this lock.
                visit(Handle { id, generation: entry.generation.load(Relaxed) }, cached)
            }
            _ => false,
        }
    }

    /// Copies the ids of the newest Data of a list into `ids`; returns their number.
    fn collect(&self, spot: &ListSlot<'_>, level: usize, ids: &mut [Id]) -> usize {
        let mut position = spot.newest;
        let mut found = 0;
        for id in ids {
            let Some(link) = self.link(position, level) else { break };
            *id = self.owner(position);
            position = link.older.load(Relaxed);
            found += 1;
        }
        found
    }

    /// Inserts a Data under `key`, its name, and under every prefix of it. `same` recognizes the
    /// same packet.
    pub(super) fn insert(
        &self,
        cached: CsEntry<B>,
        key: Key<'_>,
        same: impl Fn(&CsEntry<B>) -> bool,
        reserve: &Reserve,
    ) -> InsertOutcome {
        let components = key.hashes.len();
        // Allocated before the bucket is locked.
        let Some((id, entry)) = self.take(components, reserve) else { return InsertOutcome::Full };
        let (hash, number) = (key.hashes.whole(), self.names.number(key.hashes.whole()));
        let Some(locked) = self.names.lock_or_make(number) else {
            self.give(id, entry, reserve);
            return InsertOutcome::Full;
        };
        let spot = locked.spot(Tag::new(hash, WHOLE));
        if let Some(handle) = self.renew(&spot, cached.fresh_until_ns, same) {
            drop(locked);
            self.give(id, entry, reserve);
            return InsertOutcome::Renewed(handle);
        }
        // Filled before the entry is linked: a reader that follows the slot finds the Data in the
        // entry.
        let generation = entry.put(cached);
        if !self.join(&locked, &spot, number, WHOLE, id) {
            drop(locked);
            // The entry is emptied before it is free; otherwise lookups could find this Data in an
            // entry that belongs to another one.
            drop(entry.cached.lock().take());
            self.give(id, entry, reserve);
            return InsertOutcome::Full;
        }
        drop(locked);
        let mut position = id;
        // One bucket after the other: no thread holds two.
        for level in 1..components {
            position = self.next_position(position, level);
            let hash = key.hashes.hash(level);
            let number = self.prefixes.number(hash);
            let joined = self.prefixes.lock_or_make(number).is_some_and(|locked| {
                self.join(&locked, &locked.spot(Tag::new(hash, level)), number, level, position)
            });
            // Without this prefix the Data is still found by its whole name, and can be removed.
            if !joined && let Some(link) = self.link(position, level) {
                link.bucket.store(UNLINKED, Relaxed);
            }
        }
        InsertOutcome::New(Handle { id, generation })
    }

    /// Renews the freshness of the same packet, if it is in the list of its name.
    fn renew(
        &self,
        spot: &ListSlot<'_>,
        fresh_until_ns: u64,
        same: impl Fn(&CsEntry<B>) -> bool,
    ) -> Option<Handle> {
        if spot.newest == NONE {
            return None;
        }
        let mut ids = [NONE; CS_EXAMINED_MAX];
        let found = self.collect(spot, WHOLE, &mut ids);
        ids[..found].iter().find_map(|id| {
            let entry = self.entries.get(*id)?;
            let mut guard = entry.cached.lock();
            let known = guard.as_mut().filter(|known| same(known))?;
            known.fresh_until_ns = fresh_until_ns;
            Some(Handle { id: *id, generation: entry.generation.load(Relaxed) })
        })
    }

    /// Makes the links at `position` the newest of a list; returns true if there was memory for it.
    fn join<'a>(
        &self,
        locked: &LockedBucket<'a, R>,
        spot: &ListSlot<'a>,
        number: u32,
        level: usize,
        position: LinkPosition,
    ) -> bool {
        let older = spot.newest;
        let Some(link) = self.link(position, level) else { return false };
        // Relaxed: other threads read links under the bucket's lock, or as hints for prefetches.
        link.bucket.store(number, Relaxed);
        link.newer.store(NONE, Relaxed);
        link.older.store(older, Relaxed);
        let joined = locked.push(spot, position);
        if joined && let Some(link) = self.link(older, level) {
            link.newer.store(position, Relaxed);
        }
        joined
    }

    /// Removes a Data; only its owner may call this.
    pub(super) fn remove(&self, id: Id, reserve: &Reserve) -> Option<CsEntry<B>> {
        let entry = self.entries.get(id)?;
        // Unlinked from all lists first; the Data is removed last. A reader that still finds the
        // entry is answered from it, or finds it empty. Only then is the entry free.
        let mut position = id;
        for level in 0..usize::from(entry.components.load(Relaxed)) {
            position = self.next_position(position, level);
            self.leave(level, position);
        }
        let cached = entry.cached.lock().take();
        self.give(id, entry, reserve);
        cached
    }

    /// Unlinks the links at `position` from their list.
    fn leave(&self, level: usize, position: LinkPosition) {
        let Some(link) = self.link(position, level) else { return };
        // Relaxed: the bucket was set before the Data could have an owner, and its neighbors change
        // only under the bucket's lock.
        let Some(locked) = self.table(level).lock(link.bucket.load(Relaxed)) else { return };
        let (newer, older) = (link.newer.load(Relaxed), link.older.load(Relaxed));
        match self.link(newer, level) {
            Some(link) => link.older.store(older, Relaxed),
            None => locked.replace(level, position, older),
        }
        if let Some(link) = self.link(older, level) {
            link.newer.store(newer, Relaxed);
        }
    }

    fn table(&self, level: usize) -> &Buckets<R> {
        if level == WHOLE { &self.names } else { &self.prefixes }
    }

    #[inline]
    fn link(&self, position: LinkPosition, level: usize) -> Option<&Link> {
        // The end of a list, which every second link has: the pool would look for it beyond its
        // pages.
        if position == NONE {
            return None;
        }
        match position & IN_BLOCK {
            0 => self.entries.get(position)?.links.get(level),
            _ => self.blocks.get(position & !IN_BLOCK)?.links.get(level.checked_sub(LINKS)? % BLOCK_LINKS),
        }
    }

    /// The entry whose links are at `position`.
    #[inline]
    fn owner(&self, position: LinkPosition) -> Id {
        match position & IN_BLOCK {
            0 => position,
            _ => self.blocks.get(position & !IN_BLOCK).map_or(NONE, |block| block.owner.load(Relaxed)),
        }
    }

    /// The position of an entry's links for `level`, from the position for the previous level.
    #[inline]
    fn next_position(&self, position: LinkPosition, level: usize) -> LinkPosition {
        if level < LINKS || !(level - LINKS).is_multiple_of(BLOCK_LINKS) {
            return position;
        }
        let more = match position & IN_BLOCK {
            0 => self.entries.get(position).map(|entry| &entry.more),
            _ => self.blocks.get(position & !IN_BLOCK).map(|block| &block.more),
        };
        more.map_or(NONE, |more| more.load(Relaxed) | IN_BLOCK)
    }

    /// Returns a free entry with room for the links of `components` components.
    fn take(&self, components: usize, reserve: &Reserve) -> Option<(Id, &Entry<B, R>)> {
        let (id, entry) = self.entries.take_from(&reserve.cs_entries)?;
        entry.more.store(NONE, Relaxed);
        entry.mark.store(0, Relaxed);
        entry.components.store(components as u8, Relaxed);
        for _ in 0..components.saturating_sub(LINKS).div_ceil(BLOCK_LINKS) {
            let Some((more, block)) = self.blocks.take_from(&reserve.cs_blocks) else {
                self.give(id, entry, reserve);
                return None;
            };
            block.owner.store(id, Relaxed);
            block.more.store(entry.more.load(Relaxed), Relaxed);
            entry.more.store(more, Relaxed);
        }
        Some((id, entry))
    }

    /// Frees an entry that is in no list any more.
    fn give(&self, id: Id, entry: &Entry<B, R>, reserve: &Reserve) {
        let mut more = entry.more.load(Relaxed);
        while more != NONE
            && let Some(block) = self.blocks.get(more)
        {
            // Read first: in a free block the link is that of the free stack.
            let next = block.more.load(Relaxed);
            self.blocks.release_to(&reserve.cs_blocks, more);
            more = next;
        }
        self.entries.release_to(&reserve.cs_entries, id);
    }

    /// Calls `visit` for the Data in up to `most` entries from `from` on, until it returns false.
    /// Returns the next position, or `None` after the last entry.
    pub(super) fn walk(&self, from: Id, most: u32, mut visit: impl FnMut(&CsEntry<B>) -> bool) -> Option<Id> {
        for id in from.max(1)..from.saturating_add(most) {
            let entry = self.entries.get(id)?;
            if entry.cached.lock().as_ref().is_some_and(|cached| !visit(cached)) {
                return Some(id + 1);
            }
        }
        Some(from.saturating_add(most))
    }

    /// Returns entries and blocks that were reserved for packets and not used.
    pub(super) fn settle(&self, reserve: &Reserve) {
        self.entries.settle(&reserve.cs_entries);
        self.blocks.settle(&reserve.cs_blocks);
    }

    /// Runs `change` on a Data, if it is still there.
    pub(super) fn with(&self, handle: Handle, change: impl FnOnce(&mut CsEntry<B>)) {
        let Some(entry) = self.entries.get(handle.id) else { return };
        let mut guard = entry.cached.lock();
        // The caller held no lock since it had the handle, so the entry may hold another Data by
        // now.
        if entry.generation.load(Relaxed) == handle.generation
            && let Some(cached) = &mut *guard
        {
            change(cached);
        }
    }

    /// Raises a Data's mark, up to `most`. The hits of two workers at the same time may count as
    /// one.
    #[inline]
    pub(super) fn raise(&self, id: Id, most: u8) {
        if let Some(entry) = self.entries.get(id) {
            // Load and store instead of one exchange: a lost hit costs less than a locked operation
            // for each.
            let mark = entry.mark.load(Relaxed);
            if mark < most {
                entry.mark.store(mark + 1, Relaxed);
            }
        }
    }
}

impl<B, R: RawMutex> Entry<B, R> {
    /// Puts a Data into an empty entry; returns its generation.
    fn put(&self, cached: CsEntry<B>) -> u32 {
        let mut guard = self.cached.lock();
        // Wrapping: no handle lives as long as 2^32 Data in one entry.
        let generation = self.generation.load(Relaxed).wrapping_add(1);
        self.generation.store(generation, Relaxed);
        *guard = Some(cached);
        generation
    }
}

impl<B: AsRef<[u8]>, R: RawMutex> Marks for Index<B, R> {
    fn mark(&self, id: Id) -> u8 {
        self.entries.get(id).map_or(0, |entry| entry.mark.load(Relaxed))
    }

    fn set_mark(&self, id: Id, mark: u8) {
        if let Some(entry) = self.entries.get(id) {
            entry.mark.store(mark, Relaxed);
        }
    }
}

/// Only for an index that is not in use.
#[cfg(test)]
impl<B: AsRef<[u8]>, R: RawMutex> Index<B, R> {
    fn cached(&self) -> impl Iterator<Item = &Entry<B, R>> {
        let entries = (1..).map_while(|id| self.entries.get(id));
        entries.filter(|entry| entry.cached.lock().is_some())
    }

    /// Checks each list; returns the number of Data.
    pub(super) fn check(&self) -> usize {
        let mut positions = 0;
        let mut walk = |number: u32, level: usize, newest: LinkPosition| {
            let (mut newer, mut position) = (NONE, newest);
            while let Some(link) = self.link(position, level) {
                assert_eq!((link.bucket.load(Relaxed), link.newer.load(Relaxed)), (number, newer));
                let entry = self.entries.get(self.owner(position)).unwrap();
                assert!(entry.cached.lock().is_some() && level < usize::from(entry.components.load(Relaxed)));
                positions += 1;
                (newer, position) = (position, link.older.load(Relaxed));
            }
            assert_ne!(newer, NONE, "no list is empty");
        };
        self.names.lists(&mut walk);
        self.prefixes.lists(&mut walk);
        let components = |entry: &Entry<B, R>| usize::from(entry.components.load(Relaxed));
        assert_eq!(positions, self.cached().map(components).sum::<usize>(), "each Data is in all its lists");
        self.cached().count()
    }

    /// Entries, blocks, further buckets and lists in use.
    pub(super) fn in_use(&self) -> usize {
        let mut lists = 0;
        self.names.lists(&mut |_, _, _| lists += 1);
        self.prefixes.lists(&mut |_, _, _| lists += 1);
        let more = self.names.more_taken() + self.prefixes.more_taken();
        self.entries.taken() + self.blocks.taken() + more + lists
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;

    #[test]
    fn an_index_entry_fits_two_cache_lines() {
        assert_eq!(size_of::<Entry<Arc<[u8]>, parking_lot::RawMutex>>(), 128);
        assert_eq!(
            size_of::<Entry<(Arc<[u8]>, usize), parking_lot::RawMutex>>(),
            128,
            "as large as the router's own"
        );
        assert_eq!(size_of::<Block>(), 64);
    }
}
