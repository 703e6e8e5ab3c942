//! Next hops.

use alloc::vec::Vec;

use lock_api::RawMutex;
use namely_messages::{FibEntry, NextHop};
use namely_wire::NameRef;

use crate::error::ConfigError;
use crate::face_id::{FaceId, FaceKey};
use crate::faces::Faces;
use crate::fib::{Fib, FibError};
use crate::limits::WALK_PLACES;
use crate::name_keys::NameKeys;
use crate::strategy::{FibChange, StrategyMemory};

/// The FIB, and the strategies that are notified of its changes: [`crate::Forwarder::fib`].
///
/// A change takes the lock of the name's work memory, and under it that of the FIB's writers. After
/// that, still under the first one, it locks a part of the strategies' memory.
pub struct FibControl<'a, R> {
    pub(crate) names: &'a NameKeys<R>,
    pub(crate) fib: &'a Fib<R>,
    pub(crate) memory: &'a StrategyMemory<R>,
    pub(crate) faces: &'a Faces<R>,
}

impl<R: RawMutex> FibControl<'_, R> {
    /// Adds a next hop to the FIB, or changes its cost. [`FaceId::LOCAL`] leads to the BPT.
    ///
    /// # Errors
    ///
    /// [`FibError`]: there is no such face, or a limit of the FIB is reached.
    pub fn add_nexthop(&self, name: NameRef<'_>, face: FaceId, cost: u64) -> Result<(), FibError> {
        let key = self.faces.key_of(face).ok_or(FibError::NoFace)?;
        self.enter_nexthop(name, key, cost)
    }

    pub(crate) fn enter_nexthop(&self, name: NameRef<'_>, key: FaceKey, cost: u64) -> Result<(), FibError> {
        self.add(name, key, cost)?;
        // The face was looked up before the next hop was entered. If it was released in between,
        // the removal of its next hops may have run before this one was entered.
        if !self.faces.was_released(key) {
            return Ok(());
        }
        self.remove(name, key);
        Err(FibError::NoFace)
    }

    /// Removes a next hop from the FIB; returns true if it was there.
    pub fn remove_nexthop(&self, name: NameRef<'_>, face: FaceId) -> bool {
        let Some(key) = self.faces.key_of(face) else { return false };
        self.remove(name, key)
    }

    /// Adds a next hop to the FIB, or changes its cost, and notifies the strategy with memory of
    /// the prefix.
    pub(crate) fn add(&self, name: NameRef<'_>, face: FaceKey, cost: u64) -> Result<(), FibError> {
        let added = self.names.with_entering(name, |prefix| {
            // The strategy is notified after the FIB has changed, while the name's work memory is
            // still locked: so changes of one prefix reach both in the same order.
            self.fib.add(prefix, face, cost)?;
            self.memory.fib_changed(prefix.hashes.whole(), FibChange::Added(face));
            Ok::<_, FibError>(())
        });
        added.unwrap_or(Err(FibError::NoMemory))
    }

    /// Removes a next hop from the FIB, and notifies the strategy; returns true if it was there.
    pub(crate) fn remove(&self, name: NameRef<'_>, face: FaceKey) -> bool {
        self.names.with(name, |prefix| {
            let removed = self.fib.remove(prefix, face);
            if removed {
                self.memory.fib_changed(prefix.hashes.whole(), FibChange::Removed(face));
            }
            removed
        })
    }

    /// The next hops of the FIB entry with the longest prefix of `name`, cheapest first, each with
    /// true if it leads to an application of this machine.
    pub fn next_hops(&self, name: NameRef<'_>) -> Vec<(FaceId, bool)> {
        let hops = self.names.with(name, |key| self.fib.longest_with_costs(key));
        let hops = hops.map(|(_, hops)| hops).unwrap_or_default().into_iter().map(|hop| hop.face);
        let leads_here = |face: FaceKey| {
            face == FaceKey::LOCAL || self.faces.hold_key(face).is_some_and(|face| face.is_local())
        };
        hops.map(|face| (face.id(), leads_here(face))).collect()
    }

    /// All FIB entries.
    pub fn snapshot(&self) -> Vec<FibEntry> {
        let mut entries = Vec::new();
        let mut from = None;
        loop {
            from = self.walk(from, &mut entries);
            if from.is_none() {
                return entries;
            }
        }
    }

    /// Adds some FIB entries, at most [`WALK_PLACES`], to `entries`: the first ones, or those from
    /// a position that an earlier call returned. Returns the next position, if there is one.
    pub fn walk(&self, from: Option<u32>, entries: &mut Vec<FibEntry>) -> Option<u32> {
        self.show(from, WALK_PLACES, |prefix, hops| {
            let next_hops = hops.map(|(face, cost)| NextHop { face_id: face.0, cost }).collect();
            entries.push(FibEntry { prefix: prefix.into(), next_hops });
            true
        })
    }

    /// Visits the FIB entries of `slots` slots of the table from `from` on, each with its next
    /// hops and their costs, until `show` returns false. Allocates nothing, and holds the FIB's
    /// lock. Returns the next position: that of the refused entry, or the one after the last.
    pub fn show(
        &self,
        from: Option<u32>,
        slots: u32,
        mut show: impl FnMut(NameRef<'_>, &mut dyn Iterator<Item = (FaceId, u64)>) -> bool,
    ) -> Option<u32> {
        let octets = &mut self.names.work().octets;
        self.fib.walk(from.unwrap_or(1), slots, octets, |prefix, hops| {
            show(prefix, &mut hops.map(|hop| (hop.face.id(), hop.cost)))
        })
    }

    /// Allocates memory for `names` more names, of `octets` each, so that
    /// [`FibControl::add_nexthop`] needs no chunk for them.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfMemory`].
    pub fn make_room(&self, names: usize, octets: usize) -> Result<(), ConfigError> {
        self.fib.make_room(names, octets)
    }
}
