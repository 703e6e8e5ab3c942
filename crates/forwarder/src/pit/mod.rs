//! The pending Interest table: a separate-chaining hash table keyed by Interest name, whose entries
//! point into the one packet that each stores (`IS-27`). All workers share it. A worker waits for
//! another only if both use the same bucket or the same entry.
//!
//! Each bucket has a lock, and so has each entry (`IS-34`). A lookup holds its bucket's lock while
//! it walks the chain, locks the entry that it finds, releases the bucket, and works under the
//! entry's lock. The order is bucket, entry, and then one of: a stripe of the free list, a timer
//! wheel, the grants of faces. A thread that holds an entry takes no bucket's lock, and no thread
//! holds two entries' locks, or two buckets' but while it splits one ([`buckets`]). To remove an
//! entry that was found earlier, a thread locks the bucket again and checks that the entry is still
//! the same: see [`Pit::take_if`].
//!
//! An Interest whose name ends in an implicit digest is stored under its name without the digest,
//! so that a Data finds it by the name that it carries. The digest of a Data is computed only if
//! such an entry is found.

mod buckets;
mod deadlines;
pub(crate) mod entry;
mod ids;
pub(crate) mod key;
pub(crate) mod pending;
mod shared;
pub(crate) mod status;
mod storage;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::{Mutex, MutexGuard, RawMutex};
use namely_wire::{COMPONENTS_MAX, NameRef};

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::hash::NameHashes;
use crate::inline_vec::InlineVec;
use crate::interest_key::InterestKey;
use crate::limits::PitLimits;
use crate::pit::status::{PendingInterest, SentTo};
use crate::pool::{Pool, boxed};
use crate::prefetch::prefetch;
use crate::prefix_table::Key;
use crate::reserve::Reserve;
use crate::slab::{Id, NONE};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::wheel::{TICK_SHIFT, TIMER_OCTETS};
use buckets::{Bucket, Buckets, Chain, Node, PresentBuckets};
use deadlines::{Deadlines, tick_of};
use ids::{Ids, Link, RUN};
use pending::PendingByFace;
use storage::{Storage, Storages};

use entry::{InRecord, OutRecord, PitEntry};
use key::EntryKey;
use pending::PitFull;

/// Maximum number of entries that one lookup by Data takes.
pub(crate) const MATCHES_AT_ONCE: usize = 4;

/// The table of pending Interests.
pub(crate) struct Pit<B, R> {
    buckets: Buckets<R>,
    slots: Pool<Slot<B, R>, { ids::PAGE }>,
    ids: Ids<R>,
    deadlines: Deadlines<R>,
    // The number of entries with CanBePrefix, by components. A Data looks up only the proper
    // prefixes whose number is not 0.
    prefix_lengths: Box<[AtomicU32]>,
    by_face: PendingByFace<R>,
    storages: Storages<R>,
    /// The position of the next samples of `take_from_largest`.
    samples: AtomicU32,
    entries_reserve: u32,
    in_records_max: usize,
}

/// A slot for an entry.
struct Slot<B, R> {
    /// The keyed hash of the entry's name. Written under the bucket's and the entry's lock.
    hash: AtomicU64,
    link: Link,
    state: Mutex<R, SlotState<B>>,
}

struct SlotState<B> {
    /// Counts the entries that the slot has held, which distinguishes an entry from a later one.
    serial: u32,
    /// The tick for which the slot's timer is set; 0 when it is not.
    timer_tick: u32,
    storage: Storage<B>,
}

impl<B, R: RawMutex> Slot<B, R> {
    fn new() -> Self {
        let state = SlotState { serial: 0, timer_tick: 0, storage: Storage::new() };
        Slot { hash: AtomicU64::new(0), link: Link::new(), state: Mutex::new(state) }
    }
}

/// A pending Interest under its lock.
pub(crate) struct LockedEntry<'a, B, R: RawMutex> {
    id: Id,
    state: MutexGuard<'a, R, SlotState<B>>,
}

impl<B, R: RawMutex> LockedEntry<'_, B, R> {
    pub(crate) fn key(&self) -> EntryKey {
        EntryKey { id: self.id, serial: self.state.serial }
    }

    pub(crate) fn entry(&mut self) -> Option<&mut PitEntry<B>> {
        self.state.storage.get_mut()
    }
}

/// The result of inserting an Interest.
pub(crate) enum InsertOutcome<'a, B, R: RawMutex> {
    /// There was no entry; this one has the record as its downstream.
    New(LockedEntry<'a, B, R>),
    /// An entry that requests the same exists; it is unchanged.
    Existing(LockedEntry<'a, B, R>),
}

/// Entries that a Data satisfies, taken out of the table.
pub(crate) type Satisfied<B> = InlineVec<PitEntry<B>, MATCHES_AT_ONCE>;

/// The result of a lookup by Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataMatch {
    /// All matching entries were taken.
    All,
    /// The maximum was taken; there may be more.
    Some,
    /// An entry requests this name by digest. The caller computes the Data's digest and looks up
    /// again.
    DigestNeeded,
}

/// The result of a fired timer.
pub(crate) enum Expired<B> {
    /// An entry that has expired, taken out of the table.
    Entry(PitEntry<B>),
    /// The slot has no entry now, or one whose deadline is later.
    Nothing,
}

impl<B, R> Pit<B, R> {
    /// Octets of a bucket with its lock.
    pub(crate) const BUCKET_OCTETS: usize = size_of::<Bucket<R>>();

    /// Octets of a pending Interest beside its packet: its slot, its entry, its timer, a bucket.
    pub(crate) const ENTRY_OCTETS: usize =
        size_of::<Slot<B, R>>() + size_of::<Option<PitEntry<B>>>() + TIMER_OCTETS + Self::BUCKET_OCTETS;
}

impl<B: AsRef<[u8]> + Clone, R: RawMutex> Pit<B, R> {
    /// A table with these limits, for at most `faces_max` faces and for `threads_max` threads.
    pub(crate) fn new(limits: &PitLimits, faces_max: usize, threads_max: usize) -> Result<Self, ConfigError> {
        let entries_max = limits.entries_max;
        Ok(Pit {
            buckets: Buckets::new(entries_max)?,
            slots: Pool::new(entries_max)?,
            ids: Ids::new(entries_max, threads_max)?,
            deadlines: Deadlines::new(threads_max)?,
            prefix_lengths: boxed(COMPONENTS_MAX + 1, || AtomicU32::new(0))?,
            by_face: PendingByFace::new(limits, faces_max)?,
            storages: Storages::new(),
            samples: AtomicU32::new(0),
            entries_reserve: u32::try_from(limits.entries_reserve).unwrap_or(u32::MAX),
            in_records_max: limits.in_records_max,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.used()
    }

    /// Makes the slots and timers of `entries` entries, and all buckets.
    pub(crate) fn prepare(&self, entries: usize) -> Result<(), ConfigError> {
        self.slots.fill(entries, Slot::new)?;
        self.deadlines.prepare(entries)?;
        self.buckets.prepare()
    }

    pub(crate) fn is_growth_due(&self) -> bool {
        let used = self.ids.end() as usize - 1;
        self.slots.is_behind(used) || self.buckets.is_behind(used)
    }

    /// Makes the next slots and buckets; see [`Pool::fill_ahead`].
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        let used = self.ids.end() as usize - 1;
        Ok(self.slots.fill_ahead(used, Slot::new)? | self.buckets.fill_ahead(used)?)
    }

    /// Finds the entry that requests the same, or makes one for the Interest `packet` with `record`
    /// as its downstream.
    pub(crate) fn insert(
        &self,
        packet: &B,
        interest: &InterestKey<'_>,
        record: InRecord,
        now_ns: u64,
        reserve: &Reserve,
    ) -> Result<InsertOutcome<'_, B, R>, PitFull> {
        // A slot is prepared before the bucket is locked, because most Interests need one.
        let prepared = self.ids.take(record.face.slot, reserve, |id| self.link(id), |id| self.make_run(id));
        let hash = interest.hash();
        let mut bucket = self.lock_bucket(hash);
        if let Some(known) = self.find(bucket.first(), hash, |entry| entry.is_same_as(interest)) {
            // The entry is locked, so it stays after its bucket is released. Other threads can use
            // the chain meanwhile.
            drop(bucket);
            self.free(prepared, reserve);
            return Ok(InsertOutcome::Existing(known));
        }
        let Some((id, slot)) = prepared.and_then(|id| Some((id, self.slot(id)?))) else {
            return Err(PitFull::Table);
        };
        // Locked before it is linked: a thread that finds it waits until its timer is set and the
        // strategy's out-records are entered.
        let mut state = slot.state.lock();
        // Counted before the entry is linked: a refusal then only has to free the slot.
        let counted = if state.storage.make(&self.storages) {
            self.by_face.add(record.face, reserve)
        } else {
            Err(PitFull::Table)
        };
        if let Err(full) = counted {
            drop(state);
            drop(bucket);
            self.free(prepared, reserve);
            return Err(full);
        }
        // Counted before the entry is linked, and subtracted after it was unlinked, so that the
        // number is not 0 while there is such an entry. A Data that reads the number a moment
        // earlier came before the Interest.
        if interest.view.can_be_prefix {
            self.prefix_lengths[interest.components].fetch_add(1, Ordering::Relaxed);
        }
        state.storage.put(PitEntry::new(packet.clone(), interest, record, slot.link.stripe()));
        // Relaxed: a chain is walked only under its bucket's lock, which orders these stores before
        // every walk. `take_if` reads the hash without the lock, and checks by the serial that the
        // hash was that of its entry.
        slot.hash.store(hash, Ordering::Relaxed);
        slot.link.next.store(bucket.first(), Ordering::Relaxed);
        bucket.set_first(id);
        drop(bucket);
        let mut locked = LockedEntry { id, state };
        self.set_timer(&mut locked, record.expires_at_ns, now_ns);
        Ok(InsertOutcome::New(locked))
    }

    /// The entry of this name and these selectors that was last sent to `upstream` with `nonce`.
    /// The forwarding hint is not compared: a router in the producer's region removes it before it
    /// sends a Nack.
    pub(crate) fn find_sent(
        &self,
        interest: &InterestKey<'_>,
        upstream: FaceKey,
        nonce: [u8; 4],
    ) -> Option<LockedEntry<'_, B, R>> {
        let bucket = self.lock_bucket(interest.hash());
        self.find(bucket.first(), interest.hash(), |entry| {
            entry.has_name_and_selectors(interest)
                && entry.out_records.iter().any(|r| r.face == upstream && r.nonce == nonce)
        })
    }

    /// Adds `record` as a downstream of an entry, new or renewed, and moves the entry's deadline to
    /// the latest one of its downstreams.
    pub(crate) fn add_downstream(
        &self,
        locked: &mut LockedEntry<'_, B, R>,
        record: InRecord,
        now_ns: u64,
        reserve: &Reserve,
    ) -> Result<(), PitFull> {
        let Some(entry) = locked.state.storage.get_mut() else { return Ok(()) };
        if let Some(own) = entry.in_records.iter_mut().find(|r| r.face == record.face) {
            *own = record;
        } else {
            self.by_face.add(record.face, reserve)?;
            // Expired downstreams are removed only when their slots are needed: an Interest that
            // joins would otherwise walk the whole list.
            if entry.in_records.len() >= self.in_records_max {
                let expired = entry.in_records.iter().filter(|r| r.expires_at_ns <= now_ns);
                expired.for_each(|r| self.by_face.sub(r.face, reserve));
                entry.in_records.retain(|r| r.expires_at_ns > now_ns);
            }
            if entry.in_records.len() >= self.in_records_max {
                self.by_face.sub(record.face, reserve);
                return Err(PitFull::InRecords);
            }
            if entry.in_records.needs_storage() {
                entry.in_records.lend(self.ids.in_storage(entry.stripe));
            }
            if !entry.in_records.push(record) {
                self.by_face.sub(record.face, reserve);
                return Err(PitFull::Memory);
            }
        }
        let last = entry.in_records.iter().map(|r| r.expires_at_ns).max().unwrap_or(now_ns);
        if last != entry.expires_at_ns {
            entry.expires_at_ns = last;
            self.set_timer(locked, last, now_ns);
        }
        Ok(())
    }

    /// Adds one out-record; returns false if there is no memory for it.
    #[inline]
    pub(crate) fn add_upstream(&self, entry: &mut PitEntry<B>, record: OutRecord) -> bool {
        if entry.out_records.needs_storage() {
            entry.out_records.lend(self.ids.out_storage(entry.stripe));
        }
        entry.out_records.push(record)
    }

    /// Removes the downstream `face` from an entry; returns its record.
    pub(crate) fn take_downstream(
        &self,
        entry: &mut PitEntry<B>,
        face: FaceKey,
        reserve: &Reserve,
    ) -> Option<InRecord> {
        let record = entry.in_records.iter().find(|r| r.face == face).copied()?;
        entry.in_records.retain(|r| r.face != face);
        self.by_face.sub(face, reserve);
        Some(record)
    }

    /// Locks an entry that was found earlier, if it is still there.
    pub(crate) fn lock(&self, key: EntryKey) -> Option<LockedEntry<'_, B, R>> {
        let state = self.slot(key.id)?.state.lock();
        // A slot is reused, but its serial is not: the key of an earlier entry matches no later
        // one.
        let is_there = state.serial == key.serial && state.storage.get().is_some();
        is_there.then_some(LockedEntry { id: key.id, state })
    }

    /// Brings the expiry of an entry forward to `deadline_ns`, if it is later. A further Interest
    /// extends it again.
    pub(crate) fn hasten(&self, locked: &mut LockedEntry<'_, B, R>, deadline_ns: u64, now_ns: u64) {
        let Some(entry) = locked.entry() else { return };
        entry.expires_at_ns = entry.expires_at_ns.min(deadline_ns);
        let expires_at_ns = entry.expires_at_ns;
        self.set_timer(locked, expires_at_ns, now_ns);
    }

    /// Removes and returns an entry if it still exists and `condition` holds. The caller must hold
    /// no entry.
    pub(crate) fn take_if(
        &self,
        key: EntryKey,
        condition: impl FnOnce(&PitEntry<B>) -> bool,
        reserve: &Reserve,
    ) -> Option<PitEntry<B>> {
        let slot = self.slot(key.id)?;
        // If the slot holds another entry by now, this may be the wrong bucket; the serial check
        // below detects that.
        let mut bucket = self.lock_bucket(slot.hash.load(Ordering::Relaxed));
        let mut state = slot.state.lock();
        if state.serial != key.serial || !state.storage.get().is_some_and(condition) {
            return None;
        }
        // Unlinked under both locks and freed after both, so that no thread walks over an id that
        // is in use again.
        self.unlink(&mut bucket, key.id, slot);
        let entry = state.take()?;
        drop(state);
        drop(bucket);
        self.forget(key.id, &entry, reserve);
        Some(entry)
    }

    /// Takes entries that Data named `name` from the face `from` satisfies (`IS-28`): first those
    /// of its whole name, then for each proper prefix, longest first, those with CanBePrefix. Only
    /// entries that were sent to `from` match, because Data from another face is unsolicited.
    /// `digest` is the Data's, once it is computed.
    pub(crate) fn take_matches(
        &self,
        from: FaceKey,
        name: NameRef<'_>,
        hashes: &NameHashes,
        digest: Option<&[u8; 32]>,
        satisfied: &mut Satisfied<B>,
        reserve: &Reserve,
    ) -> DataMatch {
        let components = hashes.len();
        let mut digest_needed = false;
        for n in (0..=components).rev() {
            if n < components && self.prefix_lengths[n].load(Ordering::Relaxed) == 0 {
                continue;
            }
            let matches = |entry: &PitEntry<B>| {
                usize::from(entry.components) == n
                    && entry.may_match(name, components)
                    && entry.was_sent_to(from)
                    && match (entry.digest(), digest) {
                        (None, _) => true,
                        (Some(requested), Some(digest)) => requested == digest,
                        (Some(_), None) => {
                            digest_needed = true;
                            false
                        }
                    }
            };
            self.take_from_bucket(hashes.hash(n), matches, satisfied, reserve);
            if satisfied.len() >= MATCHES_AT_ONCE {
                return DataMatch::Some;
            }
        }
        if digest_needed { DataMatch::DigestNeeded } else { DataMatch::All }
    }

    /// Takes the entries that `matches` accepts out of one chain, until `satisfied` is full.
    fn take_from_bucket(
        &self,
        hash: u64,
        mut matches: impl FnMut(&PitEntry<B>) -> bool,
        satisfied: &mut Satisfied<B>,
        reserve: &Reserve,
    ) {
        let (before, mut taken) = (satisfied.len(), [NONE; MATCHES_AT_ONCE]);
        let mut len = before;
        let mut bucket = self.lock_bucket(hash);
        let mut id = bucket.first();
        while let Some(slot) = self.slot(id)
            && let Some(own) = taken.get_mut(len)
        {
            // Read before the entry is taken out: afterwards the link may be part of a free list.
            let next = slot.link.next.load(Ordering::Relaxed);
            if slot.hash.load(Ordering::Relaxed) == hash {
                let mut state = slot.state.lock();
                if state.storage.get().is_some_and(&mut matches) {
                    self.unlink(&mut bucket, id, slot);
                    *own = id;
                    len += 1;
                    // Moved only once, because an entry takes several cache lines.
                    if let Some(free) = satisfied.vacant() {
                        *free = state.take();
                    }
                }
            }
            id = next;
        }
        // The ids are returned after the bucket is released: that may lock a stripe, and no walk of
        // a chain should wait for it.
        drop(bucket);
        for (i, id) in taken.iter().enumerate().take(len).skip(before) {
            satisfied.get(i).into_iter().for_each(|entry| self.forget(*id, entry, reserve));
        }
    }

    /// Handles one timer that has fired; `None` if none has.
    pub(crate) fn take_expired(&self, now_ns: u64, reserve: &Reserve) -> Option<Expired<B>> {
        let id = self.deadlines.pop_due(now_ns)?;
        let slot = self.slot(id)?;
        let mut locked = LockedEntry { id, state: slot.state.lock() };
        // The wheel no longer has a timer for the slot. With 0 the next deadline sets it again, for
        // this entry or a later one.
        locked.state.timer_tick = 0;
        let key = locked.key();
        let Some(expires_at_ns) = locked.entry().map(|entry| entry.expires_at_ns) else {
            return Some(Expired::Nothing);
        };
        if !is_over(expires_at_ns, now_ns) {
            self.set_timer(&mut locked, expires_at_ns, now_ns);
            return Some(Expired::Nothing);
        }
        // The order is bucket, then entry. So the entry is released, and checked again under both
        // locks.
        drop(locked);
        let entry = self.take_if(key, |entry| is_over(entry.expires_at_ns, now_ns), reserve);
        Some(entry.map_or(Expired::Nothing, Expired::Entry))
    }

    /// Returns true if [`Pit::take_expired`] may handle a timer. Most calls of an embedder between
    /// two packets come earlier.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.deadlines.next_ns().is_some_and(|next_ns| next_ns <= now_ns)
    }

    /// The time at which [`Pit::take_expired`] should be called next; `None` while nothing is
    /// pending.
    pub(crate) fn next_deadline_ns(&self) -> Option<u64> {
        self.deadlines.next_ns().filter(|_| self.len() > 0)
    }

    /// Visits the entries of `count` slots from `from`, each under its own lock. Returns the next
    /// position.
    pub(crate) fn walk(&self, from: Id, count: Id, mut visit: impl FnMut(&PitEntry<B>)) -> Option<Id> {
        let until = from.saturating_add(count).min(self.ids.end());
        for slot in (from.max(1)..until).filter_map(|id| self.slot(id)) {
            slot.state.lock().storage.get().into_iter().for_each(&mut visit);
        }
        (until < self.ids.end()).then_some(until)
    }

    /// Up to `most` pending Interests for exactly `name`, with any selectors.
    pub(crate) fn of_name(&self, name: Key<'_>, most: usize) -> Vec<PendingInterest> {
        let mut found = Vec::new();
        let hash = name.hashes.whole();
        let bucket = self.lock_bucket(hash);
        self.find(bucket.first(), hash, |entry| {
            if found.len() < most && entry.name_without_digest() == name.octets {
                let sent_to = |record: &OutRecord| SentTo {
                    face: record.face.id(),
                    sent_at_ns: record.sent_at_ns,
                    nack: record.nack,
                };
                found.push(PendingInterest {
                    expires_at_ns: entry.expires_at_ns,
                    downstreams: entry.in_records.iter().map(|record| record.face.id()).collect(),
                    upstreams: entry.out_records.iter().map(sent_to).collect(),
                });
            }
            false
        });
        found
    }

    /// The prefetches for a batch; see [`crate::Batch`].
    pub(crate) fn read_ahead(&self) -> PitReadAhead<'_, B, R> {
        PitReadAhead { pit: self, buckets: self.buckets.present() }
    }

    #[inline]
    fn lock_bucket(&self, hash: u64) -> Chain<'_, R> {
        self.buckets.lock(hash, |id| {
            let slot = self.slot(id)?;
            // Relaxed: written under the bucket's lock, which a split holds.
            Some(Node { hash: slot.hash.load(Ordering::Relaxed), next: &slot.link.next })
        })
    }

    #[inline]
    fn slot(&self, id: Id) -> Option<&Slot<B, R>> {
        // The end of a chain: the pool would look for it beyond its pages.
        if id == NONE { None } else { self.slots.get(id as usize - 1) }
    }

    /// Allocates the slots and timers of the run of ids that begins with `id`, and begins a stage
    /// of buckets if it needs one.
    #[cold]
    fn make_run(&self, id: Id) -> Option<()> {
        self.slots.get_or_make((id as usize).wrapping_sub(1), Slot::new)?;
        self.deadlines.make_room(id).ok()?;
        self.buckets.grow(id as usize + RUN - 1);
        Some(())
    }

    /// The first entry of a chain that has this hash and that `matches` confirms. The caller holds
    /// the chain's bucket.
    fn find(
        &self,
        head: Id,
        hash: u64,
        mut matches: impl FnMut(&PitEntry<B>) -> bool,
    ) -> Option<LockedEntry<'_, B, R>> {
        let mut id = head;
        while let Some(slot) = self.slot(id) {
            // Relaxed: hash and link are written under the bucket's lock, which the caller holds.
            if slot.hash.load(Ordering::Relaxed) == hash {
                let state = slot.state.lock();
                if state.storage.get().is_some_and(&mut matches) {
                    return Some(LockedEntry { id, state });
                }
            }
            id = slot.link.next.load(Ordering::Relaxed);
        }
        None
    }

    /// Unlinks a slot from a chain.
    fn unlink(&self, bucket: &mut Chain<'_, R>, id: Id, slot: &Slot<B, R>) {
        let next = slot.link.next.load(Ordering::Relaxed);
        if bucket.first() == id {
            return bucket.set_first(next);
        }
        let mut at = bucket.first();
        while let Some(before) = self.slot(at) {
            at = before.link.next.load(Ordering::Relaxed);
            if at == id {
                before.link.next.store(next, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Reverts the counts of a removed entry and frees its slot.
    fn forget(&self, id: Id, entry: &PitEntry<B>, reserve: &Reserve) {
        if entry.can_be_prefix() {
            self.prefix_lengths[usize::from(entry.components)].fetch_sub(1, Ordering::Relaxed);
        }
        entry.in_records.iter().for_each(|record| self.by_face.sub(record.face, reserve));
        self.ids.give(id, reserve, |id| self.link(id));
    }

    /// Takes back the storage that a finished entry was lent.
    #[inline]
    pub(crate) fn recycle(&self, entry: &mut PitEntry<B>) {
        self.ids.keep(entry.stripe, entry.in_records.reclaim(), entry.out_records.reclaim());
    }

    fn free(&self, prepared: Option<Id>, reserve: &Reserve) {
        if let Some(id) = prepared {
            self.ids.give(id, reserve, |id| self.link(id));
        }
    }

    /// Returns ids and counts that were reserved for packets and not used.
    pub(crate) fn settle(&self, reserve: &Reserve) {
        self.ids.settle(reserve, |id| self.link(id));
        self.by_face.settle(reserve);
    }

    fn link(&self, id: Id) -> Option<&Link> {
        self.slot(id).map(|slot| &slot.link)
    }

    /// Makes sure that the slot's timer fires no later than `deadline_ns`.
    fn set_timer(&self, locked: &mut LockedEntry<'_, B, R>, deadline_ns: u64, now_ns: u64) {
        let timer_tick = locked.state.timer_tick;
        let sooner = short_tick(tick_of(deadline_ns)).wrapping_sub(timer_tick) as i32;
        // A timer that fires too early is cheap, but moving it for each retransmission is not. So
        // it is set only if it would fire too late.
        if timer_tick == 0 || sooner < 0 {
            let deadline_ns = deadline_ns.min(now_ns.saturating_add(TIMER_AHEAD_NS_MAX));
            locked.state.timer_tick = short_tick(self.deadlines.set(locked.id, deadline_ns, now_ns));
        }
    }
}

/// The buckets in use, which are found once for all packets of a batch.
pub(crate) struct PitReadAhead<'p, B, R> {
    pit: &'p Pit<B, R>,
    buckets: PresentBuckets<'p, R>,
}

impl<B: AsRef<[u8]> + Clone, R: RawMutex> PitReadAhead<'_, B, R> {
    /// Prefetches the first cache line of a lookup of `hash`.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.buckets.prefetch(hash);
    }

    /// Prefetches the first entry of the chain of `hash`.
    #[inline]
    pub(crate) fn prefetch_entry(&self, hash: u64) {
        self.pit.slot(self.buckets.first(hash)).into_iter().for_each(prefetch);
    }
}

/// Maximum time by which a timer is set ahead, about two weeks. Half of the bits of a tick then
/// suffice to compare two ticks. A timer that fires early is set again.
const TIMER_AHEAD_NS_MAX: u64 = 1 << (30 + TICK_SHIFT);

/// A tick as a slot stores it, in half the memory; never 0.
fn short_tick(tick: u64) -> u32 {
    (tick as u32).max(1)
}

impl<B> SlotState<B> {
    /// Takes the entry out; the slot is then free for another one.
    fn take(&mut self) -> Option<PitEntry<B>> {
        self.serial = self.serial.wrapping_add(1);
        self.storage.take()
    }
}

/// Returns true if the tick of a deadline is reached.
fn is_over(expires_at_ns: u64, now_ns: u64) -> bool {
    tick_of(expires_at_ns) <= now_ns >> TICK_SHIFT
}
