//! The forwarding information base: routable prefixes and their next hops (`IS-03`). Only routing
//! and the superuser write it (`IS-04`); applications bind prefixes in the BPT instead. Workers
//! read it without a lock.

use alloc::vec::Vec;
use core::fmt;

use lock_api::RawMutex;
use namely_wire::NameRef;

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::hash::{NameHasher, NameHashes};
use crate::inline_vec::InlineVec;
use crate::limits::FibLimits;
use crate::lock_order::WriterLock;
use crate::name_keys::Work;
use crate::ordered::Ordered;
use crate::prefix_table::{Key, NameOctets, NoBlock, Pair, Pairs, PrefixTable, Writer};
use crate::slab::Id;

/// The reason for which a next hop was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// There is no face with this id.
    NoFace,
    /// `fib_entries_max` names have next hops.
    TableFull,
    /// The name has `nexthops_max` next hops.
    NextHopsFull,
    /// There is no memory for the next hop.
    NoMemory,
}

impl fmt::Display for FibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FibError::NoFace => "no such face: list the faces to see which exist",
            FibError::TableFull => "the FIB is full: remove routes or raise fib_entries_max",
            FibError::NextHopsFull => "the prefix has as many next hops as nexthops_max allows",
            FibError::NoMemory => "no memory for the next hop: remove routes, or try again later",
        })
    }
}

impl core::error::Error for FibError {}

impl From<NoBlock> for FibError {
    fn from(none: NoBlock) -> Self {
        match none {
            NoBlock::Full => FibError::TableFull,
            NoBlock::NoMemory => FibError::NoMemory,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    pub(crate) face: FaceKey,
    pub(crate) cost: u64,
}

/// The next hops of a matched entry.
pub(crate) struct NextHops {
    /// The faces, cheapest first; none if no entry matches. Up to four need no allocation.
    pub(crate) faces: InlineVec<FaceKey, 4>,
    /// The hash of the entry's name.
    pub(crate) prefix_hash: u64,
    /// True if there was no memory for all faces.
    pub(crate) is_cut: bool,
}

impl NextHops {
    /// The result if no entry matches.
    pub(crate) fn none() -> Self {
        NextHops { faces: InlineVec::new(), prefix_hash: 0, is_cut: false }
    }
}

pub(crate) struct Fib<R> {
    table: PrefixTable,
    control: WriterLock<R, Control>,
    entries_max: usize,
    nexthops_max: usize,
}

struct Control {
    writer: Writer,
    // The entries of each face, which are visited when the face is released.
    by_face: Ordered<(FaceKey, Id), ()>,
}

impl NextHop {
    fn pair(self) -> Pair {
        (self.face.bits(), self.cost)
    }

    fn from_pair(pair: Pair) -> Self {
        let (face, cost) = pair;
        NextHop { face: FaceKey::from_bits(face), cost }
    }
}

impl<R: RawMutex> Fib<R> {
    pub(crate) fn new(limits: &FibLimits) -> Result<Self, ConfigError> {
        let FibLimits { entries_max, nexthops_max } = *limits;
        let table = PrefixTable::new(entries_max)?;
        let control = Control { writer: Writer::default(), by_face: Ordered::with_room(entries_max)? };
        Ok(Fib { table, control: WriterLock::new(control), entries_max, nexthops_max })
    }

    /// Allocates the next chunk of memory if it is due; returns true if it did.
    pub(crate) fn grow(&self) -> Result<bool, ConfigError> {
        self.table.grow()
    }

    /// Allocates the memory for `names` more names of `octets` octets each, with one next hop each.
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
            // A reader during a write may see more pairs than the entry has next hops, so the limit
            // applies here, too.
            for hop in pairs.take(self.nexthops_max) {
                if !nexthops.faces.push(FaceKey::from_bits(hop.0)) {
                    nexthops.is_cut = true;
                    break;
                }
            }
            Some(nexthops)
        };
        self.table.find_longest(self.control.mutex(), key, nexthops).unwrap_or_else(NextHops::none)
    }

    /// The length of the longest prefix of `key` in components, and its next hops, cheapest first.
    pub(crate) fn longest_with_costs(&self, key: Key<'_>) -> Option<(usize, Vec<NextHop>)> {
        let hops =
            |n, pairs: Pairs<'_>| Some((n, pairs.take(self.nexthops_max).map(NextHop::from_pair).collect()));
        self.table.find_longest(self.control.mutex(), key, hops)
    }

    /// Prefetches the array of prefix lengths, which a lookup reads first; see [`crate::Batch`].
    pub(crate) fn prefetch_lengths(&self, hashes: &NameHashes) {
        self.table.prefetch_lengths(hashes);
    }

    /// Prefetches the buckets that a lookup reads first, once the lengths are in the cache.
    pub(crate) fn prefetch_buckets(&self, hashes: &NameHashes) {
        self.table.prefetch_buckets(hashes);
    }

    /// Prefetches the entry that a lookup will find, once its bucket is in the cache.
    pub(crate) fn prefetch_entry(&self, hashes: &NameHashes) {
        self.table.prefetch_entry(hashes);
    }

    /// The length of the longest prefix of `key` in components, if it leads to `face`.
    pub(crate) fn leads_to(&self, key: Key<'_>, face: FaceKey) -> Option<usize> {
        let leads = |n, mut pairs: Pairs<'_>| Some((n, pairs.any(|hop| hop.0 == face.bits())));
        let (n, leads) = self.table.find_longest(self.control.mutex(), key, leads)?;
        leads.then_some(n)
    }

    /// Adds a next hop, or changes its cost. A refusal changes nothing.
    pub(crate) fn add(&self, key: Key<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        let Control { writer, by_face } = &mut *self.control.lock();
        let (n, new) = (key.hashes.len(), NextHop { face, cost });
        // The capacity is reserved before anything changes. An entry that is missing in `by_face`
        // would outlast its faces.
        by_face.reserve().map_err(|_| FibError::NoMemory)?;
        let id = match self.table.find(writer, key, n) {
            Some(id) => {
                let nexthops = self.with(self.table.pairs(writer, id), new)?;
                let pairs = nexthops.iter().map(|hop| hop.pair());
                self.table.set_pairs(writer, id, nexthops.len(), pairs)?;
                id
            }
            None if self.table.len() >= self.entries_max => return Err(FibError::TableFull),
            None => self.table.insert(writer, key, n, new.pair())?,
        };
        // The capacity is reserved, so this cannot fail after the table has changed.
        by_face.insert((face, id), ()).map_err(|_| FibError::NoMemory)
    }

    /// `nexthops` with `new` inserted: sorted by cost, equal costs in order of insertion.
    fn with(&self, nexthops: impl Iterator<Item = Pair>, new: NextHop) -> Result<Vec<NextHop>, FibError> {
        let mut sorted: Vec<NextHop> = Vec::new();
        for hop in nexthops.map(NextHop::from_pair).filter(|hop| hop.face != new.face) {
            // Includes capacity for the new one.
            sorted.try_reserve(2).map_err(|_| FibError::NoMemory)?;
            sorted.push(hop);
        }
        if sorted.len() >= self.nexthops_max {
            return Err(FibError::NextHopsFull);
        }
        let at = sorted.partition_point(|hop| hop.cost <= new.cost);
        sorted.try_reserve(1).map_err(|_| FibError::NoMemory)?;
        sorted.insert(at, new);
        Ok(sorted)
    }

    /// Removes a next hop; returns true if it was there.
    pub(crate) fn remove(&self, key: Key<'_>, face: FaceKey) -> bool {
        let Control { writer, by_face } = &mut *self.control.lock();
        let Some(id) = self.table.find(writer, key, key.hashes.len()) else { return false };
        let was_there = by_face.remove(&(face, id)).is_some();
        if was_there {
            self.remove_nexthop(writer, key, id, face);
        }
        was_there
    }

    /// Removes up to `count` next hops of a released face; returns true if more may remain. Calls
    /// `removed` with the key of each prefix, under the lock of the FIB's writers. The key is in
    /// `work`.
    pub(crate) fn remove_face(
        &self,
        hasher: &NameHasher,
        work: &mut Work,
        face: FaceKey,
        count: usize,
        mut removed: impl FnMut(Key<'_>),
    ) -> bool {
        let (hashes, octets) = work.parts();
        let Control { writer, by_face } = &mut *self.control.lock();
        for _ in 0..count {
            let next = by_face.first_from(&(face, 0)).map(|(next, ())| next);
            let Some((_, id)) = next.filter(|(of, _)| *of == face) else { return false };
            // The lock is held for all prefixes of this call; `count` bounds that time.
            by_face.remove(&(face, id));
            let Some(name) = self.table.name(writer, id, octets) else { continue };
            let key = Key::filled(hasher, name, hashes);
            self.remove_nexthop(writer, key, id, face);
            removed(key);
        }
        true
    }

    /// Visits entries with their next hops; see [`PrefixTable::walk`].
    pub(crate) fn walk(
        &self,
        from: Id,
        count: Id,
        octets: &mut NameOctets,
        mut show: impl FnMut(NameRef<'_>, &mut dyn Iterator<Item = NextHop>) -> bool,
    ) -> Option<Id> {
        let control = self.control.lock();
        self.table.walk(&control.writer, from, count, octets, |prefix, pairs| {
            show(prefix, &mut pairs.map(NextHop::from_pair))
        })
    }

    /// Removes a next hop from the entry of the whole `key`. Removes the entry, too, if no next hop
    /// remains.
    fn remove_nexthop(&self, writer: &mut Writer, key: Key<'_>, id: Id, face: FaceKey) {
        if self.table.retain_pairs(writer, id, |hop| hop.0 != face.bits()) == 0 {
            self.table.remove(writer, key, key.hashes.len(), id);
        }
    }
}

#[cfg(test)]
mod tests;
