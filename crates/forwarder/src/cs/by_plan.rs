//! What the content store does with Data of registered objects (`VI-17` to `VI-19`): the ledger of
//! [`super::objects`] decides, the index is that of all Data.

use crate::sync::plain::{AtomicBool, Ordering::Relaxed};
use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::RawMutex;

use super::accounting::Accounting;
use super::index::{Handle, Inserted};
use super::objects::{AT_ONCE, Judged, Kept, Left, Room, TURN};
use super::{Cs, EVICTED_PER_DATA_MAX, ObjectHeld, ObjectPlan};
use crate::counter::Counter;
use crate::counters::ObjectCounts;
use crate::cs::admission::{Admitted, Need};
use crate::cs::cached::{Arriving, Cached};
use crate::cs::policy::lists::Record;
use crate::error::ConfigError;
use crate::objects::Found;
use crate::packet::{Output, PacketBuf};
use crate::pool::boxed;
use crate::reserve::Reserve;
use crate::slab::Id;
use crate::tier::{Leaving, Tier};

/// What is to be done with registered objects, as whoever has a packet reads it.
#[derive(Default)]
pub(super) struct ByPlan {
    /// They have a budget, and some of their Data are to leave.
    has_room: AtomicBool,
    has_leaving: AtomicBool,
    /// Data of no object are refused, and how many were.
    refuses_unregistered: AtomicBool,
    unregistered: Counter,
}

/// A catalogue of objects that is to be exchanged, with the memory that this takes.
pub(crate) struct NewObjects {
    /// Ids by the objects' numbers.
    pub(crate) ids: Box<[Option<u64>]>,
    sorted: Vec<u64>,
    known: Vec<(u64, u32)>,
    kept: Option<Box<Kept>>,
}

impl NewObjects {
    pub(crate) fn new(objects_max: usize) -> Result<Self, ConfigError> {
        let (mut sorted, mut known) = (Vec::new(), Vec::new());
        sorted.try_reserve_exact(objects_max).map_err(|_| ConfigError::OutOfMemory)?;
        known.try_reserve_exact(objects_max).map_err(|_| ConfigError::OutOfMemory)?;
        let (ids, kept) = (boxed(objects_max, || None)?, Some(Kept::new(objects_max)?));
        Ok(NewObjects { ids, sorted, known, kept })
    }
}

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    /// Takes a Data of a registered object in, or gives it to the tier of `out`, or refuses it, as
    /// its plan says. Without room for objects it is a Data as any other.
    #[inline(never)]
    pub(crate) fn insert_of_object<O: Output<B>>(
        &self,
        arriving: Arriving<'_, B>,
        found: Found,
        reserve: &Reserve,
        out: &mut O,
    ) {
        if !self.by_plan.has_room.load(Relaxed) {
            return self.insert_apart(arriving, reserve, out);
        }
        let (octets, components) = (arriving.octets(), arriving.key.hashes.len());
        if !self.admit.load(Relaxed) || components == 0 {
            return;
        }
        let Ok(charged) = u32::try_from(octets) else { return self.refused.add(1) };
        let judged = self.accounting.0.lock().judge(found, u64::from(charged));
        match judged {
            Judged::Refuse => {}
            Judged::AsOthers => self.insert(arriving, reserve, out),
            Judged::Tier => {
                if let Some(tier) = out.tier().filter(|_| !arriving.from_tier) {
                    let (packet, fresh_until_ns) = (arriving.packet.clone(), arriving.fresh_until_ns);
                    self.tier.wrote(tier.write(Leaving::planned(packet, fresh_until_ns)));
                }
            }
            Judged::Memory => {
                let (key, wire) = (arriving.key, arriving.view.wire);
                let same = |known: &Cached<B>| known.packet.as_ref() == wire;
                match self.index.insert(Cached::new(&arriving), key, same, reserve) {
                    Inserted::Renewed(_) => {}
                    Inserted::Full => self.refused.add(1),
                    Inserted::New(handle) => {
                        let hash = key.hashes.whole();
                        let need = Need { hash, entries: components as u8, octets: charged };
                        self.enter_of_object(handle, need, found, reserve, out);
                    }
                }
            }
        }
    }

    /// Enters a Data that is in the index, making room for it.
    fn enter_of_object<O: Output<B>>(
        &self,
        handle: Handle,
        need: Need,
        found: Found,
        reserve: &Reserve,
        out: &mut O,
    ) {
        for _ in 0..EVICTED_PER_DATA_MAX {
            let mut accounting = self.accounting.0.lock();
            let (entered, left) = accounting.enter_of_object(handle, need, found);
            // Under the lock, because the accounting changes only there.
            self.by_plan.has_leaving.store(accounting.has_leaving(), Relaxed);
            drop(accounting);
            if let Some(left) = left {
                self.let_go(left, reserve, out);
            }
            match entered {
                Admitted::Yes => return,
                Admitted::NotYet => {}
                Admitted::Never => break,
            }
        }
        self.take_out(handle.id, reserve);
        self.accounting.0.lock().refuse_of_object();
    }

    /// Takes a Data out that has left its object's list.
    fn let_go<O: Output<B>>(&self, left: Left, reserve: &Reserve, out: &mut O) {
        let cached = self.take_out(left.id, reserve);
        if let Some(tier) = out.tier().filter(|_| left.to_tier)
            && let Some(Cached { packet, fresh_until_ns, from_tier: false, .. }) = cached
        {
            self.tier.wrote(tier.write(Leaving::planned(packet, fresh_until_ns)));
        }
    }

    /// Takes out up to `budget` Data of objects that leave, [`TURN`] at most, a few of them under
    /// one hold of the lock; returns true if more are.
    #[inline]
    pub(crate) fn evict_objects<O: Output<B>>(&self, budget: usize, out: &mut O) -> bool {
        self.by_plan.has_leaving.load(Relaxed)
            && self.evict_leaving(budget.min(TURN), |left, reserve| {
                self.let_go(left, reserve, out);
            })
    }

    #[cold]
    #[inline(never)]
    fn evict_leaving(&self, budget: usize, mut each: impl FnMut(Left, &Reserve)) -> bool {
        let (reserve, mut budget) = (Reserve::new(0), budget.max(1));
        loop {
            let mut left = [Left::default(); AT_ONCE];
            let most = budget.min(AT_ONCE);
            let mut accounting = self.accounting.0.lock();
            let taken = accounting.take_leaving(&mut left[..most]);
            let is_more = accounting.has_leaving();
            self.by_plan.has_leaving.store(is_more, Relaxed);
            drop(accounting);
            left[..taken].iter().for_each(|left| each(*left, &reserve));
            budget -= taken;
            if !is_more || budget == 0 {
                self.settle(&reserve);
                return is_more;
            }
        }
    }

    /// Exchanges the catalogue. Data of what it has no more are taken out.
    pub(crate) fn exchange_objects(&self, new: NewObjects) {
        let NewObjects { ids, mut sorted, mut known, kept } = new;
        sorted.extend(ids.iter().flatten());
        sorted.sort_unstable();
        let mut accounting = self.accounting.0.lock();
        let room = accounting.objects.room;
        if accounting.objects.kept.is_none() {
            accounting.objects.kept = kept;
        }
        if let Some(kept) = &mut accounting.objects.kept {
            kept.limit(room);
            kept.announce(&sorted);
        }
        self.by_plan.has_leaving.store(accounting.has_leaving(), Relaxed);
        drop(accounting);
        while self.evict_leaving(TURN, |left, reserve| drop(self.take_out(left.id, reserve))) {}
        if let Some(kept) = &mut self.accounting.0.lock().objects.kept {
            kept.exchange(&ids, &sorted, &mut known);
        }
    }

    /// Changes the budget of objects; what is beyond it leaves in turns.
    pub(crate) fn limit_objects(&self, packets: usize, octets: u64) {
        let mut accounting = self.accounting.0.lock();
        accounting.objects.room = Room { packets, octets };
        let room = accounting.objects.room;
        if let Some(kept) = &mut accounting.objects.kept {
            kept.limit(room);
        }
        self.by_plan.has_room.store(packets > 0 && octets > 0, Relaxed);
        self.by_plan.has_leaving.store(accounting.has_leaving(), Relaxed);
    }

    /// Says whether Data of no object are refused.
    pub(crate) fn refuse_unregistered(&self, is_refused: bool) {
        self.by_plan.refuses_unregistered.store(is_refused, Relaxed);
    }

    /// Whether Data of no object are refused: then it is counted.
    pub(crate) fn refuses_unregistered(&self) -> bool {
        let is_refused = self.by_plan.refuses_unregistered.load(Relaxed);
        if is_refused {
            self.by_plan.unregistered.add(1);
        }
        is_refused
    }

    pub(crate) fn plan_object(&self, object: u32, plan: ObjectPlan) {
        if let Some(kept) = &mut self.accounting.0.lock().objects.kept {
            kept.plan(object, plan);
        }
    }

    pub(crate) fn held_object(&self, object: u32) -> ObjectHeld {
        self.accounting
            .0
            .lock()
            .objects
            .kept
            .as_ref()
            .map_or_else(ObjectHeld::default, |kept| kept.held(object))
    }

    pub(crate) fn object_counts(&self) -> ObjectCounts {
        let accounting = self.accounting.0.lock();
        let counts = accounting.objects.kept.as_ref().map_or_else(ObjectCounts::default, |kept| kept.counts);
        ObjectCounts { unregistered: self.by_plan.unregistered.value(), ..counts }
    }
}

/// Registered objects in the ledger.
impl Accounting {
    /// Returns true if the record is of a Data of an object.
    #[inline]
    pub(super) fn is_of_object(record: &Record) -> bool {
        Kept::has(record)
    }

    /// Enters a Data of a registered object, after at most one other has left for it.
    pub(super) fn enter_of_object(
        &mut self,
        handle: Handle,
        need: Need,
        found: Found,
    ) -> (Admitted, Option<Left>) {
        match &mut self.objects.kept {
            Some(kept) => kept.enter(handle, need.record(handle), found, &mut self.records),
            None => (Admitted::Never, None),
        }
    }

    /// What is to be done with a Data of a registered object of so many octets.
    pub(super) fn judge(&mut self, found: Found, octets: u64) -> Judged {
        self.objects.kept.as_mut().map_or(Judged::Refuse, |kept| kept.judge(found, octets))
    }

    /// Counts a Data of a registered object for which there was no room after all.
    pub(super) fn refuse_of_object(&mut self) {
        self.objects.kept.iter_mut().for_each(|kept| kept.counts.refused += 1);
    }

    pub(super) fn has_leaving(&self) -> bool {
        self.objects.kept.as_ref().is_some_and(|kept| kept.has_leaving())
    }

    /// Takes Data of objects that leave off their lists, as many as there is room for in `left`;
    /// returns how many.
    pub(super) fn take_leaving(&mut self, left: &mut [Left]) -> usize {
        let Some(kept) = &mut self.objects.kept else { return 0 };
        let taken = left.iter_mut().map_while(|left| kept.take(&mut self.records).map(|one| *left = one));
        taken.count()
    }

    /// Takes a Data of a registered object off its list.
    pub(super) fn detach_of_object(&mut self, handle: Handle) -> Option<Id> {
        self.objects.kept.as_mut()?.remove(handle.id, &mut self.records);
        Some(handle.id)
    }

    /// Any Data of objects.
    pub(super) fn any_of_objects(&self) -> Option<Id> {
        self.objects.kept.as_ref()?.any()
    }

    /// Checks the ledger of objects against their lists.
    #[cfg(test)]
    pub(super) fn check_objects(&self) -> usize {
        self.objects.kept.as_ref().map_or(0, |kept| kept.check(&self.records))
    }
}

#[cfg(test)]
mod tests;
