//! The forwarding information base: routable prefixes and their next hops (`IS-03`). Written by
//! routing and by the superuser only (`IS-04`); applications bind prefixes in the BPT instead.
//! Workers read it without a lock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use lock_api::{Mutex, RawMutex};
use namely_wire::{Name, mgmt};

use crate::config::ConfigError;
use crate::faces::FaceKey;
use crate::hash::{NameHasher, NameHashes};
use crate::inline_vec::InlineVec;
use crate::prefix_table::{Key, Pair, Pairs, PrefixTable, Writer};
use crate::slab::Id;

/// Why a next hop was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// There is no face with this id.
    NoFace,
    /// `fib_entries_max` names have next hops.
    TableFull,
    /// The name has `nexthops_max` next hops.
    NextHopsFull,
}

impl fmt::Display for FibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FibError::NoFace => "no such face: list the faces to see which exist",
            FibError::TableFull => "the FIB is full: remove routes or raise fib_entries_max",
            FibError::NextHopsFull => "the prefix has as many next hops as nexthops_max allows",
        })
    }
}

impl core::error::Error for FibError {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    pub(crate) face: FaceKey,
    pub(crate) cost: u64,
}

/// What forwarding needs of the entry that a name matches.
pub(crate) struct NextHops {
    /// The faces, cheapest first; none if no entry matches. Without allocation up to four.
    pub(crate) faces: InlineVec<FaceKey, 4>,
    /// The hash of the entry's name.
    pub(crate) prefix_hash: u64,
    /// There was no memory for all faces.
    pub(crate) is_cut: bool,
}

impl NextHops {
    /// No entry.
    pub(crate) fn none() -> Self {
        NextHops { faces: InlineVec::new(), prefix_hash: 0, is_cut: false }
    }
}

pub(crate) struct Fib<R> {
    table: PrefixTable,
    control: Mutex<R, Control>,
    entries_max: usize,
    nexthops_max: usize,
}

#[derive(Default)]
struct Control {
    writer: Writer,
    // Which entries to visit when a face goes.
    by_face: BTreeMap<FaceKey, BTreeSet<Id>>,
}

impl NextHop {
    fn pair(self) -> Pair {
        (self.face.bits(), self.cost)
    }

    fn from_pair((face, cost): Pair) -> Self {
        NextHop { face: FaceKey::from_bits(face), cost }
    }
}

impl<R: RawMutex> Fib<R> {
    pub(crate) fn new(entries_max: usize, nexthops_max: usize) -> Result<Self, ConfigError> {
        let table = PrefixTable::new(entries_max)?;
        Ok(Fib { table, control: Mutex::new(Control::default()), entries_max, nexthops_max })
    }

    /// Makes the next memory; returns true if any was made.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        self.table.grow()
    }

    /// Makes the memory for `names` more names of so many octets each, and one next hop.
    pub(crate) fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.table.make_room(names, octets)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The faces of the longest prefix of `key`. Entries without next hops do not exist.
    pub(crate) fn longest_match(&self, key: Key<'_>) -> NextHops {
        let nexthops = |n, pairs: Pairs<'_>| {
            let mut nexthops = NextHops { prefix_hash: key.hashes.hash(n), ..NextHops::none() };
            for hop in pairs.take(self.nexthops_max) {
                if !nexthops.faces.push(FaceKey::from_bits(hop.0)) {
                    nexthops.is_cut = true;
                    break;
                }
            }
            Some(nexthops)
        };
        self.table.find_longest(&self.control, key, nexthops).unwrap_or_else(NextHops::none)
    }

    /// How long the longest prefix of `key` is, in components, and its next hops, cheapest first.
    pub(crate) fn longest_with_costs(&self, key: Key<'_>) -> Option<(usize, Vec<NextHop>)> {
        let hops =
            |n, pairs: Pairs<'_>| Some((n, pairs.take(self.nexthops_max).map(NextHop::from_pair).collect()));
        self.table.find_longest(&self.control, key, hops)
    }

    /// Prefetches what decides where a lookup begins; see [`crate::Batch`].
    pub(crate) fn prefetch_lengths(&self, hashes: &NameHashes) {
        self.table.prefetch_lengths(hashes);
    }

    /// Prefetches the lines where a lookup begins, once that is at hand.
    pub(crate) fn prefetch_buckets(&self, hashes: &NameHashes) {
        self.table.prefetch_buckets(hashes);
    }

    /// Prefetches the line of the entry that a lookup will find, once its bucket is at hand.
    pub(crate) fn prefetch_entry(&self, hashes: &NameHashes) {
        self.table.prefetch_entry(hashes);
    }

    /// How long the longest prefix of `key` is, in components, if it leads to `face`.
    pub(crate) fn leads_to(&self, key: Key<'_>, face: FaceKey) -> Option<usize> {
        let leads = |n, mut pairs: Pairs<'_>| Some((n, pairs.any(|hop| hop.0 == face.bits())));
        let (n, leads) = self.table.find_longest(&self.control, key, leads)?;
        leads.then_some(n)
    }

    /// Adds a next hop, or changes its cost.
    pub(crate) fn add(&self, key: Key<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        let Control { writer, by_face } = &mut *self.control.lock();
        let (n, new) = (key.hashes.len(), NextHop { face, cost });
        let id = match self.table.find(writer, key, n) {
            Some(id) => {
                let nexthops = self.with(&self.nexthops(writer, id), new)?;
                let pairs: Vec<Pair> = nexthops.into_iter().map(NextHop::pair).collect();
                if !self.table.set_pairs(writer, id, &pairs) {
                    return Err(FibError::TableFull);
                }
                id
            }
            None if self.table.len() >= self.entries_max => return Err(FibError::TableFull),
            None => self.table.insert(writer, key, n, new.pair()).ok_or(FibError::TableFull)?,
        };
        by_face.entry(face).or_default().insert(id);
        Ok(())
    }

    /// `nexthops` with `new` in its place: sorted by cost, equal costs in the order they came.
    fn with(&self, nexthops: &[NextHop], new: NextHop) -> Result<Vec<NextHop>, FibError> {
        let mut sorted: Vec<NextHop> = nexthops.iter().filter(|hop| hop.face != new.face).copied().collect();
        if sorted.len() >= self.nexthops_max {
            return Err(FibError::NextHopsFull);
        }
        let at = sorted.partition_point(|hop| hop.cost <= new.cost);
        sorted.insert(at, new);
        Ok(sorted)
    }

    /// Removes a next hop; returns true if it was there.
    pub(crate) fn remove(&self, key: Key<'_>, face: FaceKey) -> bool {
        let Control { writer, by_face } = &mut *self.control.lock();
        let Some(id) = self.table.find(writer, key, key.hashes.len()) else { return false };
        if let Some(entries) = by_face.get_mut(&face) {
            entries.remove(&id);
            if entries.is_empty() {
                by_face.remove(&face);
            }
        }
        self.remove_nexthop(writer, key, id, face)
    }

    /// Removes up to `count` next hops of a face that is gone; returns true if more may remain.
    /// `removed` is told of each prefix, whose hashes are put into `hashes`, under the lock of the
    /// FIB's writers.
    pub(crate) fn remove_face(
        &self,
        (hasher, hashes): (&NameHasher, &mut NameHashes),
        face: FaceKey,
        count: usize,
        mut removed: impl FnMut(Key<'_>),
    ) -> bool {
        let Control { writer, by_face } = &mut *self.control.lock();
        for _ in 0..count {
            let Some(id) = by_face.get_mut(&face).and_then(BTreeSet::pop_first) else {
                by_face.remove(&face);
                return false;
            };
            let Some(name) = self.table.name(writer, id) else { continue };
            let key = Key::filled(hasher, name.as_name(), hashes);
            self.remove_nexthop(writer, key, id, face);
            removed(key);
        }
        true
    }

    /// Part of a snapshot; see [`PrefixTable::walk`].
    pub(crate) fn walk(&self, from: Id, count: Id, entries: &mut Vec<mgmt::FibEntry>) -> Option<Id> {
        let control = self.control.lock();
        let (found, next) = self.table.walk(&control.writer, from, count);
        let next_hop = |pair| {
            let NextHop { face, cost } = NextHop::from_pair(pair);
            mgmt::NextHop { face_id: face.id().0, cost }
        };
        let entry = |(prefix, pairs): (Name, Vec<Pair>)| mgmt::FibEntry {
            prefix,
            next_hops: pairs.into_iter().map(next_hop).collect(),
        };
        entries.extend(found.map(entry));
        next
    }

    fn nexthops(&self, writer: &Writer, id: Id) -> Vec<NextHop> {
        self.table.pairs(writer, id).into_iter().map(NextHop::from_pair).collect()
    }

    /// Takes a next hop out of the entry of the whole `key`, and the entry out of the table with
    /// its last one.
    fn remove_nexthop(&self, writer: &mut Writer, key: Key<'_>, id: Id, face: FaceKey) -> bool {
        let before = self.table.pairs(writer, id);
        let after: Vec<Pair> = before.iter().copied().filter(|hop| hop.0 != face.bits()).collect();
        if after.is_empty() {
            self.table.remove(writer, key, key.hashes.len(), id);
        } else if after.len() < before.len() && !self.table.set_pairs(writer, id, &after) {
            return false;
        }
        after.len() < before.len()
    }
}

#[cfg(test)]
mod tests;
