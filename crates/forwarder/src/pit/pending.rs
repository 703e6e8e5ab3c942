//! How many downstream records each face has. A face that is gone leaves its records to expire; its
//! slot's next user starts from 0.

use crate::config::ConfigError;
use crate::faces::{FaceKey, slots_max};
use crate::pool::Pool;
use crate::reserve::Reserve;
use crate::sync::{AtomicU64, Ordering};

/// Counts by face, without a lock.
pub(super) struct PendingByFace {
    slots: Pool<Pending, 64>,
}

/// A registration's generation and its count, on a cache line of their own: faces of different
/// workers do not disturb each other.
#[repr(align(64))]
struct Pending(AtomicU64);

const COUNT: u64 = u32::MAX as u64;

impl PendingByFace {
    pub(super) fn new(faces_max: usize) -> Result<Self, ConfigError> {
        Ok(PendingByFace { slots: Pool::new(slots_max(faces_max))? })
    }

    #[cfg(test)]
    pub(super) fn counted(&self, face: FaceKey) -> usize {
        let state = self.slots.get(face.slot as usize).map_or(0, |slot| slot.0.load(Ordering::Relaxed));
        if (state >> 32) as u32 == face.generation { (state & COUNT) as usize } else { 0 }
    }

    /// Counts one more unless the face has `most`; returns true if it did. Counts for further
    /// packets of the batch at the same time, which `reserve` keeps.
    #[inline]
    pub(super) fn add(&self, face: FaceKey, most: usize, reserve: &Reserve) -> bool {
        reserve.use_record(face) || self.add_more(face, most, reserve)
    }

    fn add_more(&self, face: FaceKey, most: usize, reserve: &Reserve) -> bool {
        let counted = self.count(face, reserve.needed() as u64, most as u64);
        let further = counted.saturating_sub(1) as u32;
        if further > 0 && !reserve.add_records(face, further) {
            self.uncount(face, u64::from(further));
        }
        counted > 0
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
            self.uncount(face, u64::from(records));
        }
    }

    /// Counts up to `wanted` more, so that the face has no more than `most`; returns how many.
    fn count(&self, face: FaceKey, wanted: u64, most: u64) -> u64 {
        let Some(slot) = self.slots.get_or_make(face.slot as usize, || Pending(AtomicU64::new(0))) else {
            return 0;
        };
        // Relaxed: generation and count are one word, and nothing else depends on it.
        let mut state = slot.0.load(Ordering::Relaxed);
        loop {
            let generation = (state >> 32) as u32;
            let (own, before) = if generation == face.generation {
                (state, state & COUNT)
            } else if (face.generation.wrapping_sub(generation) as i32) < 0 {
                // The face went while its packet was on the way; its slot counts for another now.
                return wanted;
            } else {
                (u64::from(face.generation) << 32, 0)
            };
            let counted = wanted.min(most.saturating_sub(before));
            if counted == 0 {
                return 0;
            }
            match slot.0.compare_exchange_weak(state, own + counted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return counted,
                Err(now) => state = now,
            }
        }
    }

    fn uncount(&self, face: FaceKey, records: u64) {
        let Some(slot) = self.slots.get(face.slot as usize) else { return };
        let mut state = slot.0.load(Ordering::Relaxed);
        while (state >> 32) as u32 == face.generation && state & COUNT > 0 {
            let next = state - records.min(state & COUNT);
            match slot.0.compare_exchange_weak(state, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_user_of_a_slot_starts_from_0_and_the_last_one_no_longer_counts() {
        let pending = PendingByFace::new(10).unwrap();
        let (old, new) = (FaceKey { slot: 3, generation: 1 }, FaceKey { slot: 3, generation: 2 });
        let add = |face, most| {
            let reserve = Reserve::new(1);
            let added = pending.add(face, most, &reserve);
            pending.settle(&reserve);
            added
        };
        let sub = |face| {
            let reserve = Reserve::new(1);
            pending.sub(face, &reserve);
            pending.settle(&reserve);
        };
        assert!(add(old, 2) && add(old, 2));
        assert!(!add(old, 2));
        assert!(add(new, 1));
        assert!(!add(new, 1));
        assert!(add(old, 2), "a late packet of a face that is gone");
        sub(old);
        assert_eq!((pending.counted(old), pending.counted(new)), (0, 1));
        sub(new);
        sub(new);
        assert_eq!(pending.counted(new), 0);
    }

    #[test]
    fn a_batch_counts_for_all_its_packets_at_once_and_is_refused_at_the_limit_and_no_sooner() {
        let pending = PendingByFace::new(10).unwrap();
        let face = FaceKey { slot: 3, generation: 1 };
        let reserve = Reserve::new(8);
        assert!(pending.add(face, 20, &reserve));
        assert_eq!(pending.counted(face), 8);
        assert!((1..20).all(|_| pending.add(face, 20, &reserve)));
        assert!(!pending.add(face, 20, &reserve));
        pending.sub(face, &reserve);
        assert_eq!(pending.counted(face), 20, "kept for the next one");
        assert!(pending.add(face, 20, &reserve) && !pending.add(face, 20, &reserve));
        (0..2).for_each(|_| pending.sub(face, &reserve));
        pending.settle(&reserve);
        assert_eq!(pending.counted(face), 18);
    }
}
