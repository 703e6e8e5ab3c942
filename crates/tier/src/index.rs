//! The position of each record by a keyed hash of its name: a table in memory, divided into shards.
//! Each shard has a filter and a lock, which is held for one lookup.

use std::sync::atomic::{AtomicUsize, Ordering};

use lock_api::Mutex;
use namely_host::CoreLock;

use super::filter::{Filter, FilterKind, scale};
use super::place::RecordPosition;

/// Denominator of the maximum load of a shard's table.
const LOAD_OF: usize = 5;
/// Numerator of the maximum load. A higher load would make probe runs, and so lookups, longer.
const LOAD_MAX: usize = 4;

/// Initial slots of a shard's table.
const PLACES_MIN: usize = 16;

/// Target number of records per shard. Growing moves all records of a shard at once.
const SHARD_RECORDS: usize = 8192;

/// A record in the table; the place "none" marks an empty slot.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    hash: u64,
    place: RecordPosition,
}

/// The index of a tier.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Mutex<CoreLock, Shard>]>,
    records: AtomicUsize,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexLookup {
    /// The filter excludes the record.
    Filtered,
    /// The record passed the filter but is not in the table.
    Missing,
    Found(RecordPosition),
}

impl Index {
    /// Creates an index for about `records` records.
    pub(crate) fn new(kind: FilterKind, records: usize) -> Self {
        // A power of two, because `shard` masks the hash.
        let shards = (records / SHARD_RECORDS).next_power_of_two().clamp(16, 4096);
        Index {
            shards: (0..shards).map(|_| Mutex::new(Shard::new(kind))).collect(),
            records: AtomicUsize::new(0),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<CoreLock, Shard> {
        // Uses other bits than those that choose a slot in the shard.
        &self.shards[hash as usize & (self.shards.len() - 1)]
    }

    pub(crate) fn records(&self) -> usize {
        // Relaxed: a count for limits and status, which guards no memory.
        self.records.load(Ordering::Relaxed)
    }

    /// Looks up a record. `seen` is called with the record's place, under the shard's lock, and
    /// returns the place to store.
    pub(crate) fn look(&self, hash: u64, seen: impl FnOnce(RecordPosition) -> RecordPosition) -> IndexLookup {
        let mut shard = self.shard(hash).lock();
        if !shard.filter.may_have(hash) {
            return IndexLookup::Filtered;
        }
        let Ok(at) = shard.find(hash) else { return IndexLookup::Missing };
        shard.entries[at].place = seen(shard.entries[at].place);
        IndexLookup::Found(shard.entries[at].place)
    }

    /// Inserts a record and replaces one with the same hash.
    pub(crate) fn insert(&self, hash: u64, place: RecordPosition) {
        let is_new = self.shard(hash).lock().insert(hash, place, true);
        self.records.fetch_add(usize::from(is_new), Ordering::Relaxed);
    }

    /// Inserts a record unless there is one with the same hash. Returns whether it was inserted.
    pub(crate) fn insert_older(&self, hash: u64, place: RecordPosition) -> bool {
        let is_new = self.shard(hash).lock().insert(hash, place, false);
        self.records.fetch_add(usize::from(is_new), Ordering::Relaxed);
        is_new
    }

    /// Removes a record if it is still at `place`.
    pub(crate) fn remove(&self, hash: u64, place: RecordPosition) -> bool {
        let mut shard = self.shard(hash).lock();
        let is_there = match shard.find(hash) {
            Ok(at) if shard.entries[at].place.is(place) => {
                shard.remove(at);
                true
            }
            _ => false,
        };
        drop(shard);
        self.records.fetch_sub(usize::from(is_there), Ordering::Relaxed);
        is_there
    }

    /// Returns all records of a slot. Each shard is locked for one pass.
    pub(crate) fn slot_records(&self, slot: usize) -> Vec<(u64, RecordPosition)> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let is_in = |entry: &&Entry| !entry.place.is_none() && entry.place.slot() == slot;
            found.extend(shard.entries.iter().filter(is_in).map(|entry| (entry.hash, entry.place)));
        }
        found
    }

    /// Octets of tables and filters.
    pub(crate) fn memory_octets(&self) -> usize {
        let octets = |shard: &Mutex<CoreLock, Shard>| {
            let shard = shard.lock();
            shard.entries.capacity() * size_of::<Entry>() + shard.filter.memory_octets()
        };
        self.shards.iter().map(octets).sum::<usize>() + size_of_val(&*self.shards)
    }
}

/// A table with linear probing, and its filter.
#[derive(Debug)]
struct Shard {
    kind: FilterKind,
    entries: Vec<Entry>,
    taken: usize,
    filter: Filter,
}

impl Shard {
    fn new(kind: FilterKind) -> Self {
        Shard {
            kind,
            entries: Vec::new(),
            taken: 0,
            filter: Filter::build(kind, PLACES_MIN, std::iter::empty()),
        }
    }

    /// Returns the slot of a hash, or as an error the free slot for it. The error is 0 if the table
    /// has no slots.
    fn find(&self, hash: u64) -> Result<usize, usize> {
        if self.entries.is_empty() {
            return Err(0);
        }
        let mut at = scale(hash, self.entries.len());
        // The load is below one, so each run ends at an empty slot.
        loop {
            let entry = self.entries[at];
            if entry.place.is_none() {
                return Err(at);
            }
            if entry.hash == hash {
                return Ok(at);
            }
            at = self.next(at);
        }
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.entries.len() { 0 } else { at + 1 }
    }

    /// Returns whether the record is new.
    fn insert(&mut self, hash: u64, place: RecordPosition, replaces: bool) -> bool {
        // A known record needs no new slot, so the table does not grow for it.
        if let Ok(at) = self.find(hash) {
            if replaces {
                self.entries[at].place = place;
            }
            return false;
        }
        if (self.taken + 1) * LOAD_OF > self.entries.len() * LOAD_MAX {
            self.grow();
        }
        // Searched again, because growing moves the entries.
        let (Ok(at) | Err(at)) = self.find(hash);
        self.entries[at] = Entry { hash, place };
        self.taken += 1;
        // A failed insertion has displaced another fingerprint, so the filter is built anew.
        if !self.filter.insert(hash) {
            self.build_filter();
        }
        true
    }

    /// Makes the table a quarter larger. A record then takes between 20 and 25 octets of it.
    fn grow(&mut self) {
        let places = (self.entries.len() * 5 / 4).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.entries, vec![Entry::default(); places]);
        for entry in old.into_iter().filter(|entry| !entry.place.is_none()) {
            let (Ok(at) | Err(at)) = self.find(entry.hash);
            self.entries[at] = entry;
        }
        self.build_filter();
    }

    fn build_filter(&mut self) {
        let there = self.entries.iter().filter(|entry| !entry.place.is_none());
        // The filter has room until the table grows, which builds the filter again.
        let room = self.entries.len() * LOAD_MAX / LOAD_OF + 1;
        self.filter = Filter::build(self.kind, room, there.map(|entry| entry.hash));
    }

    fn remove(&mut self, at: usize) {
        self.filter.remove(self.entries[at].hash);
        self.taken -= 1;
        let (mut free, mut next) = (at, self.next(at));
        // Entries that the removed one displaced move back.
        while !self.entries[next].place.is_none() {
            let home = scale(self.entries[next].hash, self.entries.len());
            let is_between = match free <= next {
                true => free < home && home <= next,
                false => free < home || home <= next,
            };
            if !is_between {
                self.entries[free] = self.entries[next];
                free = next;
            }
            next = self.next(next);
        }
        self.entries[free] = Entry::default();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::place::{Expiry, UNIT_OCTETS};
    use super::*;

    fn place(slot: usize, unit: u64) -> RecordPosition {
        RecordPosition::new(slot, unit * UNIT_OCTETS as u64, 100, Expiry::new(0, 0))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64, u64),
        InsertOlder(u64, u64),
        Remove(u64),
        RemoveOther(u64),
        IndexLookup(u64),
        EvictSlot(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few hashes, many of them with the same home slot.
        let hash = (0..40_u64, 0..4_u64).prop_map(|(low, high)| low | high << 62);
        prop_oneof![
            6 => (hash.clone(), 0..64_u64).prop_map(|(hash, unit)| Step::Insert(hash, unit)),
            2 => (hash.clone(), 0..64_u64).prop_map(|(hash, unit)| Step::InsertOlder(hash, unit)),
            4 => hash.clone().prop_map(Step::Remove),
            1 => hash.clone().prop_map(Step::RemoveOther),
            4 => hash.prop_map(Step::IndexLookup),
            1 => (0..4_usize).prop_map(Step::EvictSlot),
        ]
    }

    proptest! {
        #[test]
        fn an_index_matches_a_plain_map(
            steps in proptest::collection::vec(step(), 1..400),
            kind in 0..3_usize,
        ) {
            let kind = [FilterKind::Cuckoo, FilterKind::CountingBloom, FilterKind::None][kind];
            let index = Index::new(kind, 0);
            let mut map: BTreeMap<u64, RecordPosition> = BTreeMap::new();
            let at = |unit: u64| place(unit as usize % 4, unit);
            for step in steps {
                match step {
                    Step::Insert(hash, unit) => {
                        index.insert(hash, at(unit));
                        map.insert(hash, at(unit));
                    }
                    Step::InsertOlder(hash, unit) => {
                        prop_assert_eq!(index.insert_older(hash, at(unit)), !map.contains_key(&hash));
                        map.entry(hash).or_insert(at(unit));
                    }
                    Step::Remove(hash) => {
                        let there = map.remove(&hash);
                        prop_assert!(there.is_none_or(|place| index.remove(hash, place)));
                    }
                    Step::RemoveOther(hash) => prop_assert!(!index.remove(hash, place(9, 9))),
                    Step::IndexLookup(hash) => {
                        let found = index.look(hash, RecordPosition::read);
                        match map.get_mut(&hash) {
                            Some(place) => {
                                *place = place.read();
                                prop_assert_eq!(found, IndexLookup::Found(*place));
                            }
                            None => prop_assert!(!matches!(found, IndexLookup::Found(_))),
                        }
                    }
                    Step::EvictSlot(slot) => {
                        let mut gone = index.slot_records(slot);
                        gone.sort_by_key(|(hash, _)| *hash);
                        let expected: Vec<_> =
                            map.iter().filter(|(_, place)| place.slot() == slot).map(|(h, p)| (*h, *p)).collect();
                        prop_assert_eq!(&gone, &expected);
                        for (hash, place) in gone {
                            index.remove(hash, place);
                            map.remove(&hash);
                        }
                    }
                }
                prop_assert_eq!(index.records(), map.len());
            }
            for (hash, place) in &map {
                prop_assert_eq!(index.look(*hash, |place| place), IndexLookup::Found(*place));
            }
        }
    }

    #[test]
    fn an_index_record_takes_32_octets() {
        for kind in [FilterKind::Cuckoo, FilterKind::CountingBloom] {
            let index = Index::new(kind, 300_000);
            let mut hash = 1_u64;
            for n in 0..300_000 {
                hash = hash.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                index.insert(hash.rotate_left(31) ^ hash, place(1, n));
                let octets = index.memory_octets();
                if n > 200_000 && n % 997 == 0 {
                    assert!(octets <= 32 * index.records(), "{kind:?}: {octets} for {}", index.records());
                }
            }
        }
    }
}
