//! Data of registered objects in the content store (`VI-17` to `VI-19`). [`super::objects`]
//! accounts for them and decides whether they are cached; the index is shared with all other Data.

use crate::sync::plain::{AtomicBool, Ordering::Relaxed};
use alloc::boxed::Box;
use alloc::vec::Vec;

use lock_api::RawMutex;

use super::accounting::Accounting;
use super::index::{Handle, InsertOutcome};
use super::objects::{AT_ONCE, CacheDecision, MemoryBudget, ObjectSlots, RemovedData, TURN};
use super::{Cs, EVICTED_PER_DATA_MAX, ObjectPlan, ObjectUsage};
use crate::counter::Counter;
use crate::counters::ObjectCounts;
use crate::cs::admission::{AdmissionOutcome, EntryCost};
use crate::cs::cached::{CsEntry, IncomingData};
use crate::cs::policy::lists::Record;
use crate::error::ConfigError;
use crate::objects::ObjectMatch;
use crate::packet::{Output, PacketBuf};
use crate::pool::boxed;
use crate::reserve::Reserve;
use crate::slab::Id;
use crate::tier::{EvictedData, Tier};

/// The state of registered objects that the data path reads without the lock.
#[derive(Default)]
pub(super) struct PlanState {
    /// Objects have a budget.
    has_room: AtomicBool,
    /// Some Data of objects must be evicted.
    has_leaving: AtomicBool,
    /// Data of no object is refused.
    refuses_unregistered: AtomicBool,
    /// The number of these refusals.
    unregistered: Counter,
}

/// A new catalogue of objects, with the memory for the exchange.
pub(crate) struct NewObjects {
    /// Ids by the objects' numbers.
    pub(crate) ids: Box<[Option<u64>]>,
    sorted: Vec<u64>,
    known: Vec<(u64, u32)>,
    kept: Option<Box<ObjectSlots>>,
}

impl NewObjects {
    pub(crate) fn new(objects_max: usize) -> Result<Self, ConfigError> {
        let (mut sorted, mut known) = (Vec::new(), Vec::new());
        sorted.try_reserve_exact(objects_max).map_err(|_| ConfigError::OutOfMemory)?;
        known.try_reserve_exact(objects_max).map_err(|_| ConfigError::OutOfMemory)?;
        let (ids, kept) = (boxed(objects_max, || None)?, Some(ObjectSlots::new(objects_max)?));
        Ok(NewObjects { ids, sorted, known, kept })
    }
}

impl<B: PacketBuf, R: RawMutex> Cs<B, R> {
    /// Handles a Data of a registered object by its plan: inserts it, offers it to the tier of
    /// `out`, or refuses it. Without a budget for objects it is inserted as any other Data.
    #[inline(never)]
    pub(crate) fn insert_object_data<O: Output<B>>(
        &self,
        arriving: IncomingData<'_, B>,
        found: ObjectMatch,
        reserve: &Reserve,
        out: &mut O,
    ) {
        // Relaxed: a Data that arrives while the budget changes may follow the old one.
        if !self.by_plan.has_room.load(Relaxed) {
            return self.insert_apart(arriving, reserve, out);
        }
        let (octets, components) = (arriving.octets(), arriving.key.hashes.len());
        if !self.admit.load(Relaxed) || components == 0 {
            return;
        }
        // A record stores 32 bits of octets, so a larger Data could not be charged.
        let Ok(charged) = u32::try_from(octets) else { return self.refused.add(1) };
        // Decided before the Data is linked, so that a refused Data costs one lock and no access to
        // a bucket.
        let judged = self.accounting.0.lock().judge(found, u64::from(charged));
        match judged {
            // `judge` has counted the refusal.
            CacheDecision::Refuse => {}
            CacheDecision::Unplanned => self.insert(arriving, reserve, out),
            CacheDecision::Tier => {
                if let Some(tier) = out.tier().filter(|_| !arriving.from_tier) {
                    let (packet, fresh_until_ns) = (arriving.packet.clone(), arriving.fresh_until_ns);
                    self.tier.wrote(tier.write(EvictedData::planned(packet, fresh_until_ns)));
                }
            }
            CacheDecision::Memory => {
                let (key, wire) = (arriving.key, arriving.view.wire);
                let same = |known: &CsEntry<B>| known.packet.as_ref() == wire;
                match self.index.insert(CsEntry::new(&arriving), key, same, reserve) {
                    // The policy is not notified: objects are cached by plan, and hits do not
                    // change the plan.
                    InsertOutcome::Renewed(_) => {}
                    InsertOutcome::Full => self.refused.add(1),
                    InsertOutcome::New(handle) => {
                        let hash = key.hashes.whole();
                        let need = EntryCost { hash, entries: components as u8, octets: charged };
                        self.admit_object_data(handle, need, found, reserve, out);
                    }
                }
            }
        }
    }

    /// Admits a Data that is in the index, and makes room for it.
    fn admit_object_data<O: Output<B>>(
        &self,
        handle: Handle,
        need: EntryCost,
        found: ObjectMatch,
        reserve: &Reserve,
        out: &mut O,
    ) {
        for _ in 0..EVICTED_PER_DATA_MAX {
            let mut accounting = self.accounting.0.lock();
            let (entered, left) = accounting.admit_object_data(handle, need, found);
            // Under the lock, because the accounting changes only there.
            self.by_plan.has_leaving.store(accounting.has_leaving(), Relaxed);
            drop(accounting);
            if let Some(left) = left {
                self.finish_eviction(left, reserve, out);
            }
            match entered {
                AdmissionOutcome::Yes => return,
                AdmissionOutcome::NotYet => {}
                AdmissionOutcome::Never => break,
            }
        }
        // The Data is on no list, so this thread still owns it and may remove it.
        self.take_out(handle.id, reserve);
        self.accounting.0.lock().count_object_refusal();
    }

    /// Removes an evicted Data of an object from the index, and offers it to the tier if its plan
    /// requires that.
    fn finish_eviction<O: Output<B>>(&self, left: RemovedData, reserve: &Reserve, out: &mut O) {
        let cached = self.take_out(left.id, reserve);
        if let Some(tier) = out.tier().filter(|_| left.to_tier)
            && let Some(CsEntry { packet, fresh_until_ns, from_tier: false, .. }) = cached
        {
            self.tier.wrote(tier.write(EvictedData::planned(packet, fresh_until_ns)));
        }
    }

    /// Removes up to `budget` Data of objects that are being evicted, at most [`TURN`]. Releases
    /// the lock after every few Data. Returns true if there are more.
    #[inline]
    pub(crate) fn evict_objects<O: Output<B>>(&self, budget: usize, out: &mut O) -> bool {
        self.by_plan.has_leaving.load(Relaxed)
            && self.evict_leaving(budget.min(TURN), |left, reserve| {
                self.finish_eviction(left, reserve, out);
            })
    }

    #[cold]
    #[inline(never)]
    fn evict_leaving(&self, budget: usize, mut each: impl FnMut(RemovedData, &Reserve)) -> bool {
        // At least one, so that a caller without a budget makes progress.
        let (reserve, mut budget) = (Reserve::new(0), budget.max(1));
        loop {
            let mut left = [RemovedData::default(); AT_ONCE];
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

    /// Exchanges the catalogue. Data of objects that it no longer lists is removed.
    pub(crate) fn exchange_objects(&self, new: NewObjects) {
        let NewObjects { ids, mut sorted, mut known, kept } = new;
        sorted.extend(ids.iter().flatten());
        sorted.sort_unstable();
        let mut accounting = self.accounting.0.lock();
        let room = accounting.objects.room;
        // Its memory was allocated in `NewObjects::new`, because nothing is allocated under this
        // lock.
        if accounting.objects.kept.is_none() {
            accounting.objects.kept = kept;
        }
        if let Some(kept) = &mut accounting.objects.kept {
            kept.limit(room);
            kept.announce(&sorted);
        }
        self.by_plan.has_leaving.store(accounting.has_leaving(), Relaxed);
        drop(accounting);
        // `ObjectSlots::exchange` requires that all of them are removed. They are removed in
        // rounds, so that workers can take the lock in between.
        while self.evict_leaving(TURN, |left, reserve| drop(self.take_out(left.id, reserve))) {}
        if let Some(kept) = &mut self.accounting.0.lock().objects.kept {
            kept.exchange(&ids, &sorted, &mut known);
        }
    }

    /// Changes the budget of objects; Data beyond it is evicted in rounds.
    pub(crate) fn limit_objects(&self, packets: usize, octets: u64) {
        let mut accounting = self.accounting.0.lock();
        accounting.objects.room = MemoryBudget { packets, octets };
        let room = accounting.objects.room;
        if let Some(kept) = &mut accounting.objects.kept {
            kept.limit(room);
        }
        self.by_plan.has_room.store(packets > 0 && octets > 0, Relaxed);
        self.by_plan.has_leaving.store(accounting.has_leaving(), Relaxed);
    }

    /// Sets whether Data of no object is refused.
    pub(crate) fn refuse_unregistered(&self, is_refused: bool) {
        self.by_plan.refuses_unregistered.store(is_refused, Relaxed);
    }

    /// Returns true if Data of no object is refused, and counts the refusal.
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

    pub(crate) fn object_usage(&self, object: u32) -> ObjectUsage {
        self.accounting
            .0
            .lock()
            .objects
            .kept
            .as_ref()
            .map_or_else(ObjectUsage::default, |kept| kept.held(object))
    }

    pub(crate) fn object_counts(&self) -> ObjectCounts {
        let accounting = self.accounting.0.lock();
        let counts = accounting.objects.kept.as_ref().map_or_else(ObjectCounts::default, |kept| kept.counts);
        ObjectCounts { unregistered: self.by_plan.unregistered.value(), ..counts }
    }
}

/// The accounting of registered objects.
impl Accounting {
    /// Returns true if the record is of a Data of an object.
    #[inline]
    pub(super) fn is_object_record(record: &Record) -> bool {
        ObjectSlots::has(record)
    }

    /// Admits a Data of a registered object, after the eviction of at most one other.
    pub(super) fn admit_object_data(
        &mut self,
        handle: Handle,
        need: EntryCost,
        found: ObjectMatch,
    ) -> (AdmissionOutcome, Option<RemovedData>) {
        match &mut self.objects.kept {
            Some(kept) => kept.enter(handle, need.record(handle), found, &mut self.records),
            None => (AdmissionOutcome::Never, None),
        }
    }

    /// Returns the decision about a Data of `octets` octets of a registered object.
    pub(super) fn judge(&mut self, found: ObjectMatch, octets: u64) -> CacheDecision {
        self.objects.kept.as_mut().map_or(CacheDecision::Refuse, |kept| kept.judge(found, octets))
    }

    /// Counts the refusal of a Data of a registered object that was linked but not admitted.
    pub(super) fn count_object_refusal(&mut self) {
        self.objects.kept.iter_mut().for_each(|kept| kept.counts.refused += 1);
    }

    pub(super) fn has_leaving(&self) -> bool {
        self.objects.kept.as_ref().is_some_and(|kept| kept.has_leaving())
    }

    /// Detaches Data of objects that are being evicted, as many as fit into `left`; returns their
    /// number.
    pub(super) fn take_leaving(&mut self, left: &mut [RemovedData]) -> usize {
        let Some(kept) = &mut self.objects.kept else { return 0 };
        let taken = left.iter_mut().map_while(|left| kept.take(&mut self.records).map(|one| *left = one));
        taken.count()
    }

    /// Removes a Data of a registered object from its list.
    pub(super) fn detach_object_data(&mut self, handle: Handle) -> Option<Id> {
        self.objects.kept.as_mut()?.remove(handle.id, &mut self.records);
        Some(handle.id)
    }

    /// Any Data of objects.
    pub(super) fn any_object_data(&self) -> Option<Id> {
        self.objects.kept.as_ref()?.any()
    }

    /// Checks the accounting of objects against their lists.
    #[cfg(test)]
    pub(super) fn check_objects(&self) -> usize {
        self.objects.kept.as_ref().map_or(0, |kept| kept.check(&self.records))
    }
}

#[cfg(test)]
mod tests;
