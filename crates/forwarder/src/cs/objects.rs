//! Data of registered objects (`VI-17` to `VI-19`): kept by plan, whole objects at a time, under a
//! budget of their own, apart from the policy that keeps everything else.
//!
//! Who computes the virtual plane says of each object where it is to be kept and what it is worth
//! ([`ObjectPlan`]). All Data of an object are in one list. An object has its room from its first
//! Data on, all that its plan names, so that none is kept in part because another one came. Where
//! there is no room the objects that are worth least give way, if they are worth less than the one
//! that comes and are enough: each leaves whole. Nothing leaves before a Data comes that needs its
//! room, so what is kept stays until something better takes its place (Algorithm 2).
//!
//! An object that leaves is taken out Data by Data: as many as a Data that comes needs, and the
//! others in turns ([`TURN`]). Until then what is still there goes on answering.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::index::Handle;
use crate::counters::ObjectCounts;
use crate::cs::admission::Admitted;
use crate::cs::policy::lists::{List, Record, Records};
use crate::error::ConfigError;
use crate::objects::Found;
use crate::pool::boxed;
use crate::slab::Id;

/// Data of objects that leave which one turn takes out.
pub(crate) const TURN: usize = 256;

/// Of these, how many are taken off their list under one hold of the lock.
pub(super) const AT_ONCE: usize = 32;

/// The list of the first slot; those before are the policy's.
const FIRST_LIST: u32 = 1 << 16;

const NO_SLOT: u32 = u32::MAX;

/// The state behind the policy's lock.
#[derive(Default)]
pub(super) struct Ledger {
    /// The objects, if there ever were any.
    pub(super) kept: Option<Box<Kept>>,
    /// Their budget.
    pub(super) room: Room,
}

/// Where an object's Data are to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObjectPlace {
    /// Nowhere. What is there stays until what comes needs its room.
    #[default]
    Nowhere,
    /// In memory.
    Memory,
    /// In the tier below the memory, to which its Data are given as they come.
    Tier,
    /// Where those of no object are: the policy decides.
    AsOthers,
}

/// What is to become of an object's Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectPlan {
    /// Where they are to be kept.
    pub place: ObjectPlace,
    /// What the object is worth in memory: those that are worth less give way to it. One that is to
    /// be kept elsewhere counts as worth nothing there.
    pub worth: u64,
    /// Octets of memory that are its own from its first Data on; more as soon as it has more.
    pub octets: u64,
}

/// What memory holds of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeld {
    /// Its Data.
    pub packets: usize,
    /// Octets that these hold on to.
    pub octets: u64,
    /// It is on its way out.
    pub is_leaving: bool,
}

/// What memory there may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) packets: usize,
    pub(super) octets: u64,
}

/// What is to be done with a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Refuse,
    Tier,
    Memory,
    AsOthers,
}

/// A Data that has left its list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    pub(super) id: Id,
    /// Its object is to be kept in the tier.
    pub(super) to_tier: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing of it is here.
    #[default]
    Empty,
    /// It has its room.
    Held,
    /// It leaves.
    Leaving,
}

/// An object and its Data.
struct Slot {
    id: Option<u64>,
    plan: ObjectPlan,
    list: List,
    octets: u64,
    state: State,
    /// The next one that leaves.
    next: u32,
    /// When it was found that there is no room for it: [`Kept::changes`].
    refused_at: u64,
}

impl Slot {
    /// Octets of the budget that are its own while it is held.
    fn room(&self) -> u64 {
        self.plan.octets.max(self.octets)
    }

    fn worth(&self) -> u64 {
        if self.plan.place == ObjectPlace::Memory { self.plan.worth } else { 0 }
    }
}

pub(super) struct Kept {
    slots: Box<[Slot]>,
    /// The slot of each object of the catalogue.
    of: Box<[u32]>,
    room: Room,
    /// Rises with everything that may make room.
    changes: u64,
    /// The first of those that leave, and how many Data they have.
    leaving: u32,
    leaving_packets: usize,
    pub(super) counts: ObjectCounts,
}

impl Kept {
    /// For so many objects, and without room.
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
        };
        Ok(Box::new(Kept {
            slots: boxed(objects_max, slot)?,
            of: boxed(objects_max, || NO_SLOT)?,
            room: Room::default(),
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

    pub(super) fn held(&self, object: u32) -> ObjectHeld {
        self.slot(object).map_or(ObjectHeld::default(), |slot| ObjectHeld {
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
            if slot.state == State::Held {
                self.counts.reserved = self.counts.reserved - before + slot.room();
            }
            self.changes += 1;
        }
    }

    /// Changes the budget; what is worth least leaves if it is too much.
    pub(super) fn limit(&mut self, room: Room) {
        self.room = room;
        self.changes += 1;
        while self.counts.reserved > room.octets || self.staying() > room.packets {
            let Some(worst) = self.worst() else { break };
            self.dismiss(worst);
        }
    }

    /// Data of objects that do not leave.
    fn staying(&self) -> usize {
        self.counts.packets - self.leaving_packets
    }

    /// What is to be done with a Data of so many octets.
    pub(super) fn judge(&mut self, found: Found, octets: u64) -> Judged {
        let at = self.of.get(found.object as usize).copied().unwrap_or(NO_SLOT);
        let judged = match self.slots.get(at as usize).filter(|slot| slot.id == Some(found.id)) {
            None => Judged::Refuse,
            Some(slot) => match slot.plan.place {
                ObjectPlace::Nowhere => Judged::Refuse,
                ObjectPlace::Tier => Judged::Tier,
                ObjectPlace::AsOthers => Judged::AsOthers,
                ObjectPlace::Memory => self.has_room(at, octets),
            },
        };
        match judged {
            Judged::Refuse => self.counts.refused += 1,
            Judged::Tier => self.counts.to_tier += 1,
            Judged::Memory | Judged::AsOthers => {}
        }
        judged
    }

    fn has_room(&mut self, at: u32, octets: u64) -> Judged {
        let slot = &self.slots[at as usize];
        let (more, packets) = self.missing(slot, octets);
        let has_room = match slot.state {
            State::Leaving => false,
            _ if more == 0 && packets == 0 => true,
            _ if slot.refused_at == self.changes => false,
            _ => self.can_make(at, more, packets),
        };
        if has_room {
            return Judged::Memory;
        }
        self.slots[at as usize].refused_at = self.changes;
        Judged::Refuse
    }

    /// Octets and packets that are missing for one more Data of a slot.
    fn missing(&self, slot: &Slot, octets: u64) -> (u64, usize) {
        let own = if slot.state == State::Held { slot.room() } else { 0 };
        let wanted = slot.plan.octets.max(slot.octets.saturating_add(octets));
        let reserved = self.counts.reserved - own;
        let more = reserved.saturating_add(wanted).saturating_sub(self.room.octets);
        (more, (self.staying() + 1).saturating_sub(self.room.packets))
    }

    /// Returns true if those that are worth less than a slot have that much room.
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

    /// The one that is worth least; of equal ones the last.
    fn worst(&self) -> Option<u32> {
        let held = self.slots.iter().zip(0..).filter(|(slot, _)| slot.state == State::Held);
        held.min_by_key(|(slot, at)| (slot.worth(), u32::MAX - at)).map(|(_, at)| at)
    }

    /// Lets an object leave.
    fn dismiss(&mut self, at: u32) {
        let first = self.leaving;
        let slot = &mut self.slots[at as usize];
        self.counts.held -= 1;
        self.counts.reserved -= slot.room();
        self.counts.evicted += 1;
        self.changes += 1;
        if slot.list.len() == 0 {
            slot.state = State::Empty;
            return;
        }
        (slot.state, slot.next) = (State::Leaving, first);
        self.leaving_packets += slot.list.len();
        self.leaving = at;
    }

    /// Enters a Data, after at most one other has left for it.
    pub(super) fn enter(
        &mut self,
        handle: Handle,
        record: Record,
        found: Found,
        records: &mut Records,
    ) -> (Admitted, Option<Left>) {
        let at = self.of.get(found.object as usize).copied().unwrap_or(NO_SLOT);
        let octets = u64::from(record.octets);
        let is_wanted = |slot: &&Slot| {
            let is_it = slot.id == Some(found.id) && slot.state != State::Leaving;
            is_it && slot.plan.place == ObjectPlace::Memory
        };
        let Some(slot) = self.slots.get(at as usize).filter(is_wanted) else {
            return (Admitted::Never, None);
        };
        let worth = slot.worth();
        let (more, packets) = self.missing(slot, octets);
        if (more > 0 || packets > 0) && !self.can_make(at, more, packets) {
            return (Admitted::Never, None);
        }
        while let slot = &self.slots[at as usize]
            && self.missing(slot, octets) != (0, 0)
        {
            let worst = self.worst().filter(|worst| self.slots[*worst as usize].worth() < worth);
            let Some(worst) = worst else { return (Admitted::Never, None) };
            self.dismiss(worst);
        }
        let fits = |counts: &ObjectCounts, room: Room| {
            counts.octets.saturating_add(octets) <= room.octets && counts.packets < room.packets
        };
        let mut left = None;
        if !fits(&self.counts, self.room) {
            left = self.take(records);
            if !fits(&self.counts, self.room) {
                return (if left.is_some() { Admitted::NotYet } else { Admitted::Never }, left);
            }
        }
        if !records.set(handle.id, record) {
            return (Admitted::Never, left);
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
        (Admitted::Yes, left)
    }

    /// Takes a Data of those that leave off its list.
    pub(super) fn take(&mut self, records: &mut Records) -> Option<Left> {
        let slot = self.slots.get_mut(self.leaving as usize)?;
        let (id, to_tier) = (slot.list.oldest()?, slot.plan.place == ObjectPlace::Tier);
        self.counts.evicted_data += 1;
        self.remove(id, records);
        Some(Left { id, to_tier })
    }

    /// Takes a Data off the list that it is in.
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

    /// Takes an empty slot out of those that leave.
    fn unlink(&mut self, at: u32) {
        let next = core::mem::replace(&mut self.slots[at as usize].next, NO_SLOT);
        if self.leaving == at {
            self.leaving = next;
            return;
        }
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

    /// A new catalogue comes, with these objects' ids, sorted: what it does not have leaves.
    pub(super) fn announce(&mut self, ids: &[u64]) {
        for at in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[at as usize];
            if slot.id.is_some_and(|id| ids.binary_search(&id).is_err()) {
                slot.plan = ObjectPlan::default();
                if slot.state == State::Held {
                    self.dismiss(at);
                }
            }
        }
    }

    /// The catalogue has come: `objects` are the ids by their numbers. An object keeps its Data and
    /// its plan by its id, whatever its number is. What [`Kept::announce`] let leave has left.
    /// `known` has room for all.
    pub(super) fn exchange(&mut self, objects: &[Option<u64>], ids: &[u64], known: &mut Vec<(u64, u32)>) {
        for slot in &mut self.slots {
            let is_known = |id: &u64| ids.binary_search(id).is_ok();
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

    /// Checks the ledger against its lists; returns how many Data there are.
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
