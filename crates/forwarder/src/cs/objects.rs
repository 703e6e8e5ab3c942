//! Data of registered objects (`VI-17` to `VI-19`): cached by plan, whole objects at a time, under
//! a budget of their own, apart from the policy of all other Data.
//!
//! The virtual plane computes the placement of each object and its worth in memory
//! ([`ObjectPlan`]). All Data of an object are in one list. When the first Data of an object is
//! admitted, all memory that its plan requires is reserved. So no later object takes memory that
//! the first one needs to be cached completely. Without free memory, objects that are worth less
//! than the new one are evicted, each as a whole, if that frees enough. Eviction begins only when a
//! Data arrives that needs the memory, so an object stays until a better one replaces it (Algorithm
//! 2).
//!
//! An object is evicted Data by Data: as many as a new Data needs, and the others in rounds
//! ([`TURN`]). Until then its remaining Data still answers Interests.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::index::Handle;
use crate::counters::ObjectCounts;
use crate::cs::admission::AdmissionOutcome;
use crate::cs::policy::lists::{List, Record, Records};
use crate::error::ConfigError;
use crate::objects::ObjectMatch;
use crate::pool::boxed;
use crate::slab::Id;

/// Data of evicted objects that one round removes.
///
/// # Limit
/// The next round follows after 1 ms; an arriving Data removes as many as it needs.
/// - Counter: `objects_evicted_data`
/// - Tests: `a_larger_object_leaves_in_bounded_turns`
pub(crate) const TURN: usize = 256;

/// Data of evicted objects removed under one hold of the lock.
///
/// # Limit
/// The lock is released before further ones are removed.
/// - Counter: `objects_evicted_data`
/// - Tests: `a_larger_object_leaves_in_bounded_turns`
pub(super) const AT_ONCE: usize = 32;

/// The list of the first slot; smaller numbers are the policy's.
// Far above the lists of any policy: LFU has the most, 255.
const FIRST_LIST: u32 = 1 << 16;

const NO_SLOT: u32 = u32::MAX;

/// The state behind the policy's lock.
#[derive(Default)]
pub(super) struct ObjectAccounting {
    /// The objects, if there ever were any.
    pub(super) kept: Option<Box<ObjectSlots>>,
    /// Their budget.
    pub(super) room: MemoryBudget,
}

/// The place where an object's Data are cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectPlacement {
    /// Nowhere. Data in memory stays until new Data needs its room.
    #[default]
    Nowhere,
    /// In memory.
    Memory,
    /// In the tier below the memory, which receives its Data on arrival.
    Tier,
    /// As Data of no object: the policy decides.
    Unplanned,
}

/// The plan for an object's Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectPlan {
    /// Where they are cached.
    pub placement: ObjectPlacement,
    /// The worth of the object in memory. Objects of less worth are evicted for it. An object with
    /// another placement has no worth there.
    pub worth: u64,
    /// Octets of memory that are reserved from its first Data on; its actual size if that is more.
    pub octets: u64,
}

/// The Data of an object in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectUsage {
    /// The number of its Data.
    pub packets: usize,
    /// Octets that they occupy.
    pub octets: u64,
    /// It is being evicted.
    pub is_leaving: bool,
}

/// The memory budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryBudget {
    pub(super) packets: usize,
    pub(super) octets: u64,
}

/// The decision about a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheDecision {
    Refuse,
    Tier,
    Memory,
    Unplanned,
}

/// A Data that was removed from its list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemovedData {
    pub(super) id: Id,
    /// Its object is placed in the tier.
    pub(super) to_tier: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It has no Data in memory.
    #[default]
    Empty,
    /// It has its memory reserved.
    Held,
    /// It is being evicted.
    Leaving,
}

/// An object and its Data.
struct Slot {
    id: Option<u64>,
    plan: ObjectPlan,
    list: List,
    octets: u64,
    state: State,
    /// The next object that is being evicted.
    next: u32,
    /// The value of [`ObjectSlots::changes`] when no room was found for it.
    refused_at: u64,
    /// Octets of the smallest Data refused since then.
    refused_octets: u64,
}

impl Slot {
    /// Octets of the budget that are reserved while it is held.
    fn room(&self) -> u64 {
        self.plan.octets.max(self.octets)
    }

    fn worth(&self) -> u64 {
        // Data of an object that the plan has moved elsewhere only stays until its memory is
        // needed.
        if self.plan.placement == ObjectPlacement::Memory { self.plan.worth } else { 0 }
    }
}

pub(super) struct ObjectSlots {
    slots: Box<[Slot]>,
    /// The slot of each object of the catalogue.
    of: Box<[u32]>,
    room: MemoryBudget,
    /// Incremented by every change that may make room.
    changes: u64,
    /// The first object that is being evicted, and the number of Data of all such objects.
    leaving: u32,
    leaving_packets: usize,
    pub(super) counts: ObjectCounts,
}

impl ObjectSlots {
    /// Creates a table for `objects_max` objects, without a budget.
    pub(super) fn new(objects_max: usize) -> Result<Box<Self>, ConfigError> {
        let mut numbers = FIRST_LIST..;
        let slot = || Slot {
            id: None,
            plan: ObjectPlan::default(),
            list: List::new(numbers.next().unwrap_or(u32::MAX)),
            octets: 0,
            state: State::Empty,
            next: NO_SLOT,
            refused_at: 0,
            refused_octets: 0,
        };
        Ok(Box::new(ObjectSlots {
            slots: boxed(objects_max, slot)?,
            of: boxed(objects_max, || NO_SLOT)?,
            room: MemoryBudget::default(),
            changes: 1,
            leaving: NO_SLOT,
            leaving_packets: 0,
            counts: ObjectCounts::default(),
        }))
    }

    /// Returns true if the record is of a Data of an object.
    #[inline]
    pub(super) fn has(record: &Record) -> bool {
        record.list >= FIRST_LIST
    }

    fn slot(&self, object: u32) -> Option<&Slot> {
        self.slots.get(*self.of.get(object as usize)? as usize)
    }

    pub(super) fn held(&self, object: u32) -> ObjectUsage {
        self.slot(object).map_or(ObjectUsage::default(), |slot| ObjectUsage {
            packets: slot.list.len(),
            octets: slot.octets,
            is_leaving: slot.state == State::Leaving,
        })
    }

    pub(super) fn has_leaving(&self) -> bool {
        self.leaving != NO_SLOT
    }

    pub(super) fn plan(&mut self, object: u32, plan: ObjectPlan) {
        let Some(slot) = self.of.get(object as usize).and_then(|at| self.slots.get_mut(*at as usize)) else {
            return;
        };
        if slot.plan != plan {
            let before = slot.room();
            slot.plan = plan;
            // Only a held object has a reservation: `dismiss` has ended that of a leaving one.
            if slot.state == State::Held {
                self.counts.reserved = self.counts.reserved - before + slot.room();
            }
            self.changes += 1;
        }
    }

    /// Changes the budget; evicts the objects of least worth if too much is reserved.
    pub(super) fn limit(&mut self, room: MemoryBudget) {
        self.room = room;
        self.changes += 1;
        while self.counts.reserved > room.octets || self.staying() > room.packets {
            let Some(worst) = self.worst() else { break };
            self.dismiss(worst);
        }
    }

    /// The number of Data of objects that are not being evicted.
    fn staying(&self) -> usize {
        self.counts.packets - self.leaving_packets
    }

    /// Returns the decision about a Data of `octets` octets.
    pub(super) fn judge(&mut self, found: ObjectMatch, octets: u64) -> CacheDecision {
        let at = self.of.get(found.object as usize).copied().unwrap_or(NO_SLOT);
        // The id is compared too: after an exchange of catalogues the same number may be another
        // object.
        let judged = match self.slots.get(at as usize).filter(|slot| slot.id == Some(found.id)) {
            None => CacheDecision::Refuse,
            Some(slot) => match slot.plan.placement {
                ObjectPlacement::Nowhere => CacheDecision::Refuse,
                ObjectPlacement::Tier => CacheDecision::Tier,
                ObjectPlacement::Unplanned => CacheDecision::Unplanned,
                ObjectPlacement::Memory => self.has_room(at, octets),
            },
        };
        match judged {
            CacheDecision::Refuse => self.counts.refused += 1,
            CacheDecision::Tier => self.counts.to_tier += 1,
            CacheDecision::Memory | CacheDecision::Unplanned => {}
        }
        judged
    }

    fn has_room(&mut self, at: u32, octets: u64) -> CacheDecision {
        let slot = &self.slots[at as usize];
        let (more, packets) = self.missing(slot, octets);
        let has_room = match slot.state {
            // New Data would join the list that the eviction empties, and the eviction might never
            // end.
            State::Leaving => false,
            _ if more == 0 && packets == 0 => true,
            // No change since the last refusal could make room for as many octets, so the walk over
            // all objects is saved.
            _ if slot.refused_at == self.changes && octets >= slot.refused_octets => false,
            _ => self.can_make(at, more, packets),
        };
        if has_room {
            return CacheDecision::Memory;
        }
        let changes = self.changes;
        let slot = &mut self.slots[at as usize];
        let smallest = if slot.refused_at == changes { slot.refused_octets } else { u64::MAX };
        (slot.refused_at, slot.refused_octets) = (changes, smallest.min(octets));
        CacheDecision::Refuse
    }

    /// Octets and packets that are missing for one more Data of a slot.
    fn missing(&self, slot: &Slot, octets: u64) -> (u64, usize) {
        // Its present reservation is replaced by the wanted one, so it must not count twice.
        let own = if slot.state == State::Held { slot.room() } else { 0 };
        let wanted = slot.plan.octets.max(slot.octets.saturating_add(octets));
        let reserved = self.counts.reserved - own;
        // Saturating: the plan's octets are the embedder's and may be any number.
        let more = reserved.saturating_add(wanted).saturating_sub(self.room.octets);
        (more, (self.staying() + 1).saturating_sub(self.room.packets))
    }

    /// Returns true if the objects of less worth than a slot have that much memory.
    fn can_make(&self, at: u32, octets: u64, packets: usize) -> bool {
        let (mut free, mut freed) = (0, 0);
        let worth = self.slots[at as usize].worth();
        for (i, slot) in self.slots.iter().enumerate() {
            if i != at as usize && slot.state == State::Held && slot.worth() < worth {
                free += slot.room();
                freed += slot.list.len();
            }
        }
        free >= octets && freed >= packets
    }

    /// The object of least worth; of equal ones the last.
    fn worst(&self) -> Option<u32> {
        let held = self.slots.iter().zip(0..).filter(|(slot, _)| slot.state == State::Held);
        held.min_by_key(|(slot, at)| (slot.worth(), u32::MAX - at)).map(|(_, at)| at)
    }

    /// Begins the eviction of an object.
    fn dismiss(&mut self, at: u32) {
        let first = self.leaving;
        let slot = &mut self.slots[at as usize];
        self.counts.held -= 1;
        self.counts.reserved -= slot.room();
        self.counts.evicted += 1;
        self.changes += 1;
        // Without Data it must not join the chain of leaving objects: `take` would stop at it, and
        // nothing behind it would be evicted.
        if slot.list.len() == 0 {
            slot.state = State::Empty;
            return;
        }
        (slot.state, slot.next) = (State::Leaving, first);
        self.leaving_packets += slot.list.len();
        self.leaving = at;
    }

    /// Admits a Data, after the eviction of at most one other.
    pub(super) fn enter(
        &mut self,
        handle: Handle,
        record: Record,
        found: ObjectMatch,
        records: &mut Records,
    ) -> (AdmissionOutcome, Option<RemovedData>) {
        let at = self.of.get(found.object as usize).copied().unwrap_or(NO_SLOT);
        let octets = u64::from(record.octets);
        let is_wanted = |slot: &&Slot| {
            let is_it = slot.id == Some(found.id) && slot.state != State::Leaving;
            is_it && slot.plan.placement == ObjectPlacement::Memory
        };
        let Some(slot) = self.slots.get(at as usize).filter(is_wanted) else {
            return (AdmissionOutcome::Never, None);
        };
        let worth = slot.worth();
        let (more, packets) = self.missing(slot, octets);
        // Checked before any eviction, so that no object is evicted for one that does not fit after
        // all.
        if (more > 0 || packets > 0) && !self.can_make(at, more, packets) {
            return (AdmissionOutcome::Never, None);
        }
        while let slot = &self.slots[at as usize]
            && self.missing(slot, octets) != (0, 0)
        {
            let worst = self.worst().filter(|worst| self.slots[*worst as usize].worth() < worth);
            let Some(worst) = worst else { return (AdmissionOutcome::Never, None) };
            self.dismiss(worst);
        }
        let fits = |counts: &ObjectCounts, room: MemoryBudget| {
            counts.octets.saturating_add(octets) <= room.octets && counts.packets < room.packets
        };
        let mut left = None;
        if !fits(&self.counts, self.room) {
            // Leaving objects have no reservation but still occupy memory. One Data leaves per
            // call, because the caller removes it from the index without this lock.
            left = self.take(records);
            if !fits(&self.counts, self.room) {
                return (
                    if left.is_some() { AdmissionOutcome::NotYet } else { AdmissionOutcome::Never },
                    left,
                );
            }
        }
        // The record is set before the counts change, so that a failed allocation leaves nothing to
        // undo.
        if !records.set(handle.id, record) {
            return (AdmissionOutcome::Never, left);
        }
        let slot = &mut self.slots[at as usize];
        let before = if slot.state == State::Held { slot.room() } else { 0 };
        self.counts.held += usize::from(slot.state == State::Empty);
        slot.state = State::Held;
        slot.list.push(handle.id, records);
        slot.octets += octets;
        self.counts.reserved = self.counts.reserved - before + slot.room();
        self.counts.packets += 1;
        self.counts.octets += octets;
        self.counts.admitted += 1;
        (AdmissionOutcome::Yes, left)
    }

    /// Detaches a Data of the objects that are being evicted.
    pub(super) fn take(&mut self, records: &mut Records) -> Option<RemovedData> {
        let slot = self.slots.get_mut(self.leaving as usize)?;
        let (id, to_tier) = (slot.list.oldest()?, slot.plan.placement == ObjectPlacement::Tier);
        self.counts.evicted_data += 1;
        self.remove(id, records);
        Some(RemovedData { id, to_tier })
    }

    /// Removes a Data from its list.
    pub(super) fn remove(&mut self, id: Id, records: &mut Records) {
        let record = records.record(id);
        let at = record.list - FIRST_LIST;
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        let before = slot.room();
        slot.list.remove(id, records);
        slot.octets -= u64::from(record.octets);
        self.counts.octets -= u64::from(record.octets);
        self.counts.packets -= 1;
        self.changes += 1;
        let is_empty = slot.list.len() == 0;
        match slot.state {
            State::Leaving => {
                self.leaving_packets -= 1;
                if is_empty {
                    slot.state = State::Empty;
                    self.unlink(at);
                }
            }
            _ if is_empty => {
                slot.state = State::Empty;
                self.counts.held -= 1;
                self.counts.reserved -= before;
            }
            _ => self.counts.reserved = self.counts.reserved - before + slot.room(),
        }
    }

    /// Unlinks an empty slot from those that are being evicted.
    fn unlink(&mut self, at: u32) {
        let next = core::mem::replace(&mut self.slots[at as usize].next, NO_SLOT);
        if self.leaving == at {
            self.leaving = next;
            return;
        }
        // A walk suffices: eviction empties the first object of the chain, and another one ends
        // only when its last Data is erased.
        let mut before = self.leaving;
        while let Some(slot) = self.slots.get_mut(before as usize) {
            if slot.next == at {
                slot.next = next;
                return;
            }
            before = slot.next;
        }
    }

    /// Any Data.
    pub(super) fn any(&self) -> Option<Id> {
        self.slots.iter().find_map(|slot| slot.list.oldest())
    }

    /// Prepares a new catalogue with these objects' ids, sorted: objects that it does not have are
    /// evicted.
    pub(super) fn announce(&mut self, ids: &[u64]) {
        for at in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[at as usize];
            if slot.id.is_some_and(|id| ids.binary_search(&id).is_err()) {
                // The reservation is released before the plan is cleared, because it is computed
                // from the plan. Without a plan the Data of the object is refused from then on, so
                // the object stays evicted.
                if slot.state == State::Held {
                    self.dismiss(at);
                }
                self.slots[at as usize].plan = ObjectPlan::default();
            }
        }
    }

    /// Exchanges the catalogue. `objects` has the id of each object at the index of its number. An
    /// object keeps its Data and its plan by its id, even if its number changes. The Data that
    /// [`ObjectSlots::announce`] evicts must be removed already. `known` has capacity for all
    /// objects.
    pub(super) fn exchange(&mut self, objects: &[Option<u64>], ids: &[u64], known: &mut Vec<(u64, u32)>) {
        for slot in &mut self.slots {
            let is_known = |id: &u64| ids.binary_search(id).is_ok();
            // A slot with Data keeps its id, so that it is not assigned to another object.
            slot.id = slot.id.filter(|id| is_known(id) || slot.state != State::Empty);
        }
        known.clear();
        known.extend(self.slots.iter().zip(0..).filter_map(|(slot, at)| Some((slot.id?, at))));
        known.sort_unstable();
        let find = |id| known.binary_search_by_key(&id, |(id, _)| *id).ok().map(|i| known[i].1);
        self.of.fill(NO_SLOT);
        let mut free = 0;
        for (of, id) in self.of.iter_mut().zip(objects) {
            let Some(id) = *id else { continue };
            while self.slots.get(free).is_some_and(|slot| slot.id.is_some()) {
                free += 1;
            }
            if let Some(at) = find(id) {
                *of = at;
            } else if let Some(slot) = self.slots.get_mut(free) {
                (slot.id, slot.plan, *of) = (Some(id), ObjectPlan::default(), free as u32);
            }
        }
        self.changes += 1;
    }

    /// Checks the counts against the lists; returns the number of Data.
    #[cfg(test)]
    pub(super) fn check(&self, records: &Records) -> usize {
        let (mut counts, mut leaving) = (ObjectCounts::default(), 0);
        for slot in &self.slots {
            let ids: Vec<Id> = slot.list.iter(records).collect();
            let octets: u64 = ids.iter().map(|id| u64::from(records.record(*id).octets)).sum();
            assert_eq!((ids.len(), octets), (slot.list.len(), slot.octets));
            assert_eq!(ids.is_empty(), slot.state == State::Empty);
            counts.packets += ids.len();
            counts.octets += octets;
            match slot.state {
                State::Held => {
                    counts.held += 1;
                    counts.reserved += slot.room();
                }
                State::Leaving => leaving += ids.len(),
                State::Empty => {}
            }
        }
        let ours = &self.counts;
        assert_eq!(
            (counts.packets, counts.octets, leaving),
            (ours.packets, ours.octets, self.leaving_packets)
        );
        assert_eq!((counts.held, counts.reserved), (ours.held, ours.reserved));
        counts.packets
    }
}
