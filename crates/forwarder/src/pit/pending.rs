//! How many downstream records each face has, within what it was granted ([`crate::shares`]), and
//! what its holder has of the table. The records of a face that is gone are swept; its slot's next
//! user starts from 0.

use lock_api::{Mutex, RawMutex};

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::faces::slots_max;
use crate::limits::PitLimits;
use crate::ordered::NoMemory;
use crate::pool::Pool;
use crate::reserve::Reserve;
use crate::shares::{ALL, Ceiling, Ceilings, Grants, Holder, HolderIndex, IDLE_MAX, ROUTER_INDEX, Share};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Why a new Interest or a new downstream was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PitFull {
    Table,
    Face,
    Holder,
    InRecords,
    /// There is no memory for one more downstream.
    Memory,
}

/// Counts by face. Within a grant they are kept without a lock.
pub(super) struct PendingByFace<R> {
    slots: Pool<Pending, 64>,
    /// What each holder has, by its index; written under the lock of the grants.
    holders: Pool<AtomicU32, 64>,
    /// Taken when a face needs another grant or has one too many, under a bucket's or an entry's
    /// lock; no other is taken under it.
    grants: Mutex<R, Grants>,
}

/// A registration's generation and its count, on a cache line of their own: faces of different
/// workers do not disturb each other.
#[repr(align(64))]
struct Pending {
    state: AtomicU64,
    /// The most that the count may be just now. Written under the lock of the grants, as is the
    /// next one; who reads them without it may see them a moment late.
    granted: AtomicU32,
    holder: AtomicU32,
}

const COUNT: u64 = u32::MAX as u64;

impl Pending {
    fn new() -> Self {
        Pending { state: AtomicU64::new(0), granted: AtomicU32::new(0), holder: AtomicU32::new(ROUTER_INDEX) }
    }
}

impl<R: RawMutex> PendingByFace<R> {
    pub(super) fn new(limits: &PitLimits, faces_max: usize) -> Result<Self, ConfigError> {
        let slots = slots_max(faces_max);
        let most = |limit: usize| u32::try_from(limit).unwrap_or(ALL);
        let ceilings = Ceilings {
            face_max: most(limits.entries_per_face_max),
            holder_max: most(limits.entries_per_holder_max),
        };
        Ok(PendingByFace {
            slots: Pool::new(slots)?,
            holders: Pool::new(slots + 1)?,
            grants: Mutex::new(Grants::new(ceilings, slots)?),
        })
    }

    /// Enters a face before its packets come; one that is not entered has no limits and is not
    /// counted.
    pub(super) fn open(&self, face: FaceKey, who: Holder) -> Result<(), NoMemory> {
        let slot = self.slots.get_or_make(face.slot as usize, Pending::new).ok_or(NoMemory)?;
        let mut grants = self.grants.lock();
        let (share, closed) = grants.open(face, who)?;
        closed.into_iter().for_each(|closed| self.set_holder(closed));
        // Before the state is stored, so that a thread that counts for this registration finds its
        // grant. No packet of the face is under way until the home has the id.
        slot.granted.store(share.granted, Ordering::Relaxed);
        slot.holder.store(share.holder, Ordering::Relaxed);
        // Late packets of the slot's last user count no longer.
        slot.state.store(u64::from(face.generation) << 32, Ordering::Relaxed);
        self.set_holder(share);
        Ok(())
    }

    /// Forgets a face that is gone, whose records are swept.
    pub(super) fn close(&self, face: FaceKey) {
        let mut grants = self.grants.lock();
        if let (Some(closed), Some(slot)) = (grants.close(face), self.slots.get(face.slot as usize)) {
            self.set_share(slot, closed);
        }
    }

    /// Who pays for a face.
    pub(super) fn holder_of(&self, face: FaceKey) -> Holder {
        self.grants.lock().holder_of(face)
    }

    /// What the holder of a face has of the table, in grants: none if it is exempt, and all if the
    /// face is gone, whose records are nobody's.
    pub(super) fn held_for(&self, face: FaceKey) -> u32 {
        let Some(slot) = self.slots.get(face.slot as usize) else { return ALL };
        if (slot.state.load(Ordering::Relaxed) >> 32) as u32 != face.generation {
            return ALL;
        }
        match slot.holder.load(Ordering::Relaxed) {
            ROUTER_INDEX => 0,
            holder => self.holders.get(holder as usize).map_or(0, |held| held.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn counted(&self, face: FaceKey) -> usize {
        let state = self.slots.get(face.slot as usize).map_or(0, |slot| slot.state.load(Ordering::Relaxed));
        if (state >> 32) as u32 == face.generation { (state & COUNT) as usize } else { 0 }
    }

    /// Counts one more if the face may have it. Counts for further packets of the batch at the same
    /// time, which `reserve` keeps.
    #[inline]
    pub(super) fn add(&self, face: FaceKey, reserve: &Reserve) -> Result<(), PitFull> {
        if reserve.use_record(face) { Ok(()) } else { self.add_more(face, reserve) }
    }

    fn add_more(&self, face: FaceKey, reserve: &Reserve) -> Result<(), PitFull> {
        let counted = self.count(face, reserve.needed() as u32)?;
        let further = counted.saturating_sub(1);
        if further > 0 && !reserve.add_records(face, further) {
            self.uncount(face, further);
        }
        Ok(())
    }

    /// Counts one less: `reserve` keeps it for the next one of that face.
    #[inline]
    pub(super) fn sub(&self, face: FaceKey, reserve: &Reserve) {
        if !reserve.add_records(face, 1) {
            self.uncount(face, 1);
        }
    }

    /// No longer counts what `reserve` has kept.
    pub(super) fn settle(&self, reserve: &Reserve) {
        while let Some((face, records)) = reserve.take_records() {
            self.uncount(face, records);
        }
    }

    /// Counts up to `wanted` more, at least one; returns how many.
    fn count(&self, face: FaceKey, wanted: u32) -> Result<u32, PitFull> {
        let Some(slot) = self.slots.get(face.slot as usize) else { return Ok(wanted) };
        // Relaxed: generation and count are one word, and nothing else depends on it.
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if (state >> 32) as u32 != face.generation {
                // The face went while its packet was on the way; its slot counts for another now.
                return Ok(wanted);
            }
            // The grant may shrink between this load and the exchange. The count then exceeds it by
            // at most one batch, because the next batch loads the smaller grant.
            let granted = u64::from(slot.granted.load(Ordering::Relaxed));
            let counted = u64::from(wanted).min(granted.saturating_sub(state & COUNT));
            if counted == 0 {
                self.grant(slot, face, wanted)?;
                state = slot.state.load(Ordering::Relaxed);
                continue;
            }
            let next = state + counted;
            match slot.state.compare_exchange_weak(state, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(counted as u32),
                Err(now) => state = now,
            }
        }
    }

    fn uncount(&self, face: FaceKey, records: u32) {
        let Some(slot) = self.slots.get(face.slot as usize) else { return };
        let mut state = slot.state.load(Ordering::Relaxed);
        while (state >> 32) as u32 == face.generation && state & COUNT > 0 {
            let next = state - u64::from(records).min(state & COUNT);
            match slot.state.compare_exchange_weak(state, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let used = (next & COUNT) as u32;
                    let granted = slot.granted.load(Ordering::Relaxed);
                    let is_idle = granted > used.saturating_add(IDLE_MAX);
                    if is_idle && slot.holder.load(Ordering::Relaxed) != ROUTER_INDEX {
                        self.trim(slot, face);
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }

    /// Raises what a face may count, whose grant is used up.
    #[cold]
    fn grant(&self, slot: &Pending, face: FaceKey, wanted: u32) -> Result<(), PitFull> {
        // Looked at again under the lock, which is the only one under which grants change.
        let mut grants = self.grants.lock();
        let used = self.counted(face) as u32;
        if slot.granted.load(Ordering::Relaxed) > used {
            // Another worker has asked for it, or given back, meanwhile.
            return Ok(());
        }
        match grants.grant(face, wanted) {
            Some(Ok(share)) => self.set_share(slot, share),
            Some(Err(Ceiling::Face)) => return Err(PitFull::Face),
            Some(Err(Ceiling::Holder)) => return Err(PitFull::Holder),
            // Gone, and its records are swept: this one is too late to be answered.
            None => return Err(PitFull::Face),
        }
        Ok(())
    }

    #[cold]
    fn trim(&self, slot: &Pending, face: FaceKey) {
        let mut grants = self.grants.lock();
        let used = self.counted(face) as u32;
        if let Some(share) = grants.trim(face, used) {
            self.set_share(slot, share);
        }
    }

    /// Shows what was changed under the lock.
    fn set_share(&self, slot: &Pending, share: Share) {
        slot.granted.store(share.granted, Ordering::Relaxed);
        self.set_holder(share);
    }

    fn set_holder(&self, share: Share) {
        let index: HolderIndex = share.holder;
        if let Some(held) = self.holders.get_or_make(index as usize, || AtomicU32::new(0)) {
            held.store(share.of_holder, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn pending(face_max: usize, holder_max: usize) -> PendingByFace<parking_lot::RawMutex> {
        let config = Config {
            faces_max: 10,
            pit: PitLimits {
                entries_per_face_max: face_max,
                entries_per_holder_max: holder_max,
                ..PitLimits::default()
            },
            ..Config::new(|_| [0; 32])
        };
        PendingByFace::new(&config.pit, config.faces_max).unwrap()
    }

    fn alone<T>(pending: &PendingByFace<parking_lot::RawMutex>, with: impl FnOnce(&Reserve) -> T) -> T {
        let reserve = Reserve::new(1);
        let done = with(&reserve);
        pending.settle(&reserve);
        done
    }

    #[test]
    fn the_next_user_of_a_slot_starts_from_0_and_the_last_one_no_longer_counts() {
        let pending = pending(2, 100);
        let (old, new) = (FaceKey { slot: 3, generation: 1 }, FaceKey { slot: 3, generation: 2 });
        let add = |face| alone(&pending, |reserve| pending.add(face, reserve));
        let sub = |face| alone(&pending, |reserve| pending.sub(face, reserve));
        pending.open(old, Holder::Face(old)).unwrap();
        assert_eq!([add(old), add(old), add(old)], [Ok(()), Ok(()), Err(PitFull::Face)]);
        pending.open(new, Holder::Face(new)).unwrap();
        assert_eq!([add(new), add(new), add(new)], [Ok(()), Ok(()), Err(PitFull::Face)]);
        assert_eq!(add(old), Ok(()), "a late packet of a face that is gone");
        sub(old);
        assert_eq!((pending.counted(old), pending.counted(new)), (0, 2));
        pending.close(old);
        assert_eq!(pending.held_for(new), 2, "what is gone takes nothing with it");
        (0..3).for_each(|_| sub(new));
        assert_eq!(pending.counted(new), 0);
        pending.close(new);
        assert_eq!(add(new), Err(PitFull::Face), "and then it has nothing");
    }

    #[test]
    fn a_batch_counts_for_all_its_packets_at_once_and_is_refused_at_the_limit_and_no_sooner() {
        let pending = pending(20, 100);
        let face = FaceKey { slot: 3, generation: 1 };
        pending.open(face, Holder::Face(face)).unwrap();
        let reserve = Reserve::new(8);
        assert_eq!(pending.add(face, &reserve), Ok(()));
        assert_eq!(pending.counted(face), 8);
        assert!((1..20).all(|_| pending.add(face, &reserve).is_ok()));
        assert_eq!(pending.add(face, &reserve), Err(PitFull::Face));
        pending.sub(face, &reserve);
        assert_eq!(pending.counted(face), 20, "kept for the next one");
        assert!(pending.add(face, &reserve).is_ok() && pending.add(face, &reserve).is_err());
        (0..2).for_each(|_| pending.sub(face, &reserve));
        pending.settle(&reserve);
        assert_eq!(pending.counted(face), 18);
    }

    #[test]
    fn faces_of_one_holder_share_its_ceiling_and_the_routers_have_only_their_own() {
        let pending = pending(60, 100);
        let face = |slot| FaceKey { slot, generation: 1 };
        let who = Holder::Given(crate::shares::HolderId(7));
        pending.open(face(1), who).unwrap();
        pending.open(face(2), who).unwrap();
        pending.open(face(3), Holder::ROUTER).unwrap();
        let fill = |slot| {
            (0..200).find_map(|n| {
                alone(&pending, |reserve| pending.add(face(slot), reserve)).err().map(|full| (n, full))
            })
        };
        assert_eq!(fill(1), Some((60, PitFull::Face)));
        assert_eq!(fill(2), Some((40, PitFull::Holder)));
        assert_eq!(fill(3), Some((60, PitFull::Face)));
        assert_eq!([1, 2, 3].map(|slot| pending.held_for(face(slot))), [100, 100, 0]);
        (0..60).for_each(|_| alone(&pending, |reserve| pending.sub(face(1), reserve)));
        assert!(pending.held_for(face(2)) <= 40 + IDLE_MAX, "what is not used is given back");
        pending.close(face(1));
        assert_eq!(pending.held_for(face(2)), 40);
        assert_eq!(fill(2), Some((20, PitFull::Face)));
    }
}
