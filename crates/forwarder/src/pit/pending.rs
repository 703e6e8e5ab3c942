//! The number of downstream records of each face, within its grant ([`crate::shares`]), and of each
//! owner in the whole table. The records of a released face are swept. The next face in its slot
//! counts from 0.
//!
//! While a router drains, faces of other hosts have no grant. So the refusal of their Interests
//! costs the other packets nothing.

use lock_api::{Mutex, RawMutex};
use namely_messages::FaceScope;

use crate::error::ConfigError;
use crate::face_id::FaceKey;
use crate::faces::slots_max;
use crate::limits::PitLimits;
use crate::ordered::NoMemory;
use crate::pool::{Pool, page_of};
use crate::reserve::Reserve;
use crate::shares::{ALL, Ceiling, Ceilings, Grants, IDLE_MAX, Owner, OwnerIndex, ROUTER_INDEX, Share};
use crate::sync::plain::AtomicBool;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The reason for which a new Interest or a new downstream was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PitFull {
    Table,
    Face,
    Owner,
    /// The router drains, and the face is not local.
    Draining,
    InRecords,
    /// There is no memory for one more downstream.
    Memory,
}

/// Counts by face. Within a grant they are updated without a lock.
pub(super) struct PendingByFace<R> {
    slots: Pool<Pending, { page_of(16) }>,
    /// The grants of each owner, by its index; written under the lock of the grants.
    holders: Pool<AtomicU32, { page_of(64) }>,
    /// Taken when a face needs a larger grant or has too large a one, under a bucket's or an
    /// entry's lock. No other lock is taken under it.
    grants: Mutex<R, Grants>,
    /// Written under the lock of the grants, as each face's `is_remote`.
    is_draining: AtomicBool,
    slots_max: usize,
}

/// A registration's generation and its count, on a cache line of their own, so that faces of
/// different workers do not share one.
#[repr(align(64))]
struct Pending {
    state: AtomicU64,
    /// The current maximum of the count. This and `holder` are written under the lock of the
    /// grants. A thread that reads them without the lock may see them a moment late.
    granted: AtomicU32,
    holder: AtomicU32,
    is_remote: AtomicBool,
}

const COUNT: u64 = u32::MAX as u64;

impl Pending {
    fn new() -> Self {
        Pending {
            state: AtomicU64::new(0),
            granted: AtomicU32::new(0),
            holder: AtomicU32::new(ROUTER_INDEX),
            is_remote: AtomicBool::new(false),
        }
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
            is_draining: AtomicBool::new(false),
            slots_max: slots,
        })
    }

    /// Registers a face before its packets arrive. A face that is not registered has no limits and
    /// is not counted.
    pub(super) fn open(&self, face: FaceKey, owner: Owner, scope: FaceScope) -> Result<(), NoMemory> {
        let slot = self.slots.get_or_make(face.slot as usize, Pending::new).ok_or(NoMemory)?;
        let mut grants = self.grants.lock();
        let (share, closed) = grants.open(face, owner)?;
        closed.into_iter().for_each(|closed| self.set_owner(closed));
        // Stored before the state, so that a thread that counts for this registration finds its
        // grant. The face has no packet under way until the embedder has the id.
        slot.is_remote.store(scope == FaceScope::NonLocal, Ordering::Relaxed);
        slot.holder.store(share.holder, Ordering::Relaxed);
        self.set_share(slot, share);
        // Late packets of the slot's previous face no longer count.
        slot.state.store(u64::from(face.generation) << 32, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses further records of faces of other hosts from now on, also of faces that are
    /// registered later. Records that a batch in process has reserved are still used.
    pub(super) fn drain(&self) {
        let _grants = self.grants.lock();
        self.is_draining.store(true, Ordering::Relaxed);
        let slots = (0..self.slots_max).filter_map(|slot| self.slots.get(slot));
        slots.filter(|slot| self.is_refused(slot)).for_each(|slot| slot.granted.store(0, Ordering::Relaxed));
    }

    /// Returns true if the router drains and the face of `slot` is not local.
    fn is_refused(&self, slot: &Pending) -> bool {
        self.is_draining.load(Ordering::Relaxed) && slot.is_remote.load(Ordering::Relaxed)
    }

    /// Returns true if a new record of a face is refused because the router drains.
    pub(super) fn drains(&self, face: FaceKey) -> bool {
        self.slots.get(face.slot as usize).is_some_and(|slot| self.is_refused(slot))
    }

    /// Removes a face that was released and whose records are swept.
    pub(super) fn close(&self, face: FaceKey) {
        let mut grants = self.grants.lock();
        if let (Some(closed), Some(slot)) = (grants.close(face), self.slots.get(face.slot as usize)) {
            self.set_share(slot, closed);
        }
    }

    /// The owner that is charged for a face.
    pub(super) fn owner_of(&self, face: FaceKey) -> Owner {
        self.grants.lock().owner_of(face)
    }

    /// The grants of the face's owner in the table: 0 if the owner is exempt, and [`ALL`] if the
    /// face is released, because its records have no owner.
    pub(super) fn owner_grants(&self, face: FaceKey) -> u32 {
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

    /// Counts one more record if the limits of the face and of its owner allow it. Counts records
    /// for further packets of the batch at the same time, and stores these in `reserve`.
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

    /// Uncounts one record. `reserve` retains the count for the next record of that face.
    #[inline]
    pub(super) fn sub(&self, face: FaceKey, reserve: &Reserve) {
        if !reserve.add_records(face, 1) {
            self.uncount(face, 1);
        }
    }

    /// Uncounts the records that `reserve` retains.
    pub(super) fn settle(&self, reserve: &Reserve) {
        while let Some((face, records)) = reserve.take_records() {
            self.uncount(face, records);
        }
    }

    /// Counts up to `wanted` more records, at least one; returns their number.
    fn count(&self, face: FaceKey, wanted: u32) -> Result<u32, PitFull> {
        let Some(slot) = self.slots.get(face.slot as usize) else { return Ok(wanted) };
        // Relaxed: generation and count are one word, and nothing else depends on it.
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if (state >> 32) as u32 != face.generation {
                // The face was released while its packet was under way; its slot counts for another
                // face now.
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

    /// Raises the grant of a face that has used it up.
    #[cold]
    fn grant(&self, slot: &Pending, face: FaceKey, wanted: u32) -> Result<(), PitFull> {
        // Checked again under the lock, because grants change only under it.
        let mut grants = self.grants.lock();
        let used = self.counted(face) as u32;
        if slot.granted.load(Ordering::Relaxed) > used {
            // Another worker has raised the grant, or uncounted records, meanwhile.
            return Ok(());
        }
        if self.is_refused(slot) {
            return Err(PitFull::Draining);
        }
        match grants.grant(face, wanted) {
            Some(Ok(share)) => self.set_share(slot, share),
            Some(Err(Ceiling::Face)) => return Err(PitFull::Face),
            Some(Err(Ceiling::Owner)) => return Err(PitFull::Owner),
            // The face is released, and its records are swept: this packet is too late to be
            // answered.
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

    /// Publishes a share that changed under the lock.
    fn set_share(&self, slot: &Pending, share: Share) {
        let granted = if self.is_refused(slot) { 0 } else { share.granted };
        slot.granted.store(granted, Ordering::Relaxed);
        self.set_owner(share);
    }

    fn set_owner(&self, share: Share) {
        let index: OwnerIndex = share.holder;
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
    fn a_reused_slot_counts_from_zero() {
        let pending = pending(2, 100);
        let (old, new) = (FaceKey { slot: 3, generation: 1 }, FaceKey { slot: 3, generation: 2 });
        let add = |face| alone(&pending, |reserve| pending.add(face, reserve));
        let sub = |face| alone(&pending, |reserve| pending.sub(face, reserve));
        pending.open(old, Owner::Face(old), FaceScope::Local).unwrap();
        assert_eq!([add(old), add(old), add(old)], [Ok(()), Ok(()), Err(PitFull::Face)]);
        pending.open(new, Owner::Face(new), FaceScope::Local).unwrap();
        assert_eq!([add(new), add(new), add(new)], [Ok(()), Ok(()), Err(PitFull::Face)]);
        assert_eq!(add(old), Ok(()), "a late packet of a face that is gone");
        sub(old);
        assert_eq!((pending.counted(old), pending.counted(new)), (0, 2));
        pending.close(old);
        assert_eq!(pending.owner_grants(new), 2, "what is gone takes nothing with it");
        (0..3).for_each(|_| sub(new));
        assert_eq!(pending.counted(new), 0);
        pending.close(new);
        assert_eq!(add(new), Err(PitFull::Face), "and then it has nothing");
    }

    #[test]
    fn a_batch_is_refused_exactly_at_the_limit() {
        let pending = pending(20, 100);
        let face = FaceKey { slot: 3, generation: 1 };
        pending.open(face, Owner::Face(face), FaceScope::Local).unwrap();
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
    fn faces_of_one_holder_share_a_ceiling() {
        let pending = pending(60, 100);
        let face = |slot| FaceKey { slot, generation: 1 };
        let owner = Owner::Given(crate::shares::OwnerId(7));
        pending.open(face(1), owner, FaceScope::Local).unwrap();
        pending.open(face(2), owner, FaceScope::Local).unwrap();
        pending.open(face(3), Owner::ROUTER, FaceScope::Local).unwrap();
        let fill = |slot| {
            (0..200).find_map(|n| {
                alone(&pending, |reserve| pending.add(face(slot), reserve)).err().map(|full| (n, full))
            })
        };
        assert_eq!(fill(1), Some((60, PitFull::Face)));
        assert_eq!(fill(2), Some((40, PitFull::Owner)));
        assert_eq!(fill(3), Some((60, PitFull::Face)));
        assert_eq!([1, 2, 3].map(|slot| pending.owner_grants(face(slot))), [100, 100, 0]);
        (0..60).for_each(|_| alone(&pending, |reserve| pending.sub(face(1), reserve)));
        assert!(pending.owner_grants(face(2)) <= 40 + IDLE_MAX, "what is not used is given back");
        pending.close(face(1));
        assert_eq!(pending.owner_grants(face(2)), 40);
        assert_eq!(fill(2), Some((20, PitFull::Face)));
    }
}
