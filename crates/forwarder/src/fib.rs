//! The forwarding information base: routable prefixes and their next hops (`IS-03`). Written by routing and
//! by the superuser only (`IS-04`); applications bind prefixes in the BPT instead.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use namely_wire::Name;

use crate::faces::{FaceId, FaceKey};
use crate::few::Few;
use crate::prefix_table::{Key, PrefixTable};
use crate::slab::Id;

/// A FIB entry in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibEntry {
    /// The prefix.
    pub name: Name,
    /// Its next hops, cheapest first.
    pub nexthops: Vec<(FaceId, u64)>,
}

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

/// Next hops sorted by cost; equal costs in the order they came.
pub(crate) type NextHops = Few<NextHop, 2>;

pub(crate) struct Fib {
    table: PrefixTable<NextHops>,
    // Which entries to visit when a face goes.
    by_face: BTreeMap<FaceKey, BTreeSet<Id>>,
    entries_max: usize,
    nexthops_max: usize,
}

impl Fib {
    pub(crate) fn new(entries_max: usize, nexthops_max: usize) -> Self {
        Fib { table: PrefixTable::new(entries_max), by_face: BTreeMap::new(), entries_max, nexthops_max }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Next hops of the longest prefix of `key`. Entries without next hops do not exist.
    pub(crate) fn longest_match(&self, key: Key<'_>) -> Option<&NextHops> {
        self.table.matches(key).next()
    }

    /// Whether some prefix of `key` leads to `face`.
    pub(crate) fn leads_to(&self, key: Key<'_>, face: FaceKey) -> bool {
        self.table.matches(key).any(|nexthops| nexthops.iter().any(|hop| hop.face == face))
    }

    /// Adds a next hop, or changes its cost.
    pub(crate) fn add(&mut self, key: Key<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        let n = key.hashes.len();
        let id = match self.table.find(key, n) {
            Some(id) => id,
            None if self.table.len() >= self.entries_max => return Err(FibError::TableFull),
            None => self.table.insert(key, n, Few::new()),
        };
        let Some(nexthops) = self.table.value_mut(id) else { return Ok(()) };
        let is_new = !nexthops.iter().any(|hop| hop.face == face);
        if is_new && nexthops.len() >= self.nexthops_max {
            return Err(FibError::NextHopsFull);
        }
        nexthops.retain(|hop| hop.face != face);
        insert_sorted(nexthops, NextHop { face, cost });
        self.by_face.entry(face).or_default().insert(id);
        Ok(())
    }

    /// Removes a next hop; says whether it was there.
    pub(crate) fn remove(&mut self, key: Key<'_>, face: FaceKey) -> bool {
        let Some(id) = self.table.find(key, key.hashes.len()) else { return false };
        if let Some(entries) = self.by_face.get_mut(&face) {
            entries.remove(&id);
            if entries.is_empty() {
                self.by_face.remove(&face);
            }
        }
        self.remove_nexthop(id, face)
    }

    /// Removes up to `count` next hops of a face that is gone; says whether more may remain.
    pub(crate) fn remove_face(&mut self, face: FaceKey, count: usize) -> bool {
        for _ in 0..count {
            let Some(id) = self.by_face.get_mut(&face).and_then(BTreeSet::pop_first) else {
                self.by_face.remove(&face);
                return false;
            };
            self.remove_nexthop(id, face);
        }
        true
    }

    /// Part of a snapshot; see [`PrefixTable::walk`].
    pub(crate) fn walk(&self, from: Id, count: Id, entries: &mut Vec<FibEntry>) -> Option<Id> {
        let (found, next) = self.table.walk(from, count);
        entries.extend(found.map(|(name, nexthops)| FibEntry {
            name,
            nexthops: nexthops.iter().map(|hop| (hop.face.id(), hop.cost)).collect(),
        }));
        next
    }

    fn remove_nexthop(&mut self, id: Id, face: FaceKey) -> bool {
        let Some(nexthops) = self.table.value_mut(id) else { return false };
        let before = nexthops.len();
        nexthops.retain(|hop| hop.face != face);
        let removed = nexthops.len() < before;
        if nexthops.is_empty() {
            self.table.remove(id);
        }
        removed
    }
}

fn insert_sorted(nexthops: &mut NextHops, new: NextHop) {
    let mut sorted = NextHops::new();
    let mut pending = Some(new);
    for hop in core::mem::replace(nexthops, NextHops::new()) {
        if let Some(new) = pending.take_if(|new| new.cost < hop.cost) {
            sorted.push(new);
        }
        sorted.push(hop);
    }
    if let Some(new) = pending {
        sorted.push(new);
    }
    *nexthops = sorted;
}

#[cfg(test)]
mod tests;
