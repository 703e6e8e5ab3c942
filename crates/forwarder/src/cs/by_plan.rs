//! What the content store does with Data of registered objects (`VI-17` to `VI-19`): the ledger of
//! [`super::objects`] decides, the index is that of all Data.

use crate::sync::plain::Ordering::Relaxed;
use alloc::vec::Vec;

use lock_api::RawMutex;

use super::accounting::{Admitted, Need};
use super::index::{Handle, Inserted};
use super::objects::{AT_ONCE, Judged, Kept, Left, Room};
use super::{Arriving, Cached, Cs, EVICTED_PER_DATA_MAX, ObjectCounts, ObjectHeld, ObjectPlan};
use crate::config::ConfigError;
use crate::objects::Found;
use crate::packet::{Output, PacketBuf};
use crate::pool::boxed;
use crate::reserve::Reserve;
use crate::tier::Leaving;

/// A catalogue of objects that is to be exchanged, with the memory that this takes.
pub(crate) struct NewObjects {
    /// Ids by the objects' numbers.
    pub(crate) ids: alloc::boxed::Box<[Option<u64>]>,
    sorted: Vec<u64>,
    known: Vec<(u64, u32)>,
    kept: Option<alloc::boxed::Box<Kept>>,
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
        if !self.has_object_room.load(Relaxed) {
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
                if O::HAS_TIER && !arriving.from_tier {
                    let (packet, fresh_until_ns) = (arriving.packet.clone(), arriving.fresh_until_ns);
                    self.give_to_tier(Leaving::planned(packet, fresh_until_ns), out);
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
            self.has_leaving.store(accounting.has_leaving(), Relaxed);
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
        if O::HAS_TIER
            && left.to_tier
            && let Some(Cached { packet, fresh_until_ns, from_tier: false, .. }) = cached
        {
            self.give_to_tier(Leaving::planned(packet, fresh_until_ns), out);
        }
    }

    fn give_to_tier(&self, leaving: Leaving<B>, out: &mut impl Output<B>) {
        self.tier.wrote(out.tier_write(leaving));
    }

    /// Takes out up to `budget` Data of objects that leave, a few of them under one hold of the
    /// lock; returns true if more are.
    #[inline]
    pub(crate) fn evict_objects<O: Output<B>>(&self, budget: usize, out: &mut O) -> bool {
        self.has_leaving.load(Relaxed)
            && self.evict_leaving(budget, |left, reserve| {
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
            self.has_leaving.store(is_more, Relaxed);
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
        let room = accounting.object_room;
        if accounting.kept.is_none() {
            accounting.kept = kept;
        }
        if let Some(kept) = &mut accounting.kept {
            kept.limit(room);
            kept.announce(&sorted);
        }
        self.has_leaving.store(accounting.has_leaving(), Relaxed);
        drop(accounting);
        while self.evict_leaving(super::OBJECT_TURN, |left, reserve| drop(self.take_out(left.id, reserve))) {}
        if let Some(kept) = &mut self.accounting.0.lock().kept {
            kept.exchange(&ids, &sorted, &mut known);
        }
    }

    /// Changes the budget of objects; what is beyond it leaves in turns.
    pub(crate) fn limit_objects(&self, packets: usize, octets: u64) {
        let mut accounting = self.accounting.0.lock();
        accounting.object_room = Room { packets, octets };
        let room = accounting.object_room;
        if let Some(kept) = &mut accounting.kept {
            kept.limit(room);
        }
        self.has_object_room.store(packets > 0 && octets > 0, Relaxed);
        self.has_leaving.store(accounting.has_leaving(), Relaxed);
    }

    /// Says whether Data of no object are refused.
    pub(crate) fn refuse_unregistered(&self, is_refused: bool) {
        self.refuses_unregistered.store(is_refused, Relaxed);
    }

    /// Whether Data of no object are refused: then it is counted.
    pub(crate) fn refuses_unregistered(&self) -> bool {
        let is_refused = self.refuses_unregistered.load(Relaxed);
        if is_refused {
            self.unregistered.add(1);
        }
        is_refused
    }

    pub(crate) fn plan_object(&self, object: u32, plan: ObjectPlan) {
        if let Some(kept) = &mut self.accounting.0.lock().kept {
            kept.plan(object, plan);
        }
    }

    pub(crate) fn held_object(&self, object: u32) -> ObjectHeld {
        self.accounting.0.lock().kept.as_ref().map_or_else(ObjectHeld::default, |kept| kept.held(object))
    }

    pub(crate) fn object_counts(&self) -> ObjectCounts {
        let accounting = self.accounting.0.lock();
        let counts = accounting.kept.as_ref().map_or_else(ObjectCounts::default, |kept| kept.counts);
        ObjectCounts { unregistered: self.unregistered.value(), ..counts }
    }
}

#[cfg(test)]
mod tests;
